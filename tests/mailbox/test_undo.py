"""The undo of bulk actions at a real server: what it restores, and what it leaves as it is."""

import pytest

from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mailbox.bulk import Action
from mailbox_appliance.model.messages import MessageActionResult
from mailbox_appliance.remote.errors import RemoteFault
from tests.mailbox.rig import Rig
from tests.servers.fault_rules import Moment

SEEN, FLAGGED = frozenset({"\\Seen"}), frozenset({"\\Flagged"})
NONE: frozenset[str] = frozenset()
WORK = frozenset({"Work"})


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


def test_what_the_action_did_not_change_stays(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", flags="\\Seen")
    (three,) = rig.deliver("three", folder="Archive")
    rig.act("markRead", [one, two, "msg_unknown"])
    assert rig.undo().succeeded_ids == (one,)
    assert rig.here() == rig.at_server() == {"one": NONE, "two": SEEN}
    rig.act("archive", [one, three])
    assert rig.undo().succeeded_ids == (one,)
    assert rig.here("Archive").keys() == {"three"}
    rig.act("archive", [three])
    assert rig.done[1] == ()


def test_a_permanent_deletion_has_no_undo(rig: Rig) -> None:
    rig.act("delete", rig.deliver("one"))
    assert rig.done[1] == ()


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_what_another_client_changed_since_is_left(rig: Rig, is_mirrored: bool) -> None:
    ids = rig.deliver("same", "flagged", "labeled", "moved", "deleted")
    rig.act("archive", ids)
    uids = _uids(rig, "Archive")
    rig.direct.store_flags("Archive", [uids["flagged"]], add=FLAGGED, remove=NONE)
    rig.direct.store_flags("Archive", [uids["labeled"]], add=WORK, remove=NONE)
    rig.direct.move("Archive", [uids["moved"]], "Sent")
    rig.direct.expunge("Archive", [uids["deleted"]])
    if is_mirrored:
        rig.follow()
    result = rig.undo()
    same, flagged, labeled, moved, deleted = ids
    assert (result.succeeded_ids, result.uncertain_ids) == ((same,), ())
    assert codes(result) == {
        flagged: "changed",
        labeled: "changed",
        moved: "changed" if is_mirrored else "not_found",
        deleted: "not_found",
    }
    assert rig.at_server("INBOX").keys() == {"same"}
    assert rig.at_server("Archive") == {"flagged": FLAGGED, "labeled": WORK}


def test_a_flag_that_another_client_took_back_is_left(rig: Rig) -> None:
    one, two = rig.deliver("one", "two")
    rig.act("star", [one, two])
    uids = _uids(rig, "INBOX")
    rig.direct.store_flags("INBOX", [uids["one"]], add=NONE, remove=FLAGGED)
    result = rig.undo()
    assert (result.succeeded_ids, codes(result)) == ((two,), {one: "changed"})
    assert rig.at_server() == {"one": NONE, "two": NONE}


def test_a_folder_that_does_not_exist_any_more(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Old")
    (one,) = rig.deliver("one", folder="Old")
    (two,) = rig.deliver("two")
    rig.act("archive", [one, two])
    rig.server.doveadm("mailbox", "delete", "-u", rig.user, "Old")
    result = rig.undo()
    assert (result.succeeded_ids, codes(result)) == ((two,), {one: "folder_not_found"})
    rig.mirror()
    rig.act("archive", [two])
    result = rig.undo()
    assert result.succeeded_ids == (two,)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_message_whose_outcome_was_uncertain_is_not_part_of_it(rig: Rig, moment: Moment) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    rig.proxy.cut_at("MOVE", moment=moment)
    assert rig.act("archive", [one, two]).uncertain_ids == (one,)
    assert [change.message_ids for change in rig.done[1]] == [(two,)]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_lost_during_the_undo(rig: Rig, moment: Moment) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    rig.act("archive", [one, two])
    rig.proxy.cut_at("MOVE", moment=moment)
    result = rig.undo()
    assert (result.uncertain_ids, result.succeeded_ids, result.failed) == ((one,), (two,), ())
    assert rig.at_server("Sent").keys() == {"two"}


def test_a_server_without_extensions(rig: Rig) -> None:
    rig.proxy.make_poor()
    one, two = rig.deliver("one", "two")
    rig.act("trash", [one, two])
    assert rig.undo().succeeded_ids == (one, two)
    rig.follow()
    assert rig.agrees("INBOX", "Trash")
    assert rig.here().keys() == {"one", "two"}
    assert (rig.id("one"), rig.id("two")) == (one, two)


def test_a_server_that_cannot_be_reached(rig: Rig) -> None:
    (one,) = rig.deliver("one")
    rig.act("archive", [one])
    rig.proxy.cut_all()
    rig.proxy.is_shut = True
    with pytest.raises(RemoteFault):
        rig.undo()


def _uids(rig: Rig, folder: str) -> dict[str, int]:
    rig.direct.examine(folder)
    messages = rig.direct.fetch_messages(sorted(rig.direct.fetch_flags()))
    return {parse_message(one.source).subject: one.uid for one in messages}
