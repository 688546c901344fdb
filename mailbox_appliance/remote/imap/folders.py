"""Folders over IMAP: list them, select one, and read its changes since an earlier state (RFC 9051, RFC 7162).

The state of a folder is its UIDVALIDITY, UIDNEXT and HIGHESTMODSEQ, and the number of its messages (`FolderState`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from mailbox_appliance.model.accounts import AccountCapabilities
from mailbox_appliance.model.sync import FolderChanges, FolderState, ListedFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import reading, values
from mailbox_appliance.remote.imap.values import (
    MAX_FOLDERS,
    FlagCollector,
    account_capabilities,
    decode_folder_path,
    encode_folder_path,
    read_listed_folder,
    read_modseq,
    read_status,
    read_uid_set,
)
from mailbox_appliance.remote.imap.wire import ImapWire, Pieces, ResponseReader, Value

MAX_NAMESPACES = 10
_MOST_KNOWN = 1000  # lines

_NO_MAILBOX = frozenset({"\\noselect", "\\nonexistent"})  # RFC 9051 7.3.1: only a step on the way to others
_NAMESPACE = re.compile(rb"\* NAMESPACE ", re.I)


class FolderLister:
    """Lists and creates the folders of one mailbox over its connection."""

    def __init__(self, wire: ImapWire, words: Collection[str]) -> None:
        self._wire, self._words = wire, frozenset(words)
        self._items = "MESSAGES UIDNEXT UIDVALIDITY" + (
            " HIGHESTMODSEQ" if {"CONDSTORE", "QRESYNC"} & set(words) else ""
        )
        self._prefixes: tuple[str, ...] | None = None
        self._listed: dict[str, ListedFolder] = {}
        self._states: dict[str, FolderState] = {}
        #: The lines of this list and of the last one, and what was read from them: most are the same each time.
        self._read: dict[bytes, ListedFolder | tuple[str, FolderState]] = {}
        self._known: dict[bytes, ListedFolder | tuple[str, FolderState]] = {}

    def list(self) -> tuple[ListedFolder, ...]:
        """Return the folders that can hold mail, without duplicates. Those beyond MAX_FOLDERS are left out."""
        self._list_all(with_status=False)
        return self._take_results()[0]

    def list_with_states(self) -> tuple[tuple[ListedFolder, ...], Mapping[str, FolderState]]:
        """Return the folders, and states by path, as `ImapMailbox.list_folders_with_states`."""
        # There may be hundreds of folders that only show a label; their positions are not needed.
        has_list_status = {"LIST-EXTENDED", "LIST-STATUS"} <= self._words and not self._wire.has_labels
        self._list_all(with_status=has_list_status)
        folders, states = self._take_results()
        if not has_list_status:
            asked = ((folder.path, self._find_state(folder.path)) for folder in folders if folder.label is None)
            states = {path: state for path, state in asked if state is not None}
        return folders, states

    def get_state(self, path: str) -> FolderState:
        """Return the state of a folder (STATUS), which need not be selected. Raises RemoteFault."""
        self._wire.run_command(f"STATUS {encode_folder_path(path)} ({self._items})", self._collect)
        _, states = self._take_results()
        if path not in states:
            raise RemoteFault("imap", "refused", "The IMAP server did not report the state of this folder.")
        return states[path]

    def create(self, path: str) -> None:
        """Create a folder and subscribe to it. An existing folder is not an error."""
        try:
            self._wire.run_command(f"CREATE {encode_folder_path(path)}", changes=True)
        except RemoteFault as fault:
            if fault.code != "ALREADYEXISTS":  # RFC 5530
                raise
        self._wire.run_command(f"SUBSCRIBE {encode_folder_path(path)}")

    def _list_all(self, *, with_status: bool) -> None:
        self._listed, self._states = {}, {}
        self._known, self._read = self._read, {}
        # A plain LIST need not report them.
        options = ["SPECIAL-USE", "CHILDREN"] if "SPECIAL-USE" in self._words else []
        options += [f"STATUS ({self._items})"] if with_status else []
        returned = f" RETURN ({' '.join(options)})" if options and "LIST-EXTENDED" in self._words else ""
        self._wire.run_command(f'LIST "" "*"{returned}', self._collect)
        for prefix in self._personal_prefixes():
            if not any(path.startswith(prefix) for path in self._listed):
                self._wire.run_command(f'LIST "" {encode_folder_path(prefix + "*")}{returned}', self._collect)

    def _collect(self, pieces: Pieces) -> bool:
        found = self._known.get(pieces[0]) if len(pieces) == 1 else None
        found = found or read_listed_folder(pieces) or read_status(pieces)
        if found is None:
            return False
        if len(pieces) == 1 and len(self._read) < _MOST_KNOWN:
            self._read[pieces[0]] = found
        if isinstance(found, ListedFolder):
            if len(self._listed) < MAX_FOLDERS:
                self._listed[found.path] = found
        elif len(self._states) < MAX_FOLDERS:
            self._states[found[0]] = found[1]
        return True

    def _take_results(self) -> tuple[tuple[ListedFolder, ...], dict[str, FolderState]]:
        """Return the collected folders and their states by path, and start the next collection.

        Folders that cannot hold mail are left out.
        """
        folders = tuple(one for one in self._listed.values() if not one.attributes & _NO_MAILBOX)
        states, self._listed, self._states = self._states, {}, {}
        return tuple(map(values.with_label, folders)) if self._wire.has_labels else folders, states

    def _find_state(self, path: str) -> FolderState | None:
        try:
            return self.get_state(path)
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            return None  # just deleted, or not accessible

    def _personal_prefixes(self) -> tuple[str, ...]:
        """Return the path prefixes of the user's own folders, from NAMESPACE (RFC 2342), without the empty prefix.

        Folders of other users are not included.
        """
        if self._prefixes is None:
            found: list[str] = []

            def hear(pieces: Pieces) -> bool:
                begin = _NAMESPACE.match(pieces[0])
                found.extend(_namespace_prefixes(ResponseReader(pieces, begin.end()).read_value()) if begin else ())
                return bool(begin)

            if "NAMESPACE" in self._words:
                self._wire.run_command("NAMESPACE", hear)
            self._prefixes = tuple(found[:MAX_NAMESPACES])
        return self._prefixes


def _namespace_prefixes(personal: Value) -> Iterable[str]:
    for namespace in personal if isinstance(personal, list) else ():
        if not isinstance(namespace, list) or not namespace:
            raise ValueError("not a namespace")
        if prefix := decode_folder_path(namespace[0]):
            yield prefix


# --- The selected folder: SELECT and EXAMINE (RFC 9051 6.3.2), with CONDSTORE and QRESYNC (RFC 7162) ---


#: Among the flags that can be changed: clients may create keywords (RFC 9051 7.1).
ANY_KEYWORD = frozenset({"\\*"})
MOST_VANISHED = 100_000  # beyond that it is cheaper to request all UIDs

_EXISTS = re.compile(rb"\* (\d{1,10}) EXISTS", re.I)
_CODE = re.compile(rb"\* OK \[(UIDVALIDITY|UIDNEXT|HIGHESTMODSEQ) (\d{1,20})\]", re.I)
_FLAGS = re.compile(rb"\* (FLAGS|OK \[PERMANENTFLAGS) \(([^()]*)\)", re.I)
_CLOSED = re.compile(rb"\* OK \[CLOSED\]", re.I)
_EARLIER = re.compile(rb"\* VANISHED \(EARLIER\) ([\d:,]+) *", re.I)
_ENABLED = re.compile(rb"\* ENABLED\b(.*)", re.I)


@dataclass
class ChangeCollector:
    """Collects the changed flags and the removed messages that the server reports for a folder."""

    changed: FlagCollector = field(default_factory=FlagCollector)
    #: None: more than are listed. The UIDs that exist say the same.
    vanished: set[int] | None = field(default_factory=set)

    def collect(self, pieces: Pieces) -> bool:
        """Record an untagged response about a changed or removed message. Returns False for any other."""
        earlier = _EARLIER.fullmatch(pieces[0])
        if earlier and self.vanished is not None:
            # Seen in practice: 1:4294967295 for everything that a server no longer remembers.
            found = read_uid_set(earlier[1], MOST_VANISHED - len(self.vanished))
            if found is None:
                self.vanished = None
            else:
                self.vanished.update(found)
        return bool(earlier) or self.changed.collect(pieces)


@dataclass
class SelectedFolder:
    """The values that the server reported about the selected folder."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    flags: dict[bytes, frozenset[str]] = field(default_factory=dict)
    changes: ChangeCollector = field(default_factory=ChangeCollector)

    @property
    def state(self) -> FolderState:
        """The state of the folder. Missing values are 0; a missing HIGHESTMODSEQ is None (RFC 7162 3.1.2.2)."""
        uidvalidity, uidnext, exists = (self.numbers.get(key, 0) for key in (b"UIDVALIDITY", b"UIDNEXT", b"EXISTS"))
        return FolderState(uidvalidity, uidnext, exists, self.numbers.get(b"HIGHESTMODSEQ") or None)

    def update_state(self, state: FolderState) -> None:
        """Replace the state by a newer one that the server reported."""
        self.numbers |= {b"UIDVALIDITY": state.uidvalidity, b"UIDNEXT": state.uidnext, b"EXISTS": state.exists}
        self.numbers[b"HIGHESTMODSEQ"] = state.highestmodseq or 0

    @property
    def permanent_flags(self) -> frozenset[str]:
        """The flags that can be changed permanently, as the server reported them (PERMANENTFLAGS).

        If it reported none, all flags of the folder (FLAGS) count as permanent (RFC 3501 7.1).
        """
        return self.flags.get(b"OK [PERMANENTFLAGS", self.flags.get(b"FLAGS", frozenset()))

    def collect(self, pieces: Pieces) -> bool:
        """Record an untagged response about the folder. Returns False for any other response."""
        text = pieces[0]
        if exists := _EXISTS.fullmatch(text):
            self.numbers[b"EXISTS"] = int(exists[1])
        elif code := _CODE.match(text):
            self.numbers[code[1].upper()] = read_modseq(code[2])
        elif flags := _FLAGS.match(text):
            self.flags[flags[1].upper()] = frozenset(flags[2].decode("utf-8", "replace").split())
        else:
            return self.changes.collect(pieces)
        return True


class Selection:
    """Selects folders on a connection, and keeps what the server reported about the selected one."""

    def __init__(self, wire: ImapWire, words: Collection[str]) -> None:
        """Enable QRESYNC if the server offers it. Create this object before any folder is selected.

        `words`: the server's capabilities, in upper case.
        """
        self.wire = wire
        self.has_condstore = "CONDSTORE" in words or "QRESYNC" in words
        # QRESYNC reports changed flags without labels.
        self.has_qresync = "QRESYNC" in words and not wire.has_labels and _enable_qresync(wire)
        self.path: str | None = None
        self.is_writable = False
        self.selected = SelectedFolder()
        #: UIDs of messages that the server has shown on this connection since the folder was selected.
        self.shown_uids: frozenset[int] = frozenset()

    def examine(self, path: str, since: FolderState | None = None) -> SelectedFolder:
        """Select a folder read-only (EXAMINE). `since`: also collect its changes since this state (needs QRESYNC)."""
        parameter = " (CONDSTORE)" if self.has_condstore else ""
        if since is not None:  # RFC 7162 3.2.5
            parameter = f" (QRESYNC ({since.uidvalidity} {since.highestmodseq}))"
        return self._select("EXAMINE", path, parameter)[0]

    def is_examined(self, path: str) -> bool:
        """Whether the folder with this path is selected read-only now."""
        return self.path == path and not self.is_writable

    def select(self, path: str) -> SelectedFolder:
        """Select a folder for writing (SELECT). Raises RemoteFault (`refused`) if it can only be read."""
        parameter = " (CONDSTORE)" if self.has_condstore else ""
        opened, text = self._select("SELECT", path, parameter)
        if b"[READ-ONLY]" in text.upper():
            raise RemoteFault("imap", "refused", "The IMAP server allows only reading this folder.")
        self.is_writable = True
        return opened

    def require_writable(self, path: str, uids: Collection[int] = ()) -> SelectedFolder:
        """Select a folder for changes, unless it is selected for changes already.

        `uids`: the messages to change. If the server has not shown them yet, a NOOP comes first, because some servers
        ignore changes to such messages.
        """
        if self.path != path or not self.is_writable:
            return self.select(path)
        if not self.shown_uids.issuperset(uids):
            # Seen in practice: STORE ignores messages that arrived since, until the server may report them.
            self.wire.run_command("NOOP")
        return self.selected

    def _select(self, command: str, path: str, parameter: str) -> tuple[SelectedFolder, bytes]:
        self.path, self.is_writable, self.shown_uids = None, False, frozenset()
        opened = SelectedFolder()

        def hear(pieces: Pieces) -> bool:
            nonlocal opened
            # RFC 7162 3.2.11: earlier responses concern the folder that was selected before.
            if _CLOSED.match(pieces[0]):
                opened = SelectedFolder()
                return True
            return opened.collect(pieces)

        text = self.wire.run_command(f"{command} {encode_folder_path(path)}{parameter}", hear)
        self.path = path
        self.wire.forget_changes()
        self.selected = SelectedFolder(opened.numbers, opened.flags)  # the changes of a large folder are not kept
        return opened, text


def detect_capabilities(selection: Selection, words: Collection[str]) -> AccountCapabilities:
    """Return the capabilities of the server, including whether messages can have labels.

    Messages can have labels if clients may create keywords, or at Gmail (X-GM-EXT-1). Only a folder that is selected
    for changes shows whether keywords can be created, so this selects INBOX, except at Gmail.
    """
    if selection.wire.has_labels:
        return account_capabilities(words, ANY_KEYWORD)
    try:
        permanent = selection.select("INBOX").permanent_flags
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
        permanent = frozenset()
    return account_capabilities(words, permanent)


def _enable_qresync(wire: ImapWire) -> bool:
    enabled = bytearray()

    def hear(pieces: Pieces) -> bool:
        found = _ENABLED.match(pieces[0])
        enabled.extend(found[1].upper() if found else b"")
        return bool(found)

    try:
        wire.run_command("ENABLE QRESYNC", hear)  # RFC 5161
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
    return b"QRESYNC" in enabled.split()


# --- The changes in a folder since a position ---
#
# By the best method of the server: QRESYNC or CONDSTORE (RFC 7162), or comparing everything.


class FolderNewsReader:
    """Reads what changed in folders since an earlier state, over one connection."""

    def __init__(self, selection: Selection, folders: FolderLister, uids: Callable[[], frozenset[int]]) -> None:
        """`uids`: a function that returns all UIDs of the selected folder."""
        self._selection, self._folders, self._uids = selection, folders, uids

    def news_since(self, path: str, since: FolderState | None, known: int) -> FolderChanges:
        """Select a folder read-only, and return what changed in it, as `ImapMailbox.folder_news`."""
        if since is None or since.highestmodseq is None or not self._selection.has_condstore:
            return self._news_of_everything(self._selection.examine(path).state)
        if not self._selection.has_qresync:
            news = self._news_by_comparing(self._selection.examine(path).state, since, known)
        elif (news := self._news_of_selected(path, since, known)) is None:
            opened = self._selection.examine(path, since)
            news = self._news_of_changes(opened.state, opened.changes, since, known)
        return news or self._news_of_everything(self._selection.selected.state)

    def _news_of_selected(self, path: str, since: FolderState, known: int) -> FolderChanges | None:
        """Return the changes in the folder `path` since the state `since`, if it is selected already.

        Returns None if another folder is selected, or if the server cannot report the changes. `known`: how many of the
        folder's messages are stored. This saves a new selection, which takes the server a second for a large folder.
        """
        if not self._selection.is_examined(path):
            return None
        wire = self._selection.wire
        wire.run_command("NOOP")
        wire.forget_changes()  # Changes reported from here on may be missing in the position.
        state = self._folders.get_state(path)
        if not _can_continue(state, since):
            return None
        self._selection.selected.update_state(state)
        changes = ChangeCollector()
        if state.exists and (state != since or state.exists != known):
            modifiers = f"(CHANGEDSINCE {since.highestmodseq} VANISHED)"  # RFC 7162 3.2.6
            wire.run_command(f"UID FETCH 1:* (UID FLAGS) {modifiers}", changes.collect)
        return self._news_of_changes(state, changes, since, known)

    def _news_of_changes(
        self, state: FolderState, changes: ChangeCollector, since: FolderState, known: int
    ) -> FolderChanges | None:
        if not _can_continue(state, since):
            return None
        changed, vanished = changes.changed.found, changes.vanished
        arrived = sum(uid >= since.uidnext for uid in changed)
        # The server may report vanished messages that were never stored, but it never omits any.
        if vanished is None or not known + arrived - len(vanished) <= state.exists <= known + arrived:
            return FolderChanges(state, changed, present=self._uids())
        return FolderChanges(state, changed, frozenset(vanished))

    def _news_by_comparing(self, state: FolderState, since: FolderState, known: int) -> FolderChanges | None:
        if not _can_continue(state, since):
            return None
        changed = {}
        if state.exists and state.highestmodseq != since.highestmodseq:
            changed = reading.fetch_flags(self._selection.wire, None, since.highestmodseq)
        arrived = sum(uid >= since.uidnext for uid in changed)
        # Every missing message has vanished: CONDSTORE alone does not report which.
        return FolderChanges(state, changed, present=None if known + arrived == state.exists else self._uids())

    def _news_of_everything(self, state: FolderState) -> FolderChanges:
        changed = reading.fetch_flags(self._selection.wire, None) if state.exists else {}
        return FolderChanges(state, changed, present=frozenset(changed))


def _can_continue(state: FolderState, since: FolderState) -> bool:
    """Whether the server can report the changes from the earlier state `since` up to `state`.

    It cannot if UIDVALIDITY changed. It cannot either if HIGHESTMODSEQ or UIDNEXT decreased, because the server was
    restored from a backup.
    """
    if state.uidvalidity != since.uidvalidity or state.highestmodseq is None:
        return False
    is_back = state.highestmodseq < (since.highestmodseq or 0) or 0 < state.uidnext < since.uidnext
    return not is_back
