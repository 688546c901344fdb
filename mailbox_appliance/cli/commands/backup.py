"""Backups: through the appliance that runs on the data directory, without any log-in; on its files where none runs."""

from collections.abc import Callable
from typing import Any

import click

from mailbox_appliance.cli import backups, passphrases, render, show
from mailbox_appliance.cli.commands.attachments import SAVE_OPTIONS
from mailbox_appliance.cli.commands.restore import restore
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.operator import LONG, operator_client
from mailbox_appliance.cli.rows import ALL, ALL_PAGES, Call, Given, Row, execute, filled
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.cli.watching import watched
from mailbox_appliance.client.http import ApiClient, ApiRequest

Tell = Callable[[str, int, int], None]

_COLUMNS = ("id", "createdAt", "reason", "format", "sizeBytes", "passphraseProtected", "fileName")
CREATE = Call("POST", "/admin/backups")
DOWNLOAD = Call("GET", "/admin/backups/{backupId}")
VERIFY = Call("POST", "/admin/backups/{backupId}/verify")
LIST = Row("list", Call("GET", "/admin/backups"), "List the backups, the newest first.", ALL_PAGES, _COLUMNS)
_ASKS = click.Option(["--with-passphrase"], is_flag=True, help="Ask for a passphrase: it opens with that alone.")
_ID = click.Argument(["backup_id"], metavar="ID")
_NAMED = click.Argument(["backup"], metavar="ID|FILE")


def _create(invocation: Invocation, with_passphrase: bool, passphrase_stdin: bool) -> int:
    passphrase = _chosen(invocation, asks=with_passphrase, from_stdin=passphrase_stdin)
    client = operator_client(invocation)
    if client is not None:
        answer = _asked(invocation, client, CREATE.method, CREATE.path, passphrase, "Making a backup…")
    else:
        folder, create = invocation.data_directory(), invocation.service("create_backup_on_files")

        def opening(of_store: str | None) -> Any:
            with invocation.terminal.progress_bar() as tell:
                return create(folder, passphrase, of_store=of_store, progress=tell)

        answer = passphrases.opened(invocation, opening, from_stdin=False)
    show.show(invocation, answer)
    return 0


def _chosen(invocation: Invocation, *, asks: bool, from_stdin: bool) -> str | None:
    """The passphrase of a new backup, where one is asked for: that of the environment may be the key's alone."""
    return passphrases.chosen(invocation, from_stdin=from_stdin) if asks or from_stdin else None


def _list(invocation: Invocation, **given: Any) -> int:
    client = operator_client(invocation)
    if client is not None:
        return execute(LIST, invocation, given, client)
    find = invocation.service("list_backups_on_files")
    answer = find(invocation.data_directory(), limit=_most(given), cursor=given.get("cursor"))
    show.show(invocation, answer, LIST.columns, LIST.view, LIST.remark)
    return 0


def _most(given: Given) -> int:
    """How many are wanted: where no appliance is asked there is no page that could not hold them."""
    whole = given.get("max_results") or (ALL if given.get("all_pages") else None)
    return int(whole or given.get("limit") or 50)


def _verify(invocation: Invocation, backup: str, passphrase_stdin: bool) -> int:
    opening = _of_id(invocation, backup) if backups.is_id(backup) else _of_file(invocation, backup)
    answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    show.show(invocation, answer, (), render.record, backups.contents)
    return 0


def _of_id(invocation: Invocation, backup: str) -> Callable[[str | None], Any]:
    """How a backup of the data directory is verified with a passphrase."""
    client = operator_client(invocation)
    if client is None:
        return _on_files(invocation, "verify_backup_on_files", invocation.data_directory(), backup)
    asked, path = client, filled(VERIFY.path, {"backupId": backup})
    return lambda passphrase: _asked(invocation, asked, VERIFY.method, path, passphrase, "Reading all of it…")


def _of_file(invocation: Invocation, name: str) -> Callable[[str | None], Any]:
    """The same of a file, wherever it lies: no appliance is asked, and no store is looked at."""
    return _on_files(invocation, "verify_backup_file", backups.file_of(invocation, name))


def _on_files(invocation: Invocation, service: str, *what: Any) -> Callable[[str | None], Any]:
    verify = invocation.service(service)

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            return verify(*what, passphrase, progress=tell)

    return opening


def _download(invocation: Invocation, backup_id: str, output: str | None, force: bool) -> int:
    """Not as the operator, who has the file: what a backup holds leaves the computer with an administrator."""
    from mailbox_appliance.cli import downloads

    path = filled(DOWNLOAD.path, {"backupId": backup_id})
    return downloads.save(invocation, invocation.client(), path, output, force=force, otherwise=backup_id)


def _asked(
    invocation: Invocation, client: ApiClient, method: str, path: str, passphrase: str | None, waiting_for: str
) -> Any:
    body = {} if passphrase is None else {"passphrase": passphrase}
    with watched(invocation, client, waiting_for):
        return client.call(ApiRequest(method, path, body=body, timeout=LONG))


backup = group(
    "backup",
    "Backups of everything: the store, its key, the configuration.\n\nThey are made while the appliance runs, or"
    " where none does. No log-in is needed by who may read the data directory.",
    [
        command(
            "create",
            _create,
            "Make a backup in `backups/`, read it back, and say what it needs to be opened.\n\nWithout a passphrase it"
            " opens with the store's own key, which travels in it as the store keeps it. MAILBOX_APPLIANCE_PASSPHRASE"
            " is that of the store's key; with --with-passphrase it is the backup's too.",
            (_ASKS, passphrases.PASSPHRASE_STDIN),
        ),
        command("list", _list, LIST.help, LIST.parameters),
        command(
            "verify",
            _verify,
            "Read all of a backup, check the database in it, and tell what it holds.\n\nA FILE may lie anywhere, and"
            " needs no appliance; its name alone is enough for one in `backups/`.",
            (_NAMED, passphrases.PASSPHRASE_STDIN),
        ),
        command(
            "download",
            _download,
            "Save the file of a backup, to keep it elsewhere; for administrators.\n\nWhat opens without a passphrase"
            " is not given out: make one with --with-passphrase.",
            (_ID, *SAVE_OPTIONS),
        ),
        restore,
    ],
)
