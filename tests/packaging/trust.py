"""The CAs that a bundle trusts on a system without any: only those that it contains."""

from pathlib import Path
from typing import Any

from tests.packaging.newcomer import Newcomer
from tests.servers.dovecot import MailServer


def prove_refusal(newcomer: Newcomer, server: MailServer, email: str) -> None:
    """A server whose CA is not in the list is refused."""
    refused = _connect(newcomer, server, email)
    assert refused.returncode != 0
    assert "not from a trusted CA" in refused.stderr, refused.stderr


def prove_list(newcomer: Newcomer, server: MailServer, email: str) -> None:
    """A folder bundle (run by `newcomer`) trusts a server whose CA is in its list."""
    program = newcomer.system / newcomer.program[1:]
    with (program.parent / "_internal" / "certifi" / "cacert.pem").open("ab") as brought:
        brought.write(Path(server.ca_file).read_bytes())
    newcomer.start()
    newcomer.set_up()
    connected = _connect(newcomer, server, email)
    assert connected.returncode == 0, connected.stderr
    newcomer.stop()


def _connect(newcomer: Newcomer, server: MailServer, email: str) -> Any:
    imap = ("--imap-host", "127.0.0.1", "--imap-port", str(server.imaps_port))
    smtp = ("--smtp-host", "127.0.0.1", "--smtp-port", str(server.smtps_port))
    words = ("accounts", "add", "--email", email, *imap, *smtp, "--password-stdin")
    return newcomer.try_to_say(*words, typed="secret\n")
