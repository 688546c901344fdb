"""Compute the steps that make the stored copy of a folder equal to the folder on the server. Pure.

    first sync, or another UIDVALIDITY  ResetFolder: detach all stored messages; some may be recognized later
    UID stored, not on the server ..... RemoveMessages: it left this folder, perhaps to another one
    UID stored, flags differ .......... ChangeFlags
    UID on the server, not stored ..... FetchMessages, newest first

After all steps both sides are equal, and a new plan is empty. The steps may be interrupted anywhere. The folder's state
is stored after the last step, so the next run reads the same changes again, and plans only the steps that are not done.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mailbox_appliance.model.sync import FlagChange, FolderChanges, FolderState


@dataclass(frozen=True)
class FolderMirror:
    """The stored copy of a folder: its state at the last sync (None before the first), and the stored flags by UID.

    If the server listed all its messages, `flags` must contain all stored messages. If it reported only changes,
    `flags` needs only the messages that it reported.
    """

    state: FolderState | None
    flags: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class ResetFolder:
    """Step: detach all stored messages from the folder, and store this state. The store keeps the messages for now.

    Needed before the first sync, and after UIDVALIDITY changed, which makes known UIDs invalid.
    """

    state: FolderState


@dataclass(frozen=True)
class RemoveMessages:
    """Step: detach the messages with these UIDs from the folder. The store keeps them for now: they may have moved."""

    uids: tuple[int, ...]


@dataclass(frozen=True)
class ChangeFlags:
    """Step: replace the stored flags of these messages."""

    changes: tuple[FlagChange, ...]


@dataclass(frozen=True)
class FetchMessages:
    """Step: fetch and store the messages with these UIDs, in this order."""

    uids: tuple[int, ...]


Step = ResetFolder | RemoveMessages | ChangeFlags | FetchMessages
Steps = tuple[Step, ...]
#: A reported change: the position of the folder at that time, and the number of messages reported.
Notice = tuple[FolderState | None, int]


def plan(have: FolderMirror, news: FolderChanges) -> Steps:
    """Return the steps that make the stored folder equal to the server's, in the order to carry them out.

    `have`: the stored folder. `news`: the changes that the server reported since its stored state.
    """
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
    """Return a state with the same UIDVALIDITY that counts as never synced, so that everything is compared again."""
    return FolderState(state.uidvalidity, uidnext=1, exists=0, highestmodseq=None)


def is_settled(state: FolderState | None) -> bool:
    """Whether the folder with this stored state was synced completely at least once under its current UIDVALIDITY."""
    return state is not None and state != nothing_known(state)


def may_be_news(reached: FolderState | None, state: FolderState, *, thorough: bool = True) -> bool:
    """Whether a folder may have changed. `reached`: its state at the last sync. `state`: its state now.

    A changed flag raises HIGHESTMODSEQ (RFC 7162), a new message raises UIDNEXT, and a removed one lowers EXISTS unless
    another arrived. A server without CONDSTORE does not show changed flags in its state. With `thorough`, its folders
    always count as possibly changed.
    """
    is_told = state.highestmodseq is not None and state.uidvalidity != 0
    return reached != state or (thorough and not is_told)


def is_repeated(before: Notice | None, told: Notice | None) -> bool:
    """Whether the server only repeats an earlier report of IDLE, so that it can be ignored.

    `before`, `told`: the previous report and the new one; None if there is none.

    Each has the state of the folder at that time and the reported number of messages. It is a repetition if the state
    is the same and the number is not larger.
    """
    if before is None or told is None or before[0] is None or before[0] != told[0]:
        return False
    return told[1] <= max(before[0].exists, before[1])
