"""A saved draft, of whatever program, made ready to go (RFC 5322, RFC 2045, RFC 1847)."""

from datetime import datetime

from mailbox_appliance.records import Address, Composed


def released(source: bytes, sender: Address, *, message_id: str, date: datetime) -> Composed:
    """The draft as it travels: 7-bit, without Bcc, its MIME structure and content as they were.

    Raises ValueError where it cannot go; the reason says what to do.
    """
    raise NotImplementedError
