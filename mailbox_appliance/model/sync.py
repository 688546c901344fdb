"""Folders and messages as a mail server reports them and as the mirror stores them."""

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
    """A folder from a LIST response (RFC 9051 7.3.1). The path is decoded; attributes are lower case, with backslash.

    `label`: on a server with labels (X-GM-EXT-1), most folders only show the messages with one label, and this is its
    name, such as `\\Inbox` or `Work/2024`. The messages themselves are in a folder without a label: all mail, spam or
    trash.
    """

    path: str
    delimiter: str | None
    attributes: frozenset[str]
    label: str | None = None


@dataclass(frozen=True)
class FolderState:
    """The state of a folder from SELECT or STATUS (RFC 9051 7.2.4, RFC 7162)."""

    uidvalidity: int
    uidnext: int
    exists: int
    highestmodseq: int | None = None


@dataclass(frozen=True)
class MirroredFolder:
    """A folder in the store. `label`: as in `ListedFolder`; a folder with a label contains no messages itself."""

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
    """The changes of a folder since a position. `changed`: the flags of every new or changed message.

    `vanished`: UIDs that the server reports as removed. `present`: if not None, all existing UIDs; all other known ones
    were removed.
    """

    state: FolderState
    changed: Mapping[int, frozenset[str]]
    vanished: frozenset[int] = frozenset()
    present: frozenset[int] | None = None


@dataclass(frozen=True)
class ListedPart:
    """A part from a BODYSTRUCTURE response (RFC 9051 7.5.2). `octets`: its encoded size."""

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
    """The properties by which a message is recognized in another folder, or after UIDVALIDITY changed.

    `message_id` is canonical (`mail.threads.canonical_message_id`). If the provider gives a `provider_id`, it alone
    decides, and the provider also assigns the thread.
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
    """The location of a mirrored message, and the properties that it must still have before it is changed at the
    server.
    """

    id: str
    number: int
    folder: MirroredFolder
    uid: int | None
    message_id: str | None
    size: int
    internal_date: datetime
    flags: frozenset[str]
    body: int
    #: Missing from its folder, or moved by us to a place where sync has not found it yet.
    gone: bool = False
    provider_id: str | None = None


@dataclass(frozen=True)
class FetchedMessage:
    """A message from a FETCH response: flags as written (RFC 9051 2.3.2), INTERNALDATE and source.

    The source is complete, or only the header fields that a list shows, as requested. On a server with labels, the
    flags include them; `provider_id` and `provider_thread_id` (X-GM-MSGID, X-GM-THRID) never change.
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
