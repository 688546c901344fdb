"""What the tests of sending by Microsoft Graph share."""

from collections.abc import Iterator

import pytest

from tests.sending.outlook import Outlook, outlook


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outlook]:
    with outlook(tmp_path_factory.mktemp("outlook")) as made:
        made.connect()
        yield made


@pytest.fixture
def box(shared: Outlook) -> Outlook:
    """Return the one mailbox, which sends by Graph, after a reset."""
    shared.begin_anew()
    return shared
