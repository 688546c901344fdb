"""What the double of Microsoft Graph can be told, and what it keeps."""

import email
import email.policy
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Literal, Union, get_args

from tests.servers.smtp_script import HangUp, Stall

Step = Literal["draft", "drafted", "send", "sent", "look", "folder", "list", "remove", "addresses"]
STEPS: tuple[Step, ...] = get_args(Step)
Folder = Literal["drafts", "sentitems", "nowhere"]


@dataclass(frozen=True)
class Says:
    """An answer in the place of the right one: a status, and the code of an error."""

    status: int
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)


Action = Union[Says, HangUp, Stall, None]  # noqa: UP007 - Stall holds another


@dataclass
class Item:
    """A message in somebody's mailbox."""

    id: str
    owner: str
    mime: bytes = field(repr=False)
    folder: Folder = "drafts"

    @property
    def read(self) -> EmailMessage:
        return email.message_from_bytes(self.mime, policy=email.policy.default)

    @property
    def message_id(self) -> str:
        return str(self.read.get("Message-ID", "")).strip()


@dataclass(frozen=True)
class Sent:
    """A message that went out: whose it is, who got it, and what they got."""

    owner: str
    sender: str
    recipients: tuple[str, ...]
    source: bytes = field(repr=False)
    message_id: str = ""


class HungUp(Exception):
    """The connection is ended without an answer."""

    def __init__(self, reset: bool) -> None:
        super().__init__()
        self.reset = reset
