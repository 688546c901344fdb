"""Connecting a mailbox by its provider's own sign-in (OAuth 2.0): a session begins it, and the same one finishes it.

    begin   -> the provider's page, which the person opens; it leads back to GET /oauth/callback, which keeps nothing
    finish  <- what came back there: `state` and `code`, or the whole address of where the sign-in ended

With `device` the person types a code on another device instead, and `finish` is asked with `state` alone until they
have agreed. Nobody else's session can finish: the `state` is bound to the one that began.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Annotated, cast, get_args
from urllib.parse import parse_qsl, urlsplit

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import AccessRefused, Conflict, Detail, Invalid, NotFound, Throttled
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.records import Account, Input, OAuthProvider, Timestamp, Wire
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
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.license import require_room_for_account, require_verified
from mailbox_appliance.operations.oauth_mailboxes import NAMES, keep, told, tried, with_graph
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import Email, Id, Name, refuse_controls
from mailbox_appliance.remote.errors import RemoteFault

_CALLBACK = "/api/v1/oauth/callback"
_MOST_FIELDS = 32
_BROUGHT = ("state", "code", "error", "error_description")
_OVER = "This sign-in was not begun by this session, or it is over: it is good once, for 10 minutes. Begin anew."
_NO_APP = (
    "No OAuth app is set up for {title}. An administrator registers one there, once, and sets it under OAuth apps in"
    " the console, or with `mailbox-appliance oauth-apps set {provider}`."
)
_NO_WAY_BACK = (
    "server.public_url is {address}, and Google and Microsoft lead browsers back to https:// addresses only. An"
    " administrator sets another one, or none, and registers the redirect URI that belongs to it."
)
_THIS_COMPUTER = ("localhost", "127.0.0.1", "::1")
_RETRY_AFTER = 60
_WHOLE = "Give the whole address of the page where the sign-in ended, with `state` and `code` in it."


class NewSignIn(Input, frozen=True, kw_only=True):
    """What a sign-in is for. Empty: whichever mailbox one signs in to."""

    email: (
        Annotated[Email, Meta(description="The mailbox that is meant; with Outlook it may be a shared one.")]
        | UnsetType
    ) = UNSET
    display_name: Name | UnsetType | None = UNSET
    account_id: (
        Annotated[Id, Meta(description="A mailbox of yours that is connected already and is to regain its access.")]
        | UnsetType
    ) = UNSET
    device: Annotated[bool, Meta(description="Outlook only: the person types a code, on any device.")] = False
    loopback_port: (
        Annotated[
            int,
            Meta(
                ge=1024,
                le=65535,
                description="Where a program on the person's own computer listens for the browser to come back"
                " (RFC 8252 7.3). Passed over where `server.public_url` is set.",
            ),
        ]
        | UnsetType
    ) = UNSET


class SignIn(Wire, frozen=True, kw_only=True):
    """A sign-in that has begun. With a device flow `authorizationUrl` is the page to open, where `userCode` is typed;
    `interval`: the seconds to let pass between two tries to finish.
    """

    authorization_url: str
    state: str
    expires_at: Timestamp
    user_code: str | UnsetType = UNSET
    verification_uri: str | UnsetType = UNSET
    interval: int | UnsetType = UNSET


class EndOfSignIn(Input, frozen=True, kw_only=True):
    """What a sign-in brought: `state` and `code`, or `redirectUrl` alone; of a device flow `state` alone."""

    state: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType = UNSET
    code: Annotated[str, Meta(min_length=1, max_length=8192)] | UnsetType = UNSET
    redirect_url: (
        Annotated[str, Meta(min_length=1, max_length=16384, description="The address where the browser ended.")]
        | UnsetType
    ) = UNSET


def _known_provider(_appliance: Appliance, _caller: Caller, values: Mapping[str, str]) -> None:
    if values.get("provider") not in get_args(OAuthProvider):
        raise NotFound(what="OAuth provider")


@operation(access=Access.SESSION, permits=_known_provider, tag="oauth_flows")
def begin_sign_in(appliance: Appliance, caller: Caller, provider: str, request: NewSignIn = NewSignIn()) -> SignIn:  # noqa: B008 - it never changes
    """Begin to connect a mailbox of `google` or `outlook` by the provider's own sign-in: open `authorizationUrl`.

    It is good once, for 10 minutes, and for this session alone. 409: nobody has set an OAuth application up.
    """
    named = cast("OAuthProvider", provider)
    if not request.device:
        require_way_back(appliance.settings.text("server.public_url"))
    require_verified(appliance)
    place = appliance.require_io_slot() if request.device else nullcontext()
    with _told(named, "/state"), place:
        asked = _asked(appliance, caller, named, request)
        _check(named, request)
        return _shown(appliance.flows.start(asked, device=request.device))


@operation(access=Access.SESSION, permits=_known_provider, asks_servers=True, tag="oauth_flows")
def finish_sign_in(appliance: Appliance, caller: Caller, provider: str, request: EndOfSignIn) -> Account:
    """Connect the mailbox that somebody has signed in to, by the session that began it. Its servers are tried first.

    A mailbox that you have connected at this provider already stays as it is and regains its access. 409 `conflict`:
    with a device flow nobody has agreed yet, so ask again.
    """
    require_verified(appliance)
    granted = _granted(appliance, caller, cast("OAuthProvider", provider), request)
    checked, login = tried(appliance, granted.connection, granted.login)
    asked = granted.request
    named = {"name": asked.display_name, "within": asked.account_id}
    return with_graph(appliance, keep(appliance, caller, login, checked, granted.issued, **named))


def redirect_uri(appliance: Appliance, loopback_host: str, port: int | None = None) -> str:
    """Where the provider sends the browser back to: as the operator says, else to this computer; never from a request.

    RFC 8252 7.3: a loopback address, with any port; which of its names a provider takes, its row in the table says.
    """
    if public := appliance.settings.text("server.public_url").rstrip("/"):
        return public + _CALLBACK
    return f"http://{loopback_host}:{port or urlsplit(appliance.local_url).port}{_CALLBACK}"


def require_way_back(public_url: str) -> None:
    """Raises Conflict where no provider would lead a browser back: they want HTTPS, but for this computer."""
    place = urlsplit(public_url)
    if public_url and place.scheme != "https" and place.hostname not in _THIS_COMPUTER:
        raise Conflict(reason=_NO_WAY_BACK.format(address=public_url))


def _check(provider: OAuthProvider, request: NewSignIn) -> None:
    refuse_controls("/displayName", request.display_name or "")
    if request.device and provider != "outlook":
        raise Invalid.at("/device", f"{NAMES[provider]} gives no access to mail by a code; sign in with a browser.")
    if request.email is not UNSET:
        try:
            to_envelope_address(request.email)
        except ValueError as error:
            raise Invalid.at("/email", f"Nothing could be sent from this address: {error}.") from error


def _asked(appliance: Appliance, caller: Caller, provider: OAuthProvider, request: NewSignIn) -> SignInRequest:
    """Raises NotFound or Denied where the mailbox is not the caller's own, PlanDenied where there is no room for it."""
    email = request.email or None
    if request.account_id is UNSET:
        require_room_for_account(appliance)
    else:
        email = _own(appliance, caller, provider, request).email
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


def _own(appliance: Appliance, caller: Caller, provider: OAuthProvider, request: NewSignIn) -> Account:
    account = permissions.require_account(appliance.store, caller.required_credential, str(request.account_id))
    permissions.require_owner(account, caller.member.id)
    if account.provider != provider:
        raise Invalid.at("/accountId", f"This mailbox is one of {NAMES[account.provider]}.")
    if request.email is not UNSET and request.email.casefold() != account.email.casefold():
        raise Invalid.at("/email", f"This mailbox is {account.email}; leave `email` out.")
    return account


def _shown(begun: SignInStarted) -> SignIn:
    device = begun.device
    return SignIn(
        authorization_url=begun.authorization_url,
        state=begun.state,
        expires_at=to_timestamp(begun.expires_at),
        user_code=UNSET if device is None else device.user_code,
        verification_uri=UNSET if device is None else device.verification_uri,
        interval=UNSET if device is None else device.interval,
    )


def _granted(appliance: Appliance, caller: Caller, provider: OAuthProvider, request: EndOfSignIn) -> SignInResult:
    path, brought = _brought(request)
    with _told(provider, path):
        return appliance.flows.finish(
            provider,
            caller.required_credential.id,
            state=brought.get("state", ""),
            code=brought.get("code"),
            error=brought.get("error"),
        )


def _brought(request: EndOfSignIn) -> tuple[str, Mapping[str, str]]:
    """What the sign-in brought, and where that stands. Raises Invalid."""
    if request.redirect_url is UNSET:
        if request.state is UNSET:
            raise Invalid.at("/state", "Give `state` and `code`, or `redirectUrl`.")
        return "/state", {"state": request.state} | ({} if request.code is UNSET else {"code": request.code})
    if request.state is not UNSET or request.code is not UNSET:
        raise Invalid.at("/redirectUrl", "Give `redirectUrl` alone, or `state` and `code`.")
    brought = _values(request.redirect_url.strip())
    if "state" not in brought or not brought.keys() & {"code", "error"}:
        raise Invalid.at("/redirectUrl", _WHOLE)
    if "error" in brought:  # it is looked up in a table of ours, and told to nobody
        brought["error"] += " " + brought.pop("error_description", "")
    return "/redirectUrl", brought


def _values(address: str) -> dict[str, str]:
    """What stands in the provider's redirect, or in the address of the console's page that it led to."""
    try:
        parts = urlsplit(address)
        query = parts.query or parts.fragment.partition("?")[2]
        given = parse_qsl(query, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return {}
    return {name: value for name, value in reversed(given) if name in _BROUGHT}


@contextmanager
def _told(provider: OAuthProvider, path: str) -> Iterator[None]:
    """What a flow raises, as every door tells it."""
    try:
        yield
    except StateUnknown as unknown:
        raise AccessRefused(details=(Detail(path, _OVER),), reason=_OVER) from unknown
    except NotAgreedYet as waiting:
        raise Conflict(
            reason="Nobody has agreed yet. Type the code on the provider's page, then repeat this."
        ) from waiting
    except NothingBrought as nothing:
        raise Invalid.at("/code", "Give `code` besides, or `redirectUrl` alone.") from nothing
    except SignInRefused as refused:
        raise AccessRefused(reason=refused.reason) from refused
    except AppMissing as missing:
        raise Conflict(reason=_NO_APP.format(title=missing.title, provider=provider)) from missing
    except TooManyFlows as many:
        raise Throttled(retry_after=_RETRY_AFTER) from many
    except RemoteFault as fault:
        raise told(fault) from fault
