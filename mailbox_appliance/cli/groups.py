"""Command groups, global options, and shell completion, built on click."""

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from mailbox_appliance.cli.context import Invocation

FORMATS = ("json", "table", "ndjson")
#: Columns of help, at most.
MOST_COLUMNS = 110
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": MOST_COLUMNS}
_EMPTY = "The value must not be empty."
_EPILOG = "Global options: --instance, --data-dir, --format. See `mailbox-appliance --help`."
#: Characters that no shell treats specially.
_HARMLESS = re.compile(r"[\w.:/\[\]~%+-]+", re.ASCII)
#: Values of the metavar ROLE.
_FOLDERS = ("inbox", "archive", "drafts", "sent", "spam", "trash")
#: The file in `commands/` that defines a command, and the command's summary.
Entry = tuple[str, str]


def _store_global_option(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value == "":
        raise click.BadParameter(_EMPTY, context, parameter)
    if value is not None:
        setattr(context.find_object(Invocation), str(parameter.name), value)


def complete_instances(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the name of an appliance that this user signed in to. `begun`: the text typed so far."""
    invocation = context.find_object(Invocation)
    known = [] if invocation is None else [one.name for one in invocation.instances().list()]
    return [CompletionItem(one) for one in ("local", *known) if one.startswith(begun) and _HARMLESS.fullmatch(one)]


class _TextParam(click.types.StringParamType):
    """A text parameter. Its placeholder in the help (metavar), such as FILE, decides how shells complete it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text. An empty file name is an error, since it usually comes from an unset variable."""
        if value == "" and param is not None and "FILE" in (param.metavar or ""):
            self.fail(_EMPTY, param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return values that fit a placeholder such as FILE or ROLE. No request is made."""
        kinds = (param.metavar or "").strip("[].").split("|")
        if any(kind == "FILE" or kind.endswith("-FILE") for kind in kinds):
            return [CompletionItem(incomplete, type="file")]
        if "DIR" in kinds:
            return [CompletionItem(incomplete, type="dir")]
        words = _FOLDERS if "ROLE" in kinds else ()
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _hidden_options(command: click.Command, begun: str) -> list[CompletionItem]:
    """Return the global options that begin with `begun`, which the help of a command hides."""
    return [
        CompletionItem(name, help=one.help)
        for one in command.params
        if isinstance(one, click.Option) and one.hidden and begun and not begun[0].isalnum()
        for name in one.opts
        if name.startswith(begun)
    ]


class _WithExample(click.Command):
    """A command or group whose help shows an example, and whose completion offers the hidden global options."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return super().shell_complete(ctx, incomplete) + _hidden_options(self, incomplete)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example of this command, if it has one, above the closing text of the help."""
        from mailbox_appliance.cli.help_examples import example_of  # loaded only when help is shown

        if lines := example_of(tuple(ctx.command_path.split()[1:])):
            with formatter.section("Example"):
                formatter.write("".join(f"  {line}\n" for line in lines.splitlines()))
        super().format_epilog(ctx, formatter)


class _Command(_WithExample):
    """A command whose completion offers the names of options even before a `-` is typed."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return super().shell_complete(ctx, incomplete or "-")


class _Commands(_WithExample, click.Group):
    """A group of commands. For an unknown name it suggests similar commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words in `args` name.

        Raises click.UsageError for an unknown name. The error suggests similar names. If there are none, it lists the
        commands of the group, unless that is the root.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names = self.list_commands(ctx)
            from difflib import get_close_matches  # deferred: only mistakes need it

            similar = get_close_matches(args[0], names, 3) if args else []
            hint = f"Commands: {', '.join(names)}." if ctx.parent is not None else ""
            if similar:
                hint = f"Did you mean {' or '.join(similar)}?"
            raise click.UsageError(f"{error.message} {hint}".strip(), ctx) from error


class _Group(_Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the command names in the order in which they were added, not sorted."""
        return list(self.commands)


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the options that every command and group accepts. If one is given several times, the last one counts.

    `hidden`: leave them out of the help.
    """
    table: tuple[tuple[str, str, click.Choice[str] | None, str], ...] = (
        ("--instance", "NAME|URL", None, "Appliance to use: a name from `instances list`, or a URL."),
        ("--data-dir", "DIR", None, "Data directory of the appliance on this computer."),
        (
            "--format",
            "FORMAT",
            click.Choice(FORMATS),
            "Output format: json (default), table, or ndjson (one item per line).",
        ),
    )
    return [
        click.Option(
            [name],
            metavar="[json|table|ndjson]" if isinstance(kind, click.Choice) else metavar,
            type=kind or _TextParam(),
            help=text,
            hidden=hidden,
            callback=_store_global_option,
            expose_value=False,
            is_eager=True,
            shell_complete=complete_instances if name == "--instance" else None,
        )
        for name, metavar, kind, text in table
    ]


def option(option_name: str, metavar: str, text: str, *, name: str | None = None, **settings: Any) -> click.Option:
    """Return an option with a value. `metavar`: its placeholder in the help. `name`: the parameter that gets it."""
    return click.Option([option_name, *([name] if name else [])], metavar=metavar, help=text, **settings)


def flag(option_name: str, text: str, *, name: str | None = None) -> click.Option:
    """Return an option without a value. `name`: the parameter that gets it."""
    return click.Option([option_name, *([name] if name else [])], is_flag=True, help=text)


def command(
    name: str,
    callback: Callable[..., int],
    text: str,
    parameters: Sequence[click.Parameter] = (),
    *,
    hidden: bool = False,
) -> click.Command:
    """Return a click command. `text`: its help. `hidden`: leave it out of lists.

    `callback` gets the Invocation, then the parameters by name, and returns the exit code.
    """

    def invoke(**given: Any) -> int:
        return callback(click.get_current_context().find_object(Invocation), **given)

    for parameter in parameters:
        _set_metavar(parameter)
    return _Command(
        name,
        callback=invoke,
        params=[*parameters, *global_options(hidden=True)],
        help=text,
        short_help=text.partition("\n")[0],
        epilog=None if hidden else _EPILOG,
        context_settings=CONTEXT_SETTINGS,
        hidden=hidden,
    )


def _set_metavar(parameter: click.Parameter) -> None:
    """Set the placeholder for a parameter's value in the help: `N` for a number, else a form such as `MESSAGE-ID`."""
    if parameter.metavar and parameter.type is click.STRING:
        parameter.type = _TextParam()
    if parameter.metavar is not None:
        return
    if isinstance(parameter.type, click.IntRange):
        parameter.metavar = "N"
    elif isinstance(parameter, click.Argument) and parameter.type is click.STRING:
        called = parameter.human_readable_name.upper().replace("_", "-")
        parameter.metavar = called if parameter.required else f"[{called}]"


def group(name: str, text: str, commands: Sequence[click.Command]) -> click.Group:
    """Return a group of commands about one kind of object. `text`: its help."""
    return _Group(
        name,
        commands={one.name or "": one for one in commands},
        params=global_options(hidden=True),
        help=text,
        epilog=_EPILOG,
        context_settings=CONTEXT_SETTINGS,
    )


class Root(_Commands):
    """The command `mailbox-appliance`, which contains all others. The module of a command is imported when it is used.

    `entries`: maps the name of each command to its module and its summary for the help; a command without a summary is
    not listed. `sections`: maps each heading of the help to names of commands; without it, all are under one heading.
    """

    def __init__(
        self, entries: Mapping[str, Entry], sections: Mapping[str, Iterable[str]] | None = None, **settings: Any
    ) -> None:
        super().__init__(params=global_options(hidden=False), context_settings=CONTEXT_SETTINGS, **settings)
        self._entries = entries
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands that have a summary, in the order of `entries`."""
        return [name for name, (_, text) in self._entries.items() if text]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return the command of this name: the attribute `NAME` of its module, with `-` replaced by `_`."""
        if cmd_name not in self._entries:
            return None
        module = importlib.import_module(f"mailbox_appliance.cli.commands.{self._entries[cmd_name][0]}")
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)  # noqa: S101 - a test walks the table
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with the text `incomplete`, without importing the commands."""
        found = [one for one in self.list_commands(ctx) if one.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(one, help=self._entries[one][1]) for one in found] + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help, by section. Unlike the inherited method, this imports no command."""
        sections = self._sections or {"Commands": self.list_commands(ctx)}
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._entries[name][1]) for name in names])


def walk(root: Root) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every listed command and group with the words that name it, such as `("emails", "send")`, in help order."""
    context = click.Context(root)
    for name in root.list_commands(context):
        found = root.get_command(context, name)
        assert found is not None  # noqa: S101 - it is listed
        yield (name,), found
        if isinstance(found, click.Group):
            yield from (((name, inner), one) for inner, one in found.commands.items() if not one.hidden)


# --- Completion scripts: what bash, zsh and fish run; `answer_completion` answers them ---
#
# They call the program as it is written in the line, so each installed program completes itself.
#
# click's own scripts (8.5) join words with spaces and split them again. In none of the three shells do they complete
# `--option=value`, where zsh even replaces the option, and in bash no name with a `:`. These scripts pass the line
# unchanged.


_BASH = r"""# Completion of mailbox-appliance for bash. With bash-completion, save it as
# ~/.local/share/bash-completion/completions/mailbox-appliance; otherwise add it to ~/.bashrc.
_mailbox_appliance() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(
        _MAILBOX_APPLIANCE_COMPLETE=bash_complete _MAILBOX_APPLIANCE_LINE="${COMP_LINE:0:COMP_POINT}" \
            _MAILBOX_APPLIANCE_BREAKS="$COMP_WORDBREAKS" "${1/#\~/$HOME}" 2>/dev/null </dev/null
    )
}
complete -o nosort -F _mailbox_appliance mailbox-appliance
"""

_ZSH = r"""#compdef mailbox-appliance
# Completion of mailbox-appliance for zsh. Save it as _mailbox-appliance in a directory of $fpath.
_mailbox_appliance() {
    local kind value help program=${(Q)words[1]}
    local -a described
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) described+=("${value//:/\\:}${help:+:$help}") ;;
            file) compset -P '-*='; _files ;;
            dir) compset -P '-*='; _files -/ ;;
        esac
    done < <(
        _MAILBOX_APPLIANCE_COMPLETE=zsh_complete _MAILBOX_APPLIANCE_LINE="${words[1,CURRENT-1]} $PREFIX" \
            "${program/#\~/$HOME}" 2>/dev/null </dev/null
    )
    (( ! $#described )) || _describe -V 'mailbox-appliance' described
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mailbox_appliance "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _mailbox_appliance mailbox-appliance
fi
"""

_FISH = r"""# Completion of mailbox-appliance for fish. Save it as
# ~/.config/fish/completions/mailbox-appliance.fish.
function __mailbox_appliance_complete
    set -lx _MAILBOX_APPLIANCE_COMPLETE fish_complete
    set -lx _MAILBOX_APPLIANCE_LINE (commandline -cp | string collect)
    set -l program (string replace -r '^~' $HOME -- (commandline -cpo)[1])
    type -q $program; or return
    set -l begun (commandline -ct)
    set -l option (string match -r -- '^-[^=]*=' $begun)
    set -l value (string replace -r -- '^-[^=]*=' '' $begun)
    for reply in ($program 2>/dev/null </dev/null)
        set -l parts (string split \t -- $reply)
        switch $parts[1]
            case plain
                echo $parts[2]\t$parts[3]
            case file
                string replace -r '^' -- "$option" (__fish_complete_path $value)
            case dir
                string replace -r '^' -- "$option" (__fish_complete_directories $value)
        end
    end
end
complete --command mailbox-appliance --no-files --keep-order --arguments '(__mailbox_appliance_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


# --- Completion: click's own machinery, with the line as it is at the moment of pressing Tab ---
#
# The script calls the program with three variables in its environment:
#
#     _MAILBOX_APPLIANCE_COMPLETE   SHELL_complete
#     _MAILBOX_APPLIANCE_LINE       the command line up to the cursor
#     _MAILBOX_APPLIANCE_BREAKS     bash only: characters at which it begins a new word, also inside one of ours
#
# The output is lines of `KIND<tab>VALUE<tab>HELP`; KIND is plain, or file or dir, which the shell completes itself.
# No server and no keychain is asked, and failures are silent: somebody is typing.


_VARIABLE = "_MAILBOX_APPLIANCE_COMPLETE"
#: Marks the cursor while the line is split, so that an empty word at the cursor is kept.
_CURSOR = "\x1f"
#: Redirections such as `>` and `2>>`, which belong to the shell together with the word after them.
_REDIRECTION = re.compile(r"\d*(<|>>?|&>>?|>\|)&?")


def answer_completion(instruction: str, root: Root, invocation: Invocation) -> int:
    """Answer a shell's completion request and return the exit code. `instruction`: such as `bash_complete`.

    After any failure it returns 1 and has printed nothing.
    """
    shell, _, wanted = instruction.partition("_")
    if shell not in SCRIPTS or wanted != "complete":
        return 1
    try:
        invocation.terminal.write(_Completion(root, invocation, is_bash=shell == "bash").complete())
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - a complaint would stand amid somebody's line
        return 1
    return 0


class _Completion(ShellComplete):
    """Completes one command line, which it reads from the environment."""

    def __init__(self, root: Root, invocation: Invocation, *, is_bash: bool) -> None:
        super().__init__(root, {"obj": invocation}, "mailbox-appliance", _VARIABLE)
        self._is_bash = is_bash
        self._given: Mapping[str, str] = invocation.terminal.environment

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, without the program's name, and the word at the cursor."""
        _, *words = split_arg_string(self._given["_MAILBOX_APPLIANCE_LINE"] + _CURSOR)
        *before, begun = words
        return before, begun.replace(_CURSOR, "")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions at the cursor. `args`: the words before it. `incomplete`: the word at the cursor."""
        if _REDIRECTION.match(incomplete) or (args and _REDIRECTION.fullmatch(args[-1])):
            return [CompletionItem(incomplete, type="file")]
        found = super().get_completions(_without_redirections(args), incomplete)
        option, equals, _ = incomplete.partition("=")
        whole = f"{option}=" if equals and option.startswith("-") else ""
        return [self._fit_item(item, whole, incomplete) for item in found]

    def _fit_item(self, item: CompletionItem, whole: str, begun: str) -> CompletionItem:
        """Return a completion as the shell inserts it: bash replaces only what follows the last `=` or `:`."""
        value = f"{whole}{item.value}"
        if self._is_bash:
            breaks = set(self._given.get("_MAILBOX_APPLIANCE_BREAKS", ":=")) & set(":=")
            place = max((begun.rfind(one) for one in breaks), default=-1) + 1
            value = value[place:]
        return CompletionItem(value, type=item.type, help=item.help)

    def format_completion(self, item: CompletionItem) -> str:
        """Return one completion as a line for the shell's completion script."""
        return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"

    def complete(self) -> str:
        """Return the whole output for the shell's completion script."""
        args, incomplete = self.get_completion_args()
        return "".join(f"{self.format_completion(one)}\n" for one in self.get_completions(args, incomplete))


def _without_redirections(words: list[str]) -> list[str]:
    kept, skip = [], False
    for word in words:
        is_one = _REDIRECTION.match(word)
        if not skip and not is_one:
            kept.append(word)
        skip = bool(is_one and is_one.end() == len(word))
    return kept
