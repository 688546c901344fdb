"""The undo of bulk actions at a real server: what it restores, and what it leaves as it is."""

import pytest

from mailbox_appliance.mailbox.bulk import Action
from mailbox_appliance.model.messages import MessageActionResult
from mailbox_appliance.remote.errors import RemoteFault
from tests.mailbox.rig import Rig, letter
from tests.servers.fault_rules import Moment

SEEN, FLAGGED = frozenset({"\\Seen"}), frozenset({"\\Flagged"})
NONE: frozenset[str] = frozenset()


def codes(result: MessageActionResult) -> dict[str, str]:
    return {one.message_id: one.code for one in result.failed}


# action, its folder and labels, folder and flags before, folder and flags after
ACTIONS: list[tuple[Action, str | None, str, str, str, str, str]] = [
    ("markRead", None, "", "INBOX", "Work", "INBOX", "\\Seen Work"),
    ("markUnread", None, "", "INBOX", "\\Seen", "INBOX", ""),
    ("star", None, "", "INBOX", "\\Seen", "INBOX", "\\Seen \\Flagged"),
    ("unstar", None, "", "INBOX", "\\Flagged", "INBOX", ""),
    ("archive", None, "", "INBOX", "\\Seen", "Archive", "\\Seen"),
    ("trash", None, "", "Archive", "\\Flagged Work", "Trash", "\\Flagged Work"),
    ("untrash", None, "", "Trash", "", "INBOX", ""),
    ("untrash", None, "", "Trash", "\\Draft", "Drafts", "\\Draft"),
    ("move", "Sent", "", "INBOX", "\\Answered", "Sent", "\\Answered"),
    ("addLabels", None, "WORK todo", "INBOX", "Work", "INBOX", "Work todo"),
    ("removeLabels", None, "work never", "INBOX", "Work todo", "INBOX", "todo"),
]


@pytest.mark.parametrize(("action", "target", "labels", "folder", "before", "into", "after"), ACTIONS)
def test_an_action_and_its_undo(
    rig: Rig, action: Action, target: str | None, labels: str, folder: str, before: str, into: str, after: str
) -> None:
    ids = rig.deliver("one", "two", folder=folder, flags=before)
    rig.act(action, ids, folder=target, labels=labels)
    state = {"one": frozenset(after.split()), "two": frozenset(after.split())}
    assert rig.here(into) == rig.at_server(into) == state
    result = rig.undo()
    assert (result.succeeded_ids, result.failed, result.uncertain_ids) == (ids, (), ())
    state = {"one": frozenset(before.split()), "two": frozenset(before.split())}
    assert rig.here(folder) == rig.at_server(folder) == state
    assert into == folder or rig.agrees(into)
    assert (rig.id("one"), rig.id("two")) == ids
