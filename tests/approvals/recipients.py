"""Random recipients and policies, and a model of the rules that knows nothing of the code under test.

A recipient is chosen as an identity first, and then written in one of many ways. So the model compares identities, and
has no addresses to read.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Domain:
    """A domain: its labels as in SMTP, and the ways to write it."""

    labels: tuple[str, ...]
    spellings: tuple[str, ...]

    def is_within(self, other: "Domain") -> bool:
        """Whether it is the other domain, or one of its subdomains."""
        return self.labels[-len(other.labels) :] == other.labels


@dataclass(frozen=True)
class Local:
    """A local part: what servers may tell apart (`exact`), what people may confuse (`loose`), the ways to write it."""

    exact: str
    loose: str
    spellings: tuple[str, ...]


DOMAINS = (
    Domain(("example", "org"), ("example.org", "EXAMPLE.ORG", "Example.Org", "\uff45xample.org", "example\u3002org")),
    Domain(("sub", "example", "org"), ("sub.example.org", "SUB.example.ORG")),
    Domain(("deep", "sub", "example", "org"), ("deep.sub.example.org",)),
    Domain(("xexample", "org"), ("xexample.org",)),
    Domain(("example", "org", "evil", "test"), ("example.org.evil.test",)),
    Domain(("xn--xample-2of", "org"), ("\u0435xample.org", "xn--xample-2of.org", "XN--XAMPLE-2OF.org")),
    Domain(("xn--bcher-kva", "example"), ("b\u00fccher.example", "B\u00dcCHER.example", "xn--bcher-kva.example")),
    Domain(("bucher", "example"), ("bucher.example",)),
    Domain(("xn--strae-oqa", "example"), ("stra\u00dfe.example", "xn--strae-oqa.example", "XN--STRAE-OQA.EXAMPLE")),
    Domain(("strasse", "example"), ("strasse.example", "STRASSE.example")),
)
LOCALS = (
    Local("ann", "ann", ("ann", "Ann", "ANN", '"ann"', '"Ann"')),
    Local("ann.b", "ann.b", ("ann.b", "Ann.B", '"ann.b"')),
    Local("ann+x", "ann+x", ("ann+x", "ANN+x")),
    Local("ann.", "ann.", ('"ann."', "ann.")),
    Local("user", "user", ("user", "USER")),
    Local("u\u017fer", "user", ("u\u017fer", "U\u017fer")),
    Local("strasse", "strasse", ("strasse", "Strasse")),
    Local("stra\u00dfe", "strasse", ("stra\u00dfe", "STRA\u00dfE")),
    Local("m\u00fcller", "m\u00fcller", ("m\u00fcller", "M\u00fcller")),
    Local("xn--ann", "xn--ann", ("xn--ann",)),
)


@dataclass(frozen=True)
class Recipient:
    """Somebody, and one way to write their address."""

    local: Local
    domain: Domain
    written: str = field(compare=False)


@dataclass(frozen=True)
class Entry:
    """An entry of a policy: an address, or a domain (no local part)."""

    local: Local | None
    domain: Domain
    written: str


@dataclass(frozen=True)
class Case:
    """A policy, and a message."""

    allowed: tuple[Entry, ...] | None
    blocked: tuple[Entry, ...]
    most: int | None
    is_internal: bool
    own: Domain
    fields: dict[str, tuple[Recipient, ...]]

    @property
    def recipients(self) -> tuple[Recipient, ...]:
        """All of To, Cc and Bcc."""
        return tuple(each for name in ("to", "cc", "bcc") for each in self.fields.get(name, ()))

    def policy(self) -> dict[str, Any]:
        """The policy as a request."""
        return {
            "allowedRecipients": None if self.allowed is None else [entry.written for entry in self.allowed],
            "blockedRecipients": [entry.written for entry in self.blocked],
            "maxRecipients": self.most,
            "internalOnly": self.is_internal,
        }

    def is_forbidden(self, one: Recipient, *, with_internal: bool = True) -> bool:
        """Whether the rules forbid this recipient. `with_internal`: whether `is_internal` counts."""
        return (
            any(_may_name(entry, one) for entry in self.blocked)
            or (self.allowed is not None and not any(_names(entry, one) for entry in self.allowed))
            or (with_internal and self.is_internal and one.domain.labels != self.own.labels)
        )

    def is_refused(self, *, with_internal: bool = True) -> bool:
        """Whether the rules forbid the message."""
        # SMTP tells local parts apart that differ in case.
        distinct = {(_unquoted(each.written), each.domain.labels) for each in self.recipients}
        too_many = self.most is not None and len(distinct) > self.most
        return too_many or any(self.is_forbidden(each, with_internal=with_internal) for each in self.recipients)


def identity(address: str) -> tuple[str, tuple[str, ...]]:
    """Return the identity of an address in SMTP, with the local part in lower case."""
    local, _, domain = address.rpartition("@")
    return "".join(letter.lower() if letter.isascii() else letter for letter in local.strip('"')), tuple(
        domain.split(".")
    )


def identities(recipients: Iterable[Recipient]) -> set[tuple[str, tuple[str, ...]]]:
    """Return the identities of recipients as `identity` does."""
    return {(each.local.exact, each.domain.labels) for each in recipients}


def _names(entry: Entry, one: Recipient) -> bool:
    if entry.domain.labels != one.domain.labels:
        return False
    return entry.local is None or entry.local.exact == one.local.exact


def _may_name(entry: Entry, one: Recipient) -> bool:
    if entry.local is None:
        return one.domain.is_within(entry.domain)
    return entry.domain.labels == one.domain.labels and entry.local.loose == one.local.loose


def _unquoted(written: str) -> str:
    return written.rpartition("@")[0].strip('"')


def draw(chance: random.Random) -> Case:
    """Return a random case."""
    domains, locals_ = chance.sample(DOMAINS, 4), chance.sample(LOCALS, 5)
    own = chance.choice(domains)

    def recipient() -> Recipient:
        local, domain = chance.choice(locals_), chance.choice(domains)
        return Recipient(local, domain, f"{chance.choice(local.spellings)}@{chance.choice(domain.spellings)}")

    def entry() -> Entry:
        one = recipient()
        if chance.random() < 0.5:
            return Entry(None, one.domain, chance.choice(one.domain.spellings))
        return Entry(one.local, one.domain, one.written)

    people = [recipient() for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.4:
        again = chance.choice(people)
        written = f"{chance.choice(again.local.spellings)}@{chance.choice(again.domain.spellings)}"
        people.append(Recipient(again.local, again.domain, written))
    fields: dict[str, tuple[Recipient, ...]] = {}
    for one in people:
        name = chance.choice(("to", "cc", "bcc"))
        fields[name] = (*fields.get(name, ()), one)
    allowed = tuple(entry() for _ in range(chance.randint(0, 6))) if chance.random() < 0.6 else None
    blocked = tuple(entry() for _ in range(chance.randint(0, 2))) if chance.random() < 0.5 else ()
    most = chance.randint(0, 5) if chance.random() < 0.3 else None
    return Case(allowed, blocked, most, chance.random() < 0.2, own, fields)
