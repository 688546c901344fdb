"""Events of a mailbox whose server is in trouble: its state when it changes, not each attempt."""

import pytest

from mailbox_appliance.feed.events import to_events
from mailbox_appliance.model.changes import AccountState
from mailbox_appliance.store.changes import ChangeFilter
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import mailbox
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.sync.mirrored import Mirror, connection_to


def told(store: Store) -> list[AccountState]:
    """The data of all events of mailboxes."""
    seen = ChangeFilter(frozenset({"account.updated"}), frozenset(store.accounts.list_ids()), "")
    return [event.data for event in to_events(store, store.changes.read(0, seen, 1000)[0])]


def test_a_server_that_is_away_is_told_of_once(
    mail_server: MailServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(mailbox, "LONGEST_RETRY", 0.01)
    proxy = mail_server.proxy()
    mirror = Mirror(store, connection_to(mail_server, mail_server.fresh_user(), proxy.port), sync__poll_interval=600)
    try:
        mirror.start()
        assert len(told(store)) == 3  # connecting, syncing, ready
        proxy.is_shut = True
        attempts = proxy.accepted
        proxy.cut_all()
        error = mirror.wait_for_error()
        wait_until(lambda: proxy.accepted > attempts + 20, lambda: f"{proxy.accepted} attempts", 10)
        states = told(store)
        assert len(states) == 4
        assert states[-1] == AccountState(id=mirror.account_id, status="error", error=error)
        proxy.is_shut = False
        mirror.wait_for_status("ready")
        states = told(store)
        assert len(states) == 6
        assert states[-1] == AccountState(id=mirror.account_id, status="ready", error=None)
    finally:
        mirror.supervisor.stop()
        proxy.stop()
