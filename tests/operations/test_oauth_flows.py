"""Mailboxes connected by their provider's sign-in: over HTTPS at the provider, by token at real mail servers."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.errors import Conflict
from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.operations import settings
from mailbox_appliance.operations.oauth import redirect_uri, require_redirectable_url
from mailbox_appliance.security.tokens import KINDS
from mailbox_appliance.settings import BadSetting
from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import request_to_connect
from tests.operations.sign_ins import NAMES, SignIns
from tests.servers.dovecot import MailServer
from tests.servers.oauth_answers import WORDS

CALLBACK = "/api/v1/oauth/callback"
SMTP_IS_OFF = "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant."


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[SignIns]:
    made = SignIns(tmp_path_factory.mktemp("sign-ins"), mail_server)
    yield made
    made.close()


@pytest.fixture
def scene(_made: SignIns) -> Iterator[SignIns]:
    yield _made
    _made.forget()


def told(answer: Answer) -> str:
    """The sentence of a refusal, in which nothing of a provider's stands."""
    assert WORDS not in answer.content.decode()
    assert "AADSTS" not in answer.content.decode()
    return answer.message


# --- beginning --------------------------------------------------------------------------------------------------------


def test_a_sign_in_begins_at_the_providers_page(scene: SignIns) -> None:
    begun = scene.begin(scene.bob, email="ann@gmail.com")
    assert begun.keys() == {"authorizationUrl", "state", "expiresAt"}
    assert begun["expiresAt"] == to_timestamp(scene.clock.now() + timedelta(minutes=10))
    place = urlsplit(begun["authorizationUrl"])
    assert f"{place.scheme}://{place.netloc}" == scene.providers["google"].url
    asked = dict(parse_qsl(place.query))
    assert asked["state"] == begun["state"]
    assert (asked["response_type"], asked["code_challenge_method"], asked["login_hint"]) == (
        "code",
        "S256",
        "ann@gmail.com",
    )
    assert asked["client_id"] == scene.providers["google"].app.client_id
    assert "https://mail.google.com/" in asked["scope"]
    assert asked["redirect_uri"] == f"http://127.0.0.1:8025{CALLBACK}"
    assert "client_secret" not in begun["authorizationUrl"]


#: public_url, loopbackPort, provider, where the browser is led back to
WAYS_BACK: tuple[tuple[str, int | None, OAuthProvider, str], ...] = (
    ("", None, "google", "http://127.0.0.1:8025"),
    ("", None, "outlook", "http://localhost:8025"),
    ("", 41000, "google", "http://127.0.0.1:41000"),
    ("", 41000, "outlook", "http://localhost:41000"),
    ("https://mail.example.org", None, "google", "https://mail.example.org"),
    ("https://mail.example.org/box/", 41000, "outlook", "https://mail.example.org/box"),
)


@pytest.mark.parametrize(("public", "port", "provider", "back"), WAYS_BACK)
def test_where_the_browser_is_led_back_to(
    scene: SignIns, public: str, port: int | None, provider: OAuthProvider, back: str
) -> None:
    made = scene.made(f"data-{abs(hash((public, port, provider)))}", server__public_url=public)
    try:
        assert redirect_uri(made, made.flows.loopback_host(provider), port) == back + CALLBACK
    finally:
        made.stop()


@pytest.mark.parametrize(
    "public", ["mail.example.org:8443", "//mail.example.org", "https://", "ftp://mail.example.org"]
)
def test_a_public_address_that_is_none_of_the_web_is_refused_at_the_start(public: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"https://mail\.example\.org"):
        settings.load_settings(tmp_path / "none.toml", {"server.public_url": public})


def test_providers_lead_back_over_https_only() -> None:
    with pytest.raises(Conflict, match=r"http://mail\.example\.org, but Google"):
        require_redirectable_url("http://mail.example.org")
    for fine in ("", "https://mail.example.org", "http://localhost:8025"):
        require_redirectable_url(fine)


@pytest.mark.parametrize("host", ["localhost:9999", "[::1]:80", "127.0.0.9:8025"])
def test_a_request_never_says_where_the_browser_is_led_back_to(scene: SignIns, host: str) -> None:
    answer = scene.bob.ask("POST", "/accounts/oauth/google", {"loopbackPort": 41000}, host=host)
    given = parse_qs(urlsplit(answer.data["authorizationUrl"]).query)["redirect_uri"]
    assert given == [f"http://127.0.0.1:41000{CALLBACK}"]


#: The body, and where it is wrong.
BAD_BEGINNINGS: tuple[tuple[OAuthProvider, dict[str, Any], str], ...] = (
    ("google", {"device": True}, "/device"),
    ("google", {"email": "nobody"}, "/email"),
    ("google", {"email": "a..b@example.org"}, "/email"),
    ("google", {"displayName": "a\r\nb"}, "/displayName"),
    ("google", {"loopbackPort": 80}, "/loopbackPort"),
    ("google", {"loopbackPort": 65536}, "/loopbackPort"),
    ("google", {"redirectUri": "https://evil.example"}, "/redirectUri"),
    ("google", {"accountId": ""}, "/accountId"),
)


@pytest.mark.parametrize(("provider", "body", "path"), BAD_BEGINNINGS)
def test_a_beginning_that_is_not_valid_is_told(scene: SignIns, provider: str, body: dict[str, Any], path: str) -> None:
    answer = scene.bob.ask("POST", f"/accounts/oauth/{provider}", body)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [path])


def test_without_an_application_nobody_signs_in(scene: SignIns) -> None:
    scene.ada.ask("DELETE", "/admin/oauth-apps/google")
    try:
        answer = scene.bob.ask("POST", "/accounts/oauth/google")
        assert answer.refusal == (409, "conflict")
        assert "No OAuth application is configured for Google" in answer.message
    finally:
        scene.set_app("google")


# --- finishing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["redirectUrl", "console", "code"])
def test_a_mailbox_is_connected(scene: SignIns, way: str) -> None:
    user = scene.server.fresh_user()
    begun = scene.begin(scene.bob, displayName="Post")
    back = scene.providers["google"].consent(begun["authorizationUrl"], user)
    back += "&session_state=a?b"  # a `?` needs no encoding there (RFC 3986 3.4)
    query = urlsplit(back).query
    code = parse_qs(query)["code"][0]
    brought = {
        "redirectUrl": {"redirectUrl": f" {back}\n"},
        "console": {"redirectUrl": f"http://localhost:8025/#/oauth-callback?{query}"},
        "code": {"state": begun["state"], "code": code},
    }[way]
    answer = scene.finish(scene.bob, "google", **brought)
    assert answer.status == 201
    known = answer.data
    assert (known["email"], known["provider"], known["displayName"]) == (user, "google", "Post")
    assert (known["status"], known["error"], known["capabilities"]["move"]) == ("connecting", None, True)
    assert known["ownerMemberId"] == scene.bob.member["id"]
    assert "access-" not in answer.content.decode() + json.dumps(begun)
    assert "refresh-" not in answer.content.decode()
    event = scene.ada.ask("GET", "/admin/audit-events?limit=1").data["items"][0]
    assert (event["action"], event["target"]["id"]) == ("account.create", known["id"])
    # The token that came with the code is used; none was asked for.
    assert scene.appliance.logins.use_token(known["id"], "mail", str).startswith("access-")
    login = scene.appliance.logins.get_login(known["id"])
    assert (login.email, login.username, login.sends_via) == (user, user, "smtp")


def test_a_sign_in_is_finished_once_by_the_session_that_began_it(scene: SignIns) -> None:
    begun = scene.begin(scene.bob)
    back = scene.providers["google"].consent(begun["authorizationUrl"], scene.server.fresh_user())
    state, code = begun["state"], parse_qs(urlsplit(back).query)["code"][0]
    other = scene.bob.log_in("bob@example.org")
    wrong: tuple[tuple[CheckedClient, OAuthProvider], ...]
    wrong = ((other, "google"), (scene.ada, "google"), (scene.bob, "outlook"))
    for who, provider in wrong:
        answer = scene.finish(who, provider, state=state, code=code)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/state"])
    assert scene.finish(scene.bob, "google", redirectUrl=back).status == 201
    again = scene.finish(scene.bob, "google", redirectUrl=back)
    assert (again.refusal, again.places) == ((400, "invalid_request"), ["/redirectUrl"])


#: What is brought, and where it is wrong.
BAD_ENDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "/state"),
    ({"code": "c"}, "/state"),
    ({"state": "s", "code": "c"}, "/state"),
    ({"state": "s"}, "/state"),
    ({"state": ""}, "/state"),
    ({"redirectUrl": "https://mail.google.com/"}, "/redirectUrl"),
    ({"redirectUrl": f"http://127.0.0.1:8025{CALLBACK}?code=c"}, "/redirectUrl"),
    ({"redirectUrl": f"http://127.0.0.1:8025{CALLBACK}?state=s"}, "/redirectUrl"),
    ({"redirectUrl": f"http://127.0.0.1:8025{CALLBACK}?state=s&code=c"}, "/redirectUrl"),
    ({"redirectUrl": "?state=s&code=c", "state": "s"}, "/redirectUrl"),
    ({"redirectUrl": "?" + "&".join(f"a{n}=1" for n in range(60))}, "/redirectUrl"),
    ({"state": "s" * 513, "code": "c"}, "/state"),
)


@pytest.mark.parametrize(("body", "path"), BAD_ENDS, ids=range(len(BAD_ENDS)))
def test_an_end_that_is_not_valid_is_told(scene: SignIns, body: dict[str, Any], path: str) -> None:
    answer = scene.finish(scene.bob, "google", **body)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [path])


def test_what_brings_no_code_ends_nothing(scene: SignIns) -> None:
    begun = scene.begin(scene.bob)
    back = scene.providers["google"].consent(begun["authorizationUrl"], scene.server.fresh_user())
    assert scene.finish(scene.bob, "google", state=begun["state"]).places == ["/code"]
    assert scene.finish(scene.bob, "google", redirectUrl=back).status == 201


@pytest.mark.parametrize("provider", NAMES)
def test_whoever_refuses_is_told_so_in_our_words(scene: SignIns, provider: OAuthProvider) -> None:
    begun = scene.begin(scene.bob, provider)
    back = scene.providers[provider].consent(begun["authorizationUrl"], "ann@example.test", refuse=True)
    answer = scene.finish(scene.bob, provider, redirectUrl=back)
    assert answer.refusal == (400, "invalid_request")
    assert "Sign in again" in told(answer)
    assert scene.finish(scene.bob, provider, redirectUrl=back).places == ["/redirectUrl"]


def test_a_provider_that_is_out_of_order_is_waited_for(scene: SignIns) -> None:
    user, google = scene.server.fresh_user(), scene.providers["google"]
    begun = scene.begin(scene.bob)
    back = google.consent(begun["authorizationUrl"], user)
    google.out_of_order(429, retry_after=7)
    throttled = scene.finish(scene.bob, "google", redirectUrl=back)
    assert throttled.refusal == (429, "provider_rate_limited")
    assert throttled.headers["retry-after"] == "7"
    google.out_of_order()
    begun = scene.begin(scene.bob)
    down = scene.finish(scene.bob, "google", redirectUrl=google.consent(begun["authorizationUrl"], user))
    assert (down.refusal, down.places) == ((503, "provider_unavailable"), ["oauth"])
    told(down)


def test_an_application_that_the_provider_does_not_know_is_the_administrators(scene: SignIns) -> None:
    app = {"clientId": scene.providers["google"].app.client_id, "clientSecret": "another one"}
    scene.ada.ask("PUT", "/admin/oauth-apps/google", app)
    try:
        answer = scene.connect(scene.bob, "google", "ann@gmail.com")
    finally:
        scene.set_app("google")
    assert answer.refusal == (400, "invalid_request")
    assert "administrator" in told(answer)


def test_servers_that_do_not_take_the_access_are_told(scene: SignIns) -> None:
    user = scene.server.fresh_user()
    scene.shared[user] = scene.server.fresh_user()  # the token opens another mailbox
    answer = scene.connect(scene.bob, "google", user)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["imap", "smtp"])
    told(answer)
    shared = scene.connect(scene.bob, "outlook", user, email=scene.server.fresh_user())
    assert (shared.refusal, shared.places) == ((400, "invalid_request"), [])
    assert "shared mailbox" in told(shared)


def test_nobody_finishes_whose_session_ends_meanwhile(scene: SignIns) -> None:
    user, bob = scene.server.fresh_user(), scene.bob.log_in("bob@example.org")
    google = scene.providers["google"]
    begun = scene.begin(bob)
    back = google.consent(begun["authorizationUrl"], user)
    google.before = lambda asked: bob.ask("POST", "/auth/logout") if asked.what == "token" else None
    assert scene.finish(bob, "google", redirectUrl=back).refusal == (401, "unauthenticated")
    assert not any(one["email"] == user for one in scene.bob.ask("GET", "/accounts").data)


# --- codes for devices ------------------------------------------------------------------------------------------------


def test_a_code_is_typed_elsewhere(scene: SignIns) -> None:
    user, outlook = scene.server.fresh_user(), scene.providers["outlook"]
    begun = scene.begin(scene.bob, "outlook", device=True)
    assert begun["authorizationUrl"] == begun["verificationUri"] == f"{outlook.url}/device"
    assert (begun["interval"], len(begun["userCode"])) == (1, 8)
    waiting = scene.finish(scene.bob, "outlook", state=begun["state"])
    assert waiting.refusal == (409, "conflict")
    assert "approved yet" in told(waiting)
    outlook.type_code(begun["userCode"], user)
    for _ in range(20):
        scene.clock.advance(6)
        outlook.answers.interval = 0
        answer = scene.finish(scene.bob, "outlook", state=begun["state"])
        if answer.status == 201:
            break
    assert answer.data["email"] == user
    assert scene.finish(scene.bob, "outlook", state=begun["state"]).places == ["/state"]


def test_the_next_code_is_for_graph_where_smtp_is_off(scene: SignIns) -> None:
    """A code of Microsoft's is for one resource, and mail comes first."""
    user, outlook = scene.server.fresh_user(), scene.providers["outlook"]
    outlook.answers.interval = 0
    for _ in range(2):
        scene.smtp.at("auth", SMTP_IS_OFF)
    asked: dict[str, Any] = {}
    answers = []
    for _ in range(2):
        begun = scene.begin(scene.bob, "outlook", device=True, **asked)
        outlook.type_code(begun["userCode"], user)
        answers.append(scene.finish(scene.bob, "outlook", state=begun["state"]))
        asked = {"accountId": answers[0].data["id"]}
    first, second = answers
    assert (first.status, first.data["error"]["fault"], second.data["error"]) == (201, "consent_required", None)
    assert "Microsoft Graph" in first.data["error"]["message"]
    assert second.data["id"] == first.data["id"]
    assert outlook.user_of(scene.appliance.logins.use_token(first.data["id"], "graph", str), "Mail.Send") == user


def test_a_code_that_is_refused_ends_it(scene: SignIns) -> None:
    outlook = scene.providers["outlook"]
    begun = scene.begin(scene.bob, "outlook", device=True)
    outlook.type_code(begun["userCode"], refuse=True)
    scene.clock.advance(6)
    answer = scene.finish(scene.bob, "outlook", state=begun["state"])
    assert answer.refusal == (400, "invalid_request")
    told(answer)


# --- mailboxes that are there -----------------------------------------------------------------------------------------


def test_a_mailbox_regains_its_access_and_stays_what_it_is(scene: SignIns) -> None:
    user = scene.server.fresh_user()
    first = scene.connect(scene.bob, "google", user, displayName="Post").data
    before = scene.appliance.logins.get_login(first["id"]).refresh_token
    for asked in ({"accountId": first["id"]}, {}):
        again = scene.connect(scene.bob, "google", user, **asked)
        assert (again.status, again.data["id"], again.data["displayName"]) == (201, first["id"], "Post")
        assert scene.appliance.logins.get_login(first["id"]).refresh_token != before
        event = scene.ada.ask("GET", "/admin/audit-events?limit=1").data["items"][0]
        assert (event["action"], event["target"]["id"]) == ("account.reconnect", first["id"])
    other = scene.connect(scene.bob, "google", scene.server.fresh_user(), accountId=first["id"])
    assert other.refusal == (400, "invalid_request")
    assert user in told(other)


def test_only_its_owner_signs_in_to_a_mailbox_again(scene: SignIns) -> None:
    mailbox = scene.connect(scene.bob, "google", scene.server.fresh_user()).data["id"]
    way = "/accounts/oauth/google"
    for more in ({}, {"device": True}):  # what is out of reach is told first
        assert scene.ada.ask("POST", way, {"accountId": mailbox, **more}).refusal == (404, "not_found")
    access = {"sharedWithAll": True, "memberIds": []}
    scene.bob.ask("PUT", f"/accounts/{mailbox}/access", access)
    refused = scene.ada.ask("POST", way, {"accountId": mailbox})
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["owner"])
    wrong = scene.bob.ask("POST", "/accounts/oauth/outlook", {"accountId": mailbox})
    assert (wrong.refusal, wrong.places) == ((400, "invalid_request"), ["/accountId"])
    named = scene.bob.ask("POST", way, {"accountId": mailbox, "email": "eve@gmail.com"})
    assert (named.refusal, named.places) == ((400, "invalid_request"), ["/email"])


def test_a_mailbox_that_has_a_password_here_is_not_connected_twice(scene: SignIns) -> None:
    request = request_to_connect(scene.server)
    assert scene.bob.ask("POST", "/accounts", request).status == 201
    assert scene.connect(scene.bob, "google", request["email"]).refusal == (409, "account_exists")


def test_a_mailbox_removed_meanwhile_is_not_found(scene: SignIns) -> None:
    user, google = scene.server.fresh_user(), scene.providers["google"]
    mailbox = scene.connect(scene.bob, "google", user).data["id"]
    begun = scene.begin(scene.bob, accountId=mailbox)
    back = google.consent(begun["authorizationUrl"], user)
    scene.bob.ask("DELETE", f"/accounts/{mailbox}")
    assert scene.finish(scene.bob, "google", redirectUrl=back).refusal == (404, "not_found")


def test_a_shared_mailbox_is_connected_by_who_reaches_it(scene: SignIns) -> None:
    office, ann = scene.server.fresh_user(), "ann@contoso.test"
    scene.shared[ann] = office
    answer = scene.connect(scene.bob, "outlook", ann, email=office)
    assert (answer.status, answer.data["email"]) == (201, office)
    login = scene.appliance.logins.get_login(answer.data["id"])
    assert (login.email, login.username, login.is_shared) == (office, ann, True)


def test_where_smtp_is_off_mail_goes_out_by_graph(scene: SignIns) -> None:
    scene.smtp.at("auth", SMTP_IS_OFF)
    mailbox = scene.connect(scene.bob, "outlook", scene.server.fresh_user()).data["id"]
    assert scene.appliance.logins.get_login(mailbox).sends_via == "graph"
    asked = scene.smtp.count("auth")
    assert scene.bob.ask("POST", f"/accounts/{mailbox}/reconnect", {}).status == 200
    assert (scene.smtp.count("auth"), scene.appliance.logins.get_login(mailbox).sends_via) == (asked, "graph")


# --- trying again -----------------------------------------------------------------------------------------------------


def test_the_access_that_a_mailbox_has_is_tried_again(scene: SignIns) -> None:
    user, google = scene.server.fresh_user(), scene.providers["google"]
    mailbox = scene.connect(scene.bob, "google", user).data["id"]
    scene.appliance.store.accounts.set_status(mailbox, "reauth_required")
    assert scene.bob.ask("POST", f"/accounts/{mailbox}/reconnect", {}).data["status"] == "connecting"
    servers = scene.bob.ask("POST", f"/accounts/{mailbox}/reconnect", {"imap": {"port": 993}})
    assert servers.refusal == (422, "unsupported_capability")
    google.revoke(user)
    answer = scene.bob.ask("POST", f"/accounts/{mailbox}/reconnect", {})
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["oauth"])
    assert "Sign in" in told(answer)
    google.out_of_order()
    assert scene.bob.ask("POST", f"/accounts/{mailbox}/reconnect", {}).refusal == (503, "provider_unavailable")


def test_no_secret_of_a_sign_in_looks_like_a_token_of_ours(scene: SignIns) -> None:
    begun = scene.begin(scene.bob)
    assert not any(kind in begun["state"] for kind in KINDS)
    assert urlencode({"state": begun["state"]}) == f"state={begun['state']}"
