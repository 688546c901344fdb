"""The shape of the command line: groups that import a command when it is used, and options that go before or after."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli.invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FORMATS = ("json", "table", "ndjson")
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_EMPTY = "This must not be empty."
_EPILOG = "Also takes --instance, --data-dir and --format; see `mailbox-appliance --help`."


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value == "":
        raise click.BadParameter(_EMPTY, context, parameter)
    if value is not None:
        setattr(context.find_object(Invocation), str(parameter.name), value)


def complete_instances(context: click.Context, _parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Complete the name of an appliance that this user logged in to."""
    from mailbox_appliance.cli.completion import instances

    return instances(context, begun)


class _Named(click.types.StringParamType):
    """A text of which the metavar says what it names, such as FILE."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text; the name of a file is not empty, as it is where a variable was never set."""
        if value == "" and param is not None and "FILE" in (param.metavar or ""):
            self.fail(_EMPTY, param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        from mailbox_appliance.cli.completion import named

        return named(param.metavar or "", incomplete)


class _Command(click.Command):
    """A command; where nothing else could come, options are completed."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from mailbox_appliance.cli.completion import hidden_options

        return super().shell_complete(ctx, incomplete or "-") + hidden_options(self, incomplete or "-")


class _Group(click.Group):
    """A group of commands about one noun."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of the table, as in the list of all groups."""
        return list(self.commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from mailbox_appliance.cli.completion import hidden_options

        return super().shell_complete(ctx, incomplete) + hidden_options(self, incomplete)


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
            type=kind or _Named(),
            help=text,
            hidden=hidden,
            callback=_remember,
            expose_value=False,
            is_eager=True,
            shell_complete=complete_instances if name == "--instance" else None,
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

    for parameter in parameters:
        _call(parameter)
    return _Command(
        name,
        callback=invoke,
        params=[*parameters, *global_options(hidden=True)],
        help=text,
        short_help=text.partition("\n")[0],
        epilog=None if hidden else _EPILOG,
        context_settings=SETTINGS,
        hidden=hidden,
    )


def _call(parameter: click.Parameter) -> None:
    """Give what the help calls a parameter's value one form: `MESSAGE-ID`, and `N` for a number."""
    if parameter.metavar and parameter.type is click.STRING:
        parameter.type = _Named()
    if parameter.metavar is not None:
        return
    if isinstance(parameter.type, click.IntRange):
        parameter.metavar = "N"
    elif isinstance(parameter, click.Argument) and parameter.type is click.STRING:
        called = parameter.human_readable_name.upper().replace("_", "-")
        parameter.metavar = called if parameter.required else f"[{called}]"


def group(name: str, text: str, commands: Sequence[click.Command]) -> click.Group:
    """Commands about one noun."""
    return _Group(
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands and options that begin so, without importing the commands."""
        from click.shell_completion import CompletionItem

        found = [one for one in self.list_commands(ctx) if one.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(one, help=self._entries[one][1]) for one in found] + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them, which the inherited one would do."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._entries[name][1]) for name in self.list_commands(ctx)])


def walk(root: Root) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group that help lists, with the words that name it, in the order of the help."""
    context = click.Context(root)
    for name in root.list_commands(context):
        found = root.get_command(context, name)
        assert found is not None  # noqa: S101 - it is listed
        yield (name,), found
        if isinstance(found, click.Group):
            yield from (((name, inner), one) for inner, one in found.commands.items() if not one.hidden)
