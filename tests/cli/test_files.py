"""Attachments and raw messages are saved complete, under safe names, and never over an existing file."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.cli.files import safe_file_name
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer
from tests.servers.listener import Listener

IN = "/accounts/acc_1/messages/msg_1"
FILE = f"{IN}/attachments/att_1"
GET = ("attachments", "download", "msg_1", "att_1", "--account", "acc_1")
CONTENT = bytes(range(256)) * 5000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of the commands."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("Ärger 100%.txt", "Ärger 100%.txt"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..\\..\\x.exe", "_.._x.exe"),
        (".bashrc", "bashrc"),
        ("...", "att_1"),
        ("", "att_1"),
        ("a\x00b\nc\x1b[2J", "a_b_c_[2J"),
        ("con.txt", "_con.txt"),
        ("COM1", "_COM1"),
        ("a:b?c*", "a_b_c_"),
        ("exe\u202egpj.scr", "exe_gpj.scr"),
        ("x. ", "x"),
        ("-rf", "rf"),
        (" --output=x", "output=x"),
        (".-.-x", "x"),
        ("-", "att_1"),
        ("a-b.txt", "a-b.txt"),
        ("x" * 300 + ".tar.gz", "x" * 197 + ".gz"),
        ("€" * 200 + ".pdf", "€" * 65 + ".pdf"),
        ("x" * 300, "x" * 199),
    ],
)
def test_names_from_mail_are_only_names(name: str, safe: str) -> None:
    assert safe_file_name(name, "att_1") == safe
    assert len(safe.encode()) <= 200


def test_a_file_is_saved_and_told(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    server.answer("GET", FILE, Canned(raw=CONTENT, fields=(("Content-Disposition", 'attachment; filename="a b.bin"'),)))
    outcome = client_of(*GET)
    assert outcome.code == 0, outcome.err
    assert outcome.data == {"file": "a b.bin", "sizeBytes": len(CONTENT), "mimeType": ""}
    assert (here / "a b.bin").read_bytes() == CONTENT
    assert (here / "a b.bin").stat().st_mode & 0o777 == 0o600
    assert os.listdir(here) == ["a b.bin"]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("attachment; filename=\"_.pdf\"; filename*=UTF-8''%E2%82%AC.pdf", "€.pdf"),
        ("attachment; filename=\"x\"; filename*=UTF-8''..%2F..%2Fx", "_.._x"),
        ("attachment", "att_1"),
    ],
)
def test_its_own_name_is_made_safe(
    client_of: CommandLine, server: RecordingServer, here: Path, disposition: str, name: str
) -> None:
    server.answer("GET", FILE, Canned(raw=b"x", fields=(("Content-Disposition", disposition),)))
    assert client_of(*GET).data["file"] == name
    assert os.listdir(here) == [name]


def test_nothing_is_replaced_unless_told(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    (here / "there").write_text("mine")
    server.answer("GET", FILE, Canned(raw=b"new", fields=(("Content-Disposition", 'attachment; filename="there"'),)))
    for more in ((), ("--output", "there"), ("--output", ".")):
        outcome = client_of(*GET, *more)
        assert (outcome.code, outcome.error["code"]) == (2, "file_exists")
        assert (here / "there").read_text() == "mine"
    assert client_of(*GET, "--output", "there", "--force").code == 0
    assert (here / "there").read_text() == "new"
    (here / "link").symlink_to(here / "nowhere")
    assert client_of(*GET, "--output", "link").code == 2
    assert sorted(os.listdir(here)) == ["link", "there"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_is_no_regular_file_is_written_into(
    client_of: CommandLine, server: RecordingServer, here: Path, force: tuple[str, ...]
) -> None:
    server.answer("GET", FILE, Canned(raw=CONTENT))
    os.mkfifo(here / "fifo")
    (here / "null").symlink_to("/dev/null")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((here / "fifo").read_bytes()))
    reader.start()
    outcome = client_of(*GET, "--output", "fifo", *force)
    reader.join(20)
    assert (outcome.code, outcome.data["sizeBytes"], received) == (0, len(CONTENT), [CONTENT])
    for name in ("null", str(here / "null")):
        assert client_of(*GET, "--output", name, *force).code == 0
    assert (here / "fifo").is_fifo()
    assert (here / "null").is_symlink()
    assert sorted(os.listdir(here)) == ["fifo", "null"]


def test_open_descriptors_are_written_into(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    server.answer("GET", FILE, Canned(raw=b"new"))
    with (here / "open").open("wb") as stream:
        stream.write(b"before, ")
        stream.flush()
        for name in ("/dev/fd", "/proc/self/fd"):
            assert client_of(*GET, "--output", f"{name}/{stream.fileno()}", "--force").code == 0
        stream.write(b", after")
    assert (here / "open").read_bytes() == b"before, newnew, after"
    assert client_of(*GET, "--output", "/dev/fd/999").error["code"] == "invalid_request"
    assert client_of(*GET, "--output", "/dev/stdout").code == client_of(*GET, "--output", "-").code == 2  # text only


def test_errors_leave_nothing_behind(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    assert client_of(*GET).error["code"] == "not_found"
    server.answer("GET", FILE, Canned(raw=b"x"))
    (here / "file").write_text("mine")
    for place, told in (
        ("no/such/folder", "The folder no/such does not exist."),
        ("file/x", "The folder file does not exist."),
        ("missing/", "The folder missing does not exist."),
        ("x" * 300, "cannot be saved: File name too long"),
    ):
        outcome = client_of(*GET, "--output", place)
        assert (outcome.code, outcome.error["code"]) == (2, "invalid_request"), place
        assert told in outcome.error["message"]
        assert [detail["path"] for detail in outcome.error["details"]] == ["option:--output"]
    assert os.listdir(here) == ["file"]


def test_into_a_folder_it_goes_under_its_own_name(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    (here / "inside").mkdir()
    fields = (("Content-Disposition", 'attachment; filename="../-a.txt"'),)
    server.answer("GET", FILE, Canned(raw=b"x", fields=fields))
    for place in ("inside", "inside/", str(here / "inside")):
        outcome = client_of(*GET, "--output", place, "--force")
        assert (outcome.code, Path(outcome.data["file"]).name) == (0, "_-a.txt")
    assert os.listdir(here / "inside") == ["_-a.txt"]
    assert client_of(*GET, "--output", "inside").code == 2


@pytest.fixture
def breaking_server() -> Iterator[str]:
    """A server that announces more bytes than it sends; its address."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 300_000)

    with Listener(handle) as server:
        yield f"http://127.0.0.1:{server.port}"


def test_what_breaks_off_is_not_saved(cli: CommandLine, breaking_server: str, here: Path) -> None:
    cli.environment |= {"MAILBOX_APPLIANCE_INSTANCE": breaking_server, "MAILBOX_APPLIANCE_TOKEN": "mbxs_test"}
    outcome = cli(*GET, "--output", "file")
    assert (outcome.code, outcome.error["code"]) == (5, "appliance_unreachable")
    assert os.listdir(here) == []


def test_a_terminal_is_told_how_far_it_is(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    server.answer("GET", FILE, Canned(raw=CONTENT))
    assert "of 1.3 MB" in client_of(*GET, screen=True).err


def test_a_source(client_of: CommandLine, server: RecordingServer, here: Path) -> None:
    server.answer("GET", f"{IN}/raw", Canned(raw=b"Subject: x\r\n\r\n"))
    assert client_of("emails", "get", "msg_1", "--account", "acc_1", "--raw", "--output", "x.eml").code == 0
    assert (here / "x.eml").read_bytes() == b"Subject: x\r\n\r\n"
