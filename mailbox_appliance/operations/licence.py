"""Operations on licenses. No license is needed; an operator who sells or hosts the appliance can set limits with one.

Other operations check the license in two ways:

- Those that connect mailboxes by OAuth, set OAuth applications, or change the permissions of an API key call
  `require_verified_license` first.
- Those that add a member or connect a mailbox call `require_room_for_member` or `require_room_for_account` inside the
  transaction.

Reading mail never depends on a license. If an issuer rejects the license later, or does not reply, 7 days remain to fix
it.
"""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid, NothingToRemove, PlanDenied, Unverified
from mailbox_appliance.model.base import Deletion, Input
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability, License
from mailbox_appliance.operations.operation import Caller, operation, recheck_caller
from mailbox_appliance.remote import licence_issuer
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.security import licence
from mailbox_appliance.security.licence import BadLicence, InstalledLicence

_LICENSE_TARGET = ("license", "license")
_LICENSE_RETRY_AFTER = 5
_NOT_CONFIRMED = (
    "The license is installed but could not be confirmed: {reason} The issuer is asked again every hour. Functions that"
    " need a confirmed license work until {until}."
)


class SetLicenseRequest(Input, frozen=True, kw_only=True):
    """A license, as its issuer signed it."""

    token: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=16384,
            description="The license: a JWS (RFC 7515) in compact form, signed with EdDSA.",
        ),
    ]


@operation(needs=Capability.ADMIN_LICENSE, https=True)
def get_license(appliance: Appliance, caller: Caller) -> License:  # noqa: ARG001 - rights were checked
    """Get the license.

    No license is required: without one the plan is `community`, without limits.
    """
    return current_license(appliance)


@operation(needs=Capability.ADMIN_LICENSE, https=True)
def set_license(appliance: Appliance, caller: Caller, request: SetLicenseRequest) -> OperationResult[License]:
    """Install a license.

    Replaces the installed license. If an online check is configured, the issuer is asked first, and a license that it
    rejects is refused (400). If the issuer cannot be reached:

    - A new license is installed with a warning and must be confirmed within 7 days.
    - For the license that is installed already, that period does not restart: 502 `license_unverified`, and nothing
      is changed.
    """
    token = request.token.strip()
    _check_license(appliance, token)
    fault = _ask_issuer(appliance, token)
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_caller(store, caller, Capability.ADMIN_LICENSE)
        installed = _to_installed(appliance, token, fault)
        store.stored_settings.put(licence.STORED_AS, msgspec.to_builtins(installed))
        store.audit.record(caller.actor, "license.set", _LICENSE_TARGET)
    return OperationResult(current_license(appliance), _license_warnings(installed, fault))


@operation(needs=Capability.ADMIN_LICENSE, https=True)
def remove_license(appliance: Appliance, caller: Caller) -> Deletion:
    """Remove the license.

    The plan is `community` again, without limits.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        if store.stored_settings.find(licence.STORED_AS) is None:
            raise NothingToRemove(what="license")
        store.stored_settings.remove(licence.STORED_AS)
        store.audit.record(caller.actor, "license.delete", _LICENSE_TARGET)
    return Deletion(id="license")


def require_verified_license(appliance: Appliance) -> None:
    """Raise Unverified if the issuer has not confirmed the installed license for more than 7 days."""
    if current_license(appliance).status == "unverified":
        raise Unverified(
            reason="the issuer has not confirmed it for 7 days, or it is not from the configured issuer. Install it"
            " again or remove it (`mailbox-appliance license`)."
        )


def require_room_for_member(appliance: Appliance) -> None:
    """Raise PlanDenied if the license allows no further member."""
    most = _current_limits(appliance).max_members
    if most is not None and appliance.store.members.count() >= most:
        _refuse_by_plan("maxMembers", f"it allows {most} members, and there are that many.")


def require_room_for_account(appliance: Appliance) -> None:
    """Raise PlanDenied if the license allows no further mailbox."""
    most = _current_limits(appliance).max_accounts
    if most is not None and appliance.store.accounts.count() >= most:
        _refuse_by_plan("maxAccounts", f"it allows {most} mailboxes, and there are that many.")


def current_license(appliance: Appliance) -> License:
    """Return the current license; without one, the plan `community`."""
    installed = licence.load_installed(appliance.store.stored_settings.find(licence.STORED_AS))
    key = licence.issuer_key(appliance.settings)
    # Without an issuer there is no licensee: limits are set by the operator who sells or hosts the appliance.
    if installed is None or key is None:
        return licence.COMMUNITY
    is_online = bool(licence.verify_url(appliance.settings))
    terms = licence.terms_of(installed, key)
    return licence.evaluate(installed, terms, appliance.clock.now(), is_confirmed_online=is_online)


def _check_license(appliance: Appliance, token: str) -> None:
    """Raise Invalid unless the token is an unexpired license of the issuer. The error never quotes the token."""
    key = licence.issuer_key(appliance.settings)
    if key is None:
        hint = "set `license.issuer_public_key` to the issuer's key, and restart the appliance."
        raise Invalid.at("/token", f"No license issuer is configured: {hint}")
    try:
        terms = licence.parse_token(token, key)
    except BadLicence as error:
        raise Invalid.at("/token", f"This license cannot be installed: {error}.") from None
    if terms.has_expired(appliance.clock.now()):
        raise Invalid.at("/token", "This license has expired. Ask its issuer for a new one.")


def _ask_issuer(appliance: Appliance, token: str) -> RemoteFault | None:
    """Return the fault if the issuer did not reply, otherwise None. Raises Invalid if it rejects the license."""
    settings = appliance.settings
    url, ca_file = licence.verify_url(settings), settings.text("remote.ca_file")
    if not url:
        return None
    with appliance.io_slot() as has_place:
        if not has_place:
            reason = "too many requests are waiting for other servers. Try again in a few seconds."
            raise Unverified(reason=reason, retry_after=_LICENSE_RETRY_AFTER)
        try:
            timeout = float(settings.number("remote.timeout"))
            ask = partial(licence_issuer.is_licence_valid, url, token, ca_file=ca_file, timeout=timeout)
            is_good = appliance.calls.start("license", ask).result()
        except RemoteFault as fault:
            return fault
    if not is_good:
        raise Invalid.at("/token", "The issuer reports that this license is not valid.")
    return None


def _to_installed(appliance: Appliance, token: str, fault: RemoteFault | None) -> InstalledLicence:
    """Raise Unverified if the license has not been confirmed for more than 7 days."""
    now, installed = appliance.clock.now(), InstalledLicence(token)
    if not licence.verify_url(appliance.settings):
        return installed
    if fault is None:
        return installed.with_confirmation(now)
    before = licence.load_installed(appliance.store.stored_settings.find(licence.STORED_AS))
    installed = (before if before is not None and before.token == token else installed).with_failed_confirmation(now)
    if installed.is_unverified(now):
        raise Unverified(reason=fault.reason) from fault
    return installed


def _license_warnings(installed: InstalledLicence, fault: RemoteFault | None) -> tuple[str, ...]:
    until = installed.confirmed_until()
    return () if fault is None or until is None else (_NOT_CONFIRMED.format(reason=fault.reason, until=until),)


def _current_limits(appliance: Appliance) -> License:
    found = current_license(appliance)
    if found.status == "expired":
        _refuse_by_plan(
            "expiresAt",
            f"it expired at {found.expires_at}. Existing access keeps working; ask the issuer for a new one.",
        )
    return found


def _refuse_by_plan(limit: str, reason: str) -> None:
    raise PlanDenied(reason=reason, details=(Detail(limit, reason),))
