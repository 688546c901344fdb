"""What a provider's sign-in is asked: for a code, for the tokens that a code brings, for the next access token.

    authorization_url .. what a person opens (RFC 6749 4.1.1, with PKCE: RFC 7636)
    exchange ........... the code that came back -> tokens (4.1.3)
    renew .............. refresh token -> access token, and at some providers another refresh token (6)
    device, agreed ..... for a machine without a browser (RFC 8628): the code to type elsewhere -> tokens, later
    userinfo ........... who signed in (OpenID Connect Core 5.3)

Requests and answers are put together and read by oauthlib, which is loaded with the first of them.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from mailbox_appliance.model.records import OAuthApp, OAuthProvider
from mailbox_appliance.remote import https
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.oauth_answers import (
    DevicePrompt,
    Issued,
    accepted,
    error_of,
    facts,
    issued,
    prompt,
)
from mailbox_appliance.remote.providers import KnownProvider, at

if TYPE_CHECKING:
    from oauthlib.oauth2 import Client

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Asking:
    """Who asks (the application), whom (the provider), and how long it may take."""

    provider: KnownProvider
    app: OAuthApp
    ca_file: str
    timeout: float

    def without_secret(self) -> "Asking":
        """The same application without its secret.

        A sign-in by a code is a public client's, and so is each renewal of what it brought: Microsoft refuses a secret
        beside either (AADSTS700025: "Client is public so neither 'client_assertion' nor 'client_secret' should be
        presented"), of an application that has one, too.
        """
        return replace(self, app=replace(self.app, client_secret=None))


def new_verifier() -> str:
    """A secret of one sign-in (RFC 7636 4.1)."""
    return secrets.token_urlsafe(48)


def authorization_url(
    asking: Asking, scopes: Iterable[str], *, redirect_uri: str, state: str, verifier: str, hint: str | None
) -> str:
    """The address that a person opens in a browser to agree."""
    client = _client(asking.app)
    challenge = client.create_code_challenge(verifier, "S256")
    return str(
        client.prepare_request_uri(
            at(asking.provider.authorization_url, asking.app.tenant_id),
            redirect_uri=redirect_uri,
            scope=list(scopes),
            state=state,
            code_challenge=challenge,
            code_challenge_method="S256",
            **_wishes(asking.provider.provider, hint),
        )
    )


def _wishes(provider: OAuthProvider, hint: str | None) -> Mapping[str, str]:
    """How the provider shall ask. Whoever is signed in with several accounts says which one is meant.

    Google gives a refresh token to those that ask for offline access, and a second time only with consent (its
    .../oauth2/web-server, "Offline access"). At Microsoft the hint may be a mailbox that others share.
    """
    named = {} if hint is None else {"login_hint": hint}
    if provider == "outlook":
        return {"prompt": "select_account", **named}
    return {"access_type": "offline", "prompt": "consent" if named else "select_account consent", **named}


def exchange(asking: Asking, code: str, *, redirect_uri: str, verifier: str) -> Issued:
    """The tokens that a code brings, for mail: once. Raises RemoteFault.

    Where more than one resource was asked for, one must be named (AADSTS28003; .../v2-oauth2-auth-code-flow: "The
    scopes must all be from a single resource, along with OIDC scopes").
    """
    client, known = _client(asking.app), asking.provider
    named = {"scope": " ".join(known.scopes("mail"))} if known.graph_scopes else {}
    body = client.prepare_request_body(
        code=code, redirect_uri=redirect_uri, code_verifier=verifier, **named, **_secret(asking)
    )
    return issued(client, _asked(asking, body))


def renew(asking: Asking, refresh_token: str, scopes: Iterable[str]) -> Issued:
    """An access token for these scopes; without any for all that were granted.

    Raises RemoteFault; `login_refused`: the refresh token is good no more, or not for these.
    """
    client = _client(asking.app)
    known = {"client_id": asking.app.client_id, **_secret(asking)}
    body = client.prepare_refresh_body(refresh_token=refresh_token, scope=list(scopes) or None, **known)
    return issued(client, _asked(asking, body))


def device(asking: Asking, scopes: Iterable[str]) -> DevicePrompt:
    """Ask for a code that is typed elsewhere (RFC 8628 3.1). Raises RemoteFault, also where there is no such way."""
    url = asking.provider.device_url
    if url is None:
        raise RemoteFault("oauth", "unsupported", f"{asking.provider.title} has no sign-in by a code.")
    body = urlencode({"client_id": asking.app.client_id, "scope": " ".join(scopes)})
    return prompt(accepted(_posted(asking, url, body)))


def agreed(asking: Asking, device_code: str) -> Issued | Literal["pending", "too soon"]:
    """The tokens, once somebody has typed the code and agreed (RFC 8628 3.4). Without a secret. Raises RemoteFault."""
    client = _device_client(asking.app)
    body = client.prepare_request_body(device_code, include_client_id=True)
    answer = _posted(asking, asking.provider.token_url, body)
    said = error_of(answer)
    if said is not None and said.error in _WAITING:
        return _WAITING[said.error]
    return issued(client, accepted(answer))


_WAITING: Mapping[str, Literal["pending", "too soon"]] = {"authorization_pending": "pending", "slow_down": "too soon"}


def userinfo(asking: Asking, access_token: str) -> Mapping[str, Any]:
    """What the provider says of who signed in. Raises RemoteFault."""
    url = asking.provider.userinfo_url
    if url is None:
        return {}
    answer = https.request("GET", url, _reach(asking, url), {"Authorization": f"Bearer {access_token}"})
    return facts(accepted(answer))


def _client(app: OAuthApp) -> "Client":
    from oauthlib.oauth2 import WebApplicationClient

    return WebApplicationClient(app.client_id)


def _device_client(app: OAuthApp) -> "Client":
    from oauthlib.oauth2 import DeviceClient

    return DeviceClient(app.client_id)


def _secret(asking: Asking) -> Mapping[str, str]:
    """How the application shows who it is (RFC 6749 2.3.1).

    A public one of Google has a secret as well, "obviously not treated as a secret" (its .../oauth2, "Installed
    applications"), and without it is refused. One of Microsoft has nothing to show (AADSTS700025).
    """
    app = asking.app
    if app.client_secret is None or (app.public_client and app.provider == "outlook"):
        return {}
    return {"client_secret": app.client_secret}


def _reach(asking: Asking, url: str) -> https.Reach:
    is_ours = asking.provider.is_named_by_operator(url)
    return https.Reach("oauth", asking.ca_file, asking.timeout, only_public=not is_ours)


def _asked(asking: Asking, body: str) -> https.Answer:
    return accepted(_posted(asking, asking.provider.token_url, body))


def _posted(asking: Asking, url: str, body: str) -> https.Answer:
    return https.request("POST", at(url, asking.app.tenant_id), _reach(asking, url), _FORM, body.encode())
