"""The selected folder of a connection: SELECT and EXAMINE (RFC 9051 6.3.2), with CONDSTORE and QRESYNC (RFC 7162)."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from mailbox_appliance.model.records import AccountCapabilities, FolderState
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_fetch import FlagAnswers
from mailbox_appliance.remote.imap_values import capabilities, modseq, read_uid_set, wire_path
from mailbox_appliance.remote.imap_wire import Pieces, Wire

#: That keywords may be made up, among the flags that can be changed (RFC 9051 7.1).
ANY_KEYWORD = frozenset({"\\*"})
MOST_VANISHED = 100_000  # beyond that it costs less to ask what is there

_EXISTS = re.compile(rb"\* (\d{1,10}) EXISTS", re.I)
_CODE = re.compile(rb"\* OK \[(UIDVALIDITY|UIDNEXT|HIGHESTMODSEQ) (\d{1,20})\]", re.I)
_FLAGS = re.compile(rb"\* (FLAGS|OK \[PERMANENTFLAGS) \(([^()]*)\)", re.I)
_CLOSED = re.compile(rb"\* OK \[CLOSED\]", re.I)
_EARLIER = re.compile(rb"\* VANISHED \(EARLIER\) ([\d:,]+) *", re.I)
_ENABLED = re.compile(rb"\* ENABLED\b(.*)", re.I)


@dataclass
class Changes:
    """What the server tells of messages that changed or vanished."""

    changed: FlagAnswers = field(default_factory=FlagAnswers)
    #: None: more of them than we list. What is there tells as much.
    vanished: set[int] | None = field(default_factory=set)

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in; says whether it was asked for."""
        earlier = _EARLIER.fullmatch(pieces[0])
        if earlier and self.vanished is not None:
            # Seen in practice: 1:4294967295, all that a server no longer remembers.
            found = read_uid_set(earlier[1], MOST_VANISHED - len(self.vanished))
            if found is None:
                self.vanished = None
            else:
                self.vanished.update(found)
        return bool(earlier) or self.changed.collect(pieces)


@dataclass
class Opened:
    """What the server told while a folder was selected."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    flags: dict[bytes, frozenset[str]] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)

    @property
    def state(self) -> FolderState:
        """A value that the server leaves out is 0; without a HIGHESTMODSEQ it keeps none (RFC 7162 3.1.2.2)."""
        uidvalidity, uidnext, exists = (self.numbers.get(key, 0) for key in (b"UIDVALIDITY", b"UIDNEXT", b"EXISTS"))
        return FolderState(uidvalidity, uidnext, exists, self.numbers.get(b"HIGHESTMODSEQ") or None)

    def update_state(self, state: FolderState) -> None:
        """Take over what was told of the folder later."""
        self.numbers |= {b"UIDVALIDITY": state.uidvalidity, b"UIDNEXT": state.uidnext, b"EXISTS": state.exists}
        self.numbers[b"HIGHESTMODSEQ"] = state.highestmodseq or 0

    @property
    def permanent_flags(self) -> frozenset[str]:
        """The flags that can be changed for good; where the server does not tell, all that there are (RFC 3501 7.1)."""
        return self.flags.get(b"OK [PERMANENTFLAGS", self.flags.get(b"FLAGS", frozenset()))

    def collect(self, pieces: Pieces) -> bool:
        """Take an untagged answer in."""
        text = pieces[0]
        if exists := _EXISTS.fullmatch(text):
            self.numbers[b"EXISTS"] = int(exists[1])
        elif code := _CODE.match(text):
            self.numbers[code[1].upper()] = modseq(code[2])
        elif flags := _FLAGS.match(text):
            self.flags[flags[1].upper()] = frozenset(flags[2].decode("utf-8", "replace").split())
        else:
            return self.changes.collect(pieces)
        return True


class Selection:
    """Which folder is selected on a connection, and what the server told of it then."""

    def __init__(self, wire: Wire, words: Collection[str]) -> None:
        """`words`: the server's capabilities. QRESYNC is enabled, which must be done before any folder is selected."""
        self.wire = wire
        self.has_condstore = "CONDSTORE" in words or "QRESYNC" in words
        # QRESYNC tells changed flags without labels.
        self.has_qresync = "QRESYNC" in words and not wire.has_labels and _enable_qresync(wire)
        self.path: str | None = None
        self.is_writable = False
        self.selected = Opened()
        #: UIDs of messages that the server has shown on this connection since the folder was selected.
        self.shown_uids: frozenset[int] = frozenset()

    def examine(self, path: str, since: FolderState | None = None) -> Opened:
        """Select a folder, read-only; with `since` also hear what happened since then (needs QRESYNC)."""
        parameter = " (CONDSTORE)" if self.has_condstore else ""
        if since is not None:  # RFC 7162 3.2.5
            parameter = f" (QRESYNC ({since.uidvalidity} {since.highestmodseq}))"
        return self._select("EXAMINE", path, parameter)[0]

    def is_examined(self, path: str) -> bool:
        """Whether this folder is the selected one, read-only."""
        return self.path == path and not self.is_writable

    def select(self, path: str) -> Opened:
        """Select a folder to change something in it. Raises RemoteFault (`refused`) when we may only read it."""
        parameter = " (CONDSTORE)" if self.has_condstore else ""
        opened, text = self._select("SELECT", path, parameter)
        if b"[READ-ONLY]" in text.upper():
            raise RemoteFault("imap", "refused", "The IMAP server lets this folder be read only.")
        self.is_writable = True
        return opened

    def require_writable(self, path: str, uids: Collection[int] = ()) -> Opened:
        """As `select`, where the folder is not selected so already. Messages with these UIDs can be changed then."""
        if self.path != path or not self.is_writable:
            return self.select(path)
        if not self.shown_uids.issuperset(uids):
            # Seen in practice: STORE is silent about messages that came since, until the server may tell of them.
            self.wire.run_command("NOOP")
        return self.selected

    def _select(self, command: str, path: str, parameter: str) -> tuple[Opened, bytes]:
        self.path, self.is_writable, self.shown_uids = None, False, frozenset()
        opened = Opened()

        def hear(pieces: Pieces) -> bool:
            nonlocal opened
            if _CLOSED.match(pieces[0]):  # RFC 7162 3.2.11: what came before was of the folder selected until now
                opened = Opened()
                return True
            return opened.collect(pieces)

        text = self.wire.run_command(f"{command} {wire_path(path)}{parameter}", hear)
        self.path = path
        self.wire.forget_changes()
        self.selected = Opened(opened.numbers, opened.flags)  # the changes of a large folder are not kept
        return opened, text


def first_look(selection: Selection, words: Collection[str]) -> AccountCapabilities:
    """What the server can do. Whether there are labels only a writable selection tells: that of the inbox, for all."""
    if selection.wire.has_labels:
        return capabilities(words, ANY_KEYWORD)
    try:
        permanent = selection.select("INBOX").permanent_flags
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
        permanent = frozenset()
    return capabilities(words, permanent)


def _enable_qresync(wire: Wire) -> bool:
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
