"""Find the recipients of a reply, and its references to the message it replies to, here called the parent (RFC 5322
3.6.2 and 3.6.4, RFC 2369 3.4).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from msgspec import UNSET

from mailbox_appliance.mail.address import is_writable, same_mailbox
from mailbox_appliance.mail.threads import exact_message_ids, reply_references
from mailbox_appliance.model.messages import Address, Message

_NOBODY_TO_ANSWER = "The message has no address to reply to. Set `to`."
_POSTING = re.compile(r"<\s*mailto:([^<>?]{3,320})[^<>]*>", re.IGNORECASE)


@dataclass(frozen=True)
class ReplyThreading:
    """The header fields In-Reply-To and References of a reply, which connect it to its thread."""

    in_reply_to: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplyRecipients:
    """To and Cc of a reply. `left_out`: addresses that would be recipients too, but to which mail cannot be sent."""

    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    left_out: tuple[str, ...] = ()


def reply_threading(headers: Mapping[str, str]) -> ReplyThreading:
    """Return In-Reply-To and References for a reply (RFC 5322 3.6.4). `headers`: the header fields of the message it
    replies to, by name in lower case.

    A Message-ID with white space inside is left out: without the white space it would match no message.
    """
    own, references, in_reply_to = (
        exact_message_ids(headers.get(n, "")) for n in ("message-id", "references", "in-reply-to")
    )
    parent = own[0] if own else None
    return ReplyThreading(parent, reply_references(parent, references, in_reply_to))


def reply_recipients(
    parent: Message,
    headers: Mapping[str, str],
    own: tuple[str, ...],
    *,
    to: tuple[Address, ...] | None = None,
    cc: tuple[Address, ...] | None = None,
    everybody: bool = False,
) -> ReplyRecipients:
    """Return To and Cc of a reply to `parent`.

    - headers: the header fields of the parent, by name in lower case.
    - own: the addresses of the mailbox, which are left out unless nobody else remains.
    - to, cc: recipients that the caller chose, which stay unchanged; None to find them.
    - everybody: include the recipients of the parent and its mailing list. Otherwise Cc is empty unless `cc` is given.

    The same person is never added to both To and Cc. Raises ValueError if `to` is None and the parent has no address to
    reply to, or one to which mail cannot be sent. Other recipients with such an address are left out.
    """
    named = [each.email for each in cc or ()]
    first = to if to is not None else _first_recipients(parent, own, named, everybody=everybody)
    found, copied = first, cc or ()
    left_out: dict[str, None] = {}
    if everybody and to is None:
        found = _only_writable(_all_recipients(first, parent, headers, (*own, *named)), left_out)
    if everybody and cc is None:
        copied = _only_writable(_without_named(parent.cc or (), (*own, *(each.email for each in found))), left_out)
    if to is None and not (found or copied):
        found = first  # messages that the mailbox sent to itself only
        if not found:
            raise ValueError(_NOBODY_TO_ANSWER)
    return ReplyRecipients(found, copied, tuple(left_out))


def _first_recipients(
    parent: Message, own: tuple[str, ...], named: Iterable[str], *, everybody: bool
) -> tuple[Address, ...]:
    """Return the primary recipients of a reply: the people in Reply-To or From of the parent. People in `named`, the
    addresses that the caller put in Cc, are left out. `own`: the addresses of the mailbox.

    Raises ValueError if mail cannot be sent to one of these people. Unless `everybody` is set, also raises it if the
    parent names nobody to reply to.
    """
    writers = _writers(parent, own)
    if not writers and not everybody:
        raise ValueError(_NOBODY_TO_ANSWER)
    first = _without_named(writers, named)
    for address in first:
        if not is_writable(address.email):
            # Not quoted: a sender chose it, and AI agents would read it as the appliance's own words.
            raise ValueError("Mail cannot be sent to the reply address of this message. Set `to`.")
    return first


def _writers(parent: Message, own: tuple[str, ...]) -> tuple[Address, ...]:
    """Return the people to reply to: Reply-To, otherwise From (RFC 5322 3.6.2). Empty if the message has neither.

    If these are only the mailbox's own addresses (`own`), it sent the message itself. The reply then goes to the
    recipients of that message.
    """
    sender = (parent.from_,) if parent.from_ is not UNSET else ()
    for writers in (parent.reply_to or (), sender):
        if any(not _is_among(writer.email, own) for writer in writers):
            return writers
    return parent.to if parent.reply_to or sender else ()


def _all_recipients(
    first: tuple[Address, ...], parent: Message, headers: Mapping[str, str], named: Iterable[str]
) -> tuple[Address, ...]:
    """Return the recipients in To for a reply to everybody, each person once:

    - the primary recipients (`first`)
    - the people in To of the parent
    - its mailing list, unless that is in Cc of the parent

    People whose address is in `named` are left out.
    """
    posting = () if _names_list(parent.cc or (), headers) else _posting_address(headers)
    return _without_named((*first, *parent.to, *posting), named)


def _posting_address(headers: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the address at which a mailing list accepts replies, from List-Post (RFC 2369 3.4)."""
    found = _POSTING.search(headers.get("list-post", ""))
    email = unquote(found[1]).strip() if found else ""
    return (Address(email=email),) if is_writable(email) else ()


def _names_list(people: Iterable[Address], headers: Mapping[str, str]) -> bool:
    """Whether the address of the mailing list is among these people."""
    posting = [each.email for each in _posting_address(headers)]
    return any(_is_among(person.email, posting) for person in people)


def _is_among(email: str, others: Iterable[str]) -> bool:
    return any(same_mailbox(email, other) for other in others)


def _without_named(people: Iterable[Address], named: Iterable[str]) -> tuple[Address, ...]:
    """Return each person once, without those whose address is in `named`."""
    known = list(named)
    found: list[Address] = []
    for person in people:
        if not _is_among(person.email, known):
            known.append(person.email)
            found.append(person)
    return tuple(found)


def _only_writable(people: Iterable[Address], left_out: dict[str, None]) -> tuple[Address, ...]:
    """Return the people with an address that can be used for sending. The addresses of the others are added to
    `left_out`.
    """
    found = []
    for person in people:
        if is_writable(person.email):
            found.append(person)
        else:
            left_out[person.email] = None
    return tuple(found)
