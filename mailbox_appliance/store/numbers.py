"""The numbers of messages: (internal date in seconds << 4), counting on where a second has several messages.

So the order of the numbers is that of the dates, whatever order messages come in. Where more than sixteen share a
second, their numbers run on into the next ones.
"""

from collections.abc import Sequence

from mailbox_appliance.store.database import Database
from mailbox_appliance.store.message_rows import as_json


def first_number(millis: int) -> int:
    """The first number of the second in which a message came."""
    return (millis // 1000) << 4


def free_numbers(database: Database, moments: Sequence[int]) -> list[int]:
    """A number for each message that came at these moments (milliseconds), not in use yet. Inside a transaction."""
    wanted = [first_number(millis) for millis in moments]
    taken = {row[0] for row in database.rows(_TAKEN, (as_json(set(wanted)),))}
    return _Numbers(database, taken).allocate(wanted)


_TAKEN = "SELECT m.number FROM json_each(?) j CROSS JOIN messages m ON m.number = j.value"


class _Numbers:
    def __init__(self, database: Database, taken: set[int]) -> None:
        self._database, self._taken = database, taken
        self._next: dict[int, int] = {}  # first number of a second -> where to look on from

    def allocate(self, wanted: Sequence[int]) -> list[int]:
        return [self._allocate_one(first) for first in wanted]

    def _allocate_one(self, first: int) -> int:
        number = first
        if first in self._taken:
            number = self._find_free_after(self._next.get(first, first))
            self._next[first] = number
        self._taken.add(number)
        return number

    def _find_free_after(self, number: int) -> int:
        """A free number after one that is taken, soon found however many messages share a second (an import does)."""
        step = 1
        while self._is_taken(number + step):
            step *= 2
        taken, free = number + step // 2, number + step
        while free - taken > 1:
            middle = (taken + free) // 2
            taken, free = (middle, free) if self._is_taken(middle) else (taken, middle)
        return free

    def _is_taken(self, number: int) -> bool:
        if number in self._taken:
            return True
        is_taken = self._database.value("SELECT 1 FROM messages WHERE number = ?", (number,)) is not None
        if is_taken:
            self._taken.add(number)
        return is_taken
