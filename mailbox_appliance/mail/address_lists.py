"""Lists of addresses out of header fields, read leniently (RFC 5322 3.4, its obsolete forms, what people write)."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mailbox_appliance.mail import comments, encoded_words
from mailbox_appliance.mail.field_reading import without_controls
from mailbox_appliance.model.records import Address

_MAX_ADDRESSES = 1_000
_LONGEST = 320
_LONGEST_REMEMBERED = 200
# An address as nearly all are written, which needs no closer look: `Name <a@b>` or `a@b`, up to the next comma.
_PLAIN = re.compile(
    r"""\s*(?:(?P<name>[^"(),:;<>=?]*)<(?P<angle>[^<>@\s"(),:;]+@[^<>@\s"(),:;]+)>
    | (?P<bare>[^\s"(),:;<>@=?]+@[^\s"(),:;<>@=?]+))\s*(?:,|\Z)""",
    re.X,
)
# Encoded words come first: seen in practice, they hold the commas and brackets that they are there to hide.
_TOKEN = re.compile(
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


def read(value: str) -> tuple[Address, ...]:
    """The addresses of an unfolded field, with those of groups, at most 1,000. What has no address is left out."""
    return _remembered(value) if len(value) <= _LONGEST_REMEMBERED else _read(value)


def _read(value: str) -> tuple[Address, ...]:
    found = _read_plain(value)
    return _read_any(value) if found is None else found


# In one mailbox the same few people write, and mostly to its owner.
_remembered = lru_cache(maxsize=1_000)(_read)


def _read_plain(value: str) -> tuple[Address, ...] | None:
    """The addresses of a field that holds only plain ones; None for another."""
    found: list[Address] = []
    position = 0
    while position < len(value):
        match = _PLAIN.match(value, position)
        if match is None or len(found) >= _MAX_ADDRESSES:
            return None
        name, angle, bare = match.groups()
        found += _made(angle or bare, name or "", "")
        position = match.end()
    return tuple(found)


def _read_any(value: str) -> tuple[Address, ...]:
    found: list[Address] = []
    entry = _Entry()
    position = 0
    while position < len(value) and len(found) < _MAX_ADDRESSES:
        token = _TOKEN.match(value, position)
        assert token is not None  # noqa: S101 - its last alternative takes any character
        kind, text, position = token.lastgroup or "", token[token.lastgroup or 0], token.end()
        if kind == "comment":
            start, position = position, comments.end_of(value, token.start())
            entry.add(kind, value[start:position].removesuffix(")"))
        elif kind == "separator" or (kind == "angle" and entry.angle is not None):
            # Seen in practice: no comma between two. What stands behind the first address is the name of the second.
            words, entry.words_behind = (entry.words_behind, []) if kind == "angle" else ([], entry.words_behind)
            found += entry.addresses()
            entry = _Entry(words)
            if kind == "angle":
                entry.add(kind, text)
        elif kind == "group" and not entry.holds_address():
            entry = _Entry()  # RFC 5322 3.4: what stands before is the name of the group.
        else:
            entry.add(kind, text)
    return (*found, *entry.addresses())[:_MAX_ADDRESSES]


def read_strictly(value: str) -> tuple[Address, ...]:
    """As `read`, for a field of which nothing may be lost. Raises ValueError for a group and for what is no address.

    An empty group (`undisclosed-recipients:;`) is nobody.
    """
    found: list[Address] = []
    for number, entry in enumerate(_entries(_EMPTY_GROUP.sub("", value)), 1):
        people = _read_any(entry)
        if len(people) != 1:
            # Not quoted: a sender may have chosen it, and what this says reaches assistants as words of ours.
            raise ValueError(f"its entry {number} is not one address")
        found += people
    return tuple(found)


def _entries(value: str) -> Iterator[str]:
    """What stands between the commas."""
    start = position = 0
    while position < len(value):
        token = _TOKEN.match(value, position)
        assert token is not None  # noqa: S101 - its last alternative takes any character
        position = comments.end_of(value, position) if token.lastgroup == "comment" else token.end()
        if token.lastgroup == "group":
            raise ValueError("a group of recipients cannot be sent to: name its members one by one")
        if token.lastgroup == "separator" or position >= len(value):
            entry = value[start : token.start() if token.lastgroup == "separator" else len(value)]
            start = position
            if entry.strip():  # RFC 5322 4.4: there may be nothing between two commas
                yield entry


class _Entry:
    """What stands between two commas."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words = list(words)
        self.words_behind: list[str] = []  # behind the address in brackets
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
            return _made(_bare(self.angle), name + "".join(self.words_behind), "".join(self.comments))
        # RFC 5322 3.4.1 and 4.4: white space around `@` and dots is no part of an address.
        words = _AROUND_SIGN.sub(r"\1\2", " ".join(name.split())).split()
        candidates = [word for word in words if "@" in word]
        if len(candidates) == 1:
            words.remove(candidates[0])
            return _made(candidates[0], " ".join(words), " ".join(self.comments))
        if candidates:
            return tuple(address for each in candidates for address in _made(each, "", ""))
        # Seen in practice: the whole of `Name <address>` inside one encoded word.
        decoded = encoded_words.decode(name)
        return read(decoded) if decoded != name and "@" in decoded and "=?" not in decoded else ()


def _bare(angle: str) -> str:
    """What stands in angle brackets, without comments and without what may stand before the address."""
    if "(" in angle and ")" in angle and '"' not in angle:
        angle = comments.remove(angle)
    if angle.lstrip().startswith("@"):  # RFC 5322 4.4: a route
        return angle.rpartition(":")[2]
    return angle.removeprefix("mailto:")  # seen in practice


def _made(email: str, name: str, comment: str) -> tuple[Address, ...]:
    # RFC 5322 4.4: white space beside a dot or `@` is no part of it. Elsewhere it stays: without it, it were another's.
    email = without_controls(email) if '"' in email else _BESIDE_SIGN.sub(r"\1", " ".join(email.split())).strip("'")
    email = encoded_words.decode(email)
    local, _, domain = email.rpartition("@")
    if not local or not domain or len(email) > _LONGEST or not email.isprintable() or _SEPARATORS.search(email):
        return ()
    shown = _shown(name) or _shown(comment)
    if len(shown) > 1 and shown[0] == shown[-1] == "'":  # Seen in practice: 'Name' in quotes of the wrong kind.
        shown = shown[1:-1]
    return (Address(email=email, name=shown[:1000]) if shown and shown != email else Address(email=email),)


def _shown(text: str) -> str:
    text = " ".join(encoded_words.decode(text).split()) if text else ""
    return text if text.isprintable() and "=?" not in text else without_controls(text)
