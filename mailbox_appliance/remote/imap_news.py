"""What happened in a folder since a position, by the best way that the server has: QRESYNC or CONDSTORE (RFC 7162), or
comparing everything."""

from collections.abc import Callable

from mailbox_appliance.records import FolderNews, FolderState
from mailbox_appliance.remote import imap_reading
from mailbox_appliance.remote.imap_selection import Selection

Uids = Callable[[], frozenset[int]]


def news(selection: Selection, path: str, since: FolderState | None, known: int, uids: Uids) -> FolderNews:
    """Examine the folder; what changed and vanished since then. `known`: how many messages of it we have.

    Without a position, or with one that the server cannot go on from, everything is told: then `present` is not None.
    `uids` asks for all UIDs of the selected folder.
    """
    if since is None or since.highestmodseq is None or not selection.has_condstore:
        return _everything(selection, selection.examine(path).state)
    if selection.has_qresync:
        return _resync(selection, path, since, known, uids)
    state = selection.examine(path).state
    if state.uidvalidity != since.uidvalidity or state.highestmodseq is None:
        return _everything(selection, state)
    return _changes(selection, state, since, known, uids)


def _resync(selection: Selection, path: str, since: FolderState, known: int, uids: Uids) -> FolderNews:
    opened = selection.examine(path, since)
    state, changed, vanished = opened.state, opened.changed.found, opened.vanished
    if state.uidvalidity != since.uidvalidity or state.highestmodseq is None:
        return _everything(selection, state)
    arrived = sum(uid >= since.uidnext for uid in changed)
    # We may have been told of some vanished ones that we never knew, but never of too few.
    if vanished is None or not known + arrived - len(vanished) <= state.exists <= known + arrived:
        return FolderNews(state, changed, present=uids())
    return FolderNews(state, changed, frozenset(vanished))


def _changes(selection: Selection, state: FolderState, since: FolderState, known: int, uids: Uids) -> FolderNews:
    changed = {}
    if state.exists and state.highestmodseq != since.highestmodseq:
        changed = imap_reading.flags(selection.wire, None, since.highestmodseq)
    arrived = sum(uid >= since.uidnext for uid in changed)
    # All that is missing has vanished: CONDSTORE alone does not tell which.
    return FolderNews(state, changed, present=None if known + arrived == state.exists else uids())


def _everything(selection: Selection, state: FolderState) -> FolderNews:
    changed = imap_reading.flags(selection.wire, None) if state.exists else {}
    return FolderNews(state, changed, present=frozenset(changed))
