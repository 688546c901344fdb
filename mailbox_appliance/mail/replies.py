"""Who a reply goes to, and what ties it to its parent (RFC 5322 3.6.2 and 3.6.4, RFC 2369 3.4)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from msgspec import UNSET

from mailbox_appliance.mail.address import is_writable, same_mailbox
from mailbox_appliance.mail.threads import message_ids, reply_references
from mailbox_appliance.records import Address, Message

_POSTING = re.compile(r"<\s*mailto:([^<>?]{3,320})[^<>]*>", re.IGNORECASE)


@dataclass(frozen=True)
class Threading:
    """In-Reply-To and References of a reply."""

    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipients:
    """To and Cc of a reply."""

    to: tuple[Address, ...]
    cc: tuple[Address, ...]


def threading(headers: Mapping[str, str]) -> Threading:
    """What ties a reply to the message with these header fields (lower-case names; RFC 5322 3.6.4)."""
    own, references, in_reply_to = (
        message_ids(headers.get(n, "")) for n in ("message-id", "references", "in-reply-to")
    )
    parent = own[0] if own else None
    return Threading(parent, reply_references(parent, references, in_reply_to))


def recipients(
    parent: Message,
    headers: Mapping[str, str],
    own: tuple[str, ...],
    *,
    to: tuple[Address, ...] | None = None,
    cc: tuple[Address, ...] | None = None,
    everybody: bool = False,
) -> Recipients:
    """To and Cc of a reply; a list that is given (not None) stays as it is, and nobody stands in both.

    `headers` are those of the parent, with lower-case names; `own` are the mailbox's addresses. Without `everybody`, Cc
    is empty unless it is given. Raises ValueError, with the reason, where somebody it goes to in the first place has an
    address that cannot be written; further ones with such an address are left out.
    """
    copied = cc or ()
    found = to if to is not None else _first(parent, headers, own, copied, everybody=everybody)
    if cc is None and everybody:
        cc = _usable(_others(parent.cc or (), (*own, *(each.email for each in found))))
    return Recipients(found, cc or ())


def _first(
    parent: Message, headers: Mapping[str, str], own: tuple[str, ...], copied: Iterable[Address], *, everybody: bool
) -> tuple[Address, ...]:
    """Reply-To, else From (RFC 5322 3.6.2), and for everybody also To and the list, without ourselves.

    A reply to what we sent ourselves goes to those we sent it to. Nobody stands here who is named in the given Cc.
    """
    writers = parent.reply_to or ((parent.from_,) if parent.from_ is not UNSET else ())
    if all(_is_among(writer.email, own) for writer in writers):
        writers = parent.to
    named = [each.email for each in copied]
    first = _others(writers, named)
    for address in first:
        if not is_writable(address.email):
            raise ValueError(f"{address.email} cannot be written to; give `to` yourself.")
    if not everybody:
        return first
    posting = () if _names(parent.cc or (), headers) else _posting_address(headers)
    return _usable(_others((*writers, *parent.to, *posting), (*own, *named))) or first


def _posting_address(headers: Mapping[str, str]) -> tuple[Address, ...]:
    """Where a mailing list wants its answers: RFC 2369 3.4, where `NO` means nowhere."""
    found = _POSTING.search(headers.get("list-post", ""))
    return (Address(email=unquote(found[1]).strip()),) if found else ()


def _names(people: Iterable[Address], headers: Mapping[str, str]) -> bool:
    """Whether the list is among these people."""
    posting = [each.email for each in _posting_address(headers)]
    return any(_is_among(person.email, posting) for person in people)


def _is_among(email: str, others: Iterable[str]) -> bool:
    return any(same_mailbox(email, other) for other in others)


def _others(people: Iterable[Address], named: Iterable[str]) -> tuple[Address, ...]:
    """Everybody once, without those named already."""
    known = list(named)
    found: list[Address] = []
    for person in people:
        if not _is_among(person.email, known):
            known.append(person.email)
            found.append(person)
    return tuple(found)


def _usable(people: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(person for person in people if is_writable(person.email))
