"""Compute the steps that make the mirror of a folder equal to the folder on the server. Pure.

    first sync, or another UIDVALIDITY  ResetFolder: all stored messages left it; some may be recognized
    UID known, no longer there ........ RemoveMessages: gone from this folder; it may have moved
    UID known, other flags ............ ChangeFlags
    UID there, unknown ................ FetchMessages, newest first

After the steps both sides are equal, and a new plan is empty. The steps may be interrupted anywhere: the position is
stored after the last one, so the same changes are read again, and finished work is not planned again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mailbox_appliance.model.sync import FlagChange, FolderChanges, FolderState


@dataclass(frozen=True)
class FolderMirror:
    """The stored state of a folder: the position (None before the first sync), and the flags by UID.

    `flags` may contain only the UIDs that the changes mention, if the changes do not list all messages.
    """

    state: FolderState | None
    flags: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class ResetFolder:
    """Remove all stored messages from the folder and start with this UIDVALIDITY."""

    state: FolderState


@dataclass(frozen=True)
class RemoveMessages:
    """Remove these messages from the folder."""

    uids: tuple[int, ...]


@dataclass(frozen=True)
class ChangeFlags:
    """Set the flags of these messages."""

    changes: tuple[FlagChange, ...]


@dataclass(frozen=True)
class FetchMessages:
    """Fetch these messages, in this order."""

    uids: tuple[int, ...]


Step = ResetFolder | RemoveMessages | ChangeFlags | FetchMessages
Steps = tuple[Step, ...]
#: A reported change: the position of the folder at that time, and the number of messages reported.
Notice = tuple[FolderState | None, int]


def plan(have: FolderMirror, news: FolderChanges) -> Steps:
    """Return the steps from the stored state to the server's state, in the order to carry them out."""
    steps: list[Step] = []
    known = have.flags
    if have.state is None or have.state.uidvalidity != news.state.uidvalidity:
        steps.append(ResetFolder(nothing_known(news.state)))
        known = {}
    there = news.changed.keys() - news.vanished if news.present is None else news.present
    gone = known.keys() & news.vanished if news.present is None else known.keys() - news.present
    changes = tuple(
        FlagChange(uid, flags)
        for uid, flags in sorted(news.changed.items())
        if uid in there and known.get(uid, flags) != flags
    )
    steps += [RemoveMessages(tuple(sorted(gone)))] if gone else []
    steps += [ChangeFlags(changes)] if changes else []
    new = tuple(sorted(there - known.keys(), reverse=True))
    steps += [FetchMessages(new)] if new else []
    return tuple(steps)


def nothing_known(state: FolderState) -> FolderState:
    """Return a position of the same UIDVALIDITY without any checked message; it never counts as unchanged."""
    return FolderState(state.uidvalidity, uidnext=1, exists=0, highestmodseq=None)


def is_settled(state: FolderState | None) -> bool:
    """Whether a folder was synced completely once under its current UIDVALIDITY."""
    return state is not None and state != nothing_known(state)


def may_be_news(reached: FolderState | None, state: FolderState, *, thorough: bool = True) -> bool:
    """Whether anything may have changed since the position `reached`.

    A changed flag raises HIGHESTMODSEQ (RFC 7162), a new message raises UIDNEXT, and a removed one lowers EXISTS unless
    another arrived. A server without CONDSTORE reports too little to be sure; there, changed flags are found only if
    `thorough`.
    """
    is_told = state.highestmodseq is not None and state.uidvalidity != 0
    return reached != state or (thorough and not is_told)


def is_repeated(before: Notice | None, told: Notice | None) -> bool:
    """Whether a notice repeats an earlier one that led to nothing, with no more messages than were known then."""
    if before is None or told is None or before[0] is None or before[0] != told[0]:
        return False
    return told[1] <= max(before[0].exists, before[1])
