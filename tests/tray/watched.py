"""A watched data directory, and an appliance with canned responses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.system import files
from mailbox_appliance.tray.state import AccessLevel, AuditOutcome, HttpsState, MailboxState, ServiceState, TrayState
from mailbox_appliance.tray.watcher import ApplianceWatcher
from tests.cli.recording_server import Canned, RecordingServer
from tests.servers.fake_clock import FakeClock

FILE = {"MAILBOX_APPLIANCE_KEYCHAIN": "off"}
PID = os.getpid()
ACCOUNT = {"id": "acc_1", "email": "ada@example.org", "status": "syncing", "error": None}
UPTIME = 5
STATUS = {
    "accounts": [{"id": "acc_1", "status": "syncing", "progress": "Some", "progressCount": {"done": 1, "total": 2}}],
    "deliveries": {"queued": 1, "sending": 0, "uncertain": 2},
    "store": {"format": 5},
    "uptimeSeconds": UPTIME,
}
HTTPS = {"enabled": True, "url": "https://127.0.0.1:8443", "certificate": {"fingerprint": "sha256:00"}}
CREATED, RESTORED = (f"/admin/audit-events?action=backup.{what}&limit=1" for what in ("create", "restore"))
BACKUPS = "/admin/backups?limit=1"
REFUSED = Canned(401, {"error": {"code": "unauthenticated", "message": "Log in again."}})
RESTARTING = Canned(503, {"error": {"code": "provider_unavailable", "message": "Repeat it in a few seconds."}})


CHEAP, DEAR = ["/accounts", "/status"], ["/me", BACKUPS, "/admin/https", CREATED, RESTORED]
KNOWN = TrayState(
    ServiceState.ANSWERS,
    access=AccessLevel.ADMINISTRATOR,
    mailboxes=(MailboxState("ada@example.org", "syncing", None, is_fetching=True, count=(1, 2)),),
    uncertain=2,
    queued=1,
    last_backup="2026-11-22T05:46:01.000Z",
    backup=AuditOutcome("aud_1", succeeded=True),
    restore=AuditOutcome("aud_2", succeeded=False),
    https=HttpsState(enabled=True, url="https://127.0.0.1:8443", fingerprint="sha256:00"),
)


@dataclass
class Scene:
    """A data directory and its watcher. `server` answers while `owned` is entered."""

    folder: Path
    server: RecordingServer
    clock: FakeClock

    def __post_init__(self) -> None:
        (self.folder / "data").mkdir()
        self.watcher, self._uptime = self.watching(FILE), UPTIME

    @property
    def data_dir(self) -> Path:
        """The watched directory."""
        return self.folder / "data"

    def tokens(self, environment: dict[str, str]) -> TokenStore:
        """Return the stored sessions of a user with this environment."""
        return TokenStore(self.folder / "config", environment)

    def watching(self, environment: dict[str, str]) -> ApplianceWatcher:
        """Return a watcher."""
        return ApplianceWatcher(self.data_dir, self.tokens(environment), environment, self.clock)

    def log_in(self, token: str = "mbxs_one", environment: dict[str, str] = FILE) -> None:
        """Store a session, as `login` does."""
        self.tokens(environment).put(local_key(self.data_dir), token)

    @contextmanager
    def owned(self, *, pid: int = PID, run: int | None = PID, url: str | None = None) -> Iterator[None]:
        """Hold the lock with this process ID; `run`: the process ID in `run.json`, if there is one."""
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            assert files.lock_file(lock)
            os.write(lock, f"{pid}\n".encode())
            if run is not None:
                said = f'{{"pid": {run}, "url": "{url or self.server.url}", "secret": "x"}}'
                (self.data_dir / "run.json").write_text(said)
            yield
        finally:
            os.close(lock)

    def answers(self, *, role: str = "admin", setup_required: bool = False) -> None:
        """Let the server answer every request successfully."""
        self.server.data("GET", "", {"setupRequired": setup_required})
        self.server.data("GET", "/status", STATUS)
        self.server.data("GET", "/accounts", [ACCOUNT])
        self.server.data("GET", "/me", {"member": {"role": role}})
        self.server.data("GET", BACKUPS, {"items": [{"createdAt": "2026-11-22T05:46:01.000Z"}]})
        self.server.data("GET", "/admin/https", HTTPS)
        self.server.data("GET", CREATED, {"items": [{"id": "aud_1", "outcome": "success"}]})
        self.server.data("GET", RESTORED, {"items": [{"id": "aud_2", "outcome": "failure"}]})

    def pass_by(self, seconds: float) -> None:
        """Advance the clock and the uptime of the appliance."""
        self.clock.advance(seconds)
        self.has_run_for(self._uptime + int(seconds))

    def has_run_for(self, seconds: int) -> None:
        """Set the uptime of the appliance."""
        self._uptime = seconds
        self.server.data("GET", "/status", {**STATUS, "uptimeSeconds": seconds})

    def asked(self) -> list[str]:
        """Return the requests since the last call."""
        paths = [asked.target.removeprefix("/api/v1") for asked in self.server.asked]
        self.server.asked.clear()
        return paths


@pytest.fixture
def scene(tmp_path: Path, clock: FakeClock) -> Iterator[Scene]:
    """A data directory without an owner."""
    with RecordingServer() as server:
        yield Scene(tmp_path, server, clock)


@pytest.fixture
def online(scene: Scene) -> Iterator[Scene]:
    """The same directory with an appliance that answers, and a session of its administrator."""
    scene.answers()
    scene.log_in()
    with scene.owned():
        yield scene
