"""What a caller should be told: the order of checks of section 1 of the contract, over a row of the table.

    host, HTTPS (403) -> credential (401) -> session_required (403) -> reach (404) -> capability, role, owner (403)
    -> the request itself (400)

Every request of the matrix has a query parameter that nothing knows. So whoever is allowed is told 400 of exactly that
parameter, and nothing is done.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.doors.people import Aim, Credential, Origin
from tests.doors.rights import ACCOUNTS, ADMIN, MAIL, Guard, Right, Who

NONSENSE = "nonsense"


class Verdict(NamedTuple):
    """Status, code, and the path of the first detail."""

    status: int
    code: str | None = None
    path: str | None = None


ALLOWED = Verdict(400, "invalid_request", f"query:{NONSENSE}")
#: A page looks at no query.
SHOWN = Verdict(200)
HTTPS_REQUIRED = Verdict(403, "https_required")
LOCAL_ONLY = Verdict(403, "permission_denied", "role")
UNAUTHENTICATED = Verdict(401, "unauthenticated")
SUSPENDED = Verdict(403, "member_suspended")
SESSION_REQUIRED = Verdict(403, "session_required")
NOT_FOUND = Verdict(404, "not_found")
NO_CAPABILITY = Verdict(403, "permission_denied", "capability")
NO_ROLE = Verdict(403, "permission_denied", "role")
NO_OWNER = Verdict(403, "permission_denied", "owner")


def capabilities(who: Credential) -> frozenset[str]:
    """What a credential may do now: what a key stores and its owner may do now; a session, what its member may."""
    members = frozenset(MAIL + ADMIN) if who.is_admin else frozenset(MAIL)
    return members if who.kind == "session" else members & who.stored


def expected(right: Right, who: Credential, origin: Origin, aim: Aim) -> Verdict:
    """The verdict that the table asks for."""
    if Guard.HTTPS in right.guards and not _is_private(origin):
        return HTTPS_REQUIRED
    if right.who is Who.LOCAL and not origin.is_local:
        return LOCAL_ONLY
    if right.who in (Who.EVERYBODY, Who.LOCAL):
        return SHOWN if right.is_page else ALLOWED
    if who.kind == "operator" and Guard.OR_OPERATOR in right.guards and origin.is_local:
        return ALLOWED
    # Elsewhere, from elsewhere and through a proxy the operator's secret is unknown.
    if who.kind in ("none", "operator"):
        return UNAUTHENTICATED
    if who.is_suspended:
        return SUSPENDED
    if right.who is Who.SESSION and who.kind == "api_key":
        return SESSION_REQUIRED
    if aim.is_in_a_mailbox and not _reaches(right, who, aim):
        return NOT_FOUND
    if right.needs and not capabilities(who).intersection(right.needs):
        return NO_CAPABILITY
    refusals = (_GUARDS[guard](who, aim) for guard in right.guards if guard in _GUARDS)
    if refusal := next((refusal for refusal in refusals if refusal is not None), None):
        return refusal
    return ALLOWED if _is_private(origin) or not _administers(right, who, aim) else HTTPS_REQUIRED


def _is_private(origin: Origin) -> bool:
    return origin.is_local or origin.is_secure


def _administers(right: Right, who: Credential, aim: Aim) -> bool:
    """Whether somebody acts as an administrator where members act as such as well (S 6): only then HTTPS is needed."""
    if Guard.HTTPS_FOR_THIS in right.guards:
        return True
    is_owner = who.kind == "session" and _owner(who, aim) is None
    return Guard.OWNER_OR_ADMIN in right.guards and not is_owner


def _reaches(right: Right, who: Credential, aim: Aim) -> bool:
    """A key's scope comes first (S 3). Then the owner, the granted, everybody; settings also by admin.accounts."""
    box = aim.mailbox
    if box is None or (who.scope is not None and box.name not in who.scope):
        return False
    is_settings = Guard.OWNER_OR_ADMIN in right.guards and ACCOUNTS in capabilities(who)
    return is_settings or box.is_shared or who.member in (box.owner, *box.granted)


def _admin(who: Credential, _aim: Aim) -> Verdict | None:
    return None if who.is_admin else NO_ROLE


def _owner(who: Credential, aim: Aim) -> Verdict | None:
    return None if aim.mailbox is not None and aim.mailbox.owner == who.member else NO_OWNER


def _owner_or_admin(who: Credential, aim: Aim) -> Verdict | None:
    if ACCOUNTS in capabilities(who):
        return None
    return NO_CAPABILITY if who.kind == "api_key" else _owner(who, aim)


def _unlimited(who: Credential, _aim: Aim) -> Verdict | None:
    return None if who.scope is None else NO_CAPABILITY


def _sender_or_owner(who: Credential, aim: Aim) -> Verdict | None:
    if aim.sender and (_owner(who, aim) is None or aim.sender == who.member):
        return None
    return NO_OWNER if aim.is_scheduled else NOT_FOUND


def _there(_who: Credential, aim: Aim) -> Verdict | None:
    return None if aim.is_there else NOT_FOUND


def _no_admin_by_key(who: Credential, aim: Aim) -> Verdict | None:
    return NO_ROLE if who.kind == "api_key" and aim.is_admin else None


_GUARDS: dict[Guard, Callable[[Credential, Aim], Verdict | None]] = {
    Guard.ADMIN: _admin,
    Guard.OWNER: _owner,
    Guard.OWNER_OR_ADMIN: _owner_or_admin,
    Guard.UNLIMITED: _unlimited,
    Guard.SENDER_OR_OWNER: _sender_or_owner,
    Guard.MEMBER: _there,
    Guard.KEY: _there,
    Guard.PROVIDER: _there,
    Guard.NO_ADMIN_BY_KEY: _no_admin_by_key,
}
