"""Read and change a mailbox over IMAP (RFC 9051, RFC 3501), on one connection that one thread at a time uses.

Every failure is a RemoteFault. After a refusal (kind `refused`, `throttled` or `unsupported`) the connection can still
be used; after any other kind it cannot. Reading never changes a message: folders are opened with EXAMINE, bodies with
PEEK.
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
    """A mailbox over a connection that is signed in. Create it with `open`."""

    def __init__(self, channel: Channel, words: frozenset[str], account: tuple[str, str]) -> None:
        """Use a channel that is signed in. Use `open` to connect.

        `words`: the server's capabilities after the sign-in, in upper case. `account`: host and user name.
        """
        self.features, self.account = words, account
        #: Whether messages have labels (X-GM-EXT-1): they are kept among the flags, and most folders only show a label.
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
        """Connect with the security that the endpoint requires, and sign in. Raises RemoteFault.

        - ca_file: file with additional CAs; may be empty.
        - timeout: seconds for each response.
        - on_connected: called before the sign-in with a function that cuts the connection. Another thread may call that
          function; the thread that waits on the connection then gets a RemoteFault.
        - contact: records how far the attempt got.
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
        """Return the folders that can hold mail, with their attributes, including special uses (RFC 6154)."""
        return self._folders.list()

    def list_folders_with_states(self) -> tuple[tuple[ListedFolder, ...], Mapping[str, FolderState]]:
        """Return the folders, and by path the state of each: UIDVALIDITY, UIDNEXT, HIGHESTMODSEQ, number of messages.

        A folder has no state if the server refuses to report it, or if the folder only shows the messages with a label.
        """
        return self._folders.list_with_states()

    def get_folder_state(self, path: str) -> FolderState:
        """Return the state of a folder (STATUS). The selected folder does not change."""
        return self._folders.get_state(path)

    def examine(self, path: str) -> FolderState:
        """Select a folder read-only (EXAMINE), and return its state."""
        return self._selection.examine(path).state

    def folder_news(self, path: str, since: FolderState | None, known: int) -> FolderChanges:
        """Select a folder read-only, and return what changed in it.

        `since`: the folder's state at the last sync; None before. `known`: how many of its messages are stored.

        The server reports the changes if it offers QRESYNC or CONDSTORE. If it offers neither, `since` is None, or
        UIDVALIDITY changed, the result contains the flags of all messages, and in `present` their UIDs.
        """
        return self._news.news_since(path, since, known)

    def create_folder(self, path: str) -> None:
        """Create a folder and subscribe to it, so that other clients show it. An existing folder is not an error."""
        self._folders.create(path)

    # --- reading; always in the selected folder ---

    def refresh(self) -> None:
        """Make the server report pending changes (NOOP).

        Until then a removed message may seem to exist, with flags and header but no body (RFC 9051 6.1.2).
        """
        self._wire.run_command("NOOP")

    def fetch_flags(self, uids: Sequence[int] | None = None) -> dict[int, frozenset[str]]:
        """Return flags by UID, of all messages or of `uids`. UIDs that do not exist are left out."""
        return reading.fetch_flags(self._wire, uids)

    def search_uids(self) -> frozenset[int]:
        """Return the UIDs of all messages in the selected folder."""
        exists = self._selection.selected.state.exists
        return reading.search_uids(self._wire, exists, has_esearch="ESEARCH" in self.features)

    def fetch_headers(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """Yield messages in the order of `uids`; their source is some header fields (`reading.HEADER_FIELDS`).

        Messages that do not exist are left out.
        """
        return reading.fetch_headers(self._wire, uids)

    def fetch_outlines(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """Yield messages with flags, internal date and size, but an empty source: for unreadable headers.

        Messages that do not exist are left out.
        """
        return reading.fetch_outlines(self._wire, uids)

    def fetch_sizes(self, uids: Sequence[int]) -> dict[int, int]:
        """Return the size in bytes of each message by UID. Messages that do not exist or are refused are left out."""
        return reading.fetch_sizes(self._wire, uids)

    def fetch_messages(self, uids: Sequence[int], sizes: Mapping[int, int] | None = None) -> Iterator[FetchedMessage]:
        """Yield messages with their whole source, in the order of `uids`.

        They arrive in batches limited by count and bytes. Of a message over LARGEST_MESSAGE, only the first CUT_BYTES
        are returned; then `size` is larger than the source. What does not exist or is refused is left out.

        `sizes`: the sizes as the server reported them, which saves a request. Messages without a size are left out.
        """
        return reading.fetch_messages(self._wire, uids, sizes)

    def fetch_structure(self, uid: int) -> ListedPart:
        """Return the tree of parts of a message, with the part numbers for `read_section`.

        Raises RemoteFault (`refused`) if the message does not exist.
        """
        return reading.fetch_structure(self._wire, uid)

    def read_section(self, uid: int, section: str, offset: int, count: int) -> bytes:
        """Return `count` bytes of a section, beginning at `offset`; fewer at its end, none beyond it.

        `section`: `HEADER`, a part (`1.2`), the header of a part (`1.2.MIME`), or `` for the whole message. Raises
        RemoteFault (`refused`) if the message does not exist.
        """
        return reading.read_section(self._wire, uid, section, offset, count)

    def read_ends(self, uid: int, wanted: Sequence[PartEnd]) -> Mapping[str, bytes]:
        """Return the last bytes of parts by part number. Parts that the server does not return are left out.

        Call `read_section` first, which finds out whether the server returns ranges; if not, the result is empty.
        """
        return reading.read_ends(self._wire, uid, wanted)

    # --- writing; methods with a path select it for changes. A fault is `in_doubt` if something may have been done ---

    def append(
        self, path: str, source: bytes | Content, *, flags: frozenset[str], at: datetime, uidvalidity: int | None = None
    ) -> int | None:
        """Append a message to a folder. Returns its UID, or None if the server does not report it.

        `at`: the internal date. `uidvalidity`: the known UIDVALIDITY of the folder. If the server reports a different
        one, the result is None.
        """
        return writing.append_message(self._wire, path, Content(source), flags, at, uidvalidity)

    def search_message_id(self, path: str, message_id: str) -> tuple[int, ...]:
        """Select the folder read-only. Returns the UIDs whose Message-ID contains this text, ascending."""
        self.examine(path)
        return reading.search_message_id(self._wire, message_id)

    def search_provider_id(self, path: str, provider_id: str) -> int | None:
        """Select the folder read-only, and return the UID of the message with this X-GM-MSGID, or None.

        Only for servers with labels (X-GM-EXT-1).
        """
        self.examine(path)
        return reading.search_provider_id(self._wire, provider_id)

    def store_flags(self, path: str, uids: Sequence[int], *, add: frozenset[str], remove: frozenset[str]) -> None:
        """Add and remove flags of messages in a folder; on a server with labels (X-GM-EXT-1), also labels."""
        writing.store_flags(self._selection, path, uids, add, remove)

    def move(
        self, path: str, uids: Sequence[int], target: str, uidvalidity: int | None = None
    ) -> Mapping[int, int | None]:
        """Move messages to another folder. Returns their new UIDs by old UID, as far as the server reports them.

        `uidvalidity`: the known UIDVALIDITY of the target folder. If the server reports a different one, each new UID
        is None. Raises RemoteFault, and Unmovable if this server could not move them without removing others.
        """
        return writing.move_messages(self._selection, self.features, path, uids, target, uidvalidity)

    def expunge(self, path: str, uids: Sequence[int]) -> None:
        """Delete these messages permanently, but no others, even if these are marked as deleted.

        Raises RemoteFault, and Unmovable if the server would also remove others that are marked as deleted.
        """
        writing.expunge_messages(self._selection, self.features, path, uids)

    def identify(self, path: str, uids: Sequence[int]) -> tuple[FolderState, Mapping[int, MessageIdentity]]:
        """Select a folder for changes. Returns its state, and Message-ID, size, date and flags of messages by UID.

        UIDs that do not exist are left out.
        """
        return writing.identify_messages(self._selection, path, uids)

    def permanent_flags(self, path: str) -> frozenset[str]:
        """Select a folder for changes, and return the flags that can be changed in it permanently.

        `\\*` is among them if clients may create keywords.
        """
        permanent = self._selection.require_writable(path).permanent_flags
        return permanent | ANY_KEYWORD if self.has_labels else permanent

    # --- waiting ---

    @property
    def socket(self) -> Socket:
        """The socket, to wait until it is readable. Call `poll_idle` first, since data may already be in a buffer."""
        return self._wire.channel.sock

    def begin_idle(self) -> bool:
        """Start IDLE (RFC 2177). Returns whether the folder has changed since it was selected."""
        return self._wire.begin_idle()

    def poll_idle(self) -> bool:
        """Read the reports that have arrived during IDLE, without waiting. Returns whether the folder has changed.

        Raises RemoteFault if the connection ended.
        """
        return self._wire.receive_available()

    @property
    def highest_exists(self) -> int:
        """The largest number of messages that was reported unasked since the folder was selected; else 0."""
        return self._wire.highest_exists

    def end_idle(self) -> bool:
        """End IDLE. Returns whether the folder has changed since it was selected."""
        return self._wire.end_idle()

    def close(self) -> None:
        """Send LOGOUT if the connection still works, and close it. Never raises."""
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
#: By account: how often in a row its server did not return ends, because it refused or the connection broke. After some
#: failures it is not asked again.
_failed_end_reads: Counter[tuple[str, str]] = Counter()


def _do_not_interrupt() -> None:
    """Do nothing. The default for `go_on` of `read_large`."""


def read_large(
    mailbox: ImapMailbox, uid: int, go_on: Callable[[], None] = _do_not_interrupt, reader: HtmlReader = TAG_READER
) -> ParsedMessage:
    """Read and parse a large message of the selected folder without its attachments. Raises RemoteFault.

    `go_on`: called between pieces of up to 1 MiB. If it raises, reading ends with that exception, and the connection
    stays usable. `reader`: analyzes the HTML.
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
    # Seen in practice: a boundary that never occurs. The server sees no parts; our reader shows the text anyway.
    return parse_message(section("", _LONGEST_WHOLE_READ), reader)


def forget_failed_end_reads() -> None:
    """Forget which servers failed to return the ends of parts. Only for tests."""
    _failed_end_reads.clear()


def _decoded_sizes(mailbox: ImapMailbox, uid: int, structure: ListedPart) -> dict[str, int]:
    """Return the exact decoded sizes of parts by part number, computed from their last bytes.

    Parts whose last bytes the server does not return are missing; callers estimate their size.
    """
    wanted = {end.number: end for end in part_ends(structure)}
    if not wanted or _failed_end_reads[mailbox.account] >= _MOST_FAILED_END_READS:
        return {}
    try:
        tails = mailbox.read_ends(uid, tuple(wanted.values()))
    except RemoteFault:
        # The message is complete anyway; the next user of the connection notices that it ended.
        _failed_end_reads[mailbox.account] += 1
        return {}
    _failed_end_reads.pop(mailbox.account, None)
    sizes = {number: size_by_end(wanted[number], tail) for number, tail in tails.items()}
    return {number: size for number, size in sizes.items() if size is not None}


# --- One message of a folder, found by its Message-ID: a text search, with each result checked ---


def find_by_message_id(
    mailbox: ImapMailbox, folder: MirroredFolder, message_id: str, having: Collection[str] = ()
) -> FoundCopy | None:
    """Return the newest message of a folder with exactly this Message-ID, or None. Raises RemoteFault.

    `having`: if not empty, the message must have one of these flags or labels.
    """
    uids = mailbox.search_message_id(folder.path, message_id)
    if not uids:
        return None
    state, sightings = mailbox.identify(folder.path, uids)
    # RFC 9051 6.4.4: the search is for a text within the field, which other messages may contain too.
    own = canonical_message_id(message_id)
    fitting = [each for each in sightings.values() if not having or not each.flags.isdisjoint(having)]
    uid = max((each.uid for each in fitting if each.message_id == own), default=None)
    return None if uid is None else _to_found(folder, state, sightings, uid)


def find_by_uid(mailbox: ImapMailbox, folder: MirroredFolder, uid: int) -> FoundCopy | None:
    """Return the message of a folder with this UID, or None. Raises RemoteFault."""
    state, sightings = mailbox.identify(folder.path, [uid])
    return _to_found(folder, state, sightings, uid) if uid in sightings else None


def _to_found(
    folder: MirroredFolder, state: FolderState, sightings: Mapping[int, MessageIdentity], uid: int
) -> FoundCopy:
    is_known = folder.state is None or folder.state.uidvalidity == state.uidvalidity
    one = sightings[uid]
    return FoundCopy(folder, uid if is_known else None, one.size, one.internal_date, one)


# --- A new folder, created where the server keeps a mailbox's folders ---


def make_folder(mailbox: ImapMailbox, name: str) -> str:
    """Create a folder at the top level and return its path. Raises RemoteFault.

    If the server refuses that, create it below INBOX, because some servers keep all folders there.
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
