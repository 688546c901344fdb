"""API keys: those that members make for themselves, and what administrators do with everybody's."""

from collections.abc import Collection, Mapping
from typing import Annotated

from msgspec import Meta

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid
from mailbox_appliance.model.records import ApiKey, Capability, Deleted, KeyPermissions, OperationResult, Wire
from mailbox_appliance.operations.caller import Caller, require_still
from mailbox_appliance.operations.key_permissions import (
    KeyChange,
    changed_permissions,
    first_permissions,
    gives_administration,
)
from mailbox_appliance.operations.license import require_verified
from mailbox_appliance.operations.named import named
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import Name, refuse_controls
from mailbox_appliance.permissions import KeyRights
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

_LONGEST_ID = 200
_ALL_MAIL = (
    "With `admin.members`, whoever has this key can issue a password reset for any member who is not an administrator,"
    " and so read all their mail. Give it only to programs that you trust with that."
)
KeyId = Annotated[str, Meta(min_length=1, max_length=_LONGEST_ID)]


class NewKey(KeyChange, frozen=True, kw_only=True):
    """An API key that is to be made: with a profile or with custom capabilities."""

    name: Name


class NewKeyOf(NewKey, frozen=True, kw_only=True):
    """An API key for a member."""

    member_id: Annotated[str, Meta(min_length=1, max_length=_LONGEST_ID)]


class IssuedKey(Wire, frozen=True, kw_only=True):
    """A new API key. The token is shown this once."""

    api_key: ApiKey
    token: str


def _key_is_there(appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:  # noqa: ARG001
    key_id = values.get("keyId", "")
    if len(key_id) <= _LONGEST_ID:  # a longer one is a fault of the request
        appliance.store.api_keys.get(key_id)


@operation(access=Access.SESSION)
def list_keys(appliance: Appliance, caller: Caller) -> tuple[ApiKey, ...]:
    """Your API keys, the oldest first."""
    return appliance.store.api_keys.list(caller.member.id)


@operation(access=Access.SESSION, https_of=gives_administration)
def create_key(appliance: Appliance, caller: Caller, request: NewKey) -> OperationResult[IssuedKey]:
    """Make an API key of yours. Its token is shown this once.

    It can do no more than you can, now and later: with every request, what it stores and what you may do then count.
    From another computer one with a capability of administration is made by HTTPS only. `warnings` say what
    `admin.members` amounts to: all mail of every member who is not an administrator.
    """
    return _create(appliance, caller, caller.member.id, request)


@operation(access=Access.SESSION)
def revoke_key(appliance: Appliance, caller: Caller, key_id: KeyId) -> Deleted:
    """Revoke an API key of yours: from now on nothing can be asked with it."""
    return _revoke(appliance, caller, key_id, caller.member.id)


@operation(needs=Capability.ADMIN_API_KEYS, https=True)
def list_all_keys(appliance: Appliance, caller: Caller) -> tuple[ApiKey, ...]:  # noqa: ARG001
    """Everybody's API keys, the oldest first."""
    return appliance.store.api_keys.list()


@operation(needs=Capability.ADMIN_API_KEYS, https=True)
def create_key_of(appliance: Appliance, caller: Caller, request: NewKeyOf) -> OperationResult[IssuedKey]:
    """Make an API key of a member. Its token is shown this once.

    Nobody gives a key more than they hold themselves (403). One for somebody else gets no mail capability, now or
    later: members make those themselves; and it is good only while you are an active administrator. An API key makes
    none for another administrator (403 `role`).
    """
    return _create(appliance, caller, request.member_id, request, Capability.ADMIN_API_KEYS)


@operation(needs=Capability.ADMIN_API_KEYS, https=True, permits=_key_is_there)
def update_key(appliance: Appliance, caller: Caller, key_id: KeyId, request: KeyChange) -> OperationResult[ApiKey]:
    """Change what an API key may do, or the mailboxes it is limited to; what is left out stays.

    `customCapabilities` replaces everything, so it goes with no other list of capabilities. `permissionProfile` keeps
    the supplemental capabilities unless these are given too. `supplementalCapabilities` alone is for a key with a
    profile. `accounts`: null lifts the limit, [] leaves no mailbox. Nobody gives a key more than they hold themselves
    (403); what it has may stay.
    """
    require_verified(appliance)
    store = appliance.store
    with store.database.transaction(durable=True):
        key = store.api_keys.get(key_id)
        before = _stored(key)
        after = changed_permissions(before, request)
        _require_grantable(store, require_still(store, caller, Capability.ADMIN_API_KEYS), key, after)
        _require_reached(store, key.member_id, request)
        if after == before:
            return OperationResult(key)
        store.audit.record(caller.actor, "api_key.update", ("api_key", key_id), about=key.member_id)
        added = set(after.capabilities) - set(before.capabilities)
        return OperationResult(store.api_keys.set_permissions(key_id, after), _warnings(added))


@operation(needs=Capability.ADMIN_API_KEYS, https=True, permits=_key_is_there)
def revoke_any_key(appliance: Appliance, caller: Caller, key_id: KeyId) -> Deleted:
    """Revoke anybody's API key: from now on nothing can be asked with it."""
    return _revoke(appliance, caller, key_id, None, Capability.ADMIN_API_KEYS)


def _create(
    appliance: Appliance, caller: Caller, owner_id: str, request: NewKey, *needed: Capability
) -> OperationResult[IssuedKey]:
    store, given, token = appliance.store, first_permissions(request), new_token("mbxk")
    with store.database.transaction(durable=True):
        found = require_still(store, caller, *needed)
        maker = _shown_to(store, found)
        after = _rights(given, is_made_by_owner=owner_id == maker)
        held = permissions.effective_capabilities(found)
        permissions.require_grantable(found, held, owner_id=owner_id, before=None, after=after)
        refuse_controls("/name", request.name)
        owner = named(store, owner_id, "/memberId")
        if owner_id != found.member.id:  # what it did would be told of the other one
            permissions.require_may_change_admins(found, owner.role)
        _require_reached(store, owner_id, request)
        key = store.api_keys.add(owner_id, request.name, hash_token(token), given, made_by=maker)
        store.audit.record(caller.actor, "api_key.create", ("api_key", key.id), about=owner_id)
    return OperationResult(IssuedKey(api_key=key, token=token), _warnings(key.capabilities))


def _warnings(granted: Collection[Capability]) -> tuple[str, ...]:
    """What capabilities amount to that one does not see from their names."""
    return (_ALL_MAIL,) if Capability.ADMIN_MEMBERS in granted else ()


def _shown_to(store: Store, found: FoundCredential) -> str:
    """The member who may be the one that asks: of a key that somebody else made for its owner, its maker."""
    return found.member.id if found.kind == "session" else store.api_keys.get_maker_id(found.id)


def _revoke(appliance: Appliance, caller: Caller, key_id: str, member_id: str | None, *needed: Capability) -> Deleted:
    store = appliance.store
    with store.database.transaction(durable=True):
        require_still(store, caller, *needed)
        key = store.api_keys.get(key_id, member_id)
        store.api_keys.revoke(key_id)
        store.audit.record(caller.actor, "api_key.revoke", ("api_key", key_id), about=key.member_id)
    return Deleted(id=key_id)


def _require_grantable(store: Store, found: FoundCredential, key: ApiKey, after: KeyPermissions) -> None:
    is_made_by_owner = store.api_keys.get_maker_id(key.id) == key.member_id
    permissions.require_grantable(
        found,
        permissions.effective_capabilities(found),
        owner_id=key.member_id,
        before=_rights(_stored(key), is_made_by_owner=is_made_by_owner),
        after=_rights(after, is_made_by_owner=is_made_by_owner),
    )


def _require_reached(store: Store, owner_id: str, request: KeyChange) -> None:
    """Raises Invalid where the key's owner does not reach one of the mailboxes that are given; names all of these."""
    if not request.accounts:
        return
    reached = {account.id for account in store.accounts.list_reachable(owner_id)}
    unknown = [place for place, account_id in enumerate(request.accounts) if account_id not in reached]
    if unknown:
        reason = "The key's owner reaches no mailbox with this id."
        raise Invalid(details=tuple(Detail(f"/accounts/{place}", reason) for place in unknown), reason=reason)


def _stored(key: ApiKey) -> KeyPermissions:
    return KeyPermissions(key.permission_profile, key.capabilities, key.supplemental_capabilities, key.account_ids)


def _rights(stored: KeyPermissions, *, is_made_by_owner: bool) -> KeyRights:
    scope = None if stored.account_ids is None else frozenset(stored.account_ids)
    return KeyRights(frozenset(stored.capabilities), scope, is_made_by_owner)
