"""The proof of `scripts/prove-store` in short, and that it finds what it looks for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mailbox_appliance.store.store import Store
from tests.store_proof.actions import ACTIONS, REKEY, Breach, Known
from tests.store_proof.children import Ended, Fault, Step, can_trace
from tests.store_proof.directories import copy, make_store
from tests.store_proof.durability import unsynced
from tests.store_proof.judging import judge
from tests.store_proof.looking import Seen, Witnesses
from tests.store_proof.proof import Scene, play, prove

ROUNDS, SEED = 2, 20261121
KILLED = Ended(-9, "", "")


@pytest.fixture(scope="module", autouse=True)
def traced() -> None:
    """System calls can be made to fail here."""
    reason = can_trace()
    if "missing" in reason:
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.mark.slow
def test_what_is_left_is_the_old_store_or_the_new_one_complete(tmp_path: Path) -> None:
    told = prove(list(ACTIONS.values()), tmp_path, SEED, ROUNDS)
    breaches = [breach for tally in told.values() for breach in tally.breaches]
    assert not breaches, "\n".join(breaches)
    assert all(tally.rounds == ROUNDS for tally in told.values())
    assert sum(tally.ended["killed"] for tally in told.values()) >= len(ACTIONS)


# --- the proof finds what it looks for --------------------------------------------------------------------------------


@pytest.fixture
def witnesses() -> Witnesses:
    """Fresh processes."""
    return Witnesses()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A closed store."""
    return make_store(tmp_path / "template")


def drop_row(folder: Path) -> None:
    store = Store.open(folder)
    with store.database.transaction():
        store.database.change("DELETE FROM settings")
    store.close()


def cut(folder: Path) -> None:
    (folder / "mailbox.db").write_bytes((folder / "mailbox.db").read_bytes()[:40960])


def lose_key(folder: Path) -> None:
    (folder / "encryption.key").unlink()


def leave_plain(folder: Path) -> None:
    (folder / "backups").mkdir()
    (folder / "backups" / "x.mbxbackup").write_bytes(b"SQLite: CREATE TABLE members")


def leave_backup(folder: Path) -> None:
    (folder / "backups").mkdir()
    (folder / "backups" / "x.mbxbackup").write_bytes(b"half of one")


def leave_folder(folder: Path) -> None:
    (folder / "mailbox.db.next.making").mkdir()


def nothing(_folder: Path) -> None:
    """As it was."""


FLAWS: list[tuple[Callable[[Path], None], Ended, str]] = [
    (drop_row, KILLED, "a new key changed the store: settings"),
    (cut, KILLED, "does not open"),
    (lose_key, KILLED, "a database without its key"),
    (leave_plain, KILLED, "x.mbxbackup holds"),
    (leave_backup, KILLED, "a backup that is not one"),
    (leave_folder, KILLED, "left over after a start"),
    (nothing, Ended(0, "", ""), "told as done, and is not"),
    (nothing, Ended(1, "", "Traceback (most recent call last)"), "a traceback"),
    (nothing, Ended(1, "", '{"error": {"code": "internal_error", "message": "x"}}'), "no name for this"),
    (nothing, Ended(1, "", ""), "exit code 1"),
]


@pytest.mark.parametrize(("spoil", "ended", "said"), FLAWS, ids=[flaw[2] for flaw in FLAWS])
def test_a_flaw_is_found(
    template: Path, witnesses: Witnesses, spoil: Callable[[Path], None], ended: Ended, said: str
) -> None:
    old = witnesses.look(template)
    folder = copy(template, template.with_name("data"))
    spoil(folder)
    with pytest.raises(Breach, match=said):
        judge(REKEY, Known(old, replace(old, key="another")), template, folder, ended, witnesses)
    witnesses.close()


def test_what_is_renamed_before_it_is_on_the_disk_is_found(tmp_path: Path) -> None:
    write = Step("write", 1, f"4<{tmp_path}/.a.new>, ...) = 3")
    sync, rename = (
        Step("fsync", 1, f"4<{tmp_path}/.a.new>) = 0"),
        Step("rename", 1, f'"{tmp_path}/.a.new", "{tmp_path}/a")'),
    )
    sync_names = Step("fsync", 2, f"5<{tmp_path}>) = 0")
    gone = Step("unlink", 1, f'"{tmp_path}/a-wal") = 0')
    assert unsynced([write, sync, rename, sync_names], tmp_path) == []
    assert unsynced([write, rename, sync_names], tmp_path) == [
        f"{tmp_path}/.a.new is not synced when it becomes {tmp_path}/a"
    ]
    assert unsynced([write, sync, rename], tmp_path) == [f"the names in {tmp_path} are not synced"]
    assert "the log of" in unsynced([gone, write, sync, rename, sync_names], tmp_path)[0]


def test_a_round_that_does_not_hold_names_its_fault(template: Path, witnesses: Witnesses) -> None:
    action = replace(REKEY, argv=("key", "show"))
    old = witnesses.look(template)
    scene = Scene(action, template, Known(old, Seen()), [], [Fault("rename", 99)])
    with pytest.raises(Breach, match="rekey, round 0, SIGKILL at rename 99"):
        play(scene, 0, witnesses)
    witnesses.close()
