"""Which messages Gmail shows as one conversation, and what else it takes from header fields."""

import re
from email.message import Message
from email.parser import BytesHeaderParser

_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_PREFIX = re.compile(r"\s*(?:re|fwd?|aw|wg)\s*:\s*", re.I)


def header_of(source: bytes) -> "Message[str, str]":
    """The header fields of a message."""
    return BytesHeaderParser().parsebytes(source.partition(b"\r\n\r\n")[0])


def message_id_of(source: bytes) -> str:
    """The Message-ID without its brackets; empty where there is none."""
    return str(header_of(source).get("Message-ID", "")).strip().strip("<>")


class Threads:
    """Gives messages of one account to threads: same subject, and an answer to one that is there (by its references).

    (developers.google.com/workspace/gmail/api/guides/threads)
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def thread_of(self, number: int, source: bytes) -> int:
        """The X-GM-THRID of a new message: that of a thread, or its own number."""
        header = header_of(source)
        subject = _PREFIX.sub("", str(header.get("Subject", ""))).strip().casefold()
        referred = _MESSAGE_ID.findall(f"{header.get('References', '')} {header.get('In-Reply-To', '')}")
        known = (self._known[one, subject] for one in reversed(referred) if (one, subject) in self._known)
        thread = next(known, number)
        for own in _MESSAGE_ID.findall(str(header.get("Message-ID", ""))):
            self._known.setdefault((own, subject), thread)
        return thread
