"""Shared fixtures: an endpoint for each file, and an appliance with an administrator."""

from collections.abc import Iterator

import pytest
from webtest import TestApp

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.web.app import App
from tests.checked_client import CheckedClient


@pytest.fixture(scope="module")
def door() -> Iterator[McpEndpoint]:
    """One endpoint for all tests of a file, since the SDK takes a while to start."""
    made = McpEndpoint()
    yield made
    made.close()


@pytest.fixture
def ada(timed: Appliance) -> CheckedClient:
    """The first administrator, signed in."""
    return CheckedClient(timed).set_up()


@pytest.fixture
def app(timed: Appliance, door: McpEndpoint) -> TestApp:
    """The HTTP side with the endpoint."""
    return TestApp(App(timed, assistants=door))
