"""The command line as a process: how fast it starts, and how it ends when it is interrupted or its reader has gone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

PROGRAM = (sys.executable, "-m", "mailbox_appliance")
#: Modules that a client does not need; each takes tens of milliseconds.
HEAVY = (
    "bottle",
    "waitress",
    "peewee",
    "apsw",
    "imapclient",
    "msgspec",
    "cryptography",
    "keyring",
    "asyncio",
    "smtplib",
)


def run(*argv: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=30)


def modules_after(*argv: str, environment: dict[str, str] | None = None) -> set[str]:
    """Return the modules that a command line imports."""
    code = (
        "import sys; from mailbox_appliance.cli.main import run; code = run(sys.argv[1:]);"
        "print('\\n' + ' '.join(sys.modules), file=sys.stderr)"
    )
    return set(run(sys.executable, "-c", code, *argv, environment=environment).stderr.splitlines()[-1].split())


def test_help_imports_next_to_nothing() -> None:
    found = modules_after("--help")
    assert "mailbox_appliance.cli.main" in found
    assert not found & {*HEAVY, "http.client", "ssl", "json", "email", "platformdirs", "shutil", "difflib"}
    assert not [name for name in found if name.startswith("mailbox_appliance.cli.commands.")]


#: Modules for requests to an appliance; each takes longer than printing help.
ASKING = {"http", "http.client", "ssl", "socket", "email", "subprocess", "tempfile", "platformdirs", "hashlib"}
_EVERYTHING = """
import sys
from mailbox_appliance.cli.main import ENTRIES, run
from mailbox_appliance.cli.terminal import Terminal
for name in ENTRIES:
    assert run([name, "--help"]) == 0
    line = {"_MAILBOX_APPLIANCE_COMPLETE": "zsh_complete", "_MAILBOX_APPLIANCE_LINE": f"mailbox-appliance {name} -"}
    assert run([], {}, Terminal(sys.stdin.buffer, sys.stdout, sys.stderr, line)) == 0
print(" ".join(sys.modules), file=sys.stderr)
"""


def test_the_commands_of_every_day_are_offered_at_once() -> None:
    for name in ("emails", "accounts", "drafts", "members", "status"):
        assert modules_after(name, "--help") & {"json", "pathlib", "urllib.parse", "ipaddress"} == set()


def test_no_help_and_no_completion_imports_what_only_asking_needs() -> None:
    found = set(run(sys.executable, "-c", _EVERYTHING).stderr.splitlines()[-1].split())
    assert "mailbox_appliance.cli.commands.emails" in found
    assert "click.shell_completion" in found
    assert found & {*HEAVY, *ASKING, "mcp", "pydantic"} == set()
    ground = {name.split(".")[1] for name in found if name.startswith("mailbox_appliance.")} - {"cli", "client"}
    assert ground <= {"errors", "system", "version"}


def test_a_command_imports_no_server_and_no_keychain(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/accounts/acc_1/messages", {"items": [], "nextCursor": None})
    found = modules_after("emails", "list", "--account", "acc_1", environment=client_of.environment)
    assert "http.client" in found
    assert not found & set(HEAVY)
    assert len(server.asked) == 1


def test_help_takes_at_most_three_times_the_import_of_click() -> None:
    """Compare the fastest of several alternating runs: other load makes runs slower, never faster."""

    def seconds(*argv: str) -> float:
        began = time.perf_counter()
        assert run(*argv).returncode == 0
        return time.perf_counter() - began

    pairs = [(seconds(*PROGRAM, "--help"), seconds(sys.executable, "-c", "import click")) for _ in range(5)]
    assert min(ours for ours, _ in pairs) <= 3 * min(theirs for _, theirs in pairs)


def test_the_console_script_and_the_module_are_the_same() -> None:
    script = Path(sys.executable).with_name("mailbox-appliance")
    assert run(str(script), "--version").stdout == run(*PROGRAM, "--version").stdout != ""


def test_nothing_to_do_shows_the_help() -> None:
    for words in ((), ("emails",)):
        finished = run(*PROGRAM, *words)
        assert (finished.returncode, finished.stdout) == (2, "")  # stdout is only for results
        assert finished.stderr.startswith("Usage: ")
        assert json.loads(finished.stderr.splitlines()[-1])["error"]["code"] == "invalid_request"


@pytest.fixture
def process_environment(client_of: CommandLine) -> dict[str, str]:
    return {**os.environ, **client_of.environment}


def test_an_interrupt_ends_it_with_130(process_environment: dict[str, str], server: RecordingServer) -> None:
    server.answer("GET", "/me", Canned(silent=True))
    with subprocess.Popen([*PROGRAM, "whoami"], env=process_environment, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 20
        while not server.asked and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(err)["error"]["code"]) == (130, "interrupted")


#: Interrupts the process as soon as it imports a module.
INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "MODULE":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from mailbox_appliance.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["mailbox_appliance.cli.main", "click", "mailbox_appliance.cli.output"])
def test_an_interrupt_amid_imports_ends_it_with_130(process_environment: dict[str, str], module: str) -> None:
    code = INTERRUPTED.replace("MODULE", module)
    ended = run(sys.executable, "-c", code, "instances", "use", "nothing", environment=process_environment)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_reader_that_goes_away_is_no_error_of_ours(
    process_environment: dict[str, str], server: RecordingServer
) -> None:
    server.data("GET", "/me", {"much": "x" * 1_000_000})
    with subprocess.Popen(
        [*PROGRAM, "whoami"], env=process_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize("format_", ["json", "table", "ndjson"])
def test_one_that_goes_away_amid_an_answer_is_141_in_every_format(
    format_: str, process_environment: dict[str, str], server: RecordingServer
) -> None:
    server.data("GET", "/me", {"much": ["x" * 1_000] * 1_000})
    line = [*PROGRAM, "whoami", "--format", format_]
    environment = process_environment | {"PYTHONUNBUFFERED": "1"}  # Python itself does not notice this
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 10) != b""
        process.stdout.close()
        assert process.wait(60) == 141


@pytest.mark.parametrize("unbuffered", ["1", ""])
@pytest.mark.parametrize("to", [">&-", ">/dev/full"])
def test_an_output_that_takes_nothing_is_1(
    to: str, unbuffered: str, process_environment: dict[str, str], server: RecordingServer
) -> None:
    server.data("GET", "/me", {})
    environment = process_environment | {"PYTHONUNBUFFERED": unbuffered}
    finished = run("sh", "-c", f'"$@" {to}', "sh", *PROGRAM, "whoami", environment=environment)
    assert (finished.returncode, json.loads(finished.stderr)["error"]["code"]) == (1, "internal_error")


@pytest.mark.parametrize(("columns", "longest"), [("60", 58), ("300", 108), ("wide", 78)])
def test_help_is_as_wide_as_the_terminal_within_bounds(columns: str, longest: int) -> None:
    said = run(sys.executable, "-m", "mailbox_appliance", "emails", "--help", environment={"COLUMNS": columns}).stdout
    assert max(map(len, said.splitlines())) <= longest
