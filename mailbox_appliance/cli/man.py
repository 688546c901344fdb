"""The manual page, in roff of man(7), made of the same commands and options that `--help` shows.

The page has no date, so that it is the same in every build.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator

import click

from mailbox_appliance.cli import reference
from mailbox_appliance.cli.invocation import ENVIRONMENT
from mailbox_appliance.cli.tree import Root, walk
from mailbox_appliance.version import __version__

#: What roff would take for a command of its own, or for another character than the one that is meant.
_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
_CODE = re.compile(r"`([^`]+)`")
#: Columns of the source, so that its lines can be compared.
_WIDTH = 78
_SEE_ALSO = "The guide, and the pages on operating, monitoring and threats, lie in docs/ of the source."


def page(root: Root) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for line in _lines(root))


def _lines(root: Root) -> Iterator[str]:
    context = click.Context(root, info_name=root.name, **root.context_settings)
    yield f'.TH "MAILBOX\\-APPLIANCE" "1" "" "mailbox\\-appliance {text(__version__)}" "User Commands"'
    yield from (".SH NAME", *_prose(f"mailbox-appliance - {_uncapitalised(root.help or '')}"))
    yield from (".SH SYNOPSIS", r".B mailbox\-appliance", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", *_paragraphs(reference.DESCRIPTION))
    yield from (".SH OPTIONS", "Before or after the command; the last one given counts.", *_options(root, context))
    yield ".SH COMMANDS"
    for words, command in walk(root):
        yield from _command(words, command, context)
    yield from (".SH ENVIRONMENT", *_terms(_variables()))
    yield from (".SH EXIT STATUS", *_terms((str(code), meaning) for code, meaning in reference.EXIT_CODES))
    yield from (".SH FILES", *_terms(reference.FILES))
    yield ".SH EXAMPLES"
    for number, (wanted, lines) in enumerate(reference.EXAMPLES):
        heading = _prose(wanted)
        yield from ([".PP"] if number else [])
        yield from (*heading, ".PP", ".RS 4", ".nf", *_protected(lines), ".fi", ".RE")
    yield from (".SH SEE ALSO", *_prose(_SEE_ALSO))


def _command(words: tuple[str, ...], command: click.Command, parent: click.Context) -> Iterator[str]:
    """A group is a heading; a command its usage, what it does, and its options."""
    if isinstance(command, click.Group):
        yield from (f'.SS "{text(" ".join(words))}"', *_paragraphs(command.help or ""))
        return
    context = click.Context(command, info_name=" ".join(words), parent=parent, **command.context_settings)
    options = list(_options(command, context))
    usage = [text(one) for one in command.collect_usage_pieces(context) if one != "[OPTIONS]"]
    if len(words) == 1:
        yield f'.SS "{text(words[0])}"'
    pieces = [*([r"[\fIOPTIONS\fR]"] if options else []), *(rf"\fI{one}\fR" for one in usage)]
    yield from (".TP", " ".join([rf"\fB{text(' '.join(words))}\fR", *pieces]), *_paragraphs(command.help or "", ".IP"))
    if options:
        yield from (".RS", *options, ".RE")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """What the help says of each option that it shows; of `--help` only at the top."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        is_help = "--help" in parameter.opts and context.parent is not None
        if record and isinstance(parameter, click.Option) and not is_help:
            yield from (".TP", rf"\fB{text(record[0])}\fR", *_prose(record[1]))


def _variables() -> Iterator[tuple[str, str]]:
    for names, meaning in reference.VARIABLES:
        yield ", ".join(ENVIRONMENT + name for name in names.split(", ")), meaning


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield from (".TP", rf"\fB{text(term)}\fR", *_prose(meaning))


def _paragraphs(help_text: str, between: str = ".PP") -> Iterator[str]:
    """A help text, whose paragraphs click separates by empty lines and keeps as they are after a backspace."""
    for number, paragraph in enumerate(help_text.strip().split("\n\n")):
        if number:
            yield between
        lines = paragraph.strip("\n")
        if lines.startswith("\b"):
            yield from (".nf", *_protected(lines.removeprefix("\b").strip("\n")), ".fi")
        else:
            yield from _prose(lines)


def _protected(lines: str) -> list[str]:
    return [text(line) for line in lines.splitlines()]


def _uncapitalised(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}".rstrip(".")


def _prose(value: str) -> list[str]:
    """Sentences as lines that fit; how they are filled is up to whoever shows them."""
    lines = textwrap.wrap(text(value), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [rf"\&{one}" if one.startswith(".") else one for one in lines]


def text(value: str) -> str:
    """Text as roff: nothing in it is a command; what stands in backticks is bold."""
    parts = _CODE.split(value)
    plain = "".join(rf"\fB{_escaped(part)}\fR" if number % 2 else _escaped(part) for number, part in enumerate(parts))
    return rf"\&{plain}" if plain.startswith(".") else plain


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(one, one if one.isascii() else f"\\[u{ord(one):04X}]") for one in value)
