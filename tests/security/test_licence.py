"""License tokens: their terms, which ones are rejected, and how long an unconfirmed one stays valid."""

import base64
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance import settings
from mailbox_appliance.security.licence import (
    BadLicence,
    InstalledLicence,
    LicenceTerms,
    evaluate,
    parse_issuer_key,
    parse_token,
    verify_url,
)
from mailbox_appliance.service import main
from mailbox_appliance.settings import BadSetting
from tests.servers.issuer import HEADER, KEY, OTHER_KEY, PAYLOAD, PUBLIC_KEY, PUBLIC_PEM, part, sign

ISSUER = parse_issuer_key(PUBLIC_KEY)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TERMS = LicenceTerms("team", "Example Ltd", datetime(2026, 3, 1, tzinfo=UTC), 2, 1)
BROKEN = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAJv8ZpB5\n"


def token(header: object = HEADER, **payload: Any) -> str:
    return sign({**PAYLOAD, **payload}, header)


def _signed(header: str, payload: str) -> str:
    """Return a signed token with these parts unchanged."""
    return f"{header}.{payload}.{part(KEY.sign(f'{header}.{payload}'.encode()))}"


# --- the key ---


@pytest.mark.parametrize(
    "text",
    [
        PUBLIC_KEY,
        PUBLIC_KEY.rstrip("="),
        base64.urlsafe_b64encode(base64.b64decode(PUBLIC_KEY)).decode(),
        f" {PUBLIC_KEY}\n",
        PUBLIC_PEM,
        f"\n{PUBLIC_PEM}",
    ],
)
def test_a_key(text: str) -> None:
    assert parse_issuer_key(text).public_bytes_raw() == KEY.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    "text", ["x", PUBLIC_KEY[:-4], PUBLIC_KEY + "AAAA", "é" * 44, BROKEN, PUBLIC_PEM[:60], "A" * 43 + "!"]
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_issuer_key(text)


# --- the token ---


def test_a_token_is_made_as_the_documentation_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "licenses.md").read_text()
    (block,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Ed25519PrivateKey" in each]
    exec(block, {})
    public_key, token = capsys.readouterr().out.split()
    expires_at = datetime(2100, 1, 1, tzinfo=UTC)
    assert parse_token(token, parse_issuer_key(public_key)) == LicenceTerms("team", "Example Ltd", expires_at, 20, None)


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        (sign(), TERMS),
        (f" {sign()}\n", TERMS),
        (sign({"plan": "free"}), LicenceTerms("free", None, None, None, None)),
        (token(maxMembers=None, maxAccounts=0), LicenceTerms("team", "Example Ltd", TERMS.expires_at, None, 0)),
        (token(expiresAt="2026-03-01T01:00:00+01:00"), TERMS),
        (token({**HEADER, "typ": "JWT", "kid": "k"}), TERMS),
    ],
)
def test_a_token(given: str, terms: LicenceTerms) -> None:
    assert parse_token(given, ISSUER) == terms


NONE = part({"alg": "none"})
BODY = part(PAYLOAD)
SIGNATURE = sign().rpartition(".")[2]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "a.b",
        "a.b.c.d",
        "..",
        f"{NONE}.{BODY}.",
        f"{NONE}.{BODY}.{SIGNATURE}",
        sign(key=OTHER_KEY),
        sign().replace(BODY, part({**PAYLOAD, "maxMembers": 200})),
        sign()[:-2],
        sign() + "AA",
        sign() + "=",
        "\u00e9" + sign(),
        token({"alg": "none"}),
        token({"alg": "HS256"}),
        token({"alg": "eddsa"}),
        token({}),
        token({**HEADER, "crit": ["exp"]}),
        token({**HEADER, "crit": ["b64"], "b64": False}),
        token(b"no json"),
        token(plan=""),
        token(plan=None),
        token(maxMembers=-1),
        token(maxMembers="2"),
        token(maxMembers=True),
        token(maxMembers=1.5),
        token(expiresAt="2026-03-01"),
        token(expiresAt="2026-03-01T00:00:00"),
        token(expiresAt="soon"),
        token(expiresAt=1),
        token(issuedTo=5),
        sign([1]),
        sign(b"\xff"),
        sign(b"[" * 100_000),
        sign({"maxMembers": 2}),
        # A limit with a mistyped name would be ignored.
        token(maxmembers=2),
        token(max_members=2),
        token(iat=5),
        sign(b'{"plan": "team", "maxMembers": 2, "maxMembers": 9}'),
        sign(b'{"plan": "team", "plan": "team"}'),
        sign(header=b'{"alg": "EdDSA", "alg": "EdDSA"}'),
        sign(header=b'{"alg": "EdDSA", "jwk": {"x": 1, "x": 2}}'),
        sign()[:-1] + chr(ord(sign()[-1]) + 1),  # the same signature, with surplus bits
        _signed(part(HEADER), part(b'{"plan": "team1"}')[:-1] + "1"),
        _signed(part(HEADER), part({"plan": "team"}) + "="),
        _signed(part(HEADER), part({"plan": "team"}) + "A"),
        _signed(part(HEADER) + "\n", part({"plan": "team"})),
    ],
)
def test_what_is_refused_is_not_quoted(given: str) -> None:
    with pytest.raises(BadLicence) as refused:
        parse_token(given, ISSUER)
    assert not given or given not in str(refused.value)


# --- how long it is valid ---


@pytest.mark.parametrize(
    ("terms", "failing_for", "status"),
    [
        (TERMS, None, "valid"),
        (TERMS, timedelta(days=7, milliseconds=-1), "valid"),
        (TERMS, timedelta(days=7), "unverified"),
        (TERMS, timedelta(days=-1), "valid"),  # the clock was set back
        (LicenceTerms("team", None, NOW, None, None), timedelta(days=8), "expired"),
        (LicenceTerms("team", None, NOW + timedelta(milliseconds=1), None, None), None, "valid"),
        (None, None, "unverified"),
    ],
)
def test_the_status(terms: LicenceTerms | None, failing_for: timedelta | None, status: str) -> None:
    installed = InstalledLicence("t")
    if failing_for is not None:
        installed = installed.with_failed_confirmation(NOW - failing_for)
    assert evaluate(installed, terms, NOW, is_confirmed_online=True).status == status
    if status == "unverified" and terms is not None:
        assert evaluate(installed, terms, NOW, is_confirmed_online=False).status == "valid"


def test_when_it_is_to_be_confirmed() -> None:
    new = InstalledLicence("t")
    good, bad = new.with_confirmation(NOW), new.with_failed_confirmation(NOW)
    minute, hour, day = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
    assert new.needs_confirmation(NOW)
    assert [good.needs_confirmation(NOW + after) for after in (minute, day - minute, day, -minute)] == [
        False,
        False,
        True,
        True,
    ]
    assert [bad.needs_confirmation(NOW + after) for after in (minute, hour)] == [False, True]
    assert bad.with_failed_confirmation(NOW + day).failing_since == bad.failing_since
    assert bad.with_failed_confirmation(NOW + day).with_confirmation(NOW + day) == new.with_confirmation(NOW + day)


# --- the settings ---


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("", True),
        ("https://licences.example.org/verify", True),
        ("https://licences.example.org:8443/verify?a=b", True),
        ("http://127.0.0.1:8080/", True),
        ("http://[::1]:8080/", True),
        ("http://localhost", True),
        ("http://licences.example.org/", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://10.0.0.1/", False),
        ("https://user:word@example.org/", False),
        ("https://example.org/#a", False),
        ("https://example.org:99999/", False),
        ("https:///verify", False),
        ("https://example.org/a b", False),
        ("https://example.org/\r\nX: y", False),
        ("https://exämple.org/", False),
        ("ftp://127.0.0.1/", False),
        ("licences.example.org", False),
    ],
)
def test_where_it_is_confirmed(url: str, is_taken: bool) -> None:
    given = settings.load(environment={}, flags={"license.verify_url": url})
    if is_taken:
        assert verify_url(given) == url
    else:
        with pytest.raises(BadSetting, match=r"license\.verify_url"):
            verify_url(given)


@pytest.mark.parametrize(("name", "value"), [("issuer_public_key", "no key"), ("verify_url", "http://example.org")])
def test_serve_does_not_start_with_what_cannot_be_used(name: str, value: str, tmp_path: Any) -> None:
    with pytest.raises(BadSetting, match=f"license.{name}"):
        main.serve(tmp_path / "data", flags={f"license.{name}": value}, ready_json=True)
