"""Waiting in IDLE (RFC 2177), by lines of our own: imapclient takes a dead connection for a quiet one, and news that
come before the `+` for a fault."""

import selectors
import socket
import time

from mailbox_appliance.remote.imap_protocol import Protocol

_TAG = b"idle"


def wait(protocol: Protocol, timeout: float, wake: socket.socket | None) -> bool:
    """True when the server told of a change. Ends after `timeout` seconds or when `wake` is readable.

    Raises OSError when the connection ends, TimeoutError when the server does not answer.
    """
    protocol.send(_TAG + b" IDLE\r\n")
    changed = False
    while not (line := _line(protocol)).startswith(b"+"):
        _refuse_tagged(line)
        changed = changed or _is_change(line)
    deadline = time.monotonic() + timeout
    while not changed and _readable(protocol, wake, deadline):
        protocol.channel.begin()
        changed = _is_change(_line(protocol))
    protocol.send(b"DONE\r\n")
    while not (line := _line(protocol)).startswith(_TAG):
        changed = changed or _is_change(line)
    return changed


def _line(protocol: Protocol) -> bytes:
    line = protocol.readline()
    if not line or line[:6].upper() == b"* BYE ":
        raise ConnectionResetError
    return line


def _refuse_tagged(line: bytes) -> None:
    if line.startswith(_TAG):
        raise Protocol.error("IDLE was refused though it was offered")


def _is_change(line: bytes) -> bool:
    """Whether an untagged line tells of the folder. Seen in practice: `* OK Still here` every two minutes."""
    return line.startswith(b"* ") and line[2:5].upper() not in (b"OK ", b"NO ", b"BAD")


def _readable(protocol: Protocol, wake: socket.socket | None, deadline: float) -> bool:
    """Whether the server spoke before the deadline; False also when `wake` is readable."""
    if protocol.channel.is_pending():
        return True
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    with selectors.DefaultSelector() as selector:
        for one in [protocol.channel.sock, *([] if wake is None else [wake])]:
            selector.register(one, selectors.EVENT_READ)
        ready = [key.fileobj for key, _ in selector.select(left)]
    return protocol.channel.sock in ready and wake not in ready
