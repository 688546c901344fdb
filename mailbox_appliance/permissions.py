"""Decides what the credential of a request may do. This follows from the capabilities of its API key, the role of its
owner, and the mailboxes that both have access to.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailbox_appliance.errors import Denied, Detail, NotFound
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, MAIL_CAPABILITIES, Capability, Member, Role
from mailbox_appliance.store.credentials import FoundCredential

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

#: The capabilities that a key's limit to mailboxes restricts: mail, and the settings of mailboxes.
_IN_MAILBOXES = MAIL_CAPABILITIES | {Capability.ADMIN_ACCOUNTS}


def effective_capabilities(found: FoundCredential) -> frozenset[Capability]:
    """Return the capabilities that a credential has now.

    A session has all capabilities of its member's role. An API key has those of its own capabilities that its member's
    role also allows.
    """
    members = MAIL_CAPABILITIES | (ADMIN_CAPABILITIES if found.member.role == "admin" else frozenset())
    return members if found.kind == "session" else members.intersection(found.capabilities)


def require_account(store: "Store", found: FoundCredential, account_id: str, *, everywhere: bool = False) -> Account:
    """Return the mailbox if this credential has access to it. Raises NotFound, also for a mailbox of somebody else.

    `everywhere`: allow mailboxes of all members, for administrators who manage settings. The limit of an API key to
    certain mailboxes still applies.
    """
    if found.account_ids is not None and account_id not in found.account_ids:
        raise NotFound(what="mailbox")
    if everywhere:
        return store.accounts.get(account_id)
    account = store.accounts.find_reachable(account_id, found.member.id)
    if account is None:
        raise NotFound(what="mailbox")
    return account


def reachable_accounts(store: "Store", found: FoundCredential) -> tuple[Account, ...]:
    """Return all mailboxes that this credential has access to; empty if there are none."""
    accounts = store.accounts.list_reachable(found.member.id)
    return tuple(a for a in accounts if found.account_ids is None or a.id in found.account_ids)


def reachable_syncs(store: "Store", found: FoundCredential) -> dict[str, str | None]:
    """Return the IDs of all mailboxes that this credential has access to, each with its `last_sync_at`."""
    return {
        account_id: last_sync_at
        for account_id, last_sync_at in store.accounts.list_reachable_syncs(found.member.id)
        if found.account_ids is None or account_id in found.account_ids
    }


def may_send_now(store: "Store", account_id: str, credential_id: str, member_id: str) -> bool:
    """Whether a credential that requested a send earlier may still send from this mailbox."""
    found = store.credentials.find_by_id(credential_id, member_id)
    if found is None or found.member.status != "active":
        return False
    if Capability.MAIL_SEND not in effective_capabilities(found):
        return False
    return any(account.id == account_id for account in reachable_accounts(store, found))


def require_capability(held: frozenset[Capability], needed: tuple[Capability, ...]) -> None:
    """Raise Denied, naming the capabilities, unless `held` contains at least one of `needed`. If `needed` is empty,
    allow it.
    """
    if needed and not held.intersection(needed):
        names = " or ".join(needed)
        raise Denied(reason=f"{names} is required.", details=(Detail("capability", names),))


def require_role(member: Member, role: Role) -> None:
    """Raise Denied unless the member has this role."""
    if member.role != role:
        raise Denied(reason=f"only an {role} can do this.", details=(Detail("role", role),))


def require_unlimited(found: FoundCredential) -> None:
    """Raise Denied for an API key that is limited to certain mailboxes.

    For operations outside such a limit: connecting mailboxes and changing OAuth applications.
    """
    if found.account_ids is not None:
        reason = (
            "an API key that is limited to some mailboxes can neither create mailboxes nor manage OAuth applications."
        )
        raise Denied(reason=reason, details=(Detail("capability", Capability.ADMIN_ACCOUNTS),))


def require_may_change_admins(found: FoundCredential, *roles: Role) -> None:
    """Raise Denied if an API key would change or create an administrator. `roles`: the member's role before and after.

    No capability allows this to a key, so nobody can become an administrator through a key.
    """
    if found.kind == "api_key" and "admin" in roles:
        reason = "an API key can neither create nor change an administrator. Use a session instead."
        raise Denied(reason=reason, details=(Detail("role", "admin"),))


@dataclass(frozen=True)
class KeyRights:
    """The rights of an API key: its capabilities, and the mailboxes that it is limited to (None: all of its owner's).

    `is_made_by_owner`: the owner created the key, so nobody else has seen its token.
    """

    capabilities: frozenset[Capability]
    account_ids: frozenset[str] | None
    is_made_by_owner: bool = True

    def holds(self, capability: Capability, account_ids: frozenset[str] | None) -> bool:
        """Whether the key has this capability in all of these mailboxes (None: all of its owner's)."""
        if capability not in self.capabilities:
            return False
        return self.account_ids is None or (account_ids is not None and account_ids <= self.account_ids)


def require_grantable(
    found: FoundCredential, held: frozenset[Capability], *, owner_id: str, before: KeyRights | None, after: KeyRights
) -> None:
    """Raise Denied if a key would get rights that the caller may not grant. `before` is None for a new key.

    - A caller cannot grant a capability that is not in `held`, the caller's own.
    - Rights that the key has `before` may stay.
    - A session can add all of these to a key that exists. The key still does only what its owner may do.
    - In all other cases, only the owner of a key can give it mail capabilities, and only if nobody else has seen its
      token.
    - A caller with an API key can grant rights only in the mailboxes of that key.
    """
    had, scope = before or KeyRights(frozenset(), frozenset()), after.account_ids
    _require_all(after.capabilities - had.capabilities, held)
    if found.kind == "session" and before is not None:
        return
    added = {one for one in after.capabilities & _IN_MAILBOXES if not had.holds(one, scope)}
    mail = added & MAIL_CAPABILITIES
    if mail and not after.is_made_by_owner:
        _capability_denied(
            mail,
            "a key created for another member cannot have mail capabilities. Members create those keys themselves.",
        )
    if mail and owner_id != found.member.id:
        _capability_denied(mail, "only its owner or an administrator's session can give a key more mail capabilities.")
    if found.kind == "session":
        return
    own = KeyRights(held, found.account_ids)
    if beyond := [one for one in added if not own.holds(one, scope)]:
        _capability_denied(beyond, "this API key does not have that capability itself in all of these mailboxes.")


def _require_all(added: frozenset[Capability], held: frozenset[Capability]) -> None:
    if missing := added - held:
        _capability_denied(missing, "you cannot give a key capabilities that you do not have.")


def _capability_denied(capabilities: Iterable[Capability], reason: str) -> None:
    named = sorted(capabilities)
    raise Denied(reason=reason, details=tuple(Detail("capability", one) for one in named))


def require_owner(account: Account, member_id: str) -> None:
    """Raise Denied unless the member owns the mailbox."""
    if account.owner_member_id != member_id:
        raise Denied(
            reason="only the owner of the mailbox can do this.", details=(Detail("owner", account.owner_member_id),)
        )
