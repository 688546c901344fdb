"""Cursors: where a list goes on, as an opaque text."""

import base64
import binascii

from mailbox_appliance.errors import Invalid


def encode_cursor(position: int | None) -> str | None:
    """The cursor of a position; None stays None, at the end of a list."""
    return None if position is None else base64.urlsafe_b64encode(str(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> int | None:
    """The position of a cursor. Raises Invalid for one that no list gave out."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        position = int(text)
    except (binascii.Error, ValueError) as error:
        raise Invalid.at("cursor", "This is no cursor of a page; take `nextCursor` as it came.") from error
    if str(position) != text or abs(position) >= 1 << 62:
        raise Invalid.at("cursor", "This is no cursor of a page; take `nextCursor` as it came.")
    return position
