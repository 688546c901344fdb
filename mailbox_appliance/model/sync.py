"""What a mail server says of folders and messages, and what the mirror holds of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mailbox_appliance.model.accounts import FolderRole, RoleSource


@dataclass(frozen=True)
class SyncProgress:
    """The progress of a large sync: a text for people, and how many of how many messages, while those are counted."""

    text: str
    count: tuple[int, int] | None = None


@dataclass(frozen=True)
class ListedFolder:
    """A folder as LIST tells it (RFC 9051 7.3.1). The path is decoded; attributes are lower case, with backslash.

    `label`: on a server with labels (X-GM-EXT-1) most folders only show the messages that have one: its name, such as
    `\\Inbox` or `Work/2024`. Its messages lie in a folder without a label: the one of all mail, spam, or trash.
    """

    path: str
    delimiter: str | None
    attributes: frozenset[str]
    label: str | None = None


@dataclass(frozen=True)
class FolderState:
    """What SELECT or STATUS tells of a folder (RFC 9051 7.2.4, RFC 7162)."""

    uidvalidity: int
    uidnext: int
    exists: int
    highestmodseq: int | None = None


@dataclass(frozen=True)
class MirroredFolder:
    """A folder as the store has it. `label`: as of a `ListedFolder`; no message lies in one that has it."""

    number: int
    id: str
    account_id: str
    path: str
    delimiter: str | None
    role: FolderRole | None
    role_source: RoleSource | None
    state: FolderState | None
    label: str | None = None


@dataclass(frozen=True)
class FolderChanges:
    """What happened in a folder since a position: `changed` has the flags of every new or changed message.

    `vanished`: UIDs told to be gone. `present`: where not None, all UIDs that are there; what else was known is gone.
    """

    state: FolderState
    changed: Mapping[int, frozenset[str]]
    vanished: frozenset[int] = frozenset()
    present: frozenset[int] | None = None


@dataclass(frozen=True)
class ListedPart:
    """A part as BODYSTRUCTURE tells it (RFC 9051 7.5.2); `octets` is its size as it travels, encoded."""

    number: str
    mime_type: str
    parameters: Mapping[str, str]
    encoding: str
    octets: int
    content_id: str | None = None
    disposition: str | None = None
    disposition_parameters: Mapping[str, str] = field(default_factory=dict)
    children: "tuple[ListedPart, ...]" = ()


@dataclass(frozen=True)
class MessageIdentity:
    """A message as it is recognised in another folder, or after UIDVALIDITY changed: what stays the same of it.

    `message_id` is canonical (`mail.threads.canonical_message_id`). `provider_id`, where the provider gives one,
    decides alone; it tells the thread as well then.
    """

    uid: int
    flags: frozenset[str]
    message_id: str | None
    size: int
    internal_date: datetime
    provider_id: str | None = None
    provider_thread_id: str | None = None


@dataclass(frozen=True)
class LocatedMessage:
    """Where a mirrored message lies, and what it must still be before anything is done to it at the server."""

    id: str
    number: int
    folder: MirroredFolder
    uid: int | None
    message_id: str | None
    size: int
    internal_date: datetime
    flags: frozenset[str]
    body: int
    #: Not found any more where it was, or moved by us to a place where sync has not seen it yet.
    gone: bool = False
    provider_id: str | None = None


@dataclass(frozen=True)
class FetchedMessage:
    """A message as FETCH gives it: the flags of RFC 9051 2.3.2 as written, the INTERNALDATE, the source.

    The source is whole, or just the header fields that a list shows, as asked for. On a server with labels they are
    among the flags; `provider_id` and `provider_thread_id` (X-GM-MSGID, X-GM-THRID) never change.
    """

    uid: int
    flags: frozenset[str]
    internal_date: datetime
    size: int
    source: bytes = field(repr=False)
    provider_id: str | None = None
    provider_thread_id: str | None = None


@dataclass(frozen=True)
class FlagChange:
    """New flags of a message that is already known."""

    uid: int
    flags: frozenset[str]
