"""What a key is to be allowed: how what a request gives combines with what the key stores. Values to values."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.errors import Detail, Invalid
from mailbox_appliance.model.records import (
    ADMIN_CAPABILITIES,
    PROFILES,
    Capability,
    Input,
    KeyPermissions,
    NamedProfile,
)

AdminCapability = Literal["admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit"]

_Profile = Annotated[
    NamedProfile,
    Meta(description="`read-only`: mail.read; `read-write`: and drafts, organize, trash; `full`: all mail."),
]
_Supplemental = Annotated[
    tuple[AdminCapability, ...],
    Meta(max_length=5, description="What the key may do besides what its profile allows, listed behind that."),
]
_Custom = Annotated[
    tuple[Capability, ...],
    Meta(
        min_length=1,
        max_length=11,
        description="Exactly this, in this order; goes with no profile and nothing supplemental.",
    ),
]
_Scope = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
    Meta(max_length=100, description="Ids of the mailboxes that it is limited to. null: all of its owner's; []: none."),
]


class KeyChange(Input, frozen=True, kw_only=True):
    """What an API key may do from now on; what is left out stays."""

    permission_profile: _Profile | UnsetType = UNSET
    supplemental_capabilities: _Supplemental | UnsetType = UNSET
    custom_capabilities: _Custom | UnsetType = UNSET
    accounts: _Scope | UnsetType | None = UNSET


def gives_administration(body: object) -> bool:
    """Whether a decoded body gives a key a capability of administration, whatever else is right or wrong with it."""
    asked = body if isinstance(body, dict) else {}
    lists = (asked.get(name) for name in ("supplementalCapabilities", "customCapabilities"))
    given = (one for each in lists if isinstance(each, list) for one in each)
    return any(isinstance(one, str) and one in ADMIN_CAPABILITIES for one in given)


def first_permissions(given: KeyChange) -> KeyPermissions:
    """What a new key stores. Raises Invalid unless a profile or custom capabilities are given, and not both."""
    if given.custom_capabilities is UNSET and given.permission_profile is UNSET:
        raise Invalid.at("/permissionProfile", "Give `permissionProfile` or `customCapabilities`.")
    return changed_permissions(KeyPermissions("read-only", ()), given)


def changed_permissions(before: KeyPermissions, given: KeyChange) -> KeyPermissions:
    """What a key stores that stored `before`. Raises Invalid where a request says two things at once.

    Custom capabilities replace everything. A profile keeps the supplemental capabilities unless they are given, also
    those of a key that was custom.
    """
    _refuse_contradictions(before, given)
    after = before
    if given.custom_capabilities is not UNSET:
        after = _custom(given.custom_capabilities)
    elif given.permission_profile is not UNSET or given.supplemental_capabilities is not UNSET:
        after = _of_profile(before, given)
    return replace(after, account_ids=_account_ids(before, given))


def _refuse_contradictions(before: KeyPermissions, given: KeyChange) -> None:
    if given.custom_capabilities is not UNSET:
        beside = {
            "/permissionProfile": given.permission_profile,
            "/supplementalCapabilities": given.supplemental_capabilities,
        }
        reason = "`customCapabilities` replaces everything: leave this out."
        if details := tuple(Detail(path, reason) for path, value in beside.items() if value is not UNSET):
            raise Invalid(details=details, reason=reason)
        return
    is_lone = given.permission_profile is UNSET and given.supplemental_capabilities is not UNSET
    if is_lone and before.profile == "custom":
        reason = "This key has custom capabilities: give `permissionProfile` too, or all of it as `customCapabilities`."
        raise Invalid.at("/supplementalCapabilities", reason)


def _custom(capabilities: Iterable[Capability]) -> KeyPermissions:
    held = _once(capabilities)
    return KeyPermissions("custom", held, tuple(one for one in held if one in ADMIN_CAPABILITIES))


def _of_profile(before: KeyPermissions, given: KeyChange) -> KeyPermissions:
    # A lone supplemental set on a custom key has been refused.
    profile = before.profile if given.permission_profile is UNSET else given.permission_profile
    added = before.supplemental if given.supplemental_capabilities is UNSET else given.supplemental_capabilities
    supplemental = _once(map(Capability, added))
    mail = () if profile == "custom" else PROFILES[profile]
    return KeyPermissions(profile, _once((*mail, *supplemental)), supplemental)


def _account_ids(before: KeyPermissions, given: KeyChange) -> tuple[str, ...] | None:
    if given.accounts is UNSET:
        return before.account_ids
    return None if given.accounts is None else tuple(dict.fromkeys(given.accounts))


def _once(capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """Each once, in the order that was given."""
    return tuple(dict.fromkeys(capabilities))
