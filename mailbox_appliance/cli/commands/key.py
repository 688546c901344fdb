"""The key of the store and what opens it: shown and changed on the files of the data directory while nothing runs."""

from collections.abc import Callable
from typing import Any

import click

from mailbox_appliance.cli import render, show
from mailbox_appliance.cli.invocation import ENVIRONMENT, Invocation
from mailbox_appliance.cli.passphrases import PASSPHRASE_STDIN, opened
from mailbox_appliance.cli.tree import command, group

_NEW = ENVIRONMENT + "NEW_PASSPHRASE"
_NEW_STDIN = click.Option(
    ["--passphrase-stdin"], is_flag=True, help="Read the new passphrase from the first line of stdin."
)
_ONLY = click.Option(["--only"], is_flag=True, help="Let nothing else open it: take the key out of file and keychain.")
_STOPPED = "The appliance must not be running."
_FROM_NOW_ON = (
    "From now on the store opens by this passphrase alone, and without it nobody opens it. Every start needs it:"
    " `serve` takes it from the systemd credential `passphrase`, MAILBOX_APPLIANCE_PASSPHRASE, --passphrase-stdin or a"
    " prompt. Backups and copies of the key file that were made before open without it; `mailbox-appliance store rekey`"
    " gives the store a key that is not in them."
)


def _remark(answer: Any) -> str:
    slots = {slot["type"] for slot in answer["data"]["slots"]}
    if "file" in slots:
        return "Whoever has this file can open the store. Keep a copy of it apart from the store.\n"
    if answer["data"].get("recoveryPassphrase"):
        return "Write the recovery passphrase down: it opens the store without the keychain, and is not shown again.\n"
    return ""


def _show(invocation: Invocation) -> int:
    return _tell(invocation, invocation.service("show_key")(invocation.data_directory()))


def _add_passphrase(invocation: Invocation, passphrase_stdin: bool, only: bool) -> int:
    new = invocation.terminal.secret("New passphrase", _NEW, from_stdin=passphrase_stdin, twice=True, what="passphrase")
    folder, add = invocation.data_directory(), invocation.service("add_passphrase")
    answer = opened(invocation, lambda passphrase: add(folder, new, passphrase, only=only), from_stdin=False)
    return _tell(invocation, answer, (_FROM_NOW_ON,) if only else ())


def _through(service: str) -> Callable[..., int]:
    def change(invocation: Invocation, passphrase_stdin: bool) -> int:
        folder, act = invocation.data_directory(), invocation.service(service)
        answer = opened(invocation, lambda passphrase: act(folder, passphrase), from_stdin=passphrase_stdin)
        return _tell(invocation, answer)

    return change


def _tell(invocation: Invocation, answer: Any, warnings: tuple[str, ...] = ()) -> int:
    if told := (*answer.get("warnings", ()), *warnings):
        answer = {**answer, "warnings": list(told)}
    show.show(invocation, answer, (), render.record, _remark)
    return 0


key = group(
    "key",
    "The key of the store, and what opens it.",
    [
        command("show", _show, f"Show what opens the store, and where the key lies.\n\n{_STOPPED}"),
        command(
            "add-passphrase",
            _add_passphrase,
            "Let a passphrase open the store as well, in place of an earlier one.\n\n"
            f"It is asked for, or read from stdin or {_NEW}. Backups then hold the key locked by it, and no longer in "
            "plain. With --only the store itself opens by it alone, so every start needs it; `key use-file` is the way "
            f"back. {_STOPPED}",
            (_NEW_STDIN, _ONLY),
        ),
        command(
            "use-keyring",
            _through("use_keyring"),
            "Lock the key by the keychain of this computer, and take it out of the file.\n\nWhere there is no "
            f"passphrase yet, a recovery passphrase is made and shown this once. {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
        command(
            "use-file",
            _through("use_file"),
            "Keep the key in the file itself, instead of the keychain.\n\nA server starts with it unattended; whoever "
            f"has the file can open the store. {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
    ],
)
