"""What the tests of sync share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.store.store import Store
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def user(mail_server: MailServer) -> str:
    return mail_server.fresh_user()


@pytest.fixture
def proxy(mail_server: MailServer) -> Iterator[FaultProxy]:
    """Stands before the IMAP server."""
    proxy = FaultProxy(mail_server.imap_port).start()
    yield proxy
    proxy.stop()
