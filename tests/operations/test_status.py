"""What the appliance says of itself, and of the mailboxes that the caller reaches."""

from datetime import timedelta

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.sync import SyncProgress
from mailbox_appliance.system import crashes
from mailbox_appliance.tls.inspect import Certificate
from mailbox_appliance.version import __version__
from mailbox_appliance.web.app import App
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member
from tests.servers.desk import a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import account_at
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep
from tests.web.scraper import Scraper


def test_anybody_may_know_what_answers(appliance: Appliance) -> None:
    anybody = CheckedClient(appliance)
    about = {"name": "mailbox-appliance", "version": __version__, "apiVersion": "v1"}
    assert anybody.ask("GET", "/").data == about | {"setupRequired": True}
    anybody.set_up()
    for token in ("", "mbxs_wrong", None):
        assert anybody.ask("GET", "", token=token).data == about | {"setupRequired": False}


def test_status_needs_a_credential(appliance: Appliance) -> None:
    assert CheckedClient(appliance).ask("GET", "/status").refusal == (401, "unauthenticated")


def test_status(checked_client: CheckedClient, appliance: Appliance) -> None:
    own = FilledMailbox(appliance, checked_client.member["id"])
    FilledMailbox(appliance, add_member(appliance, "bob"), "bob@example.org")
    status = checked_client.ask("GET", "/status").data
    assert status.keys() == {"version", "uptimeSeconds", "store", "accounts", "deliveries"}
    assert (status["version"], status["store"]["format"]) == (__version__, 5)
    assert status["store"]["sizeBytes"] >= (appliance.folder / "mailbox.db").stat().st_size > 0
    assert status["store"]["freeBytes"] > 0
    assert status["accounts"] == [{"id": own.id, "status": "connecting", "lastSyncAt": None, "progress": None}]
    assert status["deliveries"] == {"queued": 0, "sending": 0, "uncertain": 0}
    _, key = add_key(appliance, checked_client.member["id"], "mail.read", accounts=[])
    assert checked_client.ask("GET", "/status", token=key).data["accounts"] == []


def test_little_room_on_the_disk_is_told(checked_client: CheckedClient) -> None:
    assert checked_client.ask("GET", "/status").warnings == []
    assert checked_client.ask("PATCH", "/admin/settings", {"store.low_space_mib": 1 << 30}).status == 200
    (warning,) = checked_client.ask("GET", "/status").warnings
    assert warning.startswith("The disk of the store is almost full: ")
    assert checked_client.ask("PATCH", "/admin/settings", {"store.low_space_mib": 0}).status == 200
    assert checked_client.ask("GET", "/status").warnings == []


def test_a_daily_backup_that_fails_is_told_until_one_is_made(timed: Appliance, clock: FakeClock) -> None:
    ada = CheckedClient(timed).set_up()
    backups = timed.folder / "backups"
    backups.write_text("")  # so that none can be made
    timed.daily_backup.run_once()
    (warning,) = ada.ask("GET", "/status").warnings
    assert warning.startswith("The daily backup failed.")
    assert str(timed.folder) not in warning
    assert ada.ask("GET", "/status").data["dailyBackup"] == "failed"
    backups.unlink()
    clock.advance(3601)
    timed.daily_backup.run_once()
    assert ada.ask("GET", "/status").warnings == []
    assert "dailyBackup" not in ada.ask("GET", "/status").data
    clock.advance(3 * 86_400)
    assert ada.ask("GET", "/status").warnings == [
        "The newest daily backup is 3 days old. Check the log of the appliance for the cause."
    ]
    assert ada.ask("GET", "/status").data["dailyBackup"] == "overdue"


def test_the_progress_of_a_mailbox_has_numbers_while_messages_are_counted(
    checked_client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    appliance = checked_client.appliance
    FilledMailbox(appliance, checked_client.member["id"])
    for progress, shown in (
        (SyncProgress("1,200 of 5,000 messages", (1200, 5000)), {"done": 1200, "total": 5000}),
        (SyncProgress("7 messages still without their text"), None),
        (None, None),
    ):
        monkeypatch.setattr(appliance.sync, "progress", lambda _, progress=progress: progress)
        (account,) = checked_client.ask("GET", "/status").data["accounts"]
        assert account["progress"] == (None if progress is None else progress.text)
        assert account.get("progressCount") == shown


class Listener:
    """An HTTPS listener as whoever serves gives it, with what it says."""

    url: str | None = None
    trouble: str | None = None
    certificate: Certificate | None = None

    def apply(self) -> None:
        """Nothing is to be done."""


def test_trouble_with_https_is_told_without_places(checked_client: CheckedClient, appliance: Appliance) -> None:
    appliance.https = listener = Listener()
    assert checked_client.ask("GET", "/status").warnings == []
    listener.trouble = f"The key {appliance.folder}/tls/key.pem does not fit the certificate."
    told = ["The key tls/key.pem does not fit the certificate."]
    assert checked_client.ask("GET", "/status").warnings == told
    checked_client.ask("PATCH", "/admin/settings", {"sending.hold_scheduled": True, "store.low_space_mib": 1 << 30})
    assert len(checked_client.ask("GET", "/status").warnings) == 3


def test_a_configuration_that_does_not_fit_or_waits_is_told(
    checked_client: CheckedClient, appliance: Appliance
) -> None:
    config = appliance.folder / "config.toml"
    config.write_text("[server]\nworkers = 3\n")
    appliance.apply_configuration(settings.load(config, {}))
    appliance.settings.is_file_invalid = True
    unfit, waiting = checked_client.ask("GET", "/status").warnings
    assert unfit.startswith("config.toml is invalid, and the next start would fail")
    assert waiting == "Changes of server.workers in config.toml take effect at the next start."
    config.unlink()
    appliance.apply_configuration(settings.load(config, {}))
    assert checked_client.ask("GET", "/status").warnings == []


def test_a_crash_is_shown_to_sessions_of_administrators_alone(
    checked_client: CheckedClient, appliance: Appliance
) -> None:
    (appliance.folder / "logs").mkdir(exist_ok=True)
    (appliance.folder / "logs" / "crash.txt").write_text("Fatal Python error: Bus error\n")
    crash = crashes.record(appliance.folder)
    assert crash is not None
    add_member(appliance, "bob")
    _, key = add_key(appliance, checked_client.member["id"], "mail.read", "admin.audit")
    bob = CheckedClient(appliance).log_in("bob@example.org")
    for answer in (checked_client.ask("GET", "/status", token=key), bob.ask("GET", "/status")):
        assert (answer.warnings, "lastCrash" in answer.data) == ([], False)
    answer = checked_client.ask("GET", "/status")
    assert answer.data["lastCrash"] == {"at": crash.at, "signal": "SIGBUS", "file": crash.file}
    assert answer.warnings == checked_client.ask("GET", "/admin/store").warnings == [crashes.warning(crash)]
    scraper = Scraper(App(appliance))
    assert scraper.value("warnings") == 1

    path = "/admin/crashes/{}/dismiss"
    assert bob.ask("POST", path.format(crash.file), {}).refusal == (403, "permission_denied")
    for other in ("crash-1.txt", "last-crash.json"):
        assert checked_client.ask("POST", path.format(other), {}).status == 200
    assert "lastCrash" in checked_client.ask("GET", "/status").data
    for _ in range(2):
        assert checked_client.ask("POST", path.format(crash.file), {}).data is None
        answer = checked_client.ask("GET", "/status")
        assert (answer.warnings, "lastCrash" in answer.data) == ([], False)
    assert scraper.value("warnings") == 0


def test_long_work_is_shown_while_it_lasts(checked_client: CheckedClient, appliance: Appliance) -> None:
    with appliance.exclusive_job.run("backup") as progress:
        progress("copying", 3, 10)
        shown = checked_client.ask("GET", "/status").data["store"]["progress"]
        assert shown == {"kind": "backup", "work": "A backup", "step": "copying", "done": 3, "total": 10}
        assert checked_client.ask("GET", "/admin/store").data["progress"] == shown
    assert "progress" not in checked_client.ask("GET", "/status").data["store"]
    assert "progress" not in checked_client.ask("GET", "/admin/store").data


def test_uptime_is_of_the_clock_that_only_grows(timed: Appliance, clock: FakeClock) -> None:
    ada = CheckedClient(timed).set_up()
    clock.advance(61.9)
    clock.set_wall(clock.now() - timedelta(days=1))
    assert ada.ask("GET", "/status").data["uptimeSeconds"] == 61


def test_deliveries_of_a_mailbox_that_was_removed_do_not_count(
    checked_client: CheckedClient, appliance: Appliance, scripted_smtp: ScriptedSmtp, mail_server: MailServer
) -> None:
    email = mail_server.fresh_user()
    request = account_at(email, mail_server.imap_port, scripted_smtp.port)
    request["smtp"]["username"] = "alice@example.test"
    account = checked_client.ask("POST", "/accounts", request).data["id"]
    scripted_smtp.at("reply", Keep(DROP))
    doubt = checked_client.ask("POST", f"/accounts/{account}/send", a_message(), headers={"Idempotency-Key": "k"})
    assert doubt.data["status"] == "uncertain"
    assert checked_client.ask("GET", "/status").data["deliveries"]["uncertain"] == 1
    checked_client.ask("DELETE", f"/accounts/{account}")
    assert checked_client.ask("GET", "/status").data["deliveries"]["uncertain"] == 0


def test_that_scheduled_sends_are_held_is_told(ada: CheckedClient) -> None:
    ada.ask("PATCH", "/admin/settings", {"sending.hold_scheduled": True})
    (warning,) = ada.ask("GET", "/status").warnings
    assert "scheduled release" in warning
    ada.ask("PATCH", "/admin/settings", {"sending.hold_scheduled": False})
    assert ada.ask("GET", "/status").warnings == []
