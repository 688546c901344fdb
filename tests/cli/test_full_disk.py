"""Commands on a full disk report that and change nothing.

The store is on a small file system of its own (tmpfs, which requires root).
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.offline.store import setup_on_files
from mailbox_appliance.store.store import Store
from tests.cli.conftest import CommandLine
from tests.servers.running import RunningAppliance

PASSPHRASE, PASSWORD = b"twelve geese fly", b"correct horse battery"
MEMBER = ("--name", "B", "--email", "b@example.org", "--password-stdin")

# fmt: off
#: the command, what stands on its input, its exit code
COMMANDS: list[tuple[str, bytes, int]] = [
    ("store check --full",                 b"",        1),
    ("store compact",                      b"",        1),
    ("store rekey",                        b"",        1),
    ("backup create",                      b"",        1),
    ("key use-file",                       b"",        1),
    ("key add-passphrase --passphrase-stdin", PASSPHRASE, 1),
    ("audit verify",                       b"",        1),
    ("https enable",                       b"",        1),
    ("https rotate",                       b"",        1),
    ("serve --port 0",                     b"",        1),
    ("setup",                              PASSWORD,   1),
]
# fmt: on


@contextmanager
def small_disk(disk: Path) -> Iterator[Callable[[], None]]:
    """A file system of 4 MiB, and a function that fills it completely."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")

    def fill() -> None:
        with (disk / "ballast").open("wb", buffering=0) as file:
            while shutil.disk_usage(disk).free:
                file.write(bytes(4096))

    try:
        yield fill
    finally:
        subprocess.run(["umount", "-l", disk], check=True, capture_output=True)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A closed store on a full disk."""
    disk = tmp_path_factory.mktemp("disk")
    with small_disk(disk) as fill:
        data = disk / "data"
        setup_on_files(data, name="A", email="a@example.org", password=PASSWORD.decode(), device_name="d")
        fill()
        yield data
        (disk / "ballast").unlink()
        Store.open(data).close()


@pytest.mark.parametrize(("line", "given", "code"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_full_disk_is_told_as_one(cli: CommandLine, full: Path, line: str, given: bytes, code: int) -> None:
    cli.services |= SERVICES
    words = (*line.split(), *(MEMBER if line == "setup" else ()))
    before = (full / "mailbox.db").read_bytes(), (full / "encryption.key").read_bytes()
    refused = cli("--data-dir", str(full), *words, stdin=given)
    assert (refused.code, refused.error["code"]) == (code, "store_unusable"), refused.err
    assert f"the disk that holds {full} is full (0 bytes free). Free some space" in refused.error["message"]
    assert ((full / "mailbox.db").read_bytes(), (full / "encryption.key").read_bytes()) == before


def test_a_disk_that_gets_full_while_it_serves_is_told(tmp_path: Path) -> None:
    with small_disk(tmp_path) as fill:
        process = RunningAppliance(tmp_path / "data").start()
        process.set_up()
        fill()
        given = {"email": "ada@example.org", "password": PASSWORD.decode(), "deviceName": "d"}
        for method, path, body in (("POST", "/auth/login", given), ("PATCH", "/me", {"name": "Other"})):
            answer = process.ask(method, path, body)
            assert (answer.status, answer.code) == (500, "internal_error")
            assert "disk of the appliance is full" in answer.body["error"]["message"]
        assert process.ask("GET", "/me").status == 200
        (tmp_path / "ballast").unlink()
        assert process.ask("PATCH", "/me", {"name": "Other"}).status == 200
        assert process.stop() == 0
