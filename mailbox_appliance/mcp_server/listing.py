"""Acts that list: mailboxes, folders, labels, messages, what waits to be sent, and how the appliance is."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailbox_appliance.errors import Detail
from mailbox_appliance.mcp_server import presenting
from mailbox_appliance.mcp_server.answers import plain, without_headers
from mailbox_appliance.mcp_server.arguments import ACCOUNT, Form, Given
from mailbox_appliance.mcp_server.tool import Asked, Shown
from mailbox_appliance.mcp_server.untrusted import MESSAGES, SCHEDULED
from mailbox_appliance.operations import accounts, messages, scheduled, status
from mailbox_appliance.operations.operation import Cursor, Limit
from mailbox_appliance.operations.parameter import Parameter

_SMALLER_PAGE = {"limit": "20"}
#: As many messages as fit into most answers, so that they are asked for once.
_FITTING_PAGE = {"limit": "10"}
_MOST_MAILBOXES = 25
_TROUBLED = ("reauth_required", "error")
_LIMIT = Parameter("limit", "limit", Limit, 100)
_CURSOR = Parameter("cursor", "cursor", Cursor, None)
_PAGED = (_LIMIT, _CURSOR)
_NOTHING_SOUGHT = "Give `q` or `text`, or both; to list without searching there is list_emails."

ACCOUNTS = Form(accounts.list_accounts, "GET /accounts", own_arguments=_PAGED)
FOLDERS = Form(messages.list_folders, "GET /accounts/{accountId}/folders", own_arguments=_PAGED)
LABELS = Form(messages.list_labels, "GET /accounts/{accountId}/labels", own_arguments=_PAGED)
EMAILS = Form(
    messages.list_messages,
    "GET /accounts/{accountId}/messages",
    omitted=frozenset({"q", "text"}),
    defaults=_FITTING_PAGE,
    all_accounts_operation=messages.list_all_messages,
)
SEARCH = Form(
    messages.list_messages,
    "GET /accounts/{accountId}/messages",
    defaults=_FITTING_PAGE,
    all_accounts_operation=messages.list_all_messages,
)
SCHEDULE = Form(scheduled.list_scheduled, "GET /accounts/{accountId}/scheduled", defaults=_SMALLER_PAGE)
STATUS = Form(status.get_status, "GET /status")


def list_accounts(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """The mailboxes that the caller reaches."""
    return _whole(asked, ACCOUNTS.read(arguments), "list_accounts", "mailbox", "mailboxes")


def list_folders(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """The folders of a mailbox."""
    return _whole(asked, FOLDERS.read(arguments), "list_folders", "folder", "folders")


def list_labels(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """The labels of a mailbox."""
    return _whole(asked, LABELS.read(arguments), "list_labels", "label", "labels")


def list_emails(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A page of messages, newest first."""
    return _messages(asked, EMAILS.read(arguments), "list_emails")


def search_emails(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A page of the messages that are sought, newest first."""
    given = SEARCH.read(arguments)
    if not any(name in given.request.values for name in ("q", "text")):
        given = given.with_faults(Detail("/q", _NOTHING_SOUGHT), Detail("/text", _NOTHING_SOUGHT))
    return _messages(asked, given, "search_emails")


def list_scheduled_emails(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A page of the sends that wait for their time, the soonest first."""
    given = SCHEDULE.read(arguments)

    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        return plain(answer.data), answer.warnings

    def about(data: Any) -> str:
        return f"{_count(data['items'], 'scheduled send', 'scheduled sends')}, the soonest first."

    senders = SCHEDULED.with_prefix("items/*")
    return presenting.page(ask, _limit(given), tool="list_scheduled_emails", about=about, senders=senders)


def get_status(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """How the appliance and the caller's mailboxes are."""
    answer = STATUS.read(arguments).call(asked)
    data, warnings = _with_fewer_mailboxes(plain(answer.data))
    about = "How the appliance is, and the mailboxes that you reach. Warnings are for its operator."
    return presenting.shown(data, tool="get_status", about=about, warnings=[*warnings, *answer.warnings])


def _with_fewer_mailboxes(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Those first that need somebody, where there are more than can be shown, and how to see the others."""
    found = data["accounts"]
    if len(found) <= _MOST_MAILBOXES:
        return data, []
    first = sorted(found, key=lambda account: account["status"] not in _TROUBLED)[:_MOST_MAILBOXES]
    told = (
        f"{len(first)} of {len(found)} mailboxes are shown, those first that need somebody:"
        " list_accounts gives all of them with their `status`, page by page."
    )
    return data | {"accounts": first}, [told]


def _messages(asked: Asked, given: Given, tool: str) -> Shown:
    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        data = plain(answer.data)
        return data | {"items": [without_headers(item) for item in data["items"]]}, answer.warnings

    def about(data: Any) -> str:
        return f"{_count(data['items'], 'message', 'messages')}, newest first."

    return presenting.page(ask, _limit(given), tool=tool, about=about, senders=MESSAGES)


def _whole(asked: Asked, given: Given, tool: str, one: str, many: str) -> Shown:
    answer = given.call(asked)
    return presenting.whole(
        plain(answer.data),
        tool=tool,
        about=lambda data: f"{_count(data, one, many)}.",
        of=given.request.values.get(ACCOUNT.wire, ""),
        cursor=given.own_arguments["cursor"],
        limit=given.own_arguments["limit"],
        warnings=answer.warnings,
    )


def _limit(given: Given) -> int:
    return int(given.request.values["limit"])


def _count(items: Sequence[Any], one: str, many: str) -> str:
    return f"{len(items)} {one if len(items) == 1 else many}"
