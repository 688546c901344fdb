"""A restore replaces the store completely or not at all; the replaced files are kept."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mailbox_appliance.errors import (
    BackupAltered,
    BackupWrongPassphrase,
    Conflict,
    KeyUnusable,
    NotABackup,
    ReplacedUnopened,
    StoreUnusable,
)
from mailbox_appliance.store.audit import SYSTEM_ACTOR, Actor
from mailbox_appliance.store.backup.backups import verify_file
from mailbox_appliance.store.backup.container import SECTION_NAMES, SectionSource
from mailbox_appliance.store.backup.files import stage_backup
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import FileSlot, StoreKey, new_key, read_key, read_key_file, render_key_file
from mailbox_appliance.store.maintenance.rewrite import rekey_closed_store
from mailbox_appliance.store.open_file import DirectoryLock, check_opens_with
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.restore.restore import (
    PreparedRestore,
    RestoreResult,
    complete_restore,
    merge_into_prepared,
    prepare_restore,
    undo_restore,
    unpack_into_folder,
)
from mailbox_appliance.store.restore.unpack import PresentKey
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import execute
from tests.store.restored import add_session, closed_store, lets_in
from tests.store.test_key_slots import quickly_sealed
from tests.stores.opening import copied

LOCAL = Actor("local")
FIRST, SECOND = "correct horse battery", "staple battery horse"


@pytest.fixture
def folder(tmp_path: Path, clock: FakeClock) -> Path:
    """A data directory with a closed store in it, a configuration and a certificate."""
    made = tmp_path / "data"
    closed_store(made, clock)
    (made / "config.toml").write_text("[log]\nlevel = 'debug'\n")
    (made / "tls").mkdir(mode=0o700)
    (made / "tls" / "cert.pem").write_text("certificate")
    return made


def back_up(folder: Path, clock: FakeClock, *, passphrase: str | None = None, format: int = 5) -> Path:  # noqa: A002
    """Back up the files of a closed store; return the path."""
    known = read_key_file(folder / KEY_FILE)
    assert known is not None
    sources = [SectionSource(name, folder / name) for name in SECTION_NAMES if (folder / name).exists()]
    key = read_key(folder / KEY_FILE)
    with stage_backup(folder, "manual", sources, key, known.slots, format, clock, passphrase=passphrase) as made:
        return made.publish()


def back_up_raw(folder: Path, key: StoreKey, clock: FakeClock, *, format: int = 5) -> Path:  # noqa: A002
    """Do the same for a store whose key file has no slots."""
    sources = [SectionSource(name, folder / name) for name in SECTION_NAMES if (folder / name).exists()]
    with stage_backup(folder, "migration", sources, key, (FileSlot(key.master),), format, clock) as made:
        return made.publish()


def prepare(
    folder: Path, file: Path, clock: FakeClock, *, is_known: bool = True, passphrase: str | None = None
) -> PreparedRestore:
    """Unpack a backup beside a store whose files are closed, as a serving process does."""
    present = PresentKey(read_key(folder / KEY_FILE), folder / KEY_FILE) if is_known else None
    return prepare_restore(folder, file, folder / KEY_FILE, present, clock, passphrase=passphrase)


def complete(prepared: PreparedRestore, clock: FakeClock) -> RestoreResult:
    """Complete a restore; it is in place when this returns."""
    restored = complete_restore(prepared, clock, LOCAL)
    swap.finish(prepared.folder, prepared.key_file)
    return restored


def put_back(prepared: PreparedRestore, restored: RestoreResult) -> None:
    """Undo a restore, as if the restored store had not opened."""
    assert restored.kept is not None
    undo_restore(prepared, restored.kept)
    swap.finish(prepared.folder, prepared.key_file)


def restore(
    folder: Path, file: Path, clock: FakeClock, *, is_known: bool = True, passphrase: str | None = None
) -> RestoreResult:
    """Do both."""
    return complete(prepare(folder, file, clock, is_known=is_known, passphrase=passphrase), clock)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a directory except backups and the lock."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "lock" and "backups/" not in name}


def remark(folder: Path, clock: FakeClock, name: str = "remark", value: object = True) -> None:
    """Add a fact to the store."""
    store = Store.open(folder, clock)
    with store.database.transaction():
        store.stored_settings.put(name, value)
    store.close()


def test_the_store_is_as_it_was_at_the_backup(folder: Path, clock: FakeClock) -> None:
    file = back_up(folder, clock)
    remark(folder, clock)
    (folder / "config.toml").write_text("[log]\nlevel = 'error'\n")
    restored = restore(folder, file, clock)
    assert restored.carried.is_known
    store = Store.open(folder, clock)
    assert store.stored_settings.find("remark") is None
    assert [one.name for one in store.members.list()] == ["Ada", "Bob"]
    newest = store.audit.list(None, 1)[0][0]
    assert (newest.action, newest.actor.kind, newest.outcome) == ("backup.restore", "local", "success")
    assert store.audit.verify().broken is None
    assert store.key.salt == (folder / DATABASE_FILE).read_bytes()[:16].hex()
    store.close()
    assert (folder / "config.toml").read_text() == "[log]\nlevel = 'debug'\n"
    left = {path.name for path in folder.iterdir()}
    assert left == {"backups", "config.toml", KEY_FILE, "lock", DATABASE_FILE, "tls"}


def test_what_is_replaced_is_kept_and_can_be_put_back(folder: Path, clock: FakeClock) -> None:
    file = back_up(folder, clock)
    remark(folder, clock)
    before, prepared = contents(folder), prepare(folder, file, clock)
    restored = complete(prepared, clock)
    assert restored.kept is not None
    assert restored.kept.name.endswith("-pre-restore.mbxbackup")
    assert contents(folder) != before
    put_back(prepared, restored)
    assert contents(folder) == before


def test_what_was_replaced_can_be_restored_as_any_backup(folder: Path, clock: FakeClock) -> None:
    """Even if a crash left its log."""
    file = back_up(folder, clock)
    store = Store.open(folder, clock)
    with store.database.transaction():
        store.stored_settings.put("remark", 1)
    shutil.copytree(folder, folder.parent / "crashed")
    store.close()
    crashed = folder.parent / "crashed"
    assert (crashed / "mailbox.db-wal").stat().st_size > 0
    kept = restore(crashed, file, clock).kept
    assert kept is not None
    restore(crashed, kept, clock)
    store = Store.open(crashed, clock)
    assert store.stored_settings.find("remark") == 1
    store.close()


def test_with_another_key_the_present_one_stays(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    """This happens after `store rekey`, or with the backup of another computer."""
    file = back_up(folder, clock)
    other = Store.open(tmp_path / "other", clock)
    other.close()
    key = read_key(tmp_path / "other" / KEY_FILE)
    restored = restore(tmp_path / "other", file, clock)
    assert not restored.carried.is_known, "it is unrelated"
    store = Store.open(tmp_path / "other", clock)
    assert (store.key.master, store.key.store_id) == (key.master, key.store_id)
    assert [one.name for one in store.members.list()] == ["Ada", "Bob"]
    assert store.audit.verify().broken is None
    store.close()


@pytest.mark.parametrize("damage", ["database", "key", "all"])
def test_where_the_present_store_does_not_open_the_key_comes_from_the_backup(
    folder: Path, clock: FakeClock, damage: str
) -> None:
    store = Store.open(folder, clock)
    add_session(store, store.members.list()[0].id, "9")
    store.close()
    file = back_up(folder, clock)
    if damage in ("database", "all"):
        (folder / DATABASE_FILE).unlink()
    if damage == "database":
        (folder / DATABASE_FILE).write_bytes(b"x" * 5000)
    if damage in ("key", "all"):
        (folder / KEY_FILE).unlink()
    restored = restore(folder, file, clock, is_known=False)
    assert not restored.carried.is_known
    assert (restored.kept is None) == (damage == "all")
    store = Store.open(folder, clock)
    assert lets_in(store, "9") is None
    assert store.stored_settings.find("sending.hold_scheduled") is True
    store.close()
    known = read_key_file(folder / KEY_FILE)
    assert known is not None
    assert known.salt == (folder / DATABASE_FILE).read_bytes()[:16].hex()


def test_a_key_file_that_cannot_be_written_stays_where_it_holds_the_key(
    folder: Path, clock: FakeClock, tmp_path: Path
) -> None:
    file, place = back_up(folder, clock), tmp_path / "credentials" / "db-key"
    present = PresentKey(read_key(folder / KEY_FILE), folder / KEY_FILE)
    prepared = prepare_restore(folder, file, place, present, clock)
    assert not (prepared.making / KEY_FILE).exists()
    with pytest.raises(KeyUnusable):
        prepare_restore(folder, file, place, None, clock)


# --- obstacles --------------------------------------------------------------------------------------------------------


@pytest.fixture
def unchanged(folder: Path, clock: FakeClock) -> Iterator[Path]:
    """A backup, and a data directory in which nothing may change."""
    file = back_up(folder, clock)
    remark(folder, clock)
    before, backups = contents(folder), list((folder / "backups").iterdir())
    yield file
    assert contents(folder) == before
    assert sorted((folder / "backups").iterdir()) == sorted(backups)


def test_a_configuration_that_cannot_be_used_is_noticed_in_time(
    folder: Path, clock: FakeClock, unchanged: Path
) -> None:
    seen = list[str]()

    def check(file: Path) -> None:
        seen.append(file.read_text())
        raise ValueError("no")

    present = PresentKey(read_key(folder / KEY_FILE), folder / KEY_FILE)
    with pytest.raises(ValueError, match="no"):
        prepare_restore(folder, unchanged, folder / KEY_FILE, present, clock, check_config=check)
    assert seen == ["[log]\nlevel = 'debug'\n"]


@pytest.mark.parametrize("place", [0.5, 0.99])
def test_an_altered_backup(folder: Path, clock: FakeClock, unchanged: Path, place: float) -> None:
    content = bytearray(unchanged.read_bytes())
    content[int(len(content) * place)] ^= 1
    altered = folder.parent / "altered.mbxbackup"
    altered.write_bytes(content)
    with pytest.raises(BackupAltered):
        restore(folder, altered, clock)


def test_a_database_that_is_damaged_in_the_backup(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "damaged")
    content = bytearray((folder / DATABASE_FILE).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "damaged" / DATABASE_FILE).write_bytes(content)
    before = contents(folder)
    with pytest.raises(BackupAltered, match="the database in it"):
        restore(folder, back_up(tmp_path / "damaged", clock), clock)
    assert contents(folder) == before


def test_a_passphrase_that_is_wrong_or_missing(folder: Path, clock: FakeClock) -> None:
    file = back_up(folder, clock, passphrase=FIRST)
    before = contents(folder)
    for passphrase in (None, SECOND):
        with pytest.raises(BackupWrongPassphrase):
            restore(folder, file, clock, passphrase=passphrase)
    assert contents(folder) == before
    restore(folder, file, clock, passphrase=FIRST)
    Store.open(folder, clock).close()


def test_a_present_store_that_cannot_be_read_to_its_end_stays(folder: Path, clock: FakeClock) -> None:
    """Nothing is merged in part: here a required page of the present store is damaged."""
    file = back_up(folder, clock)
    store = Store.open(folder, clock)
    execute(store, "DROP TABLE legacy_idempotency")
    store.close()
    before = contents(folder)
    with pytest.raises(StoreUnusable):
        restore(folder, file, clock)
    assert contents(folder) == before


def test_to_try_out_changes_nothing_and_tells_what_would_be(folder: Path, clock: FakeClock, unchanged: Path) -> None:
    lock = DirectoryLock(folder)
    prepared = prepare(folder, unchanged, clock)
    assert merge_into_prepared(prepared, clock, SYSTEM_ACTOR, leave_present=True).is_known
    assert (prepared.summary.members, prepared.summary.accounts) == (2, 2)
    swap.discard(folder)
    lock.release()


# --- another directory ------------------------------------------------------------------------------------------------


def test_a_backup_opens_as_a_store_of_its_own_elsewhere(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    unpacked = unpack_into_folder(back_up(folder, clock), tmp_path / "there" / "new", clock)
    assert unpacked.carried is not None
    assert not unpacked.carried.is_known
    store = Store.open(tmp_path / "there" / "new", clock)
    assert [one.name for one in store.members.list()] == ["Ada", "Bob"]
    store.close()
    assert {path.name for path in (tmp_path / "there" / "new").iterdir()} >= {
        "config.toml",
        KEY_FILE,
        DATABASE_FILE,
        "tls",
    }


def test_an_older_format_comes_back_byte_for_byte(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    old = copied(3, tmp_path / "real")[0]
    before = contents(old)
    file = back_up_raw(old, read_key(old / KEY_FILE), clock, format=3)
    unpacked = unpack_into_folder(file, tmp_path / "old", clock)
    assert unpacked.carried is None
    assert unpacked.summary is not None
    assert contents(tmp_path / "old") == before
    files = [path for path in (tmp_path / "old").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_only_an_empty_directory_is_unpacked_into(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    file, target = back_up(folder, clock), tmp_path / "target"
    target.mkdir()
    (target / "mine").touch()
    with pytest.raises(Conflict, match="not an empty directory"):
        unpack_into_folder(file, target, clock)
    (target / "mine").unlink()
    unpack_into_folder(file, target, clock)
    with pytest.raises(NotABackup):
        unpack_into_folder(folder / DATABASE_FILE, tmp_path / "nowhere", clock)
    assert not (tmp_path / "nowhere").exists()


def test_a_key_that_knows_no_store_id_is_no_hindrance(folder: Path, clock: FakeClock) -> None:
    """A key file of release 0.10 that cannot be written."""
    key = read_key(folder / KEY_FILE)
    file = back_up(folder, clock)
    present = PresentKey(replace(key, store_id="", salt=None), folder / KEY_FILE)
    complete_restore(prepare_restore(folder, file, folder / KEY_FILE, present, clock), clock, LOCAL)
    store = Store.open(folder, clock)
    assert store.key.master == key.master
    store.close()


# --- a replaced store that does not open ------------------------------------------------------------------------------


def renew_key(folder: Path) -> None:
    """Do what `store rekey` does: earlier backups have another key."""
    rekey_closed_store(folder, folder / KEY_FILE)


LOST = [  # damage to the store, whether it got another key since the backup, reported state of its database
    ("key missing", False, ""),
    ("key missing", True, "does not open with the key of the backup"),
    ("key damaged", False, ""),
    ("key damaged", True, "does not open with the key of the backup"),
    ("another key", False, ""),
    ("database damaged", False, "is damaged"),
    ("database damaged", True, "does not open with the key of the backup"),
    ("no database", False, "does not open with the key of the backup"),
    ("empty database", False, "is damaged"),
]


def lose(folder: Path, how: str) -> None:
    """Make the store of a folder impossible to open."""
    if how == "key missing":
        (folder / KEY_FILE).unlink()
    elif how == "key damaged":
        (folder / KEY_FILE).write_bytes(b"junk" * 500_000)
    elif how == "another key":
        key = new_key()
        (folder / KEY_FILE).write_bytes(render_key_file(key, (FileSlot(key.master),)))
    elif how == "database damaged":
        with (folder / DATABASE_FILE).open("r+b") as file:
            file.seek(5000)
            file.write(bytes(100))
    else:
        (folder / DATABASE_FILE).write_bytes(b"no database" * 900 if how == "no database" else b"")
    (folder / "mailbox.db-wal").write_bytes(b"a log")


@pytest.mark.parametrize(("how", "has_new_key", "said"), LOST)
def test_what_was_replaced_can_always_be_had_back(
    folder: Path, clock: FakeClock, tmp_path: Path, how: str, has_new_key: bool, said: str
) -> None:
    file = back_up(folder, clock)
    if has_new_key:
        renew_key(folder)
    remark(folder, clock)
    lose(folder, how)
    before = contents(folder)
    kept = restore(folder, file, clock, is_known=False).kept
    assert kept is not None
    unpacked = unpack_into_folder(kept, tmp_path / "there", clock)
    assert said in unpacked.why
    now = contents(folder)
    if not said:
        assert unpacked.summary is not None
        assert unpacked.carried is not None, "a store of its own: nothing in it is sent again"
        assert verify_file(kept).ok
        restore(folder, kept, clock)
        store = Store.open(folder, clock)
        assert store.stored_settings.find("remark") is True
        store.close()
        return
    assert unpacked.summary is None
    assert contents(tmp_path / "there") == before, "byte for byte"
    with pytest.raises(ReplacedUnopened, match=f"(?s)is intact and keeps.*{said}.*--to DIR"):
        verify_file(kept)
    with pytest.raises(ReplacedUnopened):
        restore(folder, kept, clock)
    assert contents(folder) == now


def test_what_was_replaced_of_an_older_release_lacks_its_key(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    file = back_up(folder, clock)
    old = copied(3, tmp_path / "old")[0]
    (old / KEY_FILE).unlink()
    before = contents(old)
    kept = restore(old, file, clock, is_known=False).kept
    assert kept is not None
    unpacked = unpack_into_folder(kept, tmp_path / "there", clock)
    assert (unpacked.summary is None, contents(tmp_path / "there")) == (False, before)
    with pytest.raises(ReplacedUnopened, match=f"cannot be upgraded.*{KEY_FILE}"):
        restore(old, kept, clock)


# --- the key file in place of the restored one ------------------------------------------------------------------------


def test_the_key_of_a_store_that_was_moved_away_is_kept(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    """The documentation recommends to give a store up by moving `mailbox.db` away. Its key may be the only copy."""
    file = back_up(folder, clock)
    renew_key(folder)
    remark(folder, clock)
    (folder / DATABASE_FILE).rename(tmp_path / "moved.db")
    key = (folder / KEY_FILE).read_bytes()
    restored = restore(folder, file, clock, is_known=False)
    assert restored.kept is None
    assert restored.kept_key is not None
    assert (restored.kept_key.parent, restored.kept_key.read_bytes()) == (folder, key)
    assert restored.kept_key.name.startswith(f"{KEY_FILE}.2")
    assert restored.kept_key.stat().st_mode & 0o777 == 0o600
    Store.open(folder, clock).close()
    (folder / DATABASE_FILE).unlink()
    (tmp_path / "moved.db").rename(folder / DATABASE_FILE)
    restored.kept_key.rename(folder / KEY_FILE)
    store = Store.open(folder, clock)
    assert store.stored_settings.find("remark") is True
    store.close()


@pytest.mark.parametrize("damaged", [False, True])
def test_a_key_file_with_the_same_key_keeps_its_slots(folder: Path, clock: FakeClock, damaged: bool) -> None:
    """Slots that open the store now open it afterwards; removed slots stay removed."""
    file, key = back_up(folder, clock), read_key(folder / KEY_FILE)
    slots = (quickly_sealed(key, SECOND),)
    (folder / KEY_FILE).write_bytes(render_key_file(key, slots))
    if damaged:
        lose(folder, "database damaged")
    else:
        (folder / DATABASE_FILE).unlink()
    restored = restore(folder, file, clock, is_known=False)
    known = read_key_file(folder / KEY_FILE)
    assert known is not None
    assert (known.slots, restored.kept_key) == (slots, None)
    Store.open(folder, clock, passphrase=SECOND).close()


def test_what_does_not_open_with_its_key_file_is_not_decided(folder: Path, clock: FakeClock) -> None:
    """Here the unpacked files are changed before the commit."""
    file = back_up(folder, clock)
    (folder / DATABASE_FILE).unlink()
    before = contents(folder)
    prepared, key = prepare_restore(folder, file, folder / KEY_FILE, None, clock), new_key()
    (prepared.making / KEY_FILE).write_bytes(render_key_file(key, (FileSlot(key.master),)))
    with pytest.raises(StoreUnusable):
        complete_restore(prepared, clock, LOCAL)
    assert contents(folder) == before


def test_what_the_restored_one_brought_goes_where_it_is_put_back(folder: Path, clock: FakeClock) -> None:
    file = back_up(folder, clock)
    (folder / "config.toml").unlink()
    (folder / "tls" / "cert.pem").unlink()
    before, prepared = contents(folder), prepare(folder, file, clock)
    restored = complete(prepared, clock)
    assert (folder / "config.toml").exists()
    put_back(prepared, restored)
    assert contents(folder) == before


def test_a_backup_of_another_cipher_is_encrypted_anew(folder: Path, clock: FakeClock) -> None:
    """The backup of a computer with another processor."""
    file, key = back_up(folder, clock), read_key(folder / KEY_FILE)
    other = replace(key, cipher="chacha20" if key.cipher == "aegis" else "aegis")
    prepared = prepare_restore(folder, file, folder / KEY_FILE, PresentKey(other, folder / KEY_FILE), clock)
    assert prepared.key.cipher == other.cipher
    check_opens_with(prepared.making / DATABASE_FILE, prepared.key)
    swap.discard(folder)
