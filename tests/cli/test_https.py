"""HTTPS commands: through the running appliance as its operator, or on the files."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.inspect import fingerprint
from tests.cli.conftest import CommandLine, Outcome
from tests.cli.recording_server import Canned, RecordingServer
from tests.cli.test_login import owned
from tests.tls.issued import FAR, NOW, Issued, issued

SHOWN = {"fingerprint": "sha256:aa", "selfSigned": True, "trusted": False}
STATUS = {"enabled": True, "host": "", "port": 8443, "url": "https://127.0.0.1:8443", "certificate": SHOWN}


def warned(outcome: Outcome) -> list[str]:
    """Return the warnings next to the data."""
    return list(json.loads(outcome.out)["warnings"])


# --- who is asked -----------------------------------------------------------------------------------------------------


@pytest.fixture
def running(cli: CommandLine, server: RecordingServer) -> Iterator[RecordingServer]:
    """A server that owns the data directory of the command line."""
    server.data("GET", "/admin/https", STATUS)
    server.data("PATCH", "/admin/https", STATUS)
    server.data("PUT", "/admin/https/certificate", STATUS)
    server.data("POST", "/admin/https/rotate", STATUS)
    with owned(cli.data_dir, server.url):
        yield server


@pytest.fixture
def own(tmp_path: Path) -> Issued:
    """A certificate and its key, as `own.pem` and `own.key`."""
    made = issued(since=NOW.replace(year=2020), until=FAR)
    (tmp_path / "own.pem").write_bytes(made.pem)
    (tmp_path / "own.key").write_bytes(made.key)
    return made


def test_a_certificate_is_sent_as_it_stands(
    cli: CommandLine, running: RecordingServer, own: Issued, tmp_path: Path
) -> None:
    assert cli("https", "import", str(tmp_path / "own.pem"), str(tmp_path / "own.key")).data == STATUS
    assert running.asked[-1].json == {"certificate": own.pem.decode(), "privateKey": own.key.decode()}


def test_where_there_is_no_certificate_it_is_told_how_to_make_one(cli: CommandLine, running: RecordingServer) -> None:
    running.data("GET", "/admin/https", STATUS | {"certificate": None})
    none = cli("https", "fingerprint")
    assert (none.code, "Create one with `https enable`" in none.error["message"]) == (2, True)


def test_what_runs_is_asked_for_its_fingerprint_and_nothing_is_made_beside_it(
    cli: CommandLine, running: RecordingServer
) -> None:
    cli.services |= SERVICES
    running.answer("GET", "/admin/https", Canned(value={"data": STATUS, "warnings": ["Missing: tls/cert.pem."]}))
    shown = cli("https", "fingerprint")
    assert (shown.code, shown.data, warned(shown)) == (0, SHOWN, ["Missing: tls/cert.pem."])
    table = cli("https", "fingerprint", "--format", "table")
    assert (table.out, "Missing: tls/cert.pem." in table.err) == ("sha256:aa\n", True)
    unfit = STATUS | {"certificate": None, "url": None}
    running.answer("GET", "/admin/https", Canned(value={"data": unfit, "warnings": ["key.pem is missing."]}))
    none = cli("https", "fingerprint")
    assert (none.code, none.error["code"], none.error["message"]) == (2, "not_found", "key.pem is missing.")
    running.data("GET", "/admin/https", unfit)
    assert cli("https", "fingerprint").code == 2
    assert not CertificateFiles(cli.data_dir).any_exists()
    running.data("GET", "/admin/https", unfit | {"enabled": False})
    first = cli("https", "fingerprint")
    assert (first.code, "created now" in warned(first)[0]) == (0, True), "HTTPS was never on"


def test_a_person_is_told_how_to_go_on(cli: CommandLine, running: RecordingServer) -> None:
    def told() -> str:
        return cli("https", "status", "--format", "table").out.splitlines()[-1]

    assert told().endswith("login https://NAME-OF-THIS-ONE:8443 --email EMAIL --fingerprint sha256:aa")
    running.data("GET", "/admin/https", STATUS | {"certificate": SHOWN | {"trusted": True}})
    assert told().endswith("login https://NAME-OF-THIS-ONE:8443 --email EMAIL")
    running.data("GET", "/admin/https", STATUS | {"host": "127.0.0.1"})
    assert "--host ''" in told()
    running.data("GET", "/admin/https", STATUS | {"url": None})
    assert told() == "HTTPS starts with `mailbox-appliance serve`."
    running.data("GET", "/admin/https", STATUS | {"url": None, "enabled": False})
    assert "`mailbox-appliance https enable`" in told()


# --- on the files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(cli: CommandLine) -> CommandLine:
    """A command line on a new data directory without a running appliance."""
    cli.services |= SERVICES
    return cli


def test_first_of_all_the_fingerprint(files: CommandLine) -> None:
    shown = files("https", "fingerprint")
    pem, _ = CertificateFiles(files.data_dir).load()
    assert (shown.code, shown.err, shown.data["fingerprint"]) == (0, "", fingerprint(pem))
    assert [str(files.data_dir) in one for one in warned(shown)] == [True]
    again = files("https", "fingerprint", "--format", "table")
    assert (again.out, again.err) == (fingerprint(pem) + "\n", "")
    on = files("https", "enable", "--port", "9443")
    assert (on.code, on.data["port"], on.data["certificate"]) == (0, 9443, shown.data)
    none = files("https", "status", "--data-dir", str(files.folder / "another"))
    assert (none.code, none.error["code"]) == (1, "store_unusable")


def as_directory(file: Path) -> None:
    file.mkdir()


def as_collection(file: Path) -> None:
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\n" * 3000)


#: The replacement of a file, and the message.
UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda file: None, "No such file or directory"),
    "a directory": (as_directory, "Is a directory"),
    "a pipe": (os.mkfifo, "Not a regular file"),
    "a collection": (as_collection, "at most 64 KiB"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named(files: CommandLine, own: Issued, name: str) -> None:
    spoil, told = UNREADABLE[name]
    other = files.folder / "other.pem"
    spoil(other)
    pem, key = str(files.folder / "own.pem"), str(files.folder / "own.key")
    for words, argument in (((str(other), key), "CERTIFICATE"), ((pem, str(other)), "KEY")):
        refused = files("https", "import", *words)
        assert (refused.code, refused.error["code"]) == (2, "invalid_request")
        assert (told in refused.error["message"], str(other) in refused.error["message"]) == (True, True)
        assert refused.error["details"][0]["path"] == f"argument:{argument}"
    assert list(files.data_dir.iterdir()) == []


def test_what_is_no_certificate_is_told_and_changes_nothing(files: CommandLine, own: Issued) -> None:
    pem, key = str(files.folder / "own.pem"), str(files.folder / "own.key")
    assert files("https", "import", pem, key).code == 0
    (files.folder / "own.der").write_bytes(own.der)
    for words, told in (
        ((key, pem), "The two files are swapped"),
        ((str(files.folder / "own.der"), key), "This is DER. Convert it to PEM with `openssl x509 -inform der"),
        ((pem, str(files.folder / "own.der")), "This is DER. Convert it to PEM with `openssl pkey"),
    ):
        refused = files("https", "import", *words)
        assert (refused.code, told in json.loads(refused.err)["error"]["message"]) == (2, True)
    assert CertificateFiles(files.data_dir).load() == (own.pem, own.key)


def test_a_nul_in_a_name_is_no_fault_of_ours(files: CommandLine) -> None:
    refused = files("https", "import", "a\0b", "c")
    assert (refused.code, refused.error["code"]) == (2, "invalid_request")
