"""What servers do that they should not, and what happens at a bad moment: the mirror goes on, and never for ever."""

import re
import time
from collections.abc import Iterator

import pytest

from mailbox_appliance.events import FolderWritten
from mailbox_appliance.model.sync import SyncProgress
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import backlog, folder, follower, mailbox
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.sync.mirrored import Mirror, connection_to, source

FOREVER = float("inf")


@pytest.fixture
def mirror(
    mail_server: MailServer, store: Store, user: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mirror]:
    monkeypatch.setattr(mailbox, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(mailbox, "LONGEST_RETRY", 0.01)
    mirror = Mirror(store, connection_to(mail_server, user, proxy.port), sync__poll_interval=600)
    yield mirror
    mirror.supervisor.stop()


def test_a_message_that_breaks_every_connection_is_listed_and_asked_for_again_later(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("bad"))
    proxy.cut_at(r"FETCH .*BODY\.PEEK\[\]", times=FOREVER)
    mirror.start()
    assert mirror.messages()["bad"].body == 0
    cuts = proxy.cuts
    mail_server.deliver(user, source("other"), folder="Archive")
    mirror.events.publish(FolderWritten(mirror.account_id, "Archive"))
    mirror.wait_for(lambda: proxy.cuts > cuts, "another cut")  # of the other one
    proxy.heal()
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)
    assert [message.text for message in mirror.messages().values()] == ["body", "body"]


@pytest.mark.parametrize("answer", ["NO [SERVERBUG] Oops", "NO [UNAVAILABLE] Try again", "NO Oops"])
def test_messages_that_are_refused_for_a_moment_are_all_there_afterwards(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, answer: str
) -> None:
    parts = (r"FETCH .*BODY\.PEEK\[\]", "FETCH .*BODYSTRUCTURE", r"FETCH .*BODY\.PEEK\[HEADER")
    proxy.refuse(*parts, answer=answer)
    mail_server.deliver(user, source("a"), source("b"), source("big", size=300_000))
    mirror.start()
    assert len(rows := _rows(mirror)) == 3
    assert {row[0] for row in rows} == {""}
    assert {row[3] for row in rows} == {0}
    assert all(size > 50 and moment > 10**12 for _, size, moment, _ in rows)
    reply = source("c").replace(b"Subject: c", b"References: <a@example.test>\r\nSubject: Re: c")
    proxy.heal()
    mail_server.deliver(user, reply)
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)
    assert {(row[0], row[3]) for row in _rows(mirror)} == {("a", 1), ("b", 1), ("big", 2), ("Re: c", 1)}
    threads = "SELECT count(*), count(DISTINCT thread) FROM messages WHERE subject IN ('a', 'Re: c')"
    assert mirror.store.database.rows(threads) == [(2, 1)]
    assert mirror.store.database.value("SELECT count(*) FROM threads") == 3


def _rows(mirror: Mirror) -> list[tuple[str, int, int, int]]:
    return mirror.store.database.rows("SELECT subject, size, internal_date, body FROM messages")


def test_a_message_that_is_refused_for_good_holds_nothing_up(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("before"), source("bad"), source("after"))
    proxy.refuse(r"UID FETCH (1:2|2|2:3|1:3) .*BODY\.PEEK\[\]", answer="NO [SERVERBUG] Oops")
    mirror.start()
    assert {one: message.body for one, message in mirror.messages().items()} == {"before": 1, "bad": 0, "after": 1}
    asked = proxy.count(r"FETCH 2 .*BODY\.PEEK\[\]")
    mail_server.deliver(user, source("next"))
    mirror.wait_for(lambda: "next" in mirror.messages() and mirror.messages()["next"].body == 1, "the next one")
    assert proxy.count(r"FETCH 2 .*BODY\.PEEK\[\]") == asked


def test_a_folder_that_is_refused_holds_nothing_up(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("closed"), folder="Archive")
    mail_server.deliver(user, source("goes"), source("stays"))
    proxy.refuse("EXAMINE .*Archive", answer="NO [NOPERM] Not yours")
    mirror.start()
    assert mirror.messages("Archive") == {}
    mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", "goes")

    def is_gone() -> bool:
        mirror.wake()
        return mirror.ids().keys() == {"stays"}

    mirror.wait_for(is_gone, "what was deleted")
    proxy.heal()
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)


def test_a_folder_that_is_refused_for_a_moment_costs_no_ids(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("there"), folder="Archive")
    mail_server.deliver(user, source("moves"), *(source(f"m{number}") for number in range(6)))
    mirror.start()
    before = mirror.ids()
    proxy.refuse("EXAMINE .*Archive", answer="NO Not now")
    mail_server.doveadm("move", "-u", user, "Archive", "mailbox", "INBOX", "subject", "moves")
    for number in range(6):  # each has everything looked at
        mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", f"m{number}")
        mirror.wait_for(lambda: mirror.messages()[f"m{number}"].gone == 1, "what was deleted")  # noqa: B023 - see above
    refused = proxy.count("EXAMINE .*Archive")
    mirror.wake()
    mirror.wait_for(lambda: proxy.count("EXAMINE .*Archive") > refused, "another look")
    proxy.heal()
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)
    assert mirror.ids() == {one: before[one] for one in ("there", "moves")}


def test_a_folder_that_is_refused_for_long_holds_nothing_up(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_server.deliver(user, source("there"), folder="Archive")
    mail_server.deliver(user, source("goes"))
    mirror.start()
    monkeypatch.setattr(follower, "LONGEST_REFUSAL", 0.05)
    proxy.refuse("EXAMINE .*Archive", answer="NO Not now")
    mail_server.doveadm("flags", "add", "-u", user, "\\Seen", "mailbox", "Archive", "subject", "there")
    mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", "goes")

    def is_gone() -> bool:
        mirror.wake()
        return mirror.ids().keys() == {"there"}

    mirror.wait_for(is_gone, "what was deleted")


def test_new_mail_is_there_in_the_middle_of_a_first_sync(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "HEADERS", 5)
    monkeypatch.setattr(backlog, "BATCH_COUNT", 5)
    monkeypatch.setattr(mailbox, "TURN", 0.05)
    mail_server.deliver(user, *(source(f"m{number}") for number in range(400)), folder="Archive")
    proxy.latency = 0.005
    told: set[SyncProgress | None] = set()
    mirror.supervisor.start()
    mirror.wait_for(lambda: len(mirror.messages("Archive")) > 10, "the first headers")
    mail_server.deliver(user, source("early"))
    mirror.wait_for(lambda: "early" in mirror.messages("INBOX"), "the new mail")
    assert mirror.store.accounts.get(mirror.account_id).status == "syncing"
    mirror.wait_for_status("ready")
    told.add(mirror.supervisor.progress(mirror.account_id))
    mail_server.deliver(user, source("later"))
    mirror.wait_for(lambda: "later" in mirror.messages("INBOX"), "the new mail")
    assert mirror.messages("INBOX")["later"].text == "body"
    progress = mirror.supervisor.progress(mirror.account_id)
    assert re.fullmatch(r"\d+ messages still without their text", progress.text if progress else "")
    began = time.monotonic()
    mirror.supervisor.remove(mirror.account_id)
    assert time.monotonic() - began < 2


def test_what_was_moved_out_of_a_folder_that_is_deleted_keeps_its_id(
    mail_server: MailServer, user: str, mirror: Mirror
) -> None:
    mail_server.make_folder(user, "Alt")
    mail_server.deliver(user, source("moves"), source("goes"), folder="Alt")
    mirror.start()
    before = mirror.ids()
    mail_server.doveadm("move", "-u", user, "Archive", "mailbox", "Alt", "subject", "moves")
    mail_server.doveadm("mailbox", "delete", "-u", user, "Alt")
    mirror.events.publish(FolderWritten(mirror.account_id, "Archive"))  # nobody has said that `Alt` is gone
    mirror.wait_for(lambda: "moves" in mirror.messages("Archive"), "what was moved")
    mirror.wait_until_equal(mail_server, user)
    assert mirror.ids() == {"moves": before["moves"]}


def test_a_folder_that_is_deleted_before_its_bodies_came(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH_COUNT", 5)
    mail_server.make_folder(user, "Alt")
    mail_server.deliver(user, *(source(f"m{number}") for number in range(80)), folder="Alt")
    proxy.latency = 0.01
    mirror.start()
    mail_server.doveadm("mailbox", "delete", "-u", user, "Alt")
    mail_server.deliver(user, source("new"))  # which makes it look elsewhere
    mirror.wait_for(lambda: "new" in mirror.messages(), "the new mail")
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)
    assert mirror.ids().keys() == {"new"}


def test_a_lost_connection_is_noticed_at_once(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mirror.start()
    for number in range(3):
        before = proxy.accepted
        proxy.cut_all()
        mirror.wait_for(lambda: proxy.accepted > before, "another connection", 3)  # noqa: B023 - waited for here
        mail_server.deliver(user, source(f"m{number}"))
        mirror.wait_for(lambda: f"m{number}" in mirror.messages(), "the mail", 5)  # noqa: B023 - waited for here


def test_a_server_that_refuses_idle_is_polled(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    proxy.refuse("IDLE", answer="NO Not today")
    mirror.start()
    mail_server.deliver(user, source("new"))
    mirror.wake()
    mirror.wait_for(lambda: "new" in mirror.messages(), "the new mail")
    assert mirror.store.accounts.get(mirror.account_id).status == "ready"
    assert (proxy.accepted, proxy.count("IDLE")) == (1, 1)


def test_mail_that_comes_before_a_server_refuses_idle_is_seen(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = proxy.refusal

    def refuse_after_delivery(command: str) -> str | None:
        if command == "IDLE":
            mail_server.deliver(user, source("new"))
        return refusal(command)

    proxy.refuse("IDLE", answer="NO Not today")
    monkeypatch.setattr(proxy, "refusal", refuse_after_delivery)
    mirror.start()
    mirror.wait_for(lambda: "new" in mirror.messages(), "the new mail", 3)
