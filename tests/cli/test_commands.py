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
FORWARD = ("emails", "forward", "msg_1", "--account", "acc_1", "--idempotency-key", "k1")
ADD = ("accounts", "add", "--email", "a@b.example", "--imap-host", "i", "--smtp-host", "s", "--password-stdin")

# fmt: off
#: command line -> method and target
READING: list[tuple[str, str]] = [
    ("whoami",                                                    "GET /me"),
    ("status",                                                    "GET /status"),
    ("openapi",                                                   "GET /openapi.json"),
    ("sessions list",                                             "GET /me/sessions"),
    ("sessions revoke ses_1",                                     "DELETE /me/sessions/ses_1"),
    ("sessions list --member mem_1",                              "GET /admin/members/mem_1/sessions"),
    ("sessions revoke ses_1 --member mem_1",                      "DELETE /admin/members/mem_1/sessions/ses_1"),
    ("sessions revoke --member mem_1",                            "DELETE /admin/members/mem_1/sessions"),
    ("sessions show ses_1 --member mem_1",                        "GET /admin/members/mem_1/sessions/ses_1"),
    ("settings show",                                             "GET /admin/settings"),
    ("members list",                                              "GET /admin/members"),
    ("members show mem_1",                                        "GET /admin/members/mem_1"),
    ("members invite mem_1",                                      "POST /admin/members/mem_1/invitation"),
    ("members reset-password mem_1",                              "POST /admin/members/mem_1/password-reset"),
    ("members remove mem_1",                                      "DELETE /admin/members/mem_1"),
    ("audit list",                                                "GET /admin/audit-events"),
    ("audit list --limit 2 --cursor c",                           "GET /admin/audit-events?limit=2&cursor=c"),
    ("audit list --mine",                                         "GET /me/audit-events"),
    ("backup list",                                               "GET /admin/backups"),
    ("backup list --limit 2 --cursor c",                          "GET /admin/backups?limit=2&cursor=c"),
    ("accounts list",                                             "GET /accounts"),
    ("accounts list --everybody",                                 "GET /admin/accounts"),
    ("accounts show --account acc_1",                             f"GET {IN}"),
    ("accounts show acc_1",                                       f"GET {IN}"),
    ("accounts show acc_1 --account acc_1",                       f"GET {IN}"),
    ("accounts remove acc_1",                                     f"DELETE {IN}"),
    ("accounts remove --account acc_1",                           f"DELETE {IN}"),
    ("accounts folders --account acc_1",                          f"GET {IN}/folders"),
    ("emails list --account acc_1",                               f"GET {IN}/messages"),
    ("emails list --account acc_1 --folder A/Å&b --limit 5",      f"GET {IN}/messages?folder=A%2F%C3%85%26b&limit=5"),
    ("emails list --account acc_1 --unread --has-attachment",     f"GET {IN}/messages?unread=true&hasAttachment=true"),
    ("emails list --account acc_1 --read --unstarred",            f"GET {IN}/messages?unread=false&starred=false"),
    ("emails list --account acc_1 --no-attachment",               f"GET {IN}/messages?hasAttachment=false"),
    ("emails list --account acc_1 --from a --to b --subject c",   f"GET {IN}/messages?from=a&to=b&subject=c"),
    ("emails list --account acc_1 --after 2026-01-31 --before T", f"GET {IN}/messages?after=2026-01-31&before=T"),
    ("emails list --account acc_1 --query is:read --text a",      f"GET {IN}/messages?q=is%3Aread&text=a"),
    ("emails search invoice from:ada --account acc_1",            f"GET {IN}/messages?q=invoice%20from%3Aada"),
    ("emails search --folder inbox --starred --account acc_1",    f"GET {IN}/messages?folder=inbox&starred=true"),
    ("emails search invoice --text due --limit 5",                "GET /messages?text=due&limit=5&q=invoice"),
    ("emails search",                                             "GET /messages"),
    ("labels list --account acc_1",                               f"GET {IN}/labels"),
    ("emails list --account acc_1 --cursor a=b",                  f"GET {IN}/messages?cursor=a%3Db"),
    ("emails get msg_1 --account acc_1",                          f"GET {IN}/messages/msg_1"),
    ("emails get a/b?c#d --account acc_1",                        f"GET {IN}/messages/a%2Fb%3Fc%23d"),
    ("emails get msg_1 --account acc_1 --body-format text",        f"GET {IN}/messages/msg_1/body?format=text"),
    ("emails get m --account acc_1 --body-format html --offset 5 --limit 9",
     f"GET {IN}/messages/m/body?format=html&offset=5&limit=9"),
    ("threads get thr_1 --account acc_1 --limit 2 --cursor c",    f"GET {IN}/threads/thr_1?limit=2&cursor=c"),
    ("emails delivery-status dlv_1 --account acc_1",              f"GET {IN}/delivery-operations/dlv_1"),
    ("emails deliveries --account acc_1 --limit 2 --cursor c",    f"GET {IN}/delivery-operations?limit=2&cursor=c"),
    ("scheduled list --account acc_1",                            f"GET {IN}/scheduled"),
    ("scheduled list --account acc_1 --limit 2 --cursor c",       f"GET {IN}/scheduled?limit=2&cursor=c"),
    ("scheduled cancel sch_1 --account acc_1",                    f"DELETE {IN}/scheduled/sch_1"),
    ("--format ndjson emails list --account acc_1",               f"GET {IN}/messages"),
    ("emails --format ndjson list --account acc_1",               f"GET {IN}/messages"),
    ("emails list --account acc_1 --format=table",                f"GET {IN}/messages"),
]
#: options of `emails send` -> the body
SENDING: list[tuple[list[str], dict[str, Any]]] = [
    (["--to", "a@b.example", "--subject", "Hi", "--text", "There\nagain"],
     {"to": [{"email": "a@b.example"}], "subject": "Hi", "body": {"text": "There\nagain"}}),
    (["--to", "Ann Example <a@b.example>"],   {"to": [{"name": "Ann Example", "email": "a@b.example"}], "body": {}}),
    (["--to", '"Doe, \\"J\\"" <j@b.example>'], {"to": [{"name": 'Doe, "J"', "email": "j@b.example"}], "body": {}}),
    (["--to", "<a@b.example>"],               {"to": [{"email": "a@b.example"}], "body": {}}),
    (["--to", "a@b", "--to", "c@d", "--cc", "e@f", "--bcc", "g@h"],
     {"to": [{"email": "a@b"}, {"email": "c@d"}], "cc": [{"email": "e@f"}], "bcc": [{"email": "g@h"}], "body": {}}),
    (["--from", "me@b.example", "--to", "a@b"], {"from": "me@b.example", "to": [{"email": "a@b"}], "body": {}}),
    (["--reply-to", "msg_1", "--reply-all", "--text", ""],
     {"replyToMessageId": "msg_1", "replyAll": True, "body": {"text": ""}}),
    (["--to", "a@b", "--send-at", "2030-01-31T09:00:00Z"],
     {"to": [{"email": "a@b"}], "body": {}, "sendAt": "2030-01-31T09:00:00Z"}),
    (["--draft", "msg_2"],                    {"draftId": "msg_2"}),
    (["--draft", "msg_2", "--send-at", "2030-01-31t09:00:00+01:00"],
     {"draftId": "msg_2", "sendAt": "2030-01-31t09:00:00+01:00"}),
    (["--text-file", "-"],                    {"body": {"text": "from stdin ä\n"}}),
    (["--html-file", "-", "--text", "t"],     {"body": {"text": "t", "html": "from stdin ä\n"}}),
    (["--subject", "--format", "--text", "-"], {"subject": "--format", "body": {"text": "-"}}),
]
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
#: command lines that are wrong as they stand, and what the error names
WRONG: list[tuple[list[str], str]] = [
    (["nonsense"],                                                   ""),
    (["emails"],                                                     ""),
    (["emails", "list", "--limit", "0"],                             "option:--limit"),
    (["emails", "list", "--limit", "101"],                           "option:--limit"),
    (["emails", "list", "--max-results", "10001"],                   "option:--max-results"),
    (["emails", "list", "--bogus"],                                  "option:--bogus"),
    (["emails", "list", "--format", "xml"],                          "option:--format"),
    (["emails", "get"],                                              "argument:MESSAGE-ID"),
    (["sessions", "revoke"],                                         "argument:SESSION-ID"),
    (["sessions", "show", "ses_1"],                                  "option:--member"),
    (["accounts", "rename", "acc_1"],                                "option:--display-name"),
    (["backup", "download", ".."],                                   "path:backupId"),
    (["emails", "get", "", "--account", "acc_1"],                    "path:messageId"),
    (["emails", "get", "..", "--account", "acc_1"],                  "path:messageId"),
    (["emails", "get", "\udcff", "--account", "acc_1"],              "path:messageId"),
    (["emails", "list", "--account", "acc_1", "--folder", "\udcff"], ""),
    (["emails", "send", "--to", "a@b"],                              "option:--idempotency-key"),
    (["emails", "send", "--idempotency-key", "a b"],                 "header:Idempotency-Key"),
    (["emails", "send", "--idempotency-key", "a\nb"],                "header:Idempotency-Key"),
    (["emails", "send", "--idempotency-key", "k" * 256],             "header:Idempotency-Key"),
    ([*SEND, "--reply-all"],                                         "option:--reply-all"),
    ([*SEND, "--text", "a", "--text-file", "-"],                     "option:--text-file"),
    ([*SEND, "--text-file", "-", "--html-file", "-"],                "option:--html-file"),
    ([*SEND, "--draft", "msg_1", "--subject", "x"],                  "option:--draft"),
    ([*SEND, "--input", "-", "--draft", "msg_1"],                    "option:--input"),
    ([*SEND, "--send-at", "tomorrow"],                               "option:--send-at"),
    ([*SEND, "--draft", "msg_1", "--send-at", "2030-02-30T09:00Z"],  "option:--send-at"),
    (["emails", "preview", "--draft", "m", "--attach", "f"],         "option:--draft"),
    (["emails", "preview", "--idempotency-key", "k"],                "option:--idempotency-key"),
    ([*FORWARD],                                                     "option:--to"),
    ([*FORWARD, "--to", "a@b", "--input", "-"],                      "option:--input"),
    ([*FORWARD, "--to", "a@b", "--bcc", "c@d"],                      "option:--bcc"),
    ([*FORWARD, "--to", "a@b", "--comment", "a", "--comment-file", "-"], "option:--comment-file"),
    (["emails", "forward", "msg_1", "--to", "a@b"],                  "option:--idempotency-key"),
    (["emails", "forward", "--to", "a@b", "--idempotency-key", "k"], "argument:MESSAGE-ID"),
    (["emails", "resolve", "dlv_1"],                                 "option:--outcome"),
    (["emails", "resolve", "dlv_1", "--outcome", "uncertain"],       "option:--outcome"),
    (["drafts", "send", "msg_1"],                                    "option:--idempotency-key"),
    (["drafts", "send", "msg_1", "--idempotency-key", "k", "--send-at", "x"], "option:--send-at"),
    (["scheduled", "cancel"],                                        "argument:SCHEDULE-ID"),
    (["scheduled", "cancel", "..", "--account", "acc_1"],            "path:scheduleId"),
    ([*SEND, "--input", "-", "--to", "a@b"],                         "option:--input"),
    ([*SEND, "--attach", "/no/such/file"],                           ""),
    ([*SEND, "--subject", "\udcff"],                                 ""),
    (["members", "show"],                                            "argument:ID|EMAIL"),
    (["members", "show", ""],                                        "path:memberId"),
    (["members", "add", "--name", "n"],                              "option:--email"),
    (["members", "update", "a@b.example"],                           "option:--name"),
    (["members", "update", "mem_1", "--role", "owner"],              "option:--role"),
    (["backup", "restore"],                                          "argument:ID|FILE"),
    (["backup", "restore", "no/such/file"],                          ""),
    (["backup", "restore", __file__],                                "option:--online"),
    (["backup", "restore", "bak_1"],                                 "option:--online"),
    (["backup", "restore", "bak_1", "--online", "--to", "there"],    "option:--online"),
    (["backup", "restore", __file__, "--online"],                    ""),
    (["backup", "verify"],                                           "argument:ID|FILE"),
    (["backup", "verify", "no/such/file"],                           ""),
    (["backup", "create", "--passphrase-stdin"],                     ""),
    (["backup", "create", "--with-passphrase"],                      "option:--passphrase-stdin"),
    (["accounts", "remove"],                                         "option:--account"),
    (["accounts", "show", "acc_1", "--account", "acc_2"],            "option:--account"),
    (["accounts", "add", "--email", "a@b"],                          "option:--imap-host"),
    ([*ADD, "--imap-port", "0"],                                     "option:--imap-port"),
    ([*ADD, "--input", "-"],                                         "option:--input"),
    (["accounts", "reconnect", "--input", "-", "--imap-port", "1"],  "option:--input"),
    (["accounts", "reconnect", "--imap-port", "0"],                  "option:--imap-port"),
    (["accounts", "reconnect", "--password-stdin"],                  ""),
    (["accounts", "access", "acc_1"],                                "option:--grant"),
    (["accounts", "access", "--grant", "m", "--revoke", "m"],        "option:--revoke"),
    ([*ADD],                                                         ""),
    (["login", "--email", "a@b"],                                    "option:--password-stdin"),
    (["logs", "--lines", "0"],                                       "option:--lines"),
    (["serve", "--port", "65536"],                                   "option:--port"),
    (["--instance", "ftp://x", "whoami"],                            ""),
    (["--instance", "http://u:p@x", "whoami"],                       ""),
    (["--instance", "http://x:99999", "whoami"],                     ""),
    (["--instance", "https://", "whoami"],                           ""),
]
# fmt: on


@pytest.mark.parametrize(("line", "request_line"), READING)
def test_a_command_is_one_request(
    line: str, request_line: str, client_of: CommandLine, server: RecordingServer
) -> None:
    method, target = request_line.split(" ")
    server.data(method, target, PAGE)
    outcome = client_of(*line.split(" "))
    assert (outcome.code, outcome.err) == (0, "")
    (asked,) = server.asked
    assert f"{asked.method} {asked.target}" == f"{method} /api/v1{target}"
    assert asked.headers["Authorization"] == "Bearer mbxs_test"
    assert asked.body == b""


def test_held_sends_are_released_by_a_setting(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("PATCH", "/admin/settings", {})
    assert client_of("scheduled", "release").code == 0
    (asked,) = server.asked
    assert asked.json == {"sending.hold_scheduled": False}


@pytest.mark.parametrize(("options", "body"), SENDING)
def test_a_message_from_options(
    options: list[str], body: dict[str, Any], client_of: CommandLine, server: RecordingServer
) -> None:
    server.data("POST", f"{IN}/send", {"operationId": "dlv_1", "status": "succeeded"})
    outcome = client_of(*SEND, *options, stdin="\ufefffrom stdin ä\n".encode())
    assert (outcome.code, outcome.err) == (0, "")
    (asked,) = server.asked
    assert asked.json == body
    assert asked.headers["Idempotency-Key"] == "k1"
    assert asked.headers["Content-Type"] == "application/json; charset=utf-8"


def test_a_whole_body_goes_as_it_stands(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", f"{IN}/send", {"operationId": "dlv_1", "status": "queued"}, status=202)
    assert client_of(*SEND, "--input", "-", stdin=b'{ "to":[] }').code == 0
    assert server.asked[0].body == b'{ "to":[] }'


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


def test_attached_files_have_a_bound_together(client_of: CommandLine, server: RecordingServer) -> None:
    large = client_of.folder / "large"
    with large.open("wb") as stream:
        stream.truncate(13 * 1024 * 1024)
    outcome = client_of(*SEND, "--attach", str(large), "--attach", str(large))
    assert (outcome.code, outcome.error["code"]) == (2, "message_too_large")
    assert server.asked == []


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


@pytest.mark.parametrize(("line", "path"), WRONG)
def test_wrong_usage_is_an_error_object_and_no_request(
    line: list[str], path: str, client_of: CommandLine, server: RecordingServer
) -> None:
    outcome = client_of(*line)
    assert (outcome.code, outcome.error["code"]) == (2, "invalid_request")
    assert outcome.error["requestId"].startswith("req_")
    assert outcome.error["message"]
    assert [detail["path"] for detail in outcome.error.get("details", ())] == ([path] if path else [])
    assert server.asked == []


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
