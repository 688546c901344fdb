"""A small file is the old one or the new one; what was being written beside it goes away."""

from pathlib import Path

import pytest

from mailbox_appliance.store.files import remove_half_written, write_private


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
