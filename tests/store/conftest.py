"""Fixtures of the store's tests."""

import pytest

from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox


@pytest.fixture
def mailbox(store: Store) -> Mailbox:
    """A mailbox with an inbox, a Sent folder and a spam folder."""
    return Mailbox(store)
