"""Fills a new store of format 5 from an attached one of format 3 or 4, and compares the two afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import StoreDamaged, StoreUnusable
from mailbox_appliance.model.records import Progress
from mailbox_appliance.store.audit import SYSTEM, Audit
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.formats import audit_from_4, format_4, format_5, from_4, sends_from_4
from mailbox_appliance.store.keyfile import StoreKey
from mailbox_appliance.store.older import Reading

Secrets = Mapping[tuple[str, str], str]
_MOST_NAMED = 20
_TWIN = (
    "The member {} has the same email as {}, but for its spelling: they log in with exactly their own spelling of it."
    " An administrator can give them another email."
)
_REJECTED = "The scheduled send {} has no message or no recipients: it is kept as failed (message_rejected)."


@dataclass(frozen=True)
class Built:
    """A new store that was filled: its moment, as text, and what is to be told of it, a sentence each."""

    since: str
    warnings: tuple[str, ...]


def build(database: Database, number: int, key: StoreKey, secrets: Secrets, clock: Clock, tell: Progress) -> Built:
    """Make the new store in an empty database that the old one, of format `number`, is attached to: one transaction.

    Raises ValueError for what cannot be told in the new format, and what SQLite raises.
    """
    now = clock.now()
    since = to_timestamp(now)
    with database.transaction():
        for statement in _statements(are_triggers=False):
            database.change(statement)
        warnings = _prepare(database, number, secrets)
        for done, copied in enumerate(from_4.COPIED):
            tell("copying the store", done, len(from_4.COPIED) + 1)
            database.rows(copied.insert_sql, {"now": since})
        sends_from_4.copy(database, now)
        _copy_log(database, key, clock, tell)
        for statement in _statements(are_triggers=True):
            database.change(statement)
        database.change(f"PRAGMA main.application_id = {format_5.APPLICATION_ID}")
        database.change(f"PRAGMA main.user_version = {format_5.NUMBER}")
    return Built(since, warnings)


def rehearse(database: Reading, number: int, secrets: Secrets, clock: Clock) -> tuple[str, ...]:
    """Do in memory, in an empty database that the old store is attached to, what `build` does: answers its warnings.

    Left out is what may be very much: the audit log, stored answers, and messages, which are made ready one by one.
    Raises as `build`.
    """
    now = clock.now()
    for statement in _statements(are_triggers=False):
        database.change(statement)
    warnings = _prepare(database, number, secrets)
    for copied in from_4.COPIED:
        if copied.table != "legacy_idempotency":
            database.rows(copied.insert_sql, {"now": to_timestamp(now)})
    sends_from_4.rehearse(database, now)
    return warnings


def compare(database: Database, number: int, secrets: Secrets, since: str, tell: Progress) -> None:
    """See that everything is there: every row, by count and by each column that has a counterpart; every secret.

    `since`: the moment at which it was built, as text. Raises StoreUnusable, naming the table and the row.
    """
    total = len(from_4.COPIED) + 2
    database.change(format_4.OPERATION_IDS)
    if number == 3:
        sends_from_4.find_names(database)
    for done, copied in enumerate(from_4.COPIED):
        tell("comparing the stores", done, total)
        _require_same(database, copied.table, (copied.count_old_sql, copied.count_new_sql), copied.differing_sql, since)
    tell("comparing the stores", total - 2, total)
    counts = sends_from_4.COUNT, "SELECT count(*) FROM main.delivery_operations"
    _require_same(database, "delivery_operations", counts, sends_from_4.DIFFERING, since)
    tell("comparing the stores", total - 1, total)
    counts = audit_from_4.COUNT, "SELECT count(*) - 1 FROM main.audit_events"  # the upgrade is the last
    _require_same(database, "audit_events", counts, audit_from_4.DIFFERING, since)
    for (table, row), secret in secrets.items():
        if database.value(from_4.SECRETS[table], (row,)) != secret:
            raise _not_the_same(table, row)


@contextmanager
def telling_damage(file: Path) -> Iterator[None]:
    """What the new format does not take was not right in the old file, although every value for itself was."""
    try:
        yield
    except ValueError as error:
        raise StoreDamaged(file=file, reason=str(error)) from error
    except apsw.ConstraintError as error:
        raise StoreDamaged(file=file, reason=f"its rows contradict each other ({error})") from error
    except apsw.CorruptError as error:
        raise StoreDamaged(file=file, reason="a page of it cannot be read") from error


def _statements(*, are_triggers: bool) -> list[str]:
    """The schema. Triggers come last: they would look at every row that is copied."""
    statements = (statement for statement in format_5.SCHEMA.split(";\n") if statement.strip())
    return [statement for statement in statements if ("CREATE TRIGGER" in statement) == are_triggers]


def _prepare(database: Reading, number: int, secrets: Secrets) -> tuple[str, ...]:
    """Make what the statements need that only Python can make; answers what is to be told of it."""
    for statement in (*from_4.TEMPORARY, format_4.OPERATION_IDS):
        database.change(statement)
    members = database.rows("SELECT id, email FROM older_members ORDER BY created_at, id")
    keys, twins = from_4.email_keys((row[0], row[1]) for row in members)
    database.change_many("INSERT INTO temp.email_keys VALUES (?, ?)", list(keys.items()))
    rows = [(*place, secret) for place, secret in secrets.items()]
    database.change_many("INSERT INTO temp.secrets VALUES (?, ?, ?)", rows)
    if number == 3:
        sends_from_4.name_operations(database)
    rejected = sends_from_4.rejected(database)
    return (*_named(_TWIN, list(twins.items())), *_named(_REJECTED, [(send,) for send in rejected]))


def _named(sentence: str, found: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A sentence for each, and a last one for those that are too many."""
    yield from (sentence.format(*names) for names in found[:_MOST_NAMED])
    if len(found) > _MOST_NAMED:
        yield f"The same is so of {len(found) - _MOST_NAMED:,} more."


def _copy_log(database: Database, key: StoreKey, clock: Clock, tell: Progress) -> None:
    audit, total = Audit(database, key.derive("audit"), clock), database.value(audit_from_4.COUNT)
    audit.start_log()
    audit.append(audit_from_4.rows(database, lambda done: tell("sealing the audit log", done, total)))
    audit.record(SYSTEM, "store.upgrade")


def _require_same(database: Database, table: str, counts: tuple[str, str], differing: str, since: str) -> None:
    now = {"now": since}
    old, new = (database.value(sql, now) for sql in counts)
    if old != new:
        raise _not_the_same(table, f"{new} rows instead of {old}")
    if (row := database.row(differing, now)) is not None:
        raise _not_the_same(table, row[0])


def _not_the_same(table: str, what: object) -> StoreUnusable:
    reason = f"after the upgrade its table {table} was not what it had been ({what}), so nothing was changed."
    return StoreUnusable(reason=f"{reason} This is a fault of this release; use the one before, and report it.")
