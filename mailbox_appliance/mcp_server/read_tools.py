"""Tools that list and read mailboxes, folders, messages, bodies, threads, attachments and status."""

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta

from mailbox_appliance.errors import Detail
from mailbox_appliance.feed.waiting import EventWait
from mailbox_appliance.mcp_server import render
from mailbox_appliance.mcp_server.arguments import ACCOUNT_ARGUMENT, LIST_OFFSET, Act, ToolInput, ToolRequest
from mailbox_appliance.mcp_server.limits import (
    UNTRUSTED_APPROVALS,
    UNTRUSTED_BODY,
    UNTRUSTED_CHANGES,
    UNTRUSTED_LINK,
    UNTRUSTED_MESSAGE,
    UNTRUSTED_MESSAGES,
    UNTRUSTED_SCHEDULED,
    UNTRUSTED_THREAD,
    drop_headers,
    to_json_data,
)
from mailbox_appliance.mcp_server.render import Presentation, present
from mailbox_appliance.mcp_server.tool import CallContext, FileLink, ToolResult
from mailbox_appliance.model.base import OwnText, own_text
from mailbox_appliance.model.messages import BodyFormat, BodyPart, Download
from mailbox_appliance.operations import accounts, contents, deliveries, drafts, events, messages, status
from mailbox_appliance.operations.decoding import Parameter
from mailbox_appliance.operations.operation import Cursor, Limit, Request
from mailbox_appliance.operations.oversight import approvals

_SMALLER_PAGE = {"limit": "20"}
#: As many messages as fit into most responses, so that one read is enough.
_FITTING_PAGE = {"limit": "10"}
_MAX_MAILBOXES = 25
_TROUBLED = ("reauth_required", "error")
_LIMIT = Parameter("limit", "limit", Limit, 100)
_CURSOR = Parameter("cursor", "cursor", Cursor, None)
_PAGED = (_LIMIT, _CURSOR)
_NO_QUERY = "Give `q`, `text` or both. To list without a search, use list_emails."

ACCOUNTS_INPUT = ToolInput(accounts.list_accounts, "GET /accounts", own_arguments=_PAGED)
FOLDERS_INPUT = ToolInput(messages.list_folders, "GET /accounts/{accountId}/folders", own_arguments=_PAGED)
LABELS_INPUT = ToolInput(messages.list_labels, "GET /accounts/{accountId}/labels", own_arguments=_PAGED)
EMAILS_INPUT = ToolInput(
    messages.list_messages,
    "GET /accounts/{accountId}/messages",
    omitted=frozenset({"q", "text"}),
    defaults=_FITTING_PAGE,
    all_accounts_operation=messages.list_all_messages,
)
SEARCH_INPUT = ToolInput(
    messages.list_messages,
    "GET /accounts/{accountId}/messages",
    defaults=_FITTING_PAGE,
    all_accounts_operation=messages.list_all_messages,
)
SCHEDULED_INPUT = ToolInput(deliveries.list_scheduled, "GET /accounts/{accountId}/scheduled", defaults=_SMALLER_PAGE)
APPROVALS_INPUT = ToolInput(approvals.list_requested, "GET /me/approvals", defaults=_SMALLER_PAGE)
CHANGES_INPUT = ToolInput(events.list_events, "GET /events", defaults=_SMALLER_PAGE)
STATUS_INPUT = ToolInput(status.get_status, "GET /status")


def whole_list(tool: str, one: str, many: str) -> Act:
    """Return the function of a tool that shows a list page by page, of an operation that returns all of it.

    `one`, `many`: what the entries are called.
    """

    def act(asked: CallContext, given: ToolRequest) -> ToolResult:
        answer = given.call(asked)
        return render.present_list(
            to_json_data(answer.data),
            tool=tool,
            about=lambda data: f"{_count_text(data, one, many)}.",
            of=given.request.values.get(ACCOUNT_ARGUMENT.wire, ""),
            cursor=given.own_arguments["cursor"],
            limit=given.own_arguments["limit"],
            warnings=answer.warnings,
        )

    return act


def list_emails(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a page of messages, newest first."""
    return _present_messages(asked, given, "list_emails")


def search_emails(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a page of messages that match the search, newest first."""
    if not any(name in given.request.values for name in ("q", "text")):
        given = given.with_faults(Detail("/q", _NO_QUERY), Detail("/text", _NO_QUERY))
    return _present_messages(asked, given, "search_emails")


def list_scheduled_emails(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a page of scheduled messages, soonest first."""

    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        return to_json_data(answer.data), answer.warnings

    def about(data: Any) -> str:
        return f"{_count_text(data['items'], 'scheduled message', 'scheduled messages')}, soonest first."

    senders = UNTRUSTED_SCHEDULED.with_prefix("items/*")
    limit = int(given.request.values["limit"])
    return render.present_page(ask, limit, tool="list_scheduled_emails", about=about, senders=senders)


def list_approvals(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a page of the approvals that the caller's messages need, newest first."""

    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        return to_json_data(answer.data), answer.warnings

    def about(data: Any) -> str:
        waiting = sum(item["status"] == "pending" for item in data["items"])
        found = f"{_count_text(data['items'], 'approval', 'approvals')}, newest first; {waiting} pending."
        return f"{found} A person must decide. Do not send these messages again." if waiting else found

    limit = int(given.request.values["limit"])
    return render.present_page(ask, limit, tool="list_approvals", about=about, senders=UNTRUSTED_APPROVALS)


def list_changes(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return what has changed after a position, in order, and how to continue from there."""

    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        # A call without a position begins at that of its repetition, so it would wait in vain.
        if isinstance(answer.waits_for, EventWait) and "after" in given.request.values:
            asked.waits.append(answer.waits_for)
        return _change_data(answer.data), answer.warnings

    limit = int(given.request.values["limit"])
    return render.present_page(ask, limit, tool="list_changes", about=_about_changes, senders=UNTRUSTED_CHANGES)


def show_latest_changes(asked: CallContext, account_id: str | None) -> ToolResult:
    """Return the latest changes in a mailbox, or in all that the caller can access. Raises Problem."""
    account = {} if account_id is None else {ACCOUNT_ARGUMENT.wire: account_id}

    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        request = Request(values={**account, "limit": str(limit)})
        answer = events.list_latest_events.call(asked.appliance, asked.origin, asked.token, request)
        return _change_data(answer.data), answer.warnings

    limit = int(_SMALLER_PAGE["limit"])
    return render.present_page(ask, limit, tool="list_changes", about=_about_changes, senders=UNTRUSTED_CHANGES)


def _change_data(page: Any) -> dict[str, Any]:
    data: dict[str, Any] = to_json_data(page)
    return data | {"items": [one | {"data": drop_headers(one["data"])} for one in data["items"]]}


def _about_changes(data: Any) -> str:
    found = f"{_count_text(data['items'], 'change', 'changes')}, oldest first."
    if data["reset"]:
        found = "Changes before nextPosition are lost to you. List mailboxes and messages again."
    return f"{found} Then call list_changes with `after` {data['nextPosition']} and the other arguments unchanged."


def get_status(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return the status of the appliance and of the caller's mailboxes."""
    answer = given.call(asked)
    data, notes = _keep_fitting_mailboxes(to_json_data(answer.data))
    about = "The status of the appliance and of the mailboxes that you can access. Warnings are for its operator."
    return present(Presentation(data, "get_status", about, warnings=answer.warnings, notes=notes))


def _keep_fitting_mailboxes(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the status data with as many mailboxes as fit, those that need attention first, and notes."""
    found = data["accounts"]
    if len(found) <= _MAX_MAILBOXES:
        return data, []
    first = sorted(found, key=lambda account: account["status"] not in _TROUBLED)[:_MAX_MAILBOXES]
    told = (
        f"{len(first)} of {len(found)} mailboxes are shown, those that need attention first."
        " list_accounts returns all of them with their `status`, page by page."
    )
    return data | {"accounts": first}, [told]


def _present_messages(asked: CallContext, given: ToolRequest, tool: str) -> ToolResult:
    def ask(limit: int) -> tuple[Any, Sequence[str]]:
        answer = given.call(asked, limit=str(limit))
        data = to_json_data(answer.data)
        return data | {"items": [drop_headers(item) for item in data["items"]]}, answer.warnings

    def about(data: Any) -> str:
        return f"{_count_text(data['items'], 'message', 'messages')}, newest first."

    limit = int(given.request.values["limit"])
    return render.present_page(ask, limit, tool=tool, about=about, senders=UNTRUSTED_MESSAGES)


def _count_text(items: Sequence[Any], one: str, many: str) -> str:
    return f"{len(items)} {one if len(items) == 1 else many}"


# --- Reading messages: bodies part by part, conversations, attachments ---


#: Characters of a body to request at once: more never fits into a result, which contains them twice.
_MAX_BODY, _MAX_BODY_IN_THREAD, _MIN_BODY_IN_THREAD = 9_000, 2_000, 300
#: Characters of a message without its body.
_ROOM_BESIDE_BODY = 500
#: Maximum bytes of a file in a result.
_MAX_INLINE_FILE = 5_120
#: A body, and its warnings.
_BodyAndNotes = tuple[BodyPart, tuple[str, ...]]

FORMAT_OR_NONE = Parameter(
    "bodyFormat",
    "body_format",
    Annotated[
        Literal["text", "html", "markdown", "none"],
        Meta(description="Format of the bodies; `none` returns no bodies. Hidden text is removed."),
    ],
    "text",
)
BODY_FORMAT = Parameter(
    "bodyFormat",
    "body_format",
    Annotated[BodyFormat, Meta(description="Format of the body. Hidden text is removed.")],
    "text",
)
INLINE = Parameter(
    "inline",
    "inline",
    Annotated[bool, Meta(description=f"Also return a file of at most {_MAX_INLINE_FILE:,} bytes as base64.")],
    False,
)

EMAIL_INPUT = ToolInput(
    messages.get_message, "GET /accounts/{accountId}/messages/{messageId}", own_arguments=(FORMAT_OR_NONE, LIST_OFFSET)
)
DRAFT_INPUT = ToolInput(
    drafts.get_draft, "GET /accounts/{accountId}/drafts/{draftId}", own_arguments=(FORMAT_OR_NONE, LIST_OFFSET)
)
BODY_INPUT = ToolInput(
    contents.get_body,
    "GET /accounts/{accountId}/messages/{messageId}/body",
    own_arguments=(BODY_FORMAT,),
    omitted=frozenset({"format", "visibleOnly"}),
    defaults={"limit": str(_MAX_BODY)},
)
THREAD_INPUT = ToolInput(
    messages.get_thread,
    "GET /accounts/{accountId}/threads/{threadId}",
    own_arguments=(FORMAT_OR_NONE,),
    defaults={"limit": "20"},
)
ATTACHMENT_INPUT = ToolInput(
    contents.link_attachment,
    "POST /accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}/download-link",
    own_arguments=(INLINE,),
)


def get_email_body(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return one page of a message's body as text, from `offset`. A note in the result names the way to the next
    page.
    """
    limit = min(int(given.request.values["limit"]), _MAX_BODY)
    answer = given.call(asked, limit=str(limit), **_format_values(given.own_arguments["bodyFormat"]))
    about, data = "Part of a message body.", to_json_data(answer.data)
    return present(Presentation(data, "get_email_body", about, UNTRUSTED_BODY, answer.warnings))


def get_thread(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a page of a conversation, oldest message first, each with the beginning of its body."""
    with asked.appliance.html_readers.sharing():  # one deadline for the whole conversation
        return render.present_page(
            _ThreadReader(asked, given).read_page,
            int(given.request.values["limit"]),
            tool="get_thread",
            about="A conversation, oldest message first. get_email_body returns the rest of a cut body.",
            senders=UNTRUSTED_THREAD,
        )


@dataclass
class _ThreadReader:
    """Reads a page of a conversation, also again with fewer messages; each body is fetched only once."""

    context: CallContext
    request: ToolRequest
    bodies: dict[str, _BodyAndNotes] = field(default_factory=dict)
    #: Characters of each body: set by the first page, so that fewer messages do not mean longer bodies.
    share: int = 0

    def read_page(self, limit: int) -> tuple[Any, Sequence[str]]:
        """Return the data of a page and its warnings. It has at most `limit` messages, fewer if their bodies do not
        fit.
        """
        answer = self.request.call(self.context, limit=str(limit))
        data = to_json_data(answer.data)
        items = [drop_headers(item) for item in data["messages"]["items"]]
        warnings, room = list(answer.warnings), _MAX_BODY
        self.share = self.share or _body_share(len(items))
        for number, item in enumerate(items if self.request.own_arguments["bodyFormat"] != "none" else (), 1):
            body, told = self._read_body(item["id"])
            item["body"] = to_json_data(body)
            warnings += [own_text("{id}: {warning}", id=OwnText(item["id"]), warning=one) for one in told]
            room -= len(body.content)
            if room < 0 and number < len(items):
                return self.read_page(number)
        return data | {"messages": data["messages"] | {"items": items}}, warnings

    def _read_body(self, message_id: str) -> _BodyAndNotes:
        if message_id not in self.bodies:
            form = self.request.own_arguments["bodyFormat"]
            self.bodies[message_id] = _read_body(self.context, self.request, message_id, form, self.share)
        return self.bodies[message_id]


def _body_share(count: int) -> int:
    """Return the maximum number of characters of each body, if a page has `count` messages."""
    return min(_MAX_BODY_IN_THREAD, max(_MIN_BODY_IN_THREAD, _MAX_BODY // max(count, 1) - _ROOM_BESIDE_BODY))


def download_attachment(asked: CallContext, given: ToolRequest) -> ToolResult:
    """Return a temporary download link for an attachment. A small file is included itself if the caller requests it."""
    answer = given.call(asked)
    link = to_json_data(answer.data)
    content, notes = None, list[str]()
    if given.own_arguments["inline"]:
        content = _read_inline(asked, given) if link["sizeBytes"] <= 2 * _MAX_INLINE_FILE else None
        if content is None:
            notes.append(
                f"The file is larger than {_MAX_INLINE_FILE:,} bytes, so it is not included inline. Download it by"
                " the link."
            )
    attachment_id = given.request.values["attachmentId"]
    shown = Presentation(
        link,
        "download_attachment",
        "A link to the file. Anyone who has it can download the file by GET, without a token, until `expiresAt`.",
        UNTRUSTED_LINK,
        answer.warnings,
        notes,
        links=(FileLink(link["url"], attachment_id, _safe_media_type(link["mimeType"]), link.get("sizeBytes")),),
        content=content,
    )
    return present(shown)


def one_message(tool: str, id_name: str, about: str) -> Act:
    """Return the function of a tool that shows a message, or a draft, with the beginning of its body.

    `id_name`: the argument that names it.
    """

    def act(asked: CallContext, given: ToolRequest) -> ToolResult:
        answer = given.call(asked)
        data, warnings = drop_headers(to_json_data(answer.data)), list(answer.warnings)
        form, offset = given.own_arguments["bodyFormat"], given.own_arguments["listOffset"]
        if form != "none":
            body, told = _read_body(asked, given, given.request.values[id_name], form, _MAX_BODY)
            warnings += [one for one in told if one not in warnings]
            data["body"] = to_json_data(body)
        return present(Presentation(data, tool, about, UNTRUSTED_MESSAGE, warnings, list_offset=offset))

    return act


def _read_body(asked: CallContext, given: ToolRequest, message_id: str, form: str, limit: int) -> _BodyAndNotes:
    answer = given.call_other(
        asked, contents.get_body, "accountId", messageId=message_id, limit=str(limit), **_format_values(form)
    )
    return answer.data, answer.warnings


def _format_values(form: str) -> dict[str, str]:
    """Return the parameters of a format. HTML is asked for without hidden text, as other formats always come."""
    return {"format": form} | ({"visibleOnly": "true"} if form == "html" else {})


def _read_inline(asked: CallContext, given: ToolRequest) -> str | None:
    """Return an attachment as base64; None if it is too large. The exact size is known only after reading it."""
    file: Download = given.call_other(asked, contents.get_attachment, "accountId messageId attachmentId").data
    found = b""
    try:
        for chunk in file.chunks:
            found += chunk
            if len(found) > _MAX_INLINE_FILE:
                return None
    finally:
        close = getattr(file.chunks, "close", None)
        if close is not None:
            close()
    return base64.b64encode(found).decode()


def _safe_media_type(said: str) -> str:
    """Return the media type that a sender declared if it is a known one, otherwise `application/octet-stream`."""
    return said if said in _known_media_types() else "application/octet-stream"


@cache
def _known_media_types() -> frozenset[str]:
    return frozenset(mimetypes.MimeTypes().types_map[True].values())
