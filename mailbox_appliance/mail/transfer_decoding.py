"""Content-Transfer-Encodings decoded piece by piece, as large parts come in (RFC 2045 6). Broken ones never raise.

What it gives is what `mail.parse` gives for the same part as a whole; only a few bytes are held back between pieces.
"""

import binascii
import re
from collections.abc import Iterable, Iterator

from mailbox_appliance.mail import structure

_OUTSIDE_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))
_RUNS = re.compile(rb"=+|[^=]+")
_LONGEST_LINE = 64 * 1024  # bytes held back of a quoted-printable line; RFC 2045 6.7 (5) allows 76


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The bytes of a part, decoded; an encoding that is not known leaves them as they are."""
    name = encoding.strip().lower()
    if name.startswith("base64"):
        return _from_base64(pieces)
    if name.startswith("quoted-printable"):
        return _from_quoted_printable(pieces)
    return iter(pieces)


def _from_base64(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What is no base64 is skipped (RFC 2045 6.8), and padding that can end nothing; after any other the data ends."""
    held, has_ended = b"", False
    padding = _Padding()
    for piece in pieces:
        if has_ended:
            continue  # whoever gives the pieces should come to the end of them
        data, has_ended = padding.strip(piece.translate(None, _OUTSIDE_BASE64))
        held += data
        whole = len(held) // 4 * 4
        if whole:
            yield binascii.a2b_base64(held[:whole])
            held = held[whole:]
    if len(held) > 1:  # six bits alone are no byte
        yield binascii.a2b_base64(held + b"=" * (-len(held) % 4))


class _Padding:
    """Tells padding that ends the data from other `=`, as `binascii` does: it must fill up a group of four."""

    def __init__(self) -> None:
        self._place = self._signs = 0  # characters of the group that is begun, and `=` behind them

    def strip(self, piece: bytes) -> tuple[bytes, bool]:
        """The piece up to the padding that ends the data, without other padding, and whether there was one."""
        if b"=" not in piece:
            self._pass(len(piece))
            return piece, False
        kept: list[bytes] = []
        for run in _RUNS.findall(piece):
            if not run.startswith(b"="):
                kept.append(run)
                self._pass(len(run))
            elif self._place >= 2:
                self._signs += len(run)
                if self._place + self._signs >= 4:
                    return b"".join(kept), True
        return b"".join(kept), False

    def _pass(self, count: int) -> None:
        if count:
            self._place, self._signs = (self._place + count) % 4, 0


def _from_quoted_printable(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Line by line: white space at the end of a line was added on the way (RFC 2045 6.7 (3))."""
    held = b""
    for piece in pieces:
        held += piece
        cut = held.rfind(b"\n") + 1
        if not cut and len(held) > _LONGEST_LINE:
            cut = _safe_cut(held)
        if cut:
            yield structure.from_quoted_printable(held[:cut])
            held = held[cut:]
    if held:
        yield structure.from_quoted_printable(held)


def _safe_cut(held: bytes) -> int:
    """Where a line without end may be cut: not in an escape, and not before white space whose end is not seen yet."""
    end = len(held.rstrip(b" \t\r"))
    return end if b"=" not in held[max(0, end - 2) : end] else held.rindex(b"=", 0, end)
