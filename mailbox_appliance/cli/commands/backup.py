"""The commands `backup`: create, list, verify, download and restore backups.

Most can ask a running appliance or, if none is running, work on the files of the data directory.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import backup_ids, context, output
from mailbox_appliance.cli.command_table import (
    ALL_PAGES,
    DEFAULT_ALL,
    Call,
    Given,
    Row,
    execute,
    fill_path,
    show_store_progress,
)
from mailbox_appliance.cli.commands.emails import SAVE_OPTIONS
from mailbox_appliance.cli.context import LONG_WORK_SECONDS, Invocation, names_other_appliance, operator_client
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.client.errors import INTERNAL, INTERRUPTED, NETWORK, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient, ApiRequest

# --- `backup restore --online`: an administrator restores a running appliance ---
#
# The appliance responds 202 once the backup is verified and unpacked, then restarts on the restored store. A new row in
# its audit log reports the outcome and that the restore is finished.


START_RESTORE, LIST_AUDIT_EVENTS = Call("POST", "/admin/restore"), Call("GET", "/admin/audit-events")
#: Seconds between two polls, and the longest time without a listener or a new log row before the wait is given up.
_EVERY, _PATIENCE = 0.5, 60.0
_RESTARTING_CODES = ("appliance_unreachable", "provider_unavailable", "too_many_attempts")


def restore_online(invocation: Invocation, backup: str, *, dry_run: bool, yes: bool, passphrase_stdin: bool) -> int:
    """Request a restore from the running appliance and wait until it is available again; return the exit code.

    `yes`: do not ask for confirmation. Raises Failure if the restore fails.
    """
    if not backup_ids.is_backup_id(backup):
        raise wrong_usage("--online requires the ID of a backup of that appliance. `backup list` shows the IDs.")
    client = invocation.client()
    terminal = invocation.terminal
    if not dry_run and not yes:
        question = f"Restore {backup}, replacing the current store of {client.address.url}?"
        if not terminal.stdin.isatty():
            message = f"{backup} would replace the current store of {client.address.url}. Confirm with --yes."
            raise wrong_usage(message, "option:--yes")
        if not terminal.confirm(question):
            raise Failure("interrupted", "Nothing was restored.", INTERRUPTED)
    log = None if dry_run else _RestoreLog(client, backup, _find_known_rows(client, backup))

    def opening(passphrase: str | None) -> Any:
        body = {"backupId": backup, "dryRun": dry_run} | ({} if passphrase is None else {"passphrase": passphrase})
        with show_store_progress(invocation, client, "Reading the backup…"):
            return client.call(
                ApiRequest(START_RESTORE.method, START_RESTORE.path, body=body, timeout=LONG_WORK_SECONDS)
            )

    answer = context.call_with_passphrase(invocation, opening, from_stdin=passphrase_stdin)
    outcome = _wait_for_outcome(invocation, log) if log is not None else "nothing"
    output.show_answer(
        invocation,
        answer,
        (),
        output.render_record,
        lambda answer: backup_ids.summary_sentence(answer) + _OUTCOME_TEXTS[outcome],
    )
    return 0


_OUTCOME_TEXTS = {
    "nothing": "Nothing was changed.\n",
    "success": "The backup is restored, and the appliance is running again.\n",
    "unknown": "The appliance is restarting on the backup and has not reported the result yet: see `audit list`.\n",
}


@dataclass(frozen=True)
class _RestoreLog:
    """The data for finding the outcome of a restore in the audit log of an appliance.

    `backup`: the ID of the backup. `known`: the IDs of audit rows from before this restore, which do not count.
    """

    client: ApiClient
    backup: str
    known: frozenset[str]


def _find_known_rows(client: ApiClient, backup: str) -> frozenset[str]:
    """Return the IDs of the audit rows about earlier restores of a backup.

    The result is empty if the caller may not read the audit log. Such a caller may not restore either, so the restore
    request fails afterwards and reports that.
    """
    try:
        return frozenset(_restore_rows(client, backup))
    except Failure as failure:
        if failure.code != "permission_denied":
            raise
        return frozenset()


def _restore_rows(client: ApiClient, backup: str) -> dict[str, str]:
    """Return the outcomes of restores of this backup, by ID of the audit row. Only the newest 100 audit rows are
    searched.
    """
    answer = client.call(ApiRequest(LIST_AUDIT_EVENTS.method, LIST_AUDIT_EVENTS.path, (("limit", "100"),)))
    about = (one for one in output.items_of(answer) or () if output.look_up(one, "target.id") == backup)
    return {one["id"]: one["outcome"] for one in about if one["action"] == "backup.restore"}


def _wait_for_outcome(invocation: Invocation, log: _RestoreLog) -> str:
    """Wait until the audit log has the outcome of the restore, and return the outcome. Raises Failure if it is
    `failure`.
    """
    with invocation.terminal.waiting("The appliance is restarting…"):
        outcome = _poll_outcome(log)
    if outcome == "failure":
        why = "The restore failed. The store was not changed. For the reason, run `logs` on the appliance's computer."
        raise Failure("internal_error", why, INTERNAL)
    return outcome


def _poll_outcome(log: _RestoreLog) -> str:
    began = silent_since = time.monotonic()
    while time.monotonic() - silent_since < _PATIENCE and time.monotonic() - began < LONG_WORK_SECONDS:
        time.sleep(_EVERY)
        try:
            new = {
                row: outcome for row, outcome in _restore_rows(log.client, log.backup).items() if row not in log.known
            }
        except Failure as failure:
            if failure.exit_code != NETWORK or failure.code not in _RESTARTING_CODES:
                return "unknown"  # the caller may not be an administrator in the restored store
            if failure.code != "appliance_unreachable":
                silent_since = time.monotonic()  # the server itself asks to wait
            continue
        if new:
            return next(iter(new.values()))
    return "unknown"


# --- `backup restore`: on the files while no appliance is running, or by the running one ---
#
# It never guesses which store it replaces (`docs/decisions/035-commands-never-guess.md`).


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
        raise wrong_usage("--to unpacks a local backup and cannot be combined with --online.", "option:--online")
    if online:
        return restore_online(invocation, backup, dry_run=dry_run, yes=yes, passphrase_stdin=passphrase_stdin)
    named, folder = _resolve_backup(invocation, backup), invocation.data_directory()
    if to is None and names_other_appliance(invocation):
        raise _other_appliance_failure(folder)
    name = "restore_on_files" if to is None else "unpack_backup"
    service = invocation.service(name)
    unasked: list[str] = []

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            if to is not None:
                there = Path(to).expanduser().absolute()
                return service(folder, named, there, passphrase, dry_run=dry_run, progress=tell)
            give_up = None if yes else _ask_to_give_up(invocation, unasked)
            return service(folder, named, passphrase, dry_run=dry_run, progress=tell, give_up=give_up)

    try:
        answer = context.call_with_passphrase(invocation, opening, from_stdin=passphrase_stdin)
    except Exception as problem:
        if unasked:
            why = f"{unasked[0]} To discard this store, add --yes."
            raise wrong_usage(why, "option:--yes") from problem
        if to is None and getattr(problem, "code", None) == "store_in_use":
            raise Failure("store_in_use", f"{problem} Or restore while it runs, with --online.", INTERNAL) from problem
        raise
    output.show_answer(invocation, answer, (), output.render_record, _result_remark(to, dry_run))
    return 0


def _other_appliance_failure(folder: Path) -> Failure:
    """Return the error for a restore without --online that would replace the wrong files: those in the local data
    directory (`folder`), although the user's current appliance is another one.
    """
    message = (
        "The appliance in use is not the one on this computer. Restore it with --online, or restore the files in"
        f" {folder} with --instance local."
    )
    return wrong_usage(message, "option:--online")


def _ask_to_give_up(invocation: Invocation, unasked: list[str]) -> Callable[[str], bool]:
    """Return a function that asks at a terminal whether to discard a store that cannot be opened, and returns the
    answer.

    Without a terminal the function returns False and appends the text of the question to `unasked`.
    """

    def ask(why: str) -> bool:
        if not invocation.terminal.stdin.isatty():
            unasked.append(why)
            return False
        invocation.terminal.progress("")
        invocation.terminal.write_error(why)
        return invocation.terminal.confirm("Discard this store and restore the backup in its place?")

    return ask


def _result_remark(to: str | None, dry_run: bool) -> output.Remark:
    """Return a function that makes the text below a restore result: a summary of the backup, and the result.

    `to`: the directory of an unpacked backup; None for a restore.
    """
    done = f"The backup is unpacked in {to}.\n" if to is not None else "The backup is restored.\n"
    if dry_run:
        done = (
            "Nothing was changed.\n" if to is None else f"The backup would be unpacked in {to}. Nothing was changed.\n"
        )
    return lambda answer: backup_ids.summary_sentence(answer) + done


def _resolve_backup(invocation: Invocation, backup: str) -> str | Path:
    return backup if backup_ids.is_backup_id(backup) else backup_ids.resolve_backup_file(invocation, backup)


restore = command(
    "restore",
    _restore,
    "Restore a backup.\n\nThe current store is kept as a `pre-restore` backup. What happened since the backup is"
    " carried over: mail is not resent, and revoked credentials stay revoked. If the current store is missing or cannot"
    " be opened, scheduled messages are held, and you must review keys and members.\n\nStop the appliance first. With"
    " --online an administrator restores a running appliance, here or remote, and it restarts by itself. With --to the"
    " backup is unpacked into an empty directory instead; a backup of an older release is unpacked byte for byte.",
    (
        click.Argument(["backup"], metavar="ID|FILE"),
        click.Option(["--to"], metavar="DIR", help="Directory to unpack to; it must be empty or not exist yet."),
        click.Option(["--online"], is_flag=True, help="Restore the running appliance. Administrators only."),
        click.Option(
            ["--dry-run"], is_flag=True, help="Show the contents and what would happen to sends; change nothing."
        ),
        click.Option(
            ["--yes"],
            is_flag=True,
            help="Confirm --online, or discarding a store whose key is missing. Required without a terminal.",
        ),
        context.PASSPHRASE_STDIN,
    ),
)


# --- `backup create`, `list`, `verify` and `download` ---


Tell = Callable[[str, int, int], None]

_BACKUP_COLUMNS = ("id", "createdAt", "reason", "format", "sizeBytes", "passphraseProtected", "fileName")
CREATE_BACKUP = Call("POST", "/admin/backups")
DOWNLOAD_BACKUP = Call("GET", "/admin/backups/{backupId}")
VERIFY_BACKUP = Call("POST", "/admin/backups/{backupId}/verify")
LIST_BACKUPS = Row("list", Call("GET", "/admin/backups"), "List backups, newest first.", ALL_PAGES, _BACKUP_COLUMNS)
_WITH_PASSPHRASE = click.Option(
    ["--with-passphrase"], is_flag=True, help="Prompt for a passphrase; only this passphrase opens the backup."
)
_ID = click.Argument(["backup_id"], metavar="ID")
_ID_OR_FILE = click.Argument(["backup"], metavar="ID|FILE")


def _create_backup(invocation: Invocation, with_passphrase: bool, passphrase_stdin: bool) -> int:
    passphrase = _backup_passphrase(invocation, asks=with_passphrase, from_stdin=passphrase_stdin)
    client = operator_client(invocation)
    if client is not None:
        answer = _call_appliance(
            invocation, client, CREATE_BACKUP.method, CREATE_BACKUP.path, passphrase, "Creating a backup…"
        )
    else:
        folder, create = invocation.data_directory(), invocation.service("create_backup_on_files")

        def opening(of_store: str | None) -> Any:
            with invocation.terminal.progress_bar() as tell:
                return create(folder, passphrase, of_store=of_store, progress=tell)

        answer = context.call_with_passphrase(invocation, opening, from_stdin=False)
    output.show_answer(invocation, answer)
    return 0


def _backup_passphrase(invocation: Invocation, *, asks: bool, from_stdin: bool) -> str | None:
    """Return the passphrase for a new backup; None if neither `asks` (--passphrase) nor `from_stdin` is set.

    A passphrase in the environment alone is not used, since it may be that of the store's key.
    """
    return context.read_new_passphrase(invocation, from_stdin=from_stdin) if asks or from_stdin else None


def _list_backups(invocation: Invocation, **given: Any) -> int:
    client = operator_client(invocation)
    if client is not None:
        return execute(LIST_BACKUPS, invocation, given, client)
    find = invocation.service("list_backups_on_files")
    answer = find(invocation.data_directory(), limit=_page_limit(given), cursor=given.get("cursor"))
    output.show_answer(invocation, answer, LIST_BACKUPS.columns, LIST_BACKUPS.view, LIST_BACKUPS.remark)
    return 0


def _page_limit(given: Given) -> int:
    """Return the number of backups to list at once, if the list is made from files. Unlike the API, it has no upper
    limit.
    """
    whole = given.get("max_results") or (DEFAULT_ALL if given.get("all_pages") else None)
    return int(whole or given.get("limit") or 50)


def _verify_backup(invocation: Invocation, backup: str, passphrase_stdin: bool) -> int:
    opening = _verify_by_id(invocation, backup) if backup_ids.is_backup_id(backup) else _verify_file(invocation, backup)
    answer = context.call_with_passphrase(invocation, opening, from_stdin=passphrase_stdin)
    output.show_answer(invocation, answer, (), output.render_record, backup_ids.summary_sentence)
    return 0


def _verify_by_id(invocation: Invocation, backup: str) -> Callable[[str | None], Any]:
    """Return a function that takes a passphrase or None and verifies this backup of the data directory."""
    client = operator_client(invocation)
    if client is None:
        return _with_files(invocation, "verify_backup_on_files", invocation.data_directory(), backup)
    asked, path = client, fill_path(VERIFY_BACKUP.path, {"backupId": backup})
    return lambda passphrase: _call_appliance(
        invocation, asked, VERIFY_BACKUP.method, path, passphrase, "Reading the backup…"
    )


def _verify_file(invocation: Invocation, name: str) -> Callable[[str | None], Any]:
    """Return a function that takes a passphrase or None and verifies a backup file. It uses only that file: no running
    appliance and no store is necessary.
    """
    return _with_files(invocation, "verify_backup_file", backup_ids.resolve_backup_file(invocation, name))


def _with_files(invocation: Invocation, service: str, *what: Any) -> Callable[[str | None], Any]:
    verify = invocation.service(service)

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            return verify(*what, passphrase, progress=tell)

    return opening


def _download_backup(invocation: Invocation, backup_id: str, output: str | None, force: bool) -> int:
    """Save a backup file and return the exit code. Uses the user's session, since only administrators can download
    backups.

    `output`: the target file or folder. `force`: replace an existing file.
    """
    from mailbox_appliance.cli import files

    path = fill_path(DOWNLOAD_BACKUP.path, {"backupId": backup_id})
    return files.save_download(invocation, invocation.client(), path, output, force=force, otherwise=backup_id)


def _call_appliance(
    invocation: Invocation, client: ApiClient, method: str, path: str, passphrase: str | None, waiting_for: str
) -> Any:
    body = {} if passphrase is None else {"passphrase": passphrase}
    with show_store_progress(invocation, client, waiting_for):
        return client.call(ApiRequest(method, path, body=body, timeout=LONG_WORK_SECONDS))


backup = group(
    "backup",
    "Manage backups: create, list, verify, download, restore.\n\nA backup holds the store, its key and the"
    " configuration. The appliance can be running or stopped. Users who can read the data directory need no sign-in.",
    [
        command(
            "create",
            _create_backup,
            "Create a backup in `backups/` and verify it.\n\nThe output shows what is needed to open it. Without a"
            " passphrase the backup opens with the store's key, which it contains as the store keeps it."
            " MAILBOX_APPLIANCE_PASSPHRASE is the passphrase of the store's key, and with --with-passphrase of the"
            " backup too.",
            (_WITH_PASSPHRASE, context.PASSPHRASE_STDIN),
        ),
        command("list", _list_backups, LIST_BACKUPS.help, LIST_BACKUPS.parameters),
        command(
            "verify",
            _verify_backup,
            "Verify a backup and show its contents.\n\nReads the whole backup and checks the database in it. A FILE can"
            " be anywhere and needs no appliance; for files in `backups/` the name is enough.",
            (_ID_OR_FILE, context.PASSPHRASE_STDIN),
        ),
        command(
            "download",
            _download_backup,
            "Download a backup.\n\nOnly backups that need a passphrase can be downloaded: create one with"
            " --with-passphrase. Administrators only.",
            (_ID, *SAVE_OPTIONS),
        ),
        restore,
    ],
)
