"""A computer without a network, for the code in this process: names do not resolve, connections are refused."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_REFUSED = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOKED_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
_STANDING: list[None] = []


@contextmanager
def no_network() -> Iterator[None]:
    """Let no packet leave this process in this context."""
    _watch()
    _STANDING.append(None)
    try:
        yield
    finally:
        _STANDING.pop()


@cache
def _watch() -> None:
    """Add an audit hook for Python's network calls (PEP 578), once, since it cannot be removed."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if not _STANDING or not event.startswith("socket."):
        return
    if event in _REFUSED:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    if event in _LOOKED_UP and not _is_address(arguments[0]):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def _is_address(host: object) -> bool:
    """Whether a host is a literal address, which needs no lookup."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in str(host) else socket.AF_INET, str(host))
    except (OSError, ValueError):
        return False
    return True
