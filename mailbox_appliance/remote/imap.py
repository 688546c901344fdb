"""A mailbox over IMAP (RFC 9051, RFC 3501): one connection, used by one thread at a time.

Everything that goes wrong is a RemoteFault; after `timeout`, `disconnected` or `malformed` the connection is of no use.
Reading never changes a message: folders are examined, bodies are peeked at.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from imapclient.exceptions import IMAPClientError

from mailbox_appliance.records import AccountCapabilities, Endpoint, FetchedMessage, FolderState, ListedFolder
from mailbox_appliance.remote import addresses, imap_idle, imap_values
from mailbox_appliance.remote.channel import Channel
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_protocol import Client, refusal, speaking
from mailbox_appliance.remote.imap_session import open_client

BATCH_COUNT = 50
BATCH_BYTES = 8 << 20
#: A larger message is given cut: its source holds the first CUT_BYTES, while its size is the true one.
LARGEST = 64 << 20
CUT_BYTES = 1 << 20

_ITEMS = "(UID FLAGS INTERNALDATE RFC822.SIZE {body})"


_NO_MAILBOX = frozenset({"\\noselect", "\\nonexistent"})  # RFC 9051 7.3.1: only a step on the way to others


class ImapMailbox:
    """A mailbox that is logged in to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._protocol = client.protocol
        with speaking():
            self._words = tuple(client.capabilities())
            self.capabilities: AccountCapabilities = imap_values.capabilities(self._words, self._permanent_flags())

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        *,
        ca_file: str,
        timeout: float,
        on_connected: Callable[[Callable[[], None]], None] | None = None,
    ) -> "ImapMailbox":
        """Connect, secure as the endpoint says (never less), and log in. Raises RemoteFault.

        `on_connected` is given, early, what cuts the connection from another thread: whoever waits on it then gets a
        RemoteFault.
        """
        sock = addresses.connect(endpoint.host, endpoint.port, endpoint.security, timeout, server="imap")
        channel = Channel(sock, timeout, patient=True)
        try:
            if on_connected is not None:
                on_connected(channel.cut)
            return cls(open_client(channel, endpoint, ca_file))
        except BaseException:
            channel.close()
            raise

    def __enter__(self) -> "ImapMailbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def list_folders(self) -> tuple[ListedFolder, ...]:
        """The folders that mail can lie in, with their attributes, special uses among them (RFC 6154)."""
        asked = '"*"'
        if b"SPECIAL-USE" in self._words and b"LIST-EXTENDED" in self._words:
            asked += " RETURN (SPECIAL-USE CHILDREN)"  # a plain LIST need not tell special uses
        with speaking():
            listed = imap_values.folders(_ok(*self._protocol.list('""', asked)))
        return tuple(folder for folder in listed if not folder.attributes & _NO_MAILBOX)

    def select(self, path: str) -> FolderState:
        """Examine a folder: it becomes the selected one, read-only."""
        with speaking():
            condstore = " (CONDSTORE)" if self.capabilities.condstore else ""
            _ok(*self._protocol.select(imap_values.wire_path(path) + condstore, readonly=True))
            return imap_values.folder_state(self._protocol.untagged_responses)

    def flags(self, uids: Sequence[int] | None = None) -> dict[int, frozenset[str]]:
        """UID to flags of the selected folder: of all messages, or of those that are there of the given ones."""
        found: dict[int, frozenset[str]] = {}
        for numbers in ["1:*"] if uids is None else imap_values.uid_sets(uids):
            with speaking():
                found.update(imap_values.flags(self._fetch(numbers, "(UID FLAGS)")))
        return found

    def fetch(self, uids: Sequence[int]) -> Iterator[FetchedMessage]:
        """The messages of the selected folder, in the order given, without those that are gone.

        They come in batches bounded by count and by bytes. One over LARGEST is cut to its first CUT_BYTES: then `size`
        is more than `source` has. One that the server cannot give is left out.
        """
        for start in range(0, len(uids), 500):
            some = uids[start : start + 500]
            with speaking():
                sizes: dict[int, int] = {}
                for numbers in imap_values.uid_sets(some):
                    sizes.update(imap_values.sizes(self._fetch(numbers, "(UID RFC822.SIZE)")))
            for batch in _batches([uid for uid in some if uid in sizes], sizes):
                yield from self._fetch_batch(batch, cut=sizes[batch[0]] > LARGEST)

    def append(self, path: str, source: bytes, *, flags: frozenset[str], at: datetime) -> int | None:
        """Put a message into a folder; its UID there, where the server tells it."""
        with speaking():
            return imap_values.appended_uid(self._client.append(path, source, sorted(flags), at))

    def find(self, path: str, message_id: str) -> tuple[int, ...]:
        """The UIDs in the folder whose Message-ID contains this text. The folder becomes the selected one."""
        self.select(path)
        with speaking():
            return tuple(self._client.search(["HEADER", "Message-ID", message_id]))

    def create(self, path: str) -> None:
        """Make a folder, and subscribe to it so that other clients show it. One that is there already is fine."""
        with speaking():
            try:
                self._client.create_folder(path)
            except IMAPClientError as error:
                if "ALREADYEXISTS" not in str(error):
                    raise
            self._protocol.subscribe(imap_values.wire_path(path))

    def add_flags(self, path: str, uids: Sequence[int], flags: frozenset[str]) -> None:
        """Add flags to messages of a folder, which becomes the selected one, writable."""
        with speaking():
            _ok(*self._protocol.select(imap_values.wire_path(path)))
            for numbers in imap_values.uid_sets(uids):
                _ok(*self._protocol.uid("STORE", numbers, "+FLAGS.SILENT", f"({' '.join(sorted(flags))})"))

    def idle(self, timeout: float, wake: socket.socket | None = None) -> bool:
        """Wait in IDLE (RFC 2177) on the selected folder; True when something changed in it.

        Ends after `timeout` seconds, or early when `wake` becomes readable. A connection that ended is a RemoteFault.
        """
        with speaking():
            return imap_idle.wait(self._protocol, timeout, wake)

    def close(self) -> None:
        """Log out where the server listens, and close. Never raises."""
        try:
            self._protocol.channel.shorten(2.0)
            self._protocol.logout()
        except (OSError, Exception):  # noqa: BLE001 - whatever it is, we are leaving
            pass
        finally:
            self._protocol.channel.close()

    def _permanent_flags(self) -> bytes:
        """Those of the inbox, which only a writable selection tells."""
        typ, _ = self._protocol.select('"INBOX"')
        told = self._protocol.untagged_responses.get("PERMANENTFLAGS") if typ == "OK" else None
        return told[-1] if told and isinstance(told[-1], bytes) else b""

    def _fetch(self, numbers: str, items: str) -> list[Any]:
        self._protocol.response("FETCH")  # what came unasked before is not the answer
        return _ok(*self._protocol.uid("FETCH", numbers, items))

    def _fetch_batch(self, uids: Sequence[int], *, cut: bool) -> Iterator[FetchedMessage]:
        items = _ITEMS.format(body=f"BODY.PEEK[]<0.{CUT_BYTES}>" if cut else "BODY.PEEK[]")
        try:
            with speaking():
                data = self._fetch(",".join(imap_values.uid_sets(uids)), items)
                found = tuple(imap_values.messages(data, uids))
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            # Seen in practice: one message that the server cannot read fails the whole FETCH.
            for uid in uids if len(uids) > 1 else ():
                yield from self._fetch_batch([uid], cut=cut)
            return
        yield from found


def _ok(typ: str, data: Any) -> list[Any]:
    """The data of a command that succeeded. Raises RemoteFault."""
    if typ != "OK":
        raise refusal(Exception(data))
    return list(data)


def _batches(uids: Sequence[int], sizes: dict[int, int]) -> Iterator[Sequence[int]]:
    """The UIDs in order, in groups bounded by count and bytes; one that is to be cut stands alone."""
    batch: list[int] = []
    weight = 0
    for uid in uids:
        if batch and (len(batch) == BATCH_COUNT or weight + sizes[uid] > BATCH_BYTES):
            yield batch
            batch, weight = [], 0
        batch.append(uid)
        weight += sizes[uid]
    if batch:
        yield batch
