"""The lock of a tray says which process has it, and what follows where it cannot."""

import errno
import os
from pathlib import Path

import pytest

from mailbox_appliance import system
from mailbox_appliance.control.failures import Failure
from mailbox_appliance.tray import alone, owner


def test_who_has_the_lock_stands_in_it_whatever_stood_there(tmp_path: Path) -> None:
    lock = tmp_path / "tray.lock"
    for before in ("", "1\n", "99999999\nand more, of another release\n"):
        lock.write_text(before)
        with alone.alone(tmp_path):
            assert owner.holder(lock) == os.getpid()


def test_one_that_cannot_say_who_it_is_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(system, "write_at", full)
    monkeypatch.setattr(alone, "_SAYS_WITHIN", 0.1)
    (tmp_path / "tray.lock").write_text("1\n")
    with alone.alone(tmp_path), pytest.raises(Failure, match="quit it from its menu"):
        alone.end_tray(tmp_path)
    assert alone.end_tray(tmp_path)
