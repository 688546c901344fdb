"""What the double of Microsoft Graph can be told, and what it keeps."""

import email
import email.policy
import json
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any, Literal, Union, get_args

from tests.servers.listener import Answered
from tests.servers.oauth_answers import WORDS
from tests.servers.smtp_script import HangUp, Stall

# fmt: off
Step = Literal[
    "draft", "drafted", "attach", "attached", "session", "begun", "upload", "uploaded", "send", "sent",
    "look", "folder", "list", "remove", "addresses",
]
# fmt: on
STEPS: tuple[Step, ...] = get_args(Step)
Folder = Literal["drafts", "sentitems", "nowhere"]


@dataclass(frozen=True)
class Says:
    """An answer in the place of the right one: a status, and the code of an error."""

    status: int
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)


Action = Union[Says, HangUp, Stall, None]  # noqa: UP007 - Stall holds another


@dataclass(frozen=True)
class Added:
    """A file that was added to a draft."""

    name: str
    mime_type: str
    is_inline: bool
    content_id: str | None
    content: bytes = field(repr=False)

    @property
    def disposition(self) -> str:
        return "inline" if self.is_inline else "attachment"

    @property
    def is_message(self) -> bool:
        return self.mime_type.startswith("message/")


@dataclass
class Item:
    """A message in somebody's mailbox."""

    id: str
    owner: str
    mime: bytes = field(repr=False)
    folder: Folder = "drafts"
    files: list[Added] = field(default_factory=list)

    @property
    def read(self) -> EmailMessage:
        return email.message_from_bytes(self.mime, policy=email.policy.default)

    @property
    def message_id(self) -> str:
        return str(self.read.get("Message-ID", "")).strip()


@dataclass(frozen=True)
class Sent:
    """A message that went out: whose it is, who got it, and what they got; `files` are those of it that were added."""

    owner: str
    sender: str
    recipients: tuple[str, ...]
    source: bytes = field(repr=False)
    message_id: str = ""
    files: tuple[Added, ...] = ()


def joined(message: EmailMessage, files: list[Added]) -> bytes:
    """What recipients get: the MIME with the files that were added; pictures where the HTML is that shows them.

    How Exchange writes an attached message that was added as a file is not documented; here it is any file.
    """
    for each in files:
        main, _, sub = ("application", "", "octet-stream") if each.is_message else each.mime_type.partition("/")
        shown = message.get_body(("related", "html")) if each.is_inline else None
        add = message.add_attachment if shown is None else shown.add_related
        cid: Any = {"cid": f"<{each.content_id}>"} if each.content_id else {}
        add(each.content, main, sub, filename=each.name, disposition=each.disposition, **cid)
    return message.as_bytes()


# --- answers ---


class Refused(Exception):
    """A request that is not done."""

    def __init__(self, says: Says) -> None:
        super().__init__()
        self.says = says


def in_json(status: int, value: object) -> Answered:
    return status, json.dumps(value).encode(), {"Content-Type": "application/json"}


def error(says: Says) -> Answered:
    if says.status < 400:
        return says.status, b"", says.headers
    if not says.code:  # of a gateway
        return says.status, f"<html>{WORDS}</html>".encode(), says.headers
    status, body, headers = in_json(says.status, {"error": {"code": says.code, "message": WORDS}})
    return status, body, {**headers, **says.headers}
