"""License terms and their validity: functions on values that use neither the network nor the store.

A license token is a JWS in compact form (RFC 7515 7.1), signed with Ed25519 (`EdDSA`, RFC 8037 3.1), whose payload is
`{plan, maxMembers, maxAccounts, expiresAt, issuedTo}`. No other algorithm is ever tried, so a token cannot choose a
weaker one in its header.

An unknown field in the payload is rejected, unlike one in the header (RFC 7515 4): a limit with a mistyped name would
otherwise be ignored.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from mailbox_appliance.clock import from_timestamp, to_timestamp
from mailbox_appliance.model.decoding import convert, decode_json
from mailbox_appliance.model.members import License
from mailbox_appliance.settings import BadSetting, Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: The key under which the store keeps the license among the values of the instance.
STORED_AS = "license"
#: The time for which a license stays valid if its issuer cannot confirm it.
GRACE = timedelta(days=7)
#: The interval between confirmations by the issuer, and the interval after a failure.
CONFIRMED_EVERY, ASKED_AGAIN_AFTER = timedelta(days=1), timedelta(hours=1)
COMMUNITY = License(
    plan="community", status="none", issued_to=None, expires_at=None, max_members=None, max_accounts=None
)

_HERE = ("127.0.0.1", "::1", "localhost")
_T = TypeVar("_T")
_PART = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
Limit = Annotated[int, Meta(ge=0, le=1 << 31)] | None
Text = Annotated[str, Meta(min_length=1, max_length=200)]


class BadLicence(ValueError):
    """Raised for a license token that is not valid. Its text gives the reason and quotes nothing of the token."""


class _Header(msgspec.Struct, frozen=True):
    alg: Literal["EdDSA"]
    # RFC 7515 4.1.11: extensions that must be understood; none is supported.
    crit: msgspec.UnsetType = msgspec.UNSET


class _Payload(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The payload of a license token. Unknown fields are rejected: a limit with a mistyped name would otherwise be
    ignored.
    """

    plan: Text
    max_members: Limit = None
    max_accounts: Limit = None
    expires_at: str | None = None
    issued_to: Text | None = None


@dataclass(frozen=True)
class LicenceTerms:
    """The terms that an issuer grants with a license.

    A limit of None means that there is no limit. `expires_at` is None for a license that never expires.
    """

    plan: str
    issued_to: str | None
    expires_at: datetime | None
    max_members: int | None
    max_accounts: int | None

    def has_expired(self, now: datetime) -> bool:
        """Whether the license has expired at `now`."""
        return self.expires_at is not None and self.expires_at <= now


class InstalledLicence(msgspec.Struct, frozen=True):
    """A license as the store keeps it.

    - token: the license token.
    - checked_at: when the issuer was last asked to confirm the license, as a timestamp; None if never.
    - failing_since: the first of the attempts that failed since the last confirmation, as a timestamp; None if there is
      none.
    """

    token: str
    checked_at: str | None = None
    failing_since: str | None = None

    def with_confirmation(self, now: datetime) -> "InstalledLicence":
        """Return a copy that records that the issuer confirmed the license at `now`."""
        return InstalledLicence(self.token, to_timestamp(now))

    def with_failed_confirmation(self, now: datetime) -> "InstalledLicence":
        """Return a copy that records that the issuer denied the license or did not answer at `now`."""
        at = to_timestamp(now)
        return InstalledLicence(self.token, at, self.failing_since or at)

    def needs_confirmation(self, now: datetime) -> bool:
        """Whether the issuer must be asked again: a day after it confirmed the license, or an hour after a failure."""
        if self.checked_at is None:
            return True
        asked = from_timestamp(self.checked_at)
        # A clock that was set back must not postpone the next confirmation for years.
        return not asked <= now < asked + (CONFIRMED_EVERY if self.failing_since is None else ASKED_AGAIN_AFTER)

    def is_unverified(self, now: datetime) -> bool:
        """Whether attempts to confirm the license have failed for 7 days (the grace period). A license that must be
        confirmed online is then no longer valid.
        """
        return self.failing_since is not None and now - from_timestamp(self.failing_since) >= GRACE

    def confirmed_until(self) -> str | None:
        """The end of the grace period as a timestamp, if confirmations fail; otherwise None."""
        return None if self.failing_since is None else to_timestamp(from_timestamp(self.failing_since) + GRACE)


def issuer_key(settings: Settings) -> "Ed25519PublicKey | None":
    """Return the public key of the license issuer from the settings, or None if none is set.

    Raises BadSetting if it is not a valid key.
    """
    text = settings.text("license.issuer_public_key")
    try:
        return parse_issuer_key(text) if text else None
    except ValueError as error:
        raise BadSetting(f"license.issuer_public_key must be an Ed25519 public key: {error}") from error


def verify_url(settings: Settings) -> str:
    """Return the address for online confirmation, or an empty string if none is set.

    Raises BadSetting for an address that is neither HTTPS nor on this computer.
    """
    url = settings.text("license.verify_url")
    if url and not _is_safe_url(url):
        raise BadSetting(
            "license.verify_url must be an https:// address (http:// only for 127.0.0.1, ::1 and localhost)"
        )
    return url


def load_installed(value: object) -> InstalledLicence | None:
    """Return the installed license from the value that the store keeps; None if that is None."""
    return None if value is None else convert(value, InstalledLicence)


def parse_issuer_key(text: str) -> "Ed25519PublicKey":
    """Return an issuer's public key from text. Raises ValueError.

    The text is either PEM, or the key's 32 bytes (RFC 8032 5.1.5) in base64 or base64url.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if "-----BEGIN" in text:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(text.strip().encode())
        except UnsupportedAlgorithm as error:
            raise ValueError("it is not an Ed25519 public key") from error
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("it is not an Ed25519 public key")
        return key
    plain = text.strip().rstrip("=").replace("+", "-").replace("/", "_")
    raw = _decode_base64url(plain) if _PART.fullmatch(plain) else b""
    if len(raw) != 32:
        raise ValueError("it must be PEM or 32 bytes in base64")
    return Ed25519PublicKey.from_public_bytes(raw)


def parse_token(token: str, key: "Ed25519PublicKey") -> LicenceTerms:
    """Return the terms of a license token, which may have expired.

    `key`: the public key of the issuer. Raises BadLicence if the token was not signed with it or is not valid.
    """
    from cryptography.exceptions import InvalidSignature

    parts = token.strip().split(".")
    if len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise BadLicence("it is not a license token, which has three base64url parts separated by dots")
    header, payload, signature = parts
    try:
        # RFC 7515 5.2: the signature covers the text as it was received.
        key.verify(_decode_base64url(signature), f"{header}.{payload}".encode("ascii"))
        _decode_part(header, _Header)
        return _terms_from_payload(_decode_part(payload, _Payload))
    except InvalidSignature:
        raise BadLicence("it was not signed with the key in `license.issuer_public_key`, or it was changed") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadLicence("its content is not that of a license") from None


def terms_of(installed: InstalledLicence, key: "Ed25519PublicKey") -> LicenceTerms | None:
    """Return the terms of the installed license; None if it is not a valid token of the issuer with this key."""
    try:
        return parse_token(installed.token, key)
    except BadLicence:
        return None


def evaluate(
    installed: InstalledLicence, terms: LicenceTerms | None, now: datetime, *, is_confirmed_online: bool
) -> License:
    """Return the license state that the appliance shows.

    `terms`: the terms of the installed license; None if its token is not valid. `is_confirmed_online`: whether licenses
    must be confirmed online.
    """
    if terms is None:
        return msgspec.structs.replace(COMMUNITY, status="unverified")
    status: Literal["valid", "expired", "unverified"] = "valid"
    if terms.has_expired(now):
        status = "expired"
    elif is_confirmed_online and installed.is_unverified(now):
        status = "unverified"
    return License(
        plan=terms.plan,
        status=status,
        issued_to=terms.issued_to,
        expires_at=None if terms.expires_at is None else to_timestamp(terms.expires_at),
        max_members=terms.max_members,
        max_accounts=terms.max_accounts,
    )


def _terms_from_payload(payload: _Payload) -> LicenceTerms:
    expires_at = None if payload.expires_at is None else from_timestamp(payload.expires_at)
    return LicenceTerms(payload.plan, payload.issued_to, expires_at, payload.max_members, payload.max_accounts)


def _decode_part(part: str, as_type: type[_T]) -> _T:
    """Decode one part of a token: base64url that contains JSON. Raises ValueError or MsgspecError.

    A name that occurs twice in an object is an error (RFC 7515 4).
    """
    content = _decode_base64url(part)
    found = decode_json(content, as_type)
    json.loads(content, object_pairs_hook=_require_unique)
    return found


def _require_unique(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        raise ValueError("a name occurs twice")


def _decode_base64url(part: str) -> bytes:
    """Decode base64url without padding (RFC 7515 2) in its only canonical form (RFC 4648 3.5). Raises ValueError."""
    try:
        found = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(found).decode().rstrip("=") != part:
        raise ValueError("not canonical base64url")
    return found


def _is_safe_url(url: str) -> bool:
    try:
        place = urlsplit(url)
        has_port = place.port is None or place.port > 0
    except ValueError:
        return False
    if not place.hostname or place.username is not None or place.fragment or not has_port:
        return False
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    return place.scheme == "https" or (place.scheme == "http" and place.hostname in _HERE)
