"""Opening addresses at one port, and what to say where that is not possible."""

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from mailbox_appliance.errors import Problem
from mailbox_appliance.settings import host_for_url

if TYPE_CHECKING:
    from mailbox_appliance.web.listener import Server

log = logging.getLogger(__name__)

_ATTEMPTS = 10
#: What a machine without IPv6 does not have; every IPv4 counterpart stands before it.
_NEEDS_IPV6 = ("::1", "::")
_LOCALHOST, _LOOPBACK = "localhost", ("127.0.0.1", "::1")


class CannotListen(Problem):
    """{reason}"""  # which address, why, and what to do

    code = "cannot_listen"


class AddressInUse(CannotListen):
    """{where} is already in use. Stop the program that uses it, or choose another port with {port}."""


def cannot_listen(address: tuple[str, int], error: OSError | ValueError, *, is_secure: bool) -> CannotListen:
    """What went wrong with an address, and what to do."""
    where = _written(address)
    port, host = (_ways(name, is_secure=is_secure) for name in ("port", "host"))
    number = error.errno if isinstance(error, OSError) else errno.EINVAL
    if number == errno.EADDRINUSE:
        return AddressInUse(where=where, port=port)
    if number in (errno.EACCES, errno.EPERM):
        # On Windows a port that another program has for itself alone is refused so, too.
        often = (
            "Another program has it, or Windows keeps it" if os.name == "nt" else "Ports below 1024 are often reserved"
        )
        advice = f"{often}; choose another with {port}."
        return CannotListen(reason=f"The system does not allow listening on {where}. {advice}")
    advice = f"Choose an address of this computer with {host}."
    return CannotListen(reason=f"It is not possible to listen on {where}. {advice}")


def _ways(name: str, *, is_secure: bool) -> str:
    """How another port or host is chosen."""
    if is_secure:
        return f"`https enable --{name}`, `serve --https-{name}` or the setting server.https_{name}"
    return f"--{name} or the setting server.{name}"


def _written(address: tuple[str, int]) -> str:
    host, port = address
    return f"{host_for_url(host)}:{port}"


def socket_address(host: str, port: int) -> tuple[Any, ...]:
    """What to bind at an IP address, as `socket.getaddrinfo` tells it. No name is looked up: that may take for ever.

    Raises ValueError, OSError.
    """
    ip_address(host)
    numeric = socket.AI_NUMERICHOST | socket.AI_PASSIVE
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=numeric)
    family, kind, protocol, _, address = found[0]
    return family, kind, protocol, address


def open_all(
    open_one: Callable[[tuple[str, int]], "Server"], addresses: Sequence[tuple[str, int]]
) -> tuple["Server", ...]:
    """A listener at each address, or at none of them. Port 0 is a free port, the same for all. Raises CannotListen.

    An address is an IP address, or `localhost`: both loopback addresses.
    """
    addresses = [(one, port) for host, port in addresses for one in (_LOOPBACK if host == _LOCALHOST else (host,))]
    for attempt in range(_ATTEMPTS):
        servers: list[Server] = []
        try:
            for address in addresses:
                servers += _open_next(open_one, address, servers)
            return tuple(servers)
        except CannotListen as error:
            close_all(servers)
            # Port 0: what the system chose for the first address may be taken on the next; it chooses again.
            chosen = bool(servers) and addresses[0][1] == 0 and attempt < _ATTEMPTS - 1
            if not (chosen and isinstance(error, AddressInUse)):
                raise
    raise AssertionError("the last attempt returns or raises")


def _open_next(
    open_one: Callable[[tuple[str, int]], "Server"], address: tuple[str, int], before: Sequence["Server"]
) -> list["Server"]:
    host, port = address
    try:
        return [open_one((host, port or (before[0].address[1] if before else 0)))]
    except AddressInUse:
        raise
    except CannotListen:
        if host not in _NEEDS_IPV6 or not before:
            raise
        log.info("this computer has no IPv6")
        return []


def close_all(servers: Iterable["Server"]) -> None:
    """Close listeners whose loops do not run."""
    for server in servers:
        server.close()
