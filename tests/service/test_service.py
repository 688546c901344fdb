"""A restore replaces the appliance behind the listeners; whatever fails, an intact one keeps serving."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.service import service as serving_module
from mailbox_appliance.service.bootstrap import Bootstrap
from mailbox_appliance.service.service import Service
from mailbox_appliance.settings import Value
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.files import KEY_FILE
from mailbox_appliance.store.restore import swap
from mailbox_appliance.store.restore.restore import complete_restore
from mailbox_appliance.store.store import Store
from tests.servers.desk import ADMIN, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.running import PASSWORD, Answer, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp

_FLAGS: dict[str, Value] = {"server.port": 0, "server.host": "127.0.0.1"}


def back_up(appliance: RunningAppliance) -> str:
    """Create a backup and return its ID."""
    answer = appliance.ask("POST", "/admin/backups", {})
    assert answer.status == 201, answer
    return str(answer.data["id"])


def restore(appliance: RunningAppliance, backup_id: str, **more: Any) -> Answer:
    """Request a restore, and wait until requests are served again."""
    answer = appliance.ask("POST", "/admin/restore", {"backupId": backup_id, **more})
    wait_until(lambda: appliance.ask("GET", "/").status == 200, lambda: "it does not answer again", 30)
    # The first response may be from before the shutdown.
    wait_until(lambda: has_restored(appliance), lambda: str(appliance.ask("GET", "/admin/audit-events")), 30)
    return answer


def has_restored(appliance: RunningAppliance) -> bool:
    answer = appliance.ask("GET", "/admin/audit-events?limit=3")
    return answer.status == 200 and "backup.restore" in {event["action"] for event in answer.data["items"]}


# --- as a process -----------------------------------------------------------------------------------------------------


def test_the_service_goes_on_with_what_was_restored(running: RunningAppliance) -> None:
    """The process, address, connections and sessions stay."""
    backup = back_up(running)
    assert running.ask("PATCH", "/me", {"name": "Somebody else"}).status == 200
    pid, run = running.process and running.process.pid, (running.folder / "run.json").read_text()
    kept = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=30)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read() == b"ok\n"
    port = kept.sock.getsockname()[1]

    refused = list[tuple[int, str | None]]()
    ending = threading.Event()
    asking = threading.Thread(target=_ask_all_the_time, args=(running.url, refused, ending))
    asking.start()
    answer = restore(running, backup)
    ending.set()
    asking.join()

    assert (answer.status, answer.data["members"]) == (202, 1)
    assert running.ask("GET", "/me").data["member"]["name"] == "Ada"
    assert running.process is not None
    assert running.process.poll() is None
    assert (running.process.pid, (running.folder / "run.json").read_text()) == (pid, run)
    assert {status for status, _ in refused} <= {503}
    assert all(retry_after for _, retry_after in refused)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read() == b"ok\n"
    assert kept.sock.getsockname()[1] == port, "it is the same connection"
    kept.close()
    secret = json.loads(run)["secret"]
    assert running.ask("GET", "/admin/backups", token=secret).status == 200, "the operator is still known"
    reasons = [one["reason"] for one in running.ask("GET", "/admin/backups").data["items"]]
    assert reasons == ["pre-restore", "manual"]
    newest = running.ask("GET", "/admin/audit-events?limit=1").data["items"][0]
    assert (newest["action"], newest["outcome"], newest["actor"]["kind"]) == ("backup.restore", "success", "session")
    assert running.ask("GET", "/admin/audit-events/verify").data["ok"]
    assert running.stop() == 0
    left = {path.name for path in running.folder.iterdir()}
    assert left == {KEY_FILE, "backups", "lock", "logs", "mailbox.db"}


def test_https_stays_through_a_restore(tmp_path: Path) -> None:
    """Port and certificate stay, although the backup has neither."""
    opened = list[Appliance]()
    with serving(tmp_path, opened.append) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        change = {"enabled": True, "port": 0, "host": "127.0.0.1"}
        shown = served.ask("PATCH", "/admin/https", change).data
        assert shown["url"] == served.service.listening.url
        assert served.restore(backup) == "success"
        assert served.ask("GET", "/admin/https").data == shown
        assert opened[1].https is served.service.listening
        assert served.ask("PATCH", "/admin/https", {"enabled": False}).data["url"] is None


def _ask_all_the_time(url: str, refused: list[tuple[int, str | None]], ending: threading.Event) -> None:
    while not ending.wait(0.005):
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        connection.request("GET", "/api/v1/")
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            refused.append((answer.status, answer.headers["Retry-After"]))
        connection.close()


def test_nothing_is_sent_twice_and_nothing_revoked_lives_again(
    running: RunningAppliance, mail_server: MailServer, scripted_smtp: ScriptedSmtp
) -> None:
    user = mail_server.fresh_user()
    scripted_smtp.user = user
    account = running.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    keys = {name: _key(running, name) for name in ("revoked", "kept")}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    path = f"/accounts/{account}/send"
    later = running.ask("POST", path, a_message(subject="Later", sendAt=at), Idempotency_Key="later").data
    backup = back_up(running)

    sent = running.ask("POST", path, a_message(subject="Now"), Idempotency_Key="now")
    assert (sent.status, sent.data["status"]) == (200, "succeeded")
    wait_until(lambda: len(scripted_smtp.messages) == 2, lambda: str(scripted_smtp.messages), 15)
    assert running.ask("DELETE", f"/me/api-keys/{keys['revoked'][0]}").status == 200
    changed = {"currentPassword": PASSWORD, "newPassword": "another battery staple"}
    assert running.ask("POST", "/me/password", changed).status == 200

    assert restore(running, backup).status == 202
    again = running.ask("POST", path, a_message(subject="Now"), Idempotency_Key="now")
    assert (again.status, again.data["operationId"], again.data["status"]) == (
        200,
        sent.data["operationId"],
        "succeeded",
    )
    operation = f"/accounts/{account}/delivery-operations/{later['operationId']}"
    assert running.ask("GET", operation).data["status"] == "succeeded"
    assert [running.ask("GET", "/me", token=token).status for _, token in keys.values()] == [401, 200]
    login = {"email": "ada@example.org", "deviceName": "d"}
    found = [running.ask("POST", "/auth/login", {**login, "password": one}).status for one in changed.values()]
    assert found == [401, 200]
    # A message that is resent would be sent before this one.
    assert running.ask("POST", path, a_message(subject="After"), Idempotency_Key="after").status == 200
    assert len(scripted_smtp.messages) == 3


def _key(appliance: RunningAppliance, name: str) -> tuple[str, str]:
    request: dict[str, Any] = {
        "name": name,
        "permissionProfile": "read-only",
        "supplementalCapabilities": [],
        "accounts": None,
    }
    answer = appliance.ask("POST", "/me/api-keys", request)
    assert answer.status == 201, answer
    return answer.data["apiKey"]["id"], answer.data["token"]


def test_being_told_to_end_during_a_restore(running: RunningAppliance) -> None:
    """The process ends in order, and the store is either the previous or the restored one, intact."""
    backup = back_up(running)
    running.ask("PATCH", "/me", {"name": "Somebody else"})
    assert running.ask("POST", "/admin/restore", {"backupId": backup}).status == 202
    assert running.process is not None
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    store = Store.open(running.folder)
    done = [event.outcome for event in store.audit.list(None, 3)[0] if event.action == "backup.restore"]
    assert (store.members.list()[0].name == "Ada") == ("success" in done)
    assert store.audit.verify().broken is None
    store.close()
    assert not [path.name for path in running.folder.iterdir() if path.name.startswith(".next")]


# --- in this process --------------------------------------------------------------------------------------------------


class Served:
    """A service in a thread of this process, set up, with its prepare function."""

    def __init__(self, folder: Path, prepare: Callable[[Appliance], None]) -> None:
        opening = Bootstrap(folder, folder / KEY_FILE, flags=_FLAGS, prepare=prepare)
        appliance = opening.open(opening.load_settings())
        self.token = add_first_admin(appliance, convert_body(ADMIN, CreateFirstAdminRequest), Actor("local")).token
        self.appliance, self.service = appliance, Service(opening, appliance)
        self.folder, self._thread = folder, threading.Thread(target=self._serve, name="serving")
        self.failure: Exception | None = None

    def start(self) -> None:
        self.service.start()
        self._thread.start()

    def _serve(self) -> None:
        try:
            self.service.serve()
        except Exception as failure:  # noqa: BLE001 - whatever it is, a test looks at it
            self.failure = failure

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def close(self) -> None:
        self.service.stop()
        self.join()
        self.service.close()
        assert self.failure is None

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        remote = RunningAppliance(self.folder)
        remote.url, remote.token = self.service.listening.local_url, self.token
        return remote.ask(method, path, body)

    def restore(self, backup_id: str) -> str:
        """Restore, wait until it serves again, and return the outcome in the audit log."""
        before = {one["id"] for one in self._restores()}
        assert self.ask("POST", "/admin/restore", {"backupId": backup_id}).status == 202
        ended = list[str]()

        def has_ended() -> bool:
            ended[:] = [one["outcome"] for one in self._restores() if one["id"] not in before]
            return bool(ended)

        wait_until(has_ended, lambda: "the restore does not end", 60)
        return ended[0]

    def _restores(self) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/admin/audit-events?action=backup.restore")
        return list(answer.data["items"]) if answer.status == 200 else []


@contextmanager
def serving(folder: Path, prepare: Callable[[Appliance], None]) -> Iterator[Served]:
    served = Served(folder, prepare)
    served.start()
    try:
        yield served
    finally:
        served.close()


def names_of_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


def test_the_appliance_from_before_ends_and_whoever_subscribed_hears_of_the_new_one(tmp_path: Path) -> None:
    prepared = list[Appliance]()
    with serving(tmp_path, prepared.append) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        before = names_of_threads()
        descriptors = len(os.listdir("/proc/self/fd"))
        assert served.restore(backup) == "success"
        wait_until(lambda: names_of_threads() == before, lambda: f"{before} {names_of_threads()}", 10)
        assert len(prepared) == 2
        assert prepared[0] is not prepared[1]
        assert prepared[1].local_url == served.service.listening.local_url
        wait_until(
            lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 2, lambda: str(os.listdir("/proc/self/fd")), 10
        )
        assert served.restore(backup) == "success"


def test_the_configuration_is_that_of_the_backup_or_of_before(tmp_path: Path) -> None:
    config, opened = tmp_path / "config.toml", list[Appliance]()

    def prepare(appliance: Appliance) -> None:
        opened.append(appliance)
        if len(opened) == 3:
            raise RuntimeError("the restored one is of no use")

    def kept() -> list[int]:
        return [one.settings.number("backup.keep_daily") for one in opened]

    config.write_text("[backup]\nkeep_daily = 3\n")
    with serving(tmp_path, prepare) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        config.write_text("[backup]\nkeep_daily = 5\n")
        assert served.restore(backup) == "success"
        assert (kept(), config.read_text()) == ([3, 3], "[backup]\nkeep_daily = 3\n")
        config.unlink()
        assert served.restore(backup) == "failure"
        assert (kept()[2:], config.exists()) == ([3, 7], False)


def test_a_configuration_that_a_restore_has_decided_counts_from_the_first_start_on(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    opening = Bootstrap(tmp_path, tmp_path / KEY_FILE)
    (tmp_path / "config.toml").write_text("broken = ")
    (swap.begin(tmp_path) / "config.toml").write_text("[backup]\nkeep_daily = 3\n")
    swap.commit(tmp_path, tmp_path / KEY_FILE)
    opening.finish_pending_restore()
    assert opening.load_settings().number("backup.keep_daily") == 3


def test_what_fails_once_it_works_again_brings_nothing_back(tmp_path: Path) -> None:
    """The new appliance may have sent mail, which the previous store would send again."""
    opened = list[Appliance]()

    def prepare(appliance: Appliance) -> None:
        opened.append(appliance)
        if len(opened) == 2:
            appliance.scheduler.start()  # prevents its start

    served = Served(tmp_path, prepare)
    served.start()
    backup = served.ask("POST", "/admin/backups", {}).data["id"]
    served.ask("PATCH", "/me", {"name": "Somebody else"})
    assert served.ask("POST", "/admin/restore", {"backupId": backup}).status == 202
    served.join()
    assert isinstance(served.failure, RuntimeError)
    served.service.close()
    store = Store.open(tmp_path)
    assert store.members.list()[0].name == "Ada"
    store.close()


def test_where_the_restored_store_does_not_open_what_was_there_is_put_back(tmp_path: Path) -> None:
    opened = list[Appliance]()

    def prepare(appliance: Appliance) -> None:
        opened.append(appliance)
        if len(opened) == 2:
            raise RuntimeError("the restored one is of no use")

    with serving(tmp_path, prepare) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        served.ask("PATCH", "/me", {"name": "Somebody else"})
        assert served.restore(backup) == "failure"
        assert served.ask("GET", "/me").data["member"]["name"] == "Somebody else"
        assert len(opened) == 3
        assert served.ask("GET", "/admin/audit-events/verify").data["ok"]


def test_a_restore_that_fails_before_it_is_decided_leaves_everything(tmp_path: Path) -> None:
    """Here the previous store cannot be kept."""
    with serving(tmp_path, lambda _: None) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        served.ask("PATCH", "/me", {"name": "Somebody else"})
        take = served.appliance.start_restore
        assert take is not None

        def in_the_way(*handed: Any) -> None:
            (tmp_path / "backups").rename(tmp_path / "kept")
            (tmp_path / "backups").touch()
            take(*handed)

        served.appliance.start_restore = in_the_way
        assert served.restore(backup) == "failure"
        assert served.ask("GET", "/me").data["member"]["name"] == "Somebody else"
        assert not list(tmp_path.glob(".next*"))


def test_told_to_end_while_a_restore_waits_it_ends_in_time(tmp_path: Path) -> None:
    """The restore waits for a slow request; nothing is restored, and the audit log records that."""
    served = Served(tmp_path, lambda _: None)
    served.start()
    backup = served.ask("POST", "/admin/backups", {}).data["id"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port, answers = silent.getsockname()[1], list[Answer]()
        request = account_at("x@y.test", port, port)
        asking = threading.Thread(target=lambda: answers.append(served.ask("POST", "/accounts", request)))
        asking.start()
        waiting, _ = silent.accept()
        assert served.ask("POST", "/admin/restore", {"backupId": backup}).status == 202
        wait_until(lambda: served.ask("GET", "/").status == 503, lambda: "it does not rest", 10)
        began = time.monotonic()
        served.close()
        assert time.monotonic() - began < 7
        asking.join()
        waiting.close()
        assert answers[0].status == 503
    store = Store.open(tmp_path)
    assert [event.outcome for event in store.audit.list(None, 1)[0]] == ["failure"]
    store.close()


def given_up(folder: Path) -> list[tuple[str, str | None, str]]:
    """Return how abandoned restores ended, as the audit log shows after the next start and the one after."""
    for _ in range(2):
        store = Store.open(folder)
        try:
            events = [event for event in store.audit.list(None, 50)[0] if event.action == "backup.restore"]
            assert store.audit.verify().broken is None
        finally:
            store.close()
        assert not list(folder.glob(".next*"))
    return [(event.actor.kind, event.target.id if event.target else None, event.outcome) for event in events]


@pytest.mark.parametrize("at", ["before it begins", "while it is made ready"])
def test_a_restore_that_was_accepted_and_then_given_up_is_told(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(tmp_path, lambda _: None)
    completed = complete_restore

    def stopped_then(*handed: Any) -> object:
        served.service.stop()
        return completed(*handed)

    if at == "while it is made ready":
        monkeypatch.setattr(serving_module, "complete_restore", stopped_then)
    served.start()
    backup = served.ask("POST", "/admin/backups", {}).data["id"]
    if at == "before it begins":
        take = served.appliance.start_restore
        assert take is not None

        def stopped(*handed: Any) -> None:
            served.service.stop()
            served.join()
            take(*handed)

        served.appliance.start_restore = stopped
    answer = served.ask("POST", "/admin/restore", {"backupId": backup})
    assert answer.status == 202
    served.close()
    assert given_up(tmp_path) == [("session", backup, "failure")]


def test_a_restore_that_a_kill_left_behind_is_told_at_the_next_start(tmp_path: Path) -> None:
    """Except one past its point of no return, whose outcome the store itself shows."""
    with serving(tmp_path, lambda _: None) as served:
        backup = served.ask("POST", "/admin/backups", {}).data["id"]
        handed = list[tuple[Any, Actor]]()
        take = served.appliance.start_restore
        assert take is not None

        def killed(prepared: Any, actor: Actor) -> None:
            serving_module._note_restore(prepared, actor)
            handed.append((prepared, actor))

        served.appliance.start_restore = killed
        assert served.ask("POST", "/admin/restore", {"backupId": backup}).status == 202
    shutil.copytree(tmp_path, tmp_path.with_name("undecided"))
    assert given_up(tmp_path.with_name("undecided")) == [("session", backup, "failure")]
    complete_restore(handed[0][0], SystemClock(), handed[0][1])
    assert given_up(tmp_path) == [("session", backup, "success")]


def test_a_fault_in_a_reload_ends_nothing_and_the_service_manager_hears_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard, serving(tmp_path, lambda _: None) as served:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        config = tmp_path / "config.toml"
        for text in ("a = " + "[" * 10_000, "[server"):  # too deep for the parser
            config.write_text(text)
            served.service.reload()
            assert heard.recv(1000).startswith(b"RELOADING=1")
            assert heard.recv(1000) == b"READY=1"
            (warning,) = served.ask("GET", "/status").body["warnings"]
            assert warning.startswith("config.toml is invalid")
        config.write_text("[log]\nlevel = 'info'\n")
        served.service.reload()
        assert [heard.recv(1000)[:9], heard.recv(1000)] == [b"RELOADING", b"READY=1"]
        assert "warnings" not in served.ask("GET", "/status").body
