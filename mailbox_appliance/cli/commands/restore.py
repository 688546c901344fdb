"""`backup restore`: works on the files, so the appliance of the data directory must not run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import backups, passphrases, render, show
from mailbox_appliance.cli.failures import wrong_usage
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command


def _restore(
    invocation: Invocation, backup: str, to: str | None, dry_run: bool, yes: bool, passphrase_stdin: bool
) -> int:
    if to is not None and dry_run:
        raise wrong_usage("--dry-run tells what a restore would do here; with --to nothing here changes.")
    named, folder = _named(backup), invocation.data_directory()
    name = "restore_on_files" if to is None else "unpack_backup"
    service = invocation.service(name)

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.bar() as tell:
            if to is not None:
                return service(folder, named, Path(to).expanduser().absolute(), passphrase, progress=tell)
            give_up = None if yes or not invocation.terminal.stdin.isatty() else _asking(invocation)
            return service(folder, named, passphrase, dry_run=dry_run, progress=tell, give_up=give_up)

    answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    show.show(invocation, answer, (), render.record, _said(to, dry_run))
    return 0


def _asking(invocation: Invocation) -> Callable[[str], bool]:
    """How somebody at a terminal is asked whether a store is to be given up whose key is missing."""

    def ask(why: str) -> bool:
        invocation.terminal.progress("")
        invocation.terminal.complain(why)
        return invocation.terminal.agrees("Give this store up, and restore the backup in its place?")

    return ask


def _said(to: str | None, dry_run: bool) -> show.Remark:
    """What stands below the answer in a table."""
    done = f"It is unpacked in {to}.\n" if to is not None else "It is restored.\n"
    return lambda answer: backups.contents(answer) + ("Nothing was changed.\n" if dry_run else done)


def _named(backup: str) -> str | Path:
    return backup if backups.is_id(backup) else backups.file_of(backup)


restore = command(
    "restore",
    _restore,
    "Put a backup in the place of the store; what is replaced is kept as a backup of its own.\n\nNothing is sent again"
    " and nothing revoked lives again: what happened since the backup is carried over. The appliance must be stopped;"
    " one that runs is restored by its administrators. With --to the backup is unpacked into an empty directory"
    " instead, one of an older release byte for byte.",
    (
        click.Argument(["backup"], metavar="ID|FILE"),
        click.Option(["--to"], metavar="DIR", help="Unpack it there: a directory that is empty, or not there yet."),
        click.Option(["--dry-run"], is_flag=True, help="Only tell what is in it, and what would become of sends."),
        click.Option(
            ["--yes"], is_flag=True, help="Do not ask whether a store may be replaced of which only the key is missing."
        ),
        passphrases.PASSPHRASE_STDIN,
    ),
)
