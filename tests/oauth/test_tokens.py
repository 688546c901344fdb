"""Access tokens against a provider on a socket: renewed early and once, whatever happens to the access."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.accounts import AccountError, Endpoint, OAuthApp, OAuthLogin
from mailbox_appliance.oauth import tokens
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.errors import RemoteFault, named_fault
from mailbox_appliance.remote.oauth import IssuedTokens
from mailbox_appliance.store.store import Store
from tests.oauth.conftest import Connect
from tests.servers.fake_clock import FakeClock
from tests.servers.oauth_answers import WORDS
from tests.servers.oauth_provider import Asked, OAuthServer


def token(logins: Logins, account: str) -> str:
    return logins.use_token(account, "mail", lambda text: text)


def refused(logins: Logins, account: str) -> RemoteFault:
    with pytest.raises(RemoteFault) as caught:
        token(logins, account)
    assert WORDS not in caught.value.reason + str(caught.value) + repr(caught.value.__dict__)
    return caught.value


def stored(store: Store, account: str) -> str:
    login = store.oauth_logins.find(account)
    assert login is not None
    return login.refresh_token


def login_of(server: OAuthServer, refresh_token: str) -> OAuthLogin:
    return OAuthLogin(server.provider, server.person, server.person, refresh_token)


def store_login(store: Store, account: str, server: OAuthServer, refresh_token: str) -> None:
    """Store that somebody signed in again."""
    with store.database.transaction(durable=True):
        store.oauth_logins.set(account, login_of(server, refresh_token))


def store_app(store: Store, app: OAuthApp) -> None:
    with store.database.transaction(durable=True):
        store.oauth_apps.put(app)


class Hold:
    """Makes a provider wait before it answers. `has_come`: a request has; `may_answer`: set to let it go on."""

    def __init__(self, server: OAuthServer) -> None:
        self.has_come, self.may_answer = threading.Event(), threading.Event()
        server.before = self._wait

    def _wait(self, _: object) -> None:
        self.has_come.set()
        self.may_answer.wait(10)


def at_once(count: int, act: Callable[[], object]) -> list[object]:
    """Return the results of this many threads that start at the same moment."""
    barrier = threading.Barrier(count)

    def run(_: int) -> object:
        barrier.wait(10)
        try:
            return act()
        except RemoteFault as caught:
            return caught

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# --- one request for many callers ---


@pytest.mark.parametrize("provider", ["google", "outlook"])
def test_twenty_that_need_a_token_at_once_cause_one_request(
    provider: str, request: pytest.FixtureRequest, logins: Logins, connect: Connect
) -> None:
    server: OAuthServer = request.getfixturevalue(provider)
    server.rotation = "strict"  # a second request with the same refresh token would end the access
    account = connect(server)
    server.slow(0.1)
    got = at_once(20, lambda: token(logins, account))
    assert len(set(map(str, got))) == 1
    assert server.user_of(str(got[0])) == server.person
    assert server.count(grant="refresh_token") == 1


def test_twenty_openings_that_are_refused_cause_one_request(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account = connect(google)
    old = token(logins, account)
    clock.advance(60)
    google.spoil_access()

    def opening(endpoint: Endpoint) -> str:
        if google.user_of(endpoint.token or "") is None:
            raise named_fault("token_refused", "imap")
        return endpoint.token or ""

    got = at_once(20, lambda: logins.open_imap(account, opening))
    assert len(set(map(str, got))) == 1
    assert got[0] != old
    assert google.count() == 2


def test_twenty_that_find_the_provider_down_are_told_by_one_request(
    google: OAuthServer, logins: Logins, connect: Connect
) -> None:
    account = connect(google)
    google.out_of_order()
    faults = at_once(20, lambda: token(logins, account))
    assert {(one.name, one.kind) for one in faults if isinstance(one, RemoteFault)} == {("server_down", "refused")}
    assert len({id(one) for one in faults}) == 20
    assert google.count() == 1


def test_both_kinds_of_tokens_are_never_asked_for_at_once(
    outlook: OAuthServer, logins: Logins, connect: Connect
) -> None:
    outlook.rotation = "strict"
    account = connect(outlook)
    outlook.slow(0.05)
    with ThreadPoolExecutor(2) as pool:
        mail = pool.submit(token, logins, account)
        graph = pool.submit(logins.use_token, account, "graph", lambda text: text)
        mail_token, graph_token = mail.result(10), graph.result(10)
    assert outlook.user_of(mail_token, "IMAP.AccessAsUser.All")
    assert outlook.user_of(graph_token, "Mail.ReadWrite", "Mail.Send")
    assert not outlook.user_of(graph_token, "IMAP.AccessAsUser.All")


# --- the time of renewal ---


def test_a_token_is_renewed_before_it_ends(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account = connect(google)
    first = token(logins, account)
    clock.advance(3600 - tokens.RENEW_EARLY - 1)
    assert token(logins, account) == first
    clock.advance(1)
    assert token(logins, account) != first
    assert google.count() == 2


def test_a_short_token_is_renewed_at_half_its_life(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    google.lasts = 60
    account = connect(google)
    first = token(logins, account)
    clock.advance(29)
    assert token(logins, account) == first
    clock.advance(1)
    assert token(logins, account) != first


def test_a_computer_that_slept_asks_anew(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account = connect(google)
    first = token(logins, account)
    clock.set_wall(clock.now().replace(year=clock.now().year + 1))  # and no second of `monotonic`
    assert token(logins, account) != first


def test_while_one_renews_early_the_others_go_on_with_what_is_good(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account = connect(google)
    first = token(logins, account)
    clock.advance(3400)
    held = Hold(google)
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(token, logins, account)
        assert held.has_come.wait(10)
        assert token(logins, account) == first
        held.may_answer.set()
        assert renewing.result(10) != first


# --- tokens that a server refuses ---


def test_a_refused_token_is_renewed_once_and_what_is_refused_then_is_refused(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account, seen = connect(google), []

    def opening(endpoint: Endpoint) -> None:
        seen.append(endpoint.token)
        raise named_fault("token_refused", "imap")

    token(logins, account)
    clock.advance(tokens.JUST_GIVEN)
    with pytest.raises(RemoteFault) as caught:
        logins.open_imap(account, opening)
    assert caught.value.name == "token_refused"
    assert len(set(seen)) == 2
    with pytest.raises(RemoteFault):  # issued a moment ago: a new one would not help
        logins.open_smtp(account, opening)
    assert len(seen) == 3
    assert google.count() == 2


@pytest.mark.parametrize("name", ["server_down", "imap_disabled", "account_locked"])
def test_other_faults_of_a_server_renew_nothing(
    name: str, google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account, calls = connect(google), []
    token(logins, account)
    clock.advance(60)

    def opening(endpoint: Endpoint) -> None:
        calls.append(endpoint)
        raise named_fault(name, "imap")

    with pytest.raises(RemoteFault):
        logins.open_imap(account, opening)
    assert (len(calls), google.count()) == (1, 1)


def test_endpoints_are_the_provider_s_and_a_token_never_shows(
    google: OAuthServer, outlook: OAuthServer, logins: Logins, connect: Connect
) -> None:
    account = connect(outlook)
    plain = logins.endpoint(account, "smtp")
    opened = logins.open_smtp(account, lambda endpoint: endpoint)
    assert (plain.host, plain.username, plain.token) == ("localhost", outlook.person, None)
    assert plain == opened
    assert opened.token
    assert opened.token not in repr(opened)


# --- the life of a refresh token ---


@pytest.mark.parametrize(
    ("provider", "end", "name"),
    [
        ("google", OAuthServer.revoke, "access_revoked"),
        ("google", OAuthServer.expire, "access_revoked"),  # Google's error is the same for both
        ("outlook", OAuthServer.revoke, "access_revoked"),
        ("outlook", OAuthServer.expire, "access_expired"),
    ],
)
def test_an_access_that_ended_is_told_and_not_asked_for_again(
    provider: str,
    end: Callable[[OAuthServer], None],
    name: str,
    request: pytest.FixtureRequest,
    logins: Logins,
    connect: Connect,
    store: Store,
    clock: FakeClock,
) -> None:
    server: OAuthServer = request.getfixturevalue(provider)
    account = connect(server)
    token(logins, account)
    end(server)
    clock.advance(3400)  # the current token is valid for some more minutes, but must not be used
    for _ in range(3):
        told = refused(logins, account)
        assert (told.server, told.kind, told.name) == ("oauth", "login_refused", name)
    assert server.count() == 2
    shown = store.accounts.get(account)
    assert (shown.status, shown.error and shown.error.fault) == ("reauth_required", name)
    kept = stored(store, account)
    store_login(store, account, server, server.sign_up())
    assert stored(store, account) != kept
    assert server.user_of(token(logins, account)) == server.person
    assert store.accounts.get(account).error is None


def test_the_present_login_may_be_tried_again_at_once(google: OAuthServer, logins: Logins, connect: Connect) -> None:
    account = connect(google)
    google.instead["token"] = google.answers.to(Asked("token", {}))  # invalid_client
    assert refused(logins, account).name == "oauth_app_refused"
    google.in_order()
    assert refused(logins, account).name == "oauth_app_refused"
    logins.forget_tokens(account)
    assert token(logins, account)


def test_who_tries_again_while_a_token_is_renewed_asks_nothing_beside_it(
    outlook: OAuthServer, logins: Logins, connect: Connect, store: Store
) -> None:
    """If the provider accepts each refresh token once, a second request would lose the access."""
    outlook.rotation = "strict"
    account = connect(outlook)
    held = Hold(outlook)

    def again() -> str:
        logins.forget_tokens(account)
        return token(logins, account)

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(token, logins, account)
        assert held.has_come.wait(10)
        others = [pool.submit(again) for _ in range(2)]
        held.may_answer.set()
        came = [each.result(10) for each in (first, *others)]
    assert all(outlook.user_of(each) for each in came)
    brought = [each.values["refresh_token"] for each in outlook.asked]
    assert len(brought) == len(set(brought)) <= 3
    assert store.accounts.get(account).status == "connecting"


def test_a_sign_in_while_a_token_is_renewed_is_asked_nothing_more(
    outlook: OAuthServer, logins: Logins, connect: Connect, store: Store
) -> None:
    account = connect(outlook)
    issued = IssuedTokens("as it came", 3600, outlook.sign_up())

    def sign_in(_: Asked) -> None:
        store_login(store, account, outlook, issued.refresh_token or "")
        logins.keep_tokens(account, issued)

    outlook.before = sign_in
    assert token(logins, account) == issued.access_token
    assert (outlook.count(), stored(store, account)) == (1, issued.refresh_token)


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_sign_in_just_as_a_renewal_ends_counts(
    is_refused: bool,
    outlook: OAuthServer,
    logins: Logins,
    connect: Connect,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = connect(outlook)
    issued = IssuedTokens("as it came", 3600, outlook.sign_up())
    replace, note = store.oauth_logins.replace_token, store.accounts.note_refused_token

    def sign_in() -> None:
        monkeypatch.undo()
        store_login(store, account, outlook, issued.refresh_token or "")
        logins.keep_tokens(account, issued)

    def replaced(account_id: str, before: str, after: str) -> bool:
        done = replace(account_id, before, after)
        sign_in()
        return done

    def noted(account_id: str, refresh_token: str, error: AccountError) -> bool:
        sign_in()
        return note(account_id, refresh_token, error)

    if is_refused:
        outlook.answers._refresh[stored(store, account)].state = "revoked"
        monkeypatch.setattr(store.accounts, "note_refused_token", noted)
    else:
        monkeypatch.setattr(store.oauth_logins, "replace_token", replaced)
    assert [token(logins, account) for _ in range(2)] == [issued.access_token] * 2
    assert (store.accounts.get(account).status, outlook.count()) == ("connecting", 1)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (lambda server: server.out_of_order(), "refused"),
        (lambda server: server.out_of_order(400), "malformed"),
        (lambda server: server.out_of_order(404), "malformed"),
        (lambda server: server.out_of_order(200), "malformed"),
        (lambda server: server.out_of_order(302), "malformed"),
        (lambda server: server.out_of_order(429), "throttled"),
        (lambda server: server.hang_up(), "disconnected"),
        (lambda server: server.stop(), "unreachable"),
    ],
    ids=["503", "400", "404", "200", "302", "429", "hangs up", "gone"],
)
def test_a_provider_in_trouble_ends_no_access(
    what: Callable[[OAuthServer], None],
    kind: str,
    outlook: OAuthServer,
    logins: Logins,
    connect: Connect,
    store: Store,
    clock: FakeClock,
) -> None:
    account = connect(outlook)
    first, kept = token(logins, account), stored(store, account)
    what(outlook)
    clock.advance(3400)
    assert token(logins, account) == first  # keeps using the current one
    clock.advance(200)
    assert refused(logins, account).kind == kind
    assert stored(store, account) == kept
    if kind != "unreachable":
        outlook.in_order()
        clock.advance(tokens.RETRY_DELAY_THROTTLED)
        assert token(logins, account) != first


def test_a_silent_provider_does_not_hold_us(
    google: OAuthServer, logins: Logins, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = connect(google)
    monkeypatch.setattr(type(logins._settings), "number", lambda *_: 0.3)
    google.slow(1)
    assert refused(logins, account).kind == "timeout"


def test_a_provider_is_not_asked_before_the_time_it_says(
    google: OAuthServer, logins: Logins, connect: Connect, clock: FakeClock
) -> None:
    account = connect(google)
    google.out_of_order(429, retry_after=120)
    told = refused(logins, account)
    assert (told.kind, told.name, told.retry_after) == ("throttled", "rate_limited", 120)
    google.in_order()
    clock.advance(119)
    logins.forget_tokens(account)  # for every retry the provider's waiting time applies
    assert refused(logins, account).retry_after == 1  # the rest of it
    assert google.count() == 1
    clock.advance(1)
    assert token(logins, account)


def test_an_application_that_is_refused_is_the_administrator_s_to_mend(
    outlook: OAuthServer, logins: Logins, connect: Connect, store: Store, clock: FakeClock
) -> None:
    account = connect(outlook)
    with store.database.transaction(durable=True):
        store.oauth_apps.remove("outlook")
    assert refused(logins, account).name == "oauth_app_refused"
    store_app(store, OAuthApp("outlook", outlook.app.client_id, "an old secret"))
    clock.advance(tokens.RETRY_DELAY)
    told = refused(logins, account)
    assert (told.kind, told.name) == ("refused", "oauth_app_refused")
    assert "administrator" in told.reason
    store_app(store, outlook.app)
    clock.advance(tokens.RETRY_DELAY)
    assert token(logins, account)


def test_a_scope_that_was_not_agreed_to_is_told(outlook: OAuthServer, logins: Logins, store: Store) -> None:
    with store.database.transaction(durable=True):
        ada = store.members.add(name="Ada", email="ada@example.org", role="admin", password_hash=None)
        mail_only = frozenset(logins.apps.get_provider("outlook").mail_scopes)
        login = login_of(outlook, outlook.sign_up(scopes=mail_only))
        account = store.oauth_logins.add(ada.id, None, login)
    assert token(logins, account)
    with pytest.raises(RemoteFault) as caught:
        logins.use_token(account, "graph", lambda text: text)
    assert (caught.value.kind, caught.value.name) == ("login_refused", "consent_required")
    assert token(logins, account)
    assert store.accounts.get(account).status == "connecting", "its mail is read all the same"


def test_signing_in_anew_while_a_token_is_renewed_wins(
    outlook: OAuthServer, logins: Logins, connect: Connect, store: Store
) -> None:
    account = connect(outlook)
    old, newer = stored(store, account), outlook.sign_up()

    def sign_in(_: Asked) -> None:
        outlook.before = lambda _: None
        store_login(store, account, outlook, newer)
        outlook.revoke()  # from the earlier grant
        outlook.answers._refresh[newer].state = "good"

    outlook.before = sign_in
    assert outlook.user_of(token(logins, account))
    assert store.accounts.get(account).status == "connecting"
    brought = [each.values["refresh_token"] for each in outlook.asked]
    assert brought == [old, newer]
    assert stored(store, account) not in (old, newer)  # the one that came with it


def test_a_mailbox_that_is_removed_meanwhile_is_not_found(
    google: OAuthServer, logins: Logins, connect: Connect, store: Store
) -> None:
    account = connect(google)

    def remove(_: Asked) -> None:
        with store.database.transaction():
            store.accounts.remove(account)

    google.before = remove
    with pytest.raises(NotFound):
        token(logins, account)


# --- kill -9 between the provider's answer and the commit ---

_RENEW = """
import os, signal, sys
from pathlib import Path
from mailbox_appliance import settings
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.store.accounts import OAuthLogins
from mailbox_appliance.store.store import Store
folder, file, ca_file, account, moment = sys.argv[1:]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store = Store.open(Path(folder))
loaded = settings.load(flags={"remote.providers_file": file, "remote.ca_file": ca_file}, environment={})
replace = OAuthLogins.replace_token
OAuthLogins.replace_token = die if moment == "before" else lambda *given: (replace(*given), die())
Logins(store, loaded).use_token(account, "mail", print)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_around_the_commit_of_another_refresh_token_costs_no_access(
    moment: str, outlook: OAuthServer, logins: Logins, connect: Connect, store: Store, clock: FakeClock, tmp_path: Path
) -> None:
    account = connect(outlook)
    old = stored(store, account)
    store.close()
    arguments = (str(tmp_path / "data"), str(tmp_path / "providers.toml"), str(outlook.ca_file), account, moment)
    killed = subprocess.run((sys.executable, "-c", _RENEW, *arguments), capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, ""), killed.stderr
    assert outlook.count() == 1
    opened = Store.open(tmp_path / "data", clock)
    try:
        assert (stored(opened, account) == old) is (moment == "before")
        text = token(Logins(opened, logins._settings, clock), account)
        assert outlook.user_of(text) == outlook.person
        assert stored(opened, account) != old
    finally:
        opened.close()


def test_where_the_provider_takes_the_old_one_no_more_somebody_signs_in_again(
    outlook: OAuthServer, logins: Logins, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlook.rotation = "strict"
    account = connect(outlook)
    with monkeypatch.context() as patched:
        patched.setattr(type(store.oauth_logins), "replace_token", lambda *_: (_ for _ in ()).throw(SystemError))
        with pytest.raises(SystemError):
            token(logins, account)
    assert refused(logins, account).kind == "login_refused"


def test_the_store_has_no_access_token_and_no_log_has_any(
    google: OAuthServer, logins: Logins, connect: Connect, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    account = connect(google)
    caplog.set_level("DEBUG")
    text = token(logins, account)
    google.revoke()
    logins.forget_tokens(account)
    refused(logins, account)
    rows = store.database.rows("SELECT connection, secret FROM accounts")
    assert text not in str(rows)
    assert text not in caplog.text
    assert stored(store, account) not in caplog.text
