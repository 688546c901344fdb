"""Texts that end up in a header or a protocol line: what they must be, and what they must not hold."""

from typing import Annotated

from msgspec import Meta

from mailbox_appliance import passwords
from mailbox_appliance.errors import Invalid
from mailbox_appliance.mail.address import EMAIL_PATTERN, has_forbidden

#: `expected` is what a person is told whose value does not match the pattern.
Email = Annotated[
    str,
    Meta(
        pattern=EMAIL_PATTERN,
        max_length=254,
        examples=["ada@example.org"],
        extra={"expected": "This is no mail address, such as ada@example.org."},
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
#: Of a member, a mailbox, a key.
Id = Annotated[str, Meta(min_length=1, max_length=200)]
DeviceName = Annotated[str, Meta(min_length=1, max_length=200, description="What the session is called in lists.")]
# Longer than any password may be, so that a wrong length is told as such.
Password = Annotated[str, Meta(max_length=4096)]


def refuse_controls(path: str, text: str | None) -> None:
    """Raises Invalid where a text has line breaks, NUL or other controls, openly or inside an encoded word."""
    if text and has_forbidden(text):
        raise Invalid.at(path, "Line breaks and control characters are not allowed here.")


def refuse_weak(path: str, password: str, *, name: str = "", email: str = "") -> None:
    """Raises Invalid for a new password that cannot be taken; without name and email only its length is looked at."""
    if reason := passwords.weakness(password, name=name, email=email):
        raise Invalid.at(path, reason)
