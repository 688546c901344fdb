"""Which clients get a connection when there are many, and the effect of many on the others; over real sockets."""

import errno
import os
import resource
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest

from mailbox_appliance.web.server.memory import ServerBounds
from mailbox_appliance.web.server.server import HttpListener
from tests.web.wire import GET, POST, Gate, Wire, eventually, is_answered, is_served, listening


@pytest.mark.usefixtures("scheme")
def test_a_peer_whose_connections_are_all_busy_gets_no_more() -> None:
    gate = Gate()
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(gate, workers=4, per_local_peer=3))
        address = listeners.addresses[0]
        busy = [stack.enter_context(Wire(address)) for _ in range(3)]
        for wire in busy:
            gate.occupy(wire)
        assert stack.enter_context(Wire(address)).ended()
        assert stack.enter_context(Wire(address, source="127.0.0.2")).send(GET).answer().status == 200
        gate.open.set()
        assert [wire.answer().status for wire in busy] == [200] * 3
        busy[0].socket.close()
        assert eventually(lambda: is_served(address))


@pytest.mark.usefixtures("scheme")
@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", POST + b"Content-Length: 5\r\n\r\na"], ids=["idle", "header", "body"]
)
@pytest.mark.parametrize(
    "numbers", [{"per_local_peer": 3}, {"bounds": ServerBounds(connections=3)}], ids=["peer", "listener"]
)
def test_at_the_limit_the_connection_that_waits_longest_makes_room(begun: bytes, numbers: dict[str, Any]) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(listening(**numbers)).addresses[0]
        first, second, third = [stack.enter_context(Wire(address)).send(begun) for _ in range(3)]
        for longest in (first, second):
            assert eventually(lambda: is_answered(stack.enter_context(Wire(address))))  # once the waiting time is over
            assert longest.ended()
        del third


@pytest.mark.usefixtures("scheme")
def test_new_connections_do_not_push_out_those_that_only_just_came() -> None:
    bounds = ServerBounds(local_patience=60)
    with ExitStack() as stack:
        address = stack.enter_context(listening(per_local_peer=2, bounds=bounds)).addresses[0]
        first, second = stack.enter_context(Wire(address)), stack.enter_context(Wire(address))
        assert stack.enter_context(Wire(address)).ended()
        assert [wire.send(GET).answer().status for wire in (first, second)] == [200, 200]


@pytest.mark.parametrize(
    ("host", "same", "other"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::1"),
        ("fe80::1%eth0", "fe80::2%eth0", "2001:db8::1"),
        ("::1", "::1", "192.0.2.1"),
    ],
)
def test_peers_are_ipv4_addresses_and_ipv6_networks(host: str, same: str, other: str) -> None:
    assert HttpListener.peer_of(host) == HttpListener.peer_of(same)
    assert HttpListener.peer_of(host) != HttpListener.peer_of(other)


@pytest.mark.parametrize("per_local_peer", [256, 1_000], ids=["the default", "room for all"])
def test_six_hundred_slow_clients_hold_up_nobody(per_local_peer: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_000, hard), hard))
    try:
        with ExitStack() as stack:
            address = stack.enter_context(listening(per_local_peer=per_local_peer)).addresses[0]
            for begun in [b"GET / HTTP/1.1\r\nHo"] * 300 + [POST + b"Content-Length: 100\r\n\r\na"] * 300:
                wire = stack.enter_context(Wire(address))
                try:
                    wire.send(begun)
                except ConnectionError:
                    assert per_local_peer == 256
            # Once the waiting time is over for all connections of this local peer, and not only for the first of them.
            assert eventually(lambda: all(is_served(address) for _ in range(20)))
            for _ in range(20):
                with Wire(address) as wire:
                    begun_at = time.monotonic()
                    assert wire.send(GET).answer().status == 200
                    assert time.monotonic() - begun_at < 10  # a client that waits for one of those waits for a minute
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_when_files_run_out_a_connection_that_waits_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        address = stack.enter_context(listening(request_timeout=0.4)).addresses[0]
        idle = [stack.enter_context(Wire(address)) for _ in range(3)]
        assert [wire.send(GET).answer().status for wire in idle] == [200] * 3
        late = stack.enter_context(socket.socket())
        late.settimeout(10)
        # Free numbers below the limit would still be used: fill the gaps, then set the limit.
        highest = max(int(number) for number in os.listdir("/proc/self/fd"))
        fillers = [stack.enter_context(open(os.devnull))]
        while fillers[-1].fileno() < highest:
            fillers.append(stack.enter_context(open(os.devnull)))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(file.fileno() for file in fillers) + 1, hard))
        try:
            late.connect(address)
            late.sendall(GET)
            assert late.recv(100).startswith(b"HTTP/1.1 200")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert idle[0].ended()
        assert eventually(lambda: [record.message for record in caplog.records] == ["no_file_descriptors"])
        assert vars(caplog.records[0])["errno"] == errno.EMFILE
        assert vars(caplog.records[0])["times"] >= 1
