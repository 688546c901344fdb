"""The session that the watcher uses, its end, and slow keychains."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.tray import login
from mailbox_appliance.tray.state import AccessLevel, ServiceState, TrayState
from tests.cli.recording_server import Canned
from tests.servers.mailboxes import wait_until
from tests.system.test_keyring import BACKENDS
from tests.tray.watched import FILE, KNOWN, REFUSED, Scene, online, scene

__all__ = ["online", "scene"]  # fixtures


# --- The session ---


def test_a_log_in_that_has_ended_is_not_tried_again(online: Scene) -> None:
    online.watcher.poll()
    online.server.answer("GET", "/accounts", REFUSED)
    online.asked()
    assert online.watcher.poll() == TrayState(ServiceState.ANSWERS, online.server.url)
    assert online.watcher.poll() == TrayState(ServiceState.ANSWERS, online.server.url)
    assert online.asked() == ["/accounts", "", ""]
    with pytest.raises(Failure, match="You are not signed in"):
        online.watcher.client()
    online.answers()
    online.log_in("mbxs_two")
    assert online.watcher.poll() == replace(KNOWN, url=online.server.url)
    assert {asked.headers["Authorization"] for asked in online.server.asked} == {"Bearer mbxs_two"}


def test_a_member_who_is_suspended_for_a_while(online: Scene) -> None:
    suspended = Canned(403, {"error": {"code": "member_suspended", "message": "Suspended."}})
    online.server.answer("GET", "/accounts", suspended)
    assert online.watcher.poll().access is AccessLevel.NOBODY
    online.answers()
    assert online.watcher.poll().access is AccessLevel.ADMINISTRATOR


def test_a_log_out(online: Scene) -> None:
    assert online.watcher.poll().access is AccessLevel.ADMINISTRATOR
    online.tokens(FILE).remove(local_key(online.data_dir))
    assert online.watcher.poll() == TrayState(ServiceState.ANSWERS, online.server.url)


def test_a_token_of_the_environment(scene: Scene) -> None:
    scene.answers()
    watcher = scene.watching({"MAILBOX_APPLIANCE_TOKEN": " mbxs_given "})
    with scene.owned():
        assert watcher.poll().access is AccessLevel.ADMINISTRATOR
    assert scene.server.asked[-1].headers["Authorization"] == "Bearer mbxs_given"


def test_a_file_of_log_ins_that_is_damaged(scene: Scene) -> None:
    scene.answers()
    (scene.folder / "config").mkdir()
    (scene.folder / "config" / "tokens.json").write_text("{")
    with scene.owned():
        assert scene.watcher.poll().access is AccessLevel.NOBODY
        with pytest.raises(Failure, match=r"tokens\.json is damaged"):
            scene.watcher.client()


def test_where_nothing_runs_nobody_can_ask(scene: Scene) -> None:
    with pytest.raises(Failure, match="The appliance does not answer"):
        scene.watcher.client()


# --- A keychain ---


@pytest.fixture
def with_keychain(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Return an environment with a fake keychain that contains the session."""
    monkeypatch.setattr(login, "PATIENCE", 30.0)  # its process may take seconds to start on a busy machine
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
        assert watcher.poll() == TrayState(ServiceState.ANSWERS, scene.server.url, access=AccessLevel.LOCKED)
        with pytest.raises(Failure, match="it is locked"):
            watcher.client()
        locked.unlink()
        assert watcher.poll().access is AccessLevel.LOCKED  # not every poll asks it
        scene.clock.advance(60)
        assert watcher.poll().access is AccessLevel.ADMINISTRATOR
    assert scene.server.asked[-1].headers["Authorization"] == "Bearer mbxs_kept"


def test_a_keychain_that_is_asked_again(scene: Scene, with_keychain: Callable[[str], dict[str, str]]) -> None:
    locked, watcher = scene.folder / "locked", scene.watching(with_keychain("Shut"))
    locked.touch()
    with scene.owned():
        assert watcher.poll().access is AccessLevel.LOCKED
        locked.unlink()
        watcher.retry_keychain()
        assert watcher.poll().access is AccessLevel.ADMINISTRATOR


def test_nobody_waits_for_a_keychain_that_waits(
    scene: Scene, with_keychain: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "PATIENCE", 0.05)
    locked, watcher = scene.folder / "locked", scene.watching(with_keychain("Slow"))
    locked.touch()
    with scene.owned():
        assert watcher.poll().access is AccessLevel.LOCKED
        with pytest.raises(Failure, match="has not answered yet"):
            watcher.client()
        wait_until((scene.folder / "asks").exists, lambda: "the keychain is not asked", 20)
        watcher.retry_keychain()  # the first prompt is still open: there is no second one
        assert watcher.poll().access is AccessLevel.LOCKED
        assert len([thread for thread in threading.enumerate() if thread.name == "log-in"]) == 1
        locked.unlink()
        wait_until(lambda: watcher.poll().access is AccessLevel.ADMINISTRATOR, lambda: "its answer is lost", 20)
