"""Read header fields leniently, however broken they are: text, parameters, addresses, dates and file names.

Fields are split, unfolded and decoded first (RFC 5322, RFC 2045, RFC 2231). Only functions named `..._strictly` raise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote_to_bytes

from mailbox_appliance.mail import encoded_words
from mailbox_appliance.mail.address import has_forbidden_characters
from mailbox_appliance.model.messages import Address

MAX_HEADER = 1024 * 1024  # bytes of one header that are read
MAX_FIELDS = 5_000
MAX_VALUE = 64 * 1024  # bytes of one field that are read
_MAX_PARAMETERS = 200

# Lines that are not fields, such as a "From " line of an mbox, are skipped; they occur among valid fields in practice.
_FIELD = re.compile(r"^([!-9;-~]{1,200})[ \t]*:([^\n]*)", re.M)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PARAMETER = re.compile(r';\s*([^\s=;"]{1,80})\s*=\s*("(?:\\.|[^"\\])*(?:"|\Z)|[^;]*)', re.S)
_PARAMETER_SECTION = re.compile(r"([^*]+)(?:\*(\d{1,3}))?(\*)?")

Fields = dict[str, list[str]]
"""The values of each field under its name in lower case, as `split` gives them."""


def body_start(source: bytes, start: int = 0, end: int | None = None) -> int:
    """Return the position of the body: after the first blank line of the message or part from `start` to `end`. The end
    if there is no blank line.
    """
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


def split_fields(header: bytes) -> list[tuple[str, str]]:
    """Return the header fields in order: name as written, and value on one line.

    Bytes outside ASCII are lone surrogates in the values (PEP 383); `decode_text` decodes them.
    """
    text = header[:MAX_HEADER].decode("ascii", "surrogateescape").replace("\r\n", "\n")
    text = text.replace("\n ", " ").replace("\n\t", "\t")  # RFC 5322 2.2.3
    if len(text) <= MAX_VALUE:
        return _FIELD.findall(text)[:MAX_FIELDS]
    return [(match[1], match[2][:MAX_VALUE]) for match in islice(_FIELD.finditer(text), MAX_FIELDS)]


def fields_by_name(fields: list[tuple[str, str]]) -> Fields:
    """Return the values of the header fields by name in lower case. The values of a repeated field stay in order."""
    found: Fields = {}
    for name, value in fields:
        found.setdefault(name.lower(), []).append(value)
    return found


def first_value(fields: Mapping[str, list[str]], name: str) -> str:
    """Return the first value of a header field, or an empty text if there is none. `name`: in lower case."""
    values = fields.get(name)
    return values[0] if values else ""


def decode_octets(value: str, charset: str | None = None) -> str:
    """Return a value from `split_fields` with its 8-bit bytes decoded: as UTF-8 (RFC 6532), otherwise in `charset`.
    Encoded words stay unchanged.
    """
    if value.isascii() and not ("\x1b" in value and _is_japanese(value)):
        return value.strip()
    return _decode_eight_bit(value.encode("ascii", "surrogateescape"), charset).strip()


def _is_japanese(value: str) -> bool:
    """Whether a value is raw ISO-2022-JP (RFC 1468) without encoded words, which occurs in practice. Such a value
    switches to Japanese by an escape, and back to ASCII before its end.
    """
    _, switch, behind = value.rpartition("\x1b$")
    return bool(switch) and "\x1b(" in behind


def _decode_eight_bit(raw: bytes, charset: str | None) -> str:
    if raw.isascii():
        return encoded_words.decode_charset(raw, None)[0]
    try:
        return raw.decode()
    except UnicodeError:
        return encoded_words.decode_charset(raw, charset)[0]


def decode_text(value: str, charset: str | None = None) -> str:
    """Return a value from `split_fields` as a person reads it: with encoded words and 8-bit bytes decoded, on one line,
    without control characters. `charset`: for bytes that are not UTF-8.
    """
    value = value.strip()
    if "=?" not in value:
        if value.isprintable():  # the text is then ASCII: other octets are surrogates
            return value
        if (spaced := _without_tabs(value)).isprintable():
            return spaced
    value = _without_tabs(encoded_words.decode_words(decode_octets(value, charset)))
    return value if value.isprintable() and "=?" not in value else without_controls(value)


def _without_tabs(value: str) -> str:
    """Return the value with each single tab replaced by a space, since many programs fold fields with a tab."""
    spaced = value.replace("\t", " ").strip() if "\t" in value and "\t\t" not in value else value
    return spaced if spaced.isprintable() else value


def without_controls(value: str) -> str:
    """Return text on one line: each run of control characters, tabs and line breaks becomes a space.

    If an encoded word remains that contains control characters, it is made invalid (`= ?`), so that the text can safely
    be put into a header field.
    """
    value = _CONTROLS.sub(" ", value).strip()
    return value.replace("=?", "= ?") if has_forbidden_characters(value) else value


def parse_parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """Return the value before the first `;` in lower case, and the parameters after it by name in lower case (RFC 2045
    5.1, RFC 2231).
    """
    head, semicolon, _ = value.partition(";")
    first_word = head.split(None, 1)[0] if "=" in head else ""
    if first_word and not ("=" in first_word and "/" in first_word):
        # Seen in practice: no `;` after the value, or no value at all.
        head = "" if "=" in first_word else first_word
        value = f"{head};{value[len(head) :]}"
    elif not semicolon:
        return head.strip().lower(), {}
    found = islice(_PARAMETER.finditer(value, len(head)), _MAX_PARAMETERS)
    return head.strip().lower(), join_parameters(
        (match[1].lower(), _parameter_content(match[1], match[2])) for match in found
    )


def join_parameters(parameters: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by name. Parameters that RFC 2231 splits into sections (`name*0`, `name*1`) are joined, and
    their character set is decoded.
    """
    plain: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    for name, content in parameters:
        if "*" not in name:
            plain.setdefault(name, content)
        elif section := _PARAMETER_SECTION.fullmatch(name):
            sections.setdefault(section[1], {}).setdefault(int(section[2] or 0), (content, bool(section[3])))
    # RFC 2231 forms have priority over plain ones: programs that write both intend the plain one for old readers.
    return plain | {name: _join_sections(found) for name, found in sections.items()}


def _parameter_content(name: str, written: str) -> str:
    """Return the value of a parameter without quotes, and without a comment after it (RFC 2045 5.1). In a file name,
    parentheses are part of the name.
    """
    if not written.startswith('"'):
        is_name = "name" in name.lower()
        return (written if is_name or "(" not in written else encoded_words.remove_comments(written)).strip()
    return _unquote(written)


def _unquote(content: str) -> str:
    inner = content[1:-1] if len(content) > 1 and content.endswith('"') else content[1:]
    # Seen in practice: unescaped Windows paths. So a backslash only escapes characters that need it.
    return re.sub(r"\\([\"\\])", r"\1", inner) if "\\" in inner else inner


def _join_sections(sections: Mapping[int, tuple[str, bool]]) -> str:
    """Return the value of a parameter from its RFC 2231 sections by number: their text, and whether it is
    percent-encoded. The first one names the character set (RFC 2231 3 and 4).
    """
    charset = None
    raw = b""
    for position, (content, extended) in enumerate(sections[number] for number in sorted(sections)):
        if extended and position == 0 and content.count("'") >= 2:
            charset, _, content = content.split("'", 2)
        raw += unquote_to_bytes(content) if extended else content.encode("utf-8", "replace")
    return encoded_words.decode_charset(raw, charset)[0]


# --- Addresses: read leniently (RFC 5322 3.4, its obsolete forms, what people write) ---


_MAX_ADDRESSES = 1_000
_LONGEST_ADDRESS = 320
_LONGEST_CACHED = 200
# The form of nearly all addresses, which needs no further parsing: `Name <a@b>` or `a@b`, up to the next comma.
_PLAIN_ADDRESSES = re.compile(
    r"""\s*(?:(?P<name>[^"(),:;<>=?]*)<(?P<angle>[^<>@\s"(),:;]+@[^<>@\s"(),:;]+)>
    | (?P<bare>[^\s"(),:;<>@=?]+@[^\s"(),:;<>@=?]+))\s*(?:,|\Z)""",
    re.X,
)
# Encoded words come first: in practice they contain raw commas and brackets that they should encode.
_ADDRESS_TOKEN = re.compile(
    r"""(?P<encoded>=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=)
    | "(?P<quoted>(?:\\.|[^"\\])*)(?:"|\Z)
    | (?P<comment>\()
    | <(?P<angle>[^<>]*)>?
    | (?P<separator>[,;])
    | (?P<group>:)
    | (?P<stray>[)>])
    | (?P<space>\s+)
    | (?P<word>[^\s",;:<>()=]+|.)""",
    re.X | re.S,
)
_BESIDE_SIGN = re.compile(r" ?([.@]) ?")
_AROUND_SIGN = re.compile(r" ?(@) ?| (\.) ?")
_EMPTY_GROUP = re.compile(r"\A\s*[^\"(),:;<>@]{1,200}:\s*;\s*(?:,|\Z)")
_SEPARATORS = re.compile("[<>,]")


def read_addresses(value: str) -> tuple[Address, ...]:
    """Return the addresses in the value of a header field, including members of groups, at most 1,000. Entries without
    an address are left out.
    """
    return _parse_addresses_cached(value) if len(value) <= _LONGEST_CACHED else _parse_addresses(value)


def _parse_addresses(value: str) -> tuple[Address, ...]:
    found = _parse_plain_addresses(value)
    return _parse_any_addresses(value) if found is None else found


# A cache: in one mailbox the same few people write, mostly to its owner.
_parse_addresses_cached = lru_cache(maxsize=1_000)(_parse_addresses)


def _parse_plain_addresses(value: str) -> tuple[Address, ...] | None:
    """Return the addresses of a field in which all have the simple form `Name <a@b>` or `a@b`."""
    found: list[Address] = []
    position = 0
    while position < len(value):
        match = _PLAIN_ADDRESSES.match(value, position)
        if match is None or len(found) >= _MAX_ADDRESSES:
            return None
        name, angle, bare = match.groups()
        found += _to_addresses(angle or bare, name or "", "")
        position = match.end()
    return tuple(found)


def _parse_any_addresses(value: str) -> tuple[Address, ...]:
    found: list[Address] = []
    entry = _AddressEntry()
    position = 0
    while position < len(value) and len(found) < _MAX_ADDRESSES:
        token = _ADDRESS_TOKEN.match(value, position)
        assert token is not None  # noqa: S101 - its last alternative takes any character
        kind, text, position = token.lastgroup or "", token[token.lastgroup or 0], token.end()
        if kind == "comment":
            start, position = position, encoded_words.comment_end(value, token.start())
            entry.add(kind, value[start:position].removesuffix(")"))
        elif kind == "separator" or (kind == "angle" and entry.angle is not None):
            # Seen in practice: no comma between two addresses. Text after the first address is the name of the second.
            words, entry.words_behind = (entry.words_behind, []) if kind == "angle" else ([], entry.words_behind)
            found += entry.addresses()
            entry = _AddressEntry(words)
            if kind == "angle":
                entry.add(kind, text)
        elif kind == "group" and not entry.holds_address():
            entry = _AddressEntry()  # RFC 5322 3.4: the text before is the name of the group.
        else:
            entry.add(kind, text)
    return (*found, *entry.addresses())[:_MAX_ADDRESSES]


def read_addresses_strictly(value: str) -> tuple[Address, ...]:
    """Return all addresses in the value of a header field of mail to be sent.

    Raises ValueError rather than lose a recipient: for a group with members, and for an entry that is not exactly one
    address. An empty group (`undisclosed-recipients:;`) is allowed and adds no address.
    """
    found: list[Address] = []
    for number, entry in enumerate(_address_entries(_EMPTY_GROUP.sub("", value)), 1):
        people = _parse_any_addresses(entry)
        if len(people) != 1:
            # Not quoted: a sender may have chosen it, and AI agents would read it as the appliance's own words.
            raise ValueError(f"its entry {number} is not a single address")
        found += people
    return tuple(found)


def _address_entries(value: str) -> Iterator[str]:
    """Yield the texts between the commas or semicolons of an address list, without empty ones. Raises ValueError for a
    group.
    """
    start = position = 0
    while position < len(value):
        token = _ADDRESS_TOKEN.match(value, position)
        assert token is not None  # noqa: S101 - its last alternative takes any character
        position = encoded_words.comment_end(value, position) if token.lastgroup == "comment" else token.end()
        if token.lastgroup == "group":
            raise ValueError("mail cannot be sent to a group: list its members instead")
        if token.lastgroup == "separator" or position >= len(value):
            entry = value[start : token.start() if token.lastgroup == "separator" else len(value)]
            start = position
            if entry.strip():  # RFC 5322 4.4: there may be nothing between two commas
                yield entry


class _AddressEntry:
    """One entry of an address list while it is parsed: name, comments and the address in angle brackets."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words = list(words)
        self.words_behind: list[str] = []  # after the address in brackets
        self.comments: list[str] = []
        self.angle: str | None = None
        self.last_kind = ""

    def add(self, kind: str, text: str) -> None:
        words = self.words if self.angle is None else self.words_behind
        if kind == "comment":
            self.comments.append(text)
        elif kind == "angle":
            self.angle = text
        elif kind == "quoted":
            words.append(re.sub(r"\\(.)", r"\1", text, flags=re.S))
        elif kind == "word" and self.last_kind == "quoted" and text.startswith("@"):
            self.angle = f'"{words.pop()}"{text}'  # RFC 5322 3.4.1: a quoted local part
        elif kind != "stray":
            words.append(text)
        self.last_kind = kind

    def holds_address(self) -> bool:
        return self.angle is not None or any("@" in word for word in self.words)

    def addresses(self) -> tuple[Address, ...]:
        name = "".join(self.words)
        if self.angle is not None:
            return _to_addresses(_bare_address(self.angle), name + "".join(self.words_behind), "".join(self.comments))
        # RFC 5322 3.4.1 and 4.4: white space around `@` and dots is not part of an address.
        words = _AROUND_SIGN.sub(r"\1\2", " ".join(name.split())).split()
        candidates = [word for word in words if "@" in word]
        if len(candidates) == 1:
            words.remove(candidates[0])
            return _to_addresses(candidates[0], " ".join(words), " ".join(self.comments))
        if candidates:
            return tuple(address for each in candidates for address in _to_addresses(each, "", ""))
        # Seen in practice: the whole of `Name <address>` inside one encoded word.
        decoded = encoded_words.decode_words(name)
        return read_addresses(decoded) if decoded != name and "@" in decoded and "=?" not in decoded else ()


def _bare_address(angle: str) -> str:
    """Return the address inside angle brackets without comments, an obsolete route, or `mailto:`."""
    if "(" in angle and ")" in angle and '"' not in angle:
        angle = encoded_words.remove_comments(angle)
    if angle.lstrip().startswith("@"):  # RFC 5322 4.4: a route
        return angle.rpartition(":")[2]
    return angle.removeprefix("mailto:")  # seen in practice


def _to_addresses(email: str, name: str, comment: str) -> tuple[Address, ...]:
    # RFC 5322 4.4: white space beside a dot or `@` is not part of it. Other white space stays: without it, the address
    # would be somebody else's.
    email = without_controls(email) if '"' in email else _BESIDE_SIGN.sub(r"\1", " ".join(email.split())).strip("'")
    email = encoded_words.decode_words(email)
    local, _, domain = email.rpartition("@")
    if not local or not domain or len(email) > _LONGEST_ADDRESS or not email.isprintable() or _SEPARATORS.search(email):
        return ()
    shown = _display_name(name) or _display_name(comment)
    if len(shown) > 1 and shown[0] == shown[-1] == "'":  # Seen in practice: 'Name' in single quotes.
        shown = shown[1:-1]
    return (Address(email=email, name=shown[:1000]) if shown and shown != email else Address(email=email),)


def _display_name(text: str) -> str:
    text = " ".join(encoded_words.decode_words(text).split()) if text else ""
    return text if text.isprintable() and "=?" not in text else without_controls(text)


# --- Dates: RFC 5322 3.3, the obsolete forms of 4.3, and other forms in practice ---


_LONGEST_DATE = 200  # characters that are read
_USUAL_DATE = re.compile(
    r"\s*(?:[A-Za-z]{3},)?\s*(\d{1,2})\s+([A-Za-z]{3})\s+(\d{4})\s+(\d\d):(\d\d)(?::(\d\d))?\s+([+-]\d\d[0-5]\d)\s*(?:\([^)]*\))?\s*"
)
_TIME = re.compile(r"(\d{1,2})\s*[:.]\s*(\d{1,2})(?:\s*[:.]\s*(\d{1,2})(?:[.,]\d{1,9})?)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSET = re.compile(r"([+-])(\d\d):?([0-5]\d)(?!\d)")
_YEAR_BEHIND = re.compile(r"(?<![+\-:\d])(\d{4})(?!\d)")
# RFC 5322 4.3 defines the American ones, and treats all others as UTC unless their meaning is known.
# fmt: off
_ZONES = {
    "EDT": -4, "EST": -5, "CDT": -5, "CST": -6, "MDT": -6, "MST": -7, "PDT": -7, "PST": -8,
    "WEST": 1, "CET": 1, "MET": 1, "CEST": 2, "MEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9,
}
# fmt: on


def read_date(value: str) -> datetime | None:
    """Return the moment of a Date field in UTC. None if it has no readable date within the years 1 to 9999."""
    value = value[:_LONGEST_DATE]
    if match := _USUAL_DATE.fullmatch(value):
        day, month, year, hour, minute, second, offset = match.groups()
        return _to_datetime(day, month, int(year), (hour, minute, second), offset)
    value = encoded_words.remove_comments(value).strip()
    return _date_from_iso(value) or _date_from_words(value)


def read_local_date(value: str) -> datetime | None:
    """Return the moment of a Date field in the UTC offset that it names, or in UTC if it names none. None if it has no
    readable date.
    """
    moment = read_date(value)
    time = _TIME.search(value[:_LONGEST_DATE])
    offset = _utc_offset(value[time.end() : _LONGEST_DATE]) if time else None
    if moment is None or not offset:
        return moment
    try:
        return moment.astimezone(timezone(timedelta(minutes=offset)))
    except (ValueError, OverflowError):
        return moment


def _date_from_words(value: str) -> datetime | None:
    """Return the moment of a date whose parts are in an unusual order or form. It finds the time of day first, then the
    other parts around it. None if that fails.
    """
    time = _TIME.search(value)
    if time is None:
        return None
    before, behind = value[: time.start()], value[time.end() :]
    numbers = re.findall(r"\d+", before)
    month = next((word for word in re.findall(r"[A-Za-z]{3,9}", before) if word[:3].lower() in _MONTHS), "")
    if len(numbers) == 1 and (year := _YEAR_BEHIND.search(behind)):  # Sun Mar  1 12:30:05 2026
        numbers.append(year[1])
    if len(numbers) != 2 or len(numbers[1]) > 4:
        return None
    return _to_datetime(numbers[0], month, _full_year(numbers[1]), time.groups(), behind)


def _full_year(digits: str) -> int:
    """Return the year for its digits as written. Two digits below 50 mean 20xx; other years of two or three digits
    count from 1900 (RFC 5322 4.3).
    """
    year = int(digits)
    if len(digits) > 3:
        return year
    return year + (2000 if len(digits) < 3 and year < 50 else 1900)


def _date_from_iso(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(re.sub(r"\s+(?=[+-]\d\d:?\d\d$)", "", value))
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _to_datetime(day: str, month: str, year: int, time: tuple[str | None, ...], zone: str) -> datetime | None:
    hour, minute, second = (int(part or 0) for part in time)
    offset = _utc_offset(zone)
    if month[:3].lower() not in _MONTHS or offset is None:
        return None
    try:
        # A leap second counts as the last second of its minute.
        local = datetime(
            year, _MONTHS.index(month[:3].lower()) + 1, int(day), hour, minute, min(second, 59), tzinfo=UTC
        )
        return local - timedelta(minutes=offset)
    except (ValueError, OverflowError):
        return None


def _utc_offset(zone: str) -> int | None:
    """Return the UTC offset in minutes that a text contains, positive to the east."""
    if match := _OFFSET.search(zone):
        minutes = int(match[2]) * 60 + int(match[3])
        return -minutes if match[1] == "-" else minutes
    if re.search(r"[+-]\s*\d{5}", zone):
        return None
    return next((60 * _ZONES[word.upper()] for word in re.findall(r"[A-Za-z]+", zone) if word.upper() in _ZONES), 0)


# --- File names: a bare name, safe to show and to save, the same in a list and on the wire (RFC 2183 2.3) ---


_LONGEST_FILE_NAME = 200
# Controls, line separators, and the marks that reverse the direction of text around them.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "message/global": ".eml",
    "message/rfc822": ".eml",
    "text/calendar": ".ics",
    "text/html": ".html",
    "text/plain": ".txt",
}


def read_file_name(value: str) -> str:
    """Return the file name from a parameter of a header field, safe to show; empty if nothing remains.

    Encoded words are decoded: they do not belong there (RFC 2047 5), but many programs write them.
    """
    return safe_file_name(encoded_words.decode_words(value))


def safe_file_name(name: str) -> str:
    """Return a file name that is safe to show and to save: no folders, no control characters or direction controls, at
    most 200 characters. Empty if nothing remains.
    """
    name = without_controls(_UNSEEN.sub("", name)).replace("\\", "/").rpartition("/")[2].strip()
    if not name.strip(". "):
        return ""
    stem, dot, extension = name.rpartition(".")
    if len(name) <= _LONGEST_FILE_NAME or not dot or len(extension) > 20:
        return name[:_LONGEST_FILE_NAME].rstrip()
    return f"{stem[: _LONGEST_FILE_NAME - 1 - len(extension)]}.{extension}"


def default_file_name(stem: str, mime_type: str) -> str:
    """Return a name for a file that has none: the stem with the usual extension of its type, if one is known."""
    return stem + _EXTENSIONS.get(mime_type, "")


# --- Fields as written ---

_WRITTEN_FIELD = re.compile(rb"^([!-9;-~]{1,200})[ \t]*:([^\n]*(?:\n[ \t][^\n]*)*)$", re.M)


def fields_of(header: bytes) -> Iterator[tuple[str, bytes, str]]:
    """Yield the header fields in order: name in lower case, the lines as written (with line feeds), and the value on
    one line.

    Bytes outside ASCII are lone surrogates in the value (PEP 383). Lines that are not fields are skipped.
    """
    for match in _WRITTEN_FIELD.finditer(header.replace(b"\r\n", b"\n")):
        value = match[2].replace(b"\n", b"").decode("ascii", "surrogateescape")
        yield match[1].decode().lower(), match[0], value
