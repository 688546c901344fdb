"""Groups of listeners: opened, given another certificate and closed while others serve; many clients; over real
sockets.
"""

import ast
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import mailbox_appliance
from mailbox_appliance.web.server.memory import ServerBounds
from mailbox_appliance.web.server.selector import PeerLimits
from mailbox_appliance.web.server.server import AddressInUse, CannotListen, HttpServer, ListenerGroup
from tests.servers.certificates import any_certificate
from tests.web.wire import (
    GET,
    LARGE,
    OVER_TLS,
    PATIENCE,
    POST,
    Gate,
    Wire,
    certificate,
    echo,
    eventually,
    hashing,
    is_served,
    listening,
)

ANYWHERE = [("127.0.0.1", 0), ("::1", 0)]


@pytest.fixture
def opened() -> Iterable[Callable[..., ListenerGroup]]:
    """Return a function that opens another group over TLS, to which `Wire` connects with TLS."""
    addresses: set[tuple[str, int]] = set()

    def open_group(listeners: HttpServer, where: Iterable[tuple[str, int]] = ANYWHERE) -> ListenerGroup:
        group = listeners.open(list(where), certificate())
        addresses.update(group.addresses)
        OVER_TLS.update(group.addresses)
        return group

    yield open_group
    OVER_TLS.difference_update(addresses)


def fingerprint(address: tuple[str, int]) -> str:
    """Return the fingerprint of the certificate that a new connection gets."""
    with socket.create_connection(address, PATIENCE) as plain, any_certificate().wrap_socket(plain) as client:
        return hashlib.sha256(client.getpeercert(binary_form=True) or b"").hexdigest()


def scheme_of(address: tuple[str, int]) -> str:
    with Wire(address) as wire:
        return str(wire.send(GET).answer().json["environ"]["wsgi.url_scheme"])


# Opening.


def test_both_kinds_are_served_by_the_same_workers(opened: Callable[..., ListenerGroup]) -> None:
    before = set(threading.enumerate())
    listeners = HttpServer(echo, [("127.0.0.1", 0)], workers=2)
    early = opened(listeners)
    listeners.start()
    late = opened(listeners)
    try:
        assert scheme_of(listeners.addresses[0]) == "http"
        assert {scheme_of(address) for group in (early, late) for address in group.addresses} == {"https"}
        threads = {thread.name for thread in set(threading.enumerate()) - before}
        assert {name for name in threads if "worker" in name} == {"web-worker-0", "web-worker-1"}
    finally:
        assert listeners.stop(PATIENCE)
    assert set(threading.enumerate()) <= before
    with pytest.raises(CannotListen, match="is stopping"):
        listeners.open(ANYWHERE, certificate())


def test_one_port_for_all_addresses_of_the_computer(opened: Callable[..., ListenerGroup]) -> None:
    with listening() as listeners:
        group = opened(listeners, [("0.0.0.0", 0), ("::", 0)])
        (first, port), (second, same) = group.addresses
        assert (first, second, port) == ("0.0.0.0", "::", same)
        OVER_TLS.update({("127.0.0.1", port), ("::1", port)})
        try:
            assert is_served(("127.0.0.1", port))
            assert is_served(("::1", port))
        finally:
            OVER_TLS.difference_update({("127.0.0.1", port), ("::1", port)})


def test_a_port_that_is_taken_or_an_address_that_is_not_ours_is_named_with_what_to_do() -> None:
    with listening() as listeners:
        taken = listeners.addresses[0][1]
        before = len(listeners.servers)
        with pytest.raises(AddressInUse, match=r"https enable --port`, .* or the setting server\.https_port"):
            listeners.open([("127.0.0.1", taken)], certificate())
        with pytest.raises(CannotListen, match=r"https enable --host`, .* or the setting server\.https_host"):
            listeners.open([("192.0.2.77", 0)], certificate())
        assert len(listeners.servers) == before
        assert is_served(listeners.addresses[0])


@pytest.mark.parametrize(
    ("host", "many"),
    [("127.0.0.1", True), ("::1", True), ("192.0.2.1", True), ("192.0.2.2", False), ("fe80::1%eth0", True)],
)
def test_who_speaks_for_many(host: str, many: bool) -> None:
    places = PeerLimits(trusted=lambda address: address in ("192.0.2.1", "fe80::1"))
    assert places.is_shared_peer(host) is many


# Another certificate.


def test_a_new_certificate_is_for_new_connections_and_disturbs_no_other(opened: Callable[..., ListenerGroup]) -> None:
    with listening(hashing) as listeners:
        group = opened(listeners)
        address = group.addresses[0]
        with Wire(address) as idle, Wire(address) as up, Wire(address) as down:
            up.send(POST + b"Content-Length: %d\r\n\r\n" % len(LARGE)).send(LARGE[: len(LARGE) // 2])
            down.send(GET.replace(b"/a", b"/large"))
            seen = {fingerprint(address)}
            for name in ("second", "third"):
                group.use_certificate(certificate(name))
                seen |= {fingerprint(one) for one in group.addresses}
            assert len(seen) == 3
            up.send(LARGE[len(LARGE) // 2 :])
            assert up.answer().body.decode() == hashlib.sha256(LARGE).hexdigest()
            assert down.answer().body == LARGE
            assert idle.send(GET).answer().status == 200


# Closing.


def test_a_group_that_is_closed_answers_what_it_was_asked_and_leaves_its_port(
    opened: Callable[..., ListenerGroup],
) -> None:
    gate = Gate()
    with listening(gate, bounds=ServerBounds(first_bytes=0.2)) as listeners:
        group = opened(listeners)
        address = group.addresses[0]
        upload = POST + b"Content-Length: 9\r\n\r\n"
        with Wire(address) as wire, Wire(address) as idle, Wire(address) as half, Wire(address, plain=True) as silent:
            gate.occupy(wire)
            half.send(upload + b"1234")
            assert idle.send(GET).answer().status == 200
            group.close()
            assert idle.socket.recv(1) == b""
            assert silent.ended()
            again = opened(listeners, group.addresses)
            assert again.addresses == group.addresses
            assert is_served(address)
            answer = half.send(b"56789").answer()
            assert (answer.json["size"], answer.headers["connection"]) == (9, "close")
            assert half.socket.recv(1) == b""
            assert not group.has_ended
            gate.open.set()
            assert wire.answer().status == 200
            assert wire.socket.recv(1) == b""
        assert eventually(lambda: group.has_ended)
        again.close()
        assert not is_served(address)
        assert is_served(listeners.addresses[0])


def test_a_request_may_close_the_group_that_it_came_by(opened: Callable[..., ListenerGroup]) -> None:
    groups: list[ListenerGroup] = []

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        groups[0].close()
        return echo(environ, start_response)

    with listening(app) as listeners:
        groups.append(opened(listeners))
        with Wire(groups[0].addresses[0]) as wire:
            answer = wire.send(GET).answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert wire.socket.recv(1) == b""
        assert eventually(lambda: groups[0].has_ended)


def test_a_group_that_is_closed_ends_in_time_whoever_is_left(opened: Callable[..., ListenerGroup]) -> None:
    gate = Gate()
    with listening(gate, request_timeout=1) as listeners:
        group = opened(listeners)
        with Wire(group.addresses[0]) as wire, Wire(group.addresses[1]) as half:
            gate.occupy(wire)
            half.send(b"GET / HT")
            group.close(timeout=0.2)
            assert eventually(lambda: group.has_ended)
            assert wire.ended()
            assert half.ended()
        gate.open.set()


def test_a_group_may_be_closed_before_it_began(opened: Callable[..., ListenerGroup]) -> None:
    listeners = HttpServer(echo, [("127.0.0.1", 0)])
    group = opened(listeners)
    group.close()
    assert group.has_ended
    listeners.start()
    assert group._threads == []
    assert not is_served(group.addresses[0])
    assert listeners.stop(PATIENCE)


def test_stopping_while_a_closed_group_still_answers_waits_for_both(opened: Callable[..., ListenerGroup]) -> None:
    gate = Gate()
    with listening(gate) as listeners:
        group = opened(listeners)
        with Wire(group.addresses[0]) as wire, Wire(listeners.addresses[0]) as other:
            gate.occupy(wire)
            gate.occupy(other)
            group.close()
            threading.Timer(0.1, gate.open.set).start()
            assert listeners.stop(PATIENCE)
            assert [one.answer().status for one in (wire, other)] == [200, 200]


# Connections that continue.


def test_figures(opened: Callable[..., ListenerGroup]) -> None:
    gate = Gate()
    with listening(gate, workers=1) as listeners:
        group = opened(listeners)
        with Wire(group.addresses[0]) as wire, Wire(listeners.addresses[0]) as other, Wire(group.addresses[0]):
            gate.occupy(wire)
            other.send(GET)
            assert eventually(lambda: listeners.stats().waiting_requests == 1)
            figures = listeners.stats()
            assert (figures.connections_http, figures.connections_https, figures.busy_workers) == (1, 2, 1)
            with Wire(group.addresses[0], plain=True) as wrong:
                assert wrong.send(GET).ended() or wrong.rest
            assert eventually(lambda: listeners.stats().handshakes_failed == 1)
            gate.open.set()
            assert [one.answer().status for one in (wire, other)] == [200, 200]
        assert eventually(lambda: listeners.stats().busy_workers == 0)
        group.close()
        assert eventually(lambda: group.has_ended)
        opened(listeners)
        assert group.servers[0] not in listeners.servers
        assert listeners.stats().handshakes_failed == 1


def test_a_crowd_that_stalls_holds_up_nobody() -> None:
    with ExitStack() as stack:
        listeners = stack.enter_context(listening(context=certificate(), per_local_peer=60))
        address = listeners.addresses[0]
        sources = [f"127.0.0.{number}" for number in range(2, 12)]
        for number in range(300):
            stack.enter_context(Wire(address, sources[number % 10], plain=True)).socket.send(
                b"\x16\x03\x01"[: number % 4]
            )
        for number, begun in enumerate([b"GET / HTTP/1.1\r\nHo", POST + b"Content-Length: 100\r\n\r\na"] * 60):
            stack.enter_context(Wire(address, sources[number % 10])).send(begun)
        assert listeners.stats().connections_https == 420
        for _ in range(10):
            begun_at = time.monotonic()
            assert is_served(address)
            assert time.monotonic() - begun_at < 5  # a client that waits for one of those waits for ten seconds or more


# Nothing else listens.


def test_nothing_in_the_package_listens_but_these_listeners() -> None:
    root = Path(mailbox_appliance.__file__).parent
    found = {
        f"{file.relative_to(root)}:{name}"
        for file in sorted(root.rglob("*.py"))
        if "waitress" in (source := file.read_text()) or "http.server" in source
        for name in _names(ast.parse(source))
        if name in ("serve", "create_server", "TcpWSGIServer", "UnixWSGIServer", "MultiSocketServer")
        or name.endswith("HTTPServer")
    }
    # A command that waits for a sign-in in the browser listens for that time, on this computer (RFC 8252 7.3).
    assert found == {"web/server/server.py:TcpWSGIServer", "cli/loopback.py:ThreadingHTTPServer"}


def _names(tree: ast.AST) -> Iterable[str]:
    """Yield the names that are imported from Waitress or http.server, or used from these modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("waitress", "http"):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "waitress":
            yield node.attr


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs /proc")
def test_every_listening_socket_belongs_to_a_listener(opened: Callable[..., ListenerGroup]) -> None:
    before = _listening_here()
    with listening(hosts=("127.0.0.1", "::1")) as listeners:
        group = opened(listeners)
        assert _listening_here() - before == {*listeners.addresses, *group.addresses}
        group.close()
        assert _listening_here() - before == set(listeners.addresses)
    assert _listening_here() == before


def _listening_here() -> set[tuple[str, int]]:
    """Return the addresses where this process listens, as the system reports them."""
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            inodes.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1]))
    return found


def _address(field: str) -> tuple[str, int]:
    host, _, port = field.partition(":")
    words = [bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)), int(port, 16)
