"""The commands about the store's key: key slots, refusals, and that a refusal changes nothing."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.errors import KeychainLocked
from mailbox_appliance.store.files import KEY_FILE
from mailbox_appliance.store.key import read_key, read_key_file, render_key_file, wrap_with_keyring
from mailbox_appliance.store.store import Store
from tests.cli.conftest import CommandLine
from tests.servers.running import RunningAppliance
from tests.servers.secret_service import SecretService
from tests.store.test_key_slots import quickly_sealed
from tests.system.test_keyring import BACKENDS

PASSPHRASE, OTHER = "twelve geese fly", "thirteen geese fly"
STDIN = "--passphrase-stdin"
CHANGES = (("add-passphrase", STDIN), ("use-keyring",), ("use-file",))


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the user's keychain, key file and passphrases from the environment."""
    for name in ("KEY_FILE", "PASSPHRASE", "KEYCHAIN_SECONDS"):
        monkeypatch.delenv(f"MAILBOX_APPLIANCE_{name}", raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretService]:
    """A working keychain."""
    service = SecretService(tmp_path_factory.mktemp("desktop"))
    yield service
    service.stop()


@pytest.fixture
def keychain(desktop: SecretService, monkeypatch: pytest.MonkeyPatch) -> SecretService:
    """A working keychain for this process and its children."""
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    for name, value in desktop.environment.items():
        monkeypatch.setenv(name, value)
    return desktop


def kinds(folder: Path) -> list[str]:
    return [slot["type"] for slot in json.loads((folder / KEY_FILE).read_bytes())["slots"]]


def only_passphrase(folder: Path) -> None:
    """Check that the store opens with its passphrase and in no other way."""
    key = read_key(folder / KEY_FILE)
    (folder / KEY_FILE).write_bytes(render_key_file(key, (quickly_sealed(key, PASSPHRASE),)))


def changes_of_key(folder: Path, passphrase: str | None = None) -> list[str | None]:
    """Return the actors of the key changes in the audit log."""
    store = Store.open(folder, passphrase=passphrase)
    try:
        return [
            row[0] for row in store.database.rows("SELECT actor_kind FROM audit_events WHERE action = 'key.change'")
        ]
    finally:
        store.close()


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the files of a folder except `lock`, with modes."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "lock")
    return {str(file): (file.stat().st_mode, file.read_bytes()) for file in files}


# --- showing -------------------------------------------------------------------------------------------------------


def test_show_tells_the_slots_and_nothing_of_the_key(store_cli: CommandLine) -> None:
    store_cli("key", "add-passphrase", STDIN, stdin=PASSPHRASE.encode())
    made = json.loads((store_cli.data_dir / KEY_FILE).read_bytes())
    shown = store_cli("key", "show")
    assert shown.data == {
        "file": str(store_cli.data_dir / KEY_FILE),
        "storeId": made["storeId"],
        "cipher": made["cipher"],
        "slots": [{"type": "file"}, {"type": "passphrase", "kdf": "argon2id", "t": 3, "m": 65536, "p": 4}],
    }
    secrets = {value for slot in made["slots"] for value in slot.values() if isinstance(value, str) and len(value) > 12}
    assert len(secrets) == 4
    assert not [secret for secret in secrets if secret in shown.out]
    assert "Keep a copy of it apart" in store_cli("--format", "table", "key", "show").out


def test_show_unlocks_nothing(store_cli: CommandLine) -> None:
    only_passphrase(store_cli.data_dir)
    assert [slot["type"] for slot in store_cli("key", "show").data["slots"]] == ["passphrase"]
    (store_cli.data_dir / KEY_FILE).write_text(base64.b64encode(bytes(32)).decode())
    assert store_cli("key", "show").data["slots"] == [{"type": "file"}]


# --- a passphrase --------------------------------------------------------------------------------------------------


def test_a_passphrase_opens_the_store_in_place_of_the_one_before(store_cli: CommandLine) -> None:
    folder = store_cli.data_dir
    only_passphrase(folder)
    given = {"MAILBOX_APPLIANCE_PASSPHRASE": PASSPHRASE}
    new = store_cli("key", "add-passphrase", environment={**given, "MAILBOX_APPLIANCE_NEW_PASSPHRASE": OTHER})
    assert (new.code, [slot["type"] for slot in new.data["slots"]]) == (0, ["passphrase"])
    for passphrase, code in ((PASSPHRASE, "passphrase_wrong"), (None, "passphrase_needed")):
        environment = {"MAILBOX_APPLIANCE_PASSPHRASE": passphrase or ""}
        refused = store_cli("key", "use-file", environment=environment)
        assert (refused.code, refused.error["code"]) == (4, code)
    assert store_cli("key", "use-file", STDIN, stdin=OTHER.encode()).code == 0
    assert kinds(folder) == ["file", "passphrase"]
    assert changes_of_key(folder) == ["local", "local"]


def test_a_passphrase_is_no_short_one_and_no_argument(store_cli: CommandLine) -> None:
    before = content(store_cli.data_dir)
    short = store_cli("key", "add-passphrase", STDIN, stdin=b"eleven geese"[:11])
    assert (short.code, short.error["details"][0]["path"]) == (2, "/passphrase")
    assert "MAILBOX_APPLIANCE_NEW_PASSPHRASE" in store_cli("key", "add-passphrase").error["message"]
    assert store_cli("key", "add-passphrase", PASSPHRASE).code == 2
    assert content(store_cli.data_dir) == before


def test_the_passphrase_can_be_the_only_way_in(store_cli: CommandLine) -> None:
    folder, master = store_cli.data_dir, read_key(store_cli.data_dir / KEY_FILE).master
    only = store_cli("key", "add-passphrase", "--only", STDIN, stdin=PASSPHRASE.encode())
    assert (only.code, [slot["type"] for slot in only.data["slots"]]) == (0, ["passphrase"])
    (warning,) = json.loads(only.out)["warnings"]
    assert "only this passphrase opens the store" in warning
    assert "`serve` reads it from" in warning
    assert base64.b64encode(master).decode() not in (folder / KEY_FILE).read_text()
    assert store_cli("key", "use-file").error["code"] == "passphrase_needed"
    assert read_key(folder / KEY_FILE, PASSPHRASE).master == master
    assert store_cli("key", "use-file", STDIN, stdin=PASSPHRASE.encode()).code == 0
    assert kinds(folder) == ["file", "passphrase"]


def test_a_key_that_came_as_a_credential_is_not_changed(store_cli: CommandLine, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (store_cli.data_dir / KEY_FILE).rename(credentials / "db-key")
    (store_cli.data_dir / "key-place").write_text("the systemd credential db-key\n")
    (store_cli.data_dir / "key-place").chmod(0o600)
    before = content(store_cli.data_dir) | content(credentials)
    for words in (*(("key", *change) for change in CHANGES), ("store", "rekey"), ("store", "compact")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
            refused = store_cli(*words, stdin=PASSPHRASE.encode())
        assert (refused.code, refused.error["code"]) == (4, "key_unusable")
        assert "is a systemd credential" in refused.error["message"]
        assert content(store_cli.data_dir) | content(credentials) == before


def test_a_pipe_in_place_of_the_key_is_told(store_cli: CommandLine) -> None:
    (store_cli.data_dir / KEY_FILE).unlink()
    os.mkfifo(store_cli.data_dir / KEY_FILE)
    for words in (("key", "show"), ("key", "use-file"), ("store", "check"), ("store", "status"), ("backup", "create")):
        refused = store_cli(*words)
        if words != ("store", "status"):
            assert (refused.code, refused.error["code"]) == (4, "key_unusable")
            assert "Not a regular file" in refused.error["message"]


def test_a_key_is_missing_only_where_a_store_is(store_cli: CommandLine) -> None:
    missing = store_cli("key", "show", "--data-dir", str(store_cli.data_dir / "none"))
    assert (missing.code, missing.error["code"]) == (1, "store_unusable")
    (store_cli.data_dir / KEY_FILE).unlink()
    gone = store_cli("key", "show")
    assert (gone.code, gone.error["code"]) == (4, "key_missing")


def test_a_passphrase_of_other_bytes_than_utf_8_is_refused(store_cli: CommandLine) -> None:
    other = os.fsdecode(b"\xff\xfe bad utf8 pass")
    for words, name in ((("add-passphrase",), "NEW_PASSPHRASE"), (("use-file",), "PASSPHRASE")):
        refused = store_cli("key", *words, environment={f"MAILBOX_APPLIANCE_{name}": other})
        assert (refused.code, refused.error["code"]) == (2, "invalid_request")
        assert f"MAILBOX_APPLIANCE_{name} is not valid UTF-8" in refused.error["message"]
    assert kinds(store_cli.data_dir) == ["file"]


def test_serve_takes_the_passphrase_from_wherever_it_is(store_cli: CommandLine, tmp_path: Path) -> None:
    folder, credentials = store_cli.data_dir, tmp_path / "credentials"
    only_passphrase(folder)
    (folder / KEY_FILE).rename(tmp_path / "db-key")
    credentials.mkdir()
    shutil.copy(tmp_path / "db-key", credentials)
    (credentials / "passphrase").write_text(PASSPHRASE + "\n")
    by_systemd = {"CREDENTIALS_DIRECTORY": str(credentials)}
    by_environment = {
        "MAILBOX_APPLIANCE_KEY_FILE": str(tmp_path / "db-key"),
        "MAILBOX_APPLIANCE_PASSPHRASE": PASSPHRASE,
    }
    for environment in (by_systemd, by_environment):
        assert RunningAppliance(folder, environment).start().stop() == 0
    assert not (folder / KEY_FILE).exists()


def test_serve_without_a_passphrase_says_what_is_missing(store_cli: CommandLine) -> None:
    only_passphrase(store_cli.data_dir)
    before = content(store_cli.data_dir)
    refused = store_cli("serve", "--port", "0")
    assert (refused.code, refused.error["code"]) == (4, "passphrase_needed")
    wrong = store_cli("serve", "--port", "0", STDIN, stdin=OTHER.encode())
    assert (wrong.code, wrong.error["code"]) == (4, "passphrase_wrong")
    assert content(store_cli.data_dir) == before


# --- the keychain --------------------------------------------------------------------------------------------------


def test_the_keychain_opens_the_store_and_a_recovery_passphrase_does_without_it(
    store_cli: CommandLine, keychain: SecretService
) -> None:
    folder, master = store_cli.data_dir, read_key(store_cli.data_dir / KEY_FILE).master
    answer = store_cli("key", "use-keyring").data
    recovery = answer["recoveryPassphrase"]
    assert kinds(folder) == ["keyring", "passphrase"]
    assert base64.b64encode(master).decode() not in (folder / KEY_FILE).read_text()
    assert answer["slots"][0]["user"] == f"store-{answer['storeId']}"
    assert RunningAppliance(folder).start().stop() == 0

    keychain.lock()
    before = content(folder)
    with pytest.raises(KeychainLocked, match="it is locked"):
        Store.open(folder)
    for words in (("key", "use-file"), ("serve", "--port", "0")):
        refused = store_cli(*words)
        assert (refused.code, refused.error["code"]) == (4, "keychain_locked")
    assert content(folder) == before
    assert store_cli("key", "use-file", STDIN, stdin=recovery.encode()).code == 0
    assert kinds(folder) == ["file", "passphrase"]

    keychain.unlock()
    again = store_cli("key", "use-keyring").data
    assert (again["recoveryPassphrase"], kinds(folder)) == (None, ["keyring", "passphrase"])
    assert read_key(folder / KEY_FILE).master == master
    (folder / KEY_FILE).write_bytes(
        before[str(folder / KEY_FILE)][1]
    )  # as in an earlier backup: the keychain still opens it
    assert read_key(folder / KEY_FILE).master == master
    assert changes_of_key(folder) == ["local"] * 3


def test_a_locked_keychain_takes_no_key(store_cli: CommandLine, keychain: SecretService) -> None:
    keychain.lock()
    try:
        before = content(store_cli.data_dir)
        refused = store_cli("key", "use-keyring")
        assert (refused.code, refused.error["code"]) == (4, "keychain_locked")
        assert "it is locked" in refused.error["message"]
        assert content(store_cli.data_dir) == before
    finally:
        keychain.unlock()


# fmt: off
#: Unusable keychains, and the message about each.
BAD: list[tuple[str, str]] = [
    ("keyring.backends.fail.Keyring", "cannot be stored in the keychain of this computer: there is none."),
    ("made_up_keychains.Forgetful",   "keychain of this computer: it does not return what was stored."),
    ("made_up_keychains.Silent",      "keychain of this computer: it did not respond within 1 seconds."),
    ("made_up_keychains.Changing",    "The keychain of this computer did not return the key of "),
]
# fmt: on


@pytest.fixture
def backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with keychains to choose from, known to this process and its children."""
    folder = tmp_path / "backends"
    folder.mkdir()
    (folder / "made_up_keychains.py").write_text(BACKENDS)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.mark.parametrize(("backend", "reason"), BAD)
def test_a_keychain_that_does_not_work_takes_no_key(
    backend: str, reason: str, store_cli: CommandLine, backends: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    monkeypatch.setenv("MAILBOX_APPLIANCE_KEYCHAIN_SECONDS", "1" if "within" in reason else "20")
    before = content(store_cli.data_dir)
    refused = store_cli("key", "use-keyring")
    assert (refused.code, refused.error["code"]) == (4, "keychain_locked")
    assert reason in refused.error["message"]
    assert content(store_cli.data_dir) == before
    assert changes_of_key(store_cli.data_dir) == []


@pytest.mark.parametrize("lost", ["nothing there", "no key", "another key"])
def test_a_keychain_that_lost_the_key_is_no_reason_for_a_new_one(
    lost: str, store_cli: CommandLine, backends: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "made_up_keychains.InFile")
    key, kek = read_key(store_cli.data_dir / KEY_FILE), os.urandom(32)
    slots = (wrap_with_keyring(key, kek), quickly_sealed(key, PASSPHRASE))
    (store_cli.data_dir / KEY_FILE).write_bytes(render_key_file(key, slots))
    name = f"mailbox-appliance store-{key.store_id}"
    held = {"nothing there": {}, "no key": {name: "?"}, "another key": {name: base64.b64encode(bytes(32)).decode()}}
    (backends / "secrets.json").write_text(json.dumps(held[lost]))
    before = content(store_cli.data_dir)
    refused = store_cli("key", "use-file")
    assert (refused.code, refused.error["code"]) == (4, "keychain_locked")
    assert content(store_cli.data_dir) == before
    # A file that does not hold a key is not overwritten, since it may belong to somebody. Any key is used.
    mended = store_cli("key", "use-keyring", STDIN, stdin=PASSPHRASE.encode())
    assert mended.code == (4 if lost == "no key" else 0)


# --- what is in the way ------------------------------------------------------------------------------------------


def test_a_key_that_does_not_open_the_store_is_not_given_slots(store_cli: CommandLine, tmp_path: Path) -> None:
    Store.open(tmp_path / "other").close()
    shutil.copy(tmp_path / "other" / KEY_FILE, store_cli.data_dir / KEY_FILE)
    before = content(store_cli.data_dir)
    for words in CHANGES:
        refused = store_cli("key", *words, stdin=PASSPHRASE.encode())
        assert (refused.code, refused.error["code"]) == (4, "key_wrong")
    assert content(store_cli.data_dir) == before


def test_a_key_that_is_kept_elsewhere_is_changed_there(
    store_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stick, link = tmp_path / "stick", tmp_path / "link"
    stick.mkdir()
    (store_cli.data_dir / KEY_FILE).rename(stick / "key")
    link.symlink_to(stick / "key")
    monkeypatch.setenv("MAILBOX_APPLIANCE_KEY_FILE", str(link))
    assert store_cli("key", "add-passphrase", STDIN, stdin=PASSPHRASE.encode()).data["file"] == str(link)
    there = read_key_file(stick / "key")
    assert there is not None
    assert len(there.slots) == 2
    assert (link.is_symlink(), (store_cli.data_dir / KEY_FILE).exists()) == (True, False)
    (stick / "key").rename(stick / "away")
    for words in (("show",), *CHANGES):
        refused = store_cli("key", *words, stdin=PASSPHRASE.encode())
        assert (refused.code, refused.error["code"]) == (4, "key_missing")
    assert (link.is_symlink(), link.exists(), (store_cli.data_dir / KEY_FILE).exists()) == (True, False, False)


def test_half_a_key_file_that_a_crash_left_is_thrown_away(store_cli: CommandLine, tmp_path: Path) -> None:
    stick = tmp_path / "stick"
    stick.mkdir()
    (store_cli.data_dir / KEY_FILE).rename(stick / "key")
    (tmp_path / "link").symlink_to(stick / "key")
    for left in (stick / ".key.new", stick / ".letter.new"):
        left.write_bytes(b"half of")
    Store.open(store_cli.data_dir, key_file=tmp_path / "link").close()
    assert sorted(path.name for path in stick.iterdir()) == [".letter.new", "key"]  # other files stay


def in_a_read_only(folder: Path, *words: str, environment: Mapping[str, str], stdin: bytes = b"") -> tuple[int, Any]:
    """Run a command with a read-only data directory."""
    mount = 'mount --bind -o ro "$0" "$0" && exec "$@"'
    program = (sys.executable, "-m", "mailbox_appliance", *words)
    done = subprocess.run(
        ("unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(folder), *program),
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        timeout=30,
    )
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.mark.parametrize("form", ["slots", "one line"])
def test_a_key_file_that_cannot_be_written_opens_the_store_and_stays(
    form: str, store_cli: CommandLine, tmp_path: Path
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (store_cli.data_dir / KEY_FILE).rename(credentials / "db-key")
    if form == "one line":
        (credentials / "db-key").write_text(base64.b64encode(read_key(credentials / "db-key").master).decode())
    environment, before = {"MAILBOX_APPLIANCE_KEY_FILE": str(credentials / "db-key")}, content(tmp_path)
    folder = ("--data-dir", str(store_cli.data_dir))
    if form == "one line":
        code, answer = in_a_read_only(credentials, *folder, "audit", "verify", environment=environment)
        assert (code, answer["data"]["ok"]) == (0, True)
    words = (*folder, "key", "add-passphrase", STDIN)
    code, answer = in_a_read_only(credentials, *words, environment=environment, stdin=PASSPHRASE.encode())
    assert (code, answer["error"]["code"]) == (4, "key_unusable")
    assert "cannot be written" in answer["error"]["message"]
    assert content(credentials) == {name: value for name, value in before.items() if "credentials" in name}


def test_a_new_store_takes_a_credential_of_one_line(cli: CommandLine, tmp_path: Path) -> None:
    credentials, master = tmp_path / "credentials", os.urandom(32)
    credentials.mkdir()
    (credentials / "db-key").write_text(base64.b64encode(master).decode() + "\n")
    before = content(credentials)
    member = ("--name", "Ada", "--email", "ada@example.org", "--password-stdin")
    words = ("--data-dir", str(cli.data_dir), "setup", *member)
    environment = {**cli.environment, "CREDENTIALS_DIRECTORY": str(credentials)}
    code, answer = in_a_read_only(credentials, *words, environment=environment, stdin=b"correct horse battery")
    assert (code, "token" in answer["data"]) == (0, True)
    assert content(credentials) == before
    assert not (cli.data_dir / KEY_FILE).exists()
    store = Store.open(cli.data_dir, key_file=credentials / "db-key")
    store.close()
    assert read_key(credentials / "db-key").master == master
