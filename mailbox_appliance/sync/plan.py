"""What is to be done so that the mirror of a folder equals the folder on the server. Pure.

    first time, or other UIDVALIDITY .. ResetFolder: all we had is gone from here; it may be recognised
    UID known, no longer there ........ RemoveMessages: gone from here; it may have moved
    UID known, other flags ............ ChangeFlags
    UID there, unknown ................ FetchMessages, the newest first

Carrying out the steps makes both sides equal, and planning again then gives no step. They may be broken off anywhere:
the position is noted after the last of them, so the news since the old one come again, and what is done is not planned.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mailbox_appliance.model.sync import FlagChange, FolderChanges, FolderState


@dataclass(frozen=True)
class FolderMirror:
    """What we have of a folder: the position reached (None: never looked at), and UID -> flags.

    `flags` may be confined to the UIDs that the news speak of, where the news do not say what all is there.
    """

    state: FolderState | None
    flags: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class ResetFolder:
    """All of the folder is gone; from here on UIDs belong to this UIDVALIDITY, and nothing is known under it."""

    state: FolderState


@dataclass(frozen=True)
class RemoveMessages:
    """These messages are gone from the folder."""

    uids: tuple[int, ...]


@dataclass(frozen=True)
class ChangeFlags:
    """Give these messages other flags."""

    changes: tuple[FlagChange, ...]


@dataclass(frozen=True)
class FetchMessages:
    """Bring in these messages, in this order."""

    uids: tuple[int, ...]


Step = ResetFolder | RemoveMessages | ChangeFlags | FetchMessages
Steps = tuple[Step, ...]
#: The position of a folder when a change in it was reported unasked, and the number of messages reported then.
Notice = tuple[FolderState | None, int]


def plan(have: FolderMirror, news: FolderChanges) -> Steps:
    """The steps from what we have to what the server has, in the order in which they are to be done."""
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
    """A position of the same UIDVALIDITY at which no message has been looked at: it is never taken for unchanged."""
    return FolderState(state.uidvalidity, uidnext=1, exists=0, highestmodseq=None)


def is_settled(state: FolderState | None) -> bool:
    """Whether a folder has been brought in once since its UIDVALIDITY is what it is."""
    return state is not None and state != nothing_known(state)


def may_be_news(reached: FolderState | None, state: FolderState, *, thorough: bool = True) -> bool:
    """Whether anything can have happened since that position was reached.

    A flag that changes raises HIGHESTMODSEQ (RFC 7162), a message that comes raises UIDNEXT, and one that goes lowers
    EXISTS unless another came. A server without CONDSTORE tells too little to be sure; unless `thorough`, changed flags
    are left for another time there.
    """
    is_told = state.highestmodseq is not None and state.uidvalidity != 0
    return reached != state or (thorough and not is_told)


def is_repeated(before: Notice | None, told: Notice | None) -> bool:
    """Whether the same was reported before, in vain, and no more messages than were there or were reported then."""
    if before is None or told is None or before[0] is None or before[0] != told[0]:
        return False
    return told[1] <= max(before[0].exists, before[1])
