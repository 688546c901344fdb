"""Who asks: found out once, under every door, from a bearer token and where the request came from."""

import hmac
from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.errors import MemberSuspended, Unauthenticated
from mailbox_appliance.model.records import Capability, Member
from mailbox_appliance.permissions import effective_capabilities, require_account, require_capability, require_owner
from mailbox_appliance.security import tokens
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

# Tokens of earlier releases are shorter; nothing of ours is longer than this.
_LONGEST_TOKEN = 200


@dataclass(frozen=True)
class Origin:
    """Where a request came from: the peer's address, whether that is this computer, and whether nobody could listen."""

    client_address: str | None
    is_local: bool
    is_secure: bool

    @property
    def is_private(self) -> bool:
        """Whether nobody in between reads along."""
        return self.is_local or self.is_secure


LOCAL = Origin(None, is_local=True, is_secure=True)


@dataclass(frozen=True)
class Caller:
    """Who asks. Without a credential it may be anybody, or the operator of this computer, who is no member."""

    origin: Origin
    credential: FoundCredential | None = None
    capabilities: frozenset[Capability] = frozenset()
    is_operator: bool = False

    @property
    def member(self) -> Member:
        """The member behind the credential. Raises Unauthenticated where there is none."""
        return self.required_credential.member

    @property
    def required_credential(self) -> FoundCredential:
        """The credential. Raises Unauthenticated where there is none."""
        if self.credential is None:
            raise Unauthenticated
        return self.credential

    @property
    def kind(self) -> Literal["anonymous", "session", "api_key"]:
        """What the request was made with."""
        return "anonymous" if self.credential is None else self.credential.kind

    @property
    def actor(self) -> Actor:
        """The caller as the audit log names it."""
        address = self.origin.client_address
        if self.credential is None:
            return Actor("local" if self.origin.is_local else "system", client_address=address)
        return Actor(self.credential.kind, self.credential.id, self.credential.member.id, address)


def is_operator(secret: str | None, token: str | None, origin: Origin) -> bool:
    """Whether a bearer token is the secret of this run, shown on this computer: whoever may read `run.json` has it."""
    if secret is None or not token or not origin.is_local:
        return False
    return hmac.compare_digest(secret.encode(), token.encode("utf-8", "surrogatepass"))


def identify(store: Store, token: str | None, origin: Origin) -> Caller:
    """The caller that a bearer token stands for.

    Raises Unauthenticated without a token or for one that is no longer good, MemberSuspended for a suspended member's.
    """
    if not token or len(token) > _LONGEST_TOKEN:
        raise Unauthenticated
    # A mistyped or cut token is told by its checksum, without asking the store.
    if token[:4] in tokens.KINDS and not tokens.is_well_formed(token):
        raise Unauthenticated
    found = store.credentials.find(tokens.hash_token(token))
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    return Caller(origin, found, effective_capabilities(found))


def require_still(store: Store, caller: Caller, *needed: Capability) -> FoundCredential:
    """Ask again, inside the transaction that saves, whether the caller may: much can happen while a request waits.

    Answers the credential as it is now. Raises Unauthenticated where the session or key has ended since it was looked
    at, MemberSuspended, and Denied where none of the capabilities is held any more.
    """
    found = store.credentials.find_current(caller.required_credential)
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    require_capability(effective_capabilities(found), needed)
    return found


def require_still_owner(store: Store, caller: Caller, account_id: str) -> None:
    """The same, and whether the mailbox is the caller's own. Raises NotFound where it is not reached any more, too."""
    found = require_still(store, caller)
    require_owner(require_account(store, found, account_id), found.member.id)
