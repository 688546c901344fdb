"""Replacing files together: killed at any step, the directory has all of the old files or all of the new."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.errors import StoreUnusable
from mailbox_appliance.store.restore import swap

OLD = {"mailbox.db": "old", "mailbox.db-wal": "old log", "mailbox.db-shm": "old", "encryption.key": "old key"}
NEW = {"mailbox.db": "new", "encryption.key": "new key", "config.toml": "new settings", "tls/cert.pem": "new"}

#: Replaces the files, and is killed right before the n-th step that touches a name in the directory.
REPLACING = """
import os, signal, sys
from pathlib import Path
from mailbox_appliance.store.restore import swap
folder, fatal = Path(sys.argv[1]), int(sys.argv[2])
making = swap.begin(folder)
for name in sys.argv[3:]:
    (making / name).parent.mkdir(exist_ok=True)
    (making / name).write_text({names}[name])
steps = 0
def watch(event, arguments):
    global steps
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"):
        steps += 1
        if steps == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
swap.commit(folder, folder / "encryption.key")
swap.finish(folder, folder / "encryption.key")
print(steps)
""".replace("{names}", repr(NEW))


def lay_out(folder: Path) -> Path:
    folder.mkdir()
    for name, content in OLD.items():
        (folder / name).write_text(content)
    return folder


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def replace(folder: Path, fatal: int = 0) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-c", REPLACING, str(folder), str(fatal), *NEW]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_killed_at_every_step(tmp_path: Path) -> None:
    steps = int(replace(lay_out(tmp_path / "whole")).stdout)
    assert content_of(tmp_path / "whole") == NEW
    assert steps > 15
    seen = set()
    for fatal in range(1, steps + 1):
        folder = lay_out(tmp_path / str(fatal))
        assert replace(folder, fatal).returncode == -9
        swap.finish(folder, folder / "encryption.key")
        left = content_of(folder)
        assert left in (OLD, NEW), fatal
        seen.add(left["mailbox.db"])
        assert not list(folder.glob(".next*"))
    assert seen == {"old", "new"}


def test_nothing_to_do(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data")
    assert not swap.finish(folder, folder / "encryption.key")
    assert content_of(folder) == OLD


def test_what_was_not_decided_is_thrown_away(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data")
    (swap.begin(folder) / "mailbox.db").write_text("half")
    assert swap.begin(folder).is_dir()
    assert not swap.finish(folder, folder / "encryption.key")
    assert content_of(folder) == OLD
    assert not list(folder.glob(".next*"))


@pytest.fixture(params=["the same disk", "another disk"])
def other_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder beside the data directory, or on another file system, to which files cannot be renamed."""
    if request.param == "the same disk":
        (tmp_path / "place").mkdir()
        yield tmp_path / "place"
        return
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other disk")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_a_database_that_is_a_link_is_replaced_where_it_lies(tmp_path: Path, other_place: Path) -> None:
    folder, real = lay_out(tmp_path / "data"), other_place / "real.db"
    shutil.move(folder / "mailbox.db", real)
    (folder / "mailbox.db").symlink_to(real)
    (other_place / "real.db-wal").write_text("old log")
    making = swap.begin(folder)
    (making / "mailbox.db").write_text("new database")
    swap.commit(folder)
    again = tmp_path / "as after a crash"
    shutil.copytree(folder / ".next", again)
    for _ in range(2):
        assert swap.finish(folder, folder / "encryption.key")
        assert (folder / "mailbox.db").readlink() == real
        assert real.read_text() == "new database"
        assert [path.name for path in other_place.iterdir()] == ["real.db"]
        shutil.copytree(again, folder / ".next")


@pytest.mark.parametrize("elsewhere", ["keys/store.key", "link"])
def test_a_key_file_elsewhere_is_written_where_it_is(tmp_path: Path, elsewhere: str) -> None:
    folder = lay_out(tmp_path / "data")
    key = tmp_path / "keys" / "store.key"
    key.parent.mkdir()
    key.write_text("old key")
    (tmp_path / "link").symlink_to(key)
    making = swap.begin(folder)
    (making / "encryption.key").write_text("new key")
    swap.commit(folder)
    assert swap.finish(folder, tmp_path / elsewhere)
    assert key.read_text() == "new key"
    assert (tmp_path / "link").is_symlink()
    assert (folder / "encryption.key").read_text() == "old key"


def test_a_log_comes_with_its_database(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data")
    making = swap.begin(folder)
    for name in ("mailbox.db", "mailbox.db-wal"):
        (making / name).write_text("restored")
    swap.commit(folder)
    swap.finish(folder, folder / "encryption.key")
    assert content_of(folder) == {"mailbox.db": "restored", "mailbox.db-wal": "restored", "encryption.key": "old key"}


def test_a_key_goes_where_it_was_to_go_and_nowhere_else(tmp_path: Path) -> None:
    """Another place may hold the key of another store."""
    folder, others = lay_out(tmp_path / "data"), tmp_path / "others.key"
    others.write_text("another store's")
    making = swap.begin(folder)
    for name in ("mailbox.db", "encryption.key"):
        (making / name).write_text(NEW[name])
    swap.commit(folder, folder / "encryption.key")
    with pytest.raises(StoreUnusable, match="MAILBOX_APPLIANCE_KEY_FILE"):
        swap.finish(folder, others)
    assert others.read_text() == "another store's"
    assert swap.is_committed(folder)
    folder.rename(tmp_path / "moved")
    assert swap.finish(tmp_path / "moved", tmp_path / "moved" / "encryption.key")
    assert content_of(tmp_path / "moved") == {name: NEW[name] for name in ("mailbox.db", "encryption.key")}


def test_what_is_to_be_no_more_goes(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "data")
    (folder / "config.toml").write_text("old")
    (swap.begin(folder) / "mailbox.db").write_text("new")
    swap.commit(folder, folder / "encryption.key", absent=["config.toml", "tls/cert.pem"])
    assert swap.finish(folder, tmp_path / "elsewhere"), "no key goes anywhere"
    assert content_of(folder) == {"mailbox.db": "new", "encryption.key": "old key"}
