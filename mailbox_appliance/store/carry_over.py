"""What a restored store must know of what happened since its backup was made.

    the present store is the later one .............. what was sent, revoked and changed since is carried over
    the backup is what a restore replaced ........... so it is, but for what that restore itself did
    of one kin, and neither is later than the other . what either knows to be over or revoked is; scheduled sends wait
    there is none, it does not open, or is another's  nobody knows: sessions end, and scheduled sends wait

Where HTTPS is offered stays as it is now, whatever the two are to each other.

How they are related see `kinship`, of sends `carried_sends`, of rights `carried_rights` and `forked_rights`. The audit
log goes on where the present one begins with it, row by row and seal by seal: one that is broken stays broken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mailbox_appliance.store import carried_rights, carried_sends, forked_rights
from mailbox_appliance.store.audit import FACTS
from mailbox_appliance.store.carried_rights import Rights
from mailbox_appliance.store.carried_sends import Sends
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.kinship import Kinship, Made, Relation, kinship_of
from mailbox_appliance.store.schema import TRIGGERS

#: Where HTTPS is offered belongs to this computer: a restore must not shut out who administrates from elsewhere.
_HTTPS = ("server.https", "server.https_port", "server.https_host")
_BATCH = 5000
# Of each of the two, while they are held against each other: indexes are written all over.
_CACHE_KIB = 48 * 1024
_LOG = f"number, {FACTS}, mac"
# That the facts up to this row are those of the present log is known; so are the seals.
_SAME_SEALS = """
SELECT NOT EXISTS (SELECT 1 FROM main.audit_events r JOIN present.audit_events p ON p.number = r.number
  WHERE r.number <= ? AND r.mac IS NOT p.mac)"""
_END = "SELECT name, value FROM present.meta WHERE name IN ('audit_head', 'audit_count')"
_NOT_HERE = "SELECT 1 FROM present.audit_events WHERE id NOT IN (SELECT id FROM main.audit_events) LIMIT 1"
_REMAIN = "audit_events_remain"  # the trigger that lets nobody delete a row of the log


@dataclass(frozen=True)
class Carried:
    """What became of sends and rights. `is_known`: the present store told what happened since the backup; else `why`
    it does not, where there is one. `relation`: how the two are related, where it was looked at.
    """

    is_known: bool
    why: str = ""
    sends: Sends = field(default_factory=Sends)
    rights: Rights = field(default_factory=Rights)
    relation: Relation | None = None
    #: All that the present log tells is in the restored one.
    has_log: bool = True


def carry_over(
    database: Database,
    present: Path,
    key: StoreKey,
    now: datetime,
    *,
    made: Made | None = None,
    leave_log: bool = False,
) -> Carried:
    """Bring a restored store up to what the present one knows; both open with `key`. One durable transaction.

    The present store must be closed; it is only read. `now` is the moment of the restore: what was due before it and is
    unknown to the present store becomes uncertain. `made`: when and why the backup was made; without it nothing is
    known to be later than it. `leave_log`: not even a log that a crash has left is folded in.
    """
    with _attached(database, present, key, leave_log), database.transaction(durable=True):
        kinship = kinship_of(database, made)
        _keep_https(database)
        if kinship.relation == "stranger":
            carried = _of_nobody(database, now, "it is another store, not a later state of this one", "stranger")
            carried_rights.see_that_somebody_can_administrate(database)
            return carried
        if kinship.relation == "forked":
            rights = forked_rights.carry(database, now, made)
        else:
            rights = carried_rights.carry(database, now, kinship)
        sends = carried_sends.carry(database, now, kinship)
        if kinship.relation != "forked":
            _continue_log(database, kinship)
        has_log = database.value(_NOT_HERE) is None
        return Carried(True, sends=sends, rights=rights, relation=kinship.relation, has_log=has_log)


def _keep_https(database: Database) -> None:
    for name in _HTTPS:
        database.change("DELETE FROM main.settings WHERE name = ?", (name,))
        database.change("INSERT INTO main.settings SELECT * FROM present.settings WHERE name = ?", (name,))


def carry_nothing(database: Database, now: datetime, why: str = "") -> Carried:
    """The same where nothing is known of what happened since: all sessions end, scheduled sends wait for a word."""
    with database.transaction(durable=True):
        return _of_nobody(database, now, why)


def _of_nobody(database: Database, now: datetime, why: str, relation: Relation | None = None) -> Carried:
    carried_rights.end_what_lets_in(database)
    return Carried(False, why, carried_sends.hold(database, now), relation=relation)


@contextmanager
def _attached(database: Database, present: Path, key: StoreKey, leave_log: bool) -> Iterator[None]:
    # Bound, not written out: statements end in logs and traces.
    secret = "raw:" + key.derive("database").hex()
    database.change("ATTACH ? AS present KEY ?", (str(present), secret))
    for schema in ("main", "present"):
        database.change(f"PRAGMA {schema}.cache_size = -{_CACHE_KIB}")
    if leave_log:
        database.disable_checkpoints()
    try:
        yield
    finally:
        database.change("DETACH present")


def _continue_log(database: Database, kinship: Kinship) -> None:
    """Append what the present log tells after the backup's end, its end with it; not where it has none, or where seals
    before it are others.
    """
    end: dict[str, str] = dict(database.rows(_END))
    number = kinship.common
    if len(end) < 2 or not database.value(_SAME_SEALS, (number,)):
        return
    # There is one at most, written while an old backup was unpacked.
    for (unpacked,) in database.rows("SELECT number FROM main.audit_events WHERE number > ?", (number,)):
        _drop_row(database, unpacked)
    copy = (
        f"INSERT INTO main.audit_events ({_LOG}) SELECT {_LOG} FROM present.audit_events"
        f" WHERE number > ? ORDER BY number LIMIT {_BATCH}"
    )
    while database.change(copy, (number,)):
        number = database.value("SELECT max(number) FROM main.audit_events")
    for name, value in end.items():
        database.change("UPDATE main.meta SET value = ? WHERE name = ?", (value, name))


def _drop_row(database: Database, number: int) -> None:
    database.change(f"DROP TRIGGER main.{_REMAIN}")
    database.change("DELETE FROM main.audit_events WHERE number = ?", (number,))
    database.change(TRIGGERS[_REMAIN])
