"""What a provider's sign-in is asked, and how its answers are read, whatever they are: at a provider on a socket."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailbox_appliance.model.accounts import OAuthApp
from mailbox_appliance.remote import oauth
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.oauth import IssuedTokens, OAuthClient, read_device_prompt, read_tokens, require_success
from mailbox_appliance.remote.providers import load_providers
from tests.servers.oauth_answers import WORDS, Answer
from tests.servers.oauth_provider import OAuthServer


@pytest.fixture(scope="module")
def one_outlook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthServer]:
    with OAuthServer(tmp_path_factory.mktemp("oauth"), "outlook") as server:
        yield server


@pytest.fixture
def outlook(one_outlook: OAuthServer) -> OAuthServer:
    one_outlook.in_order()
    one_outlook.asked.clear()
    return one_outlook


@pytest.fixture
def asking(outlook: OAuthServer, tmp_path: Path) -> OAuthClient:
    file = tmp_path / "providers.toml"
    file.write_text(outlook.row())
    return OAuthClient(load_providers(str(file))["outlook"], outlook.app, str(outlook.ca_file), 5)


def renewed(asking: OAuthClient) -> IssuedTokens:
    return oauth.refresh_access(asking, "a refresh token's", ["a"])


def fault_of(asking: OAuthClient) -> RemoteFault:
    with pytest.raises(RemoteFault) as caught:
        renewed(asking)
    fault = caught.value
    told = fault.reason + str(fault) + repr(fault.__dict__)
    assert not any(secret in told for secret in (WORDS, "a refresh token's", "client's secret"))
    return fault


def test_an_application_shows_who_it_is_in_the_body_alone(outlook: OAuthServer, asking: OAuthClient) -> None:
    fault_of(asking)
    fault_of(replace(asking, app=OAuthApp("outlook", "public")))
    fault_of(replace(asking, app=replace(outlook.app, public_client=True)))
    first, *others = (each.values for each in outlook.asked)
    assert (first["client_id"], first["client_secret"], first["scope"]) == ("outlook-client", "a client's secret", "a")
    assert not any("client_secret" in each for each in others)


def test_a_public_application_of_google_shows_its_secret(outlook: OAuthServer, asking: OAuthClient) -> None:
    """Google's for the desktop have one, and are refused without it ("client_secret is missing.")."""
    app = OAuthApp("google", "desktop", "not much of a secret", public_client=True)
    fault_of(replace(asking, app=app))
    (asked,) = (each.values for each in outlook.asked)
    assert (asked["client_id"], asked["client_secret"]) == ("desktop", "not much of a secret")


GOOD = {"access_token": "ya29.a0-_~+/=", "token_type": "Bearer", "expires_in": 3599, "scope": "a b"}


@pytest.mark.parametrize(
    ("more", "lasts"),
    [
        ({}, 3599),
        ({"expires_in": "3599"}, 3599),
        ({"expires_in": 60.5}, 60),
        ({"expires_in": None}, 3600),
        ({"expires_in": -5}, 3600),
        ({"expires_in": 10**9}, 86_400),
        ({"ext_expires_in": 9, "foci": "1", "refresh_token_expires_in": 90}, 3599),
        ({"token_type": "bearer", "id_token": None, "refresh_token": None}, 3599),
    ],
)
def test_tokens_as_they_come(more: dict[str, object], lasts: float, outlook: OAuthServer, asking: OAuthClient) -> None:
    outlook.instead["token"] = Answer(200, json.dumps(GOOD | more).encode())
    came = renewed(asking)
    assert (came.access_token, came.refresh_token) == (str(GOOD["access_token"]), None)
    assert came.scopes == frozenset("ab")
    assert int(came.lifetime) == lasts
    assert came.access_token not in repr(came)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"access_token=a&token_type=bearer",
        b'{"token_type": "Bearer"}',
        b'{"access_token": "a"}',
        b'{"access_token": "", "token_type": "Bearer"}',
        b'{"access_token": 7, "token_type": "Bearer"}',
        b'{"access_token": "a\\r\\nb", "token_type": "Bearer"}',
        b'{"access_token": "a\\u0001auth", "token_type": "Bearer"}',
        b'{"access_token": "\\u00e4", "token_type": "Bearer"}',
        b'{"access_token": "' + b"a" * 20_000 + b'", "token_type": "Bearer"}',
        b'{"access_token": "a", "token_type": "mac"}',
        b'{"access_token": "a", "token_type": "Bearer", "refresh_token": "b c"}',
        b"[" * 60_000,
        b"\xff",
        b" " * 70_000,
    ],
)
def test_what_is_no_token(body: bytes, outlook: OAuthServer, asking: OAuthClient) -> None:
    outlook.instead["token"] = Answer(200, body)
    assert fault_of(asking).kind == "malformed"


@pytest.mark.parametrize(
    ("status", "said", "kind", "name"),
    [
        (400, {"error": "invalid_grant"}, "login_refused", "access_revoked"),
        (400, {"error": "invalid_grant", "error_subtype": "invalid_rapt"}, "login_refused", "sign_in_again"),
        (200, {"error": "invalid_grant"}, "login_refused", "access_revoked"),
        (400, {"error": "invalid_grant", "error_description": "AADSTS700082: x"}, "login_refused", "access_expired"),
        (400, {"error": "interaction_required", "error_description": "AADSTS50076:"}, "login_refused", "sign_in_again"),
        (401, {"error": "invalid_client", "error_description": "AADSTS7000222: x"}, "refused", "oauth_app_refused"),
        (400, {"error": "invalid_client"}, "refused", "oauth_app_refused"),
        (400, {"error": "expired_token"}, "login_refused", "access_expired"),
        (400, {"error": "x", "error_description": "AADSTS70020: x"}, "login_refused", "access_expired"),
        (400, {"error": "unauthorized_client"}, "refused", "oauth_app_refused"),
        (400, {"error": "invalid_request"}, "refused", None),
        (400, {"error": "invalid_request", "error_description": "AADSTS28003: a fault of ours"}, "refused", None),
        (400, {"error": "invalid_grant", "error_description": "AADSTS65001: x"}, "login_refused", "consent_required"),
        (403, {"error": "something_new"}, "refused", None),
        (400, {"error": "temporarily_unavailable"}, "refused", "server_down"),
        # Whatever it says: a provider that is out of order ends no access.
        (500, {"error": "invalid_grant"}, "refused", "server_down"),
        (503, {}, "refused", "server_down"),
        (429, {"error": "invalid_grant"}, "throttled", "rate_limited"),
        (400, {"error": ["invalid_grant"]}, "malformed", None),
        (400, {"error": {"code": 400}}, "malformed", None),
        (204, {}, "malformed", None),
    ],
)  # fmt: skip
def test_what_a_refusal_means(
    status: int, said: dict[str, object], kind: str, name: str | None, outlook: OAuthServer, asking: OAuthClient
) -> None:
    body = b"" if status == 204 else json.dumps({"error_description": WORDS} | said).encode()
    outlook.instead["token"] = Answer(status, body, {"Retry-After": "90"})
    fault = fault_of(asking)
    assert (fault.server, fault.kind, fault.name) == ("oauth", kind, name)
    assert fault.retry_after == (None if kind == "malformed" else 90)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("99999", 3600), ("-1", None), ("soon", None), ("1e3", None)])
def test_how_long_to_wait(text: str, seconds: float | None, outlook: OAuthServer, asking: OAuthClient) -> None:
    outlook.instead["token"] = Answer(429, b"", {"Retry-After": text})
    assert fault_of(asking).retry_after == seconds


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, True),
        ({"verification_uri": None, "verification_url": "https://a.example/device"}, False),
        ({"verification_uri": "http://a.example/"}, False),
        ({"verification_uri": "javascript:alert(1)"}, False),
        ({"verification_uri": "https://a.example/\u0000"}, False),
        ({"user_code": "\u001b[2J"}, False),
        ({"user_code": ""}, False),
        ({"user_code": "call us now"}, False),
        ({"user_code": "ABCD-1234"}, True),
        ({"verification_uri": f"https://a.example/{WORDS}"}, False),
        ({"verification_uri": "https://words of a provider/"}, False),
        ({"verification_uri": "https://www.microsoft.com/link?otc=AB-1"}, True),
        ({"device_code": "a b"}, False),
        ({"expires_in": 0}, False),
        ({"interval": 100_000}, False),
    ],
)
def test_a_code_to_type(more: dict[str, object], fits: bool, outlook: OAuthServer, asking: OAuthClient) -> None:
    uri = "https://microsoft.com/devicelogin"
    said = {"device_code": "d", "user_code": "ABCD-1234", "verification_uri": uri, "expires_in": 900, "interval": 0}
    outlook.instead["devicecode"] = Answer(200, json.dumps(said | more).encode())
    if fits:
        prompt = oauth.request_device_code(asking, ["a"])
        assert (prompt.user_code, prompt.verification_uri, prompt.interval) == (
            "ABCD-1234",
            (said | more)["verification_uri"],
            1,
        )
    else:
        with pytest.raises(RemoteFault) as caught:
            oauth.request_device_code(asking, ["a"])
        assert caught.value.kind == "malformed"


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "a.e30", "a.W10.c", "a.%%%.c", "a." + "W" * 50_000 + ".c"])
def test_an_id_token_that_is_none_says_nothing(token: str, outlook: OAuthServer, asking: OAuthClient) -> None:
    outlook.instead["token"] = Answer(200, json.dumps(GOOD | {"id_token": token}).encode())
    assert renewed(asking).claims == {}


def test_a_verifier_is_of_the_length_that_is_asked_for() -> None:
    made = {oauth.new_verifier() for _ in range(10)}
    assert len(made) == 10
    assert {43 <= len(each) <= 128 for each in made} == {True}  # RFC 7636 4.1


_NAMES = ("access_token", "token_type", "expires_in", "expires_at", "scope", "id_token", "refresh_token", "error")
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner), max_leaves=6
)
_ANSWERS = st.one_of(
    st.binary(max_size=200),
    _VALUES.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(_NAMES), _VALUES).map(lambda more: json.dumps(GOOD | more).encode()),
)


@given(status=st.sampled_from([200, 302, 400, 401, 429, 500]), body=_ANSWERS)
@settings(max_examples=50, deadline=None)
def test_whatever_is_answered_is_tokens_or_a_fault(status: int, body: bytes) -> None:
    answer = https.HttpsResponse(status, {}, body)
    for read in (
        lambda: read_tokens(oauth._web_client(OAuthApp("google", "a")), require_success(answer)),
        lambda: read_device_prompt(answer),
    ):
        try:
            read()
        except RemoteFault:
            pass
