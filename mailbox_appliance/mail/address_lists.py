"""Lists of addresses out of header fields, read leniently (RFC 5322 3.4, its obsolete forms, what people write)."""

import re

from mailbox_appliance.mail import encoded_words
from mailbox_appliance.mail.field_reading import without_controls
from mailbox_appliance.records import Address

_MAX_ADDRESSES = 1_000
_LONGEST = 320
_ONE = re.compile(r'([^"(),.:;<>@\[\\\]=?]*)<([^<>@\s"(),:;]+@[^<>@\s"(),:;]+)>')
# Encoded words come first: seen in practice, they hold the commas and brackets that they are there to hide.
_TOKEN = re.compile(
    r"""(?P<encoded>=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=)
    | "(?P<quoted>(?:\\.|[^"\\])*)(?:"|\Z)
    | \((?P<comment>(?:\\.|[^()\\])*)\)?
    | <(?P<angle>[^<>]*)>?
    | (?P<separator>[,;])
    | (?P<group>:)
    | (?P<stray>[)>])
    | (?P<space>\s+)
    | (?P<word>[^\s",;:<>()=]+|.)""",
    re.X | re.S,
)
_SPACES = re.compile(r"\s+")


def read(value: str) -> tuple[Address, ...]:
    """The addresses of an unfolded field, with those of groups, at most 1,000. What has no address is left out."""
    if one := _ONE.fullmatch(value):
        return _made(one[2], one[1], "")
    found: list[Address] = []
    entry = _Entry()
    for token in _TOKEN.finditer(value):
        kind = token.lastgroup or ""
        if kind == "separator":
            found += entry.addresses()
            entry = _Entry()
        elif kind == "group" and not entry.holds_address():
            entry = _Entry()  # RFC 5322 3.4: what stands before is the name of the group.
        else:
            entry.add(kind, token[kind])
        if len(found) >= _MAX_ADDRESSES:
            return tuple(found[:_MAX_ADDRESSES])
    return (*found, *entry.addresses())


class _Entry:
    """What stands between two commas."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.comments: list[str] = []
        self.angle: str | None = None
        self.last_kind = ""

    def add(self, kind: str, text: str) -> None:
        if kind == "comment":
            self.comments.append(text)
        elif kind == "angle":
            self.angle = self.angle or text
        elif kind == "quoted":
            self.words.append(re.sub(r"\\(.)", r"\1", text, flags=re.S))
        elif kind == "word" and self.last_kind == "quoted" and text.startswith("@"):
            self.angle = f'"{self.words.pop()}"{text}'  # RFC 5322 3.4.1: a quoted local part
        elif kind != "stray":
            self.words.append(text)
        self.last_kind = kind

    def holds_address(self) -> bool:
        return self.angle is not None or any("@" in word for word in self.words)

    def addresses(self) -> tuple[Address, ...]:
        name = "".join(self.words)
        if self.angle is not None:
            # RFC 5322 4.4: a route may stand before the address.
            email = self.angle.rpartition(":")[2] if self.angle.lstrip().startswith("@") else self.angle
            return _made(email, name, "".join(self.comments))
        candidates = [part for part in name.split() if "@" in part]
        if candidates:
            return _made(candidates[-1], "", " ".join(self.comments))
        # Seen in practice: the whole of `Name <address>` inside one encoded word.
        decoded = encoded_words.decode(name)
        return read(decoded) if decoded != name and "@" in decoded and "=?" not in decoded else ()


def _made(email: str, name: str, comment: str) -> tuple[Address, ...]:
    email = without_controls(email) if '"' in email else _SPACES.sub("", email).strip("'")
    email = encoded_words.decode(email)
    local, _, domain = email.rpartition("@")
    if not local or not domain or len(email) > _LONGEST or not email.isprintable() or any(c in email for c in "<>,"):
        return ()
    shown = without_controls(_SPACES.sub(" ", encoded_words.decode(name)).strip())
    shown = shown or without_controls(_SPACES.sub(" ", encoded_words.decode(comment)))
    if len(shown) > 1 and shown[0] == shown[-1] == "'":  # Seen in practice: 'Name' in quotes of the wrong kind.
        shown = shown[1:-1]
    return (Address(email=email, name=shown[:1000]) if shown and shown != email else Address(email=email),)
