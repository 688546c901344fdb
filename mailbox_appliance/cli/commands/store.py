"""The commands `store` and `key`: check and maintain the store, and manage the ways to unlock its key.

If an appliance is running, some of them send requests to it, and the others fail. If none is running, all work on the
files of the data directory.
"""

from collections.abc import Callable
from typing import Any

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import Call, Row, execute, show_store_progress
from mailbox_appliance.cli.context import (
    ENVIRONMENT_PREFIX,
    LONG_WORK_SECONDS,
    PASSPHRASE_STDIN,
    Invocation,
    call_with_passphrase,
    operator_client,
)
from mailbox_appliance.cli.groups import command, flag, group
from mailbox_appliance.client.errors import INTERNAL

# --- `store migrate`: the upgrade of a store of an older release, which `serve` also does ---


_DRY_RUN = flag("--dry-run", "Show what would be done; change nothing.")


def _migrate(invocation: Invocation, dry_run: bool, passphrase_stdin: bool) -> int:
    folder, act = invocation.data_directory(), invocation.service("survey_store" if dry_run else "upgrade_store")

    answer = call_with_passphrase(
        invocation, lambda passphrase, tell: act(folder, passphrase, tell), from_stdin=passphrase_stdin
    )
    output.show_answer(invocation, answer, remark=_plan_remark if dry_run else _migrated_remark)
    return 0 if answer["data"].get("ready", True) else INTERNAL


def _migrated_remark(answer: Any) -> str:
    told = answer["data"]
    if told["upgradedFrom"] is None:
        return f"The store already has the current format {told['format']}. Nothing was changed.\n"
    return (
        f"The store was upgraded from format {told['upgradedFrom']} to {told['format']}. The previous store is kept in"
        f" backups/{told['backup']}.\n"
    )


def _plan_remark(answer: Any) -> str:
    told = answer["data"]
    if told["format"] == told["upgradesTo"]:
        return f"The store already has the current format {told['format']}. No upgrade is needed.\n"
    if told["problems"]:
        return "The upgrade would be refused because of these problems. Nothing was changed.\n"
    return f"The store would be upgraded from format {told['format']} to {told['upgradesTo']}.\n"


migrate = command(
    "migrate",
    _migrate,
    "Upgrade the store of an older release.\n\nThe previous store is kept as a migration backup. `serve` does the same"
    " when it starts. Stop the appliance first.",
    (_DRY_RUN, PASSPHRASE_STDIN),
)


# --- `store status`, `check`, `compact` and `rekey` ---


STORE_STATUS = Row(
    "status", Call("GET", "/admin/store"), "Show the store's format, size, disk space, key and newest backup."
)
CHECK_STORE = Call("POST", "/admin/store/check")
_FULL = flag("--full", "Also check indexes, counts, the search index and the audit log.")
_STOPPED = "Stop the appliance first."


def _show_store(invocation: Invocation) -> int:
    client = operator_client(invocation)
    if client is not None:
        return execute(STORE_STATUS, invocation, {}, client)
    return output.show_answer(invocation, invocation.service("store_status_on_files")(invocation.data_directory()))


def _check_store(invocation: Invocation, full: bool, passphrase_stdin: bool) -> int:
    client = operator_client(invocation)
    if client is not None:
        with show_store_progress(invocation, client, "Checking the store…"):
            answer = CHECK_STORE.ask(client, {"full": full}, timeout=LONG_WORK_SECONDS)
    else:
        folder, check = invocation.data_directory(), invocation.service("check_store_on_files")
        answer = call_with_passphrase(
            invocation,
            lambda passphrase, tell: check(folder, full=full, passphrase=passphrase, progress=tell),
            from_stdin=passphrase_stdin,
        )
    output.show_answer(invocation, answer, remark=_check_verdict)
    return 0 if answer["data"]["ok"] else INTERNAL


def _check_verdict(answer: Any) -> str:
    found = answer["data"]
    if found["ok"]:
        return f"The store is intact. Checked: {', '.join(found['checked'])}.\n"
    lines = "".join(f"{output.one_line(problem['message'])}\n" for problem in found["problems"])
    return f"{lines}Leave the files unchanged and restore a backup: `mailbox-appliance backup list`.\n"


def _rewrite_store(service: str) -> Callable[..., int]:
    def rewrite(invocation: Invocation, passphrase_stdin: bool) -> int:
        folder, act = invocation.data_directory(), invocation.service(service)
        answer = call_with_passphrase(
            invocation, lambda passphrase, tell: act(folder, passphrase, tell), from_stdin=passphrase_stdin
        )
        return output.show_answer(invocation, answer)

    return rewrite


store = group(
    "store",
    "Manage the store: status, check, compact, migrate, rekey.\n\nThe store is the encrypted database. Users who can"
    " read the data directory need no sign-in.",
    [
        command("status", _show_store, f"{STORE_STATUS.help}\n\nThe store is neither opened nor changed."),
        command(
            "check",
            _check_store,
            "Check the integrity of the store.\n\nReads every page and row and changes nothing. If problems are found,"
            " they are listed and the exit code is 1.",
            (_FULL, PASSPHRASE_STDIN),
        ),
        command(
            "compact",
            _rewrite_store("compact_store"),
            "Rewrite the store to reclaim disk space.\n\nThis needs as much free disk space as the store takes."
            f" {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
        migrate,
        command(
            "rekey",
            _rewrite_store("rekey_store"),
            "Rewrite the store with a new encryption key.\n\nThe key file, keychain or passphrase that opened the store"
            " still opens it; a passphrase is prompted for. Earlier backups keep the old key."
            f" {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
    ],
)


# --- `key`: the slots of the store's key, shown and changed on the files while no appliance is running ---


_NEW_PASSPHRASE_VARIABLE = ENVIRONMENT_PREFIX + "NEW_PASSPHRASE"
_NEW_PASSPHRASE_STDIN = flag("--passphrase-stdin", "Read the new passphrase from the first line of stdin.")
_ONLY = flag("--only", "Remove the key from the file and the keychain, so that only the passphrase opens it.")
_FROM_NOW_ON = (
    "From now on only this passphrase opens the store. If it is lost, the store cannot be opened. Every start needs it:"
    " `serve` reads it from the systemd credential `passphrase`, MAILBOX_APPLIANCE_PASSPHRASE, --passphrase-stdin or a"
    " prompt. Earlier backups and copies of the key file still open without it; to change that, give the store a new"
    " key with `mailbox-appliance store rekey`."
)


def _key_remark(answer: Any) -> str:
    slots = {slot["type"] for slot in answer["data"]["slots"]}
    if "file" in slots:
        return "Anyone who has this key file can open the store. Keep a copy of it apart from the store.\n"
    if answer["data"].get("recoveryPassphrase"):
        return "Write down the recovery passphrase. It opens the store without the keychain and is not shown again.\n"
    return ""


def _add_passphrase(invocation: Invocation, passphrase_stdin: bool, only: bool) -> int:
    new = invocation.terminal.secret(
        "New passphrase", _NEW_PASSPHRASE_VARIABLE, from_stdin=passphrase_stdin, twice=True, what="passphrase"
    )
    folder, add = invocation.data_directory(), invocation.service("add_passphrase")
    answer = call_with_passphrase(invocation, lambda passphrase, _: add(folder, new, passphrase, only=only))
    return _show_key_answer(invocation, answer, (_FROM_NOW_ON,) if only else ())


def _use_key_service(service: str) -> Callable[..., int]:
    def change(invocation: Invocation, passphrase_stdin: bool) -> int:
        folder, act = invocation.data_directory(), invocation.service(service)
        answer = call_with_passphrase(
            invocation, lambda passphrase, _: act(folder, passphrase), from_stdin=passphrase_stdin
        )
        return _show_key_answer(invocation, answer)

    return change


def _show_key_answer(invocation: Invocation, answer: Any, warnings: tuple[str, ...] = ()) -> int:
    if told := (*answer.get("warnings", ()), *warnings):
        answer = {**answer, "warnings": list(told)}
    return output.show_answer(invocation, answer, remark=_key_remark)


key = group(
    "key",
    "Manage the encryption key of the store.",
    [
        command(
            "show",
            lambda invocation: _show_key_answer(
                invocation, invocation.service("show_key")(invocation.data_directory())
            ),
            f"Show the store's key slots and where its key is stored.\n\n{_STOPPED}",
        ),
        command(
            "add-passphrase",
            _add_passphrase,
            "Add a passphrase that opens the store.\n\n"
            f"It replaces an earlier passphrase and comes from a prompt, stdin or {_NEW_PASSPHRASE_VARIABLE}. Backups"
            " made afterwards hold the key protected by the passphrase, no longer unencrypted. With --only nothing else"
            f" opens the store, so every start needs the passphrase; `key use-file` undoes that. {_STOPPED}",
            (_NEW_PASSPHRASE_STDIN, _ONLY),
        ),
        command(
            "use-keyring",
            _use_key_service("use_keyring"),
            "Protect the key with this computer's keychain.\n\nThe key is removed from the key file. If there is no"
            f" passphrase yet, a recovery passphrase is created and shown once. {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
        command(
            "use-file",
            _use_key_service("use_file"),
            "Store the key in the key file instead of the keychain.\n\nA server can then start unattended, and anyone"
            f" who has the file can open the store. {_STOPPED}",
            (PASSPHRASE_STDIN,),
        ),
    ],
)
