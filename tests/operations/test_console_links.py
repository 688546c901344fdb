"""Links into the console: good once, for a minute, while the session lives that made them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import everything_stored, suspend
from tests.operations.log_ins import insist, recorded
from tests.servers.fake_clock import FakeClock

LINKS = "/auth/console-links"


def link(client: CheckedClient) -> str:
    """The token of a new link."""
    return str(client.ask("POST", LINKS).data["url"].partition("#console=")[2])


def redeem(client: CheckedClient, token: str) -> Answer:
    return client.ask("POST", f"{LINKS}/redeem", {"token": token}, token="")


@pytest.mark.parametrize("body", [None, {}])
def test_a_link_opens_the_console_once(ada: CheckedClient, timed: Appliance, body: object) -> None:
    made = ada.ask("POST", LINKS, body)
    assert (made.status, made.data.keys()) == (201, {"url", "expiresAt"})
    base, _, token = made.data["url"].partition("#console=")
    assert (base, token[:5], made.data["expiresAt"]) == (f"{timed.local_url}/", "mbxc_", "2026-01-02T03:05:05.678Z")
    assert token not in everything_stored(timed)
    answer = redeem(ada, token)
    assert answer.status == 200
    assert answer.data.keys() == {"token", "session", "member"}
    assert (answer.data["session"]["deviceName"], answer.data["member"]["id"]) == ("Console", ada.member["id"])
    assert ada.ask("GET", "/me", token=answer.data["token"]).data["credential"]["kind"] == "session"
    assert redeem(ada, token).refusal == (400, "invalid_token")
    assert ada.ask("GET", "/me").status == 200
    actions = [("console_link.create", "success"), ("console_link.redeem", "success"), ("session.create", "success")]
    assert recorded(timed)[2:] == [*actions, ("console_link.redeem", "failure")]


def test_a_link_is_good_for_a_minute(ada: CheckedClient, clock: FakeClock) -> None:
    first, second = link(ada), link(ada)
    clock.advance(59.999)
    assert redeem(ada, first).status == 200
    clock.advance(0.001)
    assert redeem(ada, second).refusal == (400, "invalid_token")


def test_several_links_may_be_on_their_way(ada: CheckedClient) -> None:
    links = [link(ada) for _ in range(3)]
    assert [redeem(ada, token).status for token in links] == [200] * 3


def test_of_many_at_once_one_is_first(ada: CheckedClient, timed: Appliance) -> None:
    token = link(ada)
    with ThreadPoolExecutor(6) as at_once:
        statuses = list(at_once.map(lambda _: insist(lambda: redeem(CheckedClient(timed), token)).status, range(6)))
    assert sorted(statuses) == [200] + [400] * 5


def test_a_link_ends_with_its_session(ada: CheckedClient, timed: Appliance) -> None:
    laptop, phone = ada.log_in(device="laptop"), ada.log_in(device="phone")
    of_laptop, of_phone, own = link(laptop), link(phone), link(ada)
    assert laptop.ask("POST", "/auth/logout").status == 200
    assert redeem(ada, of_laptop).refusal == (400, "invalid_token")
    body = {"currentPassword": "correct horse battery", "newPassword": "a password never used before"}
    assert redeem(ada, of_phone).status == 200
    assert ada.ask("POST", "/me/password", body).status == 200
    assert redeem(ada, own).refusal == (400, "invalid_token")


def test_a_link_of_a_suspended_member_opens_nothing(ada: CheckedClient, timed: Appliance) -> None:
    token = link(ada)
    suspend(timed, ada.member["id"])
    assert redeem(ada, token).refusal == (403, "member_suspended")
    assert recorded(timed)[-1] == ("console_link.redeem", "denied")


def test_a_link_leads_where_the_operator_says(tmp_path: object, clock: FakeClock) -> None:
    options = settings.load(None, {}, {"server.public_url": "https://mail.example.org/box/"})
    made = Appliance(tmp_path / "data", options, clock)  # type: ignore[operator]
    try:
        ada = CheckedClient(made).set_up()
        fields = {"X-Forwarded-Host": "evil.example"}
        url = ada.ask("POST", LINKS, headers=fields, peer="127.0.0.1", secure=True).data["url"]
        assert url.startswith("https://mail.example.org/box/#console=mbxc_")
    finally:
        made.stop()


def test_no_link_outlives_the_log_in(ada: CheckedClient, clock: FakeClock) -> None:
    (first,) = ada.ask("GET", "/me/sessions").data
    for _ in range(3):
        clock.advance(29 * 24 * 60 * 60)
        opened = redeem(ada, link(ada)).data
        ada.token = opened["token"]
        assert ada.ask("GET", "/me").status == 200
    assert opened["session"]["expiresAt"] == "2026-04-02T03:04:05.678Z" > first["expiresAt"]
    assert opened["session"]["createdAt"] > first["createdAt"]
    clock.advance(3 * 24 * 60 * 60 - 1)
    late = link(ada)
    clock.advance(1)
    assert ada.ask("GET", "/me").refusal == (401, "unauthenticated")
    assert redeem(ada, late).refusal == (400, "invalid_token")
