"""What the watcher finds out: of a real appliance, and of one that answers as a test tells it."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mailbox_appliance import system
from mailbox_appliance.control.failures import Failure
from mailbox_appliance.control.instances import local_key
from mailbox_appliance.control.tokens import Tokens
from mailbox_appliance.tray import log_in, watching
from mailbox_appliance.tray.state import Access, Https, Mailbox, Outcome, Service, State
from mailbox_appliance.tray.watching import Watcher
from tests.cli.recording_server import Canned, RecordingServer
from tests.servers.dovecot import wait_until
from tests.servers.fake_clock import FakeClock
from tests.servers.running import RunningAppliance
from tests.test_keychain import BACKENDS

FILE = {"MAILBOX_APPLIANCE_KEYCHAIN": "off"}
PID = os.getpid()
ACCOUNT = {"id": "acc_1", "email": "ada@example.org", "status": "syncing", "error": None}
STATUS = {
    "accounts": [{"id": "acc_1", "status": "syncing", "progress": "1 of 2 messages"}],
    "deliveries": {"queued": 1, "sending": 0, "uncertain": 2},
    "store": {"format": 5},
}
HTTPS = {"enabled": True, "url": "https://127.0.0.1:8443", "certificate": {"fingerprint": "sha256:00"}}
CREATED, RESTORED = (f"/admin/audit-events?action=backup.{what}&limit=1" for what in ("create", "restore"))
BACKUPS = "/admin/backups?limit=1"
REFUSED = Canned(401, {"error": {"code": "unauthenticated", "message": "Log in again."}})
RESTARTING = Canned(503, {"error": {"code": "provider_unavailable", "message": "Repeat it in a few seconds."}})


@dataclass
class Scene:
    """A data directory and who watches it. `server` answers where `owned` says that it does."""

    folder: Path
    server: RecordingServer
    clock: FakeClock

    def __post_init__(self) -> None:
        (self.folder / "data").mkdir()
        self.watcher = self.watching(FILE)

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def tokens(self, environment: dict[str, str]) -> Tokens:
        return Tokens(self.folder / "config", environment)

    def watching(self, environment: dict[str, str]) -> Watcher:
        return Watcher(self.data_dir, self.tokens(environment), environment, self.clock)

    def log_in(self, token: str = "mbxs_one", environment: dict[str, str] = FILE) -> None:
        self.tokens(environment).put(local_key(self.data_dir), token)

    @contextmanager
    def owned(self, *, pid: int = PID, run: int | None = PID, url: str | None = None) -> Iterator[None]:
        """A process holds the lock and has written which it is; `run`: who wrote `run.json`, if it is there."""
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            assert system.lock_file(lock)
            os.write(lock, f"{pid}\n".encode())
            if run is not None:
                said = f'{{"pid": {run}, "url": "{url or self.server.url}", "secret": "x"}}'
                (self.data_dir / "run.json").write_text(said)
            yield
        finally:
            os.close(lock)

    def answers(self, *, role: str = "admin", setup_required: bool = False) -> None:
        """Let the server answer everything well."""
        self.server.data("GET", "", {"setupRequired": setup_required})
        self.server.data("GET", "/status", STATUS)
        self.server.data("GET", "/accounts", [ACCOUNT])
        self.server.data("GET", "/me", {"member": {"role": role}})
        self.server.data("GET", BACKUPS, {"items": [{"createdAt": "2026-11-22T05:46:01.000Z"}]})
        self.server.data("GET", "/admin/https", HTTPS)
        self.server.data("GET", CREATED, {"items": [{"id": "aud_1", "outcome": "success"}]})
        self.server.data("GET", RESTORED, {"items": [{"id": "aud_2", "outcome": "failure"}]})

    def asked(self) -> list[str]:
        """What the server was asked since this was last asked."""
        paths = [asked.target.removeprefix("/api/v1") for asked in self.server.asked]
        self.server.asked.clear()
        return paths


@pytest.fixture
def scene(tmp_path: Path, clock: FakeClock) -> Iterator[Scene]:
    with RecordingServer() as server:
        yield Scene(tmp_path, server, clock)


CHEAP, DEAR = ["/accounts", "/status"], ["/me", BACKUPS, "/admin/https", CREATED, RESTORED]
KNOWN = State(
    Service.ANSWERS,
    access=Access.ADMINISTRATOR,
    mailboxes=(Mailbox("ada@example.org", "syncing", None, "1 of 2 messages"),),
    uncertain=2,
    queued=1,
    last_backup="2026-11-22T05:46:01.000Z",
    backup=Outcome("aud_1", succeeded=True),
    restore=Outcome("aud_2", succeeded=False),
    https=Https(enabled=True, url="https://127.0.0.1:8443", fingerprint="sha256:00"),
)


# --- a real one ---


def test_the_life_of_an_appliance(tmp_path: Path) -> None:
    data_dir, tokens = tmp_path / "data", Tokens(tmp_path / "config", FILE)
    watcher = Watcher(data_dir, tokens, FILE)
    assert watcher.look() == State(Service.STOPPED)
    running = RunningAppliance(data_dir).start()
    try:
        code = (data_dir / "setup-code").read_text().strip()
        new = State(Service.ANSWERS, running.url, code)
        assert watcher.look() == new
        token = running.set_up()
        assert watcher.look() == replace(new, setup_code=None)
        tokens.put(local_key(data_dir), token)
        assert watcher.look() == State(
            Service.ANSWERS, running.url, access=Access.ADMINISTRATOR, https=Https(enabled=False)
        )
        backup = running.ask("POST", "/admin/backups", {}).data
        running.ask("PATCH", "/admin/https", {"enabled": True, "port": 0})
        running.ask("PATCH", "/admin/settings", {"sending.hold_scheduled": True})
        watcher.hurry()
        known = watcher.look()
        assert known.last_backup == backup["createdAt"]
        assert known.backup is not None
        assert known.backup.succeeded
        assert known.https is not None
        assert known.https.enabled
        assert str(known.https.fingerprint).startswith("sha256:")
        assert known.warnings[0].startswith("Scheduled sends are held")
        assert watcher.client().call(watching._question("/me"))["data"]["member"]["role"] == "admin"
        running.kill()
        assert watcher.look() == replace(known, service=Service.STOPPED, url=None)
    finally:
        running.stop()


# --- from outside ---


def test_one_that_starts(scene: Scene) -> None:
    with scene.owned(run=None):
        assert scene.watcher.look() == State(Service.STARTING)
        scene.clock.advance(59)
        assert scene.watcher.look() == State(Service.STARTING)
        scene.clock.advance(2)
        assert scene.watcher.look() == State(Service.SILENT)


def test_one_that_starts_after_one_that_was_killed(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned(pid=PID + 1):  # what it left behind is that of another
        assert scene.watcher.look() == State(Service.STARTING)
    assert scene.asked() == []


def test_one_that_said_where_it_listens_before_it_answers(scene: Scene) -> None:
    with scene.owned(url="http://127.0.0.1:9"):
        assert scene.watcher.look() == State(Service.STARTING, "http://127.0.0.1:9")
        scene.clock.advance(61)
        assert scene.watcher.look().service is Service.SILENT


def test_another_process_has_its_own_minute(scene: Scene) -> None:
    with scene.owned(pid=PID, run=None):
        scene.watcher.look()
        scene.clock.advance(61)
        assert scene.watcher.look().service is Service.SILENT
    with scene.owned(pid=PID + 1, run=None):
        assert scene.watcher.look().service is Service.STARTING


def test_one_that_ends(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        (scene.data_dir / "run.json").unlink()
        assert scene.watcher.look() == replace(known, service=Service.STOPPING, url=None)
    assert scene.watcher.look() == replace(known, service=Service.STOPPED, url=None)


def test_one_that_does_not_answer_any_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_ANSWERS_WITHIN", 0.2)
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        scene.server.answer("GET", "/accounts", Canned(silent=True))
        assert scene.watcher.look() == replace(known, service=Service.SILENT)
        scene.answers()
        assert scene.watcher.look() == known


def test_one_that_rests_while_it_is_restored(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        scene.server.answer("GET", "/accounts", RESTARTING)
        assert scene.watcher.look() == replace(known, service=Service.RESTS)
        scene.answers()
        scene.asked()
        assert scene.watcher.look() == known
        assert scene.asked() == CHEAP + DEAR  # how it ended is seen at once


def test_one_that_rests_says_so_to_everybody(scene: Scene) -> None:
    scene.server.answer("GET", "", RESTARTING)
    with scene.owned():
        assert scene.watcher.look() == State(Service.RESTS, scene.server.url)


def test_one_that_has_trouble_with_a_question_answers(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        for trouble in (Canned(500), Canned(raw=b"<p>"), Canned(value={"data": None}), Canned(value=[])):
            scene.server.answer("GET", "/status", trouble)
            assert scene.watcher.look() == known


# --- what is asked, and how often ---


def test_what_costs_more_is_asked_less_often(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        assert scene.watcher.look() == replace(KNOWN, url=scene.server.url)
        assert scene.asked() == CHEAP + DEAR
        scene.clock.advance(watching.DEAR_EVERY - 1)
        assert scene.watcher.look() == replace(KNOWN, url=scene.server.url)
        assert scene.asked() == CHEAP
        scene.clock.advance(1)
        scene.watcher.look()
        assert scene.asked() == CHEAP + DEAR
        scene.watcher.hurry()
        scene.watcher.look()
        assert scene.asked() == CHEAP + DEAR


def test_trouble_with_one_dear_question_leaves_the_others(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        scene.server.answer("GET", "/admin/https", Canned(500))
        scene.server.data("GET", CREATED, {"items": []})
        scene.watcher.hurry()
        assert scene.watcher.look() == replace(known, backup=None)


def test_a_member_who_is_no_administrator(scene: Scene) -> None:
    scene.answers(role="member")
    scene.log_in()
    with scene.owned():
        known = scene.watcher.look()
        assert (known.access, known.https, known.last_backup) == (Access.MEMBER, None, None)
        assert scene.asked() == [*CHEAP, "/me"]


def test_an_administrator_who_is_none_any_more(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        scene.watcher.look()
        scene.answers(role="member")
        scene.watcher.hurry()
        known = scene.watcher.look()
        assert (known.access, known.https, known.last_backup, known.backup) == (Access.MEMBER, None, None, None)


# fmt: off
#: what is done with the store, whether that is the making of a backup
LONG_WORK: list[tuple[str, bool]] = [
    ("A backup",                     True),
    ("The daily backup",             True),
    ("The verification of a backup", False),
    ("A check of the store",         False),
]
# fmt: on


@pytest.mark.parametrize(("work", "is_backup"), LONG_WORK)
def test_whether_a_backup_is_being_made(work: str, is_backup: bool, scene: Scene) -> None:
    scene.answers(role="member")
    progress = {"work": work, "step": "copying", "done": 1, "total": 2}
    scene.server.data("GET", "/status", {**STATUS, "store": {"format": 5, "progress": progress}})
    scene.log_in()
    with scene.owned():
        assert scene.watcher.look().is_backing_up is is_backup


# --- the log-in ---


def test_a_log_in_that_has_ended_is_not_tried_again(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        scene.watcher.look()
        scene.server.answer("GET", "/accounts", REFUSED)
        scene.asked()
        assert scene.watcher.look() == State(Service.ANSWERS, scene.server.url)
        assert scene.watcher.look() == State(Service.ANSWERS, scene.server.url)
        assert scene.asked() == ["/accounts", "", ""]
        with pytest.raises(Failure, match="Nobody is logged in"):
            scene.watcher.client()
        scene.answers()
        scene.log_in("mbxs_two")
        assert scene.watcher.look() == replace(KNOWN, url=scene.server.url)
        assert {asked.headers["Authorization"] for asked in scene.server.asked} == {"Bearer mbxs_two"}


def test_a_member_who_is_suspended_for_a_while(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        suspended = Canned(403, {"error": {"code": "member_suspended", "message": "Suspended."}})
        scene.server.answer("GET", "/accounts", suspended)
        assert scene.watcher.look().access is Access.NOBODY
        scene.answers()
        assert scene.watcher.look().access is Access.ADMINISTRATOR


def test_a_log_out(scene: Scene) -> None:
    scene.answers()
    scene.log_in()
    with scene.owned():
        assert scene.watcher.look().access is Access.ADMINISTRATOR
        scene.tokens(FILE).remove(local_key(scene.data_dir))
        assert scene.watcher.look() == State(Service.ANSWERS, scene.server.url)


def test_a_token_of_the_environment(scene: Scene) -> None:
    scene.answers()
    watcher = scene.watching({"MAILBOX_APPLIANCE_TOKEN": " mbxs_given "})
    with scene.owned():
        assert watcher.look().access is Access.ADMINISTRATOR
    assert scene.server.asked[-1].headers["Authorization"] == "Bearer mbxs_given"


def test_a_file_of_log_ins_that_is_damaged(scene: Scene) -> None:
    scene.answers()
    (scene.folder / "config").mkdir()
    (scene.folder / "config" / "tokens.json").write_text("{")
    with scene.owned():
        assert scene.watcher.look().access is Access.NOBODY
        with pytest.raises(Failure, match=r"tokens\.json is damaged"):
            scene.watcher.client()


def test_where_nothing_runs_nobody_can_ask(scene: Scene) -> None:
    with pytest.raises(Failure, match="No appliance runs on"):
        scene.watcher.client()


# --- a keychain ---


@pytest.fixture
def with_keychain(scene: Scene) -> Callable[[str], dict[str, str]]:
    """An environment in which this is the keychain; the log-in lies in one."""
    (scene.folder / "made_up_keychains.py").write_text(BACKENDS + CONTRARY)
    (scene.folder / "config").mkdir()
    (scene.folder / "config" / "tokens.json").write_text(f'{{"keychain": ["{local_key(scene.data_dir)}"]}}')
    (scene.folder / "secrets.json").write_text(f'{{"mailbox-appliance {local_key(scene.data_dir)}": "mbxs_kept"}}')
    scene.answers()

    def environment(backend: str) -> dict[str, str]:
        chosen = {"PYTHON_KEYRING_BACKEND": f"made_up_keychains.{backend}", "PYTHONPATH": str(scene.folder)}
        return {**chosen, "HOME": str(scene.folder), "PATH": "/usr/bin:/bin"}

    return environment


CONTRARY = '''
class Shut(InFile):
    """Locked for as long as a file says so."""
    def get_password(self, service, username):
        if self.file.with_name("locked").exists(): raise KeyringLocked("locked")
        return super().get_password(service, username)

class Slow(InFile):
    """Waits until somebody has typed a password."""
    def get_password(self, service, username):
        self.file.with_name("asks").touch()
        while self.file.with_name("locked").exists(): time.sleep(0.01)
        return super().get_password(service, username)
'''


def test_a_keychain_that_is_locked(scene: Scene, with_keychain: Callable[[str], dict[str, str]]) -> None:
    locked, watcher = scene.folder / "locked", scene.watching(with_keychain("Shut"))
    locked.touch()
    with scene.owned():
        assert watcher.look() == State(Service.ANSWERS, scene.server.url, access=Access.LOCKED)
        with pytest.raises(Failure, match="it is locked"):
            watcher.client()
        locked.unlink()
        assert watcher.look().access is Access.LOCKED  # it is not asked at each look
        scene.clock.advance(60)
        assert watcher.look().access is Access.ADMINISTRATOR
    assert scene.server.asked[-1].headers["Authorization"] == "Bearer mbxs_kept"


def test_a_keychain_that_is_asked_again(scene: Scene, with_keychain: Callable[[str], dict[str, str]]) -> None:
    locked, watcher = scene.folder / "locked", scene.watching(with_keychain("Shut"))
    locked.touch()
    with scene.owned():
        assert watcher.look().access is Access.LOCKED
        locked.unlink()
        watcher.ask_keychain()
        assert watcher.look().access is Access.ADMINISTRATOR


def test_nobody_waits_for_a_keychain_that_waits(
    scene: Scene, with_keychain: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_in, "PATIENCE", 0.05)
    locked, watcher = scene.folder / "locked", scene.watching(with_keychain("Slow"))
    locked.touch()
    with scene.owned():
        assert watcher.look().access is Access.LOCKED
        with pytest.raises(Failure, match="has not answered yet"):
            watcher.client()
        wait_until((scene.folder / "asks").exists, lambda: "the keychain is not asked", 20)
        watcher.ask_keychain()  # it is being asked: there is no second prompt
        assert watcher.look().access is Access.LOCKED
        assert len([thread for thread in threading.enumerate() if thread.name == "log-in"]) == 1
        locked.unlink()
        wait_until(lambda: watcher.look().access is Access.ADMINISTRATOR, lambda: "its answer is lost", 20)
