"""The commands `backup`: create, list, verify, download and restore backups.

Most can ask a running appliance or, if none is running, work on the files of the data directory.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import context, output
from mailbox_appliance.cli.command_table import (
    ALL_PAGES,
    DEFAULT_ALL,
    Call,
    Row,
    execute,
    fill_path,
    show_store_progress,
)
from mailbox_appliance.cli.commands.emails import SAVE_OPTIONS
from mailbox_appliance.cli.context import (
    LONG_WORK_SECONDS,
    Invocation,
    TellProgress,
    names_other_appliance,
    operator_client,
)
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.client.errors import INPUT, INTERNAL, INTERRUPTED, NETWORK, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient
from mailbox_appliance.system import files

# --- Backups: their IDs, files and contents ---


_LONGEST_SHOWN = 200
_FOLDER = "backups"
_BACKUP_ID = re.compile(r"bak_[0-9a-z]+")


def _is_backup_id(name: str) -> bool:
    """Whether the text is the ID of a backup in the data directory (`bak_1`) rather than a file name (`./bak_1`)."""
    return _BACKUP_ID.fullmatch(name) is not None


def _find_backup_file(invocation: Invocation, name: str) -> Path:
    """Return the path of a backup file. `name`: a path, or the bare name of a file in `backups/`."""
    file = Path(name).expanduser().absolute()
    among_them = invocation.data_directory() / _FOLDER / name
    if Path(name).name == name and not os.path.lexists(file) and os.path.lexists(among_them):
        file = among_them
    shown = output.one_line(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}...")
    try:
        os.close(files.open_regular(file))
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "`backup list` shows the IDs of backups, which start with bak_, and their file names."
        raise Failure("invalid_request", f"No file {shown} exists. {hint}", INPUT) from error
    except OSError as error:
        if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - never raise
            raise Failure("not_a_backup", f"{shown} is not a backup: it is not a regular file.", INPUT) from error
        raise Failure("invalid_request", f"{shown} cannot be read: {error.strerror}.", INPUT) from error
    return file


def _summary_sentence(answer: Any) -> str:
    told = answer["data"]
    if not told["ok"]:
        return "The files match the backup, but they are not a usable store.\n"
    nouns = {"member": "members", "account": "mailboxes", "message": "messages"}
    counts = ", ".join(_count_text(told[f"{noun}s"], noun, plural) for noun, plural in nouns.items())
    return f"The backup is intact and holds {counts}.\n"


def _count_text(count: int, noun: str, plural: str) -> str:
    one = "mailbox" if noun == "account" else noun
    return f"{count:,} {one if count == 1 else plural}"


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
    if not _is_backup_id(backup):
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
    known = frozenset() if dry_run else _find_known_rows(client, backup)

    def opening(passphrase: str | None, _: TellProgress) -> Any:
        body = {"backupId": backup, "dryRun": dry_run} | ({} if passphrase is None else {"passphrase": passphrase})
        with show_store_progress(invocation, client, "Reading the backup…"):
            return START_RESTORE.ask(client, body, timeout=LONG_WORK_SECONDS)

    answer = context.call_with_passphrase(invocation, opening, from_stdin=passphrase_stdin)
    outcome = "nothing" if dry_run else _wait_for_outcome(invocation, client, backup, known)
    return output.show_answer(
        invocation, answer, remark=lambda answer: _summary_sentence(answer) + _OUTCOME_TEXTS[outcome]
    )


_OUTCOME_TEXTS = {
    "nothing": "Nothing was changed.\n",
    "success": "The backup is restored, and the appliance is running again.\n",
    "unknown": "The appliance is restarting on the backup and has not reported the result yet: see `audit list`.\n",
}


def _find_known_rows(client: ApiClient, backup: str) -> frozenset[str]:
    try:
        return frozenset(_restore_rows(client, backup))
    except Failure as failure:
        # A caller who may not read the audit log may not restore either, and the restore request reports that.
        if failure.code != "permission_denied":
            raise
        return frozenset()


def _restore_rows(client: ApiClient, backup: str) -> dict[str, str]:
    answer = LIST_AUDIT_EVENTS.ask(client, query=(("limit", "100"),))
    about = (one for one in output.items_of(answer) or () if output.look_up(one, "target.id") == backup)
    return {one["id"]: one["outcome"] for one in about if one["action"] == "backup.restore"}


def _wait_for_outcome(invocation: Invocation, client: ApiClient, backup: str, known: frozenset[str]) -> str:
    with invocation.terminal.waiting("The appliance is restarting…"):
        outcome = _poll_outcome(client, backup, known)
    if outcome == "failure":
        why = "The restore failed. The store was not changed. For the reason, run `logs` on the appliance's computer."
        raise Failure("internal_error", why, INTERNAL)
    return outcome


def _poll_outcome(client: ApiClient, backup: str, known: frozenset[str]) -> str:
    began = silent_since = time.monotonic()
    while time.monotonic() - silent_since < _PATIENCE and time.monotonic() - began < LONG_WORK_SECONDS:
        time.sleep(_EVERY)
        try:
            new = [outcome for row, outcome in _restore_rows(client, backup).items() if row not in known]
        except Failure as failure:
            if failure.exit_code != NETWORK or failure.code not in _RESTARTING_CODES:
                return "unknown"  # the caller may not be an administrator in the restored store
            if failure.code != "appliance_unreachable":
                silent_since = time.monotonic()  # the server itself asks to wait
            continue
        if new:
            return new[0]
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
    named = backup if _is_backup_id(backup) else _find_backup_file(invocation, backup)
    folder = invocation.data_directory()
    if to is None and names_other_appliance(invocation):
        message = (
            "The appliance in use is not the one on this computer. Restore it with --online, or restore the files in"
            f" {folder} with --instance local."
        )
        raise wrong_usage(message, "option:--online")
    service = invocation.service("restore_on_files" if to is None else "unpack_backup")
    unasked: list[str] = []

    def opening(passphrase: str | None, tell: TellProgress) -> Any:
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
    return output.show_answer(invocation, answer, remark=_result_remark(to, dry_run))


def _ask_to_give_up(invocation: Invocation, unasked: list[str]) -> Callable[[str], bool]:
    """Return a function that asks whether to discard a store; without a terminal it fills `unasked` instead."""

    def ask(why: str) -> bool:
        if not invocation.terminal.stdin.isatty():
            unasked.append(why)
            return False
        invocation.terminal.progress("")
        invocation.terminal.write_error(why)
        return invocation.terminal.confirm("Discard this store and restore the backup in its place?")

    return ask


def _result_remark(to: str | None, dry_run: bool) -> output.Remark:
    done = f"The backup is unpacked in {to}.\n" if to is not None else "The backup is restored.\n"
    if dry_run:
        done = (
            "Nothing was changed.\n" if to is None else f"The backup would be unpacked in {to}. Nothing was changed.\n"
        )
    return lambda answer: _summary_sentence(answer) + done


restore = command(
    "restore",
    _restore,
    "Restore a backup.\n\nThe current store is kept as a `pre-restore` backup. What happened since the backup is"
    " carried over: mail is not resent, and revoked credentials stay revoked. If the current store is missing,"
    " cannot be opened or is not a later state of the backup, all sessions end, scheduled messages are held, and you"
    " must review keys and members.\n\nStop the appliance first. With"
    " --online an administrator restores a running appliance, here or remote, and it restarts by itself. With --to the"
    " backup is unpacked into an empty directory instead; a backup of an older release is unpacked byte for byte.",
    (
        click.Argument(["backup"], metavar="ID|FILE"),
        option("--to", "DIR", "Directory to unpack to; it must be empty or not exist yet."),
        flag("--online", "Restore the running appliance. Administrators only."),
        flag("--dry-run", "Show the contents and what would happen to sends; change nothing."),
        flag("--yes", "Confirm --online, or discarding a store whose key is missing. Required without a terminal."),
        context.PASSPHRASE_STDIN,
    ),
)


# --- `backup create`, `list`, `verify` and `download` ---


_BACKUP_COLUMNS = ("id", "createdAt", "reason", "format", "sizeBytes", "passphraseProtected", "fileName")
CREATE_BACKUP = Call("POST", "/admin/backups")
DOWNLOAD_BACKUP = Call("GET", "/admin/backups/{backupId}")
VERIFY_BACKUP = Call("POST", "/admin/backups/{backupId}/verify")
LIST_BACKUPS = Row("list", Call("GET", "/admin/backups"), "List backups, newest first.", ALL_PAGES, _BACKUP_COLUMNS)
_WITH_PASSPHRASE = flag("--with-passphrase", "Prompt for a passphrase; only this passphrase opens the backup.")
_ID = click.Argument(["backup_id"], metavar="ID")
_ID_OR_FILE = click.Argument(["backup"], metavar="ID|FILE")


def _create_backup(invocation: Invocation, with_passphrase: bool, passphrase_stdin: bool) -> int:
    # A passphrase in the environment alone is not used, since it may be that of the store's key.
    is_asked = with_passphrase or passphrase_stdin
    passphrase = context.read_new_passphrase(invocation, from_stdin=passphrase_stdin) if is_asked else None
    client = operator_client(invocation)
    if client is not None:
        answer = _call_appliance(invocation, client, CREATE_BACKUP, passphrase, "Creating a backup…")
    else:
        folder, call = invocation.data_directory(), invocation.service("call_on_files")
        answer = context.call_with_passphrase(
            invocation, lambda of_store, tell: call(folder, "create_backup", {"passphrase": passphrase}, of_store, tell)
        )
    return output.show_answer(invocation, answer)


def _list_backups(invocation: Invocation, **given: Any) -> int:
    client = operator_client(invocation)
    if client is not None:
        return execute(LIST_BACKUPS, invocation, given, client)
    find = invocation.service("list_backups_on_files")
    # Unlike a page of the API, this one has no upper limit.
    whole = given.get("max_results") or (DEFAULT_ALL if given.get("all_pages") else None)
    limit = int(whole or given.get("limit") or 50)
    answer = find(invocation.data_directory(), limit=limit, cursor=given.get("cursor"))
    return output.show_answer(invocation, answer, LIST_BACKUPS.columns)


def _verify_backup(invocation: Invocation, backup: str, passphrase_stdin: bool) -> int:
    if not _is_backup_id(backup):
        # Only the file is used: neither a running appliance nor a store is necessary.
        opening = _verify_files(invocation, "verify_backup_file", _find_backup_file(invocation, backup))
    elif (client := operator_client(invocation)) is None:
        opening = _verify_files(invocation, "verify_backup_on_files", invocation.data_directory(), backup)
    else:
        asked = client

        def opening(passphrase: str | None, _: TellProgress) -> Any:
            return _call_appliance(invocation, asked, VERIFY_BACKUP, passphrase, "Reading the backup…", backupId=backup)

    answer = context.call_with_passphrase(invocation, opening, from_stdin=passphrase_stdin)
    return output.show_answer(invocation, answer, remark=_summary_sentence)


def _verify_files(invocation: Invocation, service: str, *what: Any) -> Callable[[str | None, TellProgress], Any]:
    verify = invocation.service(service)
    return lambda passphrase, tell: verify(*what, passphrase, progress=tell)


def _download_backup(invocation: Invocation, backup_id: str, output: str | None, force: bool) -> int:
    from mailbox_appliance.cli.files import save_download

    path = fill_path(DOWNLOAD_BACKUP.path, {"backupId": backup_id})
    return save_download(invocation, invocation.client(), path, output, force=force, otherwise=backup_id)


def _call_appliance(
    invocation: Invocation, client: ApiClient, call: Call, passphrase: str | None, waiting_for: str, **values: Any
) -> Any:
    body = {} if passphrase is None else {"passphrase": passphrase}
    with show_store_progress(invocation, client, waiting_for):
        return call.ask(client, body, timeout=LONG_WORK_SECONDS, **values)


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
