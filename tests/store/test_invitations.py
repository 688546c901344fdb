"""Single-use tokens: valid once, until they expire, for one purpose, and stored only as a hash."""

from datetime import timedelta

import pytest

from mailbox_appliance.store.credentials import TokenKind
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock

DAY = timedelta(days=1)


def add(store: Store, name: str, password: str | None = None) -> str:
    with store.database.transaction():
        email = f"{name}@example.org"
        return store.members.add(name=name, email=email, role="member", password_hash=password).id


def issue(store: Store, kind: TokenKind, member: str, token_hash: str) -> str:
    with store.database.transaction():
        return store.one_time_tokens.issue(kind, member, token_hash, DAY)


def redeem(store: Store, kind: TokenKind, token_hash: str) -> str | None:
    with store.database.transaction():
        return store.one_time_tokens.redeem(kind, token_hash)


def test_a_token_is_good_once(store: Store) -> None:
    bob = add(store, "bob")
    assert issue(store, "invitation", bob, "a") == "2026-01-03T03:04:05.678Z"
    for _ in range(2):
        assert store.one_time_tokens.find("invitation", "a") == bob
    assert [redeem(store, "invitation", "a") for _ in range(2)] == [bob, None]
    assert store.one_time_tokens.find("invitation", "a") is None


def test_a_token_has_its_time(store: Store, clock: FakeClock) -> None:
    bob = add(store, "bob")
    issue(store, "password_reset", bob, "a")
    clock.advance(24 * 60 * 60 - 0.001)
    assert store.one_time_tokens.find("password_reset", "a") == bob
    clock.advance(0.001)
    assert (store.one_time_tokens.find("password_reset", "a"), redeem(store, "password_reset", "a")) == (None, None)


def test_a_token_has_one_use(store: Store) -> None:
    bob = add(store, "bob")
    issue(store, "invitation", bob, "a")
    kinds: tuple[TokenKind, ...] = ("password_reset", "console_link")
    assert [redeem(store, kind, "a") for kind in kinds] == [None, None]
    assert redeem(store, "invitation", "b") is None
    assert redeem(store, "invitation", "a") == bob


@pytest.mark.parametrize(("kind", "stays"), [("invitation", False), ("password_reset", False), ("console_link", True)])
def test_an_earlier_one_stops_working(store: Store, kind: TokenKind, *, stays: bool) -> None:
    bob, eve = add(store, "bob"), add(store, "eve")
    issue(store, kind, eve, "of another member")
    for token_hash in ("first", "second"):
        issue(store, kind, bob, token_hash)
    assert store.one_time_tokens.find(kind, "first") == (bob if stays else None)
    assert store.one_time_tokens.find(kind, "second") == bob
    assert store.one_time_tokens.find(kind, "of another member") == eve


def test_all_of_a_member_are_withdrawn(store: Store) -> None:
    bob, eve = add(store, "bob"), add(store, "eve")
    issue(store, "invitation", bob, "a")
    issue(store, "password_reset", bob, "b")
    issue(store, "invitation", eve, "c")
    with store.database.transaction():
        store.one_time_tokens.revoke_all(bob)
    assert store.one_time_tokens.find("invitation", "a") is None
    assert store.one_time_tokens.find("password_reset", "b") is None
    assert store.one_time_tokens.find("invitation", "c") == eve


def test_those_that_a_key_was_shown_are_withdrawn(store: Store) -> None:
    bob, eve = add(store, "bob"), add(store, "eve")
    with store.database.transaction():
        for member in (bob, eve):
            store.one_time_tokens.issue("invitation", member, f"{member} key", DAY, by_key=True)
            store.one_time_tokens.issue("password_reset", member, f"{member} person", DAY)
        store.one_time_tokens.revoke_shown_to_keys(bob)
    find = store.one_time_tokens.find
    assert (find("invitation", f"{bob} key"), find("invitation", f"{eve} key")) == (None, eve)
    assert find("password_reset", f"{bob} person") == bob


def test_they_go_with_their_member(store: Store) -> None:
    bob = add(store, "bob")
    issue(store, "invitation", bob, "a")
    with store.database.transaction():
        store.members.remove(bob)
    assert store.one_time_tokens.find("invitation", "a") is None


def test_a_member_shows_an_invitation_that_waits(store: Store, clock: FakeClock) -> None:
    bob, eve = add(store, "bob"), add(store, "eve", "hash")
    for member in (bob, eve):
        issue(store, "invitation", member, f"of {member}")
        issue(store, "password_reset", member, f"reset of {member}")
    waiting = store.members.get(bob).invitation
    assert waiting is not None
    assert waiting.expires_at == "2026-01-03T03:04:05.678Z"
    assert store.members.get(eve).invitation is None, "who has enrolled is not invited"
    clock.advance(24 * 60 * 60)
    assert store.members.get(bob).invitation is None
