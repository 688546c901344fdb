"""Cursors: where a list goes on, as an opaque text that only that list takes."""

import base64
import binascii
import zlib

from mailbox_appliance.errors import Invalid

_NONE = "This is no cursor of a page; take `nextCursor` as it came."
_FOREIGN = "This cursor is of another list; take `nextCursor` of this one, and leave its filters as they were."


def encode_cursor(position: int | None, *of: object) -> str | None:
    """The cursor of a position in the list that `of` names; None stays None, at the end of a list."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(f"{position}{_mark(of)}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *of: object) -> int | None:
    """The position of a cursor. Raises Invalid for one that no list gave out, or another one than `of` names."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        number, dot, mark = text.partition(".")
        position = int(number)
    except (binascii.Error, ValueError) as error:
        raise Invalid.at("cursor", _NONE) from error
    if str(position) != number or abs(position) >= 1 << 62:
        raise Invalid.at("cursor", _NONE)
    if dot + mark != _mark(of):
        raise Invalid.at("cursor", _FOREIGN)
    return position


def _mark(of: tuple[object, ...]) -> str:
    """What tells a list from others: a checksum against mistakes only, since what is reached is checked anew."""
    return f".{zlib.crc32(repr(of).encode('utf-8', 'surrogatepass')):x}" if of else ""
