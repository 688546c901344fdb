"""Sign-ins at a provider on a socket: the requested scopes, who may finish, and what counts as access to a mailbox."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.oauth import flows as flows_module
from mailbox_appliance.oauth.flows import (
    AppMissing,
    Flows,
    NotAgreedYet,
    NothingBrought,
    SignInRefused,
    SignInRequest,
    SignInResult,
    SignInStarted,
    StateUnknown,
    TooManyFlows,
)
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.store.store import Store
from tests.oauth.conftest import Connect
from tests.servers.fake_clock import FakeClock
from tests.servers.oauth_answers import WORDS
from tests.servers.oauth_provider import OAuthServer

HOSTS: dict[OAuthProvider, str] = {"google": "127.0.0.1", "outlook": "localhost"}


def request_of(flows: Flows, provider: OAuthProvider, session: str, state: str) -> SignInRequest | None:
    """Return the request of a sign-in that this session has in progress."""
    flow = flows._find(provider, session, state)
    return None if flow is None else flow.request


@pytest.fixture
def flows(logins: Logins, clock: FakeClock) -> Flows:
    return Flows(logins, clock)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> OAuthServer:
    found: OAuthServer = request.getfixturevalue(getattr(request, "param", "google"))
    return found


both = pytest.mark.parametrize("server", ["google", "outlook"], indirect=True)


def asked(
    server: OAuthServer,
    email: str | None = None,
    account_id: str | None = None,
    session_id: str = "ses_1",
    member_id: str = "mem_1",
) -> SignInRequest:
    uri = f"http://{HOSTS[server.provider]}:8025/api/v1/oauth/callback"
    return SignInRequest(server.provider, member_id, session_id, uri, email=email, account_id=account_id)


def brought(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query))


def end(flows: Flows, server: OAuthServer, address: str, session: str = "ses_1") -> SignInResult:
    came = brought(address)
    error = f"{came['error']} {came['error_description']}" if "error" in came else None
    return flows.finish(server.provider, session, state=came["state"], code=came.get("code"), error=error)


def refused(act: Callable[[], object]) -> SignInRefused:
    with pytest.raises(SignInRefused) as caught:
        act()
    assert WORDS not in caught.value.reason + repr(caught.value)
    return caught.value


# --- in a browser ---


@both
def test_whoever_agrees_is_connected(server: OAuthServer, flows: Flows) -> None:
    begun = flows.start(asked(server))
    granted = end(flows, server, server.consent(begun.authorization_url))
    login = granted.login
    assert (login.provider, login.email, login.is_shared, login.sends_via) == (
        server.provider,
        server.person,
        False,
        "smtp",
    )
    assert server.user_of(granted.issued.access_token) == server.person
    assert granted.connection.imap.token == granted.connection.smtp.token == granted.issued.access_token
    assert granted.connection.imap.username == server.person
    for secret in (login.refresh_token, granted.issued.access_token, begun.state):
        assert secret not in repr(granted) + repr(begun)


def test_what_is_asked_for(google: OAuthServer, outlook: OAuthServer, flows: Flows) -> None:
    url = flows.start(asked(google, email="ada@gmail.com")).authorization_url
    query = {name: " ".join(values) for name, values in parse_qs(urlsplit(url).query).items()}
    assert query["scope"] == "openid email https://mail.google.com/"
    assert (query["access_type"], query["prompt"], query["login_hint"]) == ("offline", "consent", "ada@gmail.com")
    assert brought(flows.start(asked(google)).authorization_url)["prompt"] == "select_account consent"
    assert (query["response_type"], query["code_challenge_method"], len(query["code_challenge"])) == (
        "code",
        "S256",
        43,
    )
    assert query["redirect_uri"] == "http://127.0.0.1:8025/api/v1/oauth/callback"
    url = flows.start(asked(outlook)).authorization_url
    scopes = brought(url)["scope"].split()
    assert "offline_access" in scopes
    assert "https://outlook.office.com/IMAP.AccessAsUser.All" in scopes  # and consent covers both at once:
    assert "https://graph.microsoft.com/Mail.Send" in scopes
    assert len(scopes) == len(set(scopes))
    assert "client_secret" not in url


def test_a_code_is_redeemed_for_mail_alone(google: OAuthServer, outlook: OAuthServer, flows: Flows) -> None:
    """At Microsoft a code covers two resources, and one must be named; at Google nothing is restricted."""
    for server in (google, outlook):
        end(flows, server, server.consent(flows.start(asked(server)).authorization_url))
    assert "scope" not in google.asked[-1].values
    named = outlook.asked[-1].values["scope"].split()
    assert {urlsplit(scope).netloc for scope in named if "://" in scope} == {"outlook.office.com"}
    assert {"openid", "offline_access"} <= set(named)


@both
def test_a_session_finishes_what_it_began_and_once(server: OAuthServer, flows: Flows, clock: FakeClock) -> None:
    begun = flows.start(asked(server))
    back = server.consent(begun.authorization_url)
    other: OAuthProvider = "outlook" if server.provider == "google" else "google"
    with pytest.raises(StateUnknown):
        end(flows, server, back, session="ses_2")
    with pytest.raises(StateUnknown):
        flows.finish(other, "ses_1", state=begun.state, code="x")
    with pytest.raises(StateUnknown):
        flows.finish(server.provider, "ses_1", state=begun.state + "x", code="x")
    assert request_of(flows, server.provider, "ses_1", begun.state) == asked(server)
    assert request_of(flows, server.provider, "ses_2", begun.state) is None
    end(flows, server, back)
    with pytest.raises(StateUnknown):
        end(flows, server, back)
    late = flows.start(asked(server))
    assert (late.expires_at - clock.now()).total_seconds() == flows_module.LIFETIME
    clock.advance(flows_module.LIFETIME)
    with pytest.raises(StateUnknown):
        end(flows, server, server.consent(late.authorization_url))


def test_two_that_finish_at_once_are_one(google: OAuthServer, flows: Flows) -> None:
    back = google.consent(flows.start(asked(google)).authorization_url)
    google.slow(0.1)
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(end, flows, google, back) for _ in range(2)]
        outcomes = [each.exception(10) for each in ends]
    assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "StateUnknown"]
    assert google.count() == 1


@both
def test_a_code_of_another_sign_in_is_refused(server: OAuthServer, flows: Flows) -> None:
    """PKCE: neither an injected code of an attacker nor a stolen one works (RFC 9700 4.5.3)."""
    mine, theirs = flows.start(asked(server)), flows.start(asked(server, session_id="ses_2"))
    code = brought(server.consent(theirs.authorization_url))["code"]
    told = refused(lambda: flows.finish(server.provider, "ses_1", state=mine.state, code=code))
    assert told.name == "code_refused"


@both
def test_who_says_no_is_told_so(server: OAuthServer, flows: Flows) -> None:
    back = server.consent(flows.start(asked(server)).authorization_url, refuse=True)
    assert refused(lambda: end(flows, server, back)).name == "consent_declined"
    with pytest.raises(StateUnknown):  # the sign-in ended with that
        end(flows, server, back)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("access_denied", "consent_declined"),
        ("access_denied AADSTS65004: declined", "consent_declined"),
        ("access_denied AADSTS90094: admin", "admin_consent_required"),
        ("admin_policy_enforced", "admin_consent_required"),
        ("org_internal", "admin_consent_required"),
        ("unauthorized_client", "oauth_app_refused"),
        ("", None),
        ("<script>alert(1)</script>" * 1000, None),
    ],
)
def test_what_a_browser_comes_back_with(error: str, name: str | None, google: OAuthServer, flows: Flows) -> None:
    state = flows.start(asked(google)).state
    told = refused(lambda: flows.finish("google", "ses_1", state=state, code=None, error=error))
    assert told.name == name
    assert "script" not in told.reason


def test_a_provider_that_is_down_is_no_refusal(google: OAuthServer, flows: Flows) -> None:
    back = google.consent(flows.start(asked(google)).authorization_url)
    google.out_of_order()
    with pytest.raises(RemoteFault):
        end(flows, google, back)
    google.in_order()  # the code was not used, so it may be sent again
    assert end(flows, google, back).login.email == google.person
    state = flows.start(asked(google)).state
    with pytest.raises(RemoteFault):
        flows.finish("google", "ses_1", state=state, code=None, error="temporarily_unavailable")


def test_without_a_box_for_mail_nothing_is_connected(google: OAuthServer, flows: Flows) -> None:
    back = google.consent(flows.start(asked(google)).authorization_url, without="mail.google.com")
    told = refused(lambda: end(flows, google, back))
    assert told.name == "consent_required"
    assert "Read, compose, send, and permanently delete all your email from Gmail" in told.reason
    google.claims = {"email": None, "preferred_username": None}
    back = google.consent(flows.start(asked(google)).authorization_url)
    assert end(flows, google, back).login.email == google.person  # requested from `userinfo` then
    assert google.count("userinfo") == 1


def test_access_for_an_hour_only_is_not_enough(
    outlook: OAuthServer, flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook.answers, "_new_refresh", lambda _: None)
    back = outlook.consent(flows.start(asked(outlook)).authorization_url)
    assert "refresh token" in refused(lambda: end(flows, outlook, back)).reason


@both
def test_an_answer_that_was_lost_may_be_asked_for_again(server: OAuthServer, flows: Flows) -> None:
    back = server.consent(flows.start(asked(server)).authorization_url)
    server.hang_up()
    with pytest.raises(RemoteFault) as caught:
        end(flows, server, back)
    assert caught.value.in_doubt
    server.in_order()
    assert end(flows, server, back).login.email == server.person


def test_nothing_that_came_back_ends_nothing(google: OAuthServer, flows: Flows) -> None:
    begun = flows.start(asked(google))
    with pytest.raises(NothingBrought):
        flows.finish("google", "ses_1", state=begun.state, code=None)
    assert end(flows, google, google.consent(begun.authorization_url)).login.email == google.person


# --- the mailbox of a sign-in ---


@pytest.mark.parametrize(
    ("claims", "email"),
    [
        ({}, "ada@example.test"),
        ({"email": "ada.lovelace@example.test"}, "ada.lovelace@example.test"),
        ({"email": None}, "ada@example.test"),
        ({"email": "no address"}, "ada@example.test"),
        ({"email": 7, "aud": ["outlook-client"]}, "ada@example.test"),
        ({"email": None, "preferred_username": "live.com#ada"}, None),
        ({"aud": "somebody-else"}, None),
        ({"aud": None}, None),
    ],
)
def test_who_signed_in_stands_in_the_id_token(
    claims: dict[str, object], email: str | None, outlook: OAuthServer, flows: Flows
) -> None:
    outlook.claims = claims
    back = outlook.consent(flows.start(asked(outlook)).authorization_url)
    if email is None:
        assert "mail address" in refused(lambda: end(flows, outlook, back)).reason
    else:
        assert end(flows, outlook, back).login.email == email


@pytest.mark.parametrize(
    ("meant", "person", "fits"),
    [
        ("ada@example.test", "Ada@Example.test", True),
        ("ada.lovelace@googlemail.com", "adalovelace@gmail.com", True),
        ("ada.lovelace@example.test", "adalovelace@example.test", False),
        ("ada@example.test", "bob@example.test", False),
    ],
)
def test_another_google_account_is_told(meant: str, person: str, fits: bool, google: OAuthServer, flows: Flows) -> None:
    back = google.consent(flows.start(asked(google, email=meant)).authorization_url, person)
    if fits:
        assert end(flows, google, back).login.email == person
    else:
        told = refused(lambda: end(flows, google, back)).reason
        assert meant in told
        assert person in told


@pytest.mark.parametrize("meant", ["ada.lovelace@example.test", "ADA@example.test"])
def test_one_s_own_mailbox_has_the_name_that_was_meant(meant: str, outlook: OAuthServer, flows: Flows) -> None:
    outlook.claims = {"email": "ada.lovelace@example.test"}
    back = outlook.consent(flows.start(asked(outlook, email=meant)).authorization_url, "ada@example.test")
    login = end(flows, outlook, back).login
    assert (login.email, login.username, login.is_shared) == (meant.lower(), meant.lower(), False)


def test_at_outlook_another_mailbox_may_be_a_shared_one(outlook: OAuthServer, flows: Flows) -> None:
    begun = flows.start(asked(outlook, email="sales@example.test"))
    granted = end(flows, outlook, outlook.consent(begun.authorization_url, "ada@example.test"))
    login = granted.login
    assert (login.email, login.username, login.is_shared) == ("sales@example.test", "ada@example.test", True)
    assert granted.connection.imap.username == "sales@example.test"


def test_a_shared_mailbox_regains_its_rights_by_who_shares_it(
    outlook: OAuthServer, flows: Flows, connect: Connect
) -> None:
    account = connect(outlook, "sales@example.test")
    begun = flows.start(asked(outlook, account_id=account, email="sales@example.test"))
    query = brought(begun.authorization_url)
    assert query["login_hint"] == "ada@example.test"
    assert "https://graph.microsoft.com/Mail.Send.Shared" in query["scope"].split()
    assert end(flows, outlook, outlook.consent(begun.authorization_url)).login.email == "sales@example.test"


def test_one_s_own_mailbox_regains_its_rights_by_nobody_else(
    outlook: OAuthServer, flows: Flows, connect: Connect
) -> None:
    account = connect(outlook)
    begun = flows.start(asked(outlook, account_id=account, email="ada@example.test"))
    back = outlook.consent(begun.authorization_url, "bob@example.test")
    assert "bob@example.test" in refused(lambda: end(flows, outlook, back)).reason


# --- without a browser ---


def poll(flows: Flows, begun: SignInStarted) -> SignInResult:
    return flows.finish("outlook", "ses_1", state=begun.state, code=None)


def test_a_code_that_is_typed_elsewhere(outlook: OAuthServer, flows: Flows, clock: FakeClock) -> None:
    outlook.answers.interval = 0
    begun = flows.start(asked(outlook), device=True)
    assert begun.device is not None
    assert begun.authorization_url == begun.device.verification_uri == f"{outlook.url}/device"
    with pytest.raises(NotAgreedYet):
        poll(flows, begun)
    with pytest.raises(NotAgreedYet):
        poll(flows, begun)
    assert outlook.count(grant="device_code") == 1  # the second came too early
    outlook.type_code(begun.device.user_code)
    clock.advance(begun.device.interval)
    granted = poll(flows, begun)
    assert granted.login.email == outlook.person
    assert outlook.user_of(granted.issued.access_token, "IMAP.AccessAsUser.All")
    with pytest.raises(StateUnknown):
        poll(flows, begun)


def test_a_device_is_slower_when_it_is_told_to_be(outlook: OAuthServer, flows: Flows, clock: FakeClock) -> None:
    outlook.answers.interval = 60
    begun = flows.start(asked(outlook), device=True)
    for _ in range(2):  # both at once by the wall clock
        with pytest.raises(NotAgreedYet):
            poll(flows, begun)
        clock.advance(61)
    outlook.answers.interval = 0
    with pytest.raises(NotAgreedYet):  # 5 seconds later than before (RFC 8628 3.5)
        poll(flows, begun)
    assert outlook.count(grant="device_code") == 2
    clock.advance(4)
    with pytest.raises(NotAgreedYet):
        poll(flows, begun)
    assert outlook.count(grant="device_code") == 3


def test_a_device_that_is_refused(outlook: OAuthServer, flows: Flows, clock: FakeClock) -> None:
    begun = flows.start(asked(outlook), device=True)
    assert begun.device is not None
    outlook.type_code(begun.device.user_code, refuse=True)
    assert refused(lambda: poll(flows, begun)).name == "consent_declined"
    with pytest.raises(StateUnknown):
        poll(flows, begun)


def test_a_device_waits_through_an_outage(outlook: OAuthServer, flows: Flows, clock: FakeClock) -> None:
    outlook.answers.interval = 0
    begun = flows.start(asked(outlook), device=True)
    assert begun.device is not None
    outlook.out_of_order()
    with pytest.raises(RemoteFault):
        poll(flows, begun)
    outlook.in_order()
    outlook.type_code(begun.device.user_code)
    assert poll(flows, begun).login.email == outlook.person


def by_code(flows: Flows, outlook: OAuthServer, account_id: str | None = None) -> tuple[SignInResult, set[str]]:
    """Return the result of a sign-in by device code, and the resources that it requested."""
    outlook.answers.interval = 0
    begun = flows.start(asked(outlook, account_id=account_id), device=True)
    assert begun.device is not None
    scopes = outlook.asked[-1].values["scope"].split()
    outlook.type_code(begun.device.user_code)
    return poll(flows, begun), {urlsplit(scope).netloc for scope in scopes if "://" in scope}


def test_a_code_is_for_mail_and_the_next_one_for_graph(
    outlook: OAuthServer, flows: Flows, logins: Logins, store: Store, connect: Connect
) -> None:
    """At Microsoft a code is for one resource: the next sign-in requests the one that a mailbox still lacks."""
    account = connect(outlook)
    outlook.revoke()
    for resource in ("outlook.office.com", "graph.microsoft.com", "outlook.office.com"):
        granted, asked_for = by_code(flows, outlook, account)
        assert asked_for == {resource}
        assert outlook.user_of(granted.issued.access_token, "IMAP.AccessAsUser.All") == granted.login.email
        with store.database.transaction(durable=True):
            store.oauth_logins.set(account, granted.login)
        logins.keep_tokens(account, granted.issued)
    assert outlook.user_of(logins.use_token(account, "graph", str), "Mail.Send")
    assert by_code(flows, outlook)[1] == {"outlook.office.com"}  # for a mailbox that is not connected yet


def test_what_came_by_a_code_is_asked_for_without_the_secret(
    outlook: OAuthServer, flows: Flows, logins: Logins, store: Store, connect: Connect, clock: FakeClock
) -> None:
    """Microsoft refuses the secret there, but demands it if the same application was used for a sign-in in a
    browser.
    """
    account = connect(outlook)
    logins.use_token(account, "mail", str)
    assert "client_secret" in outlook.asked[-1].values
    for _ in range(2):  # mail, then Graph too
        granted, _resources = by_code(flows, outlook, account)
        with store.database.transaction(durable=True):
            store.oauth_logins.set(account, granted.login)
        logins.keep_tokens(account, granted.issued)
        asked_before = len(outlook.asked)
        clock.advance(4000)
        assert logins.use_token(account, "mail", str) != granted.issued.access_token
        store.oauth_logins.set_sends_via(account, "graph")
        assert logins.use_token(account, "graph", str)
        assert not [each for each in outlook.asked[asked_before:] if "client_secret" in each.values]


def test_google_gives_mail_to_no_device(google: OAuthServer, flows: Flows) -> None:
    with pytest.raises(RemoteFault) as caught:
        flows.start(asked(google), device=True)
    assert caught.value.kind == "unsupported"


# --- limits ---


def test_what_cannot_begin(google: OAuthServer, flows: Flows, store: Store) -> None:
    with store.database.transaction(durable=True):
        store.oauth_apps.remove("google")
    with pytest.raises(AppMissing) as caught:
        flows.start(asked(google))
    assert caught.value.title == "Google"


def test_so_many_sign_ins_at_once_and_no_more(
    google: OAuthServer, flows: Flows, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_, last = [flows.start(asked(google)) for _ in range(flows_module.MOST_OF_A_SESSION + 1)]
    assert request_of(flows, "google", "ses_1", first.state) is None
    assert request_of(flows, "google", "ses_1", last.state) is not None
    monkeypatch.setattr(flows_module, "MOST_FLOWS", flows_module.MOST_OF_A_SESSION)
    with pytest.raises(TooManyFlows):
        flows.start(asked(google, session_id="ses_2"))
    clock.advance(flows_module.LIFETIME)
    flows.start(asked(google, session_id="ses_2"))


def test_one_member_takes_no_sign_in_from_others(
    google: OAuthServer, flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows_module, "MOST_FLOWS", flows_module.MOST_OF_A_MEMBER + 1)
    other = flows.start(asked(google, member_id="mem_2"))
    sessions = [f"ses_{number}" for number in range(10, 11 + flows_module.MOST_OF_A_MEMBER)]
    first, *_, last = [flows.start(asked(google, session_id=session)) for session in sessions]
    assert request_of(flows, "google", "ses_1", other.state) is not None
    assert request_of(flows, "google", sessions[0], first.state) is None
    assert request_of(flows, "google", sessions[-1], last.state) is not None


def test_who_finishes_twice_does_not_ask_twice_at_a_device(outlook: OAuthServer, flows: Flows) -> None:
    begun = flows.start(asked(outlook), device=True)
    has_come, may_answer = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        has_come.set()
        may_answer.wait(10)

    outlook.before = hold
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(poll, flows, begun)
        assert has_come.wait(10)
        with pytest.raises(NotAgreedYet):
            poll(flows, begun)
        may_answer.set()
        assert isinstance(one.exception(10), NotAgreedYet)
    assert outlook.count() == 1
