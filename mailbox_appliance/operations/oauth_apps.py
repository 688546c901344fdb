"""The applications by which members connect Google and Outlook mailboxes: what is configured, and from where.

    built-in  <  stored (PUT)  <  environment  <  environment-file        the later one wins

Nothing is built in. Where the environment gives an application, nobody can change it here. Secrets go in and never out.
"""

import re
from collections.abc import Mapping
from typing import Annotated, cast, get_args

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, Invalid, NotFound
from mailbox_appliance.model.records import (
    Capability,
    Deleted,
    GoogleAppSettings,
    Input,
    OAuthApp,
    OAuthProvider,
    OAuthSettings,
    OperationResult,
    OutlookAppSettings,
)
from mailbox_appliance.oauth.environment import LONGEST, TENANT
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.license import require_verified
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.texts import refuse_controls

_REFUSED_BY_MICROSOFT = "Microsoft refuses the secret of a public client (AADSTS700025)."


class NewOAuthApp(Input, frozen=True, kw_only=True):
    """An application registered with a provider; it takes the place of the one before."""

    client_id: Annotated[str, Meta(min_length=1, max_length=LONGEST["CLIENT_ID"])]
    client_secret: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST["CLIENT_SECRET"],
                description=(
                    "Left out: the stored one stays where `clientId` stays. A public client of Google may have one; of"
                    " Outlook it has none, so it is not kept, nor does the stored one stay."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET
    tenant_id: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST["TENANT_ID"],
                description=(
                    "Outlook's: letters, digits, `.`, `-` and `_`, such as a domain; left out: any tenant. Google has"
                    " none, so it is not kept."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET
    public_client: (
        Annotated[bool, Meta(description="One that keeps no secret, as for the desktop. Left out: false.")] | UnsetType
    ) = UNSET


def _require_unlimited(_appliance: Appliance, caller: Caller, _values: Mapping[str, str]) -> None:
    permissions.require_unlimited(caller.required_credential)


def _may_change(_appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:
    """Raises Denied for a key that is limited to mailboxes, then NotFound for a provider that nobody knows."""
    permissions.require_unlimited(caller.required_credential)
    if values.get("provider") not in get_args(OAuthProvider):
        raise NotFound(what="OAuth provider")


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, permits=_require_unlimited, tag="oauth_apps")
def get_oauth_apps(appliance: Appliance, caller: Caller) -> OAuthSettings:  # noqa: ARG001 - rights were checked
    """The OAuth applications in force, without their secrets.

    `source`: where an application is from; of several the later one of `built-in`, `stored`, `environment`,
    `environment-file` wins. Nothing is built in. `mutable`: whether it can be changed here, which it cannot where the
    operator gave it in the environment.
    """
    require_verified(appliance)
    return _settings(appliance)


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, permits=_may_change, tag="oauth_apps")
def set_oauth_app(
    appliance: Appliance, caller: Caller, provider: str, request: NewOAuthApp
) -> OperationResult[OAuthSettings]:
    """Save the application of a provider, `google` or `outlook`, in place of the one before.

    What is left out is as if it had never been saved, but for `clientSecret`. What does not go with the provider is
    taken and not kept, and `warnings` say so: a tenant for Google, the secret of a public client of Outlook, a stored
    one too.
    """
    named = cast("OAuthProvider", provider)
    _check(named, request)
    require_verified(appliance)
    _require_mutable(appliance, named)
    with appliance.store.database.transaction(durable=True):
        before = appliance.store.oauth_apps.find(named)
        appliance.store.oauth_apps.put(_merged(before, named, request))
        appliance.store.audit.record(caller.actor, "oauth_app.set", ("oauth_app", named))
    _try_again(appliance, named)
    return OperationResult(_settings(appliance), _not_kept(before, named, request))


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, permits=_may_change, tag="oauth_apps")
def remove_oauth_app(appliance: Appliance, caller: Caller, provider: str) -> Deleted:
    """Forget the application that was saved for a provider."""
    named = cast("OAuthProvider", provider)
    require_verified(appliance)
    _require_mutable(appliance, named)
    with appliance.store.database.transaction(durable=True):
        appliance.store.oauth_apps.remove(named)
        appliance.store.audit.record(caller.actor, "oauth_app.delete", ("oauth_app", named))
    return Deleted(id=named)


def _try_again(appliance: Appliance, provider: OAuthProvider) -> None:
    """Have the mailboxes tried at once that were in trouble, by the application of before maybe."""
    for account in appliance.store.accounts.list_all():
        if account.provider == provider and account.status in ("error", "reauth_required"):
            appliance.logins.forget_tokens(account.id)
            appliance.sync.wake(account.id, None)


def _check(provider: OAuthProvider, request: NewOAuthApp) -> None:
    if provider == "outlook" and request.tenant_id is not UNSET and not re.search(TENANT, request.tenant_id):
        raise Invalid.at("/tenantId", "A tenant id has letters, digits, `.`, `-` and `_`, such as a domain.")
    refuse_controls("/clientId", request.client_id)
    refuse_controls("/clientSecret", request.client_secret or "")


def _require_mutable(appliance: Appliance, provider: OAuthProvider) -> None:
    if provider in appliance.environment_oauth_apps:
        name = f"MAILBOX_APPLIANCE_{provider.upper()}_CLIENT_ID"
        raise Conflict(reason=f"The operator gave this application in the environment ({name}); change it there.")


def _merged(before: OAuthApp | None, provider: OAuthProvider, request: NewOAuthApp) -> OAuthApp:
    is_public, is_outlook = request.public_client is True, provider == "outlook"
    secret = None if is_public and is_outlook else request.client_secret or _stored_secret(before, request)
    tenant = (request.tenant_id or None) if is_outlook else None
    return OAuthApp(provider, request.client_id, secret, tenant, is_public)


def _stored_secret(before: OAuthApp | None, request: NewOAuthApp) -> str | None:
    """The secret that is there already, of this application."""
    return before.client_secret if before is not None and before.client_id == request.client_id else None


def _not_kept(before: OAuthApp | None, provider: OAuthProvider, request: NewOAuthApp) -> tuple[str, ...]:
    """What does not go with the provider, of a request or of what was there, in words (Microsoft: AADSTS700025)."""
    if provider == "google":
        return () if request.tenant_id is UNSET else ("`tenantId` was not kept: only Outlook has tenants.",)
    if request.public_client is not True:
        return ()
    if request.client_secret is not UNSET:
        return (f"`clientSecret` was not kept: {_REFUSED_BY_MICROSOFT}",)
    if _stored_secret(before, request) is not None:
        return (f"The stored `clientSecret` was removed: {_REFUSED_BY_MICROSOFT}",)
    return ()


def _settings(appliance: Appliance) -> OAuthSettings:
    find = appliance.logins.apps.find
    google, outlook = find("google"), find("outlook")
    given = appliance.environment_oauth_apps
    return OAuthSettings(
        google=GoogleAppSettings(
            client_id=google.client_id if google else "",
            client_secret_configured=google is not None and google.client_secret is not None,
            source=given["google"].source if "google" in given else "stored" if google else "built-in",
            mutable="google" not in given,
        ),
        outlook=OutlookAppSettings(
            client_id=outlook.client_id if outlook else None,
            tenant_id=outlook.tenant_id if outlook else None,
            client_secret_configured=outlook is not None and outlook.client_secret is not None,
            source=given["outlook"].source if "outlook" in given else "stored" if outlook else None,
            mutable="outlook" not in given,
        ),
    )
