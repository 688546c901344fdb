"""The shape of the command line: groups that import a command when it is used, and options that go before or after."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from mailbox_appliance.cli.invocation import Invocation

FORMATS = ("json", "table", "ndjson")
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_EPILOG = "Also takes --instance, --data-dir and --format; see `mailbox-appliance --help`."


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        setattr(context.find_object(Invocation), str(parameter.name), value)


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """The options that every command and group takes; the last one given counts."""
    table: tuple[tuple[str, str, click.Choice[str] | None, str], ...] = (
        ("--instance", "NAME|URL", None, "The appliance to speak to, as in `instances list`, or its address."),
        ("--data-dir", "DIR", None, "The data directory of the appliance on this computer."),
        ("--format", "FORMAT", click.Choice(FORMATS), "json (default), table, or ndjson: one item a line."),
    )
    return [
        click.Option(
            [name],
            metavar="[json|table|ndjson]" if isinstance(kind, click.Choice) else metavar,
            type=kind,
            help=text,
            hidden=hidden,
            callback=_remember,
            expose_value=False,
            is_eager=True,
        )
        for name, metavar, kind, text in table
    ]


def command(
    name: str,
    callback: Callable[..., int],
    text: str,
    parameters: Sequence[click.Parameter] = (),
    *,
    hidden: bool = False,
) -> click.Command:
    """A command. Its function takes the Invocation and the parameters by name, and returns the exit code."""

    def invoke(**given: Any) -> int:
        return callback(click.get_current_context().find_object(Invocation), **given)

    return click.Command(
        name,
        callback=invoke,
        params=[*parameters, *global_options(hidden=True)],
        help=text,
        short_help=text.partition("\n")[0],
        epilog=None if hidden else _EPILOG,
        context_settings=SETTINGS,
        hidden=hidden,
    )


def group(name: str, text: str, commands: Sequence[click.Command]) -> click.Group:
    """Commands about one noun."""
    return click.Group(
        name,
        commands={one.name or "": one for one in commands},
        params=global_options(hidden=True),
        help=text,
        epilog=_EPILOG,
        context_settings=SETTINGS,
    )


class Root(click.Group):
    """The top of the tree. What a command does is known from the table; its module is imported when it is used."""

    def __init__(self, entries: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(params=global_options(hidden=False), context_settings=SETTINGS, **settings)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of the table: the order in which a newcomer needs them."""
        return [name for name, (_, text) in self._entries.items() if text]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name: attribute `NAME` (`-` is `_`) of its module."""
        if cmd_name not in self._entries:
            return None
        module = importlib.import_module(f"mailbox_appliance.cli.commands.{self._entries[cmd_name][0]}")
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)  # noqa: S101 - a test walks the table
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them, which the inherited one would do."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._entries[name][1]) for name in self.list_commands(ctx)])
