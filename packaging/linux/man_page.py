"""Print the manual page of all commands as roff, for packages. It has no date, so it is the same in every build."""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator

import click

from mailbox_appliance.cli.context import ENVIRONMENT_PREFIX
from mailbox_appliance.cli.groups import Root, walk
from mailbox_appliance.cli.main import EXIT_CODES, VARIABLES, root
from mailbox_appliance.version import __version__

DESCRIPTION = """
The appliance connects the mailboxes of a person or team, keeps their mail in one encrypted store and gives people,
scripts and AI agents scoped access to it. `serve` runs the appliance. Most other commands talk to the running one,
which they find through the data directory or, after `login URL`, at that URL.

Output is the API's JSON on stdout. Errors are JSON on stderr, or plain text with `--format table`. With
`--format ndjson`, warnings and the nextCursor of a list with more pages are JSON lines on stderr. Secrets come from a
prompt, from the standard input or from the environment, never from an argument.
"""
#: File -> contents. DATA_DIR and CONFIG_DIR stand for the directories set by options or environment variables.
FILES: tuple[tuple[str, str], ...] = (
    ("~/.local/share/mailbox-appliance", "The default DATA_DIR: all data of the appliance."),
    ("DATA_DIR/mailbox.db", "The store (the encrypted database)."),
    (
        "DATA_DIR/encryption.key",
        "The key file of the store. Keep a copy elsewhere: without it the store cannot be opened.",
    ),
    ("DATA_DIR/config.toml", "Settings that differ from the defaults."),
    ("DATA_DIR/backups/", "Backups, created daily and by `backup create`."),
    ("DATA_DIR/logs/", "Logs of `serve`, without email addresses and mail."),
    ("DATA_DIR/tls/", "The HTTPS certificate and its key."),
    ("DATA_DIR/run.json", "The running process and its address."),
    ("DATA_DIR/setup-code", "The setup code for the first administrator, until `setup` has used it."),
    ("~/.config/mailbox-appliance", "The default CONFIG_DIR: what the commands store for this user."),
    ("CONFIG_DIR/instances.json", "Known appliances and the fingerprints of their certificates."),
    ("CONFIG_DIR/tokens.json", "Session tokens, if there is no keychain."),
)
#: Task -> the command lines for it.
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("Try the appliance with sample mail:", "mailbox-appliance demo"),
    (
        "Run an appliance, then create its administrator in another terminal:",
        """mailbox-appliance serve
mailbox-appliance setup --name Ada --email ada@example.org""",
    ),
    (
        "Connect a mailbox:",
        """mailbox-appliance accounts add --email ada@example.org \\
    --imap-host imap.example.org --smtp-host smtp.example.org""",
    ),
    ("Find unread mail and print it as a table:", "mailbox-appliance emails search invoice is:unread --format table"),
    (
        "Send a file, at most once even if you repeat the command:",
        """mailbox-appliance emails send --idempotency-key report-42 --to bob@example.net \\
    --subject Report --text-file - --attach report.pdf <letter.txt""",
    ),
    (
        "Sign in to an appliance on another computer:",
        """mailbox-appliance login https://mail.example.org:8443 \\
    --email ada@example.org --fingerprint sha256:...""",
    ),
)
#: Characters that roff would read as a command or replace by another character.
_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
_CODE = re.compile(r"`([^`]+)`")
#: Column width of the source, short enough for readable diffs.
_WIDTH = 78
_SEE_ALSO = "The documentation is in docs/ of the source."


def render_man_page(root: Root) -> str:
    """Return the manual page of all commands as roff."""
    return "".join(f"{line}\n" for line in _page_lines(root))


def _page_lines(root: Root) -> Iterator[str]:
    context = click.Context(root, info_name=root.name, **root.context_settings)
    yield f'.TH "MAILBOX\\-APPLIANCE" "1" "" "mailbox\\-appliance {to_roff(__version__)}" "User Commands"'
    yield from (".SH NAME", *_fill_prose(f"mailbox-appliance - {_lower_first(root.help or '')}"))
    yield from (".SH SYNOPSIS", r".B mailbox\-appliance", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", *_paragraphs(DESCRIPTION))
    yield from (".SH OPTIONS", "Before or after the command; the last one given counts.", *_options(root, context))
    yield ".SH COMMANDS"
    for words, command in walk(root):
        yield from _command(words, command, context)
    yield from (".SH ENVIRONMENT", *_definition_list(_variables()))
    yield from (".SH EXIT STATUS", *_definition_list((str(code), meaning) for code, meaning in EXIT_CODES))
    yield from (".SH FILES", *_definition_list(FILES))
    yield ".SH EXAMPLES"
    for number, (wanted, lines) in enumerate(EXAMPLES):
        heading = _fill_prose(wanted)
        yield from ([".PP"] if number else [])
        yield from (*heading, ".PP", ".RS 4", ".nf", *_protect_lines(lines), ".fi", ".RE")
    yield from (".SH SEE ALSO", *_fill_prose(_SEE_ALSO))


def _command(words: tuple[str, ...], command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yield the roff lines about a command (usage, description, options) or a group (heading and description).

    `words`: its name, such as `("emails", "send")`. `parent`: the click context of the group above it.
    """
    if isinstance(command, click.Group):
        yield from (f'.SS "{to_roff(" ".join(words))}"', *_paragraphs(command.help or ""))
        return
    context = click.Context(command, info_name=" ".join(words), parent=parent, **command.context_settings)
    options = list(_options(command, context))
    usage = [to_roff(one) for one in command.collect_usage_pieces(context) if one != "[OPTIONS]"]
    if len(words) == 1:
        yield f'.SS "{to_roff(words[0])}"'
    pieces = [*([r"[\fIOPTIONS\fR]"] if options else []), *(rf"\fI{one}\fR" for one in usage)]
    yield from (
        ".TP",
        " ".join([rf"\fB{to_roff(' '.join(words))}\fR", *pieces]),
        *_paragraphs(command.help or "", ".IP"),
    )
    if options:
        yield from (".RS", *options, ".RE")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the roff lines about each visible option. `--help` is described only for the root command."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        is_help = "--help" in parameter.opts and context.parent is not None
        if record and isinstance(parameter, click.Option) and not is_help:
            yield from (".TP", rf"\fB{to_roff(record[0])}\fR", *_fill_prose(record[1]))


def _variables() -> Iterator[tuple[str, str]]:
    for names, meaning in VARIABLES:
        yield ", ".join(ENVIRONMENT_PREFIX + name for name in names.split(", ")), meaning


def _definition_list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield from (".TP", rf"\fB{to_roff(term)}\fR", *_fill_prose(meaning))


def _paragraphs(help_text: str, between: str = ".PP") -> Iterator[str]:
    """Yield the paragraphs of a help text as roff lines. `between`: the roff macro that separates them.

    Paragraphs are separated by empty lines. One that starts with a backspace character keeps its lines.
    """
    for number, paragraph in enumerate(help_text.strip().split("\n\n")):
        if number:
            yield between
        lines = paragraph.strip("\n")
        if lines.startswith("\b"):
            yield from (".nf", *_protect_lines(lines.removeprefix("\b").strip("\n")), ".fi")
        else:
            yield from _fill_prose(lines)


def _protect_lines(lines: str) -> list[str]:
    return [to_roff(line) for line in lines.splitlines()]


def _lower_first(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}".rstrip(".")


def _fill_prose(value: str) -> list[str]:
    """Wrap text into short lines of roff source; the viewer wraps them again for its width."""
    lines = textwrap.wrap(to_roff(value), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [rf"\&{one}" if one.startswith(".") else one for one in lines]


def to_roff(value: str) -> str:
    """Return text as roff, escaped so that nothing in it is a roff command. Text in backticks becomes bold."""
    parts = _CODE.split(value)
    plain = "".join(rf"\fB{_escape(part)}\fR" if number % 2 else _escape(part) for number, part in enumerate(parts))
    return rf"\&{plain}" if plain.startswith(".") else plain


def _escape(value: str) -> str:
    return "".join(_ESCAPES.get(one, one if one.isascii() else f"\\[u{ord(one):04X}]") for one in value)


if __name__ == "__main__":
    sys.stdout.write(render_man_page(root()))
