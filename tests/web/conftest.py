"""What the tests of the wire share."""

from collections.abc import Iterator

import pytest

from tests.web.wire import Usual


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> Iterator[str]:
    """Has a test done over both."""
    Usual.scheme = request.param
    yield request.param
    Usual.scheme = "http"
