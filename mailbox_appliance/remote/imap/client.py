"""A mailbox over IMAP (RFC 9051, RFC 3501): one connection, used by one thread at a time.

Everything that goes wrong is a RemoteFault; after one that is no refusal (`refused`, `throttled`, `unsupported`) the
connection is of no use. Reading never changes a message: folders are examined, bodies are peeked at.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from socket import socket as Socket  # noqa: N812 - a class, beside the method of this name
from types import TracebackType

from mailbox_appliance.mail.headers import MAX_HEADER
from mailbox_appliance.mail.html.analysis import TAG_READER, HtmlReader
from mailbox_appliance.mail.large import LONGEST_SECTION, PartEnd, parse_large, part_ends, size_by_end, text_sections
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.threads import canonical_message_id
from mailbox_appliance.model.accounts import AccountCapabilities, Endpoint
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import FoundCopy
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.model.sync import (
    FetchedMessage,
    FolderChanges,
    FolderState,
    ListedFolder,
    ListedPart,
    MessageIdentity,
    MirroredFolder,
)
from mailbox_appliance.remote.errors import Contact, RemoteFault, marking_faults
from mailbox_appliance.remote.imap import reading, values, writing
from mailbox_appliance.remote.imap.connection import log_in
from mailbox_appliance.remote.imap.folders import (
    ANY_KEYWORD,
    FolderLister,
    FolderNewsReader,
    Selection,
    detect_capabilities,
)
from mailbox_appliance.remote.imap.wire import ImapWire
from mailbox_appliance.remote.net import connect
from mailbox_appliance.remote.net.channel import Channel


class ImapMailbox:
    """A mailbox that is logged in to."""

    def __init__(self, channel: Channel, words: frozenset[str], account: tuple[str, str]) -> None:
        """`words`: the server's capabilities after the login, in upper case; `account`: its name, and whose it is."""
        self.features, self.account = words, account
        #: Whether messages have labels, most folders only show these, and flags have them among them (X-GM-EXT-1).
        self.has_labels = values.GMAIL_EXTENSION in words
        self._wire = ImapWire(channel, has_labels=self.has_labels)
        self._selection = Selection(self._wire, words)
        self._folders = FolderLister(self._wire, words)
        self._news = FolderNewsReader(self._selection, self._folders, self.search_uids)
        self.capabilities: AccountCapabilities = detect_capabilities(self._selection, words)

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        *,
        ca_file: str,
        timeout: float,
        on_connected: Callable[[Callable[[], None]], None] | None = None,
        contact: Contact | None = None,
    ) -> "ImapMailbox":
        """Connect, secure as the endpoint says (never less), and log in. Raises RemoteFault.

        `contact` tells, afterwards, how far it got.

        `on_connected` is given, early, what cuts the connection from another thread: whoever waits on it then gets a
        RemoteFault.
        """
        with marking_faults(contact or Contact()) as known:
            sock = connect.open_connection(
                endpoint.host, endpoint.port, endpoint.security, timeout, server="imap", contact=known
            )
            return cls._log_in(Channel(sock, timeout, patient=True, contact=known), endpoint, ca_file, on_connected)

    @classmethod
    def _log_in(
        cls,
        channel: Channel,
        endpoint: Endpoint,
        ca_file: str,
        on_connected: Callable[[Callable[[], None]], None] | None,
    ) -> "ImapMailbox":
        try:
            if on_connected is not None:
                on_connected(channel.abort)
            return cls(channel, log_in(channel, endpoint, ca_file), (endpoint.host, endpoint.username))
        except BaseException:
            channel.close()
            raise

    def __enter__(self) -> "ImapMailbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- folders ---

    def list_folders(self) -> tuple[ListedFolder, ...]:
        """The folders that mail can lie in, with their attributes, special uses among them (RFC 6154)."""
        return self._folders.list()

    def list_folders_with_states(self) -> tuple[tuple[ListedFolder, ...], Mapping[str, FolderState]]:
        """The folders, and the position of each by its path; one whose position the server refuses has none.

        Nor has one that only shows a label.
        """
        return self._folders.list_with_states()

    def get_folder_state(self, path: str) -> FolderState:
        """The position of a folder, which need not be selected."""
        return self._folders.get_state(path)

    def examine(self, path: str) -> FolderState:
        """Examine a folder: it becomes the selected one, read-only."""
        return self._selection.examine(path).state

    def folder_news(self, path: str, since: FolderState | None, known: int) -> FolderChanges:
        """What happened in a folder since a position; afterwards it is selected. `known`: how many of it we have.

        By QRESYNC or CONDSTORE where they are offered. Else, and without a position or after UIDVALIDITY changed, all
        flags are returned, and `present` has all UIDs.
        """
        return self._news.news_since(path, since, known)

    def create_folder(self, path: str) -> None:
        """Make a folder, and subscribe to it so that other clients show it. One that is there already is fine."""
        self._folders.create(path)

    # --- reading; all of the selected folder ---

    def refresh(self) -> None:
        """Have the server tell what it has not told yet: until then messages that are gone may look as if they were
        there, with flags and header fields, but without a body (RFC 9051 6.1.2)."""
        self._wire.run_command("NOOP")

    def fetch_flags(self, uids: Sequence[int] | None = None) -> dict[int, frozenset[str]]:
        """UID to flags: of all messages, or of those of the given ones that are there."""
        return reading.fetch_flags(self._wire, uids)

    def search_uids(self) -> frozenset[int]:
        """The UIDs of all messages."""
        exists = self._selection.selected.state.exists
        return reading.search_uids(self._wire, exists, has_esearch="ESEARCH" in self.features)

    def fetch_headers(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """The header fields that a list shows as the source, in the order given, without messages that are gone."""
        return reading.fetch_headers(self._wire, uids)

    def fetch_outlines(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """Flags, internal date and size of messages, with nothing for their source, without messages that are gone."""
        return reading.fetch_outlines(self._wire, uids)

    def fetch_messages(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """The messages, in the order given, without those that are gone.

        They come in batches bounded by count and by bytes. One over LARGEST is cut to its first CUT_BYTES: then `size`
        is more than `source` has. One that the server cannot give is left out.
        """
        return reading.fetch_messages(self._wire, uids)

    def fetch_structure(self, uid: int) -> ListedPart:
        """The parts of a message, numbered for `read_section`. Raises RemoteFault (`refused`) when it is gone."""
        return reading.fetch_structure(self._wire, uid)

    def read_section(self, uid: int, section: str, offset: int, count: int) -> bytes:
        """Bytes of a section: all (``), `HEADER`, `1.2`, `1.2.MIME`; fewer than `count` at its end, none behind it."""
        return reading.read_section(self._wire, uid, section, offset, count)

    def read_ends(self, uid: int, wanted: Sequence[PartEnd]) -> Mapping[str, bytes]:
        """The ends of parts, by number, as far as the server gives them. Call `read_section` on the message first."""
        return reading.read_ends(self._wire, uid, wanted)

    # --- writing; what names a path selects it writable. A fault is `in_doubt` when something may have been done ---

    def append(
        self, path: str, source: bytes | Content, *, flags: frozenset[str], at: datetime, uidvalidity: int | None = None
    ) -> int | None:
        """Put a message into a folder; its UID there, where the server tells one that is of this UIDVALIDITY."""
        return writing.append_message(self._wire, path, Content(source), flags, at, uidvalidity)

    def search_message_id(self, path: str, message_id: str) -> tuple[int, ...]:
        """The UIDs in the folder whose Message-ID contains this text. The folder becomes the selected one."""
        self.examine(path)
        return reading.search_message_id(self._wire, message_id)

    def search_provider_id(self, path: str, provider_id: str) -> int | None:
        """The UID in the folder of the message with this `provider_id`, or None; where the server has labels."""
        self.examine(path)
        return reading.search_provider_id(self._wire, provider_id)

    def store_flags(self, path: str, uids: Sequence[int], *, add: frozenset[str], remove: frozenset[str]) -> None:
        """Add flags to messages of a folder, and take some away; labels too, where the server has these."""
        writing.store_flags(self._selection, path, uids, add, remove)

    def move(
        self, path: str, uids: Sequence[int], target: str, uidvalidity: int | None = None
    ) -> Mapping[int, int | None]:
        """Move messages to another folder; old UID to new, as far as the server tells. Raises Unmovable.

        `uidvalidity`: of the target as it is known; of what was moved under another one the new UID is None.
        """
        return writing.move_messages(self._selection, self.features, path, uids, target, uidvalidity)

    def expunge(self, path: str, uids: Sequence[int]) -> None:
        """Remove these messages for good; no others that are marked as deleted. Raises RemoteFault (`unsupported`)."""
        writing.expunge_messages(self._selection, self.features, path, uids)

    def identify(self, path: str, uids: Sequence[int]) -> tuple[FolderState, Mapping[int, MessageIdentity]]:
        """What lies under these UIDs now, without those that are gone, and the folder's position."""
        return writing.identify_messages(self._selection, path, uids)

    def permanent_flags(self, path: str) -> frozenset[str]:
        """The flags that can be changed for good in a folder; `\\*` among them when keywords may be made up."""
        permanent = self._selection.require_writable(path).permanent_flags
        return permanent | ANY_KEYWORD if self.has_labels else permanent

    # --- waiting ---

    @property
    def socket(self) -> Socket:
        """For a selector to watch; it does not show what is buffered: call `poll_idle` first."""
        return self._wire.channel.sock

    def begin_idle(self) -> bool:
        """Begin IDLE (RFC 2177) on the selected folder; True when something changed in it since it was examined."""
        return self._wire.begin_idle()

    def poll_idle(self) -> bool:
        """Take in what has arrived in IDLE, without waiting; True when something changed. RemoteFault at an end."""
        return self._wire.receive_available()

    @property
    def highest_exists(self) -> int:
        """The most messages that the folder has, by what the server said unasked since it was examined; 0: nothing."""
        return self._wire.highest_exists

    def end_idle(self) -> bool:
        """End IDLE; True when something changed since the folder was examined."""
        return self._wire.end_idle()

    def close(self) -> None:
        """Log out where the server listens, and close. Never raises."""
        try:
            self._wire.channel.shorten_timeout(2.0)
            self._wire.log_out()
        except (OSError, Exception):  # noqa: BLE001 - whatever it is, we are leaving
            pass
        finally:
            self._wire.channel.close()


# --- A large message, read without its attachments ---


_READ_PIECE = 1 << 20
_LONGEST_WHOLE_READ = 4 << 20
_MOST_FAILED_END_READS = 3
#: How often, one after the other, an account's server gave no ends: it refused, or the connection broke. Then it is
#: asked no more.
_failed_end_reads: Counter[tuple[str, str]] = Counter()


def _do_not_interrupt() -> None:
    """Nobody can stop it."""


def read_large(
    mailbox: ImapMailbox, uid: int, go_on: Callable[[], None] = _do_not_interrupt, reader: HtmlReader = TAG_READER
) -> ParsedMessage:
    """What a message of the selected folder says: its header, structure and texts are fetched. Raises RemoteFault.

    `go_on` is called between pieces; what it raises ends the reading, after which the connection is as good as before.
    """

    def section(number: str, longest: int) -> bytes:
        data = bytearray()
        while len(data) < longest:
            count = min(_READ_PIECE, longest - len(data))
            piece = mailbox.read_section(uid, number, len(data), count)
            data += piece
            if len(piece) < count:
                break
            go_on()
        return bytes(data)

    structure = mailbox.fetch_structure(uid)
    header = section("HEADER", MAX_HEADER)
    texts = {number: section(number, LONGEST_SECTION) for number in text_sections(structure)}
    parsed = parse_large(header, structure, texts, _decoded_sizes(mailbox, uid, structure), reader)
    if parsed.text or parsed.html or parsed.attachments:
        return parsed
    # Seen in practice: a boundary that is never there. The server sees no parts; our reader shows what there is.
    return parse_message(section("", _LONGEST_WHOLE_READ), reader)


def forget_failed_end_reads() -> None:
    """Ask every server again."""
    _failed_end_reads.clear()


def _decoded_sizes(mailbox: ImapMailbox, uid: int, structure: ListedPart) -> dict[str, int]:
    """How large parts are, decoded, as far as their ends tell; others are estimated."""
    wanted = {end.number: end for end in part_ends(structure)}
    if not wanted or _failed_end_reads[mailbox.account] >= _MOST_FAILED_END_READS:
        return {}
    try:
        tails = mailbox.read_ends(uid, tuple(wanted.values()))
    except RemoteFault:
        # The message is here all the same; a connection that has ended is noticed by whoever uses it next.
        _failed_end_reads[mailbox.account] += 1
        return {}
    _failed_end_reads.pop(mailbox.account, None)
    sizes = {number: size_by_end(wanted[number], tail) for number, tail in tails.items()}
    return {number: size for number, size in sizes.items() if size is not None}


# --- One message of a folder, found by its Message-ID: searched as text, and each find checked ---


def find_by_message_id(
    mailbox: ImapMailbox, folder: MirroredFolder, message_id: str, having: Collection[str] = ()
) -> FoundCopy | None:
    """The message with this Message-ID, the newest one where there are several; or None. Raises RemoteFault.

    `having`: it has one of these flags, or labels, as `mail.folder_roles` writes them.
    """
    uids = mailbox.search_message_id(folder.path, message_id)
    if not uids:
        return None
    state, sightings = mailbox.identify(folder.path, uids)
    # RFC 9051 6.4.4: the search is for a text within the field, which others may have as well.
    own = canonical_message_id(message_id)
    fitting = [each for each in sightings.values() if not having or not each.flags.isdisjoint(having)]
    uid = max((each.uid for each in fitting if each.message_id == own), default=None)
    return None if uid is None else _to_found(folder, state, sightings, uid)


def find_by_uid(mailbox: ImapMailbox, folder: MirroredFolder, uid: int) -> FoundCopy | None:
    """What lies under this UID; or None. Raises RemoteFault."""
    state, sightings = mailbox.identify(folder.path, [uid])
    return _to_found(folder, state, sightings, uid) if uid in sightings else None


def _to_found(
    folder: MirroredFolder, state: FolderState, sightings: Mapping[int, MessageIdentity], uid: int
) -> FoundCopy:
    is_known = folder.state is None or folder.state.uidvalidity == state.uidvalidity
    one = sightings[uid]
    return FoundCopy(folder, uid if is_known else None, one.size, one.internal_date, one)


# --- A new folder, where a server has those of a mailbox ---


def make_folder(mailbox: ImapMailbox, name: str) -> str:
    """Make a folder at the top, or below INBOX on servers that have all folders there; answers its path.

    Raises RemoteFault.
    """
    inbox = next((folder for folder in mailbox.list_folders() if folder.path == "INBOX"), None)
    below = f"{inbox.path}{inbox.delimiter}{name}" if inbox is not None and inbox.delimiter else name
    try:
        mailbox.create_folder(name)
    except RemoteFault as fault:
        if fault.kind != "refused" or below == name:
            raise
        mailbox.create_folder(below)
        return below
    return name
