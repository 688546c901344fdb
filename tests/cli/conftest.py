"""The command line in this process, with its own streams, folders and environment; the user's files are not touched."""

import io
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli.main import run
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.store.store import Store
from tests.cli.recording_server import RecordingServer


@dataclass(frozen=True)
class Outcome:
    """The output, error output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The data of the envelope on stdout."""
        return json.loads(self.out)["data"]

    @property
    def error(self) -> Any:
        """The error object on stderr; only help may precede it."""
        return json.loads(self.err.splitlines()[-1] if self.err.startswith("Usage: ") else self.err)["error"]


class Screen(io.StringIO):
    """An output stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class CommandLine:
    """Runs commands on folders of the test."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "data").mkdir()
        self.environment |= {
            "MAILBOX_APPLIANCE_CONFIG_DIR": str(self.folder / "config"),
            "MAILBOX_APPLIANCE_DATA_DIR": str(self.data_dir),
            "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        }

    @property
    def data_dir(self) -> Path:
        """The data directory that the commands use."""
        return self.folder / "data"

    def __call__(
        self, *argv: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None, screen: bool = False
    ) -> Outcome:
        out, err = (Screen(), Screen()) if screen else (io.StringIO(), io.StringIO())
        terminal = Terminal(io.BytesIO(stdin), out, err, {**self.environment, **(environment or {})})
        return Outcome(run(argv, self.services, terminal), out.getvalue(), err.getvalue())

    def speak_to(self, server: RecordingServer) -> None:
        """Make commands use this server with a token."""
        self.environment |= {"MAILBOX_APPLIANCE_INSTANCE": server.url, "MAILBOX_APPLIANCE_TOKEN": "mbxs_test"}


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """A command line without any session."""
    return CommandLine(tmp_path)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store."""
    folder = tmp_path_factory.mktemp("template") / "data"
    Store.open(folder).close()
    return folder


@pytest.fixture
def store_cli(cli: CommandLine, template: Path) -> CommandLine:
    """A command line on a copy of that store, without a running appliance."""
    shutil.copytree(template, cli.data_dir, dirs_exist_ok=True)
    cli.data_dir.chmod(0o700)
    cli.services |= SERVICES
    return cli


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    """A server that records its requests."""
    with RecordingServer() as started:
        yield started


@pytest.fixture
def client_of(cli: CommandLine, server: RecordingServer) -> CommandLine:
    """A command line that uses the recording server."""
    cli.speak_to(server)
    return cli
