"""Signing in at Google and Microsoft from the command line: in a local browser, by a pasted address, by a code."""

import json
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from mailbox_appliance.cli import oauth_sign_in
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import Canned, RecordingServer

GOOGLE, OUTLOOK = "/accounts/oauth/google", "/accounts/oauth/outlook"
CONNECTED = {"id": "acc_1", "email": "ann@gmail.test", "provider": "google", "status": "connecting"}
WAITING = Canned(409, {"error": {"code": "conflict", "message": "Nobody has agreed yet.", "requestId": "req_1"}})
PASTED = "http://127.0.0.1:8025/#/oauth-callback?state=abc&code=good"


def began(url: str = "https://accounts.example/authorize", **more: Any) -> dict[str, Any]:
    return {"authorizationUrl": url, "state": "abc", "expiresAt": "2099-01-01T00:00:00.000Z", **more}


class LeadsBack(Canned):
    """The response of an appliance that knows the loopback port: the provider will redirect the browser to it."""

    @property
    def raw(self) -> bytes:
        port = SERVER[0].asked[-1].json["loopbackPort"]
        back = quote(f"http://localhost:{port}/api/v1/oauth/callback", safe="")
        return json.dumps({"data": began(f"https://accounts.example/authorize?redirect_uri={back}")}).encode()

    def __init__(self) -> None:
        for name, value in (("status", 200), ("drop", False), ("early", False), ("silent", False), ("after", "")):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "fields", ())


SERVER: list[RecordingServer] = []
#: The addresses opened in a browser, and the pages at which it ended.
SHOWN: list[str] = []
TOLD: list[tuple[int, str]] = []


def browse(address: str, _environment: object) -> bool:
    """Simulate a browser and a consenting provider: two other requests, then the expected one."""
    SHOWN.append(address)
    if back := parse_qs(urlsplit(address).query).get("redirect_uri"):
        threading.Thread(target=visit, args=(back[0],)).start()
    return True


def visit(back: str) -> None:
    for address in (f"{back}?state=guessed&code=evil", back, f"{back}?state=abc&code=good&scope=mail"):
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                TOLD.append((answer.status, answer.read().decode()))
        except urllib.error.HTTPError as error:
            TOLD.append((error.code, ""))


@pytest.fixture
def desk(client_of: CommandLine, server: RecordingServer) -> CommandLine:
    """A command line on a desktop."""
    SERVER[:], SHOWN[:], TOLD[:] = [server], [], []
    client_of.services["show_in_browser"] = "tests.cli.test_sign_ins:browse"
    client_of.environment["DISPLAY"] = ":0"
    return client_of


def test_the_browser_comes_back_to_the_command(desk: CommandLine, server: RecordingServer) -> None:
    server.answer("POST", GOOGLE, LeadsBack())
    server.data("POST", f"{GOOGLE}/finish", CONNECTED, 201)
    done = desk("accounts", "add", "--provider", "google", "--email", "ann@gmail.test", "--display-name", "Ann")
    assert (done.code, done.data["id"]) == (0, "acc_1")
    begun, finished = (asked.json for asked in server.asked)
    assert begun == {"email": "ann@gmail.test", "displayName": "Ann", "loopbackPort": begun["loopbackPort"]}
    port = begun["loopbackPort"]
    wanted = f"http://127.0.0.1:{port}/api/v1/oauth/callback?state=abc&code=good&scope=mail"
    assert finished == {"redirectUrl": wanted}
    assert len(SHOWN) == 1
    assert SHOWN[0] in done.err
    assert [status for status, _ in TOLD] == [404, 404, 200]
    assert "Return to the terminal" in TOLD[-1][1]
    assert "good" not in TOLD[-1][1] + done.err


def test_an_appliance_with_an_address_of_its_own_leads_there(desk: CommandLine, server: RecordingServer) -> None:
    back = quote("https://mail.example.org/api/v1/oauth/callback", safe="")
    server.data("POST", GOOGLE, began(f"https://accounts.example/authorize?redirect_uri={back}"))
    server.data("POST", f"{GOOGLE}/finish", CONNECTED, 201)
    done = desk("accounts", "add", "--provider", "google", stdin=PASTED.encode() + b"\n")
    assert done.code == 0
    assert SHOWN == []
    assert server.asked[-1].json == {"redirectUrl": PASTED}


@pytest.mark.parametrize("environment", [{"DISPLAY": ""}, {"DISPLAY": ":0"}])
def test_an_address_is_pasted(desk: CommandLine, server: RecordingServer, environment: dict[str, str]) -> None:
    server.data("POST", GOOGLE, began())
    server.data("POST", f"{GOOGLE}/finish", CONNECTED, 201)
    options = ("--paste",) if environment["DISPLAY"] else ()
    argv = ("accounts", "add", "--provider", "google", *options)
    done = desk(*argv, stdin=PASTED.encode() + b"\r\n", environment=environment)
    assert (done.code, done.data["id"]) == (0, "acc_1")
    assert [asked.json for asked in server.asked] == [{}, {"redirectUrl": PASTED}]
    assert "https://accounts.example/authorize" in done.err


def test_a_code_is_typed_elsewhere(desk: CommandLine, server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_sign_in, "_LEAST_INTERVAL", 0)
    page = "https://microsoft.example/devicelogin"
    server.data("POST", OUTLOOK, began(userCode="ABCD-EFGH", verificationUri=page, interval=0))
    server.answer("POST", f"{OUTLOOK}/finish", WAITING, WAITING, Canned(201, {"data": CONNECTED}))
    done = desk("accounts", "add", "--provider", "outlook", "--device")
    assert (done.code, done.data["id"]) == (0, "acc_1")
    assert [asked.json for asked in server.asked] == [{"device": True}, *[{"state": "abc"}] * 3]
    assert page in done.err
    assert "ABCD-EFGH" in done.err


def test_what_the_provider_refused_ends_the_waiting(
    desk: CommandLine, server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_sign_in, "_LEAST_INTERVAL", 0)
    refusal = {"code": "invalid_request", "message": "Access was not granted.", "requestId": "req_1"}
    server.data("POST", OUTLOOK, began(userCode="A", verificationUri="https://b.example", interval=0))
    server.answer("POST", f"{OUTLOOK}/finish", WAITING, Canned(400, {"error": refusal}))
    done = desk("accounts", "add", "--provider", "outlook", "--device")
    assert (done.code, json.loads(done.err.splitlines()[-1])["error"]) == (2, refusal)


def test_a_script_begins_and_finishes(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", OUTLOOK, began())
    server.data("POST", f"{OUTLOOK}/finish", CONNECTED, 201)
    add = ("accounts", "add", "--provider", "outlook")
    begun = client_of(*add, "--begin", "--email", "office@contoso.test", "--device")
    assert (begun.code, begun.data["state"], begun.err) == (0, "abc", "")
    for brought, body in ((PASTED, {"redirectUrl": PASTED}), ("abc", {"state": "abc"})):
        done = client_of(*add, "--finish", stdin=brought.encode())
        assert (done.code, done.data["id"], done.err) == (0, "acc_1", "")
        assert server.asked[-1].json == body
    assert server.asked[0].json == {"email": "office@contoso.test", "device": True}


@pytest.mark.parametrize(
    ("status", "options"), [("reauth_required", ()), ("ready", ("--sign-in",)), ("error", ("--paste",))]
)
def test_a_mailbox_regains_its_access(
    desk: CommandLine, server: RecordingServer, status: str, options: tuple[str, ...]
) -> None:
    server.data("GET", "/accounts/acc_1", {**CONNECTED, "status": status})
    server.answer("POST", GOOGLE, Canned(200, {"data": began()}) if "--paste" in options else LeadsBack())
    server.data("POST", f"{GOOGLE}/finish", CONNECTED, 201)
    done = desk("accounts", "reconnect", "acc_1", *options, stdin=PASTED.encode())
    assert (done.code, done.data["id"]) == (0, "acc_1")
    assert server.asked[1].json["accountId"] == "acc_1"


def test_the_access_that_a_mailbox_has_is_tried(desk: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/accounts/acc_1", {**CONNECTED, "status": "error"})
    server.data("POST", "/accounts/acc_1/reconnect", CONNECTED)
    assert desk("accounts", "reconnect", "acc_1").code == 0
    assert server.asked[-1].json == {}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("add", "--provider", "google", "--device"), "does not support --device"),
        (("add", "--provider", "outlook", "--device", "--paste"), "cannot be combined"),
        (("add", "--provider", "google", "--imap-host", "h"), "--imap-host"),
        (("add", "--provider", "google", "--owner", "mem_1"), "--owner"),
        (("add", "--paste"), "--provider"),
        (("add", "--provider", "google", "--begin", "--finish"), "--begin"),
        (("add", "--provider", "google", "--finish", "--email", "a@b.example"), "--email"),
        (("add", "--provider", "yahoo"), "google"),
        (("reconnect", "acc_1", "--sign-in", "--imap-port", "993"), "--imap-port"),
    ],
)
def test_what_does_not_go_together_is_told_before_anybody_is_asked(
    desk: CommandLine, server: RecordingServer, argv: tuple[str, ...], told: str
) -> None:
    done = desk("accounts", *argv)
    assert done.code == 2
    assert told in done.err
    assert server.asked == []


def test_a_mailbox_with_a_password_is_not_signed_in_to(desk: CommandLine, server: RecordingServer) -> None:
    server.data("GET", "/accounts/acc_1", {**CONNECTED, "provider": "imap"})
    done = desk("accounts", "reconnect", "acc_1", "--sign-in")
    assert (done.code, "--new-password" in done.error["message"]) == (2, True)


def test_nobody_comes_back(desk: CommandLine, server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_sign_in, "_LONGEST", 0.05)
    desk.services["show_in_browser"] = "tests.cli.test_sign_ins:refuses"
    server.answer("POST", GOOGLE, LeadsBack())
    done = desk("accounts", "add", "--provider", "google")
    assert done.code == 5
    assert "Could not open the sign-in page" in done.err


def refuses(_address: str, _environment: object) -> bool:
    return False
