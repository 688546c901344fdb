"""`logs`: the end of the log and new lines."""

import json
import threading
import time
from pathlib import Path

import pytest

from mailbox_appliance.cli.commands import admin
from tests.cli.conftest import CommandLine

LINE = {"at": "2026-01-02T03:04:05.678Z", "level": "info", "event": "request", "status": 200, "path": "\x1b[2J"}


@pytest.fixture
def file(cli: CommandLine) -> Path:
    """A log of ten lines and one unfinished line."""
    folder = cli.data_dir / "logs"
    folder.mkdir()
    found = folder / "appliance.log"
    found.write_text("".join(json.dumps({**LINE, "n": n}) + "\n" for n in range(10)) + '{"half')
    return found


def test_the_last_lines(cli: CommandLine, file: Path) -> None:
    outcome = cli("logs", "--lines", "3")
    assert (outcome.code, [json.loads(line)["n"] for line in outcome.out.splitlines()]) == (0, [7, 8, 9])


def test_where_the_file_has_too_few_lines_the_rotated_ones_go_before(cli: CommandLine, file: Path) -> None:
    for number, text in ((1, "c\nd\n"), (2, "a\nb\n"), (4, "of another time\n")):
        file.with_name(f"{file.name}.{number}").write_text(text)

    def shown(count: int) -> list[str]:
        outcome = cli("logs", "--lines", str(count))
        assert outcome.code == 0
        return [line if len(line) == 1 else str(json.loads(line)["n"]) for line in outcome.out.splitlines()]

    lines = [*"abcd", *"0123456789"]
    for count in (1, 10, 11, 12, 13, 14, 15):
        assert shown(count) == lines[-count:]


def test_readable_lines(cli: CommandLine, file: Path) -> None:
    outcome = cli("logs", "--lines", "1", "--format", "table")
    assert outcome.out == "2026-01-02T03:04:05.678Z info    request status=200 path=\ufffd[2J n=9\n"


def test_no_log_yet(cli: CommandLine) -> None:
    outcome = cli("logs")
    assert (outcome.code, outcome.error["code"]) == (2, "not_found")


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert admin.readable_line(b"Killed \x1b") == "Killed \ufffd"
    assert admin.readable_line(b"[1]") == "[1]"


def test_following_goes_over_a_rotation(file: Path) -> None:
    found: list[bytes] = []
    stream = file.open("rb")
    admin.last_lines(stream, 1)

    def follow() -> None:
        for line in admin.new_lines(file, stream):
            found.append(line)
            if line == b"new":
                return

    thread = threading.Thread(target=follow, name="follower")
    thread.start()
    with file.open("ab") as writer:
        writer.write(b' done"\n')
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        time.sleep(0.01)
    file.rename(file.with_suffix(".1"))
    file.write_bytes(b"new\n")
    thread.join(10)
    assert not thread.is_alive()
    assert found == [b'{"half done"', b"new"]
    stream.close()
