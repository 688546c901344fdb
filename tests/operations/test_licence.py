"""The licence through the API: installing one, its limits, and that reading and mending always go."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import PlanDenied
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.operations.licence import require_room_for_account, require_room_for_member
from mailbox_appliance.security import licence
from tests.checked_client import Answer, CheckedClient
from tests.servers.fake_clock import FakeClock
from tests.servers.issuer import OTHER_KEY, PAYLOAD, PUBLIC_KEY, PUBLIC_PEM, Issuer, sign
from tests.servers.mailboxes import account_at

PATH = "/admin/license"
NONE = {
    "plan": "community",
    "status": "none",
    "issuedTo": None,
    "expiresAt": None,
    "maxMembers": None,
    "maxAccounts": None,
}
TEAM = {
    "plan": "team",
    "status": "valid",
    "issuedTo": "Example Ltd",
    "expiresAt": "2026-03-01T00:00:00.000Z",
    "maxMembers": 2,
    "maxAccounts": 1,
}
DAY = 86_400
Make = Callable[..., CheckedClient]


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Make]:
    """Makes appliances by `clock` whose workers rest, each with an administrator."""
    made: list[Appliance] = []

    def an_appliance(key: str = PUBLIC_KEY, **flags: Any) -> CheckedClient:
        given = {f"license.{name}": value for name, value in flags.items()} | {"license.issuer_public_key": key}
        made.append(Appliance(tmp_path / str(len(made)), settings.load(None, {}, given | {"remote.timeout": 5}), clock))
        return CheckedClient(made[-1]).set_up()

    yield an_appliance
    for one in made:
        one.stop()


def put(client: CheckedClient, token: str | None = None, **payload: Any) -> Answer:
    return client.ask("PUT", PATH, {"token": token or sign({**PAYLOAD, **payload})})


def audited(client: CheckedClient) -> list[str]:
    events, _ = client.appliance.store.audit.list(None, 20)
    return [event.action for event in events if event.action.startswith("license.")]


def test_none_is_needed(checked_client: CheckedClient) -> None:
    assert checked_client.ask("GET", PATH).data == NONE
    require_room_for_member(checked_client.appliance)
    require_room_for_account(checked_client.appliance)


@pytest.mark.parametrize("key", [PUBLIC_KEY, PUBLIC_PEM])
def test_installed_and_removed(key: str, make: Make) -> None:
    ada = make(key)
    assert ada.ask("GET", PATH).data == NONE
    assert put(ada).data == ada.ask("GET", PATH).data == TEAM
    kept = ada.appliance.store.stored_settings.find(licence.STORED_AS)
    assert licence.load_installed(kept) == licence.InstalledLicence(sign()), "nobody confirmed it"
    assert put(ada, sign({"plan": "solo"})).data == {**NONE, "plan": "solo", "status": "valid"}
    assert ada.ask("DELETE", PATH).data == {"id": "license", "deleted": True}
    assert ada.ask("DELETE", PATH).refusal == (404, "not_found")
    assert ada.ask("GET", PATH).data == NONE
    assert audited(ada) == ["license.delete", "license.set", "license.set"]


@pytest.mark.parametrize(
    "token",
    [
        "nonsense",
        sign(key=OTHER_KEY),
        sign() + "x",
        sign({**PAYLOAD, "expiresAt": "2026-01-02T03:04:05.678Z"}),  # which is now
        sign({"maxMembers": 5}),
    ],
)
def test_what_cannot_be_taken(token: str, make: Make) -> None:
    ada = make()
    put(ada)
    refused = put(ada, token)
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/token"])
    assert token not in refused.content.decode()
    assert ada.ask("GET", PATH).data == TEAM


@pytest.mark.parametrize(
    "body", [{}, {"token": ""}, {"token": None}, {"token": "x" * 16385}, {"token": "x", "plan": 1}]
)
def test_other_bodies(body: dict[str, Any], make: Make) -> None:
    assert make().ask("PUT", PATH, body).refusal == (400, "invalid_request")


def test_without_an_issuer_it_is_said_what_to_do(checked_client: CheckedClient) -> None:
    refused = put(checked_client)
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/token"])
    assert "license.issuer_public_key" in refused.message


def test_where_the_issuer_is_another_now(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ada = make()
    put(ada)
    folder = ada.appliance.folder
    ada.appliance.stop()
    other = "A" * 43
    for key, status in ((other, "unverified"), ("", "none")):
        again = Appliance(folder, settings.load(None, {}, {"license.issuer_public_key": key}), clock)
        client = CheckedClient(again).log_in()
        assert client.ask("GET", PATH).data == {**NONE, "status": status}
        assert client.ask("GET", "/admin/oauth-apps").status == (502 if status == "unverified" else 200)
        again.stop()


# --- the limits ---


def connect(appliance: Appliance, owner: str, email: str = "a@b.example") -> None:
    endpoint = Endpoint("127.0.0.1", 1, "none", "a", "b")
    with appliance.store.database.transaction():
        appliance.store.accounts.add(owner, None, Connection(email, endpoint, endpoint))


def refused_limit(act: Callable[[Appliance], None], client: CheckedClient) -> str:
    with pytest.raises(PlanDenied) as refused:
        act(client.appliance)
    return refused.value.details[0].path


def test_the_limit_of_members(make: Make) -> None:
    ada = make()
    put(ada, maxMembers=2)
    new = {"name": "Bob", "email": "bob@example.org", "role": "member"}
    assert ada.ask("POST", "/admin/members", new).status == 201
    refused = ada.ask("POST", "/admin/members", new | {"email": "eve@example.org"})
    assert (refused.refusal, refused.places) == ((403, "plan_denied"), ["maxMembers"])
    put(ada, maxMembers=3)
    assert ada.ask("POST", "/admin/members", new | {"email": "eve@example.org"}).status == 201
    put(ada, maxMembers=1)  # fewer than there are: they stay
    assert len(ada.ask("GET", "/admin/members").data) == 3


def test_the_limit_of_mailboxes(make: Make) -> None:
    ada = make()
    put(ada)
    require_room_for_account(ada.appliance)
    connect(ada.appliance, ada.member["id"])
    assert refused_limit(require_room_for_account, ada) == "maxAccounts"
    assert ada.ask("POST", "/accounts/oauth/google").refusal == (403, "plan_denied")
    refused = ada.ask("POST", "/accounts", account_at("c@b.example", 1, 1))
    assert (refused.refusal, refused.places) == ((403, "plan_denied"), ["maxAccounts"])
    put(ada, maxAccounts=None)
    require_room_for_account(ada.appliance)


def test_an_expired_licence_lets_nothing_new_be_made_and_stops_nothing(make: Make, clock: FakeClock) -> None:
    ada = make()
    put(ada, maxMembers=None, maxAccounts=None, expiresAt="2026-01-05T00:00:00Z")
    connect(ada.appliance, ada.member["id"])
    clock.advance(3 * DAY)
    shown = {**TEAM, "status": "expired", "expiresAt": "2026-01-05T00:00:00.000Z"}
    assert ada.ask("GET", PATH).data == {**shown, "maxMembers": None, "maxAccounts": None}
    assert refused_limit(require_room_for_account, ada) == "expiresAt"
    assert refused_limit(require_room_for_member, ada) == "expiresAt"
    for path in ("/me", "/accounts", "/messages", "/admin/oauth-apps", "/status"):
        assert ada.ask("GET", path).status == 200
    assert put(ada).data == TEAM


# --- confirmed online ---


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as started:
        yield started


def test_confirmed_before_it_is_saved(make: Make, issuer: Issuer) -> None:
    ada = make(verify_url=issuer.url)
    assert put(ada).data == TEAM
    assert [asked["token"] for asked in issuer.asked] == [sign()]
    issuer.says(valid=False)
    refused = put(ada, plan="other")
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/token"])
    assert ada.ask("GET", PATH).data == TEAM
    assert audited(ada) == ["license.set"]


def test_one_that_cannot_be_confirmed_now_is_installed_for_7_days(make: Make, issuer: Issuer, clock: FakeClock) -> None:
    """A machine without a network, say. Setting it again begins nothing anew; another licence has days of its own."""
    ada = make(verify_url=issuer.url)
    issuer.answer = (500, b"")
    answer = put(ada)
    assert (answer.status, answer.data) == (200, TEAM)
    (warning,) = answer.warnings
    assert "could not be confirmed: The license server answered with status 500." in warning
    assert warning.endswith(" work until 2026-01-09T03:04:05.678Z.")
    clock.advance(7 * DAY - 1)
    ada.appliance.licence_check.run_once()
    assert (put(ada).data, put(ada).warnings) == (TEAM, [warning])
    assert ada.ask("GET", "/admin/oauth-apps").status == 200
    clock.advance(1)
    assert ada.ask("GET", PATH).data == {**TEAM, "status": "unverified"}
    assert put(ada).refusal == (502, "license_unverified")
    assert ada.ask("GET", "/admin/oauth-apps").refusal == (502, "license_unverified")
    assert audited(ada) == ["license.set"] * 3
    issuer.stop()
    assert put(ada, plan="other").data == {**TEAM, "plan": "other"}
    assert ada.ask("GET", "/admin/oauth-apps").status == 200
    assert ada.ask("DELETE", PATH).status == 200, "nobody gains by that: without a licence there are no limits"
    assert put(ada).warnings[0].endswith(" work until 2026-01-16T03:04:05.678Z.")


def test_it_is_confirmed_as_soon_as_its_issuer_answers(make: Make, issuer: Issuer, clock: FakeClock) -> None:
    ada = make(verify_url=issuer.url)
    issuer.answer = (500, b"")
    put(ada)
    issuer.says(valid=True)
    clock.advance(3600)
    ada.appliance.licence_check.run_once()
    clock.advance(7 * DAY)
    assert ada.ask("GET", PATH).data == TEAM
    assert put(ada).warnings == []


def test_whoever_may_not_any_more_while_the_issuer_is_asked_installs_nothing(make: Make, issuer: Issuer) -> None:
    ada = make(verify_url=issuer.url)
    bob, given = ada.log_in(), {"name": "k", "customCapabilities": ["admin.license"]}
    key = ada.ask("POST", "/me/api-keys", given).data
    paths = {bob.token: f"/me/sessions/{_session(bob)}", key["token"]: f"/me/api-keys/{key['apiKey']['id']}"}
    for token, path in paths.items():
        issuer.before = partial(ada.ask, "DELETE", path)
        assert ada.ask("PUT", PATH, {"token": sign()}, token=token).refusal == (401, "unauthenticated")
    assert (len(issuer.asked), ada.ask("GET", PATH).data, audited(ada)) == (2, NONE, [])


def _session(client: CheckedClient) -> str:
    return str(next(each["id"] for each in client.ask("GET", "/me/sessions").data if each["current"]))


def test_where_all_places_are_taken(make: Make, issuer: Issuer) -> None:
    ada = make(verify_url=issuer.url)
    with ExitStack() as waiting:
        assert all(waiting.enter_context(ada.appliance.io_slot()) for _ in range(4))
        refused = put(ada)
    assert refused.refusal == (502, "license_unverified")
    assert (issuer.asked, ada.ask("GET", PATH).data) == ([], NONE)


def test_unverified_for_a_week_and_mended(make: Make, issuer: Issuer, clock: FakeClock) -> None:
    ada = make(verify_url=issuer.url)
    put(ada)
    key = ada.ask("POST", "/me/api-keys", {"name": "k", "permissionProfile": "read-only"}).data["apiKey"]["id"]
    issuer.says(valid=False)
    clock.advance(DAY)
    ada.appliance.licence_check.run_once()
    clock.advance(7 * DAY)
    assert ada.ask("GET", PATH).data == {**TEAM, "status": "unverified"}
    for method, path, body in (
        ("GET", "/admin/oauth-apps", None),
        ("PUT", "/admin/oauth-apps/google", {"clientId": "c"}),
        ("DELETE", "/admin/oauth-apps/google", None),
        ("POST", "/accounts/oauth/google", None),
        ("POST", "/accounts/oauth/google/finish", {"state": "s", "code": "c"}),
        ("PATCH", f"/admin/api-keys/{key}", {"permissionProfile": "full"}),
    ):
        assert ada.ask(method, path, body).refusal == (502, "license_unverified"), path
    for path in ("/me", "/accounts", "/messages", "/status", "/admin/members", "/admin/settings"):
        assert ada.ask("GET", path).status == 200
    issuer.says(valid=True)
    assert put(ada).data == TEAM
    assert ada.ask("GET", "/admin/oauth-apps").status == 200
    assert ada.ask("DELETE", PATH).status == 200


def test_a_token_shows_nowhere(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    ada = make()
    answers = [put(ada), ada.ask("GET", PATH), ada.ask("GET", "/admin/settings"), put(ada, sign() + "x")]
    events, _ = ada.appliance.store.audit.list(None, 20)
    seen = b"".join(answer.content for answer in answers).decode() + repr(events) + caplog.text
    assert sign().rpartition(".")[2] not in seen
