"""What a sign-in brought: whose mailbox it is, and whether what was agreed to is enough for mail.

Who signed in stands in the ID token, which came over TLS from the provider itself (OpenID Connect Core 3.1.3.7, 6), or
the provider is asked. At Microsoft the mailbox may be another one, shared with whoever signed in: its servers decide
whether that is so, by the first login.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.records import Connection, OAuthLogin, OAuthProvider
from mailbox_appliance.remote import oauth, replies
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.oauth import Asking
from mailbox_appliance.remote.oauth_answers import Issued

_GOOGLE_MAIL = ("gmail.com", "googlemail.com")
_NO_MAIL = {
    "google": "Google was not allowed to give access to the mail. Sign in again, and tick the box `Read, compose, send,"
    " and permanently delete all your email from Gmail`.",
    "outlook": "Microsoft was not allowed to give access to the mail. Sign in again, and agree to reading and sending"
    " mail; where it does not ask, an administrator of the organisation must allow IMAP and SMTP to the application.",
}
_NOT_LASTING = (
    "The provider gave access for an hour only, and no refresh token. Sign in again, and agree to access at any time."
)
_OVER = "This sign-in took too long, or what it brought was used before. Begin it again."
_NOBODY = "The provider did not say who signed in, or that account has no mail address. Sign in with another one."


class Refused(Exception):
    """The provider, or whoever was asked, did not agree. `reason`: our sentence for a person, `name`: of the fault."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(name or "refused")
        self.reason, self.name = reason, name


@dataclass(frozen=True)
class Asked:
    """What somebody began a sign-in for. `email`: the mailbox that is meant; `account_id`: one that regains rights."""

    provider: OAuthProvider
    member_id: str
    session_id: str
    redirect_uri: str
    email: str | None = None
    display_name: str | None = None
    account_id: str | None = None


@dataclass(frozen=True)
class Granted:
    """What came of it. `connection`: the servers, logged in to by the access token, which is good for an hour or so."""

    request: Asked
    login: OAuthLogin
    connection: Connection = field(repr=False)
    issued: Issued = field(repr=False)


def login_of(asking: Asking, asked: Asked, issued: Issued, *, may_be_shared: bool) -> OAuthLogin:
    """How the mailbox is logged in to that was agreed to. Raises Refused, and RemoteFault."""
    provider = asking.provider.provider
    if issued.scopes is not None and not asking.provider.gives_mail(issued.scopes):
        raise Refused(_NO_MAIL[provider], "consent_required")
    if issued.refresh_token is None:
        raise Refused(_NOT_LASTING, "consent_required")
    own, *others = _who(asking, issued)
    if asked.email is None:
        return OAuthLogin(provider, own, own, issued.refresh_token)
    for name in (own, *others):
        if _is_same(asked.email, name):
            return OAuthLogin(provider, name, name, issued.refresh_token)
    if provider == "google" or not may_be_shared:
        raise Refused(f"You signed in as {own}, and {asked.email} was meant. Sign in with that one.")
    return OAuthLogin(provider, asked.email, own, issued.refresh_token)


def refused(fault: RemoteFault) -> Refused | None:
    """What a fault means for a code that was brought back; None where it says nothing about it."""
    if fault.name in ("access_revoked", "access_expired"):  # as the code is called that is over: invalid_grant
        return Refused(_OVER, "code_refused")
    if fault.kind == "login_refused" or (fault.kind == "refused" and fault.name != "server_down"):
        return Refused(fault.reason, fault.name)
    return None


def declined(error: str) -> Exception:
    """What it means that the browser came back with an error (RFC 6749 4.1.2.1), whose words nobody is told."""
    fault = replies.fault_of("oauth", error)
    if fault is None:
        return Refused("The provider ended the sign-in without access. Begin it again, and agree to it.")
    return refused(fault) or fault


def _who(asking: Asking, issued: Issued) -> tuple[str, ...]:
    """The address of whoever signed in, then other names that they may be meant by. Raises Refused."""
    facts = issued.claims
    if facts and not _is_for(facts, asking.app.client_id):
        facts = {}
    if not _addresses(facts):
        facts = oauth.userinfo(asking, issued.access_token)
    found = _addresses(facts)
    if not found:
        raise Refused(_NOBODY)
    return found


def _is_for(claims: Mapping[str, Any], client_id: str) -> bool:
    """OpenID Connect Core 3.1.3.7, 3: the token is for this application."""
    audience = claims.get("aud")
    return audience == client_id or (isinstance(audience, list) and client_id in audience)


def _addresses(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Microsoft leaves `email` out where it knows none, and has the name that one signs in with beside it."""
    given = [facts.get("email"), facts.get("preferred_username")]
    return tuple(dict.fromkeys(text for text in given if isinstance(text, str) and _is_address(text)))


def _is_address(text: str) -> bool:
    try:
        return bool(to_envelope_address(text))
    except ValueError:
        return False


def _is_same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(email: str) -> str:
    """An address as providers compare it (support.google.com/mail/answer/7436150: dots do not matter in Gmail's)."""
    local, _, domain = email.casefold().rpartition("@")
    return f"{local.replace('.', '')}@{_GOOGLE_MAIL[0]}" if domain in _GOOGLE_MAIL else f"{local}@{domain}"
