"""Commands of the operator: who is asked, and that nothing is made or changed where a store is missing or in use."""

import os
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.store.key import read_key, render_key_file
from mailbox_appliance.store.open_file import DirectoryLock
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer
from tests.cli.test_login import owned
from tests.store.test_key_slots import quickly_sealed

PASSPHRASE = "seven words that nobody guesses"
WITH_ONE = {"MAILBOX_APPLIANCE_PASSPHRASE": PASSPHRASE}
#: A response that suits every command.
ANSWER: dict[str, Any] = {
    "items": [], "nextCursor": None, "ok": True,
    "enabled": True, "host": "", "port": 8443, "url": None, "certificate": {"fingerprint": "sha256:aa"},
}  # fmt: skip
# fmt: off
#: command line, variables -> method and target below /admin, and the body
ASKED: list[tuple[str, dict[str, str], str, Any]] = [
    ("backup create",                            {},       "POST /backups", {}),
    ("backup create",                            WITH_ONE, "POST /backups", {}),
    ("backup create --passphrase-stdin",         {},       "POST /backups", {"passphrase": PASSPHRASE}),
    ("backup create --with-passphrase",          WITH_ONE, "POST /backups", {"passphrase": PASSPHRASE}),
    ("backup list",                              {},       "GET /backups", None),
    ("backup verify bak_1",                      {},       "POST /backups/bak_1/verify", {}),
    ("backup verify bak_1 --passphrase-stdin",   {},       "POST /backups/bak_1/verify", {"passphrase": PASSPHRASE}),
    ("backup verify bak_1",                      WITH_ONE, "POST /backups/bak_1/verify", {"passphrase": PASSPHRASE}),
    ("https status",                             {},       "GET /https", None),
    ("https fingerprint",                        {},       "GET /https", None),
    ("https enable",                             {},       "PATCH /https", {"enabled": True}),
    ("https enable --port 0 --host ''",          {},       "PATCH /https", {"enabled": True, "port": 0, "host": ""}),
    ("https disable",                            {},       "PATCH /https", {"enabled": False}),
    ("https rotate",                             {},       "POST /https/rotate", None),
    ("store status",                             {},       "GET /store", None),
    ("store check",                              {},       "POST /store/check", {"full": False}),
    ("store check --full",                       {},       "POST /store/check", {"full": True}),
]
# fmt: on
KEY_CHANGES = ("key add-passphrase --passphrase-stdin", "key use-keyring", "key use-file")
#: Commands that need a store on the store_cli.
ON_FILES = (
    *("key show", *KEY_CHANGES, "backup create", "backup list", f"backup verify bak_{'0' * 26}", "audit verify"),
    *("store status", "store check", "store compact", "store rekey"),
)


@pytest.fixture
def running(cli: CommandLine, server: RecordingServer) -> Iterator[RecordingServer]:
    """A server that owns the data directory of the command line."""
    for _, _, request, _ in ASKED:
        method, target = request.split()
        server.data(method, f"/admin{target}", ANSWER | {"checked": [], "problems": []})
    with owned(cli.data_dir, server.url):
        yield server


@pytest.mark.parametrize(("line", "environment", "request_line", "body"), ASKED)
def test_the_appliance_that_runs_is_asked_as_its_operator_without_any_log_in(
    cli: CommandLine, running: RecordingServer, line: str, environment: dict[str, str], request_line: str, body: Any
) -> None:
    outcome = cli(*shlex.split(line), stdin=f"{PASSPHRASE}\nrest".encode(), environment=environment)
    assert (outcome.code, outcome.err) == (0, "")
    (asked,) = running.asked
    assert f"{asked.method} {asked.target}" == request_line.replace(" ", " /api/v1/admin")
    assert asked.headers["Authorization"] == "Bearer s"
    assert (asked.json if asked.body else None) == body
    assert not (cli.folder / "config").exists()


@pytest.mark.parametrize("line", sorted({line for line, environment, _, _ in ASKED if "stdin" not in line}))
def test_an_appliance_that_is_named_is_asked_as_any_client_asks(
    client_of: CommandLine, running: RecordingServer, line: str
) -> None:
    assert client_of(*shlex.split(line), environment=WITH_ONE).code == 0
    assert running.asked[0].headers["Authorization"] == "Bearer mbxs_test"
    refused = client_of(*shlex.split(line), environment=WITH_ONE | {"MAILBOX_APPLIANCE_TOKEN": ""})
    assert (refused.code, refused.error["code"]) == (4, "unauthenticated")


@pytest.mark.parametrize("line", ["backup create", "backup verify bak_1", "https enable --port 1", "store check"])
def test_a_refusal_is_told(cli: CommandLine, running: RecordingServer, line: str) -> None:
    error = {"code": "conflict", "message": "Another backup is being made.", "requestId": "req_1"}
    for method, target in (request.split() for _, _, request, _ in ASKED):
        running.answer(method, f"/admin{target}", Canned(409, {"error": error}))
    outcome = cli(*line.split())
    assert (outcome.code, outcome.error) == (2, error)


@pytest.mark.parametrize("line", ON_FILES)
def test_where_there_is_no_store_none_is_made(cli: CommandLine, line: str) -> None:
    cli.services |= SERVICES
    for folder in (cli.data_dir, cli.folder / "none"):
        refused = cli("--data-dir", str(folder), *line.split(), stdin=PASSPHRASE.encode())
        assert (refused.code, refused.error["code"]) == (1, "store_unusable")
        assert str(folder) in refused.error["message"]
    assert list(cli.data_dir.iterdir()) == []
    assert not (cli.folder / "none").exists()


@pytest.mark.parametrize(
    "line", ["store check", "store compact", "store rekey", "https enable", "https status", "https rotate"]
)
def test_a_passphrase_is_asked_for_where_there_is_one(store_cli: CommandLine, line: str) -> None:
    file = store_cli.data_dir / "encryption.key"
    key = read_key(file)
    file.write_bytes(render_key_file(key, (quickly_sealed(key, PASSPHRASE),)))
    missing = store_cli(*line.split())
    assert (missing.code, missing.error["code"]) == (4, "passphrase_needed")
    wrong = store_cli(*line.split(), "--passphrase-stdin", stdin=b"another one altogether\n")
    assert (wrong.code, wrong.error["code"]) == (4, "passphrase_wrong")
    assert store_cli(*line.split(), "--passphrase-stdin", stdin=PASSPHRASE.encode()).code == 0
    assert store_cli(*line.split(), environment=WITH_ONE).code == 0
    assert store_cli("https", "fingerprint").code == 0, "the fingerprint needs no passphrase"


@pytest.mark.parametrize("line", ["key show", *KEY_CHANGES, "backup create", "store compact", "store rekey"])
def test_a_directory_in_use_is_left_alone_and_its_owner_named(store_cli: CommandLine, line: str) -> None:
    lock = DirectoryLock(store_cli.data_dir)
    before = {file.name: file.read_bytes() for file in store_cli.data_dir.iterdir() if file.is_file()}
    refused = store_cli(*line.split(), stdin=PASSPHRASE.encode())
    after = {file.name: file.read_bytes() for file in store_cli.data_dir.iterdir() if file.is_file()}
    lock.release()
    assert (refused.code, refused.error["code"]) == (1, "store_in_use")
    assert f"pid {os.getpid()}" in refused.error["message"]
    assert after == before
