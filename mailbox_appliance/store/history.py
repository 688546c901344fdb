"""What went out and what came in, counted by the time it happened: for a chart, asked of indexes."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from mailbox_appliance.clock import to_millis, to_timestamp
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.numbers import first_number

# Folders whose messages are ours, or lie in another folder as well: nothing in them has arrived. Where there are labels
# everything lies in the folder of all mail, and what is ours is shown by others.
_ALL_MAIL = (
    "SELECT h.number FROM folders h JOIN folders s ON s.account = h.account AND s.label = '\\Sent'"
    " WHERE h.role = 'all' AND h.label IS NULL"
)
_NOT_ARRIVED = f"""
SELECT number FROM folders WHERE role IN ('sent', 'drafts', 'all', 'starred') AND number NOT IN ({_ALL_MAIL})"""
_OURS = """
SELECT 1 FROM message_labels l JOIN folders s ON s.number = l.folder
  WHERE l.number = m.number AND s.label IN ('\\Sent', '\\Draft')"""
_FIRST_FROM = "SELECT number, created_at FROM delivery_operations WHERE number >= ? ORDER BY number LIMIT 1"
# Each mailbox by its index, the newest part of it; theirs, and the scheduled ones of everybody.
_ENDED = """
SELECT (unixepoch(d.created_at) - :from) / :step, d.status, count(*)
  FROM accounts a JOIN delivery_operations d ON d.account_id = a.id AND d.number >= :first
  WHERE a.id IN (SELECT value FROM json_each(:accounts)) AND d.shown AND (d.member_id = :member OR d.kind = 'scheduled')
  AND d.created_at >= :since GROUP BY 1, 2"""
# The number of a message is the second in which it came. The index has all that is asked for.
_ARRIVED = f"""
SELECT ((m.number >> 4) - :from) / :step, count(*)
  FROM accounts a CROSS JOIN messages m INDEXED BY messages_account
  ON m.account = a.number AND m.number >= :low AND m.number < :high
  WHERE a.id IN (SELECT value FROM json_each(:accounts)) AND m.folder NOT IN ({_NOT_ARRIVED})
  AND (m.folder NOT IN ({_ALL_MAIL}) OR NOT EXISTS ({_OURS})) GROUP BY 1"""


class History:
    """Reads how much happened when. Steps are counted from `since` on, from 0."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count_deliveries(
        self, accounts: str, member_id: str, since: datetime, step: int
    ) -> Mapping[int, Mapping[str, int]]:
        """The operations that this member sees, by step and status. `accounts`: ids, JSON; `step`: seconds."""
        values = self._step_values(accounts, since, step) | {
            "member": member_id,
            "first": self._find_first_delivery(to_timestamp(since)),
            "since": to_timestamp(since),
        }
        found: dict[int, dict[str, int]] = {}
        for index, status, count in self._database.rows(_ENDED, values):
            found.setdefault(index, {})[status] = count
        return found

    def count_arrivals(self, accounts: str, since: datetime, until: datetime, step: int) -> Mapping[int, int]:
        """Messages that came, by step: when the server received them. What we sent and drafts do not count."""
        bounds = {"low": first_number(to_millis(since)), "high": first_number(to_millis(until))}
        rows: Iterable[tuple[int, int]] = self._database.rows(
            _ARRIVED, self._step_values(accounts, since, step) | bounds
        )
        return dict(rows)

    @staticmethod
    def _step_values(accounts: str, since: datetime, step: int) -> dict[str, object]:
        return {"accounts": accounts, "from": int(since.timestamp()), "step": step}

    def _find_first_delivery(self, since: str) -> int:
        """A number that none since then is below, or one behind the last where there is none since then.

        By halving: numbers grow with time. Where the clock was set back meanwhile, some may be missed, and only a bar
        of a chart is too short.
        """
        low, high = 0, int(self._database.value("SELECT max(number) FROM delivery_operations") or 0) + 1
        while low < high:
            middle = (low + high) // 2
            row = self._database.row(_FIRST_FROM, (middle,))
            if row is None or row[1] >= since:
                high = middle
            else:
                low = row[0] + 1
        return low
