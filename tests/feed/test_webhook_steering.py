"""No webhook reaches a private, link-local or metadata address, however its address is spelled, what its name stands
for, and what its target answers. In an internet of its own, where an audit hook sees every connection that this process
begins.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from webtest import TestApp, TestRequest

from mailbox_appliance import settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.model.webhooks import WebhookAttempt
from mailbox_appliance.store.webhooks import NewWebhook
from mailbox_appliance.web.app import App
from tests.remote.net.test_connect import ELSEWHERE
from tests.servers.internet import WEB, WEB_6, Internet, internet, is_inside, run_inside
from tests.servers.mailboxes import wait_until

FORBIDDEN = ELSEWHERE.split()
MARK = "XYZZY-4711"
HOST, PASSWORD = "127.0.0.1:8025", "correct horse battery"
HOSTS = ("start.example", "rebind.example", "mixed.example")

#: Hosts, with what belongs to them, that stand for no public address.
SPELLINGS = (
    *("127.0.0.1", "127.1", "127.0.1", "127.8.9.10", "2130706433", "017700000001", "0x7f000001", "0x7F.0x0.0x0.0x1"),
    *("0177.0.0.1", "0x7f.1", "127.0.0.1.", "127.0.0.01", "0", "0.0.0.0", "0.1.2.3", "00000.0", "255.255.255.255"),
    *("localhost", "localhost.", "LOCALHOST", "Localhost:443", "a.localhost", "ip6-localhost", "127.0.0.1:8443"),
    *(
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:7f00:1]",
    ),
    *("[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]"),
    *("[2001:0:7f00:1::]", "[fd12:3456::1]", "[fc00::1]", "[fec0::1]", "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%lo]"),
    *("169.254.169.254", "169.254.169.254.", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[fd00:ec2::254]"),
    *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "100.100.100.200", "168.63.129.16"),
    *("100.64.0.1", "10.0.0.5", "10.5", "167772165", "172.16.0.1", "192.168.1", "224.0.0.1", "[ff02::1]", "240.0.0.1"),
    *("①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.0.0.1", "ｌocalhost", "127%2e0%2e0%2e1", "%31%32%37.0.0.1", "localhost%00"),
    *(
        "start.example@127.0.0.1",
        "start.example:443@127.0.0.1",
        "start.example%40127.0.0.1",
        "127.0.0.1\\@start.example",
    ),
    *("start.example\\@127.0.0.1", "127.0.0.1\\.start.example", "127.0.0.1#@start.example", "127.0.0.1?@start.example"),
    *("127.0.0.1/@start.example", "127.0.0.1:443:80", "start.example\r\nHost: 127.0.0.1", "127.0.0.1\t", "\t127.0.0.1"),
    *("trap0.example", "TRAP0.example.", "trap0.example%00.start.example", "", ":443", "[", "a" * 70 + ".example"),
    "a." * 130 + "example",
)
OTHER_SCHEMES = ("http", "HTTP", "file", "ftp", "gopher", "ws", "unix", "javascript", "")


if not is_inside():

    def test_all_of_it_in_an_internet_of_its_own(tmp_path: Path) -> None:
        assert len(SPELLINGS) > 60
        run_inside(__file__, tmp_path)

else:
    #: Where this process has connected to since a test began.
    begun: set[str] = set()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        """The servers of this internet answer in threads of their own."""
        if not event.startswith(("socket.connect", "socket.send")) or not isinstance(arguments[1], tuple):
            return
        if "process_request_thread" not in threading.current_thread().name:
            begun.add(str(arguments[1][0]))

    sys.addaudithook(watch)

    @pytest.fixture(scope="module")
    def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
        with internet(tmp_path_factory.mktemp("internet"), HOSTS) as there:
            for number, address in enumerate(FORBIDDEN):
                there.names.add(f"trap{number}.example", "AAAA" if ":" in address else "A", address)
            there.names.add("start.example", "A", WEB)
            there.web.put("start.example/hook", b"{}")
            yield there

    class Hook:
        """A webhook of an administrator, which sends what backups fail of."""

        def __init__(self, appliance: Appliance) -> None:
            self.appliance = appliance
            self._app, self._token = TestApp(App(appliance)), ""
            (appliance.folder / SETUP_CODE).write_text("code\n")
            request = {"setupCode": "code", "name": "Ada", "email": "ada@example.org", "deviceName": "test"}
            self._token = self.ask("POST", "/setup", request | {"password": PASSWORD})["token"]
            body = {"url": "https://start.example/hook", "types": ["backup.failed"]}
            self.id = self.ask("POST", "/webhooks", body)["webhook"]["id"]

        def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
            """The data of the answer to a request; empty for one that is refused with 400."""
            environ = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": HOST, "SERVER_PROTOCOL": "HTTP/1.1"}
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
            sent = b"" if body is None else json.dumps(body).encode()
            request = TestRequest.blank(f"/api/v1{path}", environ, headers=headers, method=method, body=sent)
            answer = self._app.do_request(request, expect_errors=True)
            assert answer.status_int in (200, 201, 400), answer.text
            found: dict[str, Any] = answer.json.get("data", {})
            return found

        def point_to(self, url: str) -> bool:
            """Set the address in any case. Returns whether the API allows it."""
            is_allowed = bool(self.ask("PATCH", f"/webhooks/{self.id}", {"url": url}))
            new = NewWebhook(url, ("backup.failed",), None, include_body=False)
            self.appliance.store.webhooks.change(self.id, new, "active")
            return is_allowed

        def send(self) -> WebhookAttempt:
            """The attempt to send a test."""
            attempt = self.appliance.webhook_sender.send_test(self.id)
            assert MARK not in (attempt.error or "")
            return attempt

    @pytest.fixture(scope="module")
    def hook(world: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
        environment = {"MAILBOX_APPLIANCE_REMOTE_CA_FILE": world.ca_file}
        made = Appliance(tmp_path_factory.mktemp("data") / "data", settings.load(environment=environment))
        yield Hook(made)
        made.stop()

    @pytest.fixture(autouse=True)
    def _afresh(hook: Hook) -> None:
        hook.point_to("https://start.example/hook")
        begun.clear()

    def test_a_public_target_gets_it(hook: Hook) -> None:
        assert hook.send().status == 200
        assert begun == {WEB}

    @pytest.mark.parametrize("place", SPELLINGS)
    def test_addresses_that_are_typed(place: str, hook: Hook) -> None:
        hook.point_to(f"https://{place}/hook")
        assert hook.send().status is None
        assert begun == set()

    @pytest.mark.parametrize("scheme", OTHER_SCHEMES)
    @pytest.mark.parametrize("host", ["start.example", "127.0.0.1"])
    def test_other_schemes(scheme: str, host: str, hook: Hook) -> None:
        assert not hook.point_to(f"{scheme}://{host}/hook")
        assert hook.send().status is None
        assert begun == set()

    def test_an_address_that_is_not_allowed_any_more_can_be_disabled(hook: Hook) -> None:
        hook.point_to("http://start.example/hook")
        assert hook.ask("PATCH", f"/webhooks/{hook.id}", {"status": "disabled"})["status"] == "disabled"
        assert not hook.ask("PATCH", f"/webhooks/{hook.id}", {"includeBody": True})

    def test_names_that_stand_for_such_addresses(hook: Hook) -> None:
        for number, address in enumerate(FORBIDDEN):
            assert hook.point_to(f"https://trap{number}.example/hook")
            assert hook.send().status is None, address
        assert begun == set()

    @pytest.mark.parametrize("then", ["127.0.0.1", "10.0.0.5", "169.254.169.254"])
    def test_a_name_that_changes_its_mind(then: str, hook: Hook, world: Internet) -> None:
        """It is looked up once for each connection, and what was checked is what is connected to."""
        name = "rebind.example"
        world.names._records.pop((name, "A"), None)
        for address in (WEB, then):
            world.names.add(name, "A", address)
        world.names.asked.clear()
        hook.point_to(f"https://{name}/hook")
        assert hook.send().status == 404
        assert world.names.asked.count((name, "A")) == 1
        assert hook.send().status is None
        assert begun == {WEB}

    def test_of_several_addresses_the_public_ones_count(hook: Hook, world: Internet) -> None:
        world.names.add("mixed.example", "A", "10.0.0.5", "127.0.0.1", "169.254.169.254", WEB)
        world.names.add("mixed.example", "AAAA", "::1", "fd00::5", WEB_6)
        hook.point_to("https://mixed.example/hook")
        assert hook.send().status == 404
        assert begun <= {WEB, WEB_6}

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("location", ["https://127.0.0.1/", "http://169.254.169.254/latest/", "//localhost/", "to"])
    def test_redirects_are_not_followed(status: int, location: str, hook: Hook, world: Internet) -> None:
        world.web.put("start.example/go", MARK.encode(), status, Location=location)
        hook.point_to("https://start.example/go")
        world.web.asked.clear()
        attempt = hook.send()
        assert (attempt.status, attempt.error) == (status, f"The answer had the status {status}.")
        assert begun == {WEB}
        assert world.web.asked == ["start.example/go"]

    def test_proxies_of_the_environment_are_not_used(
        hook: Hook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, "http://10.0.0.5:3128")
        (tmp_path / ".netrc").write_text(f"machine start.example login ada password {MARK}\n")
        (tmp_path / ".netrc").chmod(0o600)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert os.environ["HTTPS_PROXY"]
        assert hook.send().status == 200
        assert begun == {WEB}

    def test_events_go_where_tests_go(hook: Hook) -> None:
        """A target that is refused is a failure like any other: recorded once, and tried later."""
        store = hook.appliance.store
        hook.point_to("https://trap0.example/hook")
        hook.appliance.webhook_sender.start()
        with store.database.transaction():
            store.changes.record("backup.failed", MARK)
        wait_until(lambda: store.webhooks.get(hook.id).failures > 0, lambda: "nothing failed", 10)
        shown = hook.ask("GET", f"/webhooks/{hook.id}")
        assert shown["status"] == "active"
        assert shown["lastFailure"]["status"] is None
        assert "no public address" in shown["lastFailure"]["reason"]
        assert begun == set()
