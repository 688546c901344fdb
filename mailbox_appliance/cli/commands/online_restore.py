"""`backup restore --online`: an appliance is restored while it runs, by one of its administrators.

The appliance answers 202 once the backup is verified and unpacked, then starts again by itself on what was restored.
Its audit log says how that went: there, a row of the restore that was not there before is waited for.
"""

import time
from dataclasses import dataclass
from typing import Any

from mailbox_appliance.cli import backups, passphrases, render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.operator import LONG
from mailbox_appliance.cli.rows import Call
from mailbox_appliance.cli.watching import watched
from mailbox_appliance.client.errors import INTERNAL, INTERRUPTED, NETWORK, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient, ApiRequest

RESTORE, EVENTS = Call("POST", "/admin/restore"), Call("GET", "/admin/audit-events")
#: Seconds between two looks, and how long nothing may listen there, or the log say nothing, before it is given up.
_EVERY, _PATIENCE = 0.5, 60.0
_AWAY = ("appliance_unreachable", "provider_unavailable", "too_many_attempts")


def restore(invocation: Invocation, backup: str, *, dry_run: bool, yes: bool, passphrase_stdin: bool) -> int:
    """Ask for the restore, and wait until the appliance is back. Raises Failure where it says that it went wrong."""
    if not backups.is_id(backup):
        raise wrong_usage("With --online the backup is one of the appliance's: give its id, as `backup list` has it.")
    client = invocation.client()
    terminal = invocation.terminal
    if not dry_run and not yes:
        question = f"Put {backup} in the place of what {client.address.url} holds now?"
        if not terminal.stdin.isatty():
            raise wrong_usage(f"{question} That cannot be asked here: if so, say it with --yes.", "option:--yes")
        if not terminal.confirm(question):
            raise Failure("interrupted", "Nothing was restored.", INTERRUPTED)
    log = None if dry_run else _Log(client, backup, _known(client, backup))

    def opening(passphrase: str | None) -> Any:
        body = {"backupId": backup, "dryRun": dry_run} | ({} if passphrase is None else {"passphrase": passphrase})
        with watched(invocation, client, "Reading all of it…"):
            return client.call(ApiRequest(RESTORE.method, RESTORE.path, body=body, timeout=LONG))

    answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    outcome = _waited(invocation, log) if log is not None else "nothing"
    show.show(invocation, answer, (), render.record, lambda answer: backups.contents(answer) + _SAID[outcome])
    return 0


_SAID = {
    "nothing": "Nothing was changed.\n",
    "success": "It is restored, and the appliance answers again.\n",
    "unknown": "The appliance starts again on it, and has not said yet how that went: see `audit list`.\n",
}


@dataclass(frozen=True)
class _Log:
    """The audit log of an appliance, and the rows about restores of this backup that were in it before."""

    client: ApiClient
    backup: str
    known: frozenset[str]


def _known(client: ApiClient, backup: str) -> frozenset[str]:
    """The rows that are there before. Who may not read the log may not restore either, and is told that."""
    try:
        return frozenset(_rows(client, backup))
    except Failure as failure:
        if failure.code != "permission_denied":
            raise
        return frozenset()


def _rows(client: ApiClient, backup: str) -> dict[str, str]:
    """The newest rows about restores of this backup: id -> outcome."""
    answer = client.call(ApiRequest(EVENTS.method, EVENTS.path, (("limit", "100"),)))
    about = (one for one in show.items_of(answer) or () if render.look_up(one, "target.id") == backup)
    return {one["id"]: one["outcome"] for one in about if one["action"] == "backup.restore"}


def _waited(invocation: Invocation, log: _Log) -> str:
    """How it went. Raises Failure where it failed: then everything is as it was before."""
    with invocation.terminal.waiting("It starts again on what was restored…"):
        outcome = _outcome(log)
    if outcome == "failure":
        why = "The restore failed, and the store is as it was before. The appliance's log says why: `logs` there."
        raise Failure("internal_error", why, INTERNAL)
    return outcome


def _outcome(log: _Log) -> str:
    began = silent_since = time.monotonic()
    while time.monotonic() - silent_since < _PATIENCE and time.monotonic() - began < LONG:
        time.sleep(_EVERY)
        try:
            new = {row: outcome for row, outcome in _rows(log.client, log.backup).items() if row not in log.known}
        except Failure as failure:
            if failure.exit_code != NETWORK or failure.code not in _AWAY:
                return "unknown"  # who restored it may be no administrator in it
            if failure.code != "appliance_unreachable":
                silent_since = time.monotonic()  # it says itself that it takes its time
            continue
        if new:
            return next(iter(new.values()))
    return "unknown"
