"""Each help page has a summary of one line, an example that works, and options with descriptions."""

import re
import shlex
from pathlib import Path

import click
import pytest

from mailbox_appliance.cli import main
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import walk
from mailbox_appliance.cli.help_examples import example_of
from mailbox_appliance.cli.main import ENTRIES, SECTIONS, root
from mailbox_appliance.cli.terminal import Terminal
from tests.cli.conftest import CommandLine

_LONGEST_SUMMARY = 72
PAGES = [((), root()), *walk(root())]
_IDS = [" ".join(words) or "mailbox-appliance" for words, _ in PAGES]
_PROGRAM = "mailbox-appliance"
Capture = pytest.CaptureFixture[str]


def command_lines(example: str) -> list[list[str]]:
    """Return the words of our command lines in an example, from both sides of a pipe and without redirections."""
    found = []
    for part in example.replace("\\\n", " ").split(" | "):
        words = [word for word in shlex.split(part) if not word.startswith(("<", ">"))]
        if words[0] == _PROGRAM:
            found.append(words[1:])
    return found


def parsed(words: list[str]) -> click.Command:
    """Return the command that a command line names. Raises ClickException if a command, option or value is wrong."""
    invocation = Invocation(Terminal.of_process())
    command: click.Command = root()
    context, rest = None, words
    while True:
        context = command.make_context(words[0], list(rest), parent=context, obj=invocation)
        if not isinstance(command, click.Group):
            return command
        _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found


@pytest.mark.parametrize(("words", "command"), PAGES, ids=_IDS)
def test_it_has_a_summary_and_an_example(
    words: tuple[str, ...], command: click.Command, cli: CommandLine, capsys: Capture
) -> None:
    summary = (command.help or "").partition("\n")[0]
    assert summary.endswith(".")
    assert len(summary) <= _LONGEST_SUMMARY
    example = example_of(words)
    assert example is not None, "see the table in mailbox_appliance/cli/help_examples.py"
    shown = "".join(f"  {line}\n" for line in example.splitlines())
    assert cli(*words, "--help").code == 0
    assert f"\nExample:\n{shown}" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "command"), PAGES, ids=_IDS)
def test_the_example_can_be_typed(words: tuple[str, ...], command: click.Command) -> None:
    lines = command_lines(example_of(words) or "")
    commands = [parsed(line) for line in lines]
    own = command.commands.values() if isinstance(command, click.Group) and words else [command]
    assert not words or {one.name for one in commands} & {one.name for one in own}


def test_a_wrong_example_is_noticed() -> None:
    for line in (["emails", "lost"], ["emails", "list", "--lost"], ["emails", "list", "--limit", "0"]):
        with pytest.raises(click.ClickException):
            parsed(line)


def test_each_listed_command_is_in_one_section_with_its_summary() -> None:
    listed = [name for section in SECTIONS.values() for name in section]
    assert sorted(listed) == sorted(name for name, (_, summary) in ENTRIES.items() if summary)
    context = click.Context(root())
    for name in listed:
        command = root().get_command(context, name)
        assert command is not None
        assert ENTRIES[name][1] == (command.help or "").partition("\n")[0]


@pytest.mark.parametrize(("words", "command"), PAGES, ids=_IDS)
def test_groups_and_options_have_one_form(words: tuple[str, ...], command: click.Command) -> None:
    if isinstance(command, click.Group) and words:
        assert (command.help or "").startswith("Manage ")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help
            assert option.help[0].isupper()
            assert option.help.endswith(".")


def test_every_variable_is_told() -> None:
    """The environment variables in the code are those in the help and on the manual page."""
    told = {name.partition("=")[0] for names, _ in main.VARIABLES for name in names.split(", ")}
    code = "".join(file.read_text("utf-8") for file in Path(main.__file__).parent.rglob("*.py"))
    named = set(re.findall(r'variable\("([A-Z_]+)"\)', code)) | set(re.findall(r'"MAILBOX_APPLIANCE_([A-Z_]+)"', code))
    assert len(named) > 5
    assert named - told == set()
