"""`backup restore`: on files, so that the appliance of the data directory must not run; or asked of one that runs.

It never guesses which store it replaces (`docs/decisions/035-commands-never-guess.md`). With `--online` it waits for a
new row in the audit log, which reports both how the restore ended and that it is over.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import backups, passphrases, render, show
from mailbox_appliance.cli.commands import online_restore
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.operator import names_another
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import INTERNAL, Failure, wrong_usage


def _restore(
    invocation: Invocation,
    backup: str,
    to: str | None,
    online: bool,
    dry_run: bool,
    yes: bool,
    passphrase_stdin: bool,
) -> int:
    if to is not None and online:
        raise wrong_usage("--to unpacks a backup that lies here; it does not go with --online.", "option:--online")
    if online:
        return online_restore.restore(invocation, backup, dry_run=dry_run, yes=yes, passphrase_stdin=passphrase_stdin)
    named, folder = _named(invocation, backup), invocation.data_directory()
    if to is None and names_another(invocation):
        raise _elsewhere(folder)
    name = "restore_on_files" if to is None else "unpack_backup"
    service = invocation.service(name)
    unasked: list[str] = []

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            if to is not None:
                there = Path(to).expanduser().absolute()
                return service(folder, named, there, passphrase, dry_run=dry_run, progress=tell)
            give_up = None if yes else _asking(invocation, unasked)
            return service(folder, named, passphrase, dry_run=dry_run, progress=tell, give_up=give_up)

    try:
        answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    except Exception as problem:
        if unasked:
            why = f"{unasked[0]} Whether it may be given up cannot be asked here: if it may, say so with --yes."
            raise wrong_usage(why, "option:--yes") from problem
        if to is None and getattr(problem, "code", None) == "store_in_use":
            raise Failure(
                "store_in_use", f"{problem} Or restore it while it runs, with --online.", INTERNAL
            ) from problem
        raise
    show.show(invocation, answer, (), render.record, _said(to, dry_run))
    return 0


def _elsewhere(folder: Path) -> Failure:
    """Whoever speaks to another appliance does not mean the files here, which would be replaced."""
    message = (
        "You speak to another appliance than that of this computer. Restore it with --online, or say that you mean the"
        f" files in {folder} with --instance local."
    )
    return wrong_usage(message, "option:--online")


def _asking(invocation: Invocation, unasked: list[str]) -> Callable[[str], bool]:
    """How somebody at a terminal is asked whether a store is to be given up whose key is missing.

    Where there is no terminal it is not given up, and why that is asked goes to `unasked`.
    """

    def ask(why: str) -> bool:
        if not invocation.terminal.stdin.isatty():
            unasked.append(why)
            return False
        invocation.terminal.progress("")
        invocation.terminal.write_error(why)
        return invocation.terminal.confirm("Give this store up, and restore the backup in its place?")

    return ask


def _said(to: str | None, dry_run: bool) -> show.Remark:
    """What stands below the answer in a table."""
    done = f"It is unpacked in {to}.\n" if to is not None else "It is restored.\n"
    if dry_run:
        done = "Nothing was changed.\n" if to is None else f"It would be unpacked in {to}. Nothing was changed.\n"
    return lambda answer: backups.contents(answer) + done


def _named(invocation: Invocation, backup: str) -> str | Path:
    return backup if backups.is_id(backup) else backups.file_of(invocation, backup)


restore = command(
    "restore",
    _restore,
    "Put a backup in the place of the store; what is replaced is kept as a backup of its own.\n\nNothing is sent again"
    " and nothing revoked lives again: what happened since the backup is carried over. The appliance must be stopped;"
    " one that runs, here or elsewhere, is restored by its administrators with --online, and starts again by itself."
    " With --to the backup is unpacked into an empty directory instead, one of an older release byte for byte.",
    (
        click.Argument(["backup"], metavar="ID|FILE"),
        click.Option(["--to"], metavar="DIR", help="Unpack it there: a directory that is empty, or not there yet."),
        click.Option(["--online"], is_flag=True, help="Ask the appliance that runs, logged in as an administrator."),
        click.Option(["--dry-run"], is_flag=True, help="Only tell what is in it, and what would become of sends."),
        click.Option(
            ["--yes"],
            is_flag=True,
            help="Ask no questions: of a store whose key is missing, or with --online. Needed without a terminal.",
        ),
        passphrases.PASSPHRASE_STDIN,
    ),
)
