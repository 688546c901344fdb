"""The complete output of every command: help, success in each format, an error, and exit codes (tests/cli/golden/).

pytest tests/cli/test_golden.py --update-golden     rewrites the files; check the difference before you commit it
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mailbox_appliance.cli.groups import walk
from mailbox_appliance.cli.main import root
from mailbox_appliance.store import key
from tests.cli.golden_rows import ROWS, SERVING, Row
from tests.cli.golden_stage import Outcome, Serving, Stage, opened, play, surroundings
from tests.cli.golden_text import fixed, shortened
from tests.servers.dovecot import MailServer

FOLDER = Path(__file__).parent / "golden"
COMMANDS = [" ".join(words) for words, command in walk(root()) if not isinstance(command, click.Group)]
#: Name of a file -> its commands: those of a group, or those without one.
GROUPS: dict[str, list[str]] = {}
for _command in COMMANDS:
    GROUPS.setdefault(_command.split()[0] if " " in _command else "commands", []).append(_command)
FORMATS = ("", " --format table", " --format ndjson")


@pytest.fixture(scope="module")
def played(mail_server: MailServer) -> Iterator[dict[str, str]]:
    """The output of each command, as the text of its file."""
    with pytest.MonkeyPatch.context() as patch, opened(mail_server) as stage:
        for name, value in surroundings(stage.folder).items():
            patch.setenv(name, value) if value is not None else patch.delenv(name, raising=False)
        for name in ("_ARGON2_ITERATIONS", "_ARGON2_LANES"):
            patch.setattr(key, name, 1)
        patch.setattr(key, "_ARGON2_KIB", 8)  # keys made of passphrases in no time
        serving = {name: Serving(line, stage.surroundings_of(name)) for name, (line, _, _) in SERVING.items()}
        told = {row.command: "\n".join(_parts(stage, row)) for row in ROWS}
        for name, (line, asked, mark) in SERVING.items():
            told[name] += f"\n{_part(line, serving[name].stopped(asked, mark))}"
        yield {name: fixed(text, stage.known) for name, text in told.items()}


def _parts(stage: Stage, row: Row) -> Iterator[str]:
    """Yield the help, success and error of a command."""
    yield _played(stage, f"{row.command} --help")
    for form in FORMATS if row.command not in SERVING else ():
        if row.before:
            row.before(stage)
        yield _played(stage, f"{row.command} {row.good}".strip() + form, row.says, by_token=row.by_token)
    for form in FORMATS[:2]:
        yield _played(stage, f"{row.command} {row.bad}".strip() + form, row.bad_says)


def _played(stage: Stage, line: str, says: tuple[str, ...] = (), *, by_token: bool = True) -> str:
    words = [word.format(**stage.values) for word in line.split()]
    lines = "".join(f"{one}\n" for one in says).format(**stage.values)
    environment = stage.environment | ({} if by_token else {"MAILBOX_APPLIANCE_TOKEN": ""})
    return _part(line, play(words, environment, lines))


def _part(line: str, outcome: Outcome) -> str:
    complaints = "".join(f"! {one}\n" for one in shortened(outcome.err).splitlines())
    return f"$ mailbox-appliance {line}\n{shortened(outcome.out)}{complaints}[exit {outcome.code}]\n"


@pytest.mark.parametrize("group", GROUPS)
def test_as_it_was(group: str, played: dict[str, str], request: pytest.FixtureRequest) -> None:
    now = "\n".join(played[command] for command in GROUPS[group])
    file = FOLDER / f"{group}.txt"
    if request.config.getoption("--update-golden"):
        file.write_text(now, "utf-8")
    assert now.splitlines() == file.read_text("utf-8").splitlines()


def test_each_command_shows_success_and_failure(played: dict[str, str]) -> None:
    assert sorted(played) == sorted(COMMANDS), "each command has one row in tests/cli/golden_rows.py"
    for command, text in played.items():
        codes = re.findall(r"^\[exit (\d+)\]$", text, re.MULTILINE)
        good = codes.count("0")
        assert (good, len(codes) - good) == ((2 if command in SERVING else 4), 2), command


def test_nothing_is_left_over() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(GROUPS)
