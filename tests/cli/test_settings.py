"""Commands about settings that change while an appliance runs."""

from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer

# fmt: off
#: command line -> the body
CHANGES: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("set", "backup.daily", "no"),                       {"backup.daily": False}),
    (("set", "remote.timeout", "60"),                     {"remote.timeout": 60}),
    (("set", "log.level", "debug"),                       {"log.level": "debug"}),
    (("set", "server.https_host", ""),                    {"server.https_host": ""}),
    (("set", "metrics.allowed", "10.0.0.0/8, 192.0.2.1"), {"metrics.allowed": ["10.0.0.0/8", "192.0.2.1"]}),
    (("set", "metrics.allowed", ""),                      {"metrics.allowed": []}),
    (("set", "of.a_newer_release", "5"),                  {"of.a_newer_release": "5"}),
    (("set", "--input", "-"),                             {"backup.daily": None}),
    (("reset", "backup.daily", "log.level"),              {"backup.daily": None, "log.level": None}),
]
#: command line -> what is named
WRONG: list[tuple[tuple[str, ...], str]] = [
    (("set",),                                    "argument:NAME VALUE"),
    (("set", "log.level"),                        "argument:NAME VALUE"),
    (("set", "backup.daily", "perhaps"),          "argument:VALUE"),
    (("set", "remote.timeout", "long"),           "argument:VALUE"),
    (("set", "remote.timeout", "1", "--input", "-"), "option:--input"),
    (("reset",),                                  "argument:NAME..."),
]
# fmt: on


@pytest.mark.parametrize(("line", "body"), CHANGES)
def test_a_change(line: tuple[str, ...], body: dict[str, Any], client_of: CommandLine, server: RecordingServer) -> None:
    server.data("PATCH", "/admin/settings", {"backup.daily": True})
    assert client_of("settings", *line, stdin=b'{"backup.daily": null}').data == {"backup.daily": True}
    assert server.asked[0].json == body


@pytest.mark.parametrize(("line", "path"), WRONG)
def test_what_is_no_change(line: tuple[str, ...], path: str, client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("settings", *line)
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, path, [])


def test_settings_as_they_are(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/admin/settings", {"backup.daily": True, "metrics.allowed": [], "log.level": "info"})
    shown = client_of("settings", "show", "--format", "table").out
    assert shown == "backup.daily: yes\nmetrics.allowed: -\nlog.level: info\n"
