"""Drafts at a real server: the state there and in the mirror, and that no draft is lost with a connection."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from types import FrameType

import pytest

from mailbox_appliance.errors import NotFound, NotMarkedAsDraft, SyncRequired
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.search import searched_words
from mailbox_appliance.mailbox.drafts import Drafts, DraftVersion
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.sync import LocatedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.store.store import Store
from tests.mailbox.rig import WHEN, Rig, letter

DRAFT = frozenset({"\\Draft", "\\Seen"})


def version(subject: str) -> DraftVersion:
    return DraftVersion(Content(letter(subject)), f"<{subject}@example.test>", WHEN)


def drafts(rig: Rig) -> Drafts:
    return Drafts(rig.connections, rig.store, rig.events)


def located(rig: Rig, draft_id: str) -> LocatedMessage:
    return rig.store.mailbox_writer.locate(rig.account_id, [draft_id])[draft_id]


def replace(rig: Rig, draft_id: str, new: DraftVersion, *, may_delete: bool = False) -> tuple[str, ...]:
    return drafts(rig).replace(rig.account_id, draft_id, new, may_delete=may_delete)


def remove(rig: Rig, draft_id: str, *, may_delete: bool = False) -> None:
    drafts(rig).remove(rig.account_id, draft_id, may_delete=may_delete)


def test_a_draft_from_beginning_to_end(rig: Rig) -> None:
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"one": DRAFT}
    assert (rig.id("one"), located(rig, draft).uid, rig.touched) == (draft, 1, ["Drafts"])
    assert replace(rig, draft, version("two")) == ()
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"two": DRAFT}
    assert (rig.id("two"), located(rig, draft).uid) == (draft, 2)
    remove(rig, draft)
    assert rig.here("Drafts") == rig.at_server("Drafts") == {}


def test_the_next_sync_finds_nothing_new(rig: Rig) -> None:
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    rig.mirror()
    replace(rig, draft, version("two"))
    rig.mirror()
    assert rig.id("two") == draft
    assert rig.here("Drafts").keys() == {"two"}


def test_a_star_and_labels_stay_and_others_drafts_too(rig: Rig) -> None:
    one, _ = rig.deliver("one", "other", folder="Drafts", flags="\\Draft \\Flagged todo")
    rig.server.doveadm("flags", "add", "-u", rig.user, "\\Deleted", "mailbox", "Drafts", "subject", "other")
    replace(rig, one, version("two"))
    kept = frozenset({"\\Draft", "\\Flagged", "todo"})
    assert rig.at_server("Drafts") == {"other": kept | {"\\Deleted"}, "two": kept | {"\\Seen"}}
    assert rig.here("Drafts")["two"] == kept | {"\\Seen"}


def test_a_drafts_folder_is_made(bare: Rig) -> None:
    bare.mirror()
    draft = drafts(bare).create(bare.account_id, version("one"), None)
    assert bare.here("INBOX.Drafts") == bare.at_server("INBOX.Drafts") == {"one": DRAFT}
    found = bare.store.folders.find_by_role(bare.account_id, "drafts")
    assert (found and found.path, bare.id("one")) == ("INBOX.Drafts", draft)


@pytest.mark.parametrize("change", ["expunge", "replace"])
def test_a_draft_that_somebody_else_changed_is_left_alone(rig: Rig, change: str) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    if change == "expunge":
        rig.server.doveadm("expunge", "-u", rig.user, "mailbox", "Drafts", "all")
    else:
        with rig.store.database.transaction():
            rig.store.database.change("UPDATE messages SET message_id = 'earlier@x' WHERE id = ?", (one,))
    there = rig.at_server("Drafts")
    for act in (lambda: replace(rig, one, version("two")), lambda: remove(rig, one)):
        with pytest.raises(SyncRequired):
            act()
    assert rig.at_server("Drafts") == there
    assert set(rig.touched) == {"Drafts"}


def test_a_server_without_uidplus(rig: Rig) -> None:
    rig.proxy.make_poor()
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert (located(rig, draft).uid, rig.here("Drafts")) == (1, {"one": DRAFT}), "found by its Message-ID"
    assert replace(rig, draft, version("zero")) == ()
    assert rig.at_server("Drafts") == {"zero": DRAFT}, "the old one is alone in being marked as deleted"
    replace(rig, draft, version("one"))
    rig.server.deliver(rig.user, b"Subject: other\n\n.", folder="Drafts", flags="\\Deleted")
    (warning,) = replace(rig, draft, version("two"))
    assert "may still be listed" in warning
    other = {"other": frozenset({"\\Deleted"})}
    assert rig.at_server("Drafts") == {"one": DRAFT | {"\\Deleted"}, "two": DRAFT} | other
    assert (rig.id("two"), rig.here("Drafts")) == (draft, {"two": DRAFT})
    with pytest.raises(RemoteFault) as caught:
        remove(rig, draft)
    assert caught.value.kind == "unsupported"
    assert rig.proxy.count("EXPUNGE") == 2


def test_an_append_whose_answer_is_lost_is_looked_for(rig: Rig) -> None:
    rig.mirror()
    rig.proxy.cut_at("APPEND", moment="after")
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"one": DRAFT}
    rig.proxy.cut_at("APPEND", moment="after")
    assert replace(rig, draft, version("two")) == ()
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"two": DRAFT}
    assert (rig.id("two"), rig.proxy.cuts) == (draft, 2)


def test_an_append_that_did_not_happen_changes_nothing(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    spoiling: tuple[Callable[[], None], ...] = (
        lambda: rig.proxy.refuse("APPEND", answer="NO [OVERQUOTA] Full", times=1),
        lambda: rig.proxy.cut_at("APPEND"),
        lambda: rig.proxy.cut_at("FETCH"),
    )
    for spoil in spoiling:
        spoil()
        with pytest.raises(RemoteFault):
            replace(rig, one, version("two"))
        assert rig.here("Drafts") == rig.at_server("Drafts") == {"one": frozenset({"\\Draft"})}
    rig.proxy.cut_at("APPEND")
    with pytest.raises(RemoteFault):
        drafts(rig).create(rig.account_id, version("three"), None)
    assert rig.agrees("Drafts")


@pytest.mark.parametrize("command", ["UID STORE", "UID EXPUNGE"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_new_version_counts_though_the_old_one_could_not_be_removed(rig: Rig, command: str, moment: str) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    rig.proxy.cut_at(command, moment=moment)  # type: ignore[arg-type]
    (warning,) = replace(rig, one, version("two"))
    assert "could not be removed" in warning
    assert rig.at_server("Drafts")["two"] == DRAFT
    assert (rig.id("two"), set(rig.here("Drafts"))) == (one, {"two"})


def test_a_removal_in_doubt_is_told_and_looked_at(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    rig.proxy.cut_at("UID EXPUNGE", moment="after")
    with pytest.raises(RemoteFault):
        remove(rig, one)
    assert (rig.at_server("Drafts"), set(rig.here("Drafts")), rig.touched) == ({}, {"one"}, ["Drafts"])


def test_sync_may_see_the_new_version_first(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    rig.proxy.withhold(b"APPENDUID")
    warnings = list[str]()
    replacing = Thread(target=lambda: warnings.extend(replace(rig, one, version("two"))))
    replacing.start()
    rig.proxy.wait_until_withheld()
    rig.mirror()
    assert rig.id("two") != one
    rig.proxy.go_on()
    replacing.join(10)
    assert (rig.id("two"), rig.here("Drafts")) == (one, {"two": DRAFT})
    # The connection is cut while the response is sent, which may hit the removal of the old version; a warning reports
    # it.
    assert rig.at_server("Drafts")["two"] == DRAFT
    assert rig.at_server("Drafts").keys() == {"two"} or warnings


# --- drafts, and messages that are not marked as such ---


@pytest.mark.parametrize("where", ["mirror", "server"])
def test_what_is_not_marked_is_only_for_who_may_delete_it(rig: Rig, where: str) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft" if where == "server" else "")
    if where == "server":
        rig.server.doveadm("flags", "remove", "-u", rig.user, "\\Draft", "mailbox", "Drafts", "all")
    problem = SyncRequired if where == "server" else NotMarkedAsDraft
    for act in (lambda: replace(rig, one, version("two")), lambda: remove(rig, one)):
        with pytest.raises(problem):
            act()
    assert rig.at_server("Drafts") == {"one": frozenset()}
    assert replace(rig, one, version("two"), may_delete=True) == ()
    assert rig.at_server("Drafts") == {"two": DRAFT}


def test_a_message_of_another_folder_is_no_draft(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Sent")
    for act in (lambda: replace(rig, one, version("two"), may_delete=True), lambda: remove(rig, one, may_delete=True)):
        with pytest.raises(NotFound):
            act()
    assert "one" in rig.at_server("Sent")


def test_one_draft_is_changed_by_one_at_a_time(rig: Rig) -> None:
    rig.mirror()
    writer, draft = drafts(rig), drafts(rig).create(rig.account_id, version("v"), None)
    with ThreadPoolExecutor(4) as pool:
        changes = [
            pool.submit(writer.replace, rig.account_id, draft, version(f"v{number}"), may_delete=False)
            for number in range(4)
        ]
    assert [change.result() for change in changes] == [()] * 4
    assert len(rig.at_server("Drafts")) == 1
    assert rig.agrees("Drafts")
    with ThreadPoolExecutor(2) as pool:
        removal = pool.submit(writer.remove, rig.account_id, draft, may_delete=False)
        change = pool.submit(writer.replace, rig.account_id, draft, version("late"), may_delete=False)
    assert removal.exception() is None
    assert isinstance(change.exception(), NotFound | None)
    assert rig.at_server("Drafts") == rig.here("Drafts") == {}


# --- behavior of real servers ---


def test_a_server_that_tells_another_size(rig: Rig) -> None:
    rig.proxy.change_answers(rb"(?<=RFC822\.SIZE )\d+", lambda found: b"%d" % (int(found[0]) + 17))
    rig.mirror()
    for _ in ("told the UID", "not told the UID"):
        draft = drafts(rig).create(rig.account_id, version("one"), None)
        assert replace(rig, draft, version("two")) == ()
        assert located(rig, draft).size == len(version("two").source) + 17
        remove(rig, draft)
        assert rig.at_server("Drafts") == rig.here("Drafts") == {}
        rig.proxy.change_answers(rb"\[APPENDUID [^\]]*\] ?", lambda _: b"")


def test_a_folder_made_anew_has_other_uids(rig: Rig) -> None:
    (old,) = rig.deliver("old", folder="Drafts", flags="\\Draft")
    rig.server.renumber(rig.user, "Drafts")
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert (located(rig, draft).uid, located(rig, old).uid) == (None, 1), "until sync knows the folder again"
    assert set(rig.here("Drafts")) == {"old", "one"}


def test_an_append_that_cannot_be_found_is_not_done_twice(rig: Rig) -> None:
    rig.proxy.make_poor()
    rig.mirror()
    rig.proxy.cut_at("SEARCH")
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert (located(rig, draft).uid, rig.touched) == (None, ["Drafts"])
    rig.mirror()
    assert (rig.id("one"), located(rig, draft).uid) == (draft, 1)
    rig.proxy.cut_at("APPEND", moment="after")
    rig.proxy.cut_at("SEARCH")
    with pytest.raises(RemoteFault) as caught:
        drafts(rig).create(rig.account_id, version("two"), None)
    assert (caught.value.in_doubt, rig.touched) == (True, ["Drafts"] * 2)


def test_nothing_is_parsed_while_the_store_is_written(rig: Rig) -> None:
    rig.mirror()
    with moments_of_parsing(rig.store) as moments:
        draft = drafts(rig).create(rig.account_id, version("one"), None)
        replace(rig, draft, version("two"))
    assert moments.count(True) == 0 < moments.count(False)


@contextmanager
def moments_of_parsing(store: Store) -> Iterator[list[bool]]:
    """Yield a list of whether a transaction was open, for each time this thread parsed a message or made its search
    words.
    """
    moments = list[bool]()

    def look(frame: FrameType, event: str, _: object) -> None:
        is_parsing = frame.f_code is parse_message.__code__
        if event == "call" and frame.f_code is searched_words.__code__:
            is_parsing = frame.f_locals["parsed"].searched is None
        if event == "call" and is_parsing:
            moments.append(store.database._connection().in_transaction)

    sys.setprofile(look)
    try:
        yield moments
    finally:
        sys.setprofile(None)
