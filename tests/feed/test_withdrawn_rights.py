"""Withdrawn rights end open streams and requests that wait, and stop webhooks, before the next event."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from mailbox_appliance.model.members import Capability, KeyPermissions
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.credentials import SESSION_MAX_AGE, SESSION_MAX_IDLE
from tests.feed.receiver import Receiver
from tests.feed.served import Served, serving
from tests.operations.filled import FilledMailbox, add_key, add_member
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until

_LINES = 20


class Scene:
    """A mailbox of a member that a guest may read as well, by sessions and by a key."""

    def __init__(self, served: Served, clock: FakeClock) -> None:
        self.served, self.store, self.clock = served, served.store, clock
        self.boss = add_member(served.appliance, "boss", "admin")
        add_member(served.appliance, "other-boss", "admin")
        self.owner, self.guest = (add_member(served.appliance, name) for name in ("owner", "guest"))
        self.box = FilledMailbox(served.appliance, self.owner)
        self.other = FilledMailbox(served.appliance, self.guest, "other@example.org")
        self.box.grant(self.guest)
        (self.message,) = self.box.deliver(b"Subject: Told before\r\n\r\nHello\r\n")
        (self.own_message,) = self.other.deliver(b"Subject: The guest's own\r\n\r\nHello\r\n")

    def session(self, member_id: str) -> str:
        """The token of a new session."""
        token = new_token("mbxs")
        with self.store.database.transaction():
            self.last_session = self.store.credentials.add_session(member_id, hash_token(token), "device").id
        return token

    def key(self, *, accounts: list[str] | None = None) -> str:
        """The token of a key of the guest."""
        self.last_key, token = add_key(self.served.appliance, self.guest, "mail.read", "mail.send", accounts=accounts)
        return token

    def star(self) -> None:
        """Change the message, which is an event for those who may read it."""
        self.served.change("UPDATE messages SET flags = flags | 2 WHERE id = ?", self.message)


Act = Callable[[Scene], object]


@dataclass(frozen=True)
class Withdrawal:
    """A way for rights to end. `status`: of the answer to a request that waits; `stops_webhooks`: whether they stop."""

    name: str
    whose: Callable[[Scene], str]
    act: Act
    status: int
    stops_webhooks: bool = True


def _guest(scene: Scene) -> str:
    return scene.session(scene.guest)


def _key(scene: Scene) -> str:
    return scene.key()


def _allow(scene: Scene, *capabilities: Capability, accounts: tuple[str, ...] | None = None) -> None:
    scene.store.api_keys.set_permissions(scene.last_key, KeyPermissions("custom", capabilities, (), accounts))


READ, SEND = Capability.MAIL_READ, Capability.MAIL_SEND
# fmt: off
WITHDRAWALS = (
    Withdrawal("the grant is taken away", _guest,
               lambda s: s.store.accounts.set_access(s.box.id, shared_with_all=False, member_ids=()), 200),
    Withdrawal("the mailbox is removed", _guest, lambda s: s.store.accounts.remove(s.box.id), 200),
    Withdrawal("the guest is suspended", _guest,
               lambda s: s.store.members.update(s.guest, status="suspended"), 403),
    Withdrawal("the key's owner is suspended", _key,
               lambda s: s.store.members.update(s.guest, status="suspended"), 403),
    Withdrawal("the session is revoked", _guest,
               lambda s: s.store.credentials.remove_session(s.guest, s.last_session), 401, stops_webhooks=False),
    Withdrawal("the session was not used for long", _guest,
               lambda s: s.clock.advance(SESSION_MAX_IDLE / timedelta(seconds=1)), 401, stops_webhooks=False),
    Withdrawal("the session is old", _guest,
               lambda s: s.clock.advance(SESSION_MAX_AGE / timedelta(seconds=1)), 401, stops_webhooks=False),
    Withdrawal("the key is revoked", _key, lambda s: s.store.api_keys.revoke(s.last_key), 401, stops_webhooks=False),
    Withdrawal("the key is limited to another mailbox", _key,
               lambda s: _allow(s, READ, accounts=(s.other.id,)), 200, stops_webhooks=False),
    Withdrawal("the key is limited to no mailbox", _key,
               lambda s: _allow(s, READ, accounts=()), 200, stops_webhooks=False),
    Withdrawal("the key may read no more", _key, lambda s: _allow(s, SEND), 403, stops_webhooks=False),
    Withdrawal("a key for one mailbox loses it", lambda s: s.key(accounts=[s.box.id]),
               lambda s: s.store.accounts.set_access(s.box.id, shared_with_all=False, member_ids=()), 200),
)
# fmt: on


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = FakeClock()
    with serving(tmp_path / "data", clock) as served:
        made = Scene(served, clock)
        served.start()
        yield made


def read_event(response: http.client.HTTPResponse) -> str:
    """The data of the next event of a stream."""
    for _ in range(_LINES):
        line = response.readline().decode()
        if line.startswith("data: "):
            return line
    raise AssertionError("no event comes")


@pytest.mark.parametrize("together", [False, True], ids=["before an event", "with an event"])
@pytest.mark.parametrize("withdrawal", WITHDRAWALS, ids=lambda one: one.name)
def test_nothing_is_told_after_it(withdrawal: Withdrawal, together: bool, scene: Scene) -> None:
    served = scene.served
    with Receiver() as receiver, Receiver() as owners:
        _add_webhook(scene, receiver, scene.guest)
        _add_webhook(scene, owners, scene.owner)
        token = withdrawal.whose(scene)
        start = served.position()
        stream = served.open("/events/stream", token, after=start).connection.getresponse()
        served.change("UPDATE messages SET flags = flags | 1 WHERE id = ?", scene.message)
        assert "Told before" in read_event(stream)
        assert receiver.got.get(timeout=20)
        assert owners.got.get(timeout=20)
        held = served.open("/events", token, after=served.position(), wait=30)
        wait_until(lambda: len(served.appliance.readers) == 2, lambda: "not both wait", 20)
        with scene.store.database.transaction() if together else nullcontext():
            if together:
                withdrawal.act(scene)
            else:
                with scene.store.database.transaction():
                    withdrawal.act(scene)
            scene.star()
        assert b"data:" not in stream.read(), "the stream ends without a further event"
        answer = held.connection.getresponse()
        assert (answer.status, b"Told before" in answer.read()) == (withdrawal.status, False)
        held.connection.close()
        # Events are sent in order, so the guest's own comes first if the other one is not sent at all.
        served.change("UPDATE messages SET flags = flags | 2 WHERE id = ?", scene.own_message)
        if withdrawal.name.endswith("is suspended"):
            assert owners.got.get(timeout=20)
            assert receiver.got.empty()
        else:
            told = scene.own_message if withdrawal.stops_webhooks else scene.message
            assert json.loads(receiver.got.get(timeout=20).body)["data"]["data"]["id"] == told
    assert len(served.appliance.readers) == 0


def _add_webhook(scene: Scene, receiver: Receiver, member_id: str) -> None:
    body = {"url": receiver.url, "types": ["message.updated", "backup.failed"]}
    assert scene.served.open("/webhooks", scene.session(member_id), "POST", body).status() == 201


def test_who_is_no_admin_any_more_is_told_of_no_backup(scene: Scene) -> None:
    token, changes = scene.session(scene.boss), scene.store.changes
    with Receiver() as receiver:
        _add_webhook(scene, receiver, scene.boss)
        stream = scene.served.open("/events/stream", token, types="backup.failed").connection.getresponse()
        with scene.store.database.transaction():
            changes.record("backup.failed", "first")
        assert "first" in read_event(stream)
        assert receiver.got.get(timeout=20)
        with scene.store.database.transaction():
            scene.store.members.update(scene.boss, role="member")
            changes.record("backup.failed", "second")
        assert b"data:" not in stream.read()
        with scene.store.database.transaction():
            scene.store.accounts.set_access(scene.box.id, shared_with_all=True, member_ids=())
            scene.star()
        assert json.loads(receiver.got.get(timeout=20).body)["type"] == "message.updated"


def test_a_new_grant_is_told_of_in_an_open_stream(scene: Scene) -> None:
    stream = scene.served.open("/events/stream", scene.session(scene.boss)).connection.getresponse()
    wait_until(lambda: len(scene.served.appliance.readers) == 1, lambda: "nobody waits", 20)
    with scene.store.database.transaction():
        scene.store.accounts.set_access(scene.box.id, shared_with_all=True, member_ids=())
        scene.star()
    assert "Told before" in read_event(stream)
    scene.served.appliance.readers.stop()
    stream.close()


def test_a_session_that_is_used_keeps_its_streams(scene: Scene) -> None:
    """Only its requests count as use, not an open stream."""
    token = scene.session(scene.guest)
    stream = scene.served.open("/events/stream", token).connection.getresponse()
    for _ in range(2):
        scene.clock.advance((SESSION_MAX_IDLE / timedelta(seconds=1)) * 0.6)
        assert scene.served.open("/me", token).status() == 200
    scene.star()
    assert "Told before" in read_event(stream)
    scene.served.appliance.readers.stop()
    stream.close()


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("https://hooks.example/x", True),
        ("http://127.0.0.1:9/x", True),
        ("http://[::1]:9/x", True),
        ("http://localhost:9/x", True),
        ("http://192.168.1.9/x", False),
        ("http://hooks.example/x", False),
        ("http://127.0.0.1.hooks.example/x", False),
    ],
)
def test_backups_are_told_of_on_private_connections_only(scene: Scene, url: str, is_taken: bool) -> None:
    body = {"url": url, "types": ["backup.failed"]}
    status = scene.served.open("/webhooks", scene.session(scene.boss), "POST", body).status()
    assert status == (201 if is_taken else 400)
