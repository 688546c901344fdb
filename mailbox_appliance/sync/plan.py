"""What to do so that the mirror of a folder becomes what the server has. Values in, steps out; nothing is done here.

    no position, or another UIDVALIDITY ... Reset, then as for an empty mirror (RFC 9051 2.3.1.1: old UIDs mean nothing)
    UID here, not there ................... Remove
    UID on both sides, flags differ ....... ChangeFlags
    UID there, not here ................... Fetch, the newest first

Carrying out the steps makes both sides equal, and planning again then gives no step. They may be broken off anywhere
and carried out twice: what counts is what is there, so planning anew goes on from where it stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mailbox_appliance.records import FlagChange, FolderState


@dataclass(frozen=True)
class FolderMirror:
    """What we have of a folder: the position reached (None: never looked at), and the flags of each UID."""

    state: FolderState | None
    flags: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class ServerFolder:
    """What the server has."""

    state: FolderState
    flags: Mapping[int, frozenset[str]]


@dataclass(frozen=True)
class Reset:
    """Forget every UID; from now on they belong to this UIDVALIDITY. The position is one where nothing is known."""

    state: FolderState


@dataclass(frozen=True)
class Remove:
    """Remove these messages."""

    uids: tuple[int, ...]


@dataclass(frozen=True)
class ChangeFlags:
    """Give these messages other flags."""

    changes: tuple[FlagChange, ...]


@dataclass(frozen=True)
class Fetch:
    """Bring in these messages, in this order."""

    uids: tuple[int, ...]


Step = Reset | Remove | ChangeFlags | Fetch
Steps = tuple[Step, ...]


def plan(have: FolderMirror, server: ServerFolder) -> Steps:
    """The steps from what we have to what the server has, in the order in which they are to be done."""
    steps: list[Step] = []
    known = have.flags
    if have.state is None or have.state.uidvalidity != server.state.uidvalidity:
        steps.append(Reset(nothing_known(server.state)))
        known = {}
    gone = tuple(sorted(known.keys() - server.flags.keys()))
    changed = tuple(
        FlagChange(uid, flags) for uid, flags in sorted(server.flags.items()) if known.get(uid, flags) != flags
    )
    new = tuple(sorted(server.flags.keys() - known.keys(), reverse=True))
    steps += [Remove(gone)] if gone else []
    steps += [ChangeFlags(changed)] if changed else []
    steps += [Fetch(new)] if new else []
    return tuple(steps)


def nothing_known(state: FolderState) -> FolderState:
    """A position of the same UIDVALIDITY at which no message has been looked at: it is never taken for unchanged."""
    return FolderState(state.uidvalidity, uidnext=1, exists=0, highestmodseq=None)


def is_unchanged(reached: FolderState | None, state: FolderState) -> bool:
    """Whether nothing can have happened since that position was reached.

    A flag that changes raises HIGHESTMODSEQ (RFC 7162), a message that comes raises UIDNEXT, and one that goes lowers
    EXISTS unless another came. A server without CONDSTORE tells too little to be sure.
    """
    return state.highestmodseq is not None and state.uidvalidity != 0 and reached == state
