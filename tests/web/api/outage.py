"""A computer without a network, as the code in this process sees it: no name is known, every connection is refused."""

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
    """Whatever is asked for inside, no packet leaves this process."""
    _watch()
    _STANDING.append(None)
    try:
        yield
    finally:
        _STANDING.pop()


@cache
def _watch() -> None:
    """Have Python tell us what it is about to do (PEP 578); this cannot be taken back, so it happens once."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if not _STANDING or not event.startswith("socket."):
        return
    if event in _REFUSED:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    if event in _LOOKED_UP and not _is_address(arguments[0]):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def _is_address(host: object) -> bool:
    """Whether nobody has to be asked: an address written out."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in str(host) else socket.AF_INET, str(host))
    except (OSError, ValueError):
        return False
    return True
