"""Permissions, computed for every request from the credential, its owner's role and the owner's mailboxes."""

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
    """Return what a credential allows now: all that its member may do, for a key limited to its stored capabilities."""
    members = MAIL_CAPABILITIES | (ADMIN_CAPABILITIES if found.member.role == "admin" else frozenset())
    return members if found.kind == "session" else members.intersection(found.capabilities)


def require_account(store: "Store", found: FoundCredential, account_id: str, *, everywhere: bool = False) -> Account:
    """Return the mailbox if this credential has access to it. Raises NotFound, which does not reveal that it exists.

    `everywhere`: return it for any owner, for administrators who manage its settings. A key's own limit still
    applies.
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
    """Return every mailbox that this credential has access to."""
    accounts = store.accounts.list_reachable(found.member.id)
    return tuple(a for a in accounts if found.account_ids is None or a.id in found.account_ids)


def may_send_now(store: "Store", account_id: str, credential_id: str, member_id: str) -> bool:
    """Whether the caller of an earlier send may still send from this mailbox."""
    found = store.credentials.find_by_id(credential_id, member_id)
    if found is None or found.member.status != "active":
        return False
    if Capability.MAIL_SEND not in effective_capabilities(found):
        return False
    return any(account.id == account_id for account in reachable_accounts(store, found))


def require_capability(held: frozenset[Capability], needed: tuple[Capability, ...]) -> None:
    """Raise Denied, naming the capabilities, unless one of the needed ones is held."""
    if needed and not held.intersection(needed):
        names = " or ".join(needed)
        raise Denied(reason=f"{names} is required.", details=(Detail("capability", names),))


def require_role(member: Member, role: Role) -> None:
    """Raise Denied unless the member has this role now."""
    if member.role != role:
        raise Denied(reason=f"only an {role} can do this.", details=(Detail("role", role),))


def require_unlimited(found: FoundCredential) -> None:
    """Raise Denied for an API key with a limit to mailboxes, since OAuth applications and new mailboxes are outside the
    limit.
    """
    if found.account_ids is not None:
        reason = (
            "an API key that is limited to some mailboxes can neither create mailboxes nor manage OAuth applications."
        )
        raise Denied(reason=reason, details=(Detail("capability", Capability.ADMIN_ACCOUNTS),))


def require_may_change_admins(found: FoundCredential, *roles: Role) -> None:
    """Raise Denied if an API key would change or create an administrator. `roles`: the roles concerned.

    No capability of a key is an exception, so nobody can become an administrator through a key.
    """
    if found.kind == "api_key" and "admin" in roles:
        reason = "an API key can neither create nor change an administrator. Use a session instead."
        raise Denied(reason=reason, details=(Detail("role", "admin"),))


@dataclass(frozen=True)
class KeyRights:
    """The rights of a key: its capabilities, and its mailboxes (None: all that its owner has access to).

    `is_made_by_owner`: nobody but the owner has been shown its token.
    """

    capabilities: frozenset[Capability]
    account_ids: frozenset[str] | None
    is_made_by_owner: bool = True

    def holds(self, capability: Capability, account_ids: frozenset[str] | None) -> bool:
        """Whether the key allows this in all of these mailboxes."""
        if capability not in self.capabilities:
            return False
        return self.account_ids is None or (account_ids is not None and account_ids <= self.account_ids)


def require_grantable(
    found: FoundCredential, held: frozenset[Capability], *, owner_id: str, before: KeyRights | None, after: KeyRights
) -> None:
    """Raise Denied if a key would get more rights than the caller holds now (`held`).

    Rights that the key has `before` may stay. Only a member adds mail capabilities to their own keys, not even an
    administrator can, and a key whose token another person was shown never gets them. An API key grants rights only in
    its own mailboxes.
    """
    had, scope = before or KeyRights(frozenset(), frozenset()), after.account_ids
    _require_all(after.capabilities - had.capabilities, held)
    added = {one for one in after.capabilities & _IN_MAILBOXES if not had.holds(one, scope)}
    mail = added & MAIL_CAPABILITIES
    if mail and not after.is_made_by_owner:
        _capability_denied(
            mail,
            "a key created for another member cannot have mail capabilities. Members create those keys themselves.",
        )
    if mail and owner_id != found.member.id:
        _capability_denied(mail, "only its owner can give a key more mail capabilities, by creating a new key.")
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
