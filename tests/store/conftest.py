"""Fixtures of the store's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox
from tests.store.restored import Restoring


@pytest.fixture
def mailbox(store: Store) -> Mailbox:
    """A mailbox with an inbox, a Sent folder and a spam folder."""
    return Mailbox(store)


@pytest.fixture
def restoring(tmp_path: Path) -> Iterator[Restoring]:
    """Two related stores; the restored one is closed at the end."""
    made = Restoring(tmp_path)
    yield made
    made.close()
