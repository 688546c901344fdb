"""The messages that a folder shows by its label, as a list asks for them: from `message_labels`, in their order.

That table holds the flags as well. Other labels that a message must have too are looked up in it, dates in the index of
the mailbox. Of several labels the rarest is gone through.
"""

from collections.abc import Sequence

from mailbox_appliance.mail.labels import is_of_user
from mailbox_appliance.store.database import Database

_FOLDERS = "SELECT number, label FROM folders WHERE account = ? AND label IS NOT NULL"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM message_labels WHERE folder = ? LIMIT ?)"
_ENOUGH = 10_000  # that it has more is all that is asked of a folder

Condition = tuple[str, tuple[object, ...]]


def folders_of(database: Database, account: int, names: Sequence[str]) -> tuple[int, ...] | None:
    """The folders that show these labels of a user, by number; None where one has no folder. Case does not count."""
    found = {label.casefold(): number for number, label in database.rows(_FOLDERS, (account,)) if is_of_user(label)}
    numbers = tuple(dict.fromkeys(found.get(name.casefold(), 0) for name in names))
    return numbers if 0 not in numbers else None


def rarest_first(database: Database, folders: Sequence[int]) -> tuple[int, ...]:
    """These folders, the one that shows the fewest messages first."""
    if len(folders) < 2:
        return tuple(folders)
    return tuple(sorted(folders, key=lambda number: int(database.value(_COUNT, (number, _ENOUGH)))))


def shown_by(folders: Sequence[int], number: str) -> Condition:
    """The condition that a message is shown by one of these folders; `number`: the column of its number."""
    marks = ", ".join("?" * len(folders))
    sql = f"EXISTS (SELECT 1 FROM message_labels o WHERE o.folder IN ({marks}) AND o.number = {number})"
    return sql, tuple(folders)


def select(account: int, folder: int, others: Sequence[int], marks: Sequence[str], dates: Condition) -> Condition:
    """A SELECT of the numbers that a folder shows, of those that the others show too."""
    conditions = ["folder = ?", *marks]
    parameters: list[object] = [folder]
    for other in others:
        sql, numbers = shown_by([other], "message_labels.number")
        conditions.append(sql)
        parameters += numbers
    if dates[0]:
        conditions.append(
            "EXISTS (SELECT 1 FROM messages m INDEXED BY messages_account WHERE m.account = ?"
            f" AND m.number = message_labels.number AND {dates[0]})"
        )
        parameters += [account, *dates[1]]
    return f"SELECT number FROM message_labels WHERE {' AND '.join(conditions)}", tuple(parameters)
