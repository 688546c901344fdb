"""Passphrases of backups and of the store's key: from the input, the environment, or typed. Never an argument."""

from collections.abc import Callable
from typing import TypeVar

import click

from mailbox_appliance.cli.invocation import ENVIRONMENT, Invocation
from mailbox_appliance.cli.terminal import as_utf_8

T = TypeVar("T")

NAME = "PASSPHRASE"
PASSPHRASE_STDIN = click.Option(
    ["--passphrase-stdin"], is_flag=True, help="Read the passphrase from the first line of stdin."
)
#: What is told where a passphrase is missing, or is not the one.
_WANTING = frozenset({"backup_wrong_passphrase", "passphrase_needed"})


def given(invocation: Invocation, *, from_stdin: bool) -> str | None:
    """The passphrase that comes with the command: from the input where that is asked for, else the environment's."""
    if from_stdin:
        return invocation.terminal.secret_line("passphrase")
    found = invocation.variable(NAME)
    return found if found is None else as_utf_8(found, ENVIRONMENT + NAME)


def chosen(invocation: Invocation, *, from_stdin: bool) -> str:
    """A new passphrase; typed twice where it does not come with the command."""
    return invocation.terminal.secret(
        "New passphrase", ENVIRONMENT + NAME, from_stdin=from_stdin, twice=True, what="passphrase"
    )


def opened(invocation: Invocation, opening: Callable[[str | None], T], *, from_stdin: bool) -> T:
    """What `opening` gives with the passphrase that comes with the command, or with none.

    Where one is wanting, and somebody sits at a terminal, they are asked, and it is tried once more.
    """
    passphrase = given(invocation, from_stdin=from_stdin)
    try:
        return opening(passphrase)
    except Exception as problem:
        is_missing = passphrase is None and getattr(problem, "code", None) in _WANTING
        if not is_missing or not invocation.terminal.stdin.isatty():
            raise
    return opening(invocation.terminal.secret("Passphrase", ENVIRONMENT + NAME, from_stdin=False, what="passphrase"))
