"""Drafts at a real server: what lies there, what the mirror has, and that nothing is lost when a connection is."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from mailbox_appliance.errands.drafts import Drafts, Version
from mailbox_appliance.errors import SyncRequired
from mailbox_appliance.records import LocatedMessage
from mailbox_appliance.remote.faults import RemoteFault
from tests.errands.rig import WHEN, Rig, letter
from tests.servers.dovecot import MailServer
from tests.servers.holding_proxy import HoldingProxy

DRAFT = frozenset({"\\Draft", "\\Seen"})


def version(subject: str) -> Version:
    return Version(letter(subject), f"<{subject}@example.test>", WHEN)


def drafts(rig: Rig) -> Drafts:
    return Drafts(rig.connections, rig.store, rig.events)


def located(rig: Rig, draft_id: str) -> LocatedMessage:
    return rig.store.mirror.locate(rig.account_id, [draft_id])[draft_id]


def test_a_draft_from_beginning_to_end(rig: Rig) -> None:
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"one": DRAFT}
    assert (rig.id("one"), located(rig, draft).uid, rig.touched) == (draft, 1, ["Drafts"])
    assert drafts(rig).replace(located(rig, draft), version("two")) == ()
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"two": DRAFT}
    assert (rig.id("two"), located(rig, draft).uid) == (draft, 2)
    drafts(rig).remove(located(rig, draft))
    assert rig.here("Drafts") == rig.at_server("Drafts") == {}


def test_the_next_sync_finds_nothing_new(rig: Rig) -> None:
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    rig.mirror()
    drafts(rig).replace(located(rig, draft), version("two"))
    rig.mirror()
    assert rig.id("two") == draft
    assert rig.here("Drafts").keys() == {"two"}


def test_a_star_and_labels_stay_and_others_drafts_too(rig: Rig) -> None:
    one, _ = rig.deliver("one", "other", folder="Drafts", flags="\\Draft \\Flagged todo")
    rig.server.doveadm("flags", "add", "-u", rig.user, "\\Deleted", "mailbox", "Drafts", "subject", "other")
    drafts(rig).replace(located(rig, one), version("two"))
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
    for act in (lambda draft: drafts(rig).replace(draft, version("two")), drafts(rig).remove):
        with pytest.raises(SyncRequired):
            act(located(rig, one))
    assert rig.at_server("Drafts") == there
    assert set(rig.touched) == {"Drafts"}


def test_a_server_without_uidplus(rig: Rig) -> None:
    rig.proxy.make_poor()
    rig.mirror()
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert (located(rig, draft).uid, rig.here("Drafts")) == (1, {"one": DRAFT}), "found by its Message-ID"
    assert drafts(rig).replace(located(rig, draft), version("zero")) == ()
    assert rig.at_server("Drafts") == {"zero": DRAFT}, "the old one is alone in being marked as deleted"
    drafts(rig).replace(located(rig, draft), version("one"))
    rig.server.deliver(rig.user, b"Subject: other\n\n.", folder="Drafts", flags="\\Deleted")
    (warning,) = drafts(rig).replace(located(rig, draft), version("two"))
    assert "may still be listed" in warning
    other = {"other": frozenset({"\\Deleted"})}
    assert rig.at_server("Drafts") == {"one": DRAFT | {"\\Deleted"}, "two": DRAFT} | other
    assert (rig.id("two"), rig.here("Drafts")) == (draft, {"two": DRAFT})
    with pytest.raises(RemoteFault) as caught:
        drafts(rig).remove(located(rig, draft))
    assert caught.value.kind == "unsupported"
    assert rig.proxy.count("EXPUNGE") == 2


def test_an_append_whose_answer_is_lost_is_looked_for(rig: Rig) -> None:
    rig.mirror()
    rig.proxy.cut_at("APPEND", moment="after")
    draft = drafts(rig).create(rig.account_id, version("one"), None)
    assert rig.here("Drafts") == rig.at_server("Drafts") == {"one": DRAFT}
    rig.proxy.cut_at("APPEND", moment="after")
    assert drafts(rig).replace(located(rig, draft), version("two")) == ()
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
            drafts(rig).replace(located(rig, one), version("two"))
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
    (warning,) = drafts(rig).replace(located(rig, one), version("two"))
    assert "could not be removed" in warning
    assert rig.at_server("Drafts")["two"] == DRAFT
    assert (rig.id("two"), set(rig.here("Drafts"))) == (one, {"two"})


def test_a_removal_in_doubt_is_told_and_looked_at(rig: Rig) -> None:
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    rig.proxy.cut_at("UID EXPUNGE", moment="after")
    with pytest.raises(RemoteFault):
        drafts(rig).remove(located(rig, one))
    assert (rig.at_server("Drafts"), set(rig.here("Drafts")), rig.touched) == ({}, {"one"}, ["Drafts"])


def test_sync_may_see_the_new_version_first(tmp_path: Path, mail_server: MailServer) -> None:
    holding = HoldingProxy(mail_server.imap_port)
    rig = Rig(tmp_path / "data", mail_server, port=holding.port)
    (one,) = rig.deliver("one", folder="Drafts", flags="\\Draft")
    holding.withhold(b"APPENDUID")
    stale, warnings = located(rig, one), list[str]()
    replacing = Thread(target=lambda: warnings.extend(drafts(rig).replace(stale, version("two"))))
    replacing.start()
    holding.wait_until_held()
    rig.mirror()
    assert rig.id("two") != one
    holding.let_go()
    replacing.join(10)
    assert (rig.id("two"), rig.here("Drafts")) == (one, {"two": DRAFT})
    # The connection is cut as the answer is let go: that may hit the removal of the old version, which is told.
    assert rig.at_server("Drafts")["two"] == DRAFT
    assert rig.at_server("Drafts").keys() == {"two"} or warnings
    rig.close()
    holding.stop()
