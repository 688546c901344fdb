"""`license`: the requests of its commands."""

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

PATH = "/admin/license"


def test_set(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("PUT", PATH, {})
    assert client_of("license", "set", "--token-stdin", stdin=b"a.b.c\n").code == 0
    assert client_of("license", "set", environment={"MAILBOX_APPLIANCE_LICENSE_TOKEN": "d.e.f"}).code == 0
    assert [asked.json for asked in server.asked] == [{"token": "a.b.c"}, {"token": "d.e.f"}]


@pytest.mark.parametrize(("name", "method"), [("show", "GET"), ("remove", "DELETE")])
def test_show_and_remove(name: str, method: str, client_of: CommandLine, server: RecordingServer) -> None:
    server.data(method, PATH, {})
    assert client_of("license", name).code == 0
    assert [(asked.method, asked.target) for asked in server.asked] == [(method, f"/api/v1{PATH}")]


def test_without_a_token(client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("license", "set")
    assert (outcome.code, outcome.error["details"][0]["path"]) == (2, "option:--token-stdin")
    assert server.asked == []
