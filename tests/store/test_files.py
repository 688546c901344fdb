"""A small file has the old or the new content; incomplete files beside it are removed."""

from pathlib import Path

import pytest

from mailbox_appliance.errors import NotEnoughRoom
from mailbox_appliance.store import files
from mailbox_appliance.store.files import MIB, format_size, remove_half_written, write_private


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "target", b"secret")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_what_a_killed_process_left_for_others_to_read_does_not_stay_so(tmp_path: Path) -> None:
    (tmp_path / ".target.new").touch(0o644)
    write_private(tmp_path / "target", b"secret")
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    for name in (".encryption.key.new", ".run.json.new", "mine.new", ".profile"):
        (tmp_path / name).write_bytes(b"half")
    remove_half_written(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".profile", "mine.new"]


# --- Disk space: a full disk is reported as such, and the space is checked before anything is written ---


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * MIB, "1.5 GiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


def test_what_does_not_fit_is_refused_with_both_numbers(tmp_path: Path) -> None:
    files.require_room(tmp_path, 1)
    with pytest.raises(NotEnoughRoom, match=r"8.0 TiB needed, .*iB free") as refused:
        files.require_room(tmp_path, 8 << 40)
    assert str(tmp_path) in refused.value.message


def test_a_log_counts_with_its_database(tmp_path: Path) -> None:
    database = tmp_path / "mailbox.db"
    database.write_bytes(bytes(1000))
    assert files.database_size(database) == 1000
    (tmp_path / "mailbox.db-wal").write_bytes(bytes(500))
    assert files.room_for_backup(database) - files.room_for_copy(database) == 1500


def test_the_room_is_enough_low_or_not_enough_for_a_backup(tmp_path: Path) -> None:
    database = tmp_path / "mailbox.db"
    database.touch()
    assert files.low_room_warning(database, 0) is None
    assert "almost full" in (low := files.low_room_warning(database, 1 << 40) or "")
    assert "backup" not in low
    with database.open("wb") as sparse:
        sparse.truncate(4 << 40)  # uses no space itself
    assert "backup needs 8.0 TiB and will not fit" in (files.low_room_warning(database, 0) or "")
    both = files.low_room_warning(database, 1 << 40) or ""
    assert "almost full" in both
    assert "will not fit" in both
