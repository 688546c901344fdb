"""Mail of a real server arrives in the real store, and changes there follow."""

import dataclasses
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import apsw
import pytest

from mailbox_appliance.events import FolderWritten, MessageArrived
from mailbox_appliance.model.accounts import AccountError, AccountStatus
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import mailbox
from tests.remote.odd_server import Peer, odd_server
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.sync.mirrored import Mirror, connection_to, connection_to_port, source


@pytest.fixture
def mirror(store: Store, mail_server: MailServer, user: str) -> Iterator[Mirror]:
    mirror = Mirror(store, connection_to(mail_server, user), sync__poll_interval=1)
    yield mirror
    mirror.supervisor.stop()


def test_everything_is_brought_in_and_told(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    arrived: list[MessageArrived] = []
    mirror.events.subscribe(MessageArrived, arrived.append)
    mail_server.deliver(user, source("one"), source("two"), flags="\\Seen")
    mail_server.deliver(user, source("sent"), folder="Sent")
    mail_server.deliver(user, *(source(f"old{number}") for number in range(60)), folder="Archive")
    mirror.start()
    account = mirror.store.accounts.get(mirror.account_id)
    assert (account.folders.sent, account.folders.trash, account.capabilities.idle) == ("Sent", "Trash", True)
    assert account.last_sync_at is not None
    assert mirror.messages("INBOX").keys() == {"one", "two"}
    assert mirror.messages("INBOX")["one"].flags == 1
    assert mirror.messages("Sent").keys() == {"sent"}
    assert len(mirror.messages("Archive")) == 60
    assert {event.message_id for event in arrived} == {message.id for message in mirror.messages().values()}
    assert len(arrived) == 63
    mirror.wait_for(lambda: mirror.supervisor.progress(mirror.account_id) is None, "the bodies")


def test_new_mail_comes_by_idle(mail_server: MailServer, store: Store, user: str) -> None:
    mirror = Mirror(store, connection_to(mail_server, user), sync__poll_interval=600)
    with mirror.running():
        for subject in ("first", "second"):
            mail_server.deliver(user, source(subject))
            mirror.wait_for(lambda: subject in mirror.messages("INBOX"), subject, 2)  # noqa: B023 - waited for here


def test_changes_elsewhere_follow_and_ids_stay(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    mail_server.deliver(user, source("stays"), source("goes"), folder="Archive")
    mirror.start()
    before = mirror.messages("Archive")["stays"]
    mail_server.doveadm("flags", "add", "-u", user, "\\Seen \\Flagged", "mailbox", "Archive", "subject", "stays")
    mail_server.doveadm("expunge", "-u", user, "mailbox", "Archive", "subject", "goes")
    mail_server.make_folder(user, "Neu")
    mail_server.deliver(user, source("new"), folder="Neu")
    mirror.wait_for(lambda: "new" in mirror.messages("Neu"), "the new folder")
    mirror.wait_for(lambda: mirror.messages("Archive").keys() == {"stays"}, "what is gone")
    after = mirror.messages("Archive")
    assert (after["stays"].id, after["stays"].flags) == (before.id, 3)


def test_a_folder_we_wrote_to_is_looked_at_at_once(mail_server: MailServer, store: Store, user: str) -> None:
    mirror = Mirror(store, connection_to(mail_server, user), sync__poll_interval=600)
    with mirror.running():
        mail_server.deliver(user, source("copy"), folder="Sent")
        mirror.events.publish(FolderWritten(mirror.account_id, "Sent"))
        mirror.wait_for(lambda: "copy" in mirror.messages("Sent"), "the copy")
        mail_server.make_folder(user, "Made")
        mail_server.deliver(user, source("there"), folder="Made")
        mirror.events.publish(FolderWritten(mirror.account_id, "Made"))
        mirror.wait_for(lambda: "there" in mirror.messages("Made"), "the folder made")


def test_a_second_run_brings_nothing_twice(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    mail_server.deliver(user, source("one"))
    mirror.start()
    before = mirror.messages("INBOX")
    mirror.supervisor.remove(mirror.account_id)
    mirror.store.accounts.set_status(mirror.account_id, "connecting")
    mirror.supervisor.add(mirror.account_id)
    mirror.supervisor.add(mirror.account_id)
    mirror.wait_for_status("ready")
    assert mirror.messages("INBOX") == before


def test_a_refused_login_is_tried_again_only_when_told(mail_server: MailServer, store: Store, user: str) -> None:
    right = connection_to(mail_server, user)
    wrong = dataclasses.replace(right, imap=dataclasses.replace(right.imap, password="wrong"))
    mirror = Mirror(store, wrong)
    with mirror.running(is_ready=False):
        error = mirror.wait_for_error("reauth_required")
        assert (error.code, "password" in error.message) == ("authentication_failed", True)
        store.accounts.set_status(mirror.account_id, "connecting")
        mirror.supervisor.wake(mirror.account_id, "INBOX")  # not what it waits for
        mirror.supervisor.wake(mirror.account_id, None)
        mirror.wait_for_status("reauth_required")


def test_an_account_that_cannot_be_reached_says_so_and_comes_back(
    store: Store, mail_server: MailServer, user: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    right = connection_to(mail_server, user)
    mirror = Mirror(store, dataclasses.replace(right, imap=dataclasses.replace(right.imap, port=port)))
    with mirror.running(is_ready=False):
        assert mirror.wait_for_error().code == "provider_unavailable"


def test_a_lost_connection_is_made_anew(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    mirror.start()
    mail_server.doveadm("kick", user)
    mirror.wait_for_status("error")
    mail_server.deliver(user, source("meanwhile"))
    mirror.supervisor.wake(mirror.account_id, None)
    mirror.wait_for_status("ready")
    assert "meanwhile" in mirror.messages("INBOX")
    assert mirror.store.accounts.get(mirror.account_id).error is None


def test_the_end_of_a_connection_that_has_served_long_is_nothing_to_tell_of(
    mail_server: MailServer, user: str, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Gmail and Exchange Online end one whose access token is over."""
    monkeypatch.setattr(mailbox, "LASTING", 0.0)
    monkeypatch.setattr(mailbox, "FIRST_RETRY", 0.05)
    mirror.start()
    told = list[str]()
    set_status = mirror.store.accounts.set_status

    def note(account_id: str, status: AccountStatus, error: AccountError | None = None) -> None:
        told.append(status)
        set_status(account_id, status, error)

    monkeypatch.setattr(mirror.store.accounts, "set_status", note)
    mail_server.doveadm("kick", user)
    wait_until(lambda: "ready" in told, lambda: f"it told {told}", 10)
    assert told == ["syncing", "ready"]


def test_a_full_disk_does_not_end_it(
    mail_server: MailServer, store: Store, user: str, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "FIRST_RETRY", 0.05)
    tried = threading.Semaphore(0)
    change, full = store.database.change, threading.Event()

    def refuse(sql: str, parameters: Sequence[object] = ()) -> int:
        if full.is_set():
            tried.release()
            raise apsw.FullError
        return change(sql, parameters)

    monkeypatch.setattr(store.database, "change", refuse)
    full.set()
    mirror.supervisor.start()
    for _ in range(4):
        assert tried.acquire(timeout=10)
    full.clear()
    mirror.wait_for_status("ready")
    mail_server.deliver(user, source("after"))
    mirror.wait_for(lambda: "after" in mirror.messages("INBOX"), "the mail after")


def test_stopping_does_not_wait_for_a_silent_server(store: Store) -> None:
    waiting = threading.Event()

    def part(peer: Peer) -> None:
        peer.say("* OK hello")
        peer.hear()
        waiting.set()
        peer.until_gone()

    with odd_server(part) as port:
        mirror = Mirror(store, connection_to_port(port), remote__timeout=60)
        mirror.supervisor.start()
        assert waiting.wait(10)
        mirror.supervisor.stop()
    assert not any(thread.name == f"sync-{mirror.account_id}" for thread in threading.enumerate())
    assert store.accounts.get(mirror.account_id).error is None


def test_stopping_does_not_wait_for_a_host_that_is_silent(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.socket() as first,
        socket.socket() as last,
    ):
        first.connect(listener.getsockname())  # nobody accepts it: there is no place for others
        last.setblocking(False)
        last.connect_ex(listener.getsockname())
        mirror = Mirror(store, connection_to_port(listener.getsockname()[1]), remote__timeout=60)
        mirror.supervisor.start()
        mirror.wait_for(lambda: bool(_threads()), "a turn")
        time.sleep(0.1)  # it has begun to connect, which nothing tells
        began = time.monotonic()
        mirror.supervisor.stop()
        assert time.monotonic() - began < 30
    assert not caplog.records
    for thread in _threads():
        thread.join(10)  # it is refused now
    assert not _threads()


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if re.fullmatch(r"sync-\d+", thread.name)]


def test_a_removed_mailbox_ends_its_sync(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    mirror.start()
    mirror.supervisor.remove(mirror.account_id)
    with mirror.store.database.transaction():
        mirror.store.accounts.remove(mirror.account_id)
    assert mirror.supervisor.progress(mirror.account_id) is None
    mirror.supervisor.wake(mirror.account_id, None)
    assert not any(thread.name == f"sync-{mirror.account_id}" for thread in threading.enumerate())
