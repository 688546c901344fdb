"""Whose turn it is to decide about a draft, or under a key, and to wait for a server meanwhile.

one .......... has the turn, and one of the few places of those that wait for servers
one more ..... may be in line, for some seconds, with a place as well
all others ... are told so at once (409), so that one draft never holds up the errands of others
"""

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import BeingDecided

_PATIENCE = 10.0


@contextmanager
def deciding(appliance: Appliance, *about: Hashable) -> Iterator[None]:
    """Have nobody else decide about these (a draft's id, a key with its credential), and have a waiting place.

    Raises BeingDecided where others do, and ServersBusy where nobody does but all places are taken.
    """
    with ExitStack() as held:
        has_place = False
        for each in about:
            if _has(held, appliance, each, 0):
                continue
            # Without a place to wait there is no telling what becomes of it: not that nobody gets it, either.
            has_place = has_place or held.enter_context(appliance.io_slot())
            if not (has_place and _has(held, appliance, each, _PATIENCE)):
                raise BeingDecided
        if not has_place:
            held.enter_context(appliance.require_io_slot())
        yield


def _has(held: ExitStack, appliance: Appliance, about: Hashable, seconds: float) -> bool:
    """Whether it is one's turn; then it is held. Else one is not in line any more."""
    with ExitStack() as tried:
        is_mine = tried.enter_context(appliance.drafts.decision_locks.try_lock(about, seconds))
        if is_mine:
            held.push(tried.pop_all())
    return is_mine
