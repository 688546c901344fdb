"""What the full-text index is told of a message; FTS5 without content, so it keeps the words and not the text.

Write rows in the order of their numbers: within a transaction FTS5 flushes what it has where a number is lower.
"""

from collections.abc import Iterable

from mailbox_appliance.mail.searched import words_of
from mailbox_appliance.mail.words import for_index
from mailbox_appliance.model.records import Address, ParsedMessage

INSERT = "INSERT INTO message_index (subject, sender, recipients, body, scope, rowid) VALUES (?, ?, ?, ?, ?, ?)"
# Every column is told again: an index without content cannot keep what it was told before.
UPDATE = "UPDATE message_index SET subject = ?, sender = ?, recipients = ?, body = ?, scope = ? WHERE rowid = ?"

IndexRow = tuple[str, str, str, str, str, int]


def index_row(number: int, account: int, parsed: ParsedMessage) -> IndexRow:
    """A message as it is indexed; in the order of `INSERT` and `UPDATE`."""
    return (
        for_index(parsed.subject),
        for_index(_people((parsed.sender,) if parsed.sender else ())),
        for_index(_people((*parsed.to, *parsed.cc, *parsed.bcc))),
        words_of(parsed),
        f"a{account}",
        number,
    )


def _people(people: Iterable[Address]) -> str:
    return " ".join([f"{each.name} {each.email}" if each.name else each.email for each in people])
