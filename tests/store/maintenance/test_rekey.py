"""A new master key: the same rows and the same slots; the old store after any failure."""

from pathlib import Path

import pytest

from mailbox_appliance.errors import (
    KeyUnusable,
    NotEnoughRoom,
    PassphraseNeeded,
    PassphraseWrong,
    StoreInUse,
    StoreUnusable,
)
from mailbox_appliance.store.database import Row
from mailbox_appliance.store.files import DATABASE_FILE, KEY_FILE
from mailbox_appliance.store.key import (
    FileSlot,
    PassphraseSlot,
    StoreKey,
    load_keyring_kek,
    read_key,
    read_key_file,
    render_key_file,
    unlock_slots,
    wrap_with_keyring,
)
from mailbox_appliance.store.maintenance.rewrite import rekey_closed_store
from mailbox_appliance.store.open_file import check_opens_with
from mailbox_appliance.store.store import Store
from tests.servers.secret_service import SecretService
from tests.store.renewed import die, fill, names, opened_facts
from tests.store.test_key_slots import quickly_sealed

PASSPHRASE = "correct horse battery"


@pytest.fixture
def folder(store: Store) -> Path:
    """A closed store."""
    fill(store)
    store.close()
    return store.folder


@pytest.fixture
def before(folder: Path) -> dict[str, list[Row]]:
    """The rows in it."""
    return opened_facts(folder)


def with_passphrase(folder: Path, *, keeps_file: bool) -> StoreKey:
    key = read_key(folder / KEY_FILE)
    slots = (FileSlot(key.master),) if keeps_file else ()
    (folder / KEY_FILE).write_bytes(render_key_file(key, (*slots, quickly_sealed(key, PASSPHRASE))))
    return key


def test_the_old_key_opens_nothing_and_the_new_one_everything(folder: Path, before: dict[str, list[Row]]) -> None:
    old, there = read_key(folder / KEY_FILE), names(folder)
    told: list[str] = []
    answer = rekey_closed_store(folder, folder / KEY_FILE, progress=lambda what, _done, _total: told.append(what))
    assert (answer.audit.count, answer.audit.broken) == (2, None)
    new = read_key(folder / KEY_FILE)
    assert new.master != old.master
    assert (new.store_id, new.cipher) == (old.store_id, old.cipher)
    with pytest.raises(Exception, match="not a database"):
        check_opens_with(folder / DATABASE_FILE, old)
    assert opened_facts(folder) == before
    assert names(folder) == there
    assert "re-encrypting the store" in told
    store = Store.open(folder)
    assert store.database.value("SELECT action FROM audit_events ORDER BY number DESC") == "key.replace"
    store.close()
    assert old.master not in (folder / DATABASE_FILE).read_bytes() + (folder / KEY_FILE).read_bytes()


@pytest.mark.parametrize("keeps_file", [True, False])
def test_a_passphrase_opens_it_as_before(folder: Path, before: dict[str, list[Row]], keeps_file: bool) -> None:
    old = with_passphrase(folder, keeps_file=keeps_file)
    wrong, problem = ("not that one, no", PassphraseWrong) if keeps_file else (None, PassphraseNeeded)
    content = (folder / KEY_FILE).read_bytes()
    with pytest.raises(problem):
        rekey_closed_store(folder, folder / KEY_FILE, passphrase=wrong)
    assert (folder / KEY_FILE).read_bytes() == content
    rekey_closed_store(folder, folder / KEY_FILE, passphrase=PASSPHRASE)
    there = read_key_file(folder / KEY_FILE)
    assert there is not None
    kinds = {type(slot) for slot in there.slots}
    assert kinds == ({FileSlot, PassphraseSlot} if keeps_file else {PassphraseSlot})
    new = read_key(folder / KEY_FILE, PASSPHRASE)
    assert new.master != old.master
    (by_passphrase,) = (slot for slot in there.slots if isinstance(slot, PassphraseSlot))
    assert unlock_slots((by_passphrase,), new.store_id, PASSPHRASE) == new.master
    (folder / KEY_FILE).write_bytes(render_key_file(new, (FileSlot(new.master),)))
    assert opened_facts(folder) == before


def test_the_keychain_opens_it_as_before(
    folder: Path, before: dict[str, list[Row]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "desktop").mkdir()
    desktop = SecretService(tmp_path / "desktop")
    for name, value in desktop.environment.items():
        monkeypatch.setenv(name, value)
    old = read_key(folder / KEY_FILE)
    slot = wrap_with_keyring(old, load_keyring_kek(old.store_id, file=folder / KEY_FILE))
    (folder / KEY_FILE).write_bytes(render_key_file(old, (slot,)))
    rekey_closed_store(folder, folder / KEY_FILE)
    new = read_key(folder / KEY_FILE)
    desktop.stop()
    assert new.master != old.master
    (folder / KEY_FILE).write_bytes(render_key_file(new, (FileSlot(new.master),)))
    assert opened_facts(folder) == before


def test_whatever_stops_it_leaves_the_old_or_the_new(folder: Path, before: dict[str, list[Row]]) -> None:
    old, number = read_key(folder / KEY_FILE), 0
    while die("rekey", folder, number):
        assert opened_facts(folder) == before
        assert read_key(folder / KEY_FILE) == old
        number += 1
    assert number >= 1
    assert opened_facts(folder) == before
    assert read_key(folder / KEY_FILE).master != old.master


def test_files_that_cannot_be_put_in_place_are_by_the_next_start(folder: Path, before: dict[str, list[Row]]) -> None:
    old, obstacle = read_key(folder / KEY_FILE), folder / f".{KEY_FILE}.new"
    with pytest.raises(StoreUnusable, match="the next start then completes"):
        rekey_closed_store(
            folder, folder / KEY_FILE, progress=lambda _what, _done, _total: obstacle.mkdir(exist_ok=True)
        )
    obstacle.rmdir()
    assert opened_facts(folder) == before
    assert read_key(folder / KEY_FILE).master != old.master


def test_a_key_file_elsewhere_is_written_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / "elsewhere" / "key"
    (folder / KEY_FILE).rename(place)
    (folder / KEY_FILE).symlink_to(place)
    old = read_key(place)
    rekey_closed_store(folder, folder / KEY_FILE)
    assert (folder / KEY_FILE).is_symlink()
    assert read_key(place).master != old.master
    Store.open(folder, key_file=place).close()


def test_one_that_cannot_be_written_is_told_before_anything_is_done(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / KEY_FILE).rename(elsewhere / KEY_FILE)
    (elsewhere / f".{KEY_FILE}.new").mkdir()  # the name of the temporary file
    content, key = (folder / DATABASE_FILE).read_bytes(), (elsewhere / KEY_FILE).read_bytes()
    with pytest.raises(KeyUnusable, match="Nothing was changed"):
        rekey_closed_store(folder, elsewhere / KEY_FILE)
    assert ((folder / DATABASE_FILE).read_bytes(), (elsewhere / KEY_FILE).read_bytes()) == (content, key)


def test_a_log_that_is_broken_stays_broken_and_is_told(store: Store) -> None:
    fill(store, 3)
    with store.database.transaction():
        store.database.change("DROP TRIGGER audit_events_stay")
        store.database.change("UPDATE audit_events SET outcome = 'failure' WHERE number = 2")
    store.close()
    answer = rekey_closed_store(store.folder, store.folder / KEY_FILE)
    assert answer.audit.broken is not None
    again = Store.open(store.folder)
    found = again.audit.verify().broken
    again.close()
    assert found is not None
    assert found.number == answer.audit.broken.number == 2


def test_it_needs_the_directory(store: Store) -> None:
    with pytest.raises(StoreInUse, match="pid"):
        rekey_closed_store(store.folder, store.folder / KEY_FILE)


def test_it_needs_room(folder: Path) -> None:
    # The log of the old file counts, although it uses no disk space itself.
    content = (folder / DATABASE_FILE).read_bytes()
    with (folder / DATABASE_FILE).open("r+b") as sparse:
        sparse.truncate(1 << 43)
    with pytest.raises(NotEnoughRoom):
        rekey_closed_store(folder, folder / KEY_FILE)
    (folder / DATABASE_FILE).write_bytes(content)
