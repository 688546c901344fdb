"""Room on the disk: told for what it is, and asked for before anything is written."""

from pathlib import Path

import pytest

from mailbox_appliance.errors import NotEnoughRoom
from mailbox_appliance.store import files
from mailbox_appliance.store.files import MIB, format_size


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
    with pytest.raises(NotEnoughRoom, match=r"needs 8.0 TiB of room .*iB are free") as refused:
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
        sparse.truncate(4 << 40)  # takes no room itself
    assert "backup takes 8.0 TiB and will not fit" in (files.low_room_warning(database, 0) or "")
    both = files.low_room_warning(database, 1 << 40) or ""
    assert "almost full" in both
    assert "will not fit" in both
