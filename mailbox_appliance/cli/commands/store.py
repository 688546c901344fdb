"""The store as a whole: through the appliance that runs on the data directory, without a log-in; else on its files."""

from typing import Any

import click

from mailbox_appliance.cli import passphrases, render, show
from mailbox_appliance.cli.commands.migrate import migrate
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.operator import LONG, operator_client
from mailbox_appliance.cli.rows import Call, Row, execute
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.cli.watching import watched
from mailbox_appliance.client.errors import INTERNAL
from mailbox_appliance.client.http import ApiRequest

STATUS = Row("status", Call("GET", "/admin/store"), "Show how the store is: format, size, room, key, newest backup.")
CHECK = Call("POST", "/admin/store/check")
_FULL = click.Option(["--full"], is_flag=True, help="Also indexes, counts, the search index and the audit log.")
_STOPPED = "The appliance must not be running."


def _status(invocation: Invocation) -> int:
    client = operator_client(invocation)
    if client is not None:
        return execute(STATUS, invocation, {}, client)
    show.show(invocation, invocation.service("store_status_on_files")(invocation.data_directory()))
    return 0


def _check(invocation: Invocation, full: bool, passphrase_stdin: bool) -> int:
    client = operator_client(invocation)
    if client is not None:
        with watched(invocation, client, "Looking through the store…"):
            answer = client.call(ApiRequest(CHECK.method, CHECK.path, body={"full": full}, timeout=LONG))
    else:
        folder, check = invocation.data_directory(), invocation.service("check_store_on_files")

        def opening(passphrase: str | None) -> Any:
            with invocation.terminal.progress_bar() as tell:
                return check(folder, full=full, passphrase=passphrase, progress=tell)

        answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    show.show(invocation, answer, (), render.record, _verdict)
    return 0 if answer["data"]["ok"] else INTERNAL


def _verdict(answer: Any) -> str:
    found = answer["data"]
    if found["ok"]:
        return f"Nothing is wrong with it. Looked at: {', '.join(found['checked'])}.\n"
    lines = "".join(f"{render.one_line(problem['message'])}\n" for problem in found["problems"])
    return f"{lines}Keep the files as they are, and restore a backup: `mailbox-appliance backup list`.\n"


def _compact(invocation: Invocation, passphrase_stdin: bool) -> int:
    show.show(invocation, _renewed(invocation, "compact_store", passphrase_stdin))
    return 0


def _rekey(invocation: Invocation, passphrase_stdin: bool) -> int:
    show.show(invocation, _renewed(invocation, "rekey_store", passphrase_stdin))
    return 0


def _renewed(invocation: Invocation, service: str, from_stdin: bool) -> Any:
    folder, act = invocation.data_directory(), invocation.service(service)

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            return act(folder, passphrase, tell)

    return passphrases.opened(invocation, opening, from_stdin=from_stdin)


store = group(
    "store",
    "The store as a whole.\n\nNo log-in is needed by who may read the data directory.",
    [
        command("status", _status, f"{STATUS.help}\n\nNothing is opened or changed."),
        command(
            "check",
            _check,
            "Look whether the store is whole.\n\nEvery page and row is read, and nothing is changed. Where something is"
            " wrong it is named, and the exit code is 1.",
            (_FULL, passphrases.PASSPHRASE_STDIN),
        ),
        command(
            "compact",
            _compact,
            "Write the store anew, without the room that was left by what is deleted.\n\nThat takes as much room as the"
            f" store has. {_STOPPED}",
            (passphrases.PASSPHRASE_STDIN,),
        ),
        migrate,
        command(
            "rekey",
            _rekey,
            "Give the store a new key, and write it anew under that.\n\nWhat opened it before opens it afterwards: the"
            " file, the keychain, the passphrase, which is asked for. Backups made before keep the old key."
            f" {_STOPPED}",
            (passphrases.PASSPHRASE_STDIN,),
        ),
    ],
)
