"""What a shell is told when somebody presses Tab: click's own machinery, asked with the line as it stands.

The script of a shell (`cli/completion_scripts.py`) calls the program with three variables in its environment:

_MAILBOX_APPLIANCE_COMPLETE   SHELL_complete; SHELL_source prints the script, as `completion SHELL` does
_MAILBOX_APPLIANCE_LINE       the command line up to the cursor
_MAILBOX_APPLIANCE_BREAKS     bash only: characters at which it begins a new word, also inside one of ours

It answers with lines of `KIND<tab>VALUE<tab>HELP`; KIND is plain, or file or dir, which the shell completes by itself.
Nothing is asked of any server or keychain, and what goes wrong is silent: somebody is amid typing.
"""

import re
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from mailbox_appliance.cli.completion_scripts import SCRIPTS
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import Root

_VARIABLE = "_MAILBOX_APPLIANCE_COMPLETE"
#: Stands at the cursor while the line is taken apart, so that an empty word there is seen.
_CURSOR = "\x1f"
#: `>`, `2>>` and their like, which are the shell's, and so is the word after them.
_REDIRECTION = re.compile(r"\d*(<|>>?|&>>?|>\|)&?")
#: What no shell takes for anything but letters.
_HARMLESS = re.compile(r"[\w.:/\[\]~%+-]+", re.ASCII)
#: Kinds of values that a metavar names -> what they begin with, or the shell's own kind.
_FOLDERS = ("inbox", "archive", "drafts", "sent", "spam", "trash")


def answer(instruction: str, root: Root, invocation: Invocation) -> int:
    """Do what the variable says: `bash_complete`, `bash_source`... Anything that goes wrong ends with 1, silently."""
    shell, _, wanted = instruction.partition("_")
    try:
        script = SCRIPTS[shell]
        completion = _Completion(root, invocation, is_bash=shell == "bash")
        invocation.terminal.write(script if wanted == "source" else completion.complete())
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - a complaint would stand amid somebody's line
        return 1
    return 0


class _Completion(ShellComplete):
    """One press of Tab."""

    def __init__(self, root: Root, invocation: Invocation, *, is_bash: bool) -> None:
        super().__init__(root, {"obj": invocation}, "mailbox-appliance", _VARIABLE)
        self._is_bash = is_bash
        self._given: Mapping[str, str] = invocation.terminal.environment

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words after the program's name, and the one at the cursor."""
        _, *words = split_arg_string(self._given["_MAILBOX_APPLIANCE_LINE"] + _CURSOR)
        *before, begun = words
        return before, begun.replace(_CURSOR, "")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """What may stand at the cursor, as the shell wants it."""
        if _REDIRECTION.match(incomplete) or (args and _REDIRECTION.fullmatch(args[-1])):
            return [CompletionItem(incomplete, type="file")]
        found = super().get_completions(_without_redirections(args), incomplete)
        option, equals, _ = incomplete.partition("=")
        whole = f"{option}=" if equals and option.startswith("-") else ""
        return [self._fit_item(item, whole, incomplete) for item in found]

    def _fit_item(self, item: CompletionItem, whole: str, begun: str) -> CompletionItem:
        """For zsh and fish the word as a whole; for bash what it takes for the word: after the last `=` or `:`."""
        value = f"{whole}{item.value}"
        if self._is_bash:
            breaks = set(self._given.get("_MAILBOX_APPLIANCE_BREAKS", ":=")) & set(":=")
            place = max((begun.rfind(one) for one in breaks), default=-1) + 1
            value = value[place:]
        return CompletionItem(value, type=item.type, help=item.help)

    def format_completion(self, item: CompletionItem) -> str:
        """One line of the answer."""
        return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"

    def complete(self) -> str:
        """The whole answer."""
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


def named(metavar: str, begun: str) -> list[CompletionItem]:
    """What a value of this metavar can be, as far as it is known here."""
    kinds = metavar.strip("[].").split("|")
    if any(kind == "FILE" or kind.endswith("-FILE") for kind in kinds):
        return [CompletionItem(begun, type="file")]
    if "DIR" in kinds:
        return [CompletionItem(begun, type="dir")]
    words = _FOLDERS if "ROLE" in kinds else ()
    return [CompletionItem(word) for word in words if word.startswith(begun)]


def instances(context: click.Context, begun: str) -> list[CompletionItem]:
    """The names of the appliances that this user logged in to; none where they cannot be read."""
    invocation = context.find_object(Invocation)
    known = [] if invocation is None else [one.name for one in invocation.instances().list()]
    return [CompletionItem(one) for one in ("local", *known) if one.startswith(begun) and _HARMLESS.fullmatch(one)]


def hidden_options(command: click.Command, begun: str) -> list[CompletionItem]:
    """The options that every command takes, and that only the help of the whole program lists."""
    return [
        CompletionItem(name, help=one.help)
        for one in command.params
        if isinstance(one, click.Option) and one.hidden and begun and not begun[0].isalnum()
        for name in one.opts
        if name.startswith(begun)
    ]
