"""What happened in a folder since a position, by the best way that the server has: QRESYNC or CONDSTORE (RFC 7162), or
comparing everything."""

from collections.abc import Callable

from mailbox_appliance.model.records import FolderChanges, FolderState
from mailbox_appliance.remote import imap_reading
from mailbox_appliance.remote.imap_folders import Folders
from mailbox_appliance.remote.imap_selection import Changes, Selection


class News:
    """Asks for news over one connection."""

    def __init__(self, selection: Selection, folders: Folders, uids: Callable[[], frozenset[int]]) -> None:
        """`uids` asks for all UIDs of the selected folder."""
        self._selection, self._folders, self._uids = selection, folders, uids

    def news_since(self, path: str, since: FolderState | None, known: int) -> FolderChanges:
        """What changed and vanished in a folder since then; it is selected afterwards. `known`: how many we have of it.

        Without a position, or with one that the server cannot go on from, everything is told: `present` is not None.
        """
        if since is None or since.highestmodseq is None or not self._selection.has_condstore:
            return self._news_of_everything(self._selection.examine(path).state)
        if not self._selection.has_qresync:
            news = self._news_by_comparing(self._selection.examine(path).state, since, known)
        elif (news := self._news_of_selected(path, since, known)) is None:
            opened = self._selection.examine(path, since)
            news = self._news_of_changes(opened.state, opened.changes, since, known)
        return news or self._news_of_everything(self._selection.selected.state)

    def _news_of_selected(self, path: str, since: FolderState, known: int) -> FolderChanges | None:
        """In a folder that is still selected. Seen in practice: to open a large one again costs the server a second."""
        if not self._selection.is_examined(path):
            return None
        wire = self._selection.wire
        wire.run_command("NOOP")
        wire.forget_changes()  # what is told from here on may be missing in the state
        state = self._folders.get_state(path)
        if not _goes_on(state, since):
            return None
        self._selection.selected.update_state(state)
        changes = Changes()
        if state.exists and (state != since or state.exists != known):
            modifiers = f"(CHANGEDSINCE {since.highestmodseq} VANISHED)"  # RFC 7162 3.2.6
            wire.run_command(f"UID FETCH 1:* (UID FLAGS) {modifiers}", changes.collect)
        return self._news_of_changes(state, changes, since, known)

    def _news_of_changes(
        self, state: FolderState, changes: Changes, since: FolderState, known: int
    ) -> FolderChanges | None:
        if not _goes_on(state, since):
            return None
        changed, vanished = changes.changed.found, changes.vanished
        arrived = sum(uid >= since.uidnext for uid in changed)
        # We may have been told of some vanished ones that we never knew, but never of too few.
        if vanished is None or not known + arrived - len(vanished) <= state.exists <= known + arrived:
            return FolderChanges(state, changed, present=self._uids())
        return FolderChanges(state, changed, frozenset(vanished))

    def _news_by_comparing(self, state: FolderState, since: FolderState, known: int) -> FolderChanges | None:
        if not _goes_on(state, since):
            return None
        changed = {}
        if state.exists and state.highestmodseq != since.highestmodseq:
            changed = imap_reading.flags(self._selection.wire, None, since.highestmodseq)
        arrived = sum(uid >= since.uidnext for uid in changed)
        # All that is missing has vanished: CONDSTORE alone does not tell which.
        return FolderChanges(state, changed, present=None if known + arrived == state.exists else self._uids())

    def _news_of_everything(self, state: FolderState) -> FolderChanges:
        changed = imap_reading.flags(self._selection.wire, None) if state.exists else {}
        return FolderChanges(state, changed, present=frozenset(changed))


def _goes_on(state: FolderState, since: FolderState) -> bool:
    """Whether what happened since can be told. On a server that was restored from a copy, positions go back."""
    if state.uidvalidity != since.uidvalidity or state.highestmodseq is None:
        return False
    is_back = state.highestmodseq < (since.highestmodseq or 0) or 0 < state.uidnext < since.uidnext
    return not is_back
