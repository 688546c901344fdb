"""API keys: created with a summary, shown once, used as the page describes, edited and revoked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.house import Box, House, Person, a_mail
from tests.console.walker import Walker
from tests.servers.running import Answer


@pytest.fixture(scope="module")
def owner(house: House) -> Person:
    return house.add_member("greta")


@pytest.fixture(scope="module")
def box(house: House, owner: Person) -> Box:
    return house.connect(owner, a_mail("Keys"))


def _new(walker: Walker, person: Person, name: str) -> Page:
    page = walker.open("/keys?new=1", person)
    page.get_by_label("Name").fill(name)
    return page


def _create(page: Page) -> Locator:
    page.get_by_role("button", name="Create key").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="Use the key")).to_be_visible()
    return dialog


def _text(dialog: Locator, name: str) -> str:
    return dialog.locator("figure").and_(dialog.get_by_label(name, exact=True)).locator("code").text_content() or ""


def _me(house: House, token: str) -> Answer:
    return house.running.ask("GET", "/me", token=token)


def _run(script: str, folder: Path) -> Any:
    """Run a text of the page in a shell where the program is installed and no session exists; return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {"PATH": path, "HOME": str(folder), "MAILBOX_APPLIANCE_KEYCHAIN": "off", "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(["bash", "-c", script], env=clean, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_a_key_may_do_is_said_as_one_chooses_and_is_what_it_stores(
    walker: Walker, owner: Person, box: Box
) -> None:
    walker.expects(400)
    page = _new(walker, owner, "")
    plain = page.get_by_role("complementary", name="Permissions of this key")
    expect(plain).to_contain_text(
        "This key can read mail in all your mailboxes, including future ones. It cannot write drafts"
    )
    page.get_by_label("Full mail access").check()
    expect(plain).to_contain_text("It sends without asking.")
    page.get_by_label("Custom").check()
    page.get_by_label("Read, list and search mail").uncheck()
    page.get_by_label("Selected mailboxes").check()
    expect(plain).to_contain_text("No mailbox is selected, so it has access to none.")
    expect(plain).to_contain_text("Without “read mail”, it cannot find mailboxes")
    page.get_by_label(box.email).check()
    expect(plain).to_contain_text(f"in {box.email} only")
    expect(page.get_by_text("Administration")).to_have_count(0)
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_label("Send, forward and schedule")).to_be_checked()  # typed values are kept after an error
    page.get_by_label("Name").fill("Exact")
    credential = _me(walker.house, _text(_create(page), "Token")).data["credential"]
    assert set(credential["capabilities"]) == {
        f"mail.{one}" for one in ("drafts", "organize", "trash", "delete", "send")
    }
    assert credential["accountIds"] == [box.id]


@pytest.mark.slow
def test_a_key_is_shown_once_and_its_texts_work_as_they_are(
    walker: Walker, owner: Person, box: Box, tmp_path: Path
) -> None:
    page = _new(walker, owner, "AI agent on my laptop")
    dialog = _create(page)
    token = _text(dialog, "Token")
    walker.look("key-token")
    listed = json.loads(_run(_text(dialog, "curl command") + " --silent", tmp_path))
    assert [one["id"] for one in listed["data"]] == [box.id]
    assert box.email in _run(_text(dialog, "Commands"), tmp_path)
    _speak_over_stdio(json.loads(_text(dialog, "Configuration for stdio")), tmp_path, box)
    _speak_over_http(json.loads(_text(dialog, "Configuration for HTTP")), tmp_path)
    page.keyboard.press("Escape")
    asked = page.get_by_role("dialog", name="Close this window?")
    asked.get_by_role("button", name="Cancel").click()
    expect(dialog).to_contain_text(token)
    page.evaluate("location.hash = '#/mail'")  # leaving the page asks too, and is declined here
    expect(page.get_by_role("dialog")).to_contain_text(token)
    assert page.url.endswith("#/keys?new=1")
    dialog.get_by_role("button", name="I have saved the token").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name="AI agent on my laptop")).to_be_visible()
    assert token not in page.content()
    assert token not in page.url
    expect(page.get_by_text("Used").first).to_be_visible()
    _revoke(page, "AI agent on my laptop")
    assert _me(walker.house, token).status == 401


def _speak_over_stdio(given: Any, folder: Path, box: Box) -> None:
    server = given["mcpServers"]["mailbox"]
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": _INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "list_accounts", "arguments": {}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in said)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {"PATH": path, "HOME": str(folder), "MAILBOX_APPLIANCE_KEYCHAIN": "off", **server["env"]}
    argv = [str(Path(sys.executable).parent / server["command"]), *server["args"]]
    ran = subprocess.run(argv, input=lines, env=clean, capture_output=True, text=True, timeout=30, check=False)
    assert box.id in ran.stdout, ran.stderr


def _speak_over_http(given: Any, folder: Path) -> None:
    server = given["mcpServers"]["mailbox"]
    assert server["type"] == "http"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE})
    accept = "-H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'"
    credential = f"-H 'Authorization: {server['headers']['Authorization']}'"
    answer = json.loads(_run(f"curl --silent {accept} {credential} -d '{body}' {server['url']}", folder))
    assert answer["result"]["serverInfo"]


_INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def _revoke(page: Page, name: str) -> None:
    page.get_by_role("button", name=f"Revoke {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("heading", name=name)).to_have_count(0)


def test_an_administrator_makes_a_key_that_administrates(walker: Walker) -> None:
    house = walker.house
    page = walker.open("/keys", house.add_member("hugo", "admin"))
    expect(page.get_by_text("No API keys yet.")).to_be_visible()
    page.get_by_role("button", name="Create a key").click()
    page.get_by_label("Name").fill("Watcher")
    page.get_by_text("Administration", exact=True).click()
    members = page.get_by_label("and reset their passwords, which gives access to all their mail")
    members.check()
    expect(page.get_by_role("complementary")).to_contain_text(
        "Anyone with this key can reset the password of any member who is not an administrator, and so read all"
    )
    walker.look("key-new-members")
    page.get_by_label("Read the audit log").check()
    members.uncheck()
    expect(page.get_by_role("complementary")).to_contain_text("It can also read the audit log.")
    page.get_by_label("Custom").check()
    page.get_by_label("Read, list and search mail").uncheck()
    expect(page.get_by_role("complementary")).to_contain_text("This key has no access to mail.")
    walker.look("key-new-admin")
    dialog = _create(page)
    credential = _me(house, _text(dialog, "Token")).data["credential"]
    assert credential["capabilities"] == ["admin.audit"]
    commands = _text(dialog, "Commands")
    assert "whoami" in commands
    assert "mcp" not in commands
    dialog.get_by_role("button", name="I have saved the token").click()
    page.get_by_role("link", name="All members").click()
    expect(page.get_by_role("link", name="All members")).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("heading", name="Watcher")).to_be_visible()
    walker.look("keys-all")


def test_an_administrator_changes_what_a_key_of_somebody_else_may_do(walker: Walker, owner: Person, box: Box) -> None:
    house = walker.house
    made = house.ask(owner, "POST", "/me/api-keys", {"name": "Greta's own", "permissionProfile": "read-write"})
    page = walker.open(f"/keys?change={made.data['apiKey']['id']}", house.ada)
    expect(page.get_by_text("It never does more than")).to_be_visible()
    page.get_by_label("Full mail access").check()
    page.get_by_label("Selected mailboxes").check()
    page.get_by_label(box.email).check()
    page.get_by_role("button", name="Save key").click()
    expect(page.get_by_text("saved.")).to_be_visible()
    credential = _me(house, made.data["token"]).data["credential"]
    assert "mail.send" in credential["capabilities"]
    assert credential["accountIds"] == [box.id]
    (told,) = house.ask(owner, "GET", "/me").body["warnings"]
    assert "changed the permissions of an API key of yours" in told
    _revoke(page, "Greta's own")
    assert _me(house, made.data["token"]).status == 401
