"""One connection for each mailbox, lent to one request at a time, and kept while it works."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.mailbox.connections import Connections
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.errors import RemoteFault
from tests.mailbox.rig import Rig
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until


@pytest.fixture
def impatient(tmp_path: Path, mail_server: MailServer) -> Iterator[Rig]:
    """Yield a mailbox where nothing waits longer than a second."""
    made = Rig(tmp_path / "data", mail_server, remote__timeout=1)
    yield made
    made.close()


def test_it_is_kept_and_lent_again(rig: Rig) -> None:
    for _ in range(3):
        with rig.connections.borrow(rig.account_id) as mailbox:
            mailbox.examine("INBOX")
    assert rig.proxy.accepted == 1


def test_a_new_one_comes_when_the_server_has_hung_up(rig: Rig) -> None:
    with rig.connections.borrow(rig.account_id):
        pass
    rig.proxy.cut_all()
    rig.proxy.wait_for(lambda proxy: proxy.connections == 0)
    with rig.connections.borrow(rig.account_id) as mailbox:
        assert mailbox.examine("INBOX").exists == 0
    assert rig.proxy.accepted == 2


def test_news_are_no_reason_for_a_new_one(rig: Rig) -> None:
    with rig.connections.borrow(rig.account_id) as mailbox:
        mailbox.permanent_flags("INBOX")
    rig.deliver("one")
    with rig.connections.borrow(rig.account_id) as mailbox:
        assert mailbox.examine("INBOX").exists == 1
    assert rig.proxy.accepted == 1


def test_a_refusal_is_no_reason_for_a_new_one_and_a_fault_is(rig: Rig) -> None:
    with pytest.raises(RemoteFault) as caught, rig.connections.borrow(rig.account_id) as mailbox:
        mailbox.examine("No such folder")
    assert caught.value.kind == "refused"
    with pytest.raises(ValueError), rig.connections.borrow(rig.account_id):
        raise ValueError
    assert rig.proxy.accepted == 1
    with rig.connections.borrow(rig.account_id):
        assert rig.proxy.accepted == 2, "nobody knows what was under way"


def test_a_mailbox_that_is_gone(rig: Rig) -> None:
    with rig.connections.borrow(rig.account_id):
        pass
    with rig.store.database.transaction():
        rig.store.accounts.remove(rig.account_id)
    with pytest.raises(NotFound), rig.connections.borrow(rig.account_id):
        pytest.fail("the mailbox is gone")
    rig.connections.drop(rig.account_id)
    rig.proxy.wait_for(lambda proxy: proxy.connections == 0)


def test_one_waits_for_ones_turn_but_not_for_ever(impatient: Rig) -> None:
    order: list[str] = []
    has_it, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with impatient.connections.borrow(impatient.account_id):
            has_it.set()
            may_go.wait(10)
            order.append("first")

    holder = threading.Thread(target=hold)
    holder.start()
    has_it.wait(10)
    with pytest.raises(RemoteFault) as caught, impatient.connections.borrow(impatient.account_id):
        pytest.fail("it is in use")
    assert caught.value.kind == "timeout"
    threading.Timer(0.1, may_go.set).start()
    with impatient.connections.borrow(impatient.account_id):
        order.append("second")
    holder.join()
    assert (order, impatient.proxy.accepted) == (["first", "second"], 1)


def test_of_many_that_wait_one_waits_long(rig: Rig) -> None:
    connections = Connections(Logins(rig.store, rig.settings), rig.settings, short_wait=0.05)
    done = threading.Event()

    def wait() -> None:
        with connections.borrow(rig.account_id):
            done.set()

    first = threading.Thread(target=wait)
    with connections.borrow(rig.account_id):
        first.start()
        wait_until(lambda: connections._slot_of(rig.account_id).waiting == 1, lambda: "nobody waits", 5)
        with pytest.raises(RemoteFault) as caught, connections.borrow(rig.account_id):
            pass
        assert (caught.value.kind, done.is_set()) == ("timeout", False)
    first.join(5)
    assert done.is_set()
    connections.stop()


def test_one_that_nobody_uses_is_closed(rig: Rig) -> None:
    connections = Connections(Logins(rig.store, rig.settings), rig.settings, kept=0.2)
    for accepted in (1, 2):
        with connections.borrow(rig.account_id):
            time.sleep(0.3)  # however long it is used
            assert rig.proxy.connections == 1
        rig.proxy.wait_for(lambda proxy: proxy.connections == 0)
        assert rig.proxy.accepted == accepted
    wait_until(lambda: _closers() == 0, lambda: "the thread that closes them is still there", 5)
    connections.stop()


def test_stopping_cuts_who_is_waiting_for_an_answer(rig: Rig) -> None:
    ended: list[str] = []
    asks = threading.Event()

    def ask() -> None:
        try:
            with rig.connections.borrow(rig.account_id) as mailbox:
                rig.proxy.stall()
                asks.set()
                mailbox.examine("INBOX")
        except RemoteFault as fault:
            ended.append(fault.kind)

    asker = threading.Thread(target=ask)
    asker.start()
    asks.wait(10)
    began = time.monotonic()
    rig.connections.stop()
    asker.join(10)
    assert (ended, time.monotonic() - began < 3) == (["disconnected"], True)
    rig.proxy.go_on()
    with pytest.raises(RemoteFault), rig.connections.borrow(rig.account_id):
        pytest.fail("all is stopped")
    assert _closers() == 0


def _closers() -> int:
    return sum(thread.name == "unused connections" for thread in threading.enumerate())
