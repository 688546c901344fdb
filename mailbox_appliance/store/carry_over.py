"""What a restored store must know of what happened since its backup was made.

    the present store opens and is of one kin with it .. what was sent, revoked and changed since is carried over
    there is none, it does not open, or is another's ... nobody knows: sessions end, and scheduled sends wait

Of sends see `carried_sends`, of rights `carried_rights`. The audit log goes on where the present one begins with it,
row by row and seal by seal: one that is broken stays broken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mailbox_appliance.store import carried_rights, carried_sends
from mailbox_appliance.store.audit import FACTS
from mailbox_appliance.store.carried_rights import Rights
from mailbox_appliance.store.carried_sends import Sends
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.schema import TRIGGERS

_BATCH = 5000
# Of each of the two, while they are held against each other: indexes are written all over.
_CACHE_KIB = 48 * 1024
_LOG = f"number, {FACTS}, mac"
# Every row of the restored log, up to this one, stands in the present one, seal and all.
_GOES_ON = f"""
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r LEFT JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND ({", ".join(f"r.{name.strip()}" for name in _LOG.split(","))})
    IS NOT ({", ".join(f"p.{name.strip()}" for name in _LOG.split(","))}))"""
_LAST = "SELECT number, action FROM main.audit_events ORDER BY number DESC LIMIT 1"
_REMAIN = "audit_events_remain"  # the trigger that lets nobody delete a row of the log
_FIRST_FACT = f"SELECT {FACTS} FROM {{}}.audit_events ORDER BY number LIMIT 1"
_SAME_MEMBER = """
SELECT 1 FROM main.members r JOIN present.members p ON p.id = r.id AND p.created_at = r.created_at LIMIT 1"""


@dataclass(frozen=True)
class Carried:
    """What became of sends and rights. `is_known`: the present store told what happened since the backup; else `why`
    it does not, where there is one.
    """

    is_known: bool
    why: str = ""
    sends: Sends = field(default_factory=Sends)
    rights: Rights = field(default_factory=Rights)


def carry_over(database: Database, present: Path, key: StoreKey, now: datetime, *, leave_log: bool = False) -> Carried:
    """Bring a restored store up to what the present one knows; both open with `key`. One durable transaction.

    The present store must be closed; it is only read. `now` is the moment of the restore: what was due before it and is
    unknown to the present store becomes uncertain. `leave_log`: not even a log that a crash has left is folded in.
    """
    with _attached(database, present, key, leave_log), database.transaction(durable=True):
        if not _are_kin(database):
            carried = _of_nobody(database, now, "it is another store, not a later state of this one")
            carried_rights.see_that_somebody_can_administrate(database)
            return carried
        rights = carried_rights.carry(database, now)
        sends = carried_sends.carry(database, now)
        _continue_log(database)
        return Carried(True, sends=sends, rights=rights)


def carry_nothing(database: Database, now: datetime, why: str = "") -> Carried:
    """The same where nothing is known of what happened since: all sessions end, scheduled sends wait for a word."""
    with database.transaction(durable=True):
        return _of_nobody(database, now, why)


def _of_nobody(database: Database, now: datetime, why: str) -> Carried:
    carried_rights.end_what_lets_in(database)
    return Carried(False, why, carried_sends.hold(database, now))


@contextmanager
def _attached(database: Database, present: Path, key: StoreKey, leave_log: bool) -> Iterator[None]:
    # Bound, not written out: statements end in logs and traces.
    secret = "raw:" + key.derive("database").hex()
    database.change("ATTACH ? AS present KEY ?", (str(present), secret))
    for schema in ("main", "present"):
        database.change(f"PRAGMA {schema}.cache_size = -{_CACHE_KIB}")
    if leave_log:
        database.spare_logs()
    try:
        yield
    finally:
        database.change("DETACH present")


def _are_kin(database: Database) -> bool:
    """Whether one store came of the other, or both of a third: their logs begin alike, or they share a member."""
    first = database.row(_FIRST_FACT.format("main"))
    if first is not None and first == database.row(_FIRST_FACT.format("present")):
        return True
    return database.row(_SAME_MEMBER) is not None


def _continue_log(database: Database) -> None:
    number, action = database.row(_LAST) or (0, "")
    if not database.value(_GOES_ON, (number,)):
        if action != "store.upgrade" or not database.value(_GOES_ON, (number - 1,)):
            return
        # It was written while an old backup was unpacked; the present store tells of an upgrade of its own.
        _drop_row(database, number)
        number -= 1
    copy = (
        f"INSERT INTO main.audit_events ({_LOG}) SELECT {_LOG} FROM present.audit_events"
        f" WHERE number > ? ORDER BY number LIMIT {_BATCH}"
    )
    while database.change(copy, (number,)):
        number = database.value("SELECT max(number) FROM main.audit_events")
    for name in ("audit_head", "audit_count"):
        value = database.value("SELECT value FROM present.meta WHERE name = ?", (name,))
        database.change("UPDATE main.meta SET value = ? WHERE name = ?", (value, name))


def _drop_row(database: Database, number: int) -> None:
    database.change(f"DROP TRIGGER main.{_REMAIN}")
    database.change("DELETE FROM main.audit_events WHERE number = ?", (number,))
    database.change(TRIGGERS[_REMAIN])
