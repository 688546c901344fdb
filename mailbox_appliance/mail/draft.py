"""Convert a draft that any mail program saved to a message that can be sent (RFC 5322, RFC 2045). Drafts are read
leniently; the result is strictly valid.

The recipients must be certain: a draft is refused if one of its addresses could be read in two ways, or lost.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import UNSET

from mailbox_appliance.mail import compose, headers, mime, parse, threads
from mailbox_appliance.mail.address import is_writable, same_mailbox
from mailbox_appliance.mail.headers import Fields, fields_of
from mailbox_appliance.mail.seven_bit import clean_lines, to_seven_bit, with_final_line_break
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Address, ComposedMessage, OutgoingMessage

_LONGEST_HEADER = 256 * 1024
_MOST_FIELDS = 1_000
_BARE = re.compile(rb"\r(?!\n)|\0")
# Fields that are written here from their values, or that only the envelope needs.
_REWRITTEN_FIELDS = frozenset(
    {"from", "to", "cc", "bcc", "reply-to", "subject", "date", "message-id", "in-reply-to", "references"}
)
# Fields that servers add in transit (RFC 5322 3.6.7), signatures over fields that change, and fields about a mailbox
# only.
# fmt: off
_STALE_FIELDS = frozenset({
    "mime-version", "sender", "return-path", "received", "delivered-to", "envelope-to", "envelope-from",
    "x-original-to", "x-received", "received-spf", "authentication-results", "dkim-signature",
    "domainkey-signature", "apparently-to", "content-length", "lines", "status", "x-status", "x-uid", "x-uidl",
    "x-keys", "x-keywords", "x-imap", "x-imapbase", "fcc", "gcc", "lcc", "x-fcc", "x-unsent", "x-identity-key",
    "x-account-key", "x-uniform-type-identifier", "x-universally-unique-identifier", "x-draft-info",
    "x-draft-from", "x-our-headers", "x-cursor-pos",
    # Claws Mail and Sylpheed; `R` contains all recipients.
    "af", "nf", "ps", "srh", "sfn", "dsr", "mid", "cfg", "pt", "s", "rq", "ssv", "nsv", "ssh", "r", "maid", "scf",
    "rmid", "fmid", "x-claws-end-special-headers",
})
# Fields that are kept even if there are Bcc recipients.
_HARMLESS_FIELDS = frozenset({
    "importance", "priority", "x-priority", "x-msmail-priority", "sensitivity", "auto-submitted", "precedence",
    "user-agent", "x-mailer", "organization", "accept-language", "expires", "reply-by", "autocrypt",
    "disposition-notification-to", "return-receipt-to",
})
# fmt: on
_STALE_BEGINNINGS = (
    *("content-", "resent-", "arc-", "x-mozilla-", "x-apple-", "x-kmail-", "x-evolution-", "x-mutt-", "x-gnus-"),
    *("x-reply-", "x-sylpheed-", "x-claws-", "x-envelope-", "x-spam-", "x-ms-exchange-", "x-gm-"),
)


def to_sendable(source: bytes, sender: Address, *, message_id: str, date: datetime) -> ComposedMessage:
    """Return the draft in the form in which it is sent: 7-bit, and without Bcc. Its MIME structure stays, and so does
    content that is already 7-bit.

    `sender`: the address of the mailbox; a draft with another From address is refused. Raises ValueError if the draft
    cannot be sent, with the next step for the user. Callers must check the number of recipients and the size.
    """
    root, listed, warnings = mime.parse_structure(source)
    header = root.source[: root.start]
    if _BARE.search(header):
        raise ValueError("its header contains control characters: save the draft again")
    written = list(fields_of(header[: _LONGEST_HEADER + 1]))
    if len(header) > _LONGEST_HEADER or len(written) > _MOST_FIELDS:
        raise ValueError("its header is too long: save the draft again, or send it to fewer people")
    fields: Fields = {}
    for name, _, value in written:
        fields.setdefault(name, []).append(value)
    outgoing, answers_to = _to_outgoing(fields, sender, parse.charset_of(root, parse.choose_bodies(root)))
    if not outgoing.subject.strip():
        _require_content(root, listed, warnings)
    content = to_seven_bit(root, warnings)
    reply_to = compose.write_field("Reply-To", compose.address_list_words(answers_to)) if answers_to else b""
    lines = [*compose.header_fields(outgoing, message_id, date), reply_to, *_other_fields(written, outgoing)]
    return ComposedMessage(
        wire=Content(
            b"".join([*lines, b"MIME-Version: 1.0\r\n", content.fields, b"\r\n"]), with_final_line_break(content.body)
        ),
        bcc_header=compose.bcc_field(outgoing.bcc),
        envelope=compose.envelope_of(outgoing, also_named=answers_to),
        message_id=message_id,
    )


def _require_content(root: mime.MimePart, listed: list[tuple[str, str]], warnings: Iterable[str]) -> None:
    read = parse.assemble(root, listed, warnings)
    if not (read.attachments or compose.has_text(read.text, read.html)):
        raise ValueError("it is empty: add a subject, a text or an attachment")


def _to_outgoing(fields: Fields, sender: Address, charset: str | None) -> tuple[OutgoingMessage, tuple[Address, ...]]:
    """Return sender, recipients, subject and references of the draft, and separately its Reply-To addresses. Raises
    ValueError if it has no recipients or an invalid address.
    """
    to, cc, bcc, answers_to = (_read_recipients(fields, name, charset) for name in ("To", "Cc", "Bcc", "Reply-To"))
    if not (to or cc or bcc):
        raise ValueError("it has no recipients: add one to To, Cc or Bcc")
    parents, ancestors = (_read_ids(fields, name) for name in ("in-reply-to", "references"))
    outgoing = OutgoingMessage(
        sender=_require_own_sender(fields, sender, charset),
        to=to,
        cc=cc,
        bcc=bcc,
        subject=headers.decode_text(headers.first_value(fields, "subject"), charset),
        in_reply_to=parents[0] if parents else None,
        references=threads.trim_references(ancestors),
    )
    return outgoing, answers_to


def _require_own_sender(fields: Fields, sender: Address, charset: str | None) -> Address:
    """Return the address of the mailbox (`sender`), with the display name from the draft. Raises ValueError if the From
    field of the draft has another address.
    """
    given = _read_addresses_of(fields, "From", charset)
    if any(not same_mailbox(each.email, sender.email) for each in given):
        raise ValueError("its From address is not this mailbox: change it, or send the draft from the mailbox in From")
    names = [each.name for each in given if each.name is not UNSET]
    return Address(email=sender.email, name=names[0] if names else sender.name)


def _read_recipients(fields: Fields, name: str, charset: str | None) -> tuple[Address, ...]:
    found = _read_addresses_of(fields, name, charset)
    if bad := next((number for number, each in enumerate(found, 1) if not is_writable(each.email)), None):
        # Not quoted: the sender of the parent chose it, and AI agents would read it as the appliance's own words.
        raise ValueError(f"mail cannot be sent to address {bad} in its {name}: correct it")
    return found


def _read_addresses_of(fields: Fields, name: str, charset: str | None) -> tuple[Address, ...]:
    """Return the addresses of all header fields of this name. In practice, some drafts have one To field for each
    recipient. Raises ValueError if a field is not valid.
    """
    found: list[Address] = []
    for value in fields.get(name.lower(), ()):
        try:
            found += headers.read_addresses_strictly(headers.decode_octets(value, charset))
        except ValueError as error:
            raise ValueError(f"its {name} field is not valid: {error}") from error
    return tuple(found)


def _read_ids(fields: Fields, name: str) -> list[str]:
    found = (threads.exact_message_ids(headers.decode_text(value)) for value in fields.get(name, ()))
    return compose.writable_ids(dict.fromkeys(each for ids in found for each in ids))


def _other_fields(written: Iterable[tuple[str, bytes, str]], outgoing: OutgoingMessage) -> Iterator[bytes]:
    """Yield the header fields of a draft that are sent unchanged. The following are left out:

    - fields that `compose.header_fields` writes
    - fields that are outdated once the draft is sent
    - fields that are not clean ASCII
    - fields that could reveal a Bcc recipient

    An address can be encoded, folded, commented or written as a name alone, so a search would not find all of them. If
    there are Bcc recipients, only fields on a list of harmless ones are therefore sent.
    """
    seen = {each.email.casefold() for each in (*outgoing.to, *outgoing.cc, outgoing.sender)}
    hidden = {each.email.casefold() for each in outgoing.bcc} - seen
    for name, raw, value in written:
        if name in _REWRITTEN_FIELDS or name in _STALE_FIELDS or name.startswith(_STALE_BEGINNINGS) or "bcc" in name:
            continue
        if outgoing.bcc and name not in _HARMLESS_FIELDS:
            continue
        lower = headers.decode_text(value).casefold()
        if "bcc:" in lower.replace(" ", "") or any(email in lower or email in value.casefold() for email in hidden):
            continue
        if (line := clean_lines(raw)) is not None:
            yield line
