"""The service is started, found and stopped, and never runs twice: with real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.store.open_file import DirectoryLock
from mailbox_appliance.system import files, processes
from mailbox_appliance.tray import service
from mailbox_appliance.tray.service import (
    MAX_RESTARTS,
    RESTART_WINDOW,
    ErrorOutput,
    RestartLimit,
    ServiceProcess,
    has_crashed,
)
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.tray.conftest import Desk

#: A tray that starts the service, reports that, and is killed.
_TRAY = """
import os, sys; from pathlib import Path; from mailbox_appliance.tray.service import ServiceProcess
print(ServiceProcess(Path(sys.argv[1]), os.environ).start().pid, flush=True); sys.stdin.read()
"""


def _children() -> set[int]:
    return set(map(int, Path("/proc/self/task", str(os.getpid()), "children").read_text().split()))


def test_starts_at_once_are_one_and_nothing_is_left_of_it_when_it_was_stopped(desk: Desk) -> None:
    """Two starts by one tray and one by another at the same moment: one wins, and the others find its service."""
    before, made, other = _children(), *(ServiceProcess(desk.data_dir, desk.environment) for _ in range(2))
    with ThreadPoolExecutor() as threads:
        starts = [threads.submit(each.start) for each in (made, made, other)]
        running, *others = [each.result(30) for each in starts]
    assert others == [running] * 2 == [desk.running()] * 2
    assert os.getsid(running.pid) == running.pid == service.find_owner_pid(desk.data_dir)
    made.stop()
    assert service.find_owner_pid(desk.data_dir) is None
    wait_until(lambda: _children() <= before, lambda: "a child is left, if only as a zombie", 5)
    made.stop()


def test_a_tray_that_is_killed_leaves_the_service_to_the_next_one(desk: Desk) -> None:
    """The service does not inherit the session token in the tray's environment."""
    command = (sys.executable, "-c", _TRAY, str(desk.data_dir))
    given = desk.environment | {"MAILBOX_APPLIANCE_TOKEN": desk.token}
    tray = subprocess.Popen(
        command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with tray:
        assert tray.stdout is not None
        pid = int(tray.stdout.readline())
        os.killpg(tray.pid, signal.SIGKILL)
    assert desk.token not in Path("/proc", str(pid), "environ").read_text()
    following = ServiceProcess(desk.data_dir, desk.environment)
    assert following.start().pid == pid
    following.stop()
    assert local.find_running(desk.data_dir) is None


def test_a_service_that_crashes_is_told_and_one_that_was_to_end_is_not(desk: Desk) -> None:
    made, told = ServiceProcess(desk.data_dir, desk.environment), threading.Semaphore(0)
    made.on_crash = lambda: told.release()
    os.kill(made.start().pid, signal.SIGSEGV)
    assert told.acquire(timeout=30)
    again = made.restart(0)
    child = made._child
    assert child is not None
    os.kill(again.pid, signal.SIGTERM)  # as by another program
    assert child.wait(60) == 0
    stopped = made.start()
    os.kill(stopped.pid, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(made.stop)
        wait_until(made._is_unwanted.is_set, lambda: "nobody stops it", 10)
        os.kill(stopped.pid, signal.SIGSEGV)  # it crashes as it ends
        os.kill(stopped.pid, signal.SIGCONT)
        stopping.result(30)
    with pytest.raises(Failure) as failure:
        made.restart(60)
    assert failure.value.code == service.STOPPED
    followers = [one for one in threading.enumerate() if one.name.startswith("child-")]
    for one in followers:
        one.join(30)
    assert not told.acquire(blocking=False)


def test_one_that_crashes_before_it_answers_is_told_as_that(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "own_command", lambda *_: ["sh", "-c", "kill -SEGV $$"])
    with pytest.raises(Failure) as failure:
        ServiceProcess(desk.data_dir, desk.environment).start()
    assert failure.value.code == service.CRASHED


def test_a_start_that_is_called_off_leaves_nothing_however_early_that_is(desk: Desk) -> None:
    made = ServiceProcess(desk.data_dir, desk.environment)
    with ThreadPoolExecutor() as threads:
        started = threads.submit(made.start)
        wait_until(lambda: made._child is not None, lambda: "nothing was started", 10)
        made.quit()
        with pytest.raises(Failure) as failure:
            started.result(30)
    assert failure.value.code == service.STOPPED
    assert service.find_owner_pid(desk.data_dir) is None


def test_one_that_was_started_by_hand_is_found_and_stopped(desk: Desk) -> None:
    by_hand = RunningAppliance(desk.data_dir, desk.environment).start()
    made = ServiceProcess(desk.data_dir, desk.environment)
    assert by_hand.process is not None
    assert made.start().pid == by_hand.process.pid
    made.stop()
    assert by_hand.process.wait(60) == 0
    by_hand.stop()


def test_one_that_ends_at_once_is_told_in_its_own_words(desk: Desk) -> None:
    wrong = replace(desk, environment=desk.environment | {"MAILBOX_APPLIANCE_SERVER_PORT": "none"})
    with pytest.raises(Failure, match=r"^MAILBOX_APPLIANCE_SERVER_PORT") as failure:
        ServiceProcess(desk.data_dir, wrong.environment).start()
    assert failure.value.code == "invalid_request"
    file = desk.data_dir / "logs" / "tray-serve.log"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["error"]["code"]


def test_beside_a_port_that_is_taken_it_takes_a_free_one_where_none_is_set(desk: Desk) -> None:
    unset = {name: value for name, value in desk.environment.items() if not name.endswith("_SERVER_PORT")}
    made = ServiceProcess(desk.data_dir, unset)
    with socket.socket() as other:
        with suppress(OSError):  # or another process holds it, which is as good
            other.bind(("127.0.0.1", 8025))
            other.listen()
        (desk.data_dir / "config.toml").write_text("[server]\nport = 8025\n")
        with pytest.raises(Failure, match=r"^127\.0\.0\.1:8025 is already in use") as failure:
            made.start()
        assert failure.value.code == "cannot_listen"
        (desk.data_dir / "config.toml").unlink()
        assert made.start() == desk.running()
        assert urlsplit(desk.running().url).port != 8025
    made.stop()


def test_where_it_is_silent_since_the_disk_is_full_that_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "own_command", lambda *_: [sys.executable, "-c", "raise SystemExit(1)"])
    made = ServiceProcess(desk.data_dir, desk.environment)
    with pytest.raises(Failure, match=r"^It ended \(exit code 1\)"):
        made.start()
    monkeypatch.setattr(files, "free_bytes", lambda _: 0)
    with pytest.raises(Failure, match=rf"^The disk is full: .*{desk.data_dir}"):
        made.start()


def test_what_it_says_on_its_output_as_its_set_up_code_is_written_nowhere(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "own_command", lambda *_: ["sh", "-c", "echo ab-cd; echo ended >&2; exit 1"])
    with pytest.raises(Failure, match=r"^ended$"):
        ServiceProcess(desk.data_dir, desk.environment).start()
    assert (desk.data_dir / "logs" / "tray-serve.log").read_text() == "ended\n"


def test_one_of_a_bundle_unpacks_what_it_needs_for_itself(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of this process are removed when it ends, while the service continues."""
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr(processes, "own_command", lambda *_: ["sh", "-c", "env >&2; exit 1"])
    with pytest.raises(Failure):
        ServiceProcess(desk.data_dir, desk.environment).start()
    told = (desk.data_dir / "logs" / "tray-serve.log").read_text()
    assert "PYINSTALLER_RESET_ENVIRONMENT=1\n" in told


def test_where_its_words_cannot_be_written_down_that_is_told(desk: Desk) -> None:
    (desk.data_dir / "logs").write_text("")
    with pytest.raises(Failure, match=rf"^{desk.data_dir}/logs cannot be used"):
        ServiceProcess(desk.data_dir, desk.environment).start()


def test_who_owns_it_and_does_not_answer_yet_is_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, made = DirectoryLock(desk.data_dir), ServiceProcess(desk.data_dir, desk.environment)
    said = desk.data_dir / "logs" / "tray-serve.log"
    with ThreadPoolExecutor() as threads:
        started = threads.submit(made.start)
        wait_until(lambda: said.exists() and b"store_in_use" in said.read_bytes(), lambda: "nothing was tried", 10)
        (desk.data_dir / "run.json").write_text(json.dumps({"pid": os.getpid(), "url": "http://[::1]:1", "secret": ""}))
        assert started.result(30).pid == os.getpid()
    (desk.data_dir / "run.json").unlink()
    monkeypatch.setattr(service, "_OTHER_SECONDS", 0)
    with pytest.raises(Failure, match=rf"Another process \(pid {os.getpid()}\)"):
        made.start()
    lock.release()


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/mailbox-appliance.service\n", "--user stop"),
        ("12:pids:/x\n1:name=systemd:/system.slice/mailbox-appliance.service\n", "systemctl stop"),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", None),
        ("0::/user.slice/app-mailbox-appliance.service/other.scope\n", None),
        ("", None),
    ],
)
def test_what_systemd_keeps_is_seen_by_its_unit(tmp_path: Path, group: str, unit: str | None) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(group)
    found = service.systemd_stop_command(7, tmp_path)
    assert found is None if unit is None else unit in str(found)
    assert service.systemd_stop_command(8, tmp_path) is None


def test_what_systemd_keeps_is_not_stopped(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = DirectoryLock(desk.data_dir)
    monkeypatch.setattr(service, "systemd_stop_command", lambda pid: "systemctl --user stop mailbox-appliance")
    made = ServiceProcess(desk.data_dir, desk.environment)
    with pytest.raises(Failure, match="systemctl --user stop"):
        made.stop()
    made.quit()
    lock.release()


def test_a_number_that_is_another_process_is_not_told_to_end(desk: Desk) -> None:
    """The service may run in a container with other process IDs, or its ID may be reused."""
    with subprocess.Popen(("sleep", "60")) as bystander:
        lock = DirectoryLock(desk.data_dir)
        (desk.data_dir / "lock").write_text(f"{bystander.pid}\n")
        with pytest.raises(Failure, match="is not visible from here"):  # checked, and not signaled
            ServiceProcess(desk.data_dir, desk.environment).stop()
        assert bystander.poll() is None
        lock.release()
        bystander.kill()


@pytest.mark.parametrize("is_known", [True, False], ids=["by a handle", "by its number"])
def test_one_that_ends_while_it_is_looked_at_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    lock, handle_of = DirectoryLock(tmp_path), service._open_pidfd
    with subprocess.Popen(("sleep", "60")) as process:
        (tmp_path / "lock").write_text(f"{process.pid}\n")

        def end(pid: int) -> int | None:
            handle = handle_of(pid) if is_known else None
            process.kill()
            process.wait()
            lock.release()
            return handle

        monkeypatch.setattr(service, "_open_pidfd", end)
        assert service.end_process(tmp_path / "lock", process.pid, 1)


def test_one_that_runs_where_it_is_not_seen_is_found_and_not_told_to_end(desk: Desk) -> None:
    """The service may run in a container that shares the directory."""
    unseen, lock = 4_194_305, DirectoryLock(desk.data_dir)
    (desk.data_dir / "lock").write_text(f"{unseen}\n")
    (desk.data_dir / "run.json").write_text(json.dumps({"pid": unseen, "url": "http://127.0.0.1:1", "secret": ""}))
    made = ServiceProcess(desk.data_dir, desk.environment)
    assert made.start().pid == unseen
    with pytest.raises(Failure, match=rf"^The appliance \(pid {unseen}\) is not visible from here"):
        made.stop()
    lock.release()


def test_a_store_that_is_in_use_without_an_owner_is_tried_twice_and_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a store of an older release that a database program has open."""
    said = json.dumps({"error": {"code": "store_in_use", "message": "Another process has it open."}})
    tries = desk.folder / "tries"
    line = f"import sys; open({str(tries)!r}, 'a').write('x'); sys.exit({said!r})"
    monkeypatch.setattr(processes, "own_command", lambda *_: [sys.executable, "-c", line])
    with pytest.raises(Failure, match=r"^Another process has it open\.$"):
        ServiceProcess(desk.data_dir, desk.environment).start()
    assert tries.read_text() == "xx"


def test_what_it_says_stays_small(tmp_path: Path) -> None:
    words = ErrorOutput(tmp_path / "logs" / "said.log")
    with words.open_for_start() as handle:
        os.write(handle, b"first\n" * 100_000)
    with words.open_for_start() as handle:
        os.write(handle, b"second\n")
        os.truncate(tmp_path / "logs" / "said.log", 0)  # as the service does
        os.write(handle, b'{"level":"error","event":"ended","message":"It is over.","why":"No disk."}\nand out\n')
    assert words.read_last_error().text == "It is over. No disk. and out"
    assert (tmp_path / "logs" / "said.log").stat().st_size < 100
    with words.open_for_start() as handle:
        os.write(handle, b'a line\n{"error": {"code": "cannot_listen", "message": "Taken."}}\n')
    assert (words.read_last_error().code, words.read_last_error().text) == ("cannot_listen", "Taken.")


# --- Crashes of the service, and restarts ---


# fmt: off
CODES = [
    (0,                 False),
    (1,                 False),
    (4,                 False),
    (-signal.SIGTERM,   False),
    (-signal.SIGINT,    False),
    (-signal.SIGHUP,    False),
    (-signal.SIGSEGV,   True),
    (-signal.SIGABRT,   True),
    (-signal.SIGKILL,   True),
]
ON_WINDOWS = [
    (0,                 False),
    (1,                 False),
    (0xC000_013A,       False),
    (0xC000_0005,       True),
    (0xC000_0409,       True),
]
# fmt: on


@pytest.mark.parametrize(("code", "crashed"), CODES)
def test_a_signal_that_stops_nothing_is_a_crash(code: int, crashed: bool) -> None:
    assert has_crashed(code) is crashed


@pytest.mark.parametrize(("code", "crashed"), ON_WINDOWS)
def test_on_windows_a_fault_is_a_crash(code: int, crashed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert has_crashed(code) is crashed


def test_each_restart_comes_later_and_there_are_few(clock: FakeClock) -> None:
    restarts = RestartLimit(clock)
    assert [restarts.next_delay() for _ in range(MAX_RESTARTS + 2)] == [0.0, 5.0, 30.0, 30.0, 30.0, None, None]
    clock.advance(RESTART_WINDOW)
    assert restarts.next_delay() == 0.0
    clock.advance(RESTART_WINDOW / 2)
    assert restarts.next_delay() == 5.0
    clock.advance(RESTART_WINDOW / 2)
    assert restarts.next_delay() == 5.0, "the first one is long past"
