"""What the full-text index is told of a message; FTS5 without content, so it keeps the words and not the text.

Write rows in the order of their numbers: within a transaction FTS5 flushes what it has where a number is lower.
"""

import re
from collections.abc import Iterable

from mailbox_appliance.mail.html import to_text
from mailbox_appliance.mail.words import for_index
from mailbox_appliance.records import Address, ParsedMessage

INSERT = "INSERT INTO message_index (subject, sender, recipients, body, scope, rowid) VALUES (?, ?, ?, ?, ?, ?)"
# Every column is told again: an index without content cannot keep what it was told before.
UPDATE = "UPDATE message_index SET subject = ?, sender = ?, recipients = ?, body = ?, scope = ? WHERE rowid = ?"

_LONGEST_BODY = 1_000_000  # characters
# Nobody looks for a piece of base64, a key or a tracking link; each would be a word of its own.
_JUNK = re.compile(r"[0-9A-Za-z+/=_-]{65,}")
_HAS_LONG_WORD = re.compile(r"(?:\S{0,64}+\s++)*+\S{65}")  # says it three times as fast as `search` would

IndexRow = tuple[str, str, str, str, str, int]


def index_row(number: int, account: int, parsed: ParsedMessage) -> IndexRow:
    """A message as it is indexed; in the order of `INSERT` and `UPDATE`."""
    return (
        for_index(parsed.subject),
        for_index(_people((parsed.sender,) if parsed.sender else ())),
        for_index(_people((*parsed.to, *parsed.cc, *parsed.bcc))),
        for_index(_body(parsed)),
        f"a{account}",
        number,
    )


def _people(people: Iterable[Address]) -> str:
    return " ".join([f"{each.name} {each.email}" if each.name else each.email for each in people])


def _body(parsed: ParsedMessage) -> str:
    text = parsed.text if parsed.text is not None else to_text(parsed.html) if parsed.html else ""
    text = text[:_LONGEST_BODY]
    return _JUNK.sub(" ", text) if _HAS_LONG_WORD.match(text) else text
