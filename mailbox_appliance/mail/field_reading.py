"""Header fields as they come, whatever is wrong with them: split, unfolded, decoded, with parameters (RFC 5322)."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from urllib.parse import unquote_to_bytes

from mailbox_appliance.mail import charsets, comments, encoded_words
from mailbox_appliance.mail.address import has_forbidden

MAX_HEADER = 1024 * 1024  # bytes of one header that are looked at
MAX_FIELDS = 5_000
MAX_VALUE = 64 * 1024  # bytes of one field that are looked at
_MAX_PARAMETERS = 200

# Lines that are no field, such as a "From " line of an mbox, are passed over; seen in practice amid good fields.
_FIELD = re.compile(r"^([!-9;-~]{1,200})[ \t]*:([^\n]*)", re.M)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PARAMETER = re.compile(r';\s*([^\s=;"]{1,80})\s*=\s*("(?:\\.|[^"\\])*(?:"|\Z)|[^;]*)', re.S)
_SECTION = re.compile(r"([^*]+)(?:\*(\d{1,3}))?(\*)?")

Fields = dict[str, list[str]]
"""The values of each field under its name in lower case, as `split` gives them."""


def body_start(source: bytes, start: int = 0, end: int | None = None) -> int:
    """Where the body begins, after the first blank line; the end where there is none."""
    stop = len(source) if end is None else end
    if source.startswith((b"\n", b"\r\n"), start):
        return min(stop, source.index(b"\n", start) + 1)
    first_line = source.find(b"\n", start, stop)
    usual, other = (b"\n\r\n", b"\n\n") if source[first_line - 1 : first_line] == b"\r" else (b"\n\n", b"\n\r\n")
    found = source.find(usual, start, stop)
    earlier = source.find(other, start, stop if found < 0 else found + 1)
    if earlier >= 0:
        return earlier + len(other)
    return stop if found < 0 else found + len(usual)


def split(header: bytes) -> list[tuple[str, str]]:
    """The fields as (name as written, value on one line), in their order.

    Octets that are not ASCII stand in the values as lone surrogates (PEP 383) until `readable` decodes them.
    """
    text = header[:MAX_HEADER].decode("ascii", "surrogateescape").replace("\r\n", "\n")
    text = text.replace("\n ", " ").replace("\n\t", "\t")  # RFC 5322 2.2.3
    if len(text) <= MAX_VALUE:
        return _FIELD.findall(text)[:MAX_FIELDS]
    return [(match[1], match[2][:MAX_VALUE]) for match in islice(_FIELD.finditer(text), MAX_FIELDS)]


def by_name(fields: list[tuple[str, str]]) -> Fields:
    """The values of each field under its name in lower case, in their order."""
    found: Fields = {}
    for name, value in fields:
        found.setdefault(name.lower(), []).append(value)
    return found


def first(fields: Mapping[str, list[str]], name: str) -> str:
    """The first value of a field, or nothing."""
    values = fields.get(name)
    return values[0] if values else ""


def readable(value: str, charset: str | None = None) -> str:
    """The value with encoded words as they are; 8-bit octets are UTF-8 (RFC 6532), else in `charset`."""
    if value.isascii() and not ("\x1b" in value and _is_japanese(value)):
        return value.strip()
    return _eight_bit(value.encode("ascii", "surrogateescape"), charset).strip()


def _is_japanese(value: str) -> bool:
    """Whether a value is in ISO-2022-JP as it is (RFC 1468), which is seen in practice; it ends in ASCII then."""
    _, switch, behind = value.rpartition("\x1b$")
    return bool(switch) and "\x1b(" in behind


def _eight_bit(raw: bytes, charset: str | None) -> str:
    if raw.isascii():
        return charsets.decode(raw, None)[0]
    try:
        return raw.decode()
    except UnicodeError:
        return charsets.decode(raw, charset)[0]


def text(value: str, charset: str | None = None) -> str:
    """The value as a person reads it: on one line, decoded, without controls."""
    value = value.strip()
    if "=?" not in value:
        if value.isprintable():  # all ASCII, then: the octets that are not stand as surrogates
            return value
        if (spaced := _without_tabs(value)).isprintable():
            return spaced
    value = _without_tabs(encoded_words.decode(readable(value, charset)))
    return value if value.isprintable() and "=?" not in value else without_controls(value)


def _without_tabs(value: str) -> str:
    """The value with spaces for single tabs, by which many fields are folded."""
    spaced = value.replace("\t", " ").strip() if "\t" in value and "\t\t" not in value else value
    return spaced if spaced.isprintable() else value


def without_controls(value: str) -> str:
    """Text on one line: each run of controls, tabs and line breaks is a space.

    Those that a sender hid in an encoded word inside an encoded word are disarmed too, so that an answer may quote it.
    """
    value = _CONTROLS.sub(" ", value).strip()
    return value.replace("=?", "= ?") if has_forbidden(value) else value


def parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """The value before the first `;` in lower case, and its parameters by lower-case names (RFC 2045 5.1, RFC 2231)."""
    head, semicolon, _ = value.partition(";")
    first_word = head.split(None, 1)[0] if "=" in head else ""
    if first_word and not ("=" in first_word and "/" in first_word):
        # Seen in practice: no `;` behind the value, or no value at all.
        head = "" if "=" in first_word else first_word
        value = f"{head};{value[len(head) :]}"
    elif not semicolon:
        return head.strip().lower(), {}
    found = islice(_PARAMETER.finditer(value, len(head)), _MAX_PARAMETERS)
    return head.strip().lower(), joined((match[1].lower(), _content(match[1], match[2])) for match in found)


def joined(parameters: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Parameters by their names, those that travel in sections or with a character set put together (RFC 2231)."""
    plain: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    for name, content in parameters:
        if "*" not in name:
            plain.setdefault(name, content)
        elif section := _SECTION.fullmatch(name):
            sections.setdefault(section[1], {}).setdefault(int(section[2] or 0), (content, bool(section[3])))
    # RFC 2231 forms win over plain ones: programs that write both mean the plain one for old readers.
    return plain | {name: _join(found) for name, found in sections.items()}


def _content(name: str, written: str) -> str:
    """The content of a parameter, without quotes. A comment may follow it (RFC 2045 5.1); in a file name it is none."""
    if not written.startswith('"'):
        is_name = "name" in name.lower()
        return (written if is_name or "(" not in written else comments.remove(written)).strip()
    return _unquote(written)


def _unquote(content: str) -> str:
    inner = content[1:-1] if len(content) > 1 and content.endswith('"') else content[1:]
    # Seen in practice: paths of Windows as they are. So a backslash hides only what cannot stand without one.
    return re.sub(r"\\([\"\\])", r"\1", inner) if "\\" in inner else inner


def _join(sections: Mapping[int, tuple[str, bool]]) -> str:
    """RFC 2231 3 and 4: sections in the order of their numbers, the character set in the first."""
    charset = None
    raw = b""
    for position, (content, extended) in enumerate(sections[number] for number in sorted(sections)):
        if extended and position == 0 and content.count("'") >= 2:
            charset, _, content = content.split("'", 2)
        raw += unquote_to_bytes(content) if extended else content.encode("utf-8", "replace")
    return charsets.decode(raw, charset)[0]
