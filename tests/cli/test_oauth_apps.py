"""`oauth-apps`: the requests of its commands; secrets never come from an argument."""

from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

GOOGLE = "/admin/oauth-apps/google"
SET = ("oauth-apps", "set", "google", "--client-id", "c")
FROM_STDIN = {"clientId": "c", "clientSecret": "from stdin"}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (["--client-secret-stdin"], FROM_STDIN),
        (["--client-secret-stdin", "--tenant-id", "t"], {**FROM_STDIN, "tenantId": "t"}),
        (["--keep-client-secret"], {"clientId": "c"}),
        (["--public-client"], {"clientId": "c", "publicClient": True}),
        ([], {"clientId": "c", "clientSecret": "of the environment"}),
    ],
)
def test_set(options: list[str], body: dict[str, Any], client_of: CommandLine, server: RecordingServer) -> None:
    server.data("PUT", GOOGLE, {})
    environment = {"MAILBOX_APPLIANCE_CLIENT_SECRET": "of the environment"}
    assert client_of(*SET, *options, stdin=b"from stdin\n", environment=environment).code == 0
    assert [asked.json for asked in server.asked] == [body]


@pytest.mark.parametrize(
    ("line", "request_line"),
    [
        (["oauth-apps", "show"], "GET /api/v1/admin/oauth-apps"),
        (["oauth-apps", "remove", "outlook"], "DELETE /api/v1/admin/oauth-apps/outlook"),
    ],
)
def test_show_and_remove(line: list[str], request_line: str, client_of: CommandLine, server: RecordingServer) -> None:
    method, target = request_line.split()
    server.data(method, target.removeprefix("/api/v1"), {})
    assert client_of(*line).code == 0
    assert [f"{asked.method} {asked.target}" for asked in server.asked] == [request_line]


def test_an_unknown_provider_is_told_before_a_secret_is_asked_for(
    client_of: CommandLine, server: RecordingServer
) -> None:
    outcome = client_of("oauth-apps", "set", "nope", "--client-id", "c")
    assert (outcome.code, [detail["path"] for detail in outcome.error["details"]]) == (2, ["argument:google|outlook"])
    assert server.asked == []


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ([], "option:--client-secret-stdin"),
        (["--public-client", "--keep-client-secret"], "option:--keep-client-secret"),
        (["--client-secret", "x"], "option:--client-secret"),
    ],
)
def test_wrong_usage(options: list[str], path: str, client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of(*SET, *options)
    assert (outcome.code, [detail["path"] for detail in outcome.error["details"]]) == (2, [path])
    assert server.asked == []
