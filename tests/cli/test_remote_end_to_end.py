"""The command line of another computer against a real appliance, as processes, over HTTPS."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.__main__ import SERVICES
from tests.cli.authority import issue
from tests.cli.conftest import CommandLine, Outcome
from tests.servers.running import PASSWORD, RunningAppliance


def own_address() -> str:
    """Return an address of this computer that does not count as local; loopback if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # sends nothing: it asks which way that would go
        except OSError:
            return "127.0.0.1"
        return str(asked.getsockname()[0])


@dataclass
class Both:
    """The appliance, the command line of its operator, and that of a remote administrator."""

    appliance: RunningAppliance
    there: CommandLine
    elsewhere: CommandLine
    url: str

    def operate(self, *argv: str) -> Outcome:
        """Run a command as the operator, on the appliance's computer."""
        return self.there("--data-dir", str(self.appliance.folder), *argv)

    def log_in(self, *argv: str) -> Outcome:
        """Sign in as the remote administrator."""
        login = ("login", self.url, "--email", "ada@example.org", "--password-stdin")
        return self.elsewhere(*login, *argv, stdin=PASSWORD.encode())

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint that the operator gives to the administrator."""
        told = self.operate("https", "fingerprint", "--format", "table")
        assert told.code == 0, told.err
        return told.out.strip()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """An appliance that serves HTTPS at an address of this computer."""
    folders = [tmp_path_factory.mktemp(name) for name in ("appliance", "there", "elsewhere")]
    appliance = RunningAppliance(folders[0], arguments=("--https-port", "0", "--https-host", own_address())).start()
    appliance.set_up()
    assert appliance.https is not None
    there, elsewhere = (CommandLine(folder, services=dict(SERVICES)) for folder in folders[1:])
    yield Both(appliance, there, elsewhere, appliance.https)
    assert appliance.stop() == 0


def test_from_the_unknown_certificate_to_another_one(both: Both) -> None:
    first = both.fingerprint
    outcome = both.log_in()
    assert (outcome.code, outcome.error["code"]) == (5, "certificate_unknown")
    assert f"--fingerprint {first}" in outcome.error["message"]

    assert both.log_in("--fingerprint", first).code == 0
    assert both.elsewhere("whoami").data["member"]["role"] == "admin"
    assert both.elsewhere("members", "add", "--name", "Bob", "--email", "bob@example.org").code == 0
    assert both.elsewhere("backup", "create").code == 0
    assert both.elsewhere("https", "status").data["certificate"]["fingerprint"] == first

    assert both.operate("https", "rotate").code == 0
    second = both.fingerprint
    outcome = both.elsewhere("whoami")
    assert (outcome.code, outcome.error["code"]) == (5, "certificate_changed")
    assert first in outcome.error["message"]
    assert second in outcome.error["message"]
    assert both.log_in("--fingerprint", second).code == 0
    assert both.elsewhere("whoami").code == 0


def test_a_member_takes_up_links_from_another_computer(both: Both, tmp_path: Path) -> None:
    pin = ("--fingerprint", both.fingerprint)
    assert both.log_in(*pin).code == 0
    carol, new = CommandLine(tmp_path), ("--name", "Carol", "--email", "carol@example.org")
    invited = both.elsewhere("members", "add", *new).data["invitation"]["url"]
    stdin = ("--link-stdin", "--password-stdin")
    refused = carol("enroll", both.url, *stdin, stdin=f"{invited}\na first password".encode())
    assert (refused.code, refused.error["code"]) == (5, "certificate_unknown")
    assert carol("enroll", both.url, *stdin, *pin, stdin=f"{invited}\ncarol".encode()).code == 2, "no password"
    assert carol("enroll", both.url, *stdin, *pin, stdin=f"{invited}\na first password".encode()).code == 0
    assert carol("whoami").data["member"]["email"] == "carol@example.org"

    both_passwords = ("--password-stdin", "--new-password-stdin")
    assert carol("password", *both_passwords, stdin=b"a wrong password\na second password").code == 4
    assert carol("password", *both_passwords, stdin=b"a first password\na second password").code == 0
    reset = both.elsewhere("members", "reset-password", "carol@example.org").data["url"]
    assert carol("enroll", both.url, *stdin, stdin=f"{reset}\na third password".encode()).code == 2
    assert carol("reset-password", both.url, *stdin, stdin=f"{reset}\na third password".encode()).code == 0
    used = carol("reset-password", both.url, *stdin, stdin=f"{reset}\na third password".encode())
    assert (used.code, used.error["code"]) == (2, "invalid_token")
    assert len(carol("sessions", "list").data) == 1
    assert carol("profile", "update", "--name", "Carol C").data["name"] == "Carol C"
    assert carol("about").data["setupRequired"] is False


def test_a_certificate_that_is_trusted_needs_no_pin(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = issue(authority=True)
    own = issue(root, names=(str(urlsplit(both.url).hostname),))
    (tmp_path / "root.pem").write_bytes(root.pem)
    (tmp_path / "cert.pem").write_bytes(own.pem)
    (tmp_path / "key.pem").write_bytes(own.private)
    assert both.operate("https", "import", str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")).code == 0
    both.elsewhere("instances", "remove", both.url.removeprefix("https://"))
    assert both.log_in().error["code"] == "certificate_unknown"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.pem"))
    assert both.log_in().code == 0
    assert both.elsewhere("members", "list").code == 0
    assert [row["fingerprint"] for row in both.elsewhere("instances", "list").data] == [None, None]
