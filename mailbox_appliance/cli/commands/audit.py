"""The audit log: read through the running appliance; checked through it, or on the files when none runs."""

from typing import Any

import click

from mailbox_appliance.cli import passphrases, render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.members import resolve_member
from mailbox_appliance.cli.operator import names_another
from mailbox_appliance.cli.rows import ALL_PAGES, Call, Row, execute
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INTERNAL, wrong_usage

_COLUMNS = ("at", "actor.kind", "actor.memberId", "action", "target.kind", "target.id", "outcome", "clientAddress")


def _verdict(answer: Any) -> str:
    broken = answer["data"]["firstBroken"]
    if broken is None:
        return f"All {answer['data']['count']:,} rows are as they were written.\n"
    row = f"Row {broken['number']}" + (f" ({broken['id']})" if broken["id"] else "")
    return f"{row} of the audit log is not as it was written: {broken['reason']}.\n"


def _exit_code(answer: Any) -> int:
    return 0 if answer["data"]["ok"] else INTERNAL


LIST = Row(
    "list",
    Call("GET", "/admin/audit-events"),
    "List what was done, the newest first.",
    (
        click.Option(["--mine"], is_flag=True, help="What concerns you; everybody may ask for that."),
        click.Option(["--member", "member_id"], metavar="ID|EMAIL", help="What this member did, or was done to them."),
        click.Option(["--action"], metavar="NAME", help="An action, or all of its kind: session, session.create."),
        click.Option(["--outcome"], type=click.Choice(("success", "failure", "denied")), help="Only what ended so."),
        *ALL_PAGES,
    ),
    _COLUMNS,
)
LIST_MINE = Row("list", Call("GET", "/me/audit-events"), "", columns=_COLUMNS)
VERIFY = Row(
    "verify",
    Call("GET", "/admin/audit-events/verify"),
    "Look whether any row was changed, dropped, added or moved.\n\nThe first such row is named, and the exit code is 1."
    " Where no appliance runs, the files of the data directory are looked at.",
    remark=_verdict,
    exit_code=_exit_code,
    timeout=600.0,
    waiting_for="Looking at every row…",
)


def _list(invocation: Invocation, mine: bool, **given: Any) -> int:
    filters = [name for name in ("member_id", "action", "outcome") if given[name] is not None]
    if mine and filters:
        raise wrong_usage("--mine goes with no filter.", f"option:--{filters[0].removesuffix('_id')}")
    if given["member_id"] is not None:
        given["member_id"] = resolve_member(invocation.client(), given["member_id"])
    return execute(LIST_MINE if mine else LIST, invocation, given)


def _verify(invocation: Invocation) -> int:
    if _is_running(invocation):
        return execute(VERIFY, invocation, {})
    folder, verify = invocation.data_directory(), invocation.service("verify_audit_on_files")
    answer = passphrases.opened(invocation, lambda passphrase: verify(folder, passphrase), from_stdin=False)
    show.show(invocation, answer, (), render.record, _verdict)
    return _exit_code(answer)


def _is_running(invocation: Invocation) -> bool:
    """Whether there is an appliance to ask: another one than that of the data directory, or that one while it runs."""
    return names_another(invocation) or local.find_running(invocation.data_directory()) is not None


audit = group(
    "audit",
    "The audit log.",
    [command("list", _list, LIST.help, LIST.parameters), command("verify", _verify, VERIFY.help)],
)
