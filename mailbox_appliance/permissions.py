"""Who may do what: worked out anew for every request, from the credential, its owner's role and mailboxes."""

from mailbox_appliance.errors import Denied, Detail, NotFound
from mailbox_appliance.records import ADMIN_CAPABILITIES, MAIL_CAPABILITIES, Account, Capability
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store


def effective_capabilities(found: FoundCredential) -> frozenset[Capability]:
    """What a credential may do now: what its member may, and of that what a key stores."""
    members = MAIL_CAPABILITIES | (ADMIN_CAPABILITIES if found.member.role == "admin" else frozenset())
    return members if found.kind == "session" else members & found.capabilities


def reach(store: Store, found: FoundCredential, account_id: str) -> Account:
    """The mailbox, if this credential reaches it. Raises NotFound, so that nobody learns what others have."""
    if found.account_ids is not None and account_id not in found.account_ids:
        raise NotFound(what="mailbox")
    account = store.accounts.find_reachable(account_id, found.member.id)
    if account is None:
        raise NotFound(what="mailbox")
    return account


def reachable(store: Store, found: FoundCredential) -> tuple[Account, ...]:
    """Every mailbox that this credential reaches."""
    accounts = store.accounts.list_reachable(found.member.id)
    return tuple(a for a in accounts if found.account_ids is None or a.id in found.account_ids)


def may_send_now(store: Store, account_id: str, credential_id: str, member_id: str) -> bool:
    """Whether the one who asked for a send earlier may still send from this mailbox."""
    found = store.credentials.find_by_id(credential_id, member_id)
    if found is None or found.member.status != "active":
        return False
    if Capability.MAIL_SEND not in effective_capabilities(found):
        return False
    return any(account.id == account_id for account in reachable(store, found))


def require(held: frozenset[Capability], needed: tuple[Capability, ...]) -> None:
    """Raises Denied, naming the capability, unless one of the needed ones is held."""
    if needed and not held.intersection(needed):
        names = " or ".join(needed)
        raise Denied(reason=f"{names} is missing.", details=(Detail("capability", names),))


def require_owner(account: Account, member_id: str) -> None:
    """Raises Denied unless the member owns the mailbox."""
    if account.owner_member_id != member_id:
        raise Denied(reason="only the owner of the mailbox may.", details=(Detail("owner", account.owner_member_id),))
