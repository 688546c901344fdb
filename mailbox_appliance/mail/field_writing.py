"""Header fields as bytes: folded at 78, ASCII, and every reader gets back the very text (RFC 5322, RFC 2047, RFC 2231).

The `email` package is not used for writing: up to 3.11 its folding loses quotes and spaces in names, leaves text that
looks like an encoded word as it is, and lets encoded line breaks out (python/cpython#121650).
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from mailbox_appliance.mail import encoded_words
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.records import Address

_FOLD_AT = 78  # RFC 5322 2.1.1
_PLAIN = re.compile(r"[!-~]{1,60}(?: [!-~]{1,60})*")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,60}(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,60})*")
_QUOTABLE = re.compile(r"[ -~]{1,60}")
_PLAIN_PARAMETER = re.compile(r"[ !#-\[\]-~]{1,60}")
_SECTION = 48  # characters of an RFC 2231 section; none is cut inside `%XX`


def field(name: str, words: Sequence[str]) -> bytes:
    """A header field with its CRLF. It may be folded between any two words, and nowhere else."""
    lines = [f"{name}:"]
    for position, word in enumerate(words):
        if position and len(lines[-1]) + 1 + len(word) > _FOLD_AT:
            lines.append("")
        lines[-1] += f" {word}"
    # UTF-8 stands only where an address has a non-ASCII local part (RFC 6532); all the rest comes here as ASCII.
    return ("\r\n".join(lines) + "\r\n").encode("utf-8", "replace")


def text(value: str) -> list[str]:
    """The words of unstructured text, such as a subject: as they are, or all of it in encoded words."""
    if not value or (_PLAIN.fullmatch(value) and "=?" not in value):
        return value.split(" ")
    return encoded_words.encode(value)


def mailboxes(addresses: Iterable[Address]) -> list[str]:
    """The words of an address list (RFC 5322 3.4). Raises ValueError for what is no address."""
    words: list[str] = []
    for address in addresses:
        if words:
            words[-1] += ","
        words += mailbox(address)
    return words


def mailbox(address: Address) -> list[str]:
    """The words of one address with its name."""
    email = to_envelope_address(address.email)
    name = address.name if isinstance(address.name, str) else ""
    return [*phrase(name), f"<{email}>"] if name else [email]


def phrase(name: str) -> list[str]:
    """The words of a display name: atoms, a quoted string, or encoded words."""
    if "=?" not in name:
        if _ATOMS.fullmatch(name):
            return name.split(" ")
        if _QUOTABLE.fullmatch(name):
            return ['"' + re.sub(r'(["\\])', r"\\\1", name) + '"']
    return encoded_words.encode(name)


def parameter(name: str, value: str) -> list[str]:
    """The words of a parameter (RFC 2045 5.1); RFC 2231 sections where it is long, quoted or not ASCII."""
    if _PLAIN_PARAMETER.fullmatch(value) and "=?" not in value:
        return [f'{name}="{value}"']
    # The first two signs are those of RFC 5987 attr-char that `quote` leaves alone; the others are safe to escape.
    escaped = re.findall(r"%..|.", "utf-8''" + quote(value, safe="", errors="replace"))
    sections = ["".join(escaped[start : start + _SECTION // 3]) for start in range(0, len(escaped), _SECTION // 3)]
    if len(sections) == 1:
        return [f"{name}*={sections[0]}"]
    words = [f"{name}*{number}*={section}" for number, section in enumerate(sections)]
    return [f"{word};" for word in words[:-1]] + words[-1:]


def with_parameters(value: str, parameters: Iterable[list[str]]) -> list[str]:
    """The words of a value followed by its parameters."""
    words = [value]
    for parameter_words in parameters:
        words[-1] += ";"
        words += parameter_words
    return words
