"""Fixtures that the tests of changes at the mail server share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mailbox.rig import Rig
from tests.servers.dovecot import MailServer

_NOTHING = "mailbox %s {\n auto = no\n special_use =\n }"
#: All folders are below INBOX, and there are none yet.
BARE = "\n".join(
    [
        "namespace inbox {\n prefix = INBOX.\n separator = .",
        *(_NOTHING % name for name in ("Drafts", "Sent", "Trash", "Junk", "Archive")),
        "}",
    ]
)


@pytest.fixture
def rig(tmp_path: Path, mail_server: MailServer) -> Iterator[Rig]:
    """Yield a new mailbox."""
    made = Rig(tmp_path / "data", mail_server)
    yield made
    made.close()


@pytest.fixture(scope="session")
def _bare_server() -> Iterator[MailServer]:
    with tempfile.TemporaryDirectory(prefix="bare-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = MailServer(BARE).start(folder)
        yield server
        server.stop()


@pytest.fixture
def bare(tmp_path: Path, _bare_server: MailServer) -> Iterator[Rig]:
    """Yield a mailbox that has only an inbox; new folders must be below it, with `.` as the separator."""
    made = Rig(tmp_path / "data", _bare_server)
    yield made
    made.close()
