"""`events follow` as a process: it resumes from its file after an interrupt, a kill, and while nobody serves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.console.house import Box, House
from tests.feed.conftest import letter


@contextmanager
def following(house: House, box: Box, state: Path) -> Iterator["subprocess.Popen[str]"]:
    """Follow new messages, with the position in a file."""
    environment = {
        **os.environ,
        "MAILBOX_APPLIANCE_DATA_DIR": str(house.running.folder),
        "MAILBOX_APPLIANCE_TOKEN": box.owner.token,
    }
    line = ("events", "follow", "--types", "message.created", "--account", box.id, "--state", str(state))
    command = [sys.executable, "-m", "mailbox_appliance", *line]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def subject(process: "subprocess.Popen[str]") -> Any:
    """The subject of the next event."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())["data"]["subject"]


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0


def test_it_resumes_where_it_stopped(house: House, box: Box, tmp_path: Path) -> None:
    state = tmp_path / "position"
    state.write_text(str(house.ask(box.owner, "GET", "/events").data["nextPosition"]), "ascii")
    house.server.deliver(box.email, letter("one"))
    with following(house, box, state) as process:
        assert subject(process) == "one"
        house.server.deliver(box.email, letter("two"))
        assert subject(process) == "two"
        interrupt(process)
    house.server.deliver(box.email, letter("three"))
    with following(house, box, state) as process:
        first = subject(process)
        assert first in ("two", "three")  # the position of the last event may not have been saved
        assert first == "three" or subject(process) == "three"
        process.kill()
    with following(house, box, state) as process:
        house.server.deliver(box.email, letter("four"))
        subjects = [subject(process)]
        while subjects[-1] != "four":
            subjects.append(subject(process))
        assert ["three", "four"][-len(subjects) :] == subjects
        interrupt(process)


def test_a_file_without_a_position_is_refused(house: House, box: Box, tmp_path: Path) -> None:
    (state := tmp_path / "position").write_text("two words", "ascii")
    with following(house, box, state) as process:
        assert process.wait(20) == 2
    assert state.read_text("ascii") == "two words"
