"""The guarantees of past formats, tested with real files; and the conversion of single facts to this format."""

import sqlite3
from pathlib import Path

import pytest

from mailbox_appliance.offline.restore import unpack
from mailbox_appliance.store.backup.backups import list_backups
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.formats import format_4, format_5
from mailbox_appliance.store.store import Store
from mailbox_appliance.store.upgrade.old_store import unseal_secret
from tests.store_proof.directories import leave_log
from tests.stores import make_format_3, make_format_4
from tests.stores.make_format_3 import Maker
from tests.stores.opening import FORMATS, copied

MAKERS = {3: make_format_3.make, 4: make_format_4.make}


@pytest.mark.parametrize("number", FORMATS)
def test_what_is_promised_is_all_that_there_is(number: int, tmp_path: Path) -> None:
    folder, _ = copied(number, tmp_path / "data")
    connection = sqlite3.connect(folder / DATABASE_FILE)
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    found = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for (name,) in tables.fetchall()
    }
    assert connection.execute("PRAGMA user_version").fetchone() == (number,)
    assert connection.execute("PRAGMA application_id").fetchone() == (format_5.APPLICATION_ID,)
    connection.close()
    promised = format_4.COLUMNS_BY_FORMAT[number]
    assert found.keys() == promised.keys()
    for table, columns in promised.items():
        assert set(found[table]) == set(columns), table


@pytest.mark.parametrize("number", FORMATS)
def test_a_store_that_is_made_today_is_upgraded(number: int, tmp_path: Path) -> None:
    MAKERS[number](tmp_path / "data", rows=300)
    store = Store.open(tmp_path / "data")
    assert store.database.value("SELECT count(*) FROM audit_events") == 298
    assert store.database.value("SELECT count(*) FROM legacy_idempotency") == 302
    assert store.audit.verify().broken is None
    store.close()


def test_an_empty_store_is_upgraded(tmp_path: Path) -> None:
    Maker.begin(tmp_path / "data", make_format_3.SCHEMA.read_text(), None).close()
    store = Store.open(tmp_path / "data")
    assert not store.members.has_any()
    store.close()


@pytest.mark.parametrize("number", FORMATS)
def test_a_migration_backup_gives_the_old_directory_back_byte_for_byte(number: int, tmp_path: Path) -> None:
    folder, _ = copied(number, tmp_path / "data")
    leave_log(folder, "UPDATE members SET name = 'From the log' WHERE id = 'mem_2'")
    (folder / "tls").mkdir()
    for name in ("cert.pem", "key.pem"):
        (folder / "tls" / name).write_text(name)
    before = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before.pop(f"{DATABASE_FILE}-shm", None)
    Store.open(folder).close()
    (backup,) = list_backups(folder)
    unpack(folder, backup.id, tmp_path / "back")
    back = tmp_path / "back"
    assert {str(file.relative_to(back)): file.read_bytes() for file in back.rglob("*") if file.is_file()} == before
    assert {file.stat().st_mode & 0o777 for file in back.rglob("*") if file.is_file()} == {0o600}
    connection = sqlite3.connect(back / DATABASE_FILE)  # as release 0.10 opens it
    assert connection.execute("SELECT name FROM members WHERE id = 'mem_2'").fetchone() == ("From the log",)
    connection.close()


def test_a_sealed_secret_opens_at_its_own_place_only(tmp_path: Path) -> None:
    made = Maker.begin(tmp_path, make_format_3.SCHEMA.read_text(), None)
    made.close()
    sealed = made.seal("accounts", "acc_1", "sealed_secret", "sécret")
    place = {"table": "accounts", "row": "acc_1", "column": "sealed_secret"}
    assert unseal_secret(made.key, sealed, **place) == "sécret"
    for other in ({"table": "oauth_apps"}, {"row": "acc_2"}, {"column": "secret"}):
        assert unseal_secret(made.key, sealed, **(place | other)) is None
    for content in (b"", b"\x01", sealed[:-1], b"\x02" + sealed[1:], sealed[:-1] + bytes((sealed[-1] ^ 1,))):
        assert unseal_secret(made.key, content, **place) is None
    assert unseal_secret(bytes(32), sealed, **place) is None
    assert (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize(
    ("emails", "keys"),
    [
        (("a@b.example", "c@b.example"), ("a@b.example", "c@b.example")),
        (("Zoë@b.example", "ZOË@b.example"), ("zoë@b.example", "= ZOË@b.example")),
        (("a@bücher.example", "a@xn--bcher-kva.example"), ("a@xn--bcher-kva.example", "= a@xn--bcher-kva.example")),
        (("no email", "NO EMAIL"), ("no email", "= NO EMAIL")),
    ],
)
def test_each_email_has_one_member(emails: tuple[str, str], keys: tuple[str, str]) -> None:
    found, twins = format_4.assign_email_keys((f"mem_{number}", email) for number, email in enumerate(emails))
    assert tuple(found.values()) == keys
    assert twins == {member: "mem_0" for member, key in found.items() if key.startswith("= ")}
