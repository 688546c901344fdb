"""Fixtures that the tests of the wire share."""

from collections.abc import Iterator

import pytest

from tests.web.wire import Usual


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test over HTTP and over HTTPS."""
    Usual.scheme = request.param
    yield request.param
    Usual.scheme = "http"
