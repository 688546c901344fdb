"""Texts that end up in a header or a protocol line: what they must be, and what they must not hold."""

from typing import Annotated

from msgspec import Meta

from mailbox_appliance.errors import Invalid
from mailbox_appliance.mail.address import EMAIL_PATTERN, has_forbidden_characters
from mailbox_appliance.security import passwords

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
# What turns the direction of the text around it (Unicode TR 9), and what no one can see: white space, controls and what
# is ignored by default (TR 44). Astral characters stand as themselves: ECMA 262 has no escape for them that Python has.
_TURNING = r"\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_READABLE = rf"^[^{_TURNING}]*[^{_INVISIBLE}][^{_TURNING}]*$"
_EXPECTED = {"expected": "This needs a character that can be seen, and none that turns the direction of text."}
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_READABLE, extra=_EXPECTED)]
#: Of a member, a mailbox, a key.
Id = Annotated[str, Meta(min_length=1, max_length=200)]
DeviceName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=_READABLE,
        description="What the session is called in lists.",
        extra=_EXPECTED,
    ),
]
# Longer than any password may be, so that a wrong length is told as such.
Password = Annotated[str, Meta(max_length=4096)]


def refuse_controls(path: str, text: str | None) -> None:
    """Raises Invalid where a text has line breaks, NUL or other controls, openly or inside an encoded word."""
    if text and has_forbidden_characters(text):
        raise Invalid.at(path, "Line breaks and control characters are not allowed here.")


def refuse_weak(path: str, password: str, *, name: str = "", email: str = "") -> None:
    """Raises Invalid for a new password that cannot be taken; without name and email only its length is looked at."""
    if reason := passwords.weakness(password, name=name, email=email):
        raise Invalid.at(path, reason)
