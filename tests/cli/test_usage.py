"""Empty values, usually from unset variables, never count as omitted."""

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

AT = ("--account", "acc_1")


@pytest.mark.parametrize("words", [("",), ("", "")])
def test_an_empty_query_is_passed_on_and_none_is_left_out(
    words: tuple[str, ...], client_of: CommandLine, server: RecordingServer
) -> None:
    client_of("emails", "search", "--unread", *words)
    client_of("emails", "search", "--unread")
    assert [asked.target.partition("?")[2] for asked in server.asked] == [
        f"unread=true&q={'%20' * (len(words) - 1)}",
        "unread=true",
    ]


# fmt: off
#: command line -> the option that is refused, and a word of why
WRONG: list[tuple[tuple[str, ...], str, str]] = [
    (("--data-dir", "", "whoami"),                                 "option:--data-dir", "not be empty"),
    (("whoami", "--instance="),                                    "option:--instance", "not be empty"),
    (("emails", "preview", *AT, "--input", ""),                    "option:--input",    "not be empty"),
    (("emails", "preview", *AT, "--to", "a@b", "--attach", ""),    "option:--attach",   "not be empty"),
    (("emails", "preview", *AT, "--to", "a@b", "--attach", "-"),   "option:--attach",   "takes files"),
    (("emails", "preview", *AT, "--text-file", ""),                "option:--text-file", "not be empty"),
    (("attachments", "download", "m", "a", *AT, "--output", ""),   "option:--output",   "not be empty"),
    (("profile", "update", "--name", ""),                          "option:--name",     "not be empty"),
]
# fmt: on


@pytest.mark.parametrize(("line", "path", "told"), WRONG)
def test_an_option_that_is_given_empty_is_wrong_usage(
    line: tuple[str, ...], path: str, told: str, client_of: CommandLine, server: RecordingServer
) -> None:
    outcome = client_of(*line)
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, path, [])
    assert told in outcome.error["message"]


def test_a_secret_among_the_arguments_is_not_repeated(cli: CommandLine) -> None:
    for line in (("license", "set"), ("login", "--email", "a@b", "https://a"), ("password",)):
        outcome = cli(*line, "S3CRET", "S3CRET")
        assert outcome.code == 2
        assert "S3CRET" not in outcome.out + outcome.err


def test_an_instance_is_used_by_its_address_too_and_local_stays(cli: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/auth/login", {"token": "t"})
    assert cli("login", server.url, "--email", "a@b", "--password-stdin", stdin=b"password").code == 0
    assert cli("instances", "use", "local").data["name"] == "local"
    assert cli("instances", "use", server.url + "/").data["url"] == server.url
    assert "cannot be removed" in cli("instances", "remove", "local").error["message"]


@pytest.mark.parametrize("line", ["whoami", "attachments download msg_1 att_1 --account acc_1 --output -"])
def test_when_there_is_room_again_is_told(line: str, client_of: CommandLine, server: RecordingServer) -> None:
    error = {"code": "too_many_attempts", "message": "Try again later.", "requestId": "r"}
    for target in ("/me", "/accounts/acc_1/messages/msg_1/attachments/att_1"):
        server.answer("GET", target, Canned(429, {"error": error}, fields=(("Retry-After", "1800"),)))
    outcome = client_of(*line.split(" "))
    assert (outcome.code, outcome.error["message"]) == (5, "Try again later. Wait 1800 s.")
