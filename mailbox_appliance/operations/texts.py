"""Texts that end up in a header or a protocol line: what they must not hold."""

from mailbox_appliance.errors import Invalid
from mailbox_appliance.mail.address import has_forbidden


def refuse_controls(path: str, text: str | None) -> None:
    """Raises Invalid where a text has line breaks, NUL or other controls, openly or inside an encoded word."""
    if text and has_forbidden(text):
        raise Invalid.at(path, "Line breaks and control characters are not allowed here.")
