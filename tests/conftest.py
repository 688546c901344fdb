"""The few fixtures that all tests share."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.dovecot import CannotStart, MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.scripted_smtp import ScriptedSmtp


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailServer]:
    """Dovecot and Postfix, for the whole run; take a mailbox of your own with `fresh_user()`."""
    # Not tmp_path: the servers change user, and that folder is closed to others.
    with tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = MailServer()
        try:
            server.start(folder)
        except CannotStart as problem:
            pytest.fail(str(problem), pytrace=False)
        yield server
        server.stop()


@pytest.fixture
def scripted_smtp() -> Iterator[ScriptedSmtp]:
    """An SMTP server that does what the test tells it."""
    server = ScriptedSmtp().start()
    yield server
    server.stop()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()
