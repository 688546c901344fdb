"""The meaning of bulk actions, as tables."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mailbox_appliance.mailbox import bulk
from mailbox_appliance.mailbox.bulk import Action, BulkOutcomes, FailureCode, FlagEdit, MessageAction
from mailbox_appliance.model.accounts import FolderRole
from mailbox_appliance.model.sync import FolderState, LocatedMessage, MessageIdentity, MirroredFolder

WHEN = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
STATE = FolderState(uidvalidity=1, uidnext=10, exists=3, highestmodseq=None)


def folder(number: int, role: FolderRole | None = None, state: FolderState | None = STATE) -> MirroredFolder:
    return MirroredFolder(number, f"fld_{number}", "acc_1", f"F{number}", "/", role, "name" if role else None, state)


INBOX, ARCHIVE, TRASH, WORK = folder(1, "inbox"), folder(2, "archive"), folder(3, "trash"), folder(4)


def message(place: MirroredFolder = INBOX, name: str = "one", *flags: str) -> LocatedMessage:
    return LocatedMessage(f"msg_{name}", 1, place, 5, f"{name}@x", 100, WHEN, frozenset(flags), 1)


SIGHTING = MessageIdentity(5, frozenset(), "one@x", 100, WHEN.replace(microsecond=0))

# action, folder of the message, its flags -> the role it moves to; whether it stays
DESTINATIONS: tuple[tuple[Action, MirroredFolder, str, FolderRole | None, bool], ...] = (
    ("archive", INBOX, "", "archive", False),
    ("archive", TRASH, "", "archive", False),
    ("archive", ARCHIVE, "", "archive", True),
    ("trash", ARCHIVE, "", "trash", False),
    ("trash", TRASH, "", "trash", True),
    ("untrash", TRASH, "", "inbox", False),
    ("untrash", TRASH, "\\Draft", "drafts", False),
    ("untrash", TRASH, "\\draft", "drafts", False),
    ("untrash", INBOX, "", None, True),
    ("untrash", WORK, "\\Draft", None, True),
    ("move", INBOX, "", None, False),
    ("move", WORK, "", None, True),
    ("delete", TRASH, "", None, False),
    ("markRead", INBOX, "", None, False),
)


@pytest.mark.parametrize(("action", "place", "flags", "role", "stays"), DESTINATIONS)
def test_where_a_message_goes(
    action: Action, place: MirroredFolder, flags: str, role: FolderRole | None, stays: bool
) -> None:
    located = message(place, "one", *flags.split())
    wanted = MessageAction(action, (located.id,), target=WORK if action == "move" else None)
    assert (bulk.destination_role(action, located), bulk.is_already_there(wanted, located)) == (role, stays)
    assert not bulk.is_already_there(wanted, replace(located, uid=None)), "who knows where it lies"


def test_one_group_for_each_folder_and_destination() -> None:
    a, b, c, d = message(TRASH, "a"), message(TRASH, "b", "\\Draft"), message(TRASH, "c"), message(WORK, "d")
    groups = bulk.group_by_folder(MessageAction("untrash", ()), [a, b, c, d])
    assert [(place.number, role, bulk.ids_of(some)) for place, role, some in groups] == [
        (3, "inbox", ("msg_a", "msg_c")),
        (3, "drafts", ("msg_b",)),
        (4, None, ("msg_d",)),
    ]


# flags, added, removed -> flags afterwards
EDITS: tuple[tuple[str, str, str, str], ...] = (
    ("", "\\Seen", "", "\\Seen"),
    ("\\seen", "\\Seen", "", "\\seen"),
    ("\\SEEN Work", "", "\\Seen", "Work"),
    ("Work", "work todo", "", "Work todo"),
    ("Work", "", "WORK", ""),
    ("Work", "", "other", "Work"),
)


@pytest.mark.parametrize(("flags", "add", "remove", "after"), EDITS)
def test_flags_are_compared_without_case(flags: str, add: str, remove: str, after: str) -> None:
    edit = FlagEdit(frozenset(add.split()), frozenset(remove.split()))
    assert edit.apply_to(frozenset(flags.split())) == frozenset(after.split())


# labels, PERMANENTFLAGS -> reason of a refusal
PERMANENT: tuple[tuple[str, str, FailureCode | None], ...] = (
    ("any thing", "\\Seen \\*", None),
    ("Work", "\\Seen work", None),
    ("Work other", "\\Seen work", "label_invalid"),
    ("Work", "\\Seen \\Deleted", "unsupported_capability"),
    ("", "", None),
)


@pytest.mark.parametrize(("labels", "permanent", "code"), PERMANENT)
def test_what_a_folder_keeps(labels: str, permanent: str, code: FailureCode | None) -> None:
    assert bulk.why_labels_refused(labels.split(), frozenset(permanent.split())) == code


def test_a_label_is_written_as_the_folder_does() -> None:
    edit = bulk.with_server_spelling(
        FlagEdit(frozenset({"WORK", "new"}), frozenset({"TODO"})), frozenset({"Work", "todo"})
    )
    assert (set(edit.add), set(edit.remove)) == ({"Work", "new"}, {"todo"})


@pytest.mark.parametrize(
    ("label", "is_one"),
    [
        *((label, True) for label in ("Work", "$later", "a.b/c:d", "[x", "a-b_c", "1", "~|}^`'&+,;<=>?@!#")),
        *((label, False) for label in ("", "a b", "$forwarded", "a\\", "\\Seen", "(", ")", "{", "%", "*", '"', "]")),
        *((label, False) for label in ("é", "\x7f", "a\n")),
    ],
)
def test_what_may_be_a_label(label: str, is_one: bool) -> None:
    code = bulk.why_impossible(MessageAction("addLabels", ("msg_1",), labels=("good", label)))
    assert code == (None if is_one else "label_invalid")


OTHER = FolderState(2, 1, 0, None)
# mirrored message, UIDVALIDITY state of the server, the message there -> code
IDENTITIES: tuple[tuple[LocatedMessage, FolderState, MessageIdentity | None, FailureCode | None], ...] = (
    (message(), STATE, SIGHTING, None),
    (message(), replace(STATE, uidnext=99, exists=50), SIGHTING, None),
    (message(), STATE, None, "not_found"),
    (message(), OTHER, SIGHTING, "identity_changed"),
    (message(), OTHER, None, "identity_changed"),
    (message(), STATE, replace(SIGHTING, message_id="two@x"), "identity_changed"),
    (message(), STATE, replace(SIGHTING, message_id=None), "identity_changed"),
    (message(), STATE, replace(SIGHTING, size=101), "identity_changed"),
    (message(), STATE, replace(SIGHTING, flags=frozenset({"\\Seen"})), None),
    # UID and UIDVALIDITY match: some servers report another date after a restore.
    (message(), STATE, replace(SIGHTING, internal_date=WHEN - timedelta(days=1)), None),
    # The position of the folder is not stored yet, during a first sync.
    (message(folder(1, None, None)), STATE, SIGHTING, None),
    (message(folder(1, None, None)), STATE, replace(SIGHTING, internal_date=WHEN - timedelta(1)), "identity_changed"),
)


@pytest.mark.parametrize(("located", "state", "sighting", "code"), IDENTITIES)
def test_whether_it_is_still_that_message(
    located: LocatedMessage, state: FolderState, sighting: MessageIdentity | None, code: FailureCode | None
) -> None:
    assert bulk.why_not_same(located, state, sighting) == code


def test_the_newest_of_equal_messages_that_nobody_else_has() -> None:
    found = {uid: replace(SIGHTING, uid=uid) for uid in (3, 7, 9)} | {11: replace(SIGHTING, uid=11, size=1)}
    assert bulk.pick_uid(message(), found, taken=[9, None]) == 7
    assert bulk.pick_uid(message(), found, taken=[3, 7, 9]) is None


def test_what_is_gone_must_have_its_date_too() -> None:
    found = {3: replace(SIGHTING, uid=3), 9: replace(SIGHTING, uid=9, internal_date=WHEN + timedelta(seconds=1))}
    assert bulk.pick_uid(replace(message(), gone=True), found, taken=[]) == 3
    assert bulk.pick_uid(replace(message(), gone=True), found, taken=[3]) is None


def test_what_is_said_first_counts_and_the_order_is_that_of_the_request() -> None:
    outcomes = BulkOutcomes(MessageAction("star", ("a", "b", "c", "d")))
    outcomes.mark_uncertain(["c"])
    outcomes.mark_succeeded(["d", "a"])
    outcomes.mark_failed(["b", "c", "d"], "provider_unavailable")
    result = outcomes.result()
    assert (result.succeeded_ids, result.uncertain_ids) == (("a", "d"), ("c",))
    assert [(one.message_id, one.code) for one in result.failed] == [("b", "provider_unavailable")]
