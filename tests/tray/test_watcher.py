"""The state that the watcher reads, from a real appliance and from canned responses."""

from dataclasses import replace
from pathlib import Path

import pytest

from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.tray import watcher as tray_watcher
from mailbox_appliance.tray.state import AccessLevel, HttpsState, ServiceState, TrayState
from mailbox_appliance.tray.watcher import ApplianceWatcher
from tests.cli.recording_server import Canned
from tests.servers.running import RunningAppliance
from tests.tray.watched import CHEAP, CREATED, DEAR, FILE, KNOWN, PID, RESTARTING, STATUS, Scene, online, scene

__all__ = ["online", "scene"]  # fixtures


# --- A real appliance ---


def test_the_life_of_an_appliance(tmp_path: Path) -> None:
    data_dir, tokens = tmp_path / "data", TokenStore(tmp_path / "config", FILE)
    watcher = ApplianceWatcher(data_dir, tokens, FILE)
    assert watcher.poll() == TrayState(ServiceState.STOPPED)
    running = RunningAppliance(data_dir).start()
    try:
        code = (data_dir / "setup-code").read_text().strip()
        new = TrayState(ServiceState.ANSWERS, running.url, code)
        assert watcher.poll() == new
        token = running.set_up()
        assert watcher.poll() == replace(new, setup_code=None)
        tokens.put(local_key(data_dir), token)
        assert watcher.poll() == TrayState(
            ServiceState.ANSWERS, running.url, access=AccessLevel.ADMINISTRATOR, https=HttpsState(enabled=False)
        )
        backup = running.ask("POST", "/admin/backups", {}).data
        running.ask("PATCH", "/admin/https", {"enabled": True, "port": 0})
        running.ask("PATCH", "/admin/settings", {"sending.hold_scheduled": True})
        watcher.poll_all_next()
        known = watcher.poll()
        assert known.last_backup == backup["createdAt"]
        assert known.backup is not None
        assert known.backup.succeeded
        assert known.https is not None
        assert known.https.enabled
        assert str(known.https.fingerprint).startswith("sha256:")
        assert known.warnings[0].startswith("Scheduled messages are on hold")
        assert watcher.client().call(tray_watcher._get_request("/me"))["data"]["member"]["role"] == "admin"
        running.kill()
        assert watcher.poll() == replace(known, service=ServiceState.STOPPED, url=None)
    finally:
        running.stop()


# --- Files only ---


def test_one_that_starts(scene: Scene) -> None:
    with scene.owned(run=None):
        assert scene.watcher.poll() == TrayState(ServiceState.STARTING)
        scene.clock.advance(59)
        assert scene.watcher.poll() == TrayState(ServiceState.STARTING)
        scene.clock.advance(2)
        assert scene.watcher.poll() == TrayState(ServiceState.SILENT)


def test_one_that_starts_after_one_that_was_killed(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned(pid=PID + 1):  # its files belong to another process
        assert scene.watcher.poll() == TrayState(ServiceState.STARTING)
    assert scene.asked() == []


def test_one_that_said_where_it_listens_before_it_answers(scene: Scene) -> None:
    with scene.owned(url="http://127.0.0.1:9"):
        assert scene.watcher.poll() == TrayState(ServiceState.STARTING, "http://127.0.0.1:9")
        scene.clock.advance(61)
        assert scene.watcher.poll().service is ServiceState.SILENT


def test_another_process_has_its_own_minute(scene: Scene) -> None:
    with scene.owned(pid=PID, run=None):
        scene.watcher.poll()
        scene.clock.advance(61)
        assert scene.watcher.poll().service is ServiceState.SILENT
    with scene.owned(pid=PID + 1, run=None):
        assert scene.watcher.poll().service is ServiceState.STARTING


def test_one_that_ends(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.poll()
        (scene.data_dir / "run.json").unlink()
        assert scene.watcher.poll() == replace(known, service=ServiceState.STOPPING, url=None)
    assert scene.watcher.poll() == replace(known, service=ServiceState.STOPPED, url=None)


def test_one_that_does_not_answer_any_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tray_watcher, "_ANSWER_SECONDS", 0.2)
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.poll()
        scene.server.answer("GET", "/accounts", Canned(silent=True))
        assert scene.watcher.poll() == replace(known, service=ServiceState.SILENT)
        scene.answers()
        assert scene.watcher.poll() == known


def test_one_that_rests_while_it_is_restored(online: Scene) -> None:
    known = online.watcher.poll()
    online.server.answer("GET", "/accounts", RESTARTING)
    assert online.watcher.poll() == replace(known, service=ServiceState.RESTS)
    online.answers()
    online.asked()
    assert online.watcher.poll() == known
    assert online.asked() == CHEAP + DEAR  # the outcome is visible at once


def test_one_that_rests_says_so_to_everybody(scene: Scene) -> None:
    scene.server.answer("GET", "", RESTARTING)
    with scene.owned():
        assert scene.watcher.poll() == TrayState(ServiceState.RESTS, scene.server.url)


def test_one_that_has_trouble_with_a_question_answers(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.poll()
        for trouble in (Canned(500), Canned(raw=b"<p>"), Canned(value={"data": None}), Canned(value=[])):
            scene.server.answer("GET", "/status", trouble)
            assert scene.watcher.poll() == known


# --- Requests, and how often ---


def test_what_costs_more_is_asked_less_often(online: Scene) -> None:
    assert online.watcher.poll() == replace(KNOWN, url=online.server.url)
    assert online.asked() == CHEAP + DEAR
    online.pass_by(tray_watcher.FULL_POLL_SECONDS - 1)
    assert online.watcher.poll() == replace(KNOWN, url=online.server.url)
    assert online.asked() == CHEAP
    online.pass_by(1)
    online.watcher.poll()
    assert online.asked() == CHEAP + DEAR
    online.watcher.poll_all_next()
    online.watcher.poll()
    assert online.asked() == CHEAP + DEAR


def test_an_appliance_that_is_another_one_is_asked_everything(online: Scene) -> None:
    """After a restore in the same process, which takes less time than passes between two polls."""
    online.watcher.poll()
    online.pass_by(30)
    online.watcher.poll()
    online.asked()
    online.clock.advance(30)
    online.has_run_for(26)
    online.watcher.poll()
    assert online.asked() == CHEAP + DEAR
    online.watcher.poll()
    assert online.asked() == CHEAP


def test_what_is_new_is_seen_without_a_question(scene: Scene) -> None:
    scene.answers()
    assert scene.watcher.poll().service is ServiceState.STOPPED
    scene.log_in()
    with scene.owned():
        assert scene.watcher.has_news()
        scene.watcher.poll()
        scene.asked()
        assert not scene.watcher.has_news()
        scene.log_in("mbxs_another")
        assert scene.watcher.has_news()
        scene.watcher.poll()
        scene.asked()
    assert scene.watcher.has_news(), "it has ended"
    scene.watcher.poll()
    assert not scene.watcher.has_news()
    assert scene.asked() == []


def test_trouble_with_one_dear_question_leaves_the_others(online: Scene) -> None:
    known = online.watcher.poll()
    online.server.answer("GET", "/admin/https", Canned(500))
    online.server.data("GET", CREATED, {"items": []})
    online.watcher.poll_all_next()
    assert online.watcher.poll() == replace(known, backup=None)


def test_a_member_who_is_no_administrator(scene: Scene) -> None:
    scene.answers(role="member")
    scene.log_in()
    with scene.owned():
        known = scene.watcher.poll()
        assert (known.access, known.https, known.last_backup) == (AccessLevel.MEMBER, None, None)
        assert scene.asked() == [*CHEAP, "/me"]


def test_an_administrator_who_is_none_any_more(online: Scene) -> None:
    online.watcher.poll()
    online.answers(role="member")
    online.watcher.poll_all_next()
    known = online.watcher.poll()
    assert (known.access, known.https, known.last_backup, known.backup) == (AccessLevel.MEMBER, None, None, None)


@pytest.mark.parametrize(
    ("kind", "is_backup"),
    [("backup", True), ("daily_backup", True), ("backup_verification", False), ("store_check", False), (None, False)],
)
def test_whether_a_backup_is_being_made(kind: str | None, is_backup: bool, scene: Scene) -> None:
    """The kind of the job decides; its name may be worded in any way."""
    scene.answers(role="member")
    progress = {"work": "A backup", "step": "copying", "done": 1, "total": 2} | ({"kind": kind} if kind else {})
    scene.server.data("GET", "/status", {**STATUS, "store": {"format": 5, "progress": progress}})
    scene.log_in()
    with scene.owned():
        assert scene.watcher.poll().is_backing_up is is_backup


@pytest.mark.parametrize(("trouble", "has_failed"), [(None, False), ("overdue", False), ("failed", True)])
def test_a_failed_backup_is_known_by_its_field(trouble: str | None, has_failed: bool, scene: Scene) -> None:
    scene.answers(role="member")
    field = {} if trouble is None else {"dailyBackup": trouble}
    envelope = {"data": {**STATUS, **field}, "warnings": ["The daily backup failed."]}
    scene.server.answer("GET", "/status", Canned(200, envelope))
    scene.log_in()
    with scene.owned():
        known = scene.watcher.poll()
        assert (known.has_failed_daily_backup, len(known.warnings)) == (has_failed, 1)


def test_disabled_webhooks_are_counted_by_their_field(scene: Scene) -> None:
    scene.answers(role="member")
    scene.log_in()
    with scene.owned():
        assert scene.watcher.poll().disabled_webhooks == 0
        scene.server.data("GET", "/status", {**STATUS, "disabledWebhooks": 2})
        assert scene.watcher.poll().disabled_webhooks == 2


def test_pending_approvals_are_counted_by_their_field(scene: Scene) -> None:
    scene.answers(role="member")
    scene.log_in()
    with scene.owned():
        assert scene.watcher.poll().pending_approvals == 0
        scene.server.data("GET", "/status", {**STATUS, "pendingApprovals": 2})
        for listed, known in ((["apr_2"], "apr_2"), (["apr_3"], "apr_3"), (["apr_1"], "apr_3"), ([], "apr_3")):
            scene.server.data("GET", "/approvals?status=pending&limit=1", {"items": [{"id": one} for one in listed]})
            state = scene.watcher.poll()
            assert (state.pending_approvals, state.newest_approval) == (2, known)


def test_progress_without_numbers_has_no_percentage(scene: Scene) -> None:
    scene.answers(role="member")
    accounts = [{"id": "acc_1", "status": "syncing", "progress": "1,200 of 5,000 messages"}]
    scene.server.data("GET", "/status", {**STATUS, "accounts": accounts})
    scene.log_in()
    with scene.owned():
        (mailbox,) = scene.watcher.poll().mailboxes
        assert (mailbox.is_fetching, mailbox.count) == (True, None)
