"""Settings that change while running: what is taken and refused, what rules, and that each has its effect at once."""

import http.client
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp, to_timestamp
from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.operations.settings import RUNTIME_OPTIONS
from mailbox_appliance.remote.errors import RemoteFault
from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.listened import served
from tests.servers.certificates import any_certificate
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall

PATH = "/admin/settings"
DEFAULTS = {
    option.name: list(option.default) if isinstance(option.default, tuple) else option.default
    for option in RUNTIME_OPTIONS
}


@pytest.fixture
def ada(checked_client: CheckedClient) -> Iterator[CheckedClient]:
    """An administrator; the level of the log is put back afterwards."""
    level = logging.getLogger().level
    yield checked_client
    logging.getLogger().setLevel(level)


def change(client: CheckedClient, **values: Any) -> Answer:
    """PATCH with `__` for the dot."""
    return client.ask("PATCH", PATH, {name.replace("__", "."): value for name, value in values.items()})


def audited(appliance: Appliance) -> list[str]:
    events, _ = appliance.store.audit.list(None, 20)
    return [event.target.id for event in events if event.action == "settings.update" and event.target]


def test_what_may_change(ada: CheckedClient) -> None:
    assert ada.ask("GET", PATH).data == DEFAULTS
    assert "license.verify_url" not in DEFAULTS
    assert "server.port" not in DEFAULTS


def test_a_change_and_the_way_back(ada: CheckedClient) -> None:
    changed = {**DEFAULTS, "remote.timeout": 5, "log.requests": False}
    assert change(ada, remote__timeout=5, log__requests=False).data == changed
    assert ada.ask("GET", PATH).data == changed
    assert change(ada, remote__timeout=5).data == changed  # nothing changes, nothing is audited
    assert change(ada, remote__timeout=None, sync__cache_mib=None).data == {**changed, "remote.timeout": 30}
    assert change(ada).data == {**changed, "remote.timeout": 30}
    assert audited(ada.appliance) == ["remote.timeout", "remote.timeout", "log.requests"]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ({"remote.timeout": 0}, ["/remote.timeout"]),
        ({"remote.timeout": "5"}, ["/remote.timeout"]),
        ({"remote.timeout": 5.0}, ["/remote.timeout"]),
        ({"remote.timeout": True}, ["/remote.timeout"]),
        ({"remote.timeout": 10**30}, ["/remote.timeout"]),
        ({"log.level": "chatty", "log.requests": 1}, ["/log.level", "/log.requests"]),
        ({"log.level": ["debug"]}, ["/log.level"]),
        ({"metrics.allowed": "192.0.2.7"}, ["/metrics.allowed"]),
        ({"metrics.allowed": {"192.0.2.7": True}}, ["/metrics.allowed"]),
        ({"metrics.allowed": ["192.0.2.7", 5]}, ["/metrics.allowed"]),
        ({"metrics.allowed": [["192.0.2.7"]]}, ["/metrics.allowed"]),
        ({"metrics.allowed": ["example.org"]}, ["/metrics.allowed"]),
        ({"metrics.allowed": ["192.0.2.7/24"]}, ["/metrics.allowed"]),
        ({"server.port": 1}, ["/server.port"]),
        ({"a~b/c": 1}, ["/a~0b~1c"]),
        ({"license": None}, ["/license"]),
    ],
)
def test_what_is_refused_changes_nothing(values: dict[str, Any], places: list[str], ada: CheckedClient) -> None:
    refused = ada.ask("PATCH", PATH, {"sync.cache_mib": 1, **values})
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), places)
    assert ada.ask("GET", PATH).data == DEFAULTS
    assert audited(ada.appliance) == []


def test_what_the_operator_sets_rules(tmp_path: Path) -> None:
    environment = {"MAILBOX_APPLIANCE_REMOTE_TIMEOUT": "7"}
    made = Appliance(tmp_path / "data", settings.load(None, environment, {"log.requests": False}))
    client = CheckedClient(made).set_up()
    for values, where in (
        ({"remote.timeout": 8}, "MAILBOX_APPLIANCE_REMOTE_TIMEOUT"),
        ({"remote.timeout": None}, "MAILBOX_APPLIANCE_REMOTE_TIMEOUT"),
        ({"log.requests": True}, "the command line"),
    ):
        refused = client.ask("PATCH", PATH, {"sync.cache_mib": 1, **values})
        assert (refused.refusal, where in refused.message) == ((409, "conflict"), True)
    assert client.ask("GET", PATH).data == {**DEFAULTS, "remote.timeout": 7, "log.requests": False}
    made.stop()


def test_a_change_counts_again_after_a_start(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "config.toml"
    file.write_text("[sync]\ncache_mib = 3\npoll_interval = 30\n")
    first = Appliance(folder, settings.load(file, {}))
    change(CheckedClient(first).set_up(), sync__cache_mib=9, remote__timeout=5)
    first.stop()
    second = Appliance(folder, settings.load(file, {"MAILBOX_APPLIANCE_REMOTE_TIMEOUT": "6"}))
    names = ("sync.cache_mib", "sync.poll_interval", "remote.timeout")
    assert [second.settings.number(name) for name in names] == [9, 30, 6]
    second.stop()


def test_what_this_release_does_not_know_is_kept_and_shown(ada: CheckedClient) -> None:
    stored = ada.appliance.store.stored_settings
    with ada.appliance.store.database.transaction(durable=True):
        stored.put("attachments", {"maxBytes": 26214400})
        stored.put("license", {"token": "a.secret.token"})
        stored.put("server.port", 1)  # known, and not to be changed while running: it counts for nothing
    shown = {**DEFAULTS, "attachments": {"maxBytes": 26214400}}
    assert ada.ask("GET", PATH).data == shown
    assert change(ada, sync__cache_mib=1).data == {**shown, "sync.cache_mib": 1}
    assert stored.find("license") == {"token": "a.secret.token"}


# --- the effect of each ---


def test_the_level_of_the_log(ada: CheckedClient) -> None:
    logging.getLogger().setLevel("INFO")
    change(ada, log__level="debug")
    assert logging.getLogger().level == logging.DEBUG
    change(ada, log__level=None)
    assert logging.getLogger().level == logging.INFO


def test_whether_requests_are_logged(ada: CheckedClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    change(ada, log__requests=False)
    caplog.clear()
    ada.ask("GET", "/me")
    assert "request" not in caplog.messages
    change(ada, log__requests=True)
    assert caplog.messages.count("request") == 1


def test_who_may_read_the_metrics(ada: CheckedClient) -> None:
    """The first setting that is a list: one of JSON whichever way it goes, also when it is none again."""

    def status(peer: str) -> int:
        return ada.ask("GET", "/metrics", root="", peer=peer).status

    given = ["192.0.2.0/24", "2001:db8::7"]
    assert change(ada, metrics__allowed=given).data == {**DEFAULTS, "metrics.allowed": given}
    assert ada.ask("GET", PATH).data["metrics.allowed"] == given
    assert ada.appliance.store.stored_settings.find("metrics.allowed") == given
    assert [status(peer) for peer in ("192.0.2.9", "2001:db8::7", "198.51.100.1")] == [200, 200, 403]
    change(ada, metrics__allowed=given)  # nothing changes, nothing is audited
    assert change(ada, metrics__allowed=[]).data == DEFAULTS
    assert [status(peer) for peer in ("192.0.2.9", "127.0.0.1")] == [403, 200]
    assert change(ada, metrics__allowed=None).data == DEFAULTS
    assert ada.appliance.store.stored_settings.find("metrics.allowed") is None
    assert audited(ada.appliance) == ["metrics.allowed"] * 3


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections and never says a word; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def test_the_patience_with_servers(ada: CheckedClient) -> None:
    change(ada, remote__timeout=1)
    with silent_server() as port:
        began = time.monotonic()
        refused = ada.ask("POST", "/accounts", account_at("a@b.example", port, port))
        assert refused.refusal == (503, "provider_unavailable")
        endpoint = Endpoint("127.0.0.1", port, "none", "a", "b")
        with ada.appliance.store.database.transaction():
            connection = Connection("a@b.example", endpoint, endpoint)
            account = ada.appliance.store.accounts.add(ada.member["id"], None, connection)
        with pytest.raises(RemoteFault, match="timeout"), ada.appliance.connections.borrow(account):
            pass
        assert time.monotonic() - began < 10


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "desk")
    yield made
    made.close()


def test_how_often_folders_are_looked_at(desk: Desk, mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port)
    assert desk.ask("PATCH", PATH, {"sync.poll_interval": 1}).status == 200

    def see(count: int) -> None:
        mail_server.deliver(user, b"Subject: One\n\nOne\n", folder="Archive")
        items = f"/accounts/{account}/messages?folder=Archive"
        wait_until(lambda: len(desk.ask("GET", items).data["items"]) == count, lambda: "nobody looked", 10)

    see(1)
    see(2)  # after the look that the change itself brought


def test_how_much_is_kept_of_what_was_fetched(ada: CheckedClient, mail_server: MailServer) -> None:
    box = ConnectedMailbox(ada, mail_server)
    (one,) = box.deliver(b"Subject: One\n\nOne\n")
    change(ada, sync__cache_mib=0)
    assert box.ask("GET", f"/messages/{one}/raw").refusal == (422, "unsupported_capability")
    change(ada, sync__cache_mib=1)
    assert box.ask("GET", f"/messages/{one}/raw").status == 200


def test_how_long_the_steps_of_deliveries_are_kept(
    desk: Desk, scripted_smtp: ScriptedSmtp, mail_server: MailServer
) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    operation = desk.send(account, a_message()).data["operationId"]
    database = desk.appliance.store.database
    with database.transaction():
        database.change("UPDATE delivery_phases SET at = '2020-01-01T00:00:00.000Z'")
        database.change("DELETE FROM delivery_chores")
    steps = "SELECT count(*) FROM delivery_phases"
    assert database.value(steps) > 0
    assert desk.ask("PATCH", PATH, {"store.keep_phases_days": 3}).status == 200
    wait_until(lambda: database.value(steps) == 0, lambda: str(database.value(steps)), 10)
    assert desk.delivery(account, operation).data["status"] == "succeeded"


def test_how_many_events_are_kept_and_how_long(desk: Desk) -> None:
    database = desk.appliance.store.database

    def add(count: int, at: int) -> None:
        with database.transaction():
            for _ in range(count):
                database.change("INSERT INTO changes (at, kind, subject) VALUES (?, 10, 'disk')", (at,))

    def positions() -> int:
        return int(database.value("SELECT count(*) FROM changes"))

    add(30, 1)
    assert desk.ask("PATCH", PATH, {"events.keep_days": 1}).status == 200
    wait_until(lambda: database.value("SELECT count(*) FROM changes WHERE at = 1") == 0, lambda: str(positions()), 10)
    add(2000, 1 << 50)
    assert desk.ask("PATCH", PATH, {"events.keep_count": 1000}).status == 200
    wait_until(lambda: positions() <= 1000, lambda: str(positions()), 10)


def test_how_long_an_approval_can_be_given(desk: Desk, scripted_smtp: ScriptedSmtp, mail_server: MailServer) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    assert desk.ask("PUT", f"/accounts/{account}/sending-policy", {"approval": "always"}).status == 200
    assert desk.ask("PATCH", PATH, {"approvals.expire_days": 3}).status == 200
    assert desk.send(account, a_message()).data["status"] == "queued"
    (approval,) = desk.ask("GET", "/approvals").data["items"]
    lasts = from_timestamp(approval["expiresAt"]) - from_timestamp(approval["createdAt"])
    assert lasts == timedelta(days=3)


def test_whether_webhooks_may_be_private(ada: CheckedClient) -> None:
    body = {"url": "http://127.0.0.1:9/hook", "types": ["message.created"]}
    assert ada.ask("POST", "/webhooks", body).refusal == (400, "invalid_request")
    change(ada, webhooks__allow_private=True)
    assert ada.ask("POST", "/webhooks", body).status == 201


def test_when_little_room_is_told(ada: CheckedClient) -> None:
    assert ada.ask("GET", "/status").warnings == []
    change(ada, store__low_space_mib=1 << 40)
    (warning,) = ada.ask("GET", "/status").warnings
    assert "almost full" in warning
    change(ada, store__low_space_mib=0)
    assert ada.ask("GET", "/status").warnings == []


def test_which_daily_backups_are_made_and_kept(timed: Appliance, clock: FakeClock) -> None:
    ada = CheckedClient(timed).set_up()

    def days_later(days: int = 1) -> int:
        """How many there are after so many days."""
        for _ in range(days):
            clock.advance(86_400)
            timed.daily_backup.run_once()
        return len(ada.ask("GET", "/admin/backups").data["items"])

    change(ada, backup__keep_daily=1, backup__keep_weekly=0)
    assert days_later(3) == 1
    change(ada, backup__keep_daily=3)
    assert days_later(4) == 3
    change(ada, backup__keep_daily=1, backup__keep_weekly=2)
    assert days_later(14) > 1
    change(ada, backup__daily=False)
    newest = ada.ask("GET", "/admin/backups").data["items"][0]
    days_later(2)
    assert ada.ask("GET", "/admin/backups").data["items"][0] == newest


def test_whether_scheduled_sends_wait(desk: Desk, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    assert desk.ask("PATCH", PATH, {"sending.hold_scheduled": True}).status == 200
    due = datetime.now(UTC) + timedelta(seconds=0.5)
    operation = desk.send(account, a_message(sendAt=to_timestamp(due))).data["operationId"]
    wait_until(lambda: datetime.now(UTC) > due + timedelta(seconds=1), lambda: "the clock stands still", 10)
    assert desk.delivery(account, operation).data["status"] == "queued"
    assert desk.ask("PATCH", PATH, {"sending.hold_scheduled": False}).status == 200
    assert desk.wait_for(account, operation, "succeeded")


def test_how_sends_go(desk: Desk, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> None:
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)

    def send(**values: Any) -> str:
        desk.ask("PATCH", PATH, {name.replace("__", "."): value for name, value in values.items()})
        answer = desk.send(account, a_message())
        return str(answer.data["status"]) if answer.status == 200 else answer.code

    opened = scripted_smtp.count("connect")
    assert [send(sending__keep_connection=60), send()] == ["succeeded", "succeeded"]
    assert scripted_smtp.count("connect") == opened + 1
    assert [send(sending__keep_connection=0), send()] == ["succeeded", "succeeded"]
    assert scripted_smtp.count("connect") == opened + 3
    scripted_smtp.at("reply", Stall())
    assert send(sending__answer_within=0, sending__dot_timeout=1) == "sending"
    assert send(sending__answer_within=20) == "uncertain"
    scripted_smtp.release()
    scripted_smtp.at("reply", None)
    for name in (option.name for option in RUNTIME_OPTIONS if "_per_" in option.name):
        assert (send(**{name: 1}), send(**{name: None})) == ("too_many_attempts", "succeeded")


def test_where_https_is_offered_and_how_long_browsers_keep_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep to it where this computer trusts the certificate: OpenSSL asks the environment whom it trusts."""
    with served(tmp_path / "data") as ada:
        change(ada, server__https=True, server__https_host="127.0.0.2", server__https_port=0)
        assert ada.appliance.https is not None
        url = ada.appliance.https.url
        assert url is not None
        assert urlsplit(url).hostname == "127.0.0.2"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "data" / "tls" / "cert.pem"))
        assert kept_to(url) is None
        change(ada, server__https=False)
        change(ada, server__https=True, server__hsts_days=2)
        url = ada.appliance.https.url
        assert url is not None
        assert kept_to(url) == "max-age=172800"
        change(ada, server__hsts_days=0)
        assert kept_to(url) is None


def kept_to(url: str) -> str | None:
    """What an answer over HTTPS tells browsers about keeping to it."""
    connection = http.client.HTTPSConnection(urlsplit(url).netloc, timeout=10, context=any_certificate())
    connection.request("GET", "/healthz")
    found = connection.getresponse().headers["Strict-Transport-Security"]
    connection.close()
    return found


def test_every_one_of_them_has_a_test_of_its_effect() -> None:
    text = Path(__file__).read_text() + Path(__file__).with_name("test_provenance.py").read_text()
    written = {
        option.name for option in RUNTIME_OPTIONS if option.name in text or option.name.replace(".", "__") in text
    }
    assert {option.name for option in RUNTIME_OPTIONS if "_per_" not in option.name} <= written
