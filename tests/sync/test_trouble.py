"""What servers do that they should not, and what happens at a bad moment: the mirror goes on, and never for ever."""

import re
import time
from collections.abc import Iterator

import pytest

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


def test_a_message_that_breaks_every_connection_is_listed_without_its_body(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("bad"))
    proxy.cut_at(r"FETCH .*BODY\.PEEK\[\]", times=FOREVER)
    mirror.start()
    assert mirror.messages()["bad"].body == 1
    assert "does not give this message" in mirror.messages()["bad"].warnings
    proxy.heal()
    mail_server.deliver(user, source("good"))
    mirror.wait_for(lambda: "good" in mirror.messages(), "the next one")
    assert mirror.messages()["good"].text == "body"


def test_a_message_that_the_server_refuses_is_listed_without_its_body(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("bad"), source("big", size=300_000))
    proxy.refuse(r"FETCH .*BODY\.PEEK\[\]", "FETCH .*BODYSTRUCTURE", answer="NO [SERVERBUG] Oops")
    mirror.start()
    assert {one: message.body for one, message in mirror.messages().items()} == {"bad": 1, "big": 1}
    assert all("does not give this message" in message.warnings for message in mirror.messages().values())


def test_a_message_whose_header_is_refused_is_listed_too(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.deliver(user, source("bad"))
    proxy.refuse("FETCH .*HEADER", answer="NO [SERVERBUG] Oops")
    mirror.start()
    (message,) = mirror.messages().values()
    assert "does not give this message" in message.warnings
    mirror.wake()
    mirror.wait_until_equal(mail_server, user)


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
    told: set[str | None] = set()
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
    assert re.fullmatch(r"bodies of \d+ messages left", progress or "")
    began = time.monotonic()
    mirror.supervisor.remove(mirror.account_id)
    assert time.monotonic() - began < 2


def test_a_folder_that_is_deleted_before_its_bodies_came(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH_COUNT", 5)
    mail_server.make_folder(user, "Alt")
    mail_server.deliver(user, *(source(f"m{number}") for number in range(80)), folder="Alt")
    proxy.latency = 0.01
    mirror.supervisor.start()
    mirror.wait_for_status("ready")
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
