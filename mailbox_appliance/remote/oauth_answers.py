"""How the answers of a provider's sign-in are read: tokens, the code to type elsewhere, refusals.

What it says in words is looked at for what it means (`replies`) and never kept, logged or told.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.remote import replies
from mailbox_appliance.remote.faults import RemoteFault, malformed
from mailbox_appliance.remote.https import Answer
from mailbox_appliance.remote.named_faults import fault as named

if TYPE_CHECKING:
    from oauthlib.oauth2 import Client

#: How long an access token lasts that does not say so, and how long at most: providers' last an hour or so.
_USUAL, _LONGEST = 3600.0, 24 * 3600.0
# RFC 6750 2.1 (b64token) is narrower than what providers give: visible characters, and no separator of XOAUTH2.
_Token = Annotated[str, Meta(min_length=1, max_length=16384, pattern=r"^[\x21-\x7e]+\Z")]
_DeviceText = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^[\x21-\x7e]+\Z")]
# It is shown to a person, so it has no room for words.
_Page = Annotated[str, Meta(max_length=2048, pattern=r"^https://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~:/?&=%+-]*)?\Z")]


@dataclass(frozen=True)
class Issued:
    """Tokens as they came. `lasts`: seconds. `scopes`: what was granted, None where that is all that was asked for.

    `claims`: of the ID token, which came over TLS from the one who made it (OpenID Connect Core 3.1.3.7, 6).
    """

    access_token: str = field(repr=False)
    lifetime: float
    refresh_token: str | None = field(default=None, repr=False)
    scopes: frozenset[str] | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DevicePrompt:
    """What a person types, and where, to let in a machine without a browser. `interval`: seconds between questions."""

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    lifetime: float
    interval: int


class Refusal(msgspec.Struct, frozen=True):
    """A refusal (RFC 6749 5.2), with what Microsoft and Google add."""

    error: str
    error_description: str = ""
    suberror: str = ""
    error_subtype: str = ""


class _Prompt(msgspec.Struct, frozen=True):
    """RFC 8628 3.2; Google calls the address `verification_url`."""

    device_code: _DeviceText
    user_code: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+\Z")]
    expires_in: Annotated[float, Meta(gt=0)]
    verification_uri: _Page | UnsetType = UNSET
    verification_url: _Page | UnsetType = UNSET
    interval: Annotated[int, Meta(ge=0, le=600)] = 5


class _Tokens(msgspec.Struct, frozen=True):
    """RFC 6749 5.1, as far as it is ours to look at."""

    access_token: _Token
    token_type: str
    refresh_token: _Token | None = None
    scope: str | None = None
    id_token: str | None = None


def accepted(answer: Answer) -> Answer:
    """The answer, where it is one to what was asked. Raises RemoteFault for a refusal."""
    if answer.status == 200 and error_of(answer) is None:
        return answer
    raise _refusal(answer)


def error_of(answer: Answer) -> Refusal | None:
    """What an answer says of an error; None where it says of none."""
    try:
        return decode_json(answer.body, Refusal)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _refusal(answer: Answer) -> RemoteFault:
    """What a refusal means. Only what the provider says in so many words ends an access: no 4xx without them does."""
    said = error_of(answer)
    if answer.status == 429:
        fault = named("rate_limited", "oauth")
    elif answer.status >= 500:
        fault = named("server_down", "oauth")
    elif said is None:
        return malformed("oauth")
    else:
        text = f"{said.error} {said.suberror} {said.error_subtype} {said.error_description}"
        fault = replies.fault_of("oauth", text) or _unknown()
    fault.retry_after = answer.retry_after
    return fault


def _unknown() -> RemoteFault:
    return RemoteFault(
        "oauth", "refused", "The sign-in of the provider refuses this, for a reason that we do not know."
    )


def _decoded(answer: Answer, kind: Any) -> Any:
    try:
        return decode_json(answer.body, kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed("oauth") from error


def issued(client: "Client", answer: Answer) -> Issued:
    """The tokens of an answer. Raises RemoteFault."""
    from oauthlib.oauth2 import OAuth2Error

    said: _Tokens = _decoded(answer, _Tokens)
    try:
        read = client.parse_request_body_response(answer.body.decode())
    except (OAuth2Error, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise malformed("oauth") from error
    if said.token_type.lower() != "bearer":  # RFC 6750: the one kind that mail servers take
        raise malformed("oauth")
    lasts = read.get("expires_in", _USUAL)
    is_usable = isinstance(lasts, (int, float)) and lasts > 0
    return Issued(
        access_token=said.access_token,
        lifetime=min(float(lasts), _LONGEST) if is_usable else _USUAL,
        refresh_token=said.refresh_token,
        scopes=None if said.scope is None else frozenset(said.scope.split()),
        claims={} if said.id_token is None else _claims(said.id_token),
    )


def prompt(answer: Answer) -> DevicePrompt:
    """The code to type elsewhere. Raises RemoteFault."""
    said: _Prompt = _decoded(answer, _Prompt)
    uri = said.verification_uri or said.verification_url
    if uri is UNSET:
        raise malformed("oauth")
    return DevicePrompt(said.device_code, said.user_code, uri, said.expires_in, max(1, said.interval))


def facts(answer: Answer) -> Mapping[str, Any]:
    """An object of JSON. Raises RemoteFault."""
    found: Mapping[str, Any] = _decoded(answer, dict[str, Any])
    return found


def _claims(id_token: str) -> Mapping[str, Any]:
    """What an ID token says (RFC 7519 3); nothing where it is none."""
    try:
        part = id_token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
