"""Commands and their requests."""

import importlib
import json
import pkgutil
from typing import Any

import click
import pytest

from mailbox_appliance.cli import commands
from mailbox_appliance.cli.command_table import Call, Row
from mailbox_appliance.cli.groups import Root
from mailbox_appliance.cli.main import ENTRIES
from mailbox_appliance.web.routes import ROUTES
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

PAGE: dict[str, Any] = {"items": [], "nextCursor": None}
IN = "/accounts/acc_1"
SEND = ("emails", "send", "--account", "acc_1", "--idempotency-key", "k1")
ADD = ("accounts", "add", "--email", "a@b.example", "--imap-host", "i", "--smtp-host", "s", "--password-stdin")

# fmt: off
#: options of `accounts add` -> what differs in the body
ADDING: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (["--display-name", "Work"],                {"displayName": "Work"}),
    (["--imap-port", "1143", "--smtp-port", "1025", "--imap-security", "none", "--smtp-security", "starttls"],
     {"imap": {"port": 1143, "security": "none"}, "smtp": {"port": 1025, "security": "starttls"}}),
    (["--imap-security", "starttls", "--smtp-security", "starttls"],
     {"imap": {"port": 143, "security": "starttls"}, "smtp": {"port": 587, "security": "starttls"}}),
    (["--imap-username", "u"],                  {"imap": {"username": "u"}, "smtp": {"username": "u"}}),
    (["--smtp-username", "v"],                  {"smtp": {"username": "v"}}),
    (["--smtp-password-stdin"],                 {"smtp": {"password": "second"}}),
]
# fmt: on


def test_attached_files(client_of: CommandLine, server: RecordingServer) -> None:
    files = {"notes.txt": b"text", "picture.png": b"\x89PNG", "old.tar.gz": b"\x1f\x8b", "unknown": b""}
    for name, content in files.items():
        (client_of.folder / name).write_bytes(content)
    server.data("POST", f"{IN}/send", {"status": "succeeded"})
    attach = [word for name in files for word in ("--attach", str(client_of.folder / name))]
    assert client_of(*SEND, *attach).code == 0
    found = [(one["filename"], one["mimeType"], one["content"]) for one in server.asked[0].json["attachments"]]
    assert found == [
        ("notes.txt", "text/plain", "dGV4dA=="),
        ("picture.png", "image/png", "iVBORw=="),
        ("old.tar.gz", "application/octet-stream", "H4s="),
        ("unknown", "application/octet-stream", ""),
    ]


@pytest.mark.parametrize(("options", "differs"), ADDING)
def test_a_mailbox_from_options(
    options: list[str], differs: dict[str, Any], client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", "/accounts", {"id": "acc_1"}, status=201)
    assert client_of(*ADD, *options, stdin=b"first\nsecond\n").code == 0
    login = {"security": "tls", "username": "a@b.example", "password": "first"}
    expected: dict[str, Any] = {
        "email": "a@b.example",
        "imap": {"host": "i", "port": 993, **login},
        "smtp": {"host": "s", "port": 465, **login},
    }
    for name, change in differs.items():
        expected[name] = {**expected[name], **change} if isinstance(change, dict) else change
    assert server.asked[0].json == expected


def test_wrong_usage_in_words(client_of: CommandLine) -> None:
    outcome = client_of("emails", "list", "--bogus", "--format", "table")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: No such option")


# fmt: off
#: the accessible mailboxes, the named one -> the chosen mailbox, or the exit code
MAILBOXES: list[tuple[list[str], list[str], str | int]] = [
    (["a@b.example"],                  [],                            "acc_0"),
    (["a@b.example", "c@b.example"],   ["--account", "C@B.example"],  "acc_1"),
    (["a@b.example", "c@b.example"],   ["--account", "acc_7"],        "acc_7"),
    (["a@b.example", "c@b.example"],   [],                            2),
    (["a@b.example"],                  ["--account", "x@b.example"],  2),
    ([],                               [],                            2),
]
# fmt: on


@pytest.mark.parametrize(("emails", "options", "meant"), MAILBOXES)
def test_which_mailbox(
    emails: list[str], options: list[str], meant: str | int, client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("GET", "/accounts", [{"id": f"acc_{n}", "email": email} for n, email in enumerate(emails)])
    for number in (0, 1, 7):
        server.data("GET", f"/accounts/acc_{number}/messages", PAGE)
    outcome = client_of("emails", "list", *options)
    if isinstance(meant, str):
        assert (outcome.code, server.asked[-1].target) == (0, f"/api/v1/accounts/{meant}/messages")
    else:
        assert outcome.code == meant
        assert all(email in outcome.error["message"] for email in emails)


def test_all_pages_are_followed_up_to_a_bound(client_of: CommandLine, server: RecordingServer) -> None:
    first = Canned(value={"data": {"items": [{"id": n} for n in range(100)], "nextCursor": "c1"}, "warnings": ["w"]})
    server.answer("GET", f"{IN}/messages?limit=100", first)
    second = Canned(value={"data": {"items": [{"id": n} for n in range(100, 130)], "nextCursor": "c2"}})
    server.answer("GET", f"{IN}/messages?limit=30&cursor=c1", second)
    outcome = client_of("emails", "list", "--account", "acc_1", "--max-results", "130")
    assert outcome.code == 0
    assert [item["id"] for item in outcome.data["items"]] == list(range(130))
    assert outcome.data["nextCursor"] == "c2"
    assert json.loads(outcome.out)["warnings"] == ["w"]
    lines = client_of("emails", "list", "--account", "acc_1", "--max-results", "130", "--format", "ndjson")
    assert [json.loads(line)["id"] for line in lines.out.splitlines()] == list(range(130))
    assert [json.loads(line) for line in lines.err.splitlines()] == [{"warnings": ["w"]}, {"nextCursor": "c2"}]


def test_all_means_a_thousand(client_of: CommandLine, server: RecordingServer) -> None:
    for page in range(12):
        cursor = f"&cursor=c{page}" if page else ""
        items = [{"id": f"msg_{page}_{n}"} for n in range(100)]
        server.data("GET", f"{IN}/messages?limit=100{cursor}", {"items": items, "nextCursor": f"c{page + 1}"})
    outcome = client_of("emails", "list", "--account", "acc_1", "--all")
    assert (len(outcome.data["items"]), outcome.data["nextCursor"], len(server.asked)) == (1000, "c10", 10)


def test_a_cursor_that_stands_still_ends_it(client_of: CommandLine, server: RecordingServer) -> None:
    for cursor in ("", "&cursor=c"):
        server.data("GET", f"{IN}/messages?limit=100{cursor}", {"items": [{"id": "msg_1"}], "nextCursor": "c"})
    assert len(client_of("emails", "list", "--account", "acc_1", "--all").data["items"]) == 2


def test_every_command_can_be_reached_and_has_help() -> None:
    root = Root(ENTRIES, name="mailbox-appliance")
    context = click.Context(root)
    for name in ENTRIES:
        found = root.get_command(context, name)
        assert found is not None
        assert found.name == name
        assert found.help
        if isinstance(found, click.Group):
            assert all(one.help for one in found.commands.values())


def calls() -> list[Call]:
    """Return every REST call of a command."""
    found: list[Call] = []
    for module in pkgutil.iter_modules(commands.__path__):
        for value in vars(importlib.import_module(f"{commands.__name__}.{module.name}")).values():
            many = value if isinstance(value, tuple) else (value,)
            rows = [one for one in many if isinstance(one, Row)]
            found += [one for one in many if isinstance(one, Call)] + [row.call for row in rows]
            found += [row.everywhere for row in rows if row.everywhere]
    return found


def test_every_call_of_a_command_is_a_route() -> None:
    offered = {(route.method, route.path) for route in ROUTES}
    # Not in the table: the description is generated from the table, and has no envelope.
    offered.add(("GET", "/openapi.json"))
    named = {(call.method, call.path) for call in calls()}
    assert len(named) > 12
    assert named <= offered, named - offered


#: Routes without a command, and the reason.
WITHOUT_COMMAND = {
    ("POST", "/auth/console-links/redeem"): "the console's page asks for it, in the browser that opens the link",
    ("GET", "/events"): "`events list` and `events follow` ask for it in a way of their own",
    ("GET", "/events/stream"): "`events follow` waits for pages, which it can ask for again",
    ("POST", "/uploads"): "`uploads create` sends the file itself",
    ("GET", "/uploads/{uploadId}"): "`uploads create` prints all that is known of an upload, which lasts an hour",
    ("DELETE", "/uploads/{uploadId}"): "an upload is deleted after an hour, or with the message that contains it",
    ("POST", "/uploads/links"): "a command can upload by itself",
    ("PUT", "/uploads/links/{token}"): "its address is handed to whatever uploads files",
    ("POST", "/accounts/{accountId}/messages/{messageId}/forward/preview"): "`emails forward --dry-run` asks for it",
    ("GET", "/downloads/{token}"): "its address is handed to whatever fetches files, such as curl or a browser",
}


def test_every_route_has_a_command() -> None:
    named = {(call.method, call.path) for call in calls()}
    routes = {(route.method, route.path) for route in ROUTES}
    assert routes - named == WITHOUT_COMMAND.keys() & routes
    assert not named & WITHOUT_COMMAND.keys()


def test_removing_a_mailbox_says_that_it_must_be_named(cli: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("accounts", "remove", "--help").code == 0
    assert "even if you have access to only one" in " ".join(capsys.readouterr().out.split())
