"""Messages that are replied to."""

from msgspec import UNSET

from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.messages import Message, MessageFlags


def as_stored(source: bytes) -> tuple[Message, dict[str, str]]:
    """Return a received message as the store returns it, and its header fields with lower-case names."""
    read = parse_message(source)
    message = Message(
        id="msg_1",
        thread_id="thr_1",
        account_id="acc_1",
        from_=read.sender or UNSET,
        to=read.to,
        cc=read.cc or UNSET,
        reply_to=read.reply_to or UNSET,
        subject=read.subject,
        date="2026-01-01T00:00:00Z",
        flags=MessageFlags(read=True, starred=False, draft=False),
    )
    return message, {name.lower(): value for name, value in read.headers.items()}
