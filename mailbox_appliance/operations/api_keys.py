"""Operations on API keys: a member's own keys, all keys for administrators, and the permissions of a key."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail, Invalid
from mailbox_appliance.model.base import Deletion, Input, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import (
    ADMIN_CAPABILITIES,
    MAIL_CAPABILITIES,
    PROFILES,
    ApiKey,
    Capability,
    KeyPermissions,
    NamedProfile,
)
from mailbox_appliance.operations.licence import require_verified_license
from mailbox_appliance.operations.members import get_named_member
from mailbox_appliance.operations.message_input import Name, refuse_control_characters
from mailbox_appliance.operations.operation import Access, Caller, KeyId, operation, recheck_caller, require_key_exists
from mailbox_appliance.permissions import KeyRights
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

# --- Permissions: how a request combines with what the key stores. Values to values ---


AdminCapability = Literal["admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit"]

_Profile = Annotated[
    NamedProfile,
    Meta(
        description="`read-only`: `mail.read`; `read-write`: also `mail.drafts`, `mail.organize` and `mail.trash`;"
        " `full`: all mail capabilities."
    ),
]
_Supplemental = Annotated[
    tuple[AdminCapability, ...],
    Meta(max_length=5, description="Administrative capabilities in addition to those of the profile."),
]
_Custom = Annotated[
    tuple[Capability, ...],
    Meta(
        min_length=1,
        max_length=11,
        description="Exactly these capabilities. Excludes a profile and supplemental capabilities.",
    ),
]
_Scope = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
    Meta(max_length=100),
]


class UpdateApiKeyRequest(Input, frozen=True, kw_only=True):
    """Changes to the permissions of an API key. Omitted fields stay unchanged.

    - accounts: IDs of the mailboxes that the key is limited to; null for all of its member's, [] for none.
    """

    permission_profile: _Profile | UnsetType = UNSET
    supplemental_capabilities: _Supplemental | UnsetType = UNSET
    custom_capabilities: _Custom | UnsetType = UNSET
    accounts: _Scope | UnsetType | None = UNSET


def grants_administration(body: object) -> bool:
    """Whether a request body gives an API key an administrative capability. The body is decoded JSON and may be
    invalid.
    """
    asked = body if isinstance(body, dict) else {}
    lists = (asked.get(name) for name in ("supplementalCapabilities", "customCapabilities"))
    given = (one for each in lists if isinstance(each, list) for one in each)
    return any(isinstance(one, str) and one in ADMIN_CAPABILITIES for one in given)


def first_permissions(given: UpdateApiKeyRequest) -> KeyPermissions:
    """Return the permissions that a request gives a new key.

    Raises Invalid unless the request has either a profile or custom capabilities.
    """
    if given.custom_capabilities is UNSET and given.permission_profile is UNSET:
        raise Invalid.at("/permissionProfile", "Give `permissionProfile` or `customCapabilities`.")
    return changed_permissions(KeyPermissions("read-only", ()), given)


def changed_permissions(before: KeyPermissions, given: UpdateApiKeyRequest) -> KeyPermissions:
    """Return the permissions of a key after a change. `before`: its stored permissions. `given`: the request.

    - Custom capabilities in the request replace all capabilities of the key.
    - A new profile replaces all but the supplemental capabilities, unless the request gives these too. The
      administrative capabilities of a key with custom ones count as supplemental.

    Raises Invalid if the request contradicts itself.
    """
    _refuse_contradictions(before, given)
    after = before
    if given.custom_capabilities is not UNSET:
        held = _unique_capabilities(given.custom_capabilities)
        after = KeyPermissions("custom", held, tuple(one for one in held if one in ADMIN_CAPABILITIES))
    elif given.permission_profile is not UNSET or given.supplemental_capabilities is not UNSET:
        after = _profile_permissions(before, given)
    if given.accounts is UNSET:
        return replace(after, account_ids=before.account_ids)
    return replace(after, account_ids=None if given.accounts is None else tuple(dict.fromkeys(given.accounts)))


def _refuse_contradictions(before: KeyPermissions, given: UpdateApiKeyRequest) -> None:
    if given.custom_capabilities is not UNSET:
        beside = {
            "/permissionProfile": given.permission_profile,
            "/supplementalCapabilities": given.supplemental_capabilities,
        }
        reason = "`customCapabilities` replaces all other capabilities: omit this field."
        if details := tuple(Detail(path, reason) for path, value in beside.items() if value is not UNSET):
            raise Invalid(details=details, reason=reason)
        return
    is_lone = given.permission_profile is UNSET and given.supplemental_capabilities is not UNSET
    if is_lone and before.profile == "custom":
        reason = "This key has custom capabilities: also give `permissionProfile`, or list all in `customCapabilities`."
        raise Invalid.at("/supplementalCapabilities", reason)


def _profile_permissions(before: KeyPermissions, given: UpdateApiKeyRequest) -> KeyPermissions:
    # A custom key that gets only supplemental capabilities has been refused already.
    profile = before.profile if given.permission_profile is UNSET else given.permission_profile
    added = before.supplemental if given.supplemental_capabilities is UNSET else given.supplemental_capabilities
    supplemental = _unique_capabilities(map(Capability, added))
    mail = () if profile == "custom" else PROFILES[profile]
    return KeyPermissions(profile, _unique_capabilities((*mail, *supplemental)), supplemental)


def _unique_capabilities(capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    return tuple(dict.fromkeys(capabilities))


# --- The operations ---


_ALL_MAIL_WARNING = (
    "With `admin.members`, this key can issue a password reset for any member who is not an administrator, and so give"
    " access to all their mail. Give it only to programs that you trust with that."
)
_KNOWN_KEY_WARNING = (
    "The administrator who created this key has seen its token, and can use it to access the mail of the key's member."
    " If that is not intended, revoke the key; the member can create one."
)


class CreateApiKeyRequest(UpdateApiKeyRequest, frozen=True, kw_only=True):
    """A new API key, with a profile or with custom capabilities.

    - name: Name of the key.
    """

    name: Name


class CreateMemberApiKeyRequest(CreateApiKeyRequest, frozen=True, kw_only=True):
    """A new API key for a member.

    - member_id: ID of the member it belongs to.
    """

    member_id: Annotated[str, Meta(min_length=1, max_length=200)]


class IssuedApiKey(Wire, frozen=True, kw_only=True):
    """A new API key. The token is shown only once.

    - api_key: The API key.
    - token: Its token, to send as `Authorization: Bearer TOKEN`.
    """

    api_key: ApiKey
    token: str


@operation(access=Access.SESSION)
def list_keys(appliance: Appliance, caller: Caller) -> tuple[ApiKey, ...]:
    """List your API keys.

    The oldest key comes first. Tokens are never shown again.
    """
    return appliance.store.api_keys.list(caller.member.id)


@operation(access=Access.SESSION, https_of=grants_administration)
def create_key(appliance: Appliance, caller: Caller, request: CreateApiKeyRequest) -> OperationResult[IssuedApiKey]:
    """Create an API key.

    The key belongs to you. Its token is shown only in this response. A key can never do more than you can: each request
    is checked against both the key's capabilities and your current permissions.

    Creating a key with an administrative capability from another computer requires HTTPS. A warning explains what
    `admin.members` includes: access to all mail of every member who is not an administrator.
    """
    return _create(appliance, caller, caller.member.id, request)


@operation(access=Access.SESSION)
def revoke_key(appliance: Appliance, caller: Caller, key_id: KeyId) -> Deletion:
    """Revoke an API key.

    The key must be yours. It stops working immediately and permanently.
    """
    return _revoke(appliance, caller, key_id, caller.member.id)


@operation(needs=Capability.ADMIN_API_KEYS, https=True)
def list_all_keys(appliance: Appliance, caller: Caller) -> tuple[ApiKey, ...]:  # noqa: ARG001
    """List all API keys.

    Returns the keys of all members, oldest first.
    """
    return appliance.store.api_keys.list()


@operation(needs=Capability.ADMIN_API_KEYS, https=True)
def create_key_of(
    appliance: Appliance, caller: Caller, request: CreateMemberApiKeyRequest
) -> OperationResult[IssuedApiKey]:
    """Create a member's API key.

    The token is shown only in this response.

    - You cannot grant a capability that you do not hold (403).
    - A key for another member never gets mail capabilities; members create those keys themselves. It works only while
      you are an active administrator, because you have seen its token.
    - An API key cannot create keys for another administrator (403 `role`).
    """
    return _create(appliance, caller, request.member_id, request, Capability.ADMIN_API_KEYS)


@operation(needs=Capability.ADMIN_API_KEYS, https=True, check_request=require_key_exists)
def update_key(
    appliance: Appliance, caller: Caller, key_id: KeyId, request: UpdateApiKeyRequest
) -> OperationResult[ApiKey]:
    """Change an API key's permissions.

    Changes what a key can do, or the mailboxes it is limited to. Omitted fields stay unchanged.

    - `customCapabilities` replaces everything and excludes the other two capability fields.
    - `permissionProfile` keeps the supplemental capabilities, unless they are given too.
    - `supplementalCapabilities` alone works only for a key with a profile.
    - `accounts`: null removes the limit; an empty list leaves no mailbox.

    The sessions of administrators can set every field of every member's key. The key still does only what its member
    may do. The member is informed: `warnings` of `GET /me` and the audit log report the change. The response warns if
    the key has mail capabilities and another person has seen its token.

    An API key cannot grant a capability that it does not hold (403), nor mail capabilities to another member's key.
    Capabilities that the key already has may stay.
    """
    require_verified_license(appliance)
    store = appliance.store
    with store.database.transaction(durable=True):
        key = store.api_keys.get(key_id)
        before = _to_permissions(key)
        after = changed_permissions(before, request)
        _require_grantable(store, recheck_caller(store, caller, Capability.ADMIN_API_KEYS), key, after)
        _require_reachable_accounts(store, key.member_id, request)
        if after == before:
            return OperationResult(key)
        store.audit.record(caller.actor, "api_key.update", ("api_key", key_id), about=key.member_id)
        added = set(after.capabilities) - set(before.capabilities)
        warnings = _capability_warnings(added)
        if store.api_keys.get_maker_id(key_id) != key.member_id and MAIL_CAPABILITIES.intersection(after.capabilities):
            warnings = (*warnings, _KNOWN_KEY_WARNING)
        return OperationResult(store.api_keys.set_permissions(key_id, after), warnings)


@operation(needs=Capability.ADMIN_API_KEYS, https=True, check_request=require_key_exists)
def revoke_any_key(appliance: Appliance, caller: Caller, key_id: KeyId) -> Deletion:
    """Revoke a member's API key.

    Any member's key can be revoked. It stops working immediately and permanently.
    """
    return _revoke(appliance, caller, key_id, None, Capability.ADMIN_API_KEYS)


def _create(
    appliance: Appliance, caller: Caller, owner_id: str, request: CreateApiKeyRequest, *needed: Capability
) -> OperationResult[IssuedApiKey]:
    store, given, token = appliance.store, first_permissions(request), new_token("mbxk")
    with store.database.transaction(durable=True):
        found = recheck_caller(store, caller, *needed)
        maker = _responsible_member(store, found)
        after = _to_key_rights(given, is_made_by_owner=owner_id == maker)
        held = permissions.effective_capabilities(found)
        permissions.require_grantable(found, held, owner_id=owner_id, before=None, after=after)
        _require_unrestrained(store, found, after.capabilities)
        refuse_control_characters("/name", request.name)
        owner = get_named_member(store, owner_id, "/memberId")
        if owner_id != found.member.id:  # what this key does would be reported as the member's own acts
            permissions.require_may_change_admins(found, owner.role)
        _require_reachable_accounts(store, owner_id, request)
        key = store.api_keys.add(owner_id, request.name, hash_token(token), given, made_by=maker)
        store.audit.record(caller.actor, "api_key.create", ("api_key", key.id), about=owner_id)
    return OperationResult(IssuedApiKey(api_key=key, token=token), _capability_warnings(key.capabilities))


def _capability_warnings(granted: Collection[Capability]) -> tuple[str, ...]:
    return (_ALL_MAIL_WARNING,) if Capability.ADMIN_MEMBERS in granted else ()


def _responsible_member(store: Store, found: FoundCredential) -> str:
    """The member of the session, or the creator of the API key."""
    return found.member.id if found.kind == "session" else store.api_keys.get_maker_id(found.id)


def _revoke(appliance: Appliance, caller: Caller, key_id: str, member_id: str | None, *needed: Capability) -> Deletion:
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_caller(store, caller, *needed)
        key = store.api_keys.get(key_id, member_id)
        store.api_keys.revoke(key_id)
        store.audit.record(caller.actor, "api_key.revoke", ("api_key", key_id), about=key.member_id)
    return Deletion(id=key_id)


def _require_grantable(store: Store, found: FoundCredential, key: ApiKey, after: KeyPermissions) -> None:
    is_made_by_owner = store.api_keys.get_maker_id(key.id) == key.member_id
    had = _to_key_rights(_to_permissions(key), is_made_by_owner=is_made_by_owner)
    wanted = _to_key_rights(after, is_made_by_owner=is_made_by_owner)
    permissions.require_grantable(
        found, permissions.effective_capabilities(found), owner_id=key.member_id, before=had, after=wanted
    )
    if not had.holds(Capability.MAIL_SEND, wanted.account_ids):
        _require_unrestrained(store, found, wanted.capabilities)


def _require_unrestrained(store: Store, found: FoundCredential, added: Collection[Capability]) -> None:
    """Raise Denied if an API key with a sending policy would let another key send, which lacks its rules."""
    if found.kind == "api_key" and Capability.MAIL_SEND in added and store.sending_policies.is_set_of_key(found.id):
        reason = "an API key with a sending policy cannot let another key send."
        raise Denied(reason=reason, details=(Detail("capability", Capability.MAIL_SEND),))


def _require_reachable_accounts(store: Store, owner_id: str, request: UpdateApiKeyRequest) -> None:
    if not request.accounts:
        return
    reached = {account.id for account in store.accounts.list_reachable(owner_id)}
    unknown = [place for place, account_id in enumerate(request.accounts) if account_id not in reached]
    if unknown:
        reason = "The key's member has no access to a mailbox with this ID."
        raise Invalid(details=tuple(Detail(f"/accounts/{place}", reason) for place in unknown), reason=reason)


def _to_permissions(key: ApiKey) -> KeyPermissions:
    return KeyPermissions(key.permission_profile, key.capabilities, key.supplemental_capabilities, key.account_ids)


def _to_key_rights(stored: KeyPermissions, *, is_made_by_owner: bool) -> KeyRights:
    scope = None if stored.account_ids is None else frozenset(stored.account_ids)
    return KeyRights(frozenset(stored.capabilities), scope, is_made_by_owner)
