"""Who is asking, how the appliance is, and where the caller, or with `--member` somebody else, is logged in."""

from contextlib import suppress
from typing import Any

import click

from mailbox_appliance.cli import render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.members import resolve_member
from mailbox_appliance.cli.rows import Call, Given, Row, execute, filled
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.client.errors import Failure, wrong_usage

ABOUT = Row("about", Call("GET", "/"), "Show what answers there, and its version; no log-in is needed.")
WHOAMI = Row("whoami", Call("GET", "/me"), "Show who is logged in, and what they may do.")
STATUS = Row(
    "status",
    Call("GET", "/status"),
    "Show how the appliance and its mailboxes are.\n\nA crash of the appliance is shown to administrators once: on a "
    "terminal, this command also dismisses it.",
)
DISMISS = Call("POST", "/admin/crashes/{trace}/dismiss")
HISTORY = Row(
    "history",
    Call("GET", "/status/history"),
    "Show how much was sent and how much came, over the last hours.\n\nOf the mailboxes that you reach. Steps are 5 "
    "minutes (up to 6 hours), an hour (up to 48), or 6 hours.",
    (click.Option(["--hours"], type=click.IntRange(1, 168), help="How far back (default 24)."),),
)
OPENAPI = Row("openapi", Call("GET", "/openapi.json"), "Print the description of the API (OpenAPI 3.1).")

_MEMBER = click.Option(["--member", "member_id"], metavar="ID|EMAIL", help="Of this member; for administrators.")
_SESSION = click.Argument(["session_id"], required=False)
_COLUMNS = ("id", "deviceName", "createdAt", "lastUsedAt", "expiresAt", "current")
_OF = "/admin/members/{memberId}/sessions"
LIST = Row("list", Call("GET", "/me/sessions"), "List where you are logged in.", (_MEMBER,), _COLUMNS)
LIST_OF = Row("list", Call("GET", _OF), "", columns=_COLUMNS)
SHOW_OF = Row(
    "show",
    Call("GET", f"{_OF}/{{sessionId}}"),
    "Show a log-in of a member; for administrators. Your own are in `sessions list`.",
    (
        click.Argument(["session_id"]),
        click.Option(["--member", "member_id"], required=True, metavar="ID|EMAIL", help="Whose log-in it is."),
    ),
)
REVOKE = Row(
    "revoke",
    Call("DELETE", "/me/sessions/{sessionId}"),
    "End a log-in; ending the current one is a logout.\n\nWith --member and no session: all of the member's.",
    (_SESSION, _MEMBER),
)
REVOKE_OF = Row("revoke", Call("DELETE", f"{_OF}/{{sessionId}}"), "")


def _all_ended(data: Any) -> str:
    return f"All sessions of the member {render.one_line(str(data['id']))} have ended.\n"


REVOKE_ALL_OF = Row("revoke", Call("DELETE", _OF), "", view=_all_ended)


def _about(invocation: Invocation) -> int:
    from mailbox_appliance.client.http import ApiClient

    instance = invocation.resolve_instance()
    return execute(ABOUT, invocation, {}, ApiClient(instance.url, fingerprint=instance.fingerprint))


def _status(invocation: Invocation) -> int:
    from mailbox_appliance.client.http import ApiRequest

    client = invocation.client()
    answer = client.call(ApiRequest(STATUS.call.method, STATUS.call.path))
    show.show(invocation, answer)
    trace = render.look_up(answer, "data.lastCrash.file")
    # A script that polls is nobody who has read it.
    if trace is not None and invocation.terminal.stdout.isatty():
        with suppress(Failure):  # it is shown again
            client.call(ApiRequest(DISMISS.method, filled(DISMISS.path, {"trace": str(trace)}), body={}))
    return 0


def _show(invocation: Invocation, **given: Any) -> int:
    return execute(SHOW_OF, invocation, _named(invocation, given))


def _list(invocation: Invocation, **given: Any) -> int:
    return execute(LIST if given["member_id"] is None else LIST_OF, invocation, _named(invocation, given))


def _revoke(invocation: Invocation, **given: Any) -> int:
    if given["session_id"] is None and given["member_id"] is None:
        raise wrong_usage("Say which session; `sessions list` shows them.", "argument:SESSION-ID")
    others = REVOKE_OF if given["session_id"] is not None else REVOKE_ALL_OF
    return execute(REVOKE if given["member_id"] is None else others, invocation, _named(invocation, given))


def _named(invocation: Invocation, given: Given) -> Given:
    """What is given, with the member's id for an email."""
    wanted = given["member_id"]
    return given if wanted is None else given | {"member_id": resolve_member(invocation.client(), wanted)}


about = command(ABOUT.name, _about, ABOUT.help)
whoami, openapi = WHOAMI.command(), OPENAPI.command()
status = command(STATUS.name, _status, STATUS.help)
history = HISTORY.command()
sessions = group(
    "sessions",
    "Log-ins of yours, or of a member's.",
    [
        command("list", _list, LIST.help, LIST.parameters),
        command("show", _show, SHOW_OF.help, SHOW_OF.parameters),
        command("revoke", _revoke, REVOKE.help, REVOKE.parameters),
    ],
)
