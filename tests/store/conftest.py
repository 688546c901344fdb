"""A store of its own for every test, opened and closed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.mail import Mailbox


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    """A new, empty store."""
    opened = Store.open(tmp_path / "data", clock)
    yield opened
    opened.close()


@pytest.fixture
def mailbox(store: Store) -> Mailbox:
    """A mailbox with an inbox, a Sent folder and a spam folder."""
    return Mailbox(store)
