"""What can be done to many messages at once. They are commands of `emails`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.message_ids import Chosen, chosen
from mailbox_appliance.cli.rows import ACCOUNT, Call, Given, filled, resolve_account, wanted_mailbox
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import UNCERTAIN, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient, ApiRequest

#: The most that one request is about.
AT_ONCE = 100
#: What becomes of messages, in an answer.
_OUTCOMES = ("succeededIds", "failed", "uncertainIds")
MESSAGES = click.Argument(["message_ids"], metavar="MESSAGE-ID...", nargs=-1)
INPUT = click.Option(
    ["--input", "input_"],
    metavar="FILE|-",
    help="The messages, from a file or stdin: an id a line, or what `emails list` or `search` wrote.",
)
_MORE = (
    "\n\nThe answer says of each message what became of it. Exit code 3: something failed or is uncertain. Of more than"
    f" {AT_ONCE} messages, {AT_ONCE} at a time are asked for."
)
_Body = Callable[[Given], dict[str, Any]]


def actions_exit(answer: Any) -> int:
    """3 where anything failed or is uncertain."""
    parts = (render.look_up(answer, f"data.{name}") for name in ("failed", "uncertainIds"))
    return UNCERTAIN if any(parts) else 0


def _simple(action: str) -> _Body:
    return lambda _given: {"action": action}


def _move(given: Given) -> dict[str, Any]:
    return {"action": "move", "folder": given["folder"]}


def _label(given: Given) -> dict[str, Any]:
    if bool(given["add"]) == bool(given["remove"]):
        raise wrong_usage("Give either --add or --remove, each as often as needed.", "option:--add")
    action, labels = ("addLabels", given["add"]) if given["add"] else ("removeLabels", given["remove"])
    return {"action": action, "labels": list(labels)}


ACTIONS = Call("POST", "/accounts/{accountId}/messages/actions")
_ALL = (
    ("read", "Mark messages as read.", _simple("markRead"), ()),
    ("unread", "Mark messages as unread.", _simple("markUnread"), ()),
    ("star", "Star messages.", _simple("star"), ()),
    ("unstar", "Take the star from messages.", _simple("unstar"), ()),
    ("archive", "Move messages to the archive.", _simple("archive"), ()),
    ("trash", "Move messages to the trash.", _simple("trash"), ()),
    ("untrash", "Take messages out of the trash again.", _simple("untrash"), ()),
    ("delete", "Delete messages for good.", _simple("delete"), ()),
    (
        "move",
        "Move messages to another folder.",
        _move,
        (click.Option(["--folder"], required=True, metavar="ID|ROLE|NAME", help="Where they go."),),
    ),
    (
        "label",
        "Add labels to messages, or remove some.",
        _label,
        (
            click.Option(["--add"], multiple=True, metavar="LABEL", help="A label to add (repeatable)."),
            click.Option(["--remove"], multiple=True, metavar="LABEL", help="A label to remove (repeatable)."),
        ),
    ),
)


def _command(name: str, text: str, body: _Body, options: tuple[click.Parameter, ...]) -> click.Command:
    def act(invocation: Invocation, message_ids: tuple[str, ...], input_: str | None, **given: Any) -> int:
        asked = body(given)  # what is wrong with the options is told before anything is read
        return _perform(invocation, asked, chosen(invocation.terminal, message_ids, input_), given)

    return command(name, act, text + _MORE, (MESSAGES, *options, INPUT, ACCOUNT))


def _perform(invocation: Invocation, body: dict[str, Any], messages: list[Chosen], given: Given) -> int:
    if not messages:
        show.show(invocation, {"data": {"action": body["action"], **{name: [] for name in _OUTCOMES}}})
        return 0
    client = invocation.client()
    done: list[Any] = []
    requests = _requests(body, _by_mailbox(client, messages, wanted_mailbox(given)))
    try:
        for count, request in enumerate(requests):
            text = f"{count * AT_ONCE} of {len(messages)} so far…" if len(requests) > 1 else "Asking the mail server…"
            with invocation.terminal.waiting(text):
                done.append(client.call(request))
    finally:
        # Where one of several requests fails, what was done before it is told all the same.
        if done:
            show.show(invocation, gathered(done))
    return actions_exit(gathered(done))


def _by_mailbox(client: "ApiClient", messages: list[Chosen], wanted: str | None) -> dict[str, list[str]]:
    """Mailbox -> ids of its messages: the mailbox that is named, else what the list says of each message.

    Raises Failure where the list says that a message is in another one than the one that is named.
    """
    silent = any(one.account_id is None for one in messages)
    named = resolve_account(client, wanted) if silent or wanted is not None else None
    found: dict[str, list[str]] = {}
    for one in messages:
        if wanted is not None and one.account_id not in (None, named):
            text = f"{one.message_id} is in mailbox {one.account_id}, not in {wanted}. Nothing was done."
            raise wrong_usage(f"{text} Without --account each message is taken where it is.", "option:--account")
        found.setdefault(str(one.account_id or named), []).append(one.message_id)
    return found


def _requests(body: dict[str, Any], mailboxes: dict[str, list[str]]) -> "list[ApiRequest]":
    from mailbox_appliance.client.http import ApiRequest

    return [
        ApiRequest(
            ACTIONS.method,
            filled(ACTIONS.path, {"accountId": account_id}),
            body=body | {"messageIds": ids[begin : begin + AT_ONCE]},
            timeout=180.0,
        )
        for account_id, ids in mailboxes.items()
        for begin in range(0, len(ids), AT_ONCE)
    ]


def gathered(answers: list[Any]) -> Any:
    """Several answers as one: what became of each message, and every warning once."""
    parts = [answer["data"] for answer in answers]
    told: dict[str, Any] = {"data": {name: _together(name, parts) for name in parts[0]}}
    warnings = [one for answer in answers for one in answer.get("warnings", ())]
    return told | ({"warnings": list(dict.fromkeys(warnings))} if warnings else {})


def _together(name: str, parts: list[Any]) -> Any:
    first = parts[0][name]
    return [one for part in parts for one in part.get(name, ())] if isinstance(first, list) else first


COMMANDS = tuple(_command(*one) for one in _ALL)
