"""The licence: none is needed. Where an operator sells or hosts the appliance, a signed one sets limits.

Whoever makes a member or connects a mailbox asks `require_room_for_...` inside the transaction; the endpoints that
list 502 ask `require_verified` first. Reading mail asks nothing of this.
"""

from mailbox_appliance import licensing
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, PlanDenied, Unverified
from mailbox_appliance.records import License


def require_verified(appliance: Appliance) -> None:
    """Raises Unverified where the licence could not be confirmed for days."""
    if current(appliance).status == "unverified":
        raise Unverified(
            reason="for 7 days its issuer did not say that it is good, or it is not of the configured issuer. Set it"
            " again or remove it (`mailbox-appliance license`)."
        )


def require_room_for_member(appliance: Appliance) -> None:
    """Raises PlanDenied where the licence allows no further member."""
    most = _limits(appliance).max_members
    if most is not None and appliance.store.members.count() >= most:
        _refuse("maxMembers", f"it is for {most} members, and there are as many.")


def require_room_for_account(appliance: Appliance) -> None:
    """Raises PlanDenied where the licence allows no further mailbox."""
    most = _limits(appliance).max_accounts
    if most is not None and appliance.store.accounts.count() >= most:
        _refuse("maxAccounts", f"it is for {most} mailboxes, and there are as many.")


def current(appliance: Appliance) -> License:
    """How the appliance is licensed now."""
    installed = licensing.installed(appliance.store.stored_settings.find(licensing.STORED_AS))
    key = licensing.issuer_key(appliance.settings)
    # Without an issuer nobody is licensed: the limits are those of whoever sells or hosts the appliance.
    if installed is None or key is None:
        return licensing.COMMUNITY
    is_online = bool(appliance.settings.text("license.verify_url"))
    terms = licensing.terms_of(installed, key)
    return licensing.judge(installed, terms, appliance.clock.now(), is_confirmed_online=is_online)


def _limits(appliance: Appliance) -> License:
    found = current(appliance)
    if found.status == "expired":
        _refuse("expiresAt", f"it expired at {found.expires_at}. What is there goes on; ask its issuer for a new one.")
    return found


def _refuse(limit: str, reason: str) -> None:
    raise PlanDenied(reason=reason, details=(Detail(limit, reason),))
