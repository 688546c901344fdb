"""The folders of a mailbox (RFC 9051 6.3.9), with their positions in the same answer where LIST-STATUS is offered."""

import re
from collections.abc import Collection, Iterable, Mapping

from mailbox_appliance.model.records import FolderState, ListedFolder
from mailbox_appliance.remote import gmail
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_lexer import Reader, Value
from mailbox_appliance.remote.imap_values import MAX_FOLDERS, folder_path, listed_folder, status, wire_path
from mailbox_appliance.remote.imap_wire import Pieces, Wire

MAX_NAMESPACES = 10

_NO_MAILBOX = frozenset({"\\noselect", "\\nonexistent"})  # RFC 9051 7.3.1: only a step on the way to others
_NAMESPACE = re.compile(rb"\* NAMESPACE ", re.I)


class Folders:
    """Lists the folders of one mailbox."""

    def __init__(self, wire: Wire, words: Collection[str]) -> None:
        self._wire, self._words = wire, frozenset(words)
        self._items = "MESSAGES UIDNEXT UIDVALIDITY" + (
            " HIGHESTMODSEQ" if {"CONDSTORE", "QRESYNC"} & set(words) else ""
        )
        self._prefixes: tuple[str, ...] | None = None
        self._listed: dict[str, ListedFolder] = {}
        self._states: dict[str, FolderState] = {}

    def list(self) -> tuple[ListedFolder, ...]:
        """The folders that mail can lie in, each once, MAX_FOLDERS at most."""
        self._list_all(with_status=False)
        return self._take_results()[0]

    def list_with_states(self) -> tuple[tuple[ListedFolder, ...], Mapping[str, FolderState]]:
        """The folders, and the position of each that the server tells it of, and in which messages lie."""
        # There may be hundreds of folders that only show a label, whose positions nobody asks for.
        has_list_status = {"LIST-EXTENDED", "LIST-STATUS"} <= self._words and not self._wire.has_labels
        self._list_all(with_status=has_list_status)
        folders, states = self._take_results()
        if not has_list_status:
            asked = ((folder.path, self._find_state(folder.path)) for folder in folders if folder.label is None)
            states = {path: state for path, state in asked if state is not None}
        return folders, states

    def get_state(self, path: str) -> FolderState:
        """The position of a folder that need not be selected. Raises RemoteFault."""
        self._wire.run_command(f"STATUS {wire_path(path)} ({self._items})", self._collect)
        _, states = self._take_results()
        if path not in states:
            raise RemoteFault("imap", "refused", "The IMAP server does not tell the state of this folder.")
        return states[path]

    def create(self, path: str) -> None:
        """Make a folder and subscribe to it; one that is there already is fine."""
        try:
            self._wire.run_command(f"CREATE {wire_path(path)}", changes=True)
        except RemoteFault as fault:
            if fault.code != "ALREADYEXISTS":  # RFC 5530
                raise
        self._wire.run_command(f"SUBSCRIBE {wire_path(path)}")

    def _list_all(self, *, with_status: bool) -> None:
        self._listed, self._states = {}, {}
        options = ["SPECIAL-USE", "CHILDREN"] if "SPECIAL-USE" in self._words else []  # a plain LIST need not tell them
        options += [f"STATUS ({self._items})"] if with_status else []
        returned = f" RETURN ({' '.join(options)})" if options and "LIST-EXTENDED" in self._words else ""
        self._wire.run_command(f'LIST "" "*"{returned}', self._collect)
        for prefix in self._personal_prefixes():
            if not any(path.startswith(prefix) for path in self._listed):
                self._wire.run_command(f'LIST "" {wire_path(prefix + "*")}{returned}', self._collect)

    def _collect(self, pieces: Pieces) -> bool:
        if folder := listed_folder(pieces):
            if len(self._listed) < MAX_FOLDERS:
                self._listed[folder.path] = folder
        elif told := status(pieces):
            if len(self._states) < MAX_FOLDERS:
                self._states[told[0]] = told[1]
        else:
            return False
        return True

    def _take_results(self) -> tuple[tuple[ListedFolder, ...], dict[str, FolderState]]:
        """What was heard; nothing of it is kept."""
        folders = tuple(one for one in self._listed.values() if not one.attributes & _NO_MAILBOX)
        states, self._listed, self._states = self._states, {}, {}
        return tuple(map(gmail.with_label, folders)) if self._wire.has_labels else folders, states

    def _find_state(self, path: str) -> FolderState | None:
        try:
            return self.get_state(path)
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            return None  # just deleted, or closed to us

    def _personal_prefixes(self) -> tuple[str, ...]:
        """Where the user's own folders lie besides the top (RFC 2342). Those of others are no part of this mailbox."""
        if self._prefixes is None:
            found: list[str] = []

            def hear(pieces: Pieces) -> bool:
                begin = _NAMESPACE.match(pieces[0])
                found.extend(_prefixes(Reader(pieces, begin.end()).read_value()) if begin else ())
                return bool(begin)

            if "NAMESPACE" in self._words:
                self._wire.run_command("NAMESPACE", hear)
            self._prefixes = tuple(found[:MAX_NAMESPACES])
        return self._prefixes


def _prefixes(personal: Value) -> Iterable[str]:
    for namespace in personal if isinstance(personal, list) else ():
        if not isinstance(namespace, list) or not namespace:
            raise ValueError("not a namespace")
        if prefix := folder_path(namespace[0]):
            yield prefix
