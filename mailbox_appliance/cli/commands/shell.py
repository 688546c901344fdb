"""What a shell and `man` are given: a completion script, and the manual page."""

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command


def _completion(invocation: Invocation, shell: str) -> int:
    from mailbox_appliance.cli.completion_scripts import SCRIPTS

    invocation.terminal.write(SCRIPTS[shell])
    return 0


def _man(invocation: Invocation) -> int:
    from mailbox_appliance.cli.man import page
    from mailbox_appliance.cli.tree import Root

    root = click.get_current_context().find_root().command
    assert isinstance(root, Root)  # noqa: S101 - `man` is in no other tree
    invocation.terminal.write(page(root))
    return 0


_SHELL = click.Argument(["shell"], metavar="bash|zsh|fish", type=click.Choice(("bash", "zsh", "fish")))
completion = command(
    "completion",
    _completion,
    """Print what makes bash, zsh or fish complete these commands.

Try it in the shell that you are in:

\b
  bash  eval "$(mailbox-appliance completion bash)"
  zsh   eval "$(mailbox-appliance completion zsh)"
  fish  mailbox-appliance completion fish | source

To keep it, write it to the file that its first lines name. The program must be found as mailbox-appliance.""",
    [_SHELL],
)
man = command(
    "man",
    _man,
    """Print the manual page, as roff.

To read it: mailbox-appliance man | man -l -""",
)
