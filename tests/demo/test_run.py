"""The demo as a new user sees it: one command, three commands to paste, Ctrl-C, and no files left behind."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from mailbox_appliance.demo import mail

T = TypeVar("T")

#: The user's own folders, in which nothing may be written.
HOME_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


class Demo:
    """A running demo: its output so far, and its scratch folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.temporary, self.home = folder / "tmp", folder / "home"
        self.temporary.mkdir()
        self.home.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MAILBOX_APPLIANCE_")},
            **{name: str(self.home) for name in ("HOME", *HOME_FOLDERS)},
            "TMPDIR": str(self.temporary),
            # Variables for another instance must not affect the demo or its commands.
            "MAILBOX_APPLIANCE_TOKEN": "mbxs_of_another_instance",
            "MAILBOX_APPLIANCE_DATA_DIR": str(self.home / "own"),
            "http_proxy": "http://127.0.0.1:9",
        }
        self.process = subprocess.Popen(
            (sys.executable, "-m", "mailbox_appliance", "demo", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.home,
            start_new_session=True,
        )
        self.printed = ""

    def read_until(self, words: str, seconds: float = 90) -> str:
        """Return everything printed up to these words."""
        assert self.process.stdout
        end = time.monotonic() + seconds
        while words not in self.printed:
            assert time.monotonic() < end, self.printed
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                part = os.read(self.process.stdout.fileno(), 65536).decode()
                assert part, self.printed
                self.printed += part
        return self.printed

    def commands(self) -> list[str]:
        """The printed commands, as a user copies them."""
        return [line for line in self.printed.splitlines() if "/mailbox-appliance " in line]

    def paste(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a line in a shell."""
        return subprocess.run(
            command, shell=True, capture_output=True, text=True, env=self.environment, cwd="/", timeout=30, check=False
        )

    def family(self) -> list[psutil.Process]:
        """Return every process that the demo started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def process_names(self) -> set[str]:
        """Return the names of the processes on their command lines."""
        return {word for process in self.family() for word in asked(process.cmdline)}

    def addresses(self) -> set[str]:
        """Return the addresses of their connections and listeners."""
        return {connection.laddr.ip for process in self.family() for connection in asked(process.net_connections)}

    def left_behind(self) -> list[str]:
        """Return files in the temporary folder and in the user's home."""
        return [str(file) for folder in (self.temporary, self.home) for file in folder.rglob("*")]


def asked(question: Callable[[], list[T]]) -> list[T]:
    """Return the answer about a process; nothing if it has just ended."""
    try:
        return question()
    except psutil.NoSuchProcess:
        return []


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Demo]:
    demo = Demo(folder, *arguments)
    family: list[psutil.Process] = []
    try:
        demo.read_until("Ctrl-C stops")
        family = demo.family()
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.kill()
        demo.process.communicate()
        for process in family:
            with_ended(process)


def with_ended(process: psutil.Process) -> None:
    """End a process that outlived its test, so that a failure does not affect other tests."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def gone(family: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)


def test_a_newcomer_tries_it_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        look, send, read_back = demo.commands()
        # The two servers; while the mirror is filled, a parsing process may run too.
        assert len(demo.process_names() & {"serve", "demo-servers"}) == 2

        inbox = demo.paste(look)
        assert inbox.returncode == 0, inbox.stderr
        assert "Welcome to the demo" in inbox.stdout

        sent = demo.paste(send)
        assert (sent.returncode, sent.stderr) == (0, "")
        operation = json.loads(sent.stdout)["data"]
        assert operation["status"] == "succeeded"
        again = json.loads(demo.paste(send).stdout)["data"]
        assert again["operationId"] == operation["operationId"]

        copy = demo.paste(read_back)
        assert copy.returncode == 0, copy.stderr
        (message,) = json.loads(copy.stdout)["data"]["items"]
        assert message["subject"] == "Hello from the demo"
        assert [to["email"] for to in message["to"]] == [mail.COLLEAGUE_EMAIL]
        # It came back through the mail servers exactly once.
        wait_until(lambda: demo.paste(look).stdout.count("Hello from the demo") == 1)

        address = re.search(r"Console +(http://127\.0\.0\.1:\d+)", demo.printed)
        assert address
        assert demo.addresses() <= {"127.0.0.1", "::1"}

        family = demo.family()
        assert len(family) >= 2
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(60) == 0
        assert gone(family)
        assert demo.left_behind() == []


@pytest.mark.slow
def test_an_uncertain_delivery_can_be_seen(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        program = demo.commands()[0].split(" emails ")[0]
        lost = f"{program} emails send --to lost@demo.test --subject S --text T --idempotency-key"
        done, found = demo.paste(f"{lost} k"), demo.paste(f"{lost} c --cc {mail.OWNER_EMAIL}")
        assert (done.returncode, found.returncode) == (3, 3)
        assert json.loads(done.stdout)["data"]["status"] == "uncertain"
        foreign = demo.paste(f"{program} emails send --idempotency-key f --to a@example.com --subject S --text T")
        assert foreign.returncode == 5
        assert json.loads(foreign.stdout)["data"]["error"] == {"code": "recipient_rejected"}
        look = f"{program} emails delivery-status {json.loads(found.stdout)['data']['operationId']}"
        wait_until(lambda: demo.paste(look).returncode == 0)
        assert json.loads(demo.paste(look).stdout)["data"]["status"] == "succeeded"
        # The commands use an API key from the environment, not the demo's own session, which has more permissions.
        made = json.loads(demo.paste(f"{program} api-keys create --name weak --profile read-only").stdout)["data"]
        assert demo.paste(f"MAILBOX_APPLIANCE_TOKEN={made['token']} {lost} w").returncode == 4
        family = demo.family()
        os.killpg(demo.process.pid, signal.SIGHUP)  # as when the terminal closes
        assert demo.process.wait(60) == 0
        assert gone(family)
        assert demo.left_behind() == []


def test_nothing_is_left_behind_when_the_demo_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        family = demo.family()
        demo.process.kill()
        demo.process.wait()
        wait_until(lambda: gone(family))
        wait_until(lambda: demo.left_behind() == [])


@pytest.mark.parametrize("victim", ["serve", "demo-servers"])
def test_the_demo_ends_when_a_part_of_it_does(tmp_path: Path, victim: str) -> None:
    with running(tmp_path) as demo:
        family = demo.family()
        (process,) = [one for one in family if victim in asked(one.cmdline)]
        process.kill()
        output, _ = demo.process.communicate(timeout=60)
        assert demo.process.returncode == 1
        assert output.strip().endswith(
            "ended unexpectedly (exit code -9). The demo is stopped and its data is deleted."
        )
        assert gone(family)
        assert demo.left_behind() == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = Demo(tmp_path, "--port", str(port))
        output, _ = demo.process.communicate(timeout=60)
    assert demo.process.returncode == 1
    assert re.search(rf"The appliance ended unexpectedly \(exit code [1-9]\): .*{port}", output)
    assert demo.left_behind() == []


def test_a_stop_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    demo.read_until("Starting the appliance")
    wait_until(lambda: len(demo.family()) == 2)
    family = demo.family()
    demo.process.send_signal(signal.SIGTERM)
    demo.process.communicate(timeout=60)
    assert demo.process.returncode == 0
    assert gone(family)
    assert demo.left_behind() == []


def test_a_missing_extra_is_said(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pymap'] = None; from mailbox_appliance.demo.run import main; sys.exit(main())"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "The demo needs pymap. Install with: pip install 'mailbox-appliance[demo]'\n"
    assert done.stdout == ""
