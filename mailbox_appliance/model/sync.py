"""Folders and messages as a mail server reports them and as the store keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mailbox_appliance.model.accounts import FolderRole, RoleSource


@dataclass(frozen=True)
class SyncProgress:
    """The progress of a large sync. `text`: for people. `count`: finished and total messages, once counted."""

    text: str
    count: tuple[int, int] | None = None


@dataclass(frozen=True)
class ListedFolder:
    """A folder from an IMAP LIST response (RFC 9051 7.3.1), with a decoded path; attributes are lower case.

    `label`: the name of a Gmail label, such as `\\Inbox` or `Work/2024`; None for an ordinary folder. Gmail
    (X-GM-EXT-1) lists each label as a folder, which only shows the messages with that label. The messages themselves
    are in the folders All Mail, Spam and Trash, which have no label.
    """

    path: str
    delimiter: str | None
    attributes: frozenset[str]
    label: str | None = None


@dataclass(frozen=True)
class FolderState:
    """The state of a folder as IMAP reports it with SELECT or STATUS (RFC 9051 7.2.4, RFC 7162), to detect changes."""

    uidvalidity: int
    uidnext: int
    exists: int
    highestmodseq: int | None = None


@dataclass(frozen=True)
class MirroredFolder:
    """A folder in the store, with its state at the last sync. `number`: its key in the database.

    `label`: the Gmail label that it shows, if any; such a folder contains no messages itself (see `ListedFolder`).
    """

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
    """The changes of a folder since an earlier state.

    - state: The state after them.
    - changed: Flags of every new or changed message, by UID.
    - vanished: UIDs that the server reports as removed.
    - present: If not None, all existing UIDs; all other known messages were removed.
    """

    state: FolderState
    changed: Mapping[int, frozenset[str]]
    vanished: frozenset[int] = frozenset()
    present: frozenset[int] | None = None


@dataclass(frozen=True)
class ListedPart:
    """A part of a message from an IMAP BODYSTRUCTURE response (RFC 9051 7.5.2). `octets`: its size before decoding."""

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
    """The properties by which a message is recognized in another folder, or after the folder's UIDVALIDITY changed.

    - message_id: The Message-ID in canonical form (`mail.threads.canonical_message_id`).
    - provider_id: The provider's own ID. If it is not None, no other property is compared.
    - provider_thread_id: The provider's ID of the thread, which decides the thread of the message.
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
    """The place of a stored message on its server. Its other fields are compared there before a change."""

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
    """A message from an IMAP FETCH response.

    - flags: As the server writes them (RFC 9051 2.3.2), including labels on a server that has them.
    - source: The raw message. It has only the header fields that lists need if no more was requested.
    - provider_id, provider_thread_id: Gmail's own IDs (X-GM-MSGID, X-GM-THRID), which never change.
    """

    uid: int
    flags: frozenset[str]
    internal_date: datetime
    size: int
    source: bytes = field(repr=False)
    provider_id: str | None = None
    provider_thread_id: str | None = None


@dataclass(frozen=True)
class MessageState:
    """The folder (by ID) and the flags of a message; the flags include labels on a server that has them."""

    folder_id: str
    flags: frozenset[str]


@dataclass(frozen=True)
class StateChange:
    """A change that a bulk action made: the messages, and their state before and after it."""

    before: MessageState
    after: MessageState
    message_ids: tuple[str, ...]


@dataclass(frozen=True)
class FlagChange:
    """The new flags of a message that is already stored."""

    uid: int
    flags: frozenset[str]
