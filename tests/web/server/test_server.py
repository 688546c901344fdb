"""Ports, starting and stopping of the listeners; over real sockets."""

import threading

import pytest

from mailbox_appliance.web.server.server import AddressInUse, CannotListen, HttpServer
from tests.web.wire import GET, Gate, Wire, echo, eventually, listening

pytestmark = pytest.mark.usefixtures("scheme")


def test_stopping_answers_what_is_in_flight_and_ends_all_threads() -> None:
    gate = Gate()
    before = set(threading.enumerate())
    listeners = HttpServer(gate, [("127.0.0.1", 0), ("::1", 0)], workers=2)
    listeners.start()
    address = listeners.addresses[0]
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert names == {"web-worker-0", "web-worker-1", *(f"web-{host}-{port}" for host, port in listeners.addresses)}
    with Wire(address) as wire, Wire(address) as idle, Wire(address) as half, Wire(listeners.addresses[1]) as other:
        gate.occupy(wire)
        half.send(b"GET / HT")
        stopped: list[bool] = []
        stopping = threading.Thread(target=lambda: stopped.append(listeners.stop(10)))
        stopping.start()
        assert all(closed.ended() for closed in (idle, half, other))
        assert eventually(lambda: not _accepts(address))
        gate.open.set()
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert wire.ended()
        stopping.join(10)
    assert stopped == [True]
    assert set(threading.enumerate()) <= before
    assert listeners.stop(1)


def test_stopping_says_so_when_something_had_to_be_cut_off() -> None:
    gate = Gate()
    listeners = HttpServer(gate, [("127.0.0.1", 0)], workers=1)
    listeners.start()
    with Wire(listeners.addresses[0]) as wire:
        gate.occupy(wire)
        assert not listeners.stop(0.2)
        assert wire.ended()
    gate.open.set()
    assert eventually(lambda: not any(thread.name == "web-worker-0" for thread in threading.enumerate()))


def test_stopping_before_starting_frees_the_port() -> None:
    listeners = HttpServer(echo, [("127.0.0.1", 0)])
    address = listeners.addresses[0]
    assert _accepts(address)
    assert listeners.stop()
    assert not _accepts(address)


def _accepts(address: tuple[str, int]) -> bool:
    try:
        Wire(address).socket.close()
    except ConnectionError:
        return False
    return True


def test_port_0_is_the_same_free_port_for_both_loopback_addresses() -> None:
    with listening(hosts=("127.0.0.1", "::1")) as listeners:
        (first, port), (second, same) = listeners.addresses
        assert (first, second, port) == ("127.0.0.1", "::1", same)
        assert port > 0
        for address in listeners.addresses:
            with Wire(address) as wire:
                assert wire.send(GET).answer().json["environ"]["REMOTE_ADDR"] == address[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_named_with_what_to_do(host: str) -> None:
    with listening(hosts=[host]) as listeners:
        port = listeners.addresses[0][1]
        # Another program may have the same port at the other address.
        where = rf"(\[::1\]|127\.0\.0\.1):{port}" if host == "::1" else rf"127\.0\.0\.1:{port}"
        with pytest.raises(AddressInUse, match=rf"{where} is already in use\..*--port"):
            HttpServer(echo, [("127.0.0.1", port), ("::1", port)])


def test_localhost_is_both_loopback_addresses() -> None:
    with listening(hosts=["localhost"]) as listeners:
        assert [host for host, _ in listeners.addresses] == ["127.0.0.1", "::1"]
        assert len({port for _, port in listeners.addresses}) == 1


@pytest.mark.parametrize(
    "host", ["192.0.2.1", "2001:db8::1", "no such name", "mail.example.org", "127.0.0.1 10.1.1.1", "127.1", "*", ""]
)
def test_an_address_that_is_not_ours_is_named_with_what_to_do(host: str) -> None:
    with pytest.raises(CannotListen, match=r"Cannot listen on .*--host") as caught:
        HttpServer(echo, [(host, 0)])
    assert not isinstance(caught.value, AddressInUse)
