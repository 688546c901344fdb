"""OAuth applications: their shape, what is kept and replaced, which source rules, and that secrets stay inside."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.accounts import OAuthApp
from mailbox_appliance.oauth import environment
from tests.checked_client import Answer, CheckedClient
from tests.servers.dovecot import MailServer
from tests.servers.signed_in import SignedIn

APPS, GOOGLE, OUTLOOK = "/admin/oauth-apps", "/admin/oauth-apps/google", "/admin/oauth-apps/outlook"
SECRET = "GOCSPX-hush-hush"
NOTHING = {
    "google": {"clientId": "", "clientSecretConfigured": False, "source": "built-in", "mutable": True},
    "outlook": {
        "clientId": None,
        "tenantId": None,
        "clientSecretConfigured": False,
        "source": None,
        "mutable": True,
    },
}


@pytest.fixture
def ada(checked_client: CheckedClient) -> CheckedClient:
    return checked_client


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[CheckedClient]:
    """An appliance whose Google application the operator gave."""
    given = {"MAILBOX_APPLIANCE_GOOGLE_CLIENT_ID": "theirs", "MAILBOX_APPLIANCE_GOOGLE_CLIENT_SECRET": SECRET}
    made = Appliance(tmp_path / "ruled", oauth_apps=environment.read_apps(given))
    yield CheckedClient(made).set_up()
    made.stop()


def put(client: CheckedClient, path: str = GOOGLE, **body: Any) -> Answer:
    return client.ask("PUT", path, body)


def audited(client: CheckedClient) -> list[tuple[str, str | None]]:
    events, _ = client.appliance.store.audit.list(None, 10)
    return [(event.action, event.target.id if event.target else None) for event in events if "oauth" in event.action]


def test_nothing_is_built_in(ada: CheckedClient) -> None:
    assert ada.ask("GET", APPS).data == NOTHING
    assert ada.appliance.logins.apps.find("google") is None


def test_saved_and_removed(ada: CheckedClient) -> None:
    google = {"clientId": "g", "clientSecretConfigured": True, "source": "stored", "mutable": True}
    outlook = {"clientId": "o", "tenantId": "t", "clientSecretConfigured": False, "source": "stored", "mutable": True}
    assert put(ada, clientId="g", clientSecret=SECRET).data == {**NOTHING, "google": google}
    assert put(ada, OUTLOOK, clientId="o", tenantId="t", publicClient=True).data == {
        "google": google,
        "outlook": outlook,
    }
    assert ada.ask("GET", APPS).data == {"google": google, "outlook": outlook}
    assert ada.appliance.logins.apps.find("google") == OAuthApp("google", "g", SECRET)
    assert ada.appliance.logins.apps.find("outlook") == OAuthApp("outlook", "o", None, "t", True)
    assert ada.ask("DELETE", GOOGLE).data == {"id": "google", "deleted": True}
    assert ada.ask("DELETE", GOOGLE).refusal == (404, "not_found")
    assert ada.ask("GET", APPS).data == {**NOTHING, "outlook": outlook}
    assert audited(ada) == [("oauth_app.delete", "google"), ("oauth_app.set", "outlook"), ("oauth_app.set", "google")]


@pytest.mark.parametrize(
    ("change", "secret"),
    [
        ({"clientId": "g"}, SECRET),
        ({"clientId": "g", "publicClient": False}, SECRET),
        ({"clientId": "g", "clientSecret": "new"}, "new"),
        ({"clientId": "other"}, None),
        # Google's applications for the desktop are public, and must show their secret all the same.
        ({"clientId": "g", "publicClient": True}, SECRET),
        ({"clientId": "g", "publicClient": True, "clientSecret": "new"}, "new"),
        ({"clientId": "other", "publicClient": True}, None),
    ],
)
def test_when_a_secret_is_kept(change: dict[str, Any], secret: str | None, ada: CheckedClient) -> None:
    put(ada, clientId="g", clientSecret=SECRET)
    shown = put(ada, **change).data["google"]
    found = ada.appliance.logins.apps.find("google")
    assert found is not None
    assert (shown["clientSecretConfigured"], found.client_secret) == (secret is not None, secret)


@pytest.mark.parametrize(("client_id", "told"), [("o", 1), ("other", 0)])
def test_a_public_client_of_outlook_loses_its_secret_and_is_told(client_id: str, told: int, ada: CheckedClient) -> None:
    put(ada, OUTLOOK, clientId="o", clientSecret=SECRET)
    answer = put(ada, OUTLOOK, clientId=client_id, publicClient=True)
    assert [warning.partition(":")[0] for warning in answer.warnings] == [
        "The stored `clientSecret` was removed"
    ] * told
    assert ada.appliance.logins.apps.find("outlook") == OAuthApp("outlook", client_id, None, None, True)
    assert put(ada, OUTLOOK, clientId=client_id, publicClient=True).warnings == []


#: One body with all the fields that there are.
WHOLE = {"clientId": "a", "clientSecret": SECRET, "tenantId": "common", "publicClient": True}


def test_all_fields_are_taken_for_either_provider(ada: CheckedClient) -> None:
    """What does not go with a provider is not kept, and `warnings` say so."""
    google, outlook = put(ada, GOOGLE, **WHOLE), put(ada, OUTLOOK, **WHOLE)
    assert (google.status, outlook.status) == (200, 200)
    # Google's applications for the desktop are public, and have a secret all the same.
    assert ada.appliance.logins.apps.find("google") == OAuthApp("google", "a", SECRET, None, True)
    assert google.data["google"]["clientSecretConfigured"] is True
    assert google.warnings == ["`tenantId` was not kept: only Outlook has tenants."]
    assert ada.appliance.logins.apps.find("outlook") == OAuthApp("outlook", "a", None, "common", True)
    assert outlook.data["outlook"]["clientSecretConfigured"] is False
    (warning,) = outlook.warnings
    assert "AADSTS700025" in warning
    assert SECRET not in warning


@pytest.mark.parametrize("tenant", ["a b", "a/b", "é", "..", "a\n", "x" * 2048])
def test_any_tenant_is_taken_where_it_leads_nowhere(tenant: str, ada: CheckedClient) -> None:
    answer = put(ada, GOOGLE, clientId="a", tenantId=tenant)
    assert (answer.status, len(answer.warnings)) == (200, 1)
    assert tenant not in answer.warnings[0]
    assert ada.appliance.logins.apps.find("google") == OAuthApp("google", "a")


def test_what_fits_is_saved_without_a_word(ada: CheckedClient) -> None:
    for path, body in (
        (GOOGLE, {"clientSecret": SECRET, "publicClient": True}),
        (OUTLOOK, {"publicClient": True}),
        (OUTLOOK, {"clientSecret": SECRET, "tenantId": "t"}),
    ):
        assert put(ada, path, clientId="a", **body).warnings == []


def test_what_is_left_out_is_gone(ada: CheckedClient) -> None:
    put(ada, OUTLOOK, clientId="o", tenantId="t", publicClient=True)
    put(ada, OUTLOOK, clientId="o")
    assert ada.appliance.logins.apps.find("outlook") == OAuthApp("outlook", "o")


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (GOOGLE, {}, "/clientId"),
        (GOOGLE, {"clientId": ""}, "/clientId"),
        (GOOGLE, {"clientId": "x" * 2049}, "/clientId"),
        (GOOGLE, {"clientId": None}, "/clientId"),
        (GOOGLE, {"clientId": "a\r\nb"}, "/clientId"),
        (GOOGLE, {"clientId": "a", "clientSecret": ""}, "/clientSecret"),
        (GOOGLE, {"clientId": "a", "clientSecret": SECRET * 2000}, "/clientSecret"),
        (GOOGLE, {"clientId": "a", "clientSecret": f"{SECRET}\0"}, "/clientSecret"),
        (GOOGLE, {"clientId": "a", "clientSecret": None}, "/clientSecret"),
        (GOOGLE, {"clientId": "a", "publicClient": "yes"}, "/publicClient"),
        (GOOGLE, {"clientId": "a", "tenantId": ""}, "/tenantId"),
        (GOOGLE, {"clientId": "a", "tenantId": "x" * 2049}, "/tenantId"),
        (OUTLOOK, {"clientId": "a", "tenantId": ""}, "/tenantId"),
        *(
            (OUTLOOK, {"clientId": "a", "tenantId": wrong}, "/tenantId")
            for wrong in ("a/b", "..", "é", "a b", "a\n", "a?b")
        ),
        (OUTLOOK, {"clientId": "a", "tenantId": "x" * 2049}, "/tenantId"),
        (OUTLOOK, {"clientId": "a", "source": "stored"}, "/source"),
    ],
)
def test_what_is_refused(path: str, body: dict[str, Any], place: str, ada: CheckedClient) -> None:
    refused = ada.ask("PUT", path, body)
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), [place])
    assert SECRET not in refused.content.decode()
    assert ada.ask("GET", APPS).data == NOTHING


def test_the_longest_that_may_be(ada: CheckedClient) -> None:
    put(ada, OUTLOOK, clientId="c" * 2048, clientSecret="s" * 16384, tenantId="t" * 2048)
    assert ada.appliance.logins.apps.find("outlook") == OAuthApp("outlook", "c" * 2048, "s" * 16384, "t" * 2048)


def test_other_bodies_and_providers(ada: CheckedClient) -> None:
    assert ada.ask("PUT", f"{APPS}/yahoo", {"clientId": "a"}).refusal == (404, "not_found")
    assert ada.ask("PUT", f"{APPS}/Google", {}).refusal == (404, "not_found")
    assert ada.ask("DELETE", f"{APPS}/yahoo").refusal == (404, "not_found")
    assert ada.ask("PUT", GOOGLE, b"{}", headers={"Content-Type": "text/plain"}).refusal[0] == 415
    assert ada.ask("PUT", GOOGLE, b" " * 1_100_000).refusal[0] == 413


def test_where_the_environment_rules(ruled: CheckedClient) -> None:
    google = {"clientId": "theirs", "clientSecretConfigured": True, "source": "environment", "mutable": False}
    assert ruled.ask("GET", APPS).data["google"] == google
    for refused in (put(ruled, clientId="mine", clientSecret="x"), ruled.ask("DELETE", GOOGLE)):
        assert refused.refusal == (409, "conflict")
        assert "MAILBOX_APPLIANCE_GOOGLE_CLIENT_ID" in refused.message
    assert put(ruled, OUTLOOK, clientId="o").data["google"] == google
    assert audited(ruled) == [("oauth_app.set", "outlook")]


def test_the_environment_comes_before_what_is_stored(tmp_path: Path) -> None:
    first = Appliance(tmp_path / "data")
    put(CheckedClient(first).set_up(), clientId="stored", clientSecret=SECRET)
    first.stop()
    secret = tmp_path / "secret"
    secret.write_text("theirs")
    given = {"MAILBOX_APPLIANCE_GOOGLE_CLIENT_ID_FILE": str(secret)}
    again = Appliance(tmp_path / "data", oauth_apps=environment.read_apps(given))
    shown = CheckedClient(again).log_in().ask("GET", APPS).data["google"]
    again.stop()
    source = {"source": "environment-file", "mutable": False}
    assert shown == {"clientId": "theirs", "clientSecretConfigured": False, **source}


def test_a_secret_shows_nowhere(ada: CheckedClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    answers = [put(ada, clientId="g", clientSecret=SECRET), put(ada, clientId="g"), ada.ask("GET", APPS)]
    events, _ = ada.appliance.store.audit.list(None, 10)
    seen = b"".join(answer.content for answer in answers).decode() + repr(events) + caplog.text
    assert SECRET not in seen + repr(ada.appliance.logins.apps.find("google"))


def test_mailboxes_are_tried_at_once_by_an_application_that_was_mended(tmp_path: Path, mail_server: MailServer) -> None:
    house = SignedIn(tmp_path, mail_server)
    try:
        app = {"clientId": house.oauth.app.client_id, "clientSecret": "an old one"}
        assert house.desk.ask("PUT", GOOGLE, app).status == 200
        house.clock.advance(house.oauth.lasts)
        assert house.reconnect("error")["error"]["fault"] == "oauth_app_refused"
        assert house.desk.ask("PUT", GOOGLE, {**app, "clientSecret": house.oauth.app.client_secret}).status == 200
        house.wait_for("ready")
    finally:
        house.close()
