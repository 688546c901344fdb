"""Operations to set the OAuth applications registered with Google and Microsoft, and to connect mailboxes by signing in
at a provider.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Annotated, cast, get_args
from urllib.parse import parse_qsl, urlsplit

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace as replace_fields

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import (
    AccessRefused,
    AccountExists,
    Conflict,
    Detail,
    Invalid,
    NotFound,
    Problem,
    ProviderThrottled,
    Throttled,
    Unavailable,
)
from mailbox_appliance.events import AccountAdded, AccountReconnected
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.model.accounts import (
    Account,
    Connection,
    GoogleAppSettings,
    OAuthApp,
    OAuthLogin,
    OAuthProvider,
    OAuthSettings,
    OutlookAppSettings,
)
from mailbox_appliance.model.base import Deletion, Input, Timestamp, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.oauth.environment import LONGEST, TENANT
from mailbox_appliance.oauth.flows import (
    AppMissing,
    NotAgreedYet,
    NothingBrought,
    SignInRefused,
    SignInRequest,
    SignInResult,
    SignInStarted,
    StateUnknown,
    TooManyFlows,
)
from mailbox_appliance.operations.licence import require_room_for_account, require_verified_license
from mailbox_appliance.operations.message_input import Email, Id, Name, refuse_control_characters
from mailbox_appliance.operations.operation import Access, Caller, operation, recheck_caller, recheck_owner
from mailbox_appliance.remote.errors import RemoteFault, account_error_of
from mailbox_appliance.remote.login_check import LoginCheckResult, SignInFailed, check_logins
from mailbox_appliance.remote.oauth import IssuedTokens

# --- Applications, by which members connect Google and Outlook mailboxes: what is configured, and from where ---
#
# built-in  <  stored (PUT)  <  environment  <  environment-file        the later one wins
#
# Nothing is built in. An application from the environment cannot be changed here. Secrets are never returned.


_REFUSED_BY_MICROSOFT = "Microsoft refuses the secret of a public client (AADSTS700025)."


class SetOAuthAppRequest(Input, frozen=True, kw_only=True):
    """An application registered with a provider. It replaces the stored one.

    - client_id: Client ID from the provider.
    """

    client_id: Annotated[str, Meta(min_length=1, max_length=LONGEST["CLIENT_ID"])]
    client_secret: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST["CLIENT_SECRET"],
                description=(
                    "Client secret. If omitted, the stored secret is kept if `clientId` is unchanged. A public client"
                    " of Outlook has none: neither a given nor a stored one is kept. One of Google may have one."
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
                    "Outlook only: the tenant, such as a domain (letters, digits, `.`, `-` and `_`). Default: any"
                    " tenant. Not kept for Google."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET
    public_client: (
        Annotated[
            bool, Meta(description="Whether the application is a public client, such as a desktop app. Default: false.")
        ]
        | UnsetType
    ) = UNSET


def require_unlimited(_appliance: Appliance, caller: Caller, _values: Mapping[str, str]) -> None:
    """Raise Denied for an API key that is limited to certain mailboxes."""
    permissions.require_unlimited(caller.required_credential)


def _require_known_provider(_appliance: Appliance, _caller: Caller, values: Mapping[str, str]) -> None:
    if values.get("provider") not in get_args(OAuthProvider):
        raise NotFound(what="OAuth provider")


def _require_may_change_app(appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:
    require_unlimited(appliance, caller, values)
    _require_known_provider(appliance, caller, values)


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, check_request=require_unlimited)
def get_oauth_apps(appliance: Appliance, caller: Caller) -> OAuthSettings:  # noqa: ARG001 - rights were checked
    """Get the OAuth applications.

    Returns the applications in use, without their secrets. Later sources override earlier ones: `built-in`, `stored`,
    `environment`, `environment-file`. No application is built in. One that is set in the environment cannot be changed
    here (`mutable` is false).
    """
    require_verified_license(appliance)
    return _oauth_settings(appliance)


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, check_request=_require_may_change_app)
def set_oauth_app(
    appliance: Appliance, caller: Caller, provider: str, request: SetOAuthAppRequest
) -> OperationResult[OAuthSettings]:
    """Set an OAuth application.

    Replaces the stored application of `google` or `outlook`. Omitted fields are cleared, except `clientSecret`. Values
    that do not apply to the provider are not stored, and `warnings` name them: a tenant for Google, and the secret
    (also a stored one) of a public client for Outlook.
    """
    named = cast("OAuthProvider", provider)
    _check_app(named, request)
    require_verified_license(appliance)
    _require_mutable(appliance, named)
    with appliance.store.database.transaction(durable=True):
        before = appliance.store.oauth_apps.find(named)
        appliance.store.oauth_apps.put(_merge_app(before, named, request))
        appliance.store.audit.record(caller.actor, "oauth_app.set", ("oauth_app", named))
    _retry_mailboxes(appliance, named)
    return OperationResult(_oauth_settings(appliance), _find_contradictions(before, named, request))


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, check_request=_require_may_change_app)
def remove_oauth_app(appliance: Appliance, caller: Caller, provider: str) -> Deletion:
    """Remove an OAuth application.

    Deletes the stored application of a provider.
    """
    named = cast("OAuthProvider", provider)
    require_verified_license(appliance)
    _require_mutable(appliance, named)
    with appliance.store.database.transaction(durable=True):
        appliance.store.oauth_apps.remove(named)
        appliance.store.audit.record(caller.actor, "oauth_app.delete", ("oauth_app", named))
    return Deletion(id=named)


def _retry_mailboxes(appliance: Appliance, provider: OAuthProvider) -> None:
    """Try mailboxes with a sign-in error again, since the replaced application may have caused it."""
    for account in appliance.store.accounts.list_all():
        if account.provider == provider and account.status in ("error", "reauth_required"):
            appliance.logins.forget_tokens(account.id)
            appliance.sync.wake(account.id, None)


def _check_app(provider: OAuthProvider, request: SetOAuthAppRequest) -> None:
    if provider == "outlook" and request.tenant_id is not UNSET and not re.search(TENANT, request.tenant_id):
        raise Invalid.at("/tenantId", "A tenant ID can contain only letters, digits, `.`, `-` and `_`.")
    refuse_control_characters("/clientId", request.client_id)
    refuse_control_characters("/clientSecret", request.client_secret or "")


def _require_mutable(appliance: Appliance, provider: OAuthProvider) -> None:
    if provider in appliance.environment_oauth_apps:
        name = f"MAILBOX_APPLIANCE_{provider.upper()}_CLIENT_ID"
        raise Conflict(reason=f"This application is set in the environment ({name}); change it there.")


def _merge_app(before: OAuthApp | None, provider: OAuthProvider, request: SetOAuthAppRequest) -> OAuthApp:
    is_public, is_outlook = request.public_client is True, provider == "outlook"
    secret = None if is_public and is_outlook else request.client_secret or _stored_secret(before, request)
    tenant = (request.tenant_id or None) if is_outlook else None
    return OAuthApp(provider, request.client_id, secret, tenant, is_public)


def _stored_secret(before: OAuthApp | None, request: SetOAuthAppRequest) -> str | None:
    return before.client_secret if before is not None and before.client_id == request.client_id else None


def _find_contradictions(
    before: OAuthApp | None, provider: OAuthProvider, request: SetOAuthAppRequest
) -> tuple[str, ...]:
    """Google has no tenants. Microsoft refuses the secret of a public client."""
    if provider == "google":
        return () if request.tenant_id is UNSET else ("`tenantId` was not kept: only Outlook has tenants.",)
    if request.public_client is not True:
        return ()
    if request.client_secret is not UNSET:
        return (f"`clientSecret` was not kept: {_REFUSED_BY_MICROSOFT}",)
    if _stored_secret(before, request) is not None:
        return (f"The stored `clientSecret` was removed: {_REFUSED_BY_MICROSOFT}",)
    return ()


def _oauth_settings(appliance: Appliance) -> OAuthSettings:
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


# --- Mailboxes whose provider has granted access: check it at their servers, store it, try it again ---
#
# A mailbox that its owner has connected already gets the new access and keeps its ID, mail and rights. Everything is
# checked again inside the transaction that saves, since the servers take their time.


#: Names of the providers for people.
PROVIDER_NAMES = {"imap": "IMAP", "google": "Google", "outlook": "Microsoft"}
_NO_MAILBOX_ACCESS = (
    "{person} signed in, but has no access to {mailbox}. Sign in as {mailbox}. If it is a shared mailbox, ask an"
    " administrator of the organization for full access, which can take an hour to apply."
)
_UNAVAILABLE_RETRY_AFTER, _THROTTLED_RETRY_AFTER = 30, 60


def check_login(appliance: Appliance, connection: Connection, login: OAuthLogin) -> tuple[LoginCheckResult, OAuthLogin]:
    """Sign in to the servers of a mailbox. Returns the features and folders that they offer, and the login to store.

    The login to store is the given one, with one exception. If the Microsoft tenant has switched SMTP AUTH off, it has
    `sends_via` set to `graph`, so that the mailbox sends by Microsoft Graph. Raises errors of the servers.
    """
    ca_file, timeout = appliance.settings.text("remote.ca_file"), appliance.settings.number("remote.timeout")
    try:
        sends = login.sends_via == "smtp"
        return check_logins(connection, ca_file=ca_file, timeout=timeout, calls=appliance.calls, sends=sends), login
    except SignInFailed as failed:
        names = [fault.name for fault in failed.faults]
        if login.provider == "outlook" and names == ["smtp_auth_disabled"] and failed.checked is not None:
            return failed.checked, replace(login, sends_via="graph")
        raise _sign_in_problem(failed, login) from failed


def connect_or_renew(
    appliance: Appliance,
    caller: Caller,
    login: OAuthLogin,
    checked: LoginCheckResult,
    issued: IssuedTokens,
    *,
    name: str | None,
    within: str | None,
) -> Account:
    """Connect a mailbox after a successful sign-in, or give an existing one its access again, and return it.

    - login: The credentials from the sign-in.
    - checked: The features and folders that the servers reported.
    - issued: The tokens from the sign-in.
    - name: The display name of a new mailbox.
    - within: ID of the existing mailbox, if the request named it.
    """
    known = _find_connected(appliance, caller, login, within)
    if known is not None:
        # An address can be spelled in two ways; the mailbox keeps the spelling that it has.
        return _renew_access(appliance, caller, known.id, replace(login, email=known.email), checked, issued)
    store = appliance.store
    with store.database.transaction(durable=True):
        permissions.require_unlimited(recheck_caller(store, caller))
        require_room_for_account(appliance)
        if store.accounts.exists(login.email, caller.member.id):  # two sign-ins at once
            raise AccountExists
        account_id = store.oauth_logins.add(caller.member.id, name, login)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.folders.replace(account_id, checked.folders)
        store.audit.record(caller.actor, "account.create", ("account", account_id))
    appliance.logins.keep_tokens(account_id, issued)
    appliance.events.publish(AccountAdded(account_id))
    appliance.sync.add(account_id)
    return store.accounts.get(account_id)


def retry_login(appliance: Appliance, caller: Caller, account: Account) -> Account:
    """Sign in to a mailbox again with its stored OAuth access, and return it. Raises the error if it still does not
    work.
    """
    logins = appliance.logins
    logins.forget_tokens(account.id)
    try:
        token = logins.use_token(account.id, "mail", str)
    except RemoteFault as fault:
        raise provider_problem(fault) from fault
    login = logins.get_login(account.id)
    checked, now = check_login(appliance, logins.connection(login, token), login)
    return add_graph_trouble(appliance, _renew_access(appliance, caller, account.id, now, checked))


def add_graph_trouble(appliance: Appliance, account: Account) -> Account:
    """Return the mailbox with an error in it if it must send by Microsoft Graph, but the person has not consented to
    that. Otherwise return it unchanged.

    The consent can be missing after a device flow, which asks for the mail servers and for Microsoft Graph one after
    the other. Some people give only the first.
    """
    if account.provider == "imap" or appliance.logins.get_login(account.id).sends_via != "graph":
        return account
    try:
        appliance.logins.use_token(account.id, "graph", str)
    except RemoteFault as fault:
        if fault.name == "consent_required":
            return replace_fields(account, error=account_error_of(fault))
    return account


def provider_problem(fault: RemoteFault) -> Problem:
    """Return the API error for a failed request to a provider. If the provider refused it, retrying does not help."""
    if fault.kind == "login_refused" or (fault.kind == "refused" and fault.name != "server_down"):
        return AccessRefused(details=(Detail(fault.server, fault.reason),), reason=fault.reason)
    return problem_of(fault)


def _find_connected(appliance: Appliance, caller: Caller, login: OAuthLogin, within: str | None) -> Account | None:
    """Raises NotFound if the mailbox was removed, and AccountExists if the address is connected in another way."""
    store = appliance.store
    if within is not None:
        recheck_owner(store, caller, within)
        return store.accounts.get(within)
    found = store.accounts.find_own(login.email, caller.member.id)
    if found is not None and found.provider != login.provider:
        raise AccountExists
    return found


def _renew_access(
    appliance: Appliance,
    caller: Caller,
    account_id: str,
    login: OAuthLogin,
    checked: LoginCheckResult,
    issued: IssuedTokens | None = None,
) -> Account:
    """Store new credentials and retry what waited for them. `issued`: None if the stored ones were confirmed."""
    appliance.sync.remove(account_id)  # what is still being read used the previous access
    try:
        _save_login(appliance, caller, account_id, login, checked, is_new=issued is not None)
    except NotFound:  # it was removed in the meantime
        raise
    except BaseException:
        appliance.sync.add(account_id)
        raise
    if issued is not None:  # before anybody asks for a token
        appliance.logins.keep_tokens(account_id, issued)
    appliance.events.publish(AccountReconnected(account_id))
    appliance.sync.add(account_id)
    return appliance.store.accounts.get(account_id)


def _save_login(
    appliance: Appliance, caller: Caller, account_id: str, login: OAuthLogin, checked: LoginCheckResult, *, is_new: bool
) -> None:
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_owner(store, caller, account_id)
        if store.accounts.get(account_id).provider != login.provider:
            raise Conflict(reason="Another request has just reconnected this mailbox. Check it, then try again.")
        if is_new:
            store.oauth_logins.set(account_id, login)
        else:
            store.oauth_logins.confirm(account_id, login.sends_via)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.schedule.pull_forward_mailbox(account_id, appliance.clock.now())
        store.audit.record(caller.actor, "account.reconnect", ("account", account_id))


def _sign_in_problem(failed: SignInFailed, login: OAuthLogin) -> Problem:
    """The provider issued the credentials, but the mail servers do not accept them."""
    details = tuple(Detail(fault.server, fault.reason) for fault in failed.faults)
    reason, kinds = failed.faults[0].reason, {fault.kind for fault in failed.faults}
    if "throttled" in kinds:
        return ProviderThrottled(details=details, retry_after=_THROTTLED_RETRY_AFTER)
    if "login_refused" in kinds and login.is_shared:
        return AccessRefused(reason=_NO_MAILBOX_ACCESS.format(person=login.username, mailbox=login.email))
    if "login_refused" in kinds:
        return AccessRefused(details=details, reason=reason)
    return Unavailable(details=details, reason=reason, retry_after=_UNAVAILABLE_RETRY_AFTER)


# --- The sign-in itself (RFC 6749): a session begins it, and only the same session can finish it ---
#
#     begin   -> the provider's page, which the person opens; it leads back to GET /oauth/callback, which stores nothing
#     finish  <- the result: `state` and `code`, or the whole address where the sign-in ended
#
# With `device` the person enters a code on another device instead (RFC 8628), and `finish` is called with `state` alone
# until they have consented. The `state` is bound to the session that started the sign-in.


_CALLBACK_PATH = "/api/v1/oauth/callback"
_MAX_CALLBACK_FIELDS = 32
_CALLBACK_FIELDS = ("state", "code", "error", "error_description")
_SIGN_IN_OVER = (
    "This sign-in has expired or belongs to another session. Start again; a sign-in is valid once, for 10 minutes."
)
_NO_APP = (
    "No OAuth application is configured for {title}. Ask an administrator to register one there, and to set it under"
    " OAuth apps in the console or with `mailbox-appliance oauth-apps set {provider}`."
)
_NOT_REDIRECTABLE = (
    "server.public_url is {address}, but Google and Microsoft redirect only to https:// addresses. Ask an administrator"
    " to change or remove it, and to register the redirect URI that belongs to it."
)
_THIS_COMPUTER = ("localhost", "127.0.0.1", "::1")
_SIGN_INS_RETRY_AFTER = 60
_WHOLE_ADDRESS_ADVICE = "Give the whole address of the page where the sign-in ended, including `state` and `code`."


class StartOAuthSignInRequest(Input, frozen=True, kw_only=True):
    """Options of an OAuth sign-in. If empty, it connects whichever mailbox the person signs in to.

    - display_name: Display name of a new mailbox.
    """

    email: (
        Annotated[Email, Meta(description="Email address of the mailbox. With Outlook it can be a shared mailbox.")]
        | UnsetType
    ) = UNSET
    display_name: Name | UnsetType | None = UNSET
    account_id: (
        Annotated[Id, Meta(description="ID of a mailbox of yours that is connected already and needs a new sign-in.")]
        | UnsetType
    ) = UNSET
    device: Annotated[
        bool, Meta(description="Outlook only: use a device flow, in which the person enters a code on any device.")
    ] = False
    loopback_port: (
        Annotated[
            int,
            Meta(
                ge=1024,
                le=65535,
                description="Port on the person's own computer where a program waits for the redirect (RFC 8252 7.3)."
                " Ignored if `server.public_url` is set.",
            ),
        ]
        | UnsetType
    ) = UNSET


_ANY_MAILBOX = StartOAuthSignInRequest()


class OAuthSignIn(Wire, frozen=True, kw_only=True):
    """An OAuth sign-in that has been started.

    - authorization_url: Page to open in a browser; in a device flow, the page where the person enters `userCode`.
    - state: Identifies the sign-in; give it back to complete it.
    - expires_at: When the sign-in expires.
    - user_code: Device flow only: the code that the person enters.
    - verification_uri: Device flow only: the address of the page, short enough to type.
    - interval: Device flow only: seconds to wait between two attempts to complete it.
    """

    authorization_url: str
    state: str
    expires_at: Timestamp
    user_code: str | UnsetType = UNSET
    verification_uri: str | UnsetType = UNSET
    interval: int | UnsetType = UNSET


class CompleteOAuthSignInRequest(Input, frozen=True, kw_only=True):
    """The result of the sign-in: `state` and `code`, or `redirectUrl` alone; for a device flow, `state` alone.

    - state: The `state` of the sign-in.
    - code: The code that the provider added to the redirect.
    """

    state: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType = UNSET
    code: Annotated[str, Meta(min_length=1, max_length=8192)] | UnsetType = UNSET
    redirect_url: (
        Annotated[
            str,
            Meta(min_length=1, max_length=16384, description="The whole address that the browser was redirected to."),
        ]
        | UnsetType
    ) = UNSET


@operation(access=Access.SESSION, check_request=_require_known_provider)
def begin_sign_in(
    appliance: Appliance, caller: Caller, provider: str, request: StartOAuthSignInRequest = _ANY_MAILBOX
) -> OAuthSignIn:
    """Start an OAuth sign-in.

    Starts connecting a mailbox of `google` or `outlook` through the provider's own sign-in page: open
    `authorizationUrl`. The sign-in is single-use, expires after 10 minutes, and can be completed only by the session
    that started it.

    409 `conflict`: no OAuth application is configured for this provider.
    """
    named = cast("OAuthProvider", provider)
    if not request.device:
        require_redirectable_url(appliance.settings.text("server.public_url"))
    require_verified_license(appliance)
    place = appliance.require_io_slot() if request.device else nullcontext()
    with _translate_flow_errors(named, "/state"), place:
        asked = _to_sign_in_request(appliance, caller, named, request)
        _check_sign_in(named, request)
        return _to_sign_in(appliance.flows.start(asked, device=request.device))


@operation(access=Access.SESSION, check_request=_require_known_provider, asks_servers=True)
def finish_sign_in(appliance: Appliance, caller: Caller, provider: str, request: CompleteOAuthSignInRequest) -> Account:
    """Complete an OAuth sign-in.

    Connects the mailbox after the person has signed in at the provider. Only the session that started the sign-in can
    complete it. The mail servers are tested first. If you have already connected this mailbox, it keeps its ID and
    regains its access.

    409 `conflict`: in a device flow, the person has not approved yet; try again after `interval` seconds.
    """
    require_verified_license(appliance)
    granted = _finish_flow(appliance, caller, cast("OAuthProvider", provider), request)
    checked, login = check_login(appliance, granted.connection, granted.login)
    asked = granted.request
    named = {"name": asked.display_name, "within": asked.account_id}
    return add_graph_trouble(appliance, connect_or_renew(appliance, caller, login, checked, granted.issued, **named))


def redirect_uri(appliance: Appliance, loopback_host: str, port: int | None = None) -> str:
    """Return the address to which the provider redirects after a sign-in. It is below `server.public_url` if that is
    set, otherwise on this computer, and never comes from a request.

    - loopback_host: The name for this computer that the provider accepts.
    - port: The port of a program on this computer that waits for the redirect (RFC 8252 7.3); None for the appliance's.
    """
    if public := appliance.settings.text("server.public_url").rstrip("/"):
        return public + _CALLBACK_PATH
    return f"http://{loopback_host}:{port or urlsplit(appliance.local_url).port}{_CALLBACK_PATH}"


def require_redirectable_url(public_url: str) -> None:
    """Raise Conflict if providers would not redirect to this address. They require HTTPS, except for the person's own
    computer.
    """
    place = urlsplit(public_url)
    if public_url and place.scheme != "https" and place.hostname not in _THIS_COMPUTER:
        raise Conflict(reason=_NOT_REDIRECTABLE.format(address=public_url))


def _check_sign_in(provider: OAuthProvider, request: StartOAuthSignInRequest) -> None:
    refuse_control_characters("/displayName", request.display_name or "")
    if request.device and provider != "outlook":
        raise Invalid.at(
            "/device", f"{PROVIDER_NAMES[provider]} does not support device sign-in for mail; sign in with a browser."
        )
    if request.email is not UNSET:
        try:
            to_envelope_address(request.email)
        except ValueError as error:
            raise Invalid.at("/email", f"Mail cannot be sent from this address: {error}.") from error


def _to_sign_in_request(
    appliance: Appliance, caller: Caller, provider: OAuthProvider, request: StartOAuthSignInRequest
) -> SignInRequest:
    """Raises NotFound or Denied for a mailbox that is not the caller's own, and PlanDenied."""
    email = request.email or None
    if request.account_id is UNSET:
        require_room_for_account(appliance)
    else:
        email = _get_own_account(appliance, caller, provider, request).email
    host = appliance.flows.loopback_host(provider)
    return SignInRequest(
        provider=provider,
        member_id=caller.member.id,
        session_id=caller.required_credential.id,
        redirect_uri=redirect_uri(appliance, host, request.loopback_port or None),
        email=email,
        display_name=request.display_name or None,
        account_id=request.account_id or None,
    )


def _get_own_account(
    appliance: Appliance, caller: Caller, provider: OAuthProvider, request: StartOAuthSignInRequest
) -> Account:
    account = permissions.require_account(appliance.store, caller.required_credential, str(request.account_id))
    permissions.require_owner(account, caller.member.id)
    if account.provider != provider:
        raise Invalid.at("/accountId", f"This mailbox is connected through {PROVIDER_NAMES[account.provider]}.")
    if request.email is not UNSET and request.email.casefold() != account.email.casefold():
        raise Invalid.at("/email", f"This mailbox is {account.email}; omit `email`.")
    return account


def _to_sign_in(begun: SignInStarted) -> OAuthSignIn:
    device = begun.device
    return OAuthSignIn(
        authorization_url=begun.authorization_url,
        state=begun.state,
        expires_at=to_timestamp(begun.expires_at),
        user_code=UNSET if device is None else device.user_code,
        verification_uri=UNSET if device is None else device.verification_uri,
        interval=UNSET if device is None else device.interval,
    )


def _finish_flow(
    appliance: Appliance, caller: Caller, provider: OAuthProvider, request: CompleteOAuthSignInRequest
) -> SignInResult:
    path, brought = _read_callback(request)
    with _translate_flow_errors(provider, path):
        return appliance.flows.finish(
            provider,
            caller.required_credential.id,
            state=brought.get("state", ""),
            code=brought.get("code"),
            error=brought.get("error"),
        )


def _read_callback(request: CompleteOAuthSignInRequest) -> tuple[str, Mapping[str, str]]:
    """Return the JSON pointer of the result, for errors, and its parameters `state`, `code` and `error`."""
    if request.redirect_url is UNSET:
        if request.state is UNSET:
            raise Invalid.at("/state", "Give `state` and `code`, or `redirectUrl`.")
        return "/state", {"state": request.state} | ({} if request.code is UNSET else {"code": request.code})
    if request.state is not UNSET or request.code is not UNSET:
        raise Invalid.at("/redirectUrl", "Give `redirectUrl` alone, or `state` and `code`.")
    brought = _read_callback_query(request.redirect_url.strip())
    if "state" not in brought or not brought.keys() & {"code", "error"}:
        raise Invalid.at("/redirectUrl", _WHOLE_ADDRESS_ADVICE)
    if "error" in brought:  # only looked up in our own table, never shown
        brought["error"] += " " + brought.pop("error_description", "")
    return "/redirectUrl", brought


def _read_callback_query(address: str) -> dict[str, str]:
    """Read the address that the provider redirected to, or that of the console page that opens after it."""
    try:
        parts = urlsplit(address)
        query = parts.query or parts.fragment.partition("?")[2]
        given = parse_qsl(query, max_num_fields=_MAX_CALLBACK_FIELDS)
    except ValueError:
        return {}
    return {name: value for name, value in reversed(given) if name in _CALLBACK_FIELDS}


@contextmanager
def _translate_flow_errors(provider: OAuthProvider, path: str) -> Iterator[None]:
    """Raise the API error in place of one of the flow. `path`: the JSON pointer of the result."""
    try:
        yield
    except StateUnknown as unknown:
        raise AccessRefused(details=(Detail(path, _SIGN_IN_OVER),), reason=_SIGN_IN_OVER) from unknown
    except NotAgreedYet as waiting:
        raise Conflict(
            reason="The sign-in has not been approved yet. Enter the code on the provider's page, then try again."
        ) from waiting
    except NothingBrought as nothing:
        raise Invalid.at("/code", "Also give `code`, or give `redirectUrl` alone.") from nothing
    except SignInRefused as refused:
        raise AccessRefused(reason=refused.reason) from refused
    except AppMissing as missing:
        raise Conflict(reason=_NO_APP.format(title=missing.title, provider=provider)) from missing
    except TooManyFlows as many:
        raise Throttled(retry_after=_SIGN_INS_RETRY_AFTER) from many
    except RemoteFault as fault:
        raise provider_problem(fault) from fault
