"""Bulk actions at Gmail: their effect on labels, and that the mirror has it at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.gmail import Gmail
from tests.servers.labeled_desk import Kept, LabeledDesk

ALL, SPAM, TRASH = "[Gmail]/All Mail", "[Gmail]/Spam", "[Gmail]/Trash"


@pytest.fixture(scope="module")
def gmail() -> Iterator[Gmail]:
    with Gmail() as server:
        yield server


@pytest.fixture(scope="module")
def _desk(gmail: Gmail, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabeledDesk]:
    made = LabeledDesk(tmp_path_factory.mktemp("labels") / "data", gmail)
    yield made
    made.close()


@pytest.fixture
def desk(_desk: LabeledDesk) -> LabeledDesk:
    """Return an empty mailbox."""
    _desk.gmail.forget()
    for number in list(_desk.box.letters):
        _desk.box.delete(number)
    _desk.wait_until_same()
    return _desk


# action, its arguments, labels and folder before -> labels and folder afterwards
ACTIONS: list[tuple[str, dict[str, object], str, str, str | None, str]] = [
    ("archive", {}, "\\Inbox Work", "all", "Work", "all"),
    ("archive", {}, "Work", "all", "Work", "all"),
    ("archive", {}, "", "spam", "", "all"),
    ("archive", {}, "", "trash", "", "all"),
    ("trash", {}, "\\Inbox Work", "all", "", "trash"),
    ("trash", {}, "", "spam", "", "trash"),
    ("trash", {}, "", "trash", "", "trash"),
    ("untrash", {}, "", "trash", "\\Inbox", "all"),
    ("untrash", {}, "Work", "all", "Work", "all"),
    ("delete", {}, "\\Inbox Work", "all", None, ""),
    ("delete", {}, "", "spam", None, ""),
    ("delete", {}, "", "trash", None, ""),
    ("move", {"folder": "Work/2024"}, "\\Inbox Work", "all", "Work Work/2024", "all"),
    ("move", {"folder": "Work"}, "", "trash", "Work", "all"),
    ("move", {"folder": "Work"}, "", "spam", "Work", "all"),
    ("move", {"folder": "inbox"}, "Work", "all", "Work \\Inbox", "all"),
    ("move", {"folder": "inbox"}, "", "spam", "\\Inbox", "all"),
    ("move", {"folder": "all"}, "\\Inbox Work", "all", "Work", "all"),
    ("move", {"folder": "all"}, "", "trash", "", "all"),
    ("move", {"folder": "spam"}, "\\Inbox", "all", "", "spam"),
    ("addLabels", {"labels": ["Work/2024", "work"]}, "\\Inbox", "all", "\\Inbox Work Work/2024", "all"),
    ("addLabels", {"labels": ["Übersicht (neu)"]}, "", "all", "Übersicht_(neu)", "all"),
    ("addLabels", {"labels": ["می‌خواهم", "重要　資料"]}, "", "all", "می‌خواهم 重要　資料", "all"),
    ("removeLabels", {"labels": ["[Imap]/Drafts", "co\u00adop"]}, "[Imap]/Drafts co\u00adop", "all", "", "all"),
    ("removeLabels", {"labels": ["WORK", "unknown"]}, "\\Inbox Work", "all", "\\Inbox", "all"),
    ("star", {}, "\\Inbox", "all", "\\Inbox \\Starred", "all"),
    ("unstar", {}, "\\Inbox \\Starred", "all", "\\Inbox", "all"),
]


@pytest.mark.parametrize(("action", "asked", "before", "place", "after", "then"), ACTIONS)
def test_what_an_action_does(
    desk: LabeledDesk, action: str, asked: dict[str, object], before: str, place: str, after: str | None, then: str
) -> None:
    ids = desk.bring("one", "two", labels=before, place=place)
    result = desk.act(action, ids, **asked)
    assert result == {"action": action, "succeededIds": ids, "failed": [], "uncertainIds": []}
    letters = list(desk.box.letters.values())
    if after is None:
        assert letters == []
    else:
        expected = {label.replace("_", " ") for label in after.split(" ") if label}
        assert [(each.labels, each.place) for each in letters] == [(expected, then)] * 2
    desk.wait_until_same()
    assert [desk.id(subject) for subject in ("one", "two") if after is not None] == (ids if after is not None else [])
    assert desk.box.expunged_in_all_mail == 0


@pytest.mark.parametrize(("action", "asked", "before", "place", "after", "then"), ACTIONS)
def test_what_an_undo_restores(
    desk: LabeledDesk, action: str, asked: dict[str, object], before: str, place: str, after: str | None, then: str
) -> None:
    ids = desk.bring("one", "two", labels=before, place=place)
    was, _ = desk.at_gmail()
    done = desk.ask("POST", "/messages/actions", {"action": action, "messageIds": ids, **asked}).body
    now, _ = desk.at_gmail()
    if action == "delete" or _states(was) == _states(now):
        assert "undo" not in done
        return
    undone = desk.ask("POST", "/messages/actions/undo", {"token": done["undo"]["token"]}).data
    assert undone == {"action": "undo", "succeededIds": ids, "failed": [], "uncertainIds": []}
    assert _states(desk.at_gmail()[0]) == _states(was)
    desk.wait_until_same()
    assert [desk.id("one"), desk.id("two")] == ids


def _states(kept: dict[str, Kept]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the folder, flags and labels of each message."""
    return {name: (folder, flags) for name, (folder, _, flags, _) in kept.items()}


def test_a_label_that_another_client_changed_since(desk: LabeledDesk) -> None:
    one, two = desk.bring("one", "two", labels="\\Inbox Work")
    token = desk.ask("POST", "/messages/actions", {"action": "trash", "messageIds": [one, two]}).body["undo"]["token"]
    desk.act("untrash", [one])
    undone = desk.ask("POST", "/messages/actions/undo", {"token": token}).data
    assert (undone["succeededIds"], undone["failed"]) == ([two], [{"messageId": one, "code": "changed"}])
    desk.wait_until_same()


def test_what_was_done_is_read_at_once(desk: LabeledDesk) -> None:
    [one, two, three] = desk.bring("one", "two", "three")
    assert desk.listed("inbox") == ["three", "two", "one"]
    desk.act("archive", [one])
    desk.act("addLabels", [two], labels=["Work"])
    desk.act("trash", [three])
    assert (desk.listed("inbox"), desk.listed("Work"), desk.listed("trash")) == (["two"], ["two"], ["three"])
    desk.act("untrash", [three])
    desk.act("move", [two], folder="Work/2024")
    assert (desk.listed("inbox"), desk.listed("Work"), desk.listed("trash")) == (["three"], ["two"], [])
    shown = desk.ask("GET", f"/messages/{two}").data
    assert (shown["labels"], shown["folder"]["role"]) == (["Work", "Work/2024"], "all")


@pytest.mark.parametrize("label", ["\\Inbox", "inbox", "STARRED", "[Gmail]/Trash", "\\Mine", "a\nb", " ", "$Forwarded"])
def test_labels_of_the_system_have_actions_of_their_own(desk: LabeledDesk, label: str) -> None:
    ids = desk.bring("one")
    for action in ("addLabels", "removeLabels"):
        result = desk.act(action, ids, labels=[label])
        assert result["failed"] == [{"messageId": ids[0], "code": "label_invalid"}]
    assert [each.labels for each in desk.box.letters.values()] == [{"\\Inbox"}]


@pytest.mark.parametrize(
    ("folder", "code"),
    [
        ("sent", "provider_rejected"),
        ("drafts", "provider_rejected"),
        ("starred", "provider_rejected"),
        ("[Gmail]/Important", "provider_rejected"),
        ("nowhere", "folder_not_found"),
    ],
)
def test_nothing_is_moved_to_where_the_provider_alone_puts_it(desk: LabeledDesk, folder: str, code: str) -> None:
    ids = desk.bring("one")
    assert desk.act("move", ids, folder=folder)["failed"] == [{"messageId": ids[0], "code": code}]


def test_a_message_that_is_another_one_now_is_left_alone(desk: LabeledDesk) -> None:
    [one] = desk.bring("one")
    database = desk.desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE messages SET provider_id = '7'")
    assert desk.act("trash", [one])["failed"] == [{"messageId": one, "code": "identity_changed"}]


def test_what_only_came_back_from_trash_is_told_as_uncertain(desk: LabeledDesk) -> None:
    ids = desk.bring("one", place="trash", labels="")
    desk.gmail.refuse("UID STORE", "NO [CANNOT] double (Failure)")
    result = desk.act("untrash", ids)
    assert (result["succeededIds"], result["uncertainIds"]) == ([], ids)
    desk.gmail.forget()
    desk.wait_until_same()
    assert desk.id("one") == ids[0]


def test_what_is_only_in_trash_yet_is_told_as_uncertain(desk: LabeledDesk) -> None:
    ids = desk.bring("one")
    desk.gmail.refuse("UID STORE", "NO [CANNOT] double (Failure)")
    assert desk.act("delete", ids)["uncertainIds"] == ids
    desk.gmail.forget()
    desk.wait_until_same()
    assert [each.place for each in desk.box.letters.values()] == ["trash"]
    assert desk.act("delete", ids)["succeededIds"] == ids
    desk.wait_until_same()


def test_roles_are_the_provider_s(desk: LabeledDesk) -> None:
    answer = desk.ask("PATCH", "/imap/folders", {"archive": "Work"})
    assert (answer.status, answer.body["error"]["code"]) == (422, "unsupported_capability")
    assert desk.desk.account(desk.account)["folders"]["archive"] is None


def test_all_mail_that_is_hidden_is_told_with_its_fix(gmail: Gmail, tmp_path: Path) -> None:
    desk = LabeledDesk(tmp_path / "data", gmail, address="cyd@gmail.test")
    try:
        ids = desk.bring("one")
        desk.desk.appliance.sync.stop()  # otherwise it sees the folder where it is
        store = desk.desk.appliance.store
        with store.database.transaction():
            store.database.change("UPDATE folders SET role = NULL WHERE role = 'all'")
        answer = desk.ask("POST", "/messages/actions", {"action": "archive", "messageIds": ids})
        assert (answer.status, "Show in IMAP" in answer.body["error"]["message"]) == (422, True)
    finally:
        desk.close()


def test_a_draft_that_trash_leaves_a_draft_comes_back_as_one(desk: LabeledDesk) -> None:
    desk.box.keeps_labels_in_trash = True
    try:
        ids = desk.bring("one", labels="\\Draft Work")
        for action in ("trash", "untrash"):
            assert desk.act(action, ids)["succeededIds"] == ids
        assert [(each.labels, each.place) for each in desk.box.letters.values()] == [({"\\Draft", "Work"}, "all")]
        assert (desk.listed("drafts"), desk.listed("inbox")) == (["one"], [])
    finally:
        desk.box.keeps_labels_in_trash = False


@pytest.mark.parametrize("place", ["trash", "spam"])
@pytest.mark.parametrize(("action", "asked"), [("archive", {}), ("move", {"folder": "all"})])
def test_labels_that_trash_keeps_bring_nothing_back_into_the_inbox(
    desk: LabeledDesk, place: str, action: str, asked: dict[str, object]
) -> None:
    desk.box.keeps_labels_in_trash = True
    try:
        ids = desk.bring("one", labels="\\Inbox Work", place=place)
        assert desk.act(action, ids, **asked)["succeededIds"] == ids
        assert [(each.labels, each.place) for each in desk.box.letters.values()] == [({"Work"}, "all")]
        assert (desk.listed("Work"), desk.listed("inbox")) == (["one"], [])
        desk.wait_until_same()
    finally:
        desk.box.keeps_labels_in_trash = False


def test_what_lies_in_all_mail_that_is_hidden_since_then_is_not_told_as_gone(desk: LabeledDesk) -> None:
    ids = desk.bring("one")
    desk.box.hide_all_mail()
    try:
        assert desk.act("star", ids)["failed"] == [{"messageId": ids[0], "code": "unsupported_capability"}]
    finally:
        desk.box.show(ALL)


def test_labels_that_trash_keeps_show_a_message_nowhere_until_it_is_back(desk: LabeledDesk) -> None:
    desk.box.keeps_labels_in_trash = True
    try:
        ids = desk.bring("one", labels="\\Inbox Work")
        desk.act("trash", ids)
        desk.wait_until_same()
        assert (desk.listed("Work"), desk.listed("inbox"), desk.listed("trash")) == ([], [], ["one"])
        desk.act("untrash", ids)
        assert (desk.listed("Work"), desk.listed("inbox")) == (["one"], ["one"])
        desk.wait_until_same()
    finally:
        desk.box.keeps_labels_in_trash = False
