"""Bulk actions at a real server: the state of the server and of the mirror afterwards, and the reported outcome."""

import pytest

from mailbox_appliance.events import FolderWritten
from mailbox_appliance.mailbox.bulk import Action
from mailbox_appliance.model.messages import MessageActionResult
from mailbox_appliance.remote.errors import RemoteFault
from tests.mailbox.rig import Rig, letter
from tests.servers.fault_rules import Moment

SEEN, FLAGGED = frozenset({"\\Seen"}), frozenset({"\\Flagged"})
NONE: frozenset[str] = frozenset()


def codes(result: MessageActionResult) -> dict[str, str]:
    return {one.message_id: one.code for one in result.failed}


# --- flags and labels ---


def test_flags(rig: Rig) -> None:
    cases: tuple[tuple[Action, str, frozenset[str]], ...] = (
        ("markRead", "", SEEN),
        ("markRead", "\\Seen", SEEN),
        ("markUnread", "\\Seen", NONE),
        ("star", "", FLAGGED),
        ("unstar", "\\Flagged \\Seen", SEEN),
    )
    rig.deliver("other")
    expected = {"other": NONE}
    for number, (action, before, after) in enumerate(cases):
        ids = rig.deliver(f"a{number}", f"b{number}", flags=before)
        result = rig.act(action, ids)
        assert (result.action, result.succeeded_ids, result.failed, result.uncertain_ids) == (action, ids, (), ())
        expected |= {f"a{number}": after, f"b{number}": after}
    assert rig.here() == rig.at_server() == expected


def test_labels(rig: Rig) -> None:
    (one,) = rig.deliver("one", flags="Work")
    assert rig.act("addLabels", [one], labels="WORK todo $later").succeeded_ids == (one,)
    assert rig.here() == rig.at_server() == {"one": frozenset({"Work", "todo", "$later"})}
    assert rig.act("removeLabels", [one], labels="work never-there").succeeded_ids == (one,)
    assert rig.here() == rig.at_server() == {"one": frozenset({"todo", "$later"})}


def test_a_label_that_is_no_keyword_is_refused(rig: Rig) -> None:
    (one,) = rig.deliver("one")
    for label in ("\\Seen", "\\Deleted", "a(b", 'a"b', "a]b", "über", "a%", "a*", "x" * 300):
        assert codes(rig.act("addLabels", [one], labels=label)) == {one: "label_invalid"}, label
    assert rig.here() == rig.at_server() == {"one": NONE}


# --- moves ---


def test_archive_trash_untrash(rig: Rig) -> None:
    one, two = rig.deliver("one", "two")
    (three,) = rig.deliver("three", folder="Trash")
    assert rig.act("archive", [one, two]).succeeded_ids == (one, two)
    assert rig.agrees("INBOX", "Archive")
    assert rig.here("Archive").keys() == {"one", "two"}
    assert rig.act("trash", [two, three, one]).succeeded_ids == (two, three, one)
    assert rig.agrees("Archive", "Trash")
    assert rig.here("Trash").keys() == {"one", "two", "three"}
    assert rig.act("untrash", [one, three]).succeeded_ids == (one, three)
    assert rig.agrees("INBOX", "Trash")
    assert rig.here("INBOX").keys() == {"one", "three"}
    assert [rig.id(each) for each in ("one", "two", "three")] == [one, two, three]


def test_a_draft_leaves_the_trash_for_the_drafts(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Trash", flags="\\Draft")
    assert rig.act("untrash", [one]).succeeded_ids == (one,)
    assert rig.agrees("Trash", "Drafts")
    assert "one" in rig.here("Drafts")


def test_a_move_from_several_folders_and_what_is_there_already(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Work/Été")
    one, two = rig.deliver("one", "two")
    (three,), (four,) = rig.deliver("three", folder="Archive"), rig.deliver("four", folder="Work/Été")
    rig.proxy.commands.clear()
    assert rig.act("move", [one, three, four], folder="Work/Été").succeeded_ids == (one, three, four)
    assert rig.proxy.count("MOVE") == 2
    assert rig.agrees("INBOX", "Archive", "Work/Été")
    assert rig.here("Work/Été").keys() == {"one", "three", "four"}
    assert rig.touched == ["INBOX", "Work/Été", "Archive", "Work/Été"]
    # Its new UIDs are known at once.
    assert rig.act("star", [one, two, three, four]).succeeded_ids == (one, two, three, four)
    assert rig.agrees("INBOX", "Work/Été")


def test_what_stays_where_it_is_needs_no_server(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one", folder="Archive"), rig.deliver("two", folder="Trash")
    (three,) = rig.deliver("three")
    rig.proxy.is_shut = True
    assert rig.act("archive", [one]).succeeded_ids == (one,)
    assert rig.act("trash", [two]).succeeded_ids == (two,)
    assert rig.act("untrash", [three]).succeeded_ids == (three,)
    assert rig.act("move", [three], folder="inbox").succeeded_ids == (three,)


@pytest.mark.parametrize(("action", "folder"), [("archive", "INBOX.Archive"), ("trash", "INBOX.Trash")])
def test_the_archive_and_the_trash_are_made(bare: Rig, action: Action, folder: str) -> None:
    one, two = bare.deliver("one", "two")
    assert [found.path for found in bare.store.folders.list(bare.account_id)] == ["INBOX"]
    assert bare.act(action, [one]).succeeded_ids == (one,)
    assert bare.act(action, [two]).succeeded_ids == (two,)
    assert bare.agrees("INBOX", folder)
    assert bare.here(folder).keys() == {"one", "two"}
    assert bare.act("untrash", [one]).succeeded_ids == (one,)
    assert bare.agrees("INBOX", folder)


def test_an_archive_that_cannot_be_made(bare: Rig) -> None:
    (one,) = bare.deliver("one")
    bare.proxy.refuse("CREATE", answer="NO [NOPERM] Not you")
    assert codes(bare.act("archive", [one])) == {one: "folder_not_found"}
    assert bare.agrees("INBOX")


def test_an_archive_that_another_program_made_is_found(bare: Rig) -> None:
    (one,) = bare.deliver("one")
    bare.server.make_folder(bare.user, "INBOX.Archiv")
    assert bare.act("archive", [one]).succeeded_ids == (one,)
    assert bare.here("INBOX.Archiv").keys() == {"one"}
    assert bare.proxy.count("CREATE") == 0


def test_sync_hears_of_each_folder_at_once(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    told = list[tuple[str, int]]()
    rig.events.subscribe(FolderWritten, lambda event: told.append((event.path, rig.proxy.count("MOVE"))))
    assert rig.act("archive", [one, two]).succeeded_ids == (one, two)
    assert told == [("INBOX", 1), ("Archive", 1), ("Sent", 2), ("Archive", 2)]


def test_a_folder_that_is_gone_at_the_server(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Work")
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Work")
    rig.server.doveadm("mailbox", "delete", "-u", rig.user, "Work")
    result = rig.act("move", [one], folder="Work")
    assert codes(result) == {one: "folder_not_found"}
    assert codes(rig.act("star", [one, two])) == {two: "not_found"}
    assert rig.agrees("INBOX")
    assert codes(rig.act("move", [one, two])) == dict.fromkeys((one, two), "folder_not_found")


def test_a_server_without_move(rig: Rig) -> None:
    rig.proxy.hide("MOVE")
    rig.proxy.refuse("MOVE")
    one, two, _ = rig.deliver("one", "two", "three")
    rig.server.doveadm("flags", "add", "-u", rig.user, "\\Deleted", "mailbox", "INBOX", "subject", "three")
    assert rig.act("archive", [one, two]).succeeded_ids == (one, two)
    assert rig.at_server() == {"three": frozenset({"\\Deleted"})}, "what others marked as deleted stays"
    assert rig.agrees("Archive")
    assert rig.act("star", [two]).succeeded_ids == (two,)
    assert rig.agrees("Archive")


def test_a_server_that_tells_no_new_uids(rig: Rig) -> None:
    rig.proxy.hide("UIDPLUS")
    rig.proxy.make_poor()
    rig.proxy.show_only("IMAP4REV1", "MOVE")
    rig.proxy.heal()
    (one,) = rig.deliver("one")
    assert rig.act("archive", [one]).succeeded_ids == (one,)
    located = rig.store.mailbox_writer.locate(rig.account_id, [one])[one]
    assert (located.folder.path, located.uid) == ("Archive", None)
    rig.proxy.commands.clear()
    assert rig.act("archive", [one]).succeeded_ids == (one,), "it is there already"
    assert (rig.proxy.count("MOVE"), rig.store.mailbox_writer.locate(rig.account_id, [one])[one].uid) == (0, 1)
    assert rig.act("star", [one]).succeeded_ids == (one,), "it is looked for by its Message-ID"
    assert rig.at_server("Archive") == {"one": FLAGGED}
    assert rig.agrees("INBOX", "Archive")
    assert rig.act("trash", [one]).succeeded_ids == (one,)
    assert rig.at_server("Trash") == {"one": FLAGGED}


def test_a_server_that_expunges_all_that_is_marked_as_deleted(rig: Rig) -> None:
    rig.proxy.make_poor()
    one, two, three, _ = rig.deliver("one", "two", "three", "four")
    assert rig.act("archive", [one, two]).succeeded_ids == (one, two)
    assert rig.act("delete", [three]).succeeded_ids == (three,)
    assert rig.at_server() == rig.here() == {"four": NONE}
    assert rig.at_server("Archive") == {"one": NONE, "two": NONE}
    assert rig.act("star", [two]).succeeded_ids == (two,), "it is known under its id"
    assert rig.proxy.count("EXPUNGE") == 2


def test_what_others_marked_as_deleted_is_never_expunged(rig: Rig) -> None:
    rig.proxy.make_poor()
    one, two, _ = rig.deliver("one", "two", "three")
    rig.server.doveadm("flags", "add", "-u", rig.user, "\\Deleted", "mailbox", "INBOX", "subject", "three")
    for action in ("archive", "delete"):
        assert codes(rig.act(action, [one, two])) == dict.fromkeys((one, two), "unsupported_capability")
    assert rig.at_server() == {"one": NONE, "two": NONE, "three": frozenset({"\\Deleted"})}
    assert rig.proxy.count("EXPUNGE") == rig.proxy.count("UID STORE") == 0
    assert rig.act("star", [one]).succeeded_ids == (one,)
    assert rig.at_server()["one"] == FLAGGED


# --- deleting ---


def test_delete_takes_nothing_else_along(rig: Rig) -> None:
    one, _, _ = rig.deliver("one", "two", "three")
    (four,) = rig.deliver("four", folder="Trash")
    rig.server.doveadm("flags", "add", "-u", rig.user, "\\Deleted", "mailbox", "INBOX", "subject", "three")
    assert rig.act("delete", [one, four]).succeeded_ids == (one, four)
    assert rig.at_server() == {"two": NONE, "three": frozenset({"\\Deleted"})}
    assert rig.at_server("Trash") == {}
    assert rig.here().keys() == {"two", "three"}
    assert codes(rig.act("delete", [one])) == {one: "not_found"}
    assert rig.proxy.count("EXPUNGE") == 2 == rig.proxy.count("UID EXPUNGE")


# --- identity ---


def test_nothing_is_done_to_another_message(rig: Rig) -> None:
    one, two = rig.deliver("one", "two")
    sql = "UPDATE messages SET uid = CASE uid WHEN 1 THEN 2 ELSE 1 END + 10 WHERE id IN (?, ?)"
    with rig.store.database.transaction():
        rig.store.database.change(sql, (one, two))
        rig.store.database.change("UPDATE messages SET uid = uid - 10 WHERE uid > 10")
    for action in ("delete", "trash", "star", "markRead"):
        assert codes(rig.act(action, [one, two])) == dict.fromkeys((one, two), "identity_changed"), action
    assert rig.at_server() == {"one": NONE, "two": NONE}
    assert set(rig.touched) == {"INBOX"}, "the mirror is behind"


def test_size_and_message_id_must_agree(rig: Rig) -> None:
    one, two, three = rig.deliver("one", "two", "three")
    with rig.store.database.transaction():
        rig.store.database.change("UPDATE messages SET size = size + 1 WHERE id = ?", (one,))
        rig.store.database.change("UPDATE messages SET message_id = 'another@example.test' WHERE id = ?", (two,))
    result = rig.act("delete", [one, two, three])
    assert codes(result) == dict.fromkeys((one, two), "identity_changed")
    assert (result.succeeded_ids, rig.at_server()) == ((three,), {"one": NONE, "two": NONE})


def test_messages_with_odd_headers_are_known_again(rig: Rig) -> None:
    heads = (
        b"Subject: no id",
        b"Message-ID: <a@x>\r\nMessage-ID: <b@x>",
        b"Message-ID:\r\n <fol\r\n ded@x> (comment)",
        b"Message-ID: <\xe9\xff@x>",
        b"Message-ID:\r\nMessage-ID: <later@x>",
        b"From bob@x Mon Jan  1 00:00:00 2024\r\nMessage-ID : nobrackets@x",
        b"this is no header\r\n nor this\r\nMessage-ID: =?utf-8?q?=3Ca=40x=3E?=",
        b" Message-ID: <indented@x>",
        b"Message-ID: <" + b"y" * 3000 + b"@x>",
        b"X-Big: " + b"z" * 100_000 + b"\r\nMessage-ID: <a@x>",
    )
    rig.server.deliver(rig.user, *(head + b"\r\n\r\nbody\r\n" for head in heads))
    rig.mirror()
    everything = [row[0] for row in rig.store.database.rows("SELECT id FROM messages")]
    assert len(rig.act("delete", everything).succeeded_ids) == len(heads)
    assert rig.at_server() == {}


def test_a_folder_made_anew_has_other_messages(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Work")
    (one,) = rig.deliver("one", folder="Work")
    rig.server.doveadm("mailbox", "delete", "-u", rig.user, "Work")
    rig.server.make_folder(rig.user, "Work")
    rig.server.deliver(rig.user, letter("one"), folder="Work")
    assert codes(rig.act("delete", [one])) == {one: "identity_changed"}
    assert "one" in rig.at_server("Work")


def test_what_is_gone_is_not_found_and_the_rest_is_done(rig: Rig) -> None:
    one, two = rig.deliver("one", "two")
    rig.server.doveadm("expunge", "-u", rig.user, "mailbox", "INBOX", "subject", "one")
    result = rig.act("star", ["msg_unknown", one, two])
    assert codes(result) == {"msg_unknown": "not_found", one: "not_found"}
    assert result.succeeded_ids == (two,)
    assert rig.at_server() == {"two": FLAGGED}


def twins(rig: Rig) -> tuple[str, str]:
    """Return two identical messages; the first was removed by another program."""
    rig.server.deliver(rig.user, letter("twin"), letter("twin"))
    rig.mirror()
    sql = "SELECT id, uid, folder FROM messages ORDER BY uid"
    (first, uid, folder), (second, _, _) = rig.store.database.rows(sql)
    rig.direct.expunge("INBOX", [uid])
    rig.store.mailbox_writer.detach(folder, [uid])
    return str(first), str(second)


@pytest.mark.parametrize("action", ["delete", "trash", "star"])
def test_a_twin_is_not_taken_for_the_message_that_is_gone(rig: Rig, action: Action) -> None:
    first, second = twins(rig)
    assert codes(rig.act(action, [first])) == {first: "not_found"}
    assert rig.at_server() == {"twin": NONE}
    assert rig.store.mailbox_writer.locate(rig.account_id, [second])[second].uid == 2


def test_a_later_twin_that_the_mirror_has_not_got_is_another_message(rig: Rig) -> None:
    (one,) = rig.deliver("one")
    rig.direct.expunge("INBOX", [1])
    with rig.store.database.transaction():
        rig.store.database.change("UPDATE messages SET uid = NULL, gone = 1, internal_date = internal_date - 2000")
    rig.server.deliver(rig.user, letter("one"))
    assert codes(rig.act("delete", [one])) == {one: "not_found"}
    assert rig.at_server() == {"one": NONE}


def test_new_uids_of_a_folder_made_anew_are_not_those_we_know(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Work")
    rig.deliver("old 1", "old 2", folder="Work")
    (one,) = rig.deliver("one")
    rig.server.doveadm("mailbox", "delete", "-u", rig.user, "Work")
    rig.server.make_folder(rig.user, "Work")
    assert rig.act("move", [one], folder="Work").succeeded_ids == (one,)
    assert rig.at_server("Work") == {"one": NONE}
    assert rig.here("Work").keys() == {"old 1", "old 2", "one"}
    assert rig.store.mailbox_writer.locate(rig.account_id, [one])[one].gone, "until sync has seen the new folder"


def test_what_a_removed_folder_left_in_the_trash_is_not_in_it(rig: Rig) -> None:
    rig.server.make_folder(rig.user, "Work")
    (one,) = rig.deliver("one", folder="Work")
    rig.server.doveadm("mailbox", "rename", "-u", rig.user, "Work", "Done")
    rig.store.folders.replace(rig.account_id, rig.direct.list_folders(), {"Trash": ("trash", "name")})
    assert rig.here("Trash").keys() == {"one"}
    for action in ("trash", "untrash"):
        assert codes(rig.act(action, [one])) == {one: "not_found"}, action


# --- faults ---


@pytest.mark.parametrize(
    ("action", "command"), [("star", "STORE"), ("archive", "MOVE"), ("delete", "STORE"), ("delete", "EXPUNGE")]
)
def test_a_connection_lost_at_a_command_is_uncertain_and_the_rest_goes_on(
    rig: Rig, action: Action, command: str
) -> None:
    moments: tuple[Moment, ...] = ("before", "after")
    for moment in moments:
        (one,), (two,) = rig.deliver(f"one {moment}"), rig.deliver(f"two {moment}", folder="Sent")
        rig.proxy.cut_at(command, moment=moment)
        result = rig.act(action, [one, two])
        assert (result.uncertain_ids, result.succeeded_ids, result.failed) == ((one,), (two,), ())
        assert "INBOX" in rig.touched, "sync finds out"
        assert rig.here()[f"one {moment}"] == NONE, "what is not known is not written down"
    assert rig.proxy.cuts == 2


def test_a_connection_lost_before_the_command(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    rig.proxy.cut_at("FETCH")
    result = rig.act("delete", [one, two])
    assert (codes(result), result.succeeded_ids) == ({one: "provider_unavailable"}, (two,))
    assert rig.at_server() == {"one": NONE}


def test_a_refused_command(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    rig.proxy.refuse("STORE", answer="NO Not now", times=1)
    result = rig.act("star", [one, two])
    assert (codes(result), result.succeeded_ids) == ({one: "provider_rejected"}, (two,))
    rig.proxy.refuse("MOVE", answer="NO [OVERQUOTA] Full", times=1)
    result = rig.act("archive", [one, two])
    assert (codes(result), result.succeeded_ids) == ({one: "provider_rejected"}, (two,))
    rig.proxy.refuse("STORE", answer="NO No such name", times=1)
    assert codes(rig.act("addLabels", [one], labels="later")) == {one: "label_invalid"}


def test_a_throttled_mailbox_is_left_alone(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Sent")
    rig.proxy.refuse("STORE", answer="NO [THROTTLED] Slowly", times=1)
    rig.proxy.commands.clear()
    assert codes(rig.act("star", [one, two])) == dict.fromkeys((one, two), "provider_unavailable")
    assert rig.proxy.count("STORE") == 1


def test_where_nothing_can_be_tried_it_is_told_as_a_whole(rig: Rig) -> None:
    (one,), (two,) = rig.deliver("one"), rig.deliver("two", folder="Archive")
    rig.proxy.is_shut = True
    with pytest.raises(RemoteFault):
        rig.act("star", [one, "msg_unknown"])
    result = rig.act("archive", [one, two])
    assert (codes(result), result.succeeded_ids) == ({one: "provider_unavailable"}, (two,))
    assert codes(rig.act("star", ["msg_unknown"])) == {"msg_unknown": "not_found"}


# --- the number of commands ---


@pytest.mark.parametrize(("action", "most"), [("markRead", 3), ("trash", 3), ("delete", 4)])
def test_a_hundred_messages_in_few_commands(rig: Rig, action: Action, most: int) -> None:
    ids = rig.deliver(*(f"m{number}" for number in range(100)))
    rig.act("star", ids[:1])  # the connection exists already
    rig.proxy.commands.clear()
    assert rig.act(action, ids).succeeded_ids == ids
    assert len(rig.proxy.commands) <= most, rig.proxy.commands
    assert rig.agrees("INBOX", "Trash")
