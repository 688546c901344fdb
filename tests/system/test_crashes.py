"""A service killed by a fatal signal leaves a trace, and the next one reports it until an administrator dismisses
it.
"""

import faulthandler
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.store.store import Store
from mailbox_appliance.system import crashes
from mailbox_appliance.system.crashes import Crash
from tests.servers.desk import a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Keep, Stall
from tests.templates import Template

FATAL = ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"]
_DIES = """
import os, signal, sys
from pathlib import Path
from mailbox_appliance.system import crashes
crashes.watch(Path(sys.argv[1]))
os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""


def _crash(running: RunningAppliance, number: signal.Signals = signal.SIGSEGV) -> None:
    """Crash a service as an error in native code would."""
    assert running.process is not None
    running.process.send_signal(number)
    assert running.process.wait(60) == -number
    running.stop()


def _events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "appliance.log").read_text().splitlines()]


@pytest.fixture
def running(tmp_path: Path, templates: dict[str, Template]) -> Iterator[RunningAppliance]:
    """An appliance that is set up and serving."""
    templates["set up"].copy(tmp_path / "data")
    made = RunningAppliance(tmp_path / "data", {"MAILBOX_APPLIANCE_KEYCHAIN": "off"})
    made.token = templates["set up"].token
    yield made.start()
    made.stop()


def test_a_service_that_crashed_says_so_until_it_is_dismissed(running: RunningAppliance) -> None:
    """The trace is private and holds no data of users; another start does not dismiss it."""
    logs = running.folder / "logs"
    assert (logs / "crash.txt").stat().st_mode & 0o777 == 0o600
    assert (logs / "crash.txt").read_text() == ""
    assert "lastCrash" not in running.ask("GET", "/status").data
    running.ask("GET", "/accounts")
    secret = json.loads((running.folder / "run.json").read_text())["secret"]
    _crash(running)
    trace = (logs / "crash.txt").read_text()

    for _ in range(2):
        running.start()
        answer = running.ask("GET", "/status")
        crash = answer.data["lastCrash"]
        assert (set(crash), crash["signal"]) == ({"at", "signal", "file"}, "SIGSEGV")
        assert re.fullmatch(r"crash-\d{8}T\d{6}Z\.txt", crash["file"])
        assert crash["at"] in answer.body["warnings"][0]
        assert f"logs/{crash['file']}" in answer.body["warnings"][0]
        running.stop()
    kept = logs / crash["file"]
    assert kept.stat().st_mode & 0o777 == (logs / "last-crash.json").stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == trace
    assert trace.startswith("Fatal Python error: Segmentation fault\n")
    assert trace.count("hread 0x") > 5, "of all threads"
    assert running.token is not None
    for private in ("@", "mbx", running.token, secret):
        assert private not in trace
    told = [event for event in _events(running.folder) if event["event"] == "service_crashed"]
    assert [(one["signal"], one["trace"], one["crashedAt"]) for one in told] == [
        ("SIGSEGV", crash["file"], crash["at"])
    ], "once"

    running.start()
    dismissed = running.ask("POST", f"/admin/crashes/{crash['file']}/dismiss", {})
    assert (dismissed.status, dismissed.data) == (200, None)
    running.stop()
    running.start()
    answer = running.ask("GET", "/status")
    assert "lastCrash" not in answer.data
    assert "warnings" not in answer.body
    assert kept.read_text() == trace
    assert running.stop() == 0


def test_mail_on_its_way_is_in_no_trace_and_nothing_is_sent_twice(
    running: RunningAppliance, mail_server: MailServer
) -> None:
    """The service crashes while the mail server holds back its reply, so the outcome is unknown."""
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
    smtp.at("reply", Keep(Stall()))
    message = a_message("carol@example.test", subject="Sealed subject", body={"text": "Sealed text"})
    with ThreadPoolExecutor() as threads:
        sent = threads.submit(running.ask, "POST", f"/accounts/{account}/send", message, Idempotency_Key="one")
        wait_until(lambda: smtp.held("reply") == 1, lambda: "it is not sent", 60)
        _crash(running)
        assert sent.exception(60) is not None
    for private in (user, "carol", "example.test", "Sealed", running.token or "-"):
        assert private not in running.threads()
    running.start()
    again = running.ask("POST", f"/accounts/{account}/send", message, Idempotency_Key="one")
    assert again.data["status"] == "uncertain"
    smtp.stop()
    assert len(smtp.messages) == 1


def test_status_on_a_terminal_dismisses_what_it_shows_and_a_script_does_not(
    running: RunningAppliance, tmp_path: Path
) -> None:
    _crash(running)
    running.start()
    token = {"MAILBOX_APPLIANCE_TOKEN": running.token or "", "MAILBOX_APPLIANCE_CONFIG_DIR": str(tmp_path / "config")}
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(running.folder), "status"]
    for _ in range(2):
        done = subprocess.run(command, env=os.environ | token, capture_output=True, text=True, timeout=60, check=True)
        answer = json.loads(done.stdout)
        assert answer["data"]["lastCrash"]["signal"] == "SIGSEGV"
        assert "crashed (SIGSEGV)" in answer["warnings"][0]
    master, slave = pty.openpty()
    subprocess.run(command, env=os.environ | token, stdout=slave, stderr=slave, timeout=60, check=True)
    assert "crashed (SIGSEGV)" in os.read(master, 100_000).decode()
    os.close(slave)
    os.close(master)
    assert "lastCrash" not in running.ask("GET", "/status").data
    running.stop()


def test_the_operator_of_this_computer_is_told_by_store_status(running: RunningAppliance, tmp_path: Path) -> None:
    _crash(running)
    running.start()
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(running.folder), "store", "status"]
    given = {"MAILBOX_APPLIANCE_CONFIG_DIR": str(tmp_path / "config"), "MAILBOX_APPLIANCE_KEYCHAIN": "off"}
    done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, timeout=60, check=True)
    assert "crashed (SIGSEGV)" in json.loads(done.stdout)["warnings"][0]
    running.stop()


@pytest.mark.parametrize("name", FATAL)
def test_each_fatal_signal_is_named_and_ends_the_process_all_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / "logs").mkdir()
    # As with `python -X faulthandler`, and without standard error, as in a bundle without a console.
    argv = [sys.executable, "-X", "faulthandler", "-c", _DIES, str(tmp_path), name]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *argv], timeout=60, check=False)
    assert done.returncode == -getattr(signal, name)
    crash = crashes.record(tmp_path)
    assert crash is not None
    assert crash.signal == name
    assert crashes.find(tmp_path) == crash
    assert crashes.record(tmp_path) is None


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        ("Windows fatal exception: access violation\r\n\r\nCurrent thread", "SIGSEGV"),
        ("Windows fatal exception: code 0x8001010d\n", None),
        ("Windows fatal exception: code 0x8001010d\n\nFatal Python error: Aborted\n", "SIGABRT"),
        ("Fatal Python error: Aborted\n\nFatal Python error: Segmentation fault\n", "SIGABRT"),
        ("", None),
    ],
    ids=["on Windows", "handled by a program on Windows", "handled, then fatal", "an abort of process 1", "no crash"],
)
def test_what_counts_as_a_crash(tmp_path: Path, trace: str, name: str | None) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "crash.txt").write_text(trace, newline="")
    crash = crashes.record(tmp_path)
    assert (crash and crash.signal) == name


def test_five_traces_are_kept_and_the_last_crash_is_the_one_that_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    recorded = []
    for second in range(7):
        (folder / "crash.txt").write_text("Fatal Python error: Aborted\n")
        os.utime(folder / "crash.txt", (second, second))
        recorded.append(crashes.record(tmp_path))
    last = Crash(at="1970-01-01T00:00:06.000Z", signal="SIGABRT", file="crash-19700101T000006Z.txt")
    assert recorded[-1] == crashes.find(tmp_path) == last
    assert sorted(file.name for file in folder.glob("crash-*.txt")) == [one.file for one in recorded[2:] if one]
    crashes.dismiss(tmp_path, "crash-19700101T000005Z.txt")
    assert crashes.find(tmp_path) == last, "another one came meanwhile"
    (folder / "last-crash.json").write_text("{")
    assert crashes.find(tmp_path) is None


def test_opening_a_store_leaves_the_fault_handler_of_a_process_alone(tmp_path: Path) -> None:
    assert faulthandler.is_enabled(), "pytest's own"
    Store.open(tmp_path / "data").close()
    assert not (tmp_path / "data" / "logs").exists()
