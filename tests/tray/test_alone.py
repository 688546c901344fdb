"""The lock of a tray says which process has it, and what follows where it cannot."""

import errno
import os
import threading
from pathlib import Path

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.system import files
from mailbox_appliance.tray import run

#: Linux gives no number that is as high.
NO_PROCESS = 4_194_305


def test_who_has_the_lock_stands_in_it_whatever_stood_there(tmp_path: Path) -> None:
    lock = tmp_path / "tray.lock"
    for before in ("", "1\n", "99999999\nand more, of another release\n"):
        lock.write_text(before)
        with run.hold_tray_lock(tmp_path):
            assert local.find_lock_holder(lock) == os.getpid()


def test_one_that_cannot_say_who_it_is_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_at", full)
    monkeypatch.setattr(run, "_PID_SECONDS", 0.1)
    (tmp_path / "tray.lock").write_text("1\n")
    with run.hold_tray_lock(tmp_path), pytest.raises(Failure, match="quit it from its menu"):
        run.end_tray(tmp_path)
    assert run.end_tray(tmp_path)


def test_who_looks_whether_there_is_one_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "tray.lock").touch()
    looks = os.open(tmp_path / "tray.lock", os.O_RDONLY)
    assert files.lock_file(looks, shared=True)
    with pytest.raises(run.OtherTray), run.hold_tray_lock(tmp_path):
        pass
    gone = threading.Timer(0.02, files.unlock_file, (looks,))
    gone.start()
    with run.hold_tray_lock(tmp_path):
        gone.join()
    os.close(looks)


def test_one_that_is_no_process_here_is_told_as_that(tmp_path: Path) -> None:
    with run.hold_tray_lock(tmp_path):
        (tmp_path / "tray.lock").write_text(f"{NO_PROCESS}\n")
        with pytest.raises(Failure, match=rf"^The tray \(pid {NO_PROCESS}\) is no process that is seen from here"):
            run.end_tray(tmp_path)
