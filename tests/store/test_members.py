"""Members are found by ID, and by email address without case."""

from datetime import timedelta
from typing import Any

import pytest

from mailbox_appliance.errors import EmailTaken, LastAdmin, NotFound
from mailbox_appliance.store.credentials import TokenKind
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import execute


def add(store: Store, email: str) -> str:
    with store.database.transaction():
        return store.members.add(name="Ada", email=email, role="admin", password_hash="hash").id


def test_a_member_is_read_as_it_was_added(store: Store) -> None:
    assert not store.members.has_any()
    with store.database.transaction():
        added = store.members.add(name="Ada", email="Ada@Example.org", role="admin", password_hash=None)
    assert store.members.has_any()
    assert store.members.get(added.id) == added
    assert (added.email, added.role, added.status, added.last_login_at) == ("Ada@Example.org", "admin", "active", None)
    assert store.members.find_with_password("ada@example.ORG") == (added, None)


def test_who_is_not_there(store: Store) -> None:
    add(store, "ada@example.org")
    with pytest.raises(NotFound):
        store.members.get("mem_unknown")
    for email in ("ada@example.org ", "a%@example.org", ""):
        assert store.members.find_with_password(email) is None


#: spellings of email addresses in use
TAKEN = (
    "ADA@example.org",
    "ada@EXAMPLE.ORG",
    "KÄTHE@KÖLN.EXAMPLE",
    "ka\u0308the@ko\u0308ln.example",
    "käthe@xn--kln-sna.example",
    "käthe@XN--KLN-SNA.EXAMPLE",
    "käthe@köln\u3002example",  # a dot of another script (UTS 46)
    "bob@STRAßE.example",
    "bob@xn--strae-oqa.example",
    "ada@-b.example",
)


def test_an_email_belongs_to_one_member_however_it_is_spelled(store: Store) -> None:
    for email in ("ada@example.org", "käthe@köln.example", "bob@straße.example", "ada@-B.example"):
        add(store, email)
    for taken in TAKEN:
        assert store.members.find_with_password(taken) is not None
        with pytest.raises(EmailTaken):
            add(store, taken)
    # Another domain, whatever it is in upper case.
    add(store, "bob@strasse.example")


def test_a_login_is_noted_and_a_new_hash_kept(store: Store, clock: FakeClock) -> None:
    ada, other = add(store, "ada@example.org"), add(store, "other@example.org")
    clock.advance(5)
    with store.database.transaction():
        store.members.mark_logged_in(ada)
    assert store.members.find_with_password("ada@example.org") == (store.members.get(ada), "hash")
    assert store.members.get(ada).last_login_at == "2026-01-02T03:04:10.678Z"
    with store.database.transaction():
        store.members.mark_logged_in(ada, rehashed="stronger")
    assert store.members.find_with_password("ada@example.org") == (store.members.get(ada), "stronger")
    assert store.members.find_with_password("other@example.org") == (store.members.get(other), "hash")


def test_the_last_administrator_who_can_log_in_stays(store: Store) -> None:
    add(store, "ada@example.org")
    with store.database.transaction():
        for email in ("invited@example.org", "suspended@example.org"):
            member = store.members.add(name="x", email=email, role="admin", password_hash=None)
            if email.startswith("s"):
                store.members.set_password(member.id, "hash")
                store.members.update(member.id, status="suspended")
    ada, invited, suspended = store.members.list()
    demoted: tuple[dict[str, Any], ...] = ({"role": "member"}, {"status": "suspended"})
    for change in demoted:
        with pytest.raises(LastAdmin), store.database.transaction():
            store.members.update(ada.id, **change)
    with pytest.raises(LastAdmin), store.database.transaction():
        store.members.remove(ada.id)
    # The rule protects only members who can sign in; these two cannot.
    with store.database.transaction():
        store.database.change("UPDATE members SET role = 'member' WHERE id = ?", (ada.id,))
        for other in (invited, suspended):
            store.members.update(other.id, role="member")
            store.members.update(other.id, role="admin")
            store.members.remove(other.id)
    assert store.members.list() == (store.members.get(ada.id),)


#: link of another administrator without a password, whether an API key was shown it, its age in seconds -> whether they
#: count as able to sign in
OPEN: tuple[tuple[TokenKind, bool, float, bool], ...] = (
    ("invitation", False, 0, True),
    ("password_reset", False, 60, True),
    ("invitation", False, 23 * 3600, True),
    ("invitation", False, 23 * 3600 + 0.001, False),
    ("invitation", True, 0, False),
    ("password_reset", True, 0, False),
    ("console_link", False, 0, False),
)


@pytest.mark.parametrize(("kind", "by_key", "age", "counts"), OPEN)
def test_an_administrator_with_an_open_link_is_another_one(
    store: Store, clock: FakeClock, kind: TokenKind, age: float, *, by_key: bool, counts: bool
) -> None:
    ada = add(store, "ada@example.org")
    with store.database.transaction():
        bob = store.members.add(name="x", email="bob@example.org", role="admin", password_hash=None).id
        store.one_time_tokens.issue(kind, bob, "hash", timedelta(days=1), by_key=by_key)
    clock.advance(age)
    with pytest.raises(LastAdmin), store.database.transaction():
        store.members.remove(ada)
    if not counts:
        with pytest.raises(LastAdmin), store.database.transaction():
            store.members.update(ada, role="member")
        return
    execute(store, "UPDATE members SET status = 'suspended' WHERE id = ?", (bob,))
    with pytest.raises(LastAdmin), store.database.transaction():
        store.members.update(ada, role="member")
    with store.database.transaction():
        store.members.update(bob, status="active")
        store.members.update(ada, role="member")
    assert store.members.get(ada).role == "member"


def test_a_link_that_was_used_lets_nobody_in(store: Store) -> None:
    ada = add(store, "ada@example.org")
    with store.database.transaction():
        bob = store.members.add(name="x", email="bob@example.org", role="admin", password_hash=None).id
        store.one_time_tokens.issue("invitation", bob, "hash", timedelta(days=1))
        store.one_time_tokens.redeem("invitation", "hash")
    with pytest.raises(LastAdmin), store.database.transaction():
        store.members.update(ada, role="member")


def test_of_several_with_links_the_one_with_the_longest_is_awaited(store: Store) -> None:
    with store.database.transaction():
        for number, days in enumerate((1, 3, 2)):
            member = store.members.add(name="x", email=f"{number}@example.org", role="admin", password_hash=None)
            store.one_time_tokens.issue("invitation", member.id, f"hash {number}", timedelta(days=days))
    assert store.members.find_awaited_admin() == ("1@example.org", "2026-01-05T03:04:05.678Z")
    add(store, "ada@example.org")
    assert store.members.find_awaited_admin() is None
