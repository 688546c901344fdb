"""Acts that read: messages, bodies part by part, conversations, attachments."""

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta

from mailbox_appliance.mcp_server import presenting
from mailbox_appliance.mcp_server.answers import plain, without_headers
from mailbox_appliance.mcp_server.arguments import Form, Given
from mailbox_appliance.mcp_server.tool import Asked, Link, Shown
from mailbox_appliance.mcp_server.untrusted import BODY, LINK, MESSAGE, THREAD
from mailbox_appliance.model.records import BodyFormat, BodyPart, Download
from mailbox_appliance.operations import contents, downloads, drafts, messages
from mailbox_appliance.operations.parameter import Parameter

#: Characters of a body that are asked for at once: more never fits into an answer, which has them twice.
_BODY, _BODY_IN_THREAD, _LEAST_IN_THREAD = 9_000, 2_000, 300
#: Characters that a message takes beside its body.
_BESIDE_BODY = 500
#: Bytes of a file that goes into an answer.
_INLINE = 5_120
#: A body, and what is to be told of it.
_Read = tuple[BodyPart, tuple[str, ...]]
_OFFSET = Annotated[int, Meta(ge=0, le=1_000_000)]

FORM = Parameter(
    "bodyFormat",
    "body_format",
    Annotated[
        Literal["text", "html", "markdown", "none"],
        Meta(description="The form that bodies are wanted in; `none`: no bodies. Text that is not seen is left out."),
    ],
    "text",
)
BODY_FORM = Parameter(
    "bodyFormat",
    "body_format",
    Annotated[BodyFormat, Meta(description="The form that the body is wanted in. Text that is not seen is left out.")],
    "text",
)
LIST_OFFSET = Parameter(
    "listOffset",
    "list_offset",
    Annotated[_OFFSET, Meta(description="How many recipients of each list, and attachments, to pass over.")],
    0,
)
INLINE = Parameter(
    "inline",
    "inline",
    Annotated[bool, Meta(description=f"Give a file of at most {_INLINE:,} bytes as base64 as well.")],
    False,
)

EMAIL = Form(messages.get_message, "GET /accounts/{accountId}/messages/{messageId}", own_arguments=(FORM, LIST_OFFSET))
DRAFT = Form(drafts.get_draft, "GET /accounts/{accountId}/drafts/{draftId}", own_arguments=(FORM, LIST_OFFSET))
PART = Form(
    contents.get_body,
    "GET /accounts/{accountId}/messages/{messageId}/body",
    own_arguments=(BODY_FORM,),
    omitted=frozenset({"format", "visibleOnly"}),
    defaults={"limit": str(_BODY)},
)
CONVERSATION = Form(
    messages.get_thread,
    "GET /accounts/{accountId}/threads/{threadId}",
    own_arguments=(FORM,),
    defaults={"limit": "20"},
)
ATTACHMENT = Form(
    downloads.link_attachment,
    "POST /accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}/download-link",
    own_arguments=(INLINE,),
)


def get_email(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A message and the beginning of its body."""
    return _message(asked, EMAIL.read(arguments), "get_email", "messageId", "A message.")


def get_draft(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A draft and the beginning of its body."""
    return _message(asked, DRAFT.read(arguments), "get_draft", "draftId", "A draft.")


def get_email_body(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """Part of a message's body."""
    given = PART.read(arguments)
    limit = min(int(given.request.values["limit"]), _BODY)
    answer = given.call(asked, limit=str(limit), **_form(given.own_arguments["bodyFormat"]))
    return presenting.shown(
        plain(answer.data),
        tool="get_email_body",
        about="Part of a message's body.",
        senders=BODY,
        warnings=answer.warnings,
    )


def get_thread(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A page of a conversation's messages, the oldest first, each with the beginning of its body."""
    given = CONVERSATION.read(arguments)
    with asked.appliance.html_readers.sharing():  # one deadline for the whole conversation
        return presenting.page(
            _Conversation(asked, given).read_page,
            int(given.request.values["limit"]),
            tool="get_thread",
            about="A conversation, the oldest message first; get_email_body goes on where a body is cut.",
            senders=THREAD,
        )


@dataclass
class _Conversation:
    """A conversation that is asked for page by page, maybe several times over: each body is looked at once."""

    context: Asked
    request: Given
    bodies: dict[str, _Read] = field(default_factory=dict)
    #: Characters of each body: set when it is first asked, so that fewer messages do not mean longer ones.
    share: int = 0

    def read_page(self, limit: int) -> tuple[Any, Sequence[str]]:
        """At most so many messages, or as many as have bodies that can fit, with what is to be told of them."""
        answer = self.request.call(self.context, limit=str(limit))
        data = plain(answer.data)
        items = [without_headers(item) for item in data["messages"]["items"]]
        warnings, room = list(answer.warnings), _BODY
        self.share = self.share or _share_of(len(items))
        for number, item in enumerate(items if self.request.own_arguments["bodyFormat"] != "none" else (), 1):
            body, told = self._read_body(item["id"])
            item["body"] = plain(body)
            warnings += [f"{item['id']}: {one}" for one in told]
            room -= len(body.content)
            if room < 0 and number < len(items):
                return self.read_page(number)
        return data | {"messages": data["messages"] | {"items": items}}, warnings

    def _read_body(self, message_id: str) -> _Read:
        if message_id not in self.bodies:
            form = self.request.own_arguments["bodyFormat"]
            self.bodies[message_id] = _body(self.context, self.request, message_id, form, self.share)
        return self.bodies[message_id]


def _share_of(count: int) -> int:
    """Characters of each of so many bodies that leave room for the others and for what else is said of a message."""
    return min(_BODY_IN_THREAD, max(_LEAST_IN_THREAD, _BODY // max(count, 1) - _BESIDE_BODY))


def download_attachment(asked: Asked, arguments: Mapping[str, Any]) -> Shown:
    """A link to an attachment, good for some minutes; a small file as well, where it is asked for inline."""
    given = ATTACHMENT.read(arguments)
    answer = given.call(asked)
    link = plain(answer.data)
    content, warnings = None, list(answer.warnings)
    if given.own_arguments["inline"]:
        content = _inline(asked, given) if link["sizeBytes"] <= 2 * _INLINE else None
        if content is None:
            warnings.append(
                f"The file has more than {_INLINE:,} bytes, so it is not given inline: fetch it by the link."
            )
    attachment_id = given.request.values["attachmentId"]
    return presenting.shown(
        link,
        tool="download_attachment",
        about="A link to the file: whoever has it may fetch it with GET, without a token, until `expiresAt`.",
        senders=LINK,
        warnings=warnings,
        links=(Link(link["url"], attachment_id, _media_type(link["mimeType"]), link.get("sizeBytes")),),
        content=content,
    )


def _message(asked: Asked, given: Given, tool: str, id_name: str, about: str) -> Shown:
    answer = given.call(asked)
    data, warnings = without_headers(plain(answer.data)), list(answer.warnings)
    form = given.own_arguments["bodyFormat"]
    if form != "none":
        body, told = _body(asked, given, given.request.values[id_name], form, _BODY)
        warnings += [one for one in told if one not in warnings]
        data["body"] = plain(body)
    return presenting.shown(
        data, tool=tool, about=about, senders=MESSAGE, warnings=warnings, list_offset=given.own_arguments["listOffset"]
    )


def _body(asked: Asked, given: Given, message_id: str, form: str, limit: int) -> _Read:
    """The beginning of a message's body, and what is to be told of it."""
    answer = given.call_other(
        asked, contents.get_body, "accountId", messageId=message_id, limit=str(limit), **_form(form)
    )
    return answer.data, answer.warnings


def _form(form: str) -> dict[str, str]:
    """HTML without what is not seen; of the other forms that is always gone."""
    return {"format": form} | ({"visibleOnly": "true"} if form == "html" else {})


def _inline(asked: Asked, given: Given) -> str | None:
    """A file as base64; None where it is too large for an answer: its size is known for sure once it is read."""
    file: Download = given.call_other(asked, contents.get_attachment, "accountId messageId attachmentId").data
    found = b""
    try:
        for chunk in file.chunks:
            found += chunk
            if len(found) > _INLINE:
                return None
    finally:
        close = getattr(file.chunks, "close", None)
        if close is not None:
            close()
    return base64.b64encode(found).decode()


def _media_type(said: str) -> str:
    """A media type that is safe to show: a sender may write anything there, and in words that are ours nothing."""
    return said if said in _well_known() else "application/octet-stream"


@cache
def _well_known() -> frozenset[str]:
    return frozenset(mimetypes.MimeTypes().types_map[True].values())
