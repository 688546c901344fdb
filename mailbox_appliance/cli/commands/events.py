"""The commands `events` and `webhooks`: what has changed, now and as it happens, and where it is sent."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import PAGES, Call, Given, Row, resolve_account
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, read_file, require_options
from mailbox_appliance.client.errors import NETWORK, Failure, wrong_usage
from mailbox_appliance.system.files import replace_file

# --- Events ---


TYPES = (
    *("message.created", "message.updated", "message.moved", "message.deleted", "delivery.updated"),
    *("account.updated", "approval.created", "approval.decided", "backup.finished", "backup.failed"),
)
_WAIT, _FIRST_PAUSE, _LONGEST_PAUSE = 30, 1.0, 60.0
_LONGEST_POSITION = 200
_WHICH: tuple[click.Parameter, ...] = (
    option("--after", "POSITION", "Only events after this position; without it, only events from now on."),
    option("--types", "TYPES", f"Only these types, separated by commas: {', '.join(TYPES)}."),
    option("--account", "ID|EMAIL", "Only events of this mailbox."),
)
_STATE = option("--state", "FILE", "File that keeps the position; the next start continues from it.")


def _query(client: Any, given: Given) -> dict[str, str]:
    query = {name: given[name] for name in ("after", "types") if given[name] is not None}
    if given["account"] is not None:
        query["accountId"] = resolve_account(client, given["account"])
    return query


def _list(invocation: Invocation, **given: Any) -> int:
    client = invocation.client()
    query = _query(client, given) | {name: str(given[name]) for name in ("limit", "wait") if given[name] is not None}
    answer = Call("GET", "/events").ask(client, query=tuple(query.items()))
    output.show_answer(invocation, answer, ("at", "type", "accountId", "data.id", "position"), _render, _next)
    return 0


def _render(value: Any) -> str:
    return output.render_record(value)


def _next(answer: Any) -> str:
    told = "Events were lost. Read the lists again. " if answer["data"]["reset"] else ""
    return f"{told}Next: --after {answer['data']['nextPosition']}\n"


def _follow(invocation: Invocation, **given: Any) -> int:
    """Print events as they happen, one JSON object a line, until it is interrupted."""
    state = None if given["state"] is None else Path(given["state"])
    client = invocation.client()
    query = _query(client, given)
    if state is not None and (position := _read_state(state)) is not None:
        query["after"] = position
    pause = _FIRST_PAUSE
    try:
        while True:
            try:
                wait = {"wait": str(_WAIT)} if "after" in query else {}
                page = Call("GET", "/events").ask(client, query=tuple((query | wait).items()))["data"]
            except Failure as failure:
                if failure.exit_code != NETWORK:
                    raise
                invocation.terminal.write_error(f"{failure.message} Trying again in {pause:.0f} seconds.")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            _show(invocation, page)
            query["after"] = page["nextPosition"]
            if state is not None:
                _write_state(state, page["nextPosition"])
    except KeyboardInterrupt:
        return 0


def _show(invocation: Invocation, page: Mapping[str, Any]) -> None:
    if page["reset"]:
        invocation.terminal.write_error("Events were lost. Read the lists again; all later events follow.")
        lost = {"type": "reset", "nextPosition": page["nextPosition"]}
        invocation.terminal.write(output.json_text(lost) + "\n")
    for event in page["items"]:
        invocation.terminal.write(output.json_text(event) + "\n")


def _read_state(file: Path) -> str | None:
    if not file.exists():
        return None
    text = read_file(file, _LONGEST_POSITION).decode("ascii", "replace").strip()
    if not text:
        return None
    if not text.isprintable() or " " in text:
        raise wrong_usage(f"{file} does not contain a position. Delete it to start again.", "option:--state")
    return text


def _write_state(file: Path, position: str) -> None:
    written = file.with_name(file.name + ".new")
    try:
        written.write_text(position + "\n", encoding="ascii")
        replace_file(written, file)
    except OSError as error:
        raise wrong_usage(f"{file} cannot be saved: {error.strerror}.", "option:--state") from error


events = group(
    "events",
    "Manage events: list or follow changes.",
    [
        command(
            "list",
            _list,
            "List events.\n\nIn order. Without --after, the list is empty and shows the position to continue from.",
            (
                *_WHICH,
                PAGES[0],
                option("--wait", "SECONDS", "Wait so long for an event (up to 30).", type=click.IntRange(0, _WAIT)),
            ),
        ),
        command(
            "follow",
            _follow,
            "Print events as they happen, until you interrupt it.\n\nEach is a line of JSON. With --state, none is"
            " missing after a restart; the last ones may come again if it was killed.",
            (*_WHICH, _STATE),
        ),
    ],
)


# --- Webhooks ---


_ID = click.Argument(["webhook_id"])
_SETTINGS: tuple[click.Parameter, ...] = (
    option("--url", "URL", "Address to which events are posted, with https."),
    option(
        "--type", "TYPE", "Type of events to send (repeatable).", multiple=True, type=click.Choice(TYPES), name="types"
    ),
    option("--account", "ID|EMAIL", "Mailbox to limit it to (repeatable).", multiple=True, name="accounts"),
    click.Option(["--body/--no-body"], default=None, help="Whether events of messages include their text."),
)
_COLUMNS = ("id", "status", "url", "types", "lastSuccessAt", "lastFailure.reason")


def _body(invocation: Invocation, given: Given) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if given["url"] is not None:
        body["url"] = given["url"]
    if given["types"]:
        body["types"] = list(given["types"])
    if given["accounts"]:
        body["accountIds"] = [resolve_account(invocation.client(), one) for one in given["accounts"]]
    if given["body"] is not None:
        body["includeBody"] = given["body"]
    return body


def _new_body(invocation: Invocation, given: Given) -> Any:
    require_options(given, "url")
    if not given["types"]:
        raise wrong_usage("Missing types: add --type (repeatable).", "option:--type")
    return _body(invocation, given)


def _change_body(invocation: Invocation, given: Given) -> Any:
    body = _body(invocation, given)
    if given.get("all_accounts"):
        body["accountIds"] = None
    if given["enable"] is not None:
        body["status"] = "active" if given["enable"] else "disabled"
    if not body:
        raise wrong_usage("Nothing to change: add an option such as --enable.", "option:--enable")
    return body


def _replay_body(_: Invocation, given: Given) -> Any:
    require_options(given, "after")
    return {"after": given["after"]}


_LIST = Row("list", Call("GET", "/webhooks"), "List your webhooks.", columns=_COLUMNS)
_SHOW = Row("show", Call("GET", "/webhooks/{webhookId}"), "Show a webhook.", (_ID,))
_CREATE = Row(
    "create",
    Call("POST", "/webhooks"),
    "Create a webhook.\n\nEvents from now on are posted to its address. The secret by which receivers verify them is"
    " shown only once.",
    (*_SETTINGS, INPUT_OPTION),
    remark=lambda _: "This secret is shown only once. Save it now.\n",
    body=_new_body,
)
_UPDATE = Row(
    "update",
    Call("PATCH", "/webhooks/{webhookId}"),
    "Change a webhook.\n\nOptions that are not given change nothing. --enable continues where it stopped.",
    (
        _ID,
        *_SETTINGS,
        flag("--all-accounts", "Send the events of all mailboxes you have access to."),
        click.Option(["--enable/--disable"], default=None, help="Whether it sends events."),
        INPUT_OPTION,
    ),
    body=_change_body,
)
_DELETE = Row("delete", Call("DELETE", "/webhooks/{webhookId}"), "Delete a webhook.", (_ID,))
_ROTATE = Row(
    "rotate-secret",
    Call("POST", "/webhooks/{webhookId}/rotate-secret"),
    "Replace the secret of a webhook.\n\nFor 24 hours, events are signed with both.",
    (_ID,),
    remark=lambda _: "This secret is shown only once. Save it now.\n",
)
_TEST = Row(
    "test", Call("POST", "/webhooks/{webhookId}/test"), "Send an event `webhook.test`, and show the answer.", (_ID,)
)
_REPLAY = Row(
    "replay",
    Call("POST", "/webhooks/{webhookId}/replay"),
    "Send all events after a position again.",
    (_ID, option("--after", "POSITION", "Position of an event; later ones are sent.")),
    body=_replay_body,
)
_ATTEMPTS = Row(
    "attempts",
    Call("GET", "/webhooks/{webhookId}/attempts"),
    "List the attempts of a webhook.\n\nThe newest comes first.",
    (_ID, *PAGES),
    columns=("at", "status", "durationMs", "eventId", "error"),
)

webhooks = group(
    "webhooks",
    "Manage webhooks, to which events are sent.",
    [row.command() for row in (_LIST, _SHOW, _CREATE, _UPDATE, _DELETE, _ROTATE, _TEST, _REPLAY, _ATTEMPTS)],
)
