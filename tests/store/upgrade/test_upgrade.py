"""Stores of formats 3 and 4 become stores of format 5: every fact equal, and the old directory kept byte for byte."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.errors import EmailTaken
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.model.content import Content
from mailbox_appliance.store.backup.backups import list_backups
from mailbox_appliance.store.backup.container import open_container
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import read_key_file
from mailbox_appliance.store.schema import find_schema_differences
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.dry_run import preview_upgrade
from tests.servers.fake_clock import FakeClock
from tests.store_proof.directories import leave_log
from tests.stores.opening import FORMATS, copied

Rows = list[dict[str, Any]]


def plain_rows(folder: Path, table: str, order: str = "id") -> Rows:
    """Return the rows of an old store, read without our code."""
    connection = sqlite3.connect(f"{(folder / DATABASE_FILE).as_uri()}?immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}")]
    finally:
        connection.close()


def new_rows(store: Store, table: str, order: str = "id") -> Rows:
    """Return the rows of the new store."""
    names = [row[1] for row in store.database.rows(f"PRAGMA table_info({table})")]
    rows = store.database.rows(f"SELECT * FROM {table} ORDER BY {order}")
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.fixture(params=FORMATS)
def number(request: pytest.FixtureRequest) -> int:
    """The format of the old store."""
    found: int = request.param
    return found


@pytest.fixture
def old(number: int, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A directory of an old release, which must not change, and its secrets."""
    return copied(number, tmp_path / "old")


@pytest.fixture
def store(number: int, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    """The same, upgraded."""
    opened = Store.open(copied(number, tmp_path / "new")[0], clock)
    yield opened
    opened.close()


KEYS: dict[str, str] = {
    "mem_1": "ada@example.org",
    "mem_2": "moe@example.org",
    "mem_3": "zoë@example.org",
    "mem_4": "= ZOË@example.org",
}
#: For each format: the table and kind of scheduled messages, the column that names them, and two of them.
SENDS = {
    3: ("scheduled_sends", "pending", "id", ("sch_1", "sch_5")),
    4: ("delivery_operations", "queued", "schedule_id", ("sch_1", "sch_8")),
}
ADMIN_PART: dict[str, str] = {"key_1": "[]", "key_2": '["admin.members"]', "key_3": "[]"}


def _key_columns(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "made_by_member_id": None,
        "sending_policy": None,
        "supplemental_capabilities": ADMIN_PART[row["id"]],
    }


#: Table -> its order, and the columns that have another name or form.
TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "settings": ("name", lambda row: {}),
    "members": ("id", lambda row: {"email_key": KEYS[row["id"]]}),
    "sessions": ("id", lambda row: {"logged_in_at": row["created_at"]}),
    "invitations": ("id", lambda row: {"by_key": 0 if row["used_at"] else 2, "session_id": None}),
    "api_keys": ("id", _key_columns),
    "account_grants": ("account_id, member_id", lambda row: {}),
}


def test_every_fact_is_equal(old: tuple[Path, dict[str, Any]], store: Store) -> None:
    folder, _ = old
    for table, (order, added) in TABLES.items():
        expected = [{**row, **added(row)} for row in plain_rows(folder, table, order)]
        assert new_rows(store, table, order) == expected, table
    meta = {row["name"]: row["value"] for row in plain_rows(folder, "meta", "name")}
    assert meta.items() <= {row["name"]: row["value"] for row in new_rows(store, "meta", "name")}.items()


def test_secrets_are_the_same_plain_values(old: tuple[Path, dict[str, Any]], store: Store) -> None:
    folder, known = old
    found = new_rows(store, "accounts")
    for row, before in zip(found, plain_rows(folder, "accounts"), strict=True):
        same = (
            "id",
            "owner_member_id",
            "email",
            "display_name",
            "provider",
            "connection",
            "shared_with_all",
            "created_at",
        )
        assert {name: row[name] for name in same} == {name: before[name] for name in same}
        assert (row["mapped_folders"], row["status"]) == (before["folders"], "connecting")
    secrets = [json.loads(row["secret"]) for row in found]
    assert secrets[0] == {name: known[name] for name in ("imapPassword", "smtpPassword")}
    assert secrets[1:] == [{"refreshToken": known["refreshToken"]}, {"refreshToken": known["outlookToken"]}]
    imap = Endpoint("127.0.0.1", 10143, "none", "ada", known["imapPassword"])
    smtp = Endpoint("127.0.0.1", 10025, "none", "ada", known["smtpPassword"])
    assert store.accounts.get_connection("acc_1") == Connection("ada@example.org", imap, smtp)
    apps = new_rows(store, "oauth_apps", "provider")
    for row, before in zip(apps, plain_rows(folder, "oauth_apps", "provider"), strict=True):
        before.pop("sealed_client_secret")
        assert row == {**before, "client_secret": known["clientSecret"] if row["provider"] == "google" else None}


def test_the_audit_log_is_counted_anew_and_sealed(old: tuple[Path, dict[str, Any]], store: Store) -> None:
    before, after = plain_rows(old[0], "audit_events"), new_rows(store, "audit_events", "number")
    *rows, last = after
    assert [row["number"] for row in after] == list(range(1, len(before) + 2))
    assert [row["id"] for row in rows] == [f"aud_{row['id']}" for row in before]
    same = ("at", "actor_kind", "actor_id", "action", "outcome", "client_address")
    assert [[row[name] for name in same] for row in rows] == [[row[name] for name in same] for row in before]
    assert [row["target_id"] for row in rows] == [row["target"] for row in before]
    assert {(row["target_id"], row["target_kind"], row["about_member_id"]) for row in rows} == {
        ("mem_2", "member", "mem_2"),
        ("ses_1", "session", "mem_1"),
        ("acc_1", "account", "mem_1"),
        ("key_2", "api_key", "mem_1"),
        ("inv_1", "invitation", "mem_2"),
        ("sch_4", "schedule", None),
        ("attachments", "other", None),
        (None, None, None),
    }
    actors = {(row["actor_id"], row["actor_member_id"]) for row in rows}
    assert actors == {("ses_1", "mem_1"), ("ses_gone", None), ("key_1", "mem_1"), (None, None)}
    assert (last["actor_kind"], last["action"]) == ("system", "store.upgrade")
    assert store.audit.verify().broken is None
    assert list(find_schema_differences(store.database)) == []


def test_stored_answers_stay_for_their_24_hours(number: int, old: tuple[Path, dict[str, Any]], store: Store) -> None:
    before = plain_rows(old[0], {3: "rest_idempotency", 4: "legacy_idempotency"}[number], "key")
    kept = [
        (row["credential_id"], row["key"], row["request_hash"], row["status"], row["response_body"]) for row in before
    ]
    rows = store.database.rows("SELECT * FROM legacy_idempotency ORDER BY idempotency_key")
    assert [row[:5] for row in rows] == kept[:2]  # the third is older
    assert [row[5] for row in rows] == ["2026-01-03T02:04:05.678Z", "2026-01-02T04:04:05.678Z"]


def test_scheduled_sends_of_format_3(tmp_path: Path, clock: FakeClock) -> None:
    before = {row["id"]: row for row in plain_rows(copied(3, tmp_path / "old")[0], "scheduled_sends")}
    store = Store.open(copied(3, tmp_path / "new")[0], clock)
    after = {row["schedule_id"]: row for row in new_rows(store, "delivery_operations")}
    assert after.keys() == before.keys()
    for name, row in after.items():
        same = ("account_id", "member_id", "send_at", "created_at")
        assert {each: row[each] for each in same} == {each: before[name][each] for each in same}
        assert (row["kind"], row["credential_id"], row["idempotency_key"], row["shown"]) == ("scheduled", "", None, 1)
        assert json.loads(row["envelope"])["recipients"] == json.loads(before[name]["envelope"])["recipients"]
        assert json.loads(row["summary"])["subject"] == ("Grüße ☂" if name == "sch_5" else "later")
    states = {name: (row["status"], row["error_code"]) for name, row in after.items()}
    assert states == {
        "sch_1": ("queued", None),
        "sch_2": ("succeeded", None),
        "sch_3": ("failed", "message_rejected"),
        "sch_4": ("failed", "canceled"),
        "sch_5": ("queued", None),
    }
    assert (after["sch_2"]["result_id"], after["sch_2"]["result_thread_id"]) == ("old-sent", "old-sent")
    messages = {
        row[0]: row[1:] for row in store.database.rows("SELECT operation, wire, bcc_header FROM delivery_messages")
    }
    for name in ("sch_2", "sch_3", "sch_4"):
        assert messages[after[name]["id"]] == (before[name]["message"], b"")
    wire, bcc = messages[after["sch_1"]["id"]]
    assert wire.replace(b"Date: Fri, 02 Jan 2026 04:04:05 +0000\r\n", b"") == before["sch_1"]["message"]
    wire, bcc = messages[after["sch_5"]["id"]]
    assert b"eve" not in wire
    assert b"\r\nBcc: eve@example.org\r\n\r\n" in with_bcc(Content(wire), bcc).read()
    assert wire.isascii()
    due = [each.operation_id for each in store.schedule.list_due_sends(clock.now())]
    assert due == []
    clock.advance(3600)
    assert [each.operation_id for each in store.schedule.list_due_sends(clock.now())] == [after["sch_1"]["id"]]
    store.close()


def test_deliveries_of_format_4(tmp_path: Path, clock: FakeClock) -> None:
    before = {row["id"]: row for row in plain_rows(copied(4, tmp_path / "old")[0], "delivery_operations")}
    store = Store.open(copied(4, tmp_path / "new")[0], clock)
    after = {row["id"]: row for row in new_rows(store, "delivery_operations")}
    assert after.keys() == before.keys()
    for name, row in after.items():
        old = before[name]
        same = (
            "account_id",
            "member_id",
            "idempotency_key",
            "kind",
            "error_code",
            "schedule_id",
            "send_at",
            "attempts",
        )
        times = ("created_at", "updated_at")
        assert {each: row[each] for each in (*same, *times)} == {each: old[each] for each in (*same, *times)}
        assert (row["credential_id"], row["request_hash"]) == (old["credential_id"] or "", old["request_hash"] or "")
        assert row["status"] == {"sending": "uncertain"}.get(old["status"], old["status"])
        if old["result_id"]:
            assert (row["result_id"], row["result_thread_id"]) == (old["result_id"], old["result_thread_id"])
    assert json.loads(after["dlv_3"]["result_warnings"]) == {"told0": "The copy is late."}
    looked_for = {each.operation_id for each in store.schedule.list_due_evidence(clock.now(), "acc_1")}
    assert looked_for == set()
    clock.advance(5)
    looked_for = {each.operation_id for each in store.schedule.list_due_evidence(clock.now(), "acc_1")}
    assert looked_for == {"dlv_5", "dlv_6"}
    store.close()


def test_the_migration_backup_holds_the_old_directory_byte_for_byte(
    number: int, old: tuple[Path, dict[str, Any]], store: Store, tmp_path: Path
) -> None:
    (backup,) = list_backups(store.folder)
    assert (backup.reason, backup.format, backup.verified) == ("migration", number, True)
    container = open_container(store.folder / "backups" / backup.file_name, key=store.key)
    for section in container.manifest.sections:
        target = tmp_path / section.name
        container.extract(section.name, target)
        assert target.read_bytes() == (old[0] / section.name).read_bytes()
    assert {section.name for section in container.manifest.sections} == {DATABASE_FILE, KEY_FILE, "config.toml"}


def test_a_log_that_was_left_is_part_of_the_store_and_of_its_backup(tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(3, tmp_path / "data")
    leave_log(folder, "UPDATE members SET name = 'From the log' WHERE id = 'mem_2'")
    before = {
        name: (folder / name).read_bytes() for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal", KEY_FILE, "config.toml")
    }
    store = Store.open(folder, clock)
    assert store.members.get("mem_2").name == "From the log"
    (backup,) = list_backups(folder)
    container = open_container(folder / "backups" / backup.file_name, key=store.key)
    assert {section.name: container.read(section.name) for section in container.manifest.sections} == before
    store.close()


def test_nothing_readable_is_left(old: tuple[Path, dict[str, Any]], store: Store) -> None:
    known = [str(value).encode() for value in old[1].values() if isinstance(value, str)]
    for file in store.folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            found = [
                word for word in (*known, b"example.org", b"hello", b"Subject", b"CREATE TABLE") if word in content
            ]
            assert not found, file
    assert {file.name for file in store.folder.iterdir()} - {f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm"} == {
        *(DATABASE_FILE, KEY_FILE, "config.toml", "lock", "backups")
    }


def test_the_key_stays_and_its_file_gets_a_form(old: tuple[Path, dict[str, Any]], store: Store) -> None:
    known = read_key_file(store.folder / KEY_FILE)
    assert known is not None
    assert store.key.store_id == known.store_id
    assert known.salt == (store.folder / DATABASE_FILE).read_bytes()[:16].hex()
    assert (old[0] / KEY_FILE).read_bytes().strip() in (store.folder / KEY_FILE).read_bytes()


def test_of_an_email_that_two_have_each_spelling_finds_its_own(store: Store) -> None:
    assert store.upgraded is not None
    ((warning,)) = store.upgraded.warnings
    assert "The email address of the member mem_4 differs from that of mem_3 only in spelling" in warning
    for email, member in (("zoë@example.org", "mem_3"), ("Zoë@EXAMPLE.ORG", "mem_3"), ("ZOË@example.org", "mem_4")):
        found = store.members.find_with_password(email)
        assert found is not None
        assert found[0].id == member
    assert store.members.find_with_password("= ZOË@example.org") is None
    with store.database.transaction():
        store.members.update("mem_4", name="Zoë the other", email="ZOË@example.org")
        for taken in ("Zoë@example.org", "zoë@EXAMPLE.org"):
            with pytest.raises(EmailTaken):
                store.members.update("mem_4", email=taken)
        store.members.update("mem_3", email="zoe@example.org")
        for taken in ("zoë@example.org", "ZOË@example.org"):  # still that of the other one
            with pytest.raises(EmailTaken):
                store.members.add(name="Zoë III", email=taken, role="member", password_hash=None)
        assert store.members.update("mem_4", email="zoë@example.org").email == "zoë@example.org"
    found = store.members.find_with_password("ZOË@example.org")
    assert found is not None
    assert found[0].id == "mem_4"


def test_what_nobody_can_send_is_kept_as_failed(number: int, tmp_path: Path, clock: FakeClock) -> None:
    folder, _ = copied(number, tmp_path / "new")
    table, waits, name, two = SENDS[number]
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute(f"UPDATE {table} SET message = x'' WHERE {name} = ?", two[:1])
    nobody = json.dumps({"from": "ada@example.org", "recipients": []})
    connection.execute(f"UPDATE {table} SET envelope = ? WHERE {name} = ?", (nobody, two[1]))
    if number == 4:  # it may have been sent
        connection.execute(f"UPDATE {table} SET message = NULL WHERE status = 'sending'")
    connection.commit()
    (waiting,) = connection.execute(f"SELECT count(*) FROM {table} WHERE status = '{waits}'").fetchone()
    connection.close()
    foreseen = preview_upgrade(folder, folder / KEY_FILE)
    assert (foreseen.problems, len(foreseen.warnings)) == ((), 3)
    store = Store.open(folder, clock)
    assert store.upgraded is not None
    assert store.upgraded.warnings == foreseen.warnings
    assert [one in warning for one, warning in zip(two, foreseen.warnings[1:], strict=True)] == [True, True]
    rows = {row["schedule_id"]: row for row in new_rows(store, "delivery_operations")}
    assert [(rows[one]["status"], rows[one]["error_code"]) for one in two] == [("failed", "message_rejected")] * 2
    told = [store.delivery_lists.get("acc_1", rows[one]["id"], "mem_1")[0] for one in two]
    assert [one.status for one in told] == ["failed", "failed"]
    uncertain = store.database.value("SELECT count(*) FROM delivery_operations WHERE status = 'uncertain'")
    assert uncertain == (2 if number == 4 else 0)
    left = store.database.value("SELECT count(*) FROM delivery_operations WHERE status = 'queued'")
    assert left == waiting - 2
    store.close()


def test_progress_is_told(old: tuple[Path, dict[str, Any]], tmp_path: Path, clock: FakeClock) -> None:
    told: list[tuple[str, int, int]] = []
    Store.open(old[0], clock, progress=lambda *step: told.append(step)).close()
    steps = list(dict.fromkeys(step for step, _, _ in told))
    assert steps[-4:] == [
        "checking the old store",
        "copying the store",
        "sealing the audit log",
        "comparing the stores",
    ]
    assert all(0 <= done <= total for _, done, total in told)
