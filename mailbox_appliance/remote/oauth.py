"""Send OAuth 2.0 requests to a provider, and read its responses.

    authorization_url ..... the URL that a person opens (RFC 6749 4.1.1, with PKCE: RFC 7636)
    exchange_code ......... exchanges the code that the browser returns for tokens (RFC 6749 4.1.3)
    refresh_access ........ uses a refresh token to get an access token, at some providers also a new refresh token
                            (RFC 6749 6)
    request_device_code ... gets a code that a person types on another device, if this one has no browser (RFC 8628)
    poll_device_code ...... gets the tokens once the person has typed that code
    fetch_userinfo ........ the address of the person who signed in (OpenID Connect Core 5.3)

The library oauthlib builds the requests and parses the responses. It is imported at the first request.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.accounts import OAuthApp, OAuthProvider
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote import errors
from mailbox_appliance.remote.errors import RemoteFault, malformed_fault
from mailbox_appliance.remote.errors import named_fault as named
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.net.https import HttpsResponse
from mailbox_appliance.remote.providers import KnownProvider, url_for_tenant

if TYPE_CHECKING:
    from oauthlib.oauth2 import Client

# --- Responses: tokens, the code to type on another device, errors ---
#
# The provider's free text is only classified (`errors`), and never kept, logged or shown.


#: Seconds that an access token lasts if the response does not say, and at most: usually about an hour.
_USUAL_LIFETIME, _LONGEST_LIFETIME = 3600.0, 24 * 3600.0
# RFC 6750 2.1 (b64token) is narrower than real tokens: visible characters, except for the separator of XOAUTH2.
_TokenText = Annotated[str, Meta(min_length=1, max_length=16384, pattern=r"^[\x21-\x7e]+\Z")]
_DeviceText = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+\Z")]
# It is shown to a person, so it must not contain sentences.
_PageUrl = Annotated[str, Meta(max_length=2048, pattern=r"^https://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~:/?&=%+-]*)?\Z")]


@dataclass(frozen=True)
class IssuedTokens:
    """The tokens that a provider issued.

    - lifetime: seconds for which the access token is valid.
    - scopes: the granted scopes; None if all requested ones were granted.
    - claims: the content of the ID token. It came over TLS from its issuer, so its signature need not be checked
      (OpenID Connect Core 3.1.3.7, 6).
    """

    access_token: str = field(repr=False)
    lifetime: float
    refresh_token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DevicePrompt:
    """The code that a person types on another device to grant access, and the URL of the page for it.

    `lifetime`: seconds for which the code is valid. `interval`: seconds between two calls of `poll_device_code`.
    """

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    lifetime: float
    interval: int


class OAuthErrorResponse(msgspec.Struct, frozen=True):
    """An error response of a provider (RFC 6749 5.2). `suberror` is sent by Microsoft, `error_subtype` by Google."""

    error: str
    error_description: str = ""
    suberror: str = ""
    error_subtype: str = ""


class _DeviceResponse(msgspec.Struct, frozen=True):
    """The response to a request for a device code (RFC 8628 3.2). Google names the URL `verification_url`."""

    device_code: _DeviceText
    user_code: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+\Z")]
    expires_in: Annotated[float, Meta(gt=0)]
    verification_uri: _PageUrl | UnsetType = UNSET
    verification_url: _PageUrl | UnsetType = UNSET
    interval: Annotated[int, Meta(ge=0, le=600)] = 5


class _TokenResponse(msgspec.Struct, frozen=True):
    """The response with tokens (RFC 6749 5.1): the fields that are used."""

    access_token: _TokenText
    token_type: str
    refresh_token: _TokenText | None = None
    scope: str | None = None
    id_token: str | None = None


def require_success(answer: HttpsResponse) -> HttpsResponse:
    """Return the response if it is a success. Raises RemoteFault if it is an error."""
    if answer.status == 200 and read_error(answer) is None:
        return answer
    raise _fault_of_refusal(answer)


def read_error(answer: HttpsResponse) -> OAuthErrorResponse | None:
    """Return the OAuth error in a response; None if it contains none."""
    try:
        return decode_json(answer.body, OAuthErrorResponse)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _fault_of_refusal(answer: HttpsResponse) -> RemoteFault:
    """Return the fault for an error response.

    Access counts as revoked only if the provider names that error; other errors with a 4xx status do not mean it.
    """
    said = read_error(answer)
    if answer.status == 429:
        fault = named("rate_limited", "oauth")
    elif answer.status >= 500:
        fault = named("server_down", "oauth")
    elif said is None:
        return malformed_fault("oauth")
    else:
        text = f"{said.error} {said.suberror} {said.error_subtype} {said.error_description}"
        unknown = RemoteFault("oauth", "refused", "The provider's sign-in refused this for an unknown reason.")
        fault = errors.fault_of_reply("oauth", text) or unknown
    fault.retry_after = answer.retry_after
    return fault


def read_tokens(client: "Client", answer: HttpsResponse) -> IssuedTokens:
    """Return the tokens in a response. Raises RemoteFault (`malformed`) if it is not a valid token response."""
    from oauthlib.oauth2 import OAuth2Error

    said = answer.decode(_TokenResponse, "oauth")
    try:
        read = client.parse_request_body_response(answer.body.decode())
    except (OAuth2Error, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise malformed_fault("oauth") from error
    if said.token_type.lower() != "bearer":  # RFC 6750: the only kind that mail servers accept
        raise malformed_fault("oauth")
    lasts = read.get("expires_in", _USUAL_LIFETIME)
    is_usable = isinstance(lasts, (int, float)) and lasts > 0
    return IssuedTokens(
        access_token=said.access_token,
        lifetime=min(float(lasts), _LONGEST_LIFETIME) if is_usable else _USUAL_LIFETIME,
        refresh_token=said.refresh_token,
        scopes=None if said.scope is None else frozenset(said.scope.split()),
        claims={} if said.id_token is None else _read_claims(said.id_token),
    )


def read_device_prompt(answer: HttpsResponse) -> DevicePrompt:
    """Return the code for another device from a response. Raises RemoteFault (`malformed`) if it is not valid."""
    said = answer.decode(_DeviceResponse, "oauth")
    uri = said.verification_uri or said.verification_url
    if uri is UNSET:
        raise malformed_fault("oauth")
    return DevicePrompt(said.device_code, said.user_code, uri, said.expires_in, max(1, said.interval))


def _read_claims(id_token: str) -> Mapping[str, Any]:
    """Return the claims of an ID token (RFC 7519 3), without checking its signature; empty if it is malformed."""
    try:
        part = id_token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# --- Requests ---


_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class OAuthClient:
    """A registered OAuth application at a provider, with the options for requests.

    `ca_file`: file with additional CAs; may be empty. `timeout`: seconds for one request.
    """

    provider: KnownProvider
    app: OAuthApp
    ca_file: str
    timeout: float

    def without_secret(self) -> "OAuthClient":
        """Return the same application without its secret, for device-code sign-ins and for renewing tokens from these.

        Microsoft refuses a secret with both, even if the application has one (AADSTS700025: "Client is public so
        neither 'client_assertion' nor 'client_secret' should be presented").
        """
        return replace(self, app=replace(self.app, client_secret=None))


def new_verifier() -> str:
    """Return a new PKCE verifier: a secret for one sign-in (RFC 7636 4.1)."""
    return secrets.token_urlsafe(48)


def authorization_url(
    asking: OAuthClient, scopes: Iterable[str], *, redirect_uri: str, state: str, verifier: str, hint: str | None
) -> str:
    """Return the URL that a person opens in a browser to grant access.

    - redirect_uri: the URL to which the provider sends the browser afterwards.
    - state: identifies the sign-in when the browser returns.
    - verifier: a secret from `new_verifier`, also needed for `exchange_code`.
    - hint: the address with which the person should sign in, if known.
    """
    client = _web_client(asking.app)
    challenge = client.create_code_challenge(verifier, "S256")
    return str(
        client.prepare_request_uri(
            url_for_tenant(asking.provider.authorization_url, asking.app.tenant_id),
            redirect_uri=redirect_uri,
            scope=list(scopes),
            state=state,
            code_challenge=challenge,
            code_challenge_method="S256",
            **_prompt_parameters(asking.provider.provider, hint),
        )
    )


def _prompt_parameters(provider: OAuthProvider, hint: str | None) -> Mapping[str, str]:
    """Return the parameters that control the provider's sign-in page. `hint`: the expected address, if known.

    - Google: without a hint, people choose among their accounts. A refresh token is issued only for offline
      access, and issued again only with renewed consent (Google's documentation .../oauth2/web-server, "Offline
      access").
    - Microsoft: people always choose, since the hint may be the address of a shared mailbox.
    """
    named = {} if hint is None else {"login_hint": hint}
    if provider == "outlook":
        return {"prompt": "select_account", **named}
    return {"access_type": "offline", "prompt": "consent" if named else "select_account consent", **named}


def exchange_code(asking: OAuthClient, code: str, *, redirect_uri: str, verifier: str) -> IssuedTokens:
    """Exchange a code from the browser for tokens with access to mail. A code works once. Raises RemoteFault.

    `redirect_uri`, `verifier`: the same values as for `authorization_url`.

    The tokens are requested for mail only, even if the person also granted access to Graph, because Microsoft allows
    only one resource in a request (AADSTS28003; .../v2-oauth2-auth-code-flow: "The scopes must all be from a single
    resource, along with OIDC scopes").
    """
    client, known = _web_client(asking.app), asking.provider
    named = {"scope": " ".join(known.scopes("mail"))} if known.graph_scopes else {}
    body = client.prepare_request_body(
        code=code, redirect_uri=redirect_uri, code_verifier=verifier, **named, **_secret_parameters(asking)
    )
    return read_tokens(client, _request_tokens(asking, body))


def refresh_access(asking: OAuthClient, refresh_token: str, scopes: Iterable[str]) -> IssuedTokens:
    """Return a new access token for these scopes; if `scopes` is empty, for all that were granted.

    Raises RemoteFault. Kind `login_refused` means that the refresh token is no longer valid, or not for these scopes.
    """
    client = _web_client(asking.app)
    known = {"client_id": asking.app.client_id, **_secret_parameters(asking)}
    body = client.prepare_refresh_body(refresh_token=refresh_token, scope=list(scopes) or None, **known)
    return read_tokens(client, _request_tokens(asking, body))


def request_device_code(asking: OAuthClient, scopes: Iterable[str]) -> DevicePrompt:
    """Request a code that a person types on another device (RFC 8628 3.1).

    Raises RemoteFault, also if the provider does not offer this.
    """
    url = asking.provider.device_url
    if url is None:
        raise RemoteFault("oauth", "unsupported", f"{asking.provider.title} does not support sign-in with a code.")
    body = urlencode({"client_id": asking.app.client_id, "scope": " ".join(scopes)})
    return read_device_prompt(require_success(_post(asking, url, body)))


def poll_device_code(asking: OAuthClient, device_code: str) -> IssuedTokens | Literal["pending", "too soon"]:
    """Return the tokens if the person has typed the code and agreed (RFC 8628 3.4). Raises RemoteFault.

    Otherwise returns `pending`, or `too soon` if the next poll must wait longer. The application's secret is not sent.
    """
    from oauthlib.oauth2 import DeviceClient

    client = DeviceClient(asking.app.client_id)
    body = client.prepare_request_body(device_code, include_client_id=True)
    answer = _post(asking, asking.provider.token_url, body)
    said = read_error(answer)
    if said is not None and said.error in _WAITING:
        return _WAITING[said.error]
    return read_tokens(client, require_success(answer))


_WAITING: Mapping[str, Literal["pending", "too soon"]] = {"authorization_pending": "pending", "slow_down": "too soon"}


def fetch_userinfo(asking: OAuthClient, access_token: str) -> Mapping[str, Any]:
    """Return the claims about the person who signed in, such as `email`; empty if the provider has no such service.

    Raises RemoteFault.
    """
    url = asking.provider.userinfo_url
    if url is None:
        return {}
    answer = https.request("GET", url, _https_options(asking, url), {"Authorization": f"Bearer {access_token}"})
    return require_success(answer).decode(dict[str, Any], "oauth")


def _web_client(app: OAuthApp) -> "Client":
    from oauthlib.oauth2 import WebApplicationClient

    return WebApplicationClient(app.client_id)


def _secret_parameters(asking: OAuthClient) -> Mapping[str, str]:
    """Return the parameter with the application's secret (RFC 6749 2.3.1); empty if it must not be sent.

    - Google: a public application has a secret too, and is refused without it. Google calls it "obviously not
      treated as a secret" (Google's documentation .../oauth2, "Installed applications").
    - Microsoft: a public application must not send a secret (AADSTS700025).
    """
    app = asking.app
    if app.client_secret is None or (app.public_client and app.provider == "outlook"):
        return {}
    return {"client_secret": app.client_secret}


def _https_options(asking: OAuthClient, url: str) -> https.HttpsOptions:
    is_ours = asking.provider.is_named_by_operator(url)
    return https.HttpsOptions("oauth", asking.ca_file, asking.timeout, only_public=not is_ours)


def _request_tokens(asking: OAuthClient, body: str) -> https.HttpsResponse:
    return require_success(_post(asking, asking.provider.token_url, body))


def _post(asking: OAuthClient, url: str, body: str) -> https.HttpsResponse:
    return https.request(
        "POST", url_for_tenant(url, asking.app.tenant_id), _https_options(asking, url), _FORM, body.encode()
    )
