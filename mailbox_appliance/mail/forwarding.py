"""Forwarding a message: its subject, the text and HTML that quote it, and what goes along (RFC 2392, RFC 2557)."""

from collections.abc import Iterable
from dataclasses import dataclass

from mailbox_appliance.records import OutgoingAttachment, ParsedAttachment, ParsedMessage


@dataclass(frozen=True)
class Forwarded:
    """A forwarded message. `parts`: what of the original goes along, as it is to be sent.

    A part that the HTML shows is `inline` and has the Content-ID by which the HTML names it; all others are
    attachments without one.
    """

    subject: str
    text: str
    html: str | None
    parts: tuple[ParsedAttachment, ...]


def forwarded(original: ParsedMessage, comment: str | None, *, with_attachments: bool) -> Forwarded:
    """The original below a comment. Without attachments only the pictures go along that its HTML shows."""
    raise NotImplementedError


def taken_along(source: bytes, parts: Iterable[ParsedAttachment]) -> tuple[OutgoingAttachment, ...]:
    """These parts of the original, decoded, with all that their type says (such as a character set)."""
    raise NotImplementedError
