"""API keys in the store: stored as given, found by their token's hash, never found again once revoked."""

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.members import PROFILES, ApiKey, Capability, KeyPermissions
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import execute

READ, AUDIT = Capability.MAIL_READ, Capability.ADMIN_AUDIT
READ_ONLY = KeyPermissions("read-only", PROFILES["read-only"])


def add_member(store: Store, name: str) -> str:
    with store.database.transaction():
        return store.members.add(name=name, email=f"{name}@example.org", role="member", password_hash=None).id


def add_key(
    store: Store, member_id: str, token_hash: str, permissions: KeyPermissions = READ_ONLY, made_by: str | None = None
) -> ApiKey:
    with store.database.transaction():
        return store.api_keys.add(member_id, "a key", token_hash, permissions, made_by=made_by or member_id)


STORED: tuple[KeyPermissions, ...] = (
    READ_ONLY,
    KeyPermissions("full", (*PROFILES["full"], AUDIT), (AUDIT,)),
    KeyPermissions("custom", (AUDIT,), (AUDIT,), ()),
    KeyPermissions("custom", (READ,), (), ("acc_2", "acc_1")),
)


@pytest.mark.parametrize("permissions", STORED)
def test_a_key_is_read_as_it_was_added_and_as_it_was_changed(store: Store, permissions: KeyPermissions) -> None:
    ada = add_member(store, "ada")
    for number, changed in enumerate(STORED):
        key = add_key(store, ada, f"hash {number}", permissions)
        assert (key.name, key.member_id, key.last_used_at) == ("a key", ada, None)
        assert key.created_at == "2026-01-02T03:04:05.678Z"
        assert _permissions(key) == permissions
        with store.database.transaction():
            after = store.api_keys.set_permissions(key.id, changed)
        assert _permissions(after) == changed
        assert store.api_keys.get(key.id) == after
        found = store.credentials.find(f"hash {number}")
        assert found is not None
        assert (found.kind, found.id, found.member.id) == ("api_key", key.id, ada)
        assert found.capabilities == changed.capabilities
        assert found.account_ids == (None if changed.account_ids is None else frozenset(changed.account_ids))


def test_the_supplemental_part_of_a_custom_key_is_its_admin_part(store: Store) -> None:
    """Formats 3 and 4 left that column empty."""
    key = add_key(store, add_member(store, "ada"), "hash", KeyPermissions("custom", (READ, AUDIT), ()))
    assert store.api_keys.get(key.id).supplemental_capabilities == (AUDIT,)


def _permissions(key: ApiKey) -> KeyPermissions:
    return KeyPermissions(key.permission_profile, key.capabilities, key.supplemental_capabilities, key.account_ids)


def test_keys_are_listed_the_oldest_first(store: Store, clock: FakeClock) -> None:
    ada, bob = add_member(store, "ada"), add_member(store, "bob")
    made = []
    for number, owner in enumerate((ada, bob, ada)):
        made.append(add_key(store, owner, f"hash {number}"))
        clock.advance(1)
    assert store.api_keys.list() == tuple(made)
    assert store.api_keys.list(ada) == (made[0], made[2])
    assert store.api_keys.list("mem_unknown") == ()


def test_another_members_key_is_not_there(store: Store) -> None:
    ada, bob = add_member(store, "ada"), add_member(store, "bob")
    key = add_key(store, ada, "hash")
    assert store.api_keys.get(key.id, ada) == store.api_keys.get(key.id) == key
    for key_id, owner in ((key.id, bob), (key.id, ""), ("key_unknown", ada), ("key_unknown", None), ("", None)):
        with pytest.raises(NotFound):
            store.api_keys.get(key_id, owner)


def test_a_revoked_key_is_never_found_again(store: Store) -> None:
    ada = add_member(store, "ada")
    key, other = add_key(store, ada, "hash"), add_key(store, ada, "other")
    with store.database.transaction():
        store.api_keys.revoke(key.id)
    assert store.api_keys.list() == (other,)
    assert store.credentials.find("hash") is None
    assert store.credentials.find_by_id(key.id, ada) is None
    with store.database.transaction():
        for gone in (key.id, "key_unknown"):
            with pytest.raises(NotFound):
                store.api_keys.get(gone)
            with pytest.raises(NotFound):
                store.api_keys.revoke(gone)
            with pytest.raises(NotFound):
                store.api_keys.set_permissions(gone, READ_ONLY)
    assert store.credentials.find("other") is not None


def test_who_was_shown_the_token(store: Store) -> None:
    ada, bob = add_member(store, "ada"), add_member(store, "bob")
    own, given = add_key(store, bob, "own"), add_key(store, bob, "given", made_by=ada)
    assert (store.api_keys.get_maker_id(own.id), store.api_keys.get_maker_id(given.id)) == (bob, ada)
    assert (store.api_keys.list_made_for_others(ada), store.api_keys.list_made_for_others(bob)) == ((given,), ())
    with pytest.raises(NotFound):
        store.api_keys.get_maker_id("key_unknown")
    # Keys of earlier releases were created by their owners.
    execute(store, "UPDATE api_keys SET made_by_member_id = NULL")
    assert store.api_keys.get_maker_id(given.id) == bob
    assert store.api_keys.list_made_for_others(ada) == ()
    assert store.credentials.find("given") is not None


#: change to the creator of a key for somebody else -> whether the key is valid then
MAKER: tuple[tuple[str, bool], ...] = (
    ("role = 'admin'", True),
    ("role = 'member'", False),
    ("role = 'admin', status = 'suspended'", False),
    ("status = 'active'", True),
    ("id = 'mem_x'", False),
)


def test_a_key_made_for_somebody_else_is_good_while_its_maker_is_an_active_administrator(store: Store) -> None:
    ada, bob = add_member(store, "ada"), add_member(store, "bob")
    own, given = add_key(store, bob, "own"), add_key(store, bob, "given", made_by=ada)
    for change, is_good in MAKER:
        execute(store, f"UPDATE members SET {change} WHERE id = ?", (ada,))
        for hashed, key, good in (("own", own, True), ("given", given, is_good)):
            found = store.credentials.find(hashed)
            assert (found is not None) == good, (change, hashed)
            assert store.credentials.find_by_id(key.id, bob) == found, "also what it asked for earlier"


def test_the_use_of_a_key_is_noted_once_a_minute(store: Store, clock: FakeClock) -> None:
    ada = add_member(store, "ada")
    key = add_key(store, ada, "hash")
    times = []
    for seconds in (5, 59, 1):
        clock.advance(seconds)
        store.credentials.find("hash")
        times.append(store.api_keys.get(key.id).last_used_at)
    assert times == ["2026-01-02T03:04:10.678Z", "2026-01-02T03:04:10.678Z", "2026-01-02T03:05:10.678Z"]


def test_keys_go_with_their_member(store: Store) -> None:
    ada, bob = add_member(store, "ada"), add_member(store, "bob")
    add_key(store, ada, "hash")
    kept = add_key(store, bob, "kept", made_by=ada)
    with store.database.transaction():
        store.members.remove(ada)
    assert store.credentials.find("hash") is None
    # A key whose creator, an administrator, was removed still counts as not created by its owner, and is not valid.
    assert store.api_keys.list() == (kept,)
    assert store.api_keys.get_maker_id(kept.id) == ada
    assert store.credentials.find("kept") is None
