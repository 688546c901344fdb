"""Completions: the answers to the shells, and their effect in real shells."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mailbox_appliance.cli.groups import SCRIPTS
from tests.cli.conftest import CommandLine, Outcome
from tests.cli.test_process import modules_after
from tests.servers.shells import Shell

NAMES = ("mail.example.org:8443", "mail.example.org:9443", "other.example", "[::1]:8443", "$(touch x)")
FORMATS = ["json", "table", "ndjson"]

# fmt: off
#: the line up to the cursor -> the completions; a kind of file is given as <file>
LINES: list[tuple[str, list[str] | None]] = [
    ("m acco",                              ["accounts"]),
    ("/usr/bin/mailbox-appliance acco",     ["accounts"]),
    ("m emails l",                          ["list", "label"]),
    ("m emails 'l",                         ["list", "label"]),
    ("m --format table emails sea",         ["search"]),
    ("m --instance unknown emails sea",     ["search"]),
    ("m --vers",                            ["--version"]),
    ("m --version emails lis",              ["list"]),
    ("m --help emails lis",                 ["list"]),
    ("m emails list --acc",                 ["--account"]),
    ("m emails list --query x --q",         []),
    ("m emails list --data",                ["--data-dir"]),
    ("m emails --data",                     ["--data-dir"]),
    ("m labels list ",                      ["--account", "-h", "--help", "--instance", "--data-dir", "--format"]),
    ("m labels list --account a ",          ["-h", "--help", "--instance", "--data-dir", "--format"]),
    ("m --format ",                         FORMATS),
    ("m emails list --format ",             FORMATS),
    ("m emails list --format t",            ["table"]),
    ("m emails list --format=",             FORMATS),
    ("m completion ",                       ["bash", "zsh", "fish"]),
    ("m --instance ",                       ["local", *sorted(NAMES[:4])]),
    ("m emails list --instance oth",        ["other.example"]),
    ("m instances use l",                   ["local"]),
    ("m instances remove o",                ["other.example"]),
    ("m emails list --folder s",            ["sent", "spam"]),
    ("m emails send --attach ",             ["<file>"]),
    ("m emails send --text-file=no",        ["<file>"]),
    ("m backup restore ",                   ["<file>"]),
    ("m https import ",                     ["<file>"]),
    ("m --data-dir ",                       ["<dir>"]),
    ("m openapi > ",                        ["<file>"]),
    ("m openapi 2>>no",                     ["<file>"]),
    ("m openapi >a 2> b --form",            ["--format"]),
    ("m 2>/dev/null emails lis",            ["list"]),
    ("m >a <b emails lis",                  ["list"]),
    ("m accounts show ",                    []),
    ("m emails list --limit ",              []),
    ("m ask-",                              []),
    ("m emails nonsense ",                  None),
]
#: keys -> the resulting line, in bash and zsh; ^X in bash inserts all completions
TYPED = [
    ("mailbox-appliance acco\t",                           "mailbox-appliance accounts "),
    ("mailbox-appliance emails send --attach let\t",       r"mailbox-appliance emails send --attach letter\ one.txt "),
    ("mailbox-appliance emails send --attach=let\t",       r"mailbox-appliance emails send --attach=letter\ one.txt "),
    ("mailbox-appliance --data-dir li\t",                  "mailbox-appliance --data-dir lists/"),
    ("mailbox-appliance --instance=mail\t",                "mailbox-appliance --instance=mail.example.org:"),
    ("mailbox-appliance emails list --instance mail.example.org:9\t",
     "mailbox-appliance emails list --instance mail.example.org:9443 "),
    ("true; X=1 mailbox-appliance --format=nd\t",          "true; X=1 mailbox-appliance --format=ndjson "),
    ("~/nowhere/mailbox-appliance acco\t",                 "~/nowhere/mailbox-appliance acco"),
]
ALL_IN_BASH = [
    ("mailbox-appliance emails l\x18",                     "mailbox-appliance emails list label "),
    ("mailbox-appliance --format=\x18",                    "mailbox-appliance --format=json table ndjson "),
    ("mailbox-appliance 'acco\t",                          "mailbox-appliance 'accounts' "),
]
IN_FISH = [
    ("mailbox-appliance acco",                             ["accounts"]),
    ("mailbox-appliance 'acco",                            ["accounts"]),
    ("mailbox-appliance emails send --attach=let",         ["--attach=letter one.txt"]),
    ("mailbox-appliance --data-dir li",                    ["lists/"]),
    ("mailbox-appliance --instance=mail",                  ["--instance=" + name for name in NAMES[:2]]),
    ("true; X=1 mailbox-appliance --format ",              FORMATS),
    ("~/nowhere/mailbox-appliance acco",                   []),
]
# fmt: on


def known(cli: CommandLine) -> CommandLine:
    """The command line of a user who has signed in to some appliances."""
    folder = cli.folder / "config"
    folder.mkdir()
    rows = {name: {"url": f"https://{name}", "fingerprint": None} for name in NAMES}
    (folder / "instances.json").write_text(json.dumps({"instances": rows}))
    return cli


def tab(cli: CommandLine, line: str, shell: str = "zsh", **more: str) -> Outcome:
    """Return the answer to a shell."""
    return cli(
        environment={"_MAILBOX_APPLIANCE_COMPLETE": f"{shell}_complete", "_MAILBOX_APPLIANCE_LINE": line, **more}
    )


@pytest.mark.parametrize(("line", "wanted"), LINES)
def test_what_may_stand_there(line: str, wanted: list[str] | None, cli: CommandLine) -> None:
    outcome = tab(known(cli), line)
    assert (outcome.code, outcome.err) == (0, "")
    found = [one.split("\t") for one in outcome.out.splitlines()]
    assert all(len(one) == 3 for one in found)
    if wanted is not None:
        values = [value if kind == "plain" else f"<{kind}>" for kind, value, _ in found]
        option = line.rpartition(" ")[2].partition("=")[0]
        assert values == [f"{option}={one}" if "=" in line and kind_is_plain(one) else one for one in wanted]


def kind_is_plain(value: str) -> bool:
    return not value.startswith("<")


# fmt: off
#: the line, the word breaks of bash -> the replacement of the line's last word
BREAKS = [
    ("m --instance mail.example.org:9",   " :=",  "9443"),
    ("m --instance mail.example.org:9",   " =",   "mail.example.org:9443"),
    ("m --instance=mail.example.org:9",   " =",   "mail.example.org:9443"),
    ("m --instance=[::1]:8",              " :=",  "8443"),
    ("m --format=t",                      " :=",  "table"),
    ("m --format=t",                      " ",    "--format=table"),
]
# fmt: on


@pytest.mark.parametrize(("line", "breaks", "value"), BREAKS)
def test_bash_is_told_what_it_takes_for_a_word(line: str, breaks: str, value: str, cli: CommandLine) -> None:
    outcome = tab(known(cli), line, "bash", _MAILBOX_APPLIANCE_BREAKS=breaks)
    assert [one.split("\t")[1] for one in outcome.out.splitlines()] == [value]


def test_what_goes_wrong_is_silent(cli: CommandLine) -> None:
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "instances.json").write_text("{damaged")
    for line, shell in (("m --instance ", "bash"), ("", "bash"), ("m em", "csh")):
        outcome = tab(cli, line, shell)
        assert (outcome.code, outcome.out, outcome.err) == (1, "", "")
    nothing = cli(environment={"_MAILBOX_APPLIANCE_COMPLETE": "bash_complete"})
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_printed_and_can_be_read(shell: str, cli: CommandLine) -> None:
    script = cli("completion", shell).out
    file = cli.folder / "script"
    file.write_text(script)
    subprocess.run((shell, "-n", str(file)), check=True, timeout=30)


def in_a_shell(cli: CommandLine) -> Mapping[str, str]:
    """Return an environment that finds this program, in a folder with files to complete."""
    (cli.folder / "letter one.txt").touch()
    (cli.folder / "lists").mkdir()
    program = str(Path(sys.executable).parent)
    return {"PATH": f"{program}:{os.environ['PATH']}", "HOME": str(cli.folder), "LC_ALL": "C.UTF-8", **cli.environment}


@pytest.mark.parametrize(("shell", "typed"), [("bash", TYPED + ALL_IN_BASH), ("zsh", TYPED)])
def test_a_real_shell(shell: str, typed: list[tuple[str, str]], cli: CommandLine) -> None:
    environment = in_a_shell(known(cli))
    with Shell(shell, cli.folder, environment, f'eval "$(mailbox-appliance completion {shell})"') as opened:
        assert [opened.line(keys) for keys, _ in typed] == [line for _, line in typed]


def test_fish(cli: CommandLine) -> None:
    asked = "".join(f'echo ==; complete -C "{line}"\n' for line, _ in IN_FISH)
    script = f"mailbox-appliance completion fish | source\n{asked}"
    command = ("fish", "--no-config", "-c", script)
    environment = in_a_shell(known(cli))
    done = subprocess.run(command, cwd=cli.folder, env=environment, capture_output=True, text=True, timeout=60)
    told = [part.splitlines()[1:] for part in done.stdout.split("==")[1:]]
    assert ([[one.partition("\t")[0] for one in part] for part in told], done.stderr) == ([w for _, w in IN_FISH], "")


def test_a_function_stands_for_the_program(cli: CommandLine) -> None:
    """For users who only have `python -m mailbox_appliance`."""
    environment = {**in_a_shell(cli), "PATH": os.environ["PATH"]}
    function = f'mailbox-appliance() {{ "{sys.executable}" -m mailbox_appliance "$@"; }}'
    with Shell("bash", cli.folder, environment, f'{function}; eval "$(mailbox-appliance completion bash)"') as opened:
        assert opened.line("mailbox-appliance emails sea\t") == "mailbox-appliance emails search "


def test_nothing_is_imported_that_is_not_needed(cli: CommandLine) -> None:
    given = {"_MAILBOX_APPLIANCE_COMPLETE": "bash_complete", "_MAILBOX_APPLIANCE_LINE": "m --instance "}
    found = modules_after(environment=cli.environment | given)
    assert "mailbox_appliance.cli.groups" in found
    assert not found & {"keyring", "http.client", "ssl", "socket", "mailbox_appliance.system.keyring", "subprocess"}
