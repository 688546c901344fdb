"""`/mcp` under load: slow tools in parallel, clients that are slow or disconnect, and the end of serving."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.mcp_server.http import McpEndpoint
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer
from tests.mcp_server.posted import PREVIOUS, Posted, calling, headers_of, message, post_to
from tests.servers.desk import Desk, a_key
from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall
from tests.web.wire import eventually, listening

SLOW = 8


@dataclass
class Office:
    """A desk whose `/mcp` listens, and a mailbox with a scripted mail server."""

    desk: Desk
    smtp: ScriptedSmtp
    account: str
    app: App
    listeners: HttpServer

    def post(self, given: Any) -> Posted:
        return post_to(self.listeners.addresses[0], self.desk.token, given)

    def bytes_of(self, given: Any) -> tuple[bytes, bytes]:
        """Return head and body of a request, for a client that sends it slowly."""
        body = json.dumps(given).encode()
        fields = {"Host": "127.0.0.1", "Content-Length": str(len(body))}
        fields |= headers_of(self.desk.token, given, PREVIOUS)
        lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode(), body

    def send(self, to: str) -> dict[str, Any]:
        """Return a call that sends."""
        recipient = [{"email": to}]
        body = {"text": "Hello"}
        return calling("send_email", accountId=self.account, to=recipient, body=body, idempotencyKey=a_key())


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Office]:
    """An office with one more worker than slow calls."""
    desk = Desk(
        tmp_path_factory.mktemp("at-once") / "data",
        server__workers=SLOW + 1,
        server__waiting_workers=SLOW,
        sending__answer_within=20,
    )
    email, door = mail_server.fresh_user(), McpEndpoint()
    smtp = ScriptedSmtp(user=email).start()
    account = desk.connect(email, imap_port=mail_server.imap_port, smtp_port=smtp.port)
    app = App(desk.appliance, assistants=door)
    with listening(app, workers=SLOW + 1, context=None) as listeners:
        office = Office(desk, smtp, account, app, listeners)
        assert office.post(message("ping")).result == {}
        yield office
        smtp.release()
        door.close()
        desk.close()
        smtp.stop()


@pytest.fixture(autouse=True)
def _as_usual(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "office" in request.fixturenames:
        request.getfixturevalue("office").smtp.forget()


def test_slow_calls_run_beside_each_other_and_beside_quick_ones(office: Office) -> None:
    office.smtp.at("connect", Stall())
    threads = threading.active_count()
    with ThreadPoolExecutor(SLOW) as callers:
        sends = [callers.submit(office.post, office.send(f"r{number}@example.test")) for number in range(SLOW)]
        assert eventually(lambda: office.app.handle.borrower_count == SLOW)
        began = time.monotonic()
        for quick in (message("tools/list"), calling("list_accounts"), message("ping")):
            assert "error" not in office.post(quick).json
        assert time.monotonic() - began < 5  # none of them waited for a send, which takes 20 s
        assert not any(send.done() for send in sends)
        assert threading.active_count() <= threads + 2 * SLOW + 4  # callers, senders and those who read the script
        office.smtp.at("connect", None)
        office.smtp.release()
        answers = [send.result(30) for send in sends]
    statuses = [answer.result["structuredContent"]["data"]["status"] for answer in answers]
    assert statuses == ["succeeded"] * SLOW
    assert len(office.smtp.messages) == SLOW


def test_one_who_leaves_leaves_nothing_behind(office: Office) -> None:
    office.smtp.at("reply", Stall())
    head, body = office.bytes_of(office.send("left@example.test"))
    with socket.create_connection(office.listeners.addresses[0], 10) as leaving:
        leaving.sendall(head + body)
        office.smtp.reached("reply")
    assert office.app.handle.borrower_count == 1
    office.smtp.release()
    assert eventually(lambda: office.app.handle.borrower_count == 0)
    assert len(office.smtp.messages) == 1
    assert "error" not in office.post(message("ping")).json


def test_one_who_sends_slowly_holds_nobody_up(office: Office) -> None:
    head, body = office.bytes_of(calling("list_accounts"))
    with socket.create_connection(office.listeners.addresses[0], 10) as slow:
        slow.sendall(head + body[:20])
        for _ in range(SLOW + 2):
            assert "error" not in office.post(calling("list_accounts")).json
        assert office.app.handle.borrower_count == 0
        slow.sendall(body[20:])
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_calls_that_are_under_way_are_answered_when_serving_ends(tmp_path: Path, mail_server: MailServer) -> None:
    running = RunningAppliance(tmp_path / "data").start()
    email = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=email).start()
    try:
        token = running.set_up()
        account = running.connect(email, imap_port=mail_server.imap_port, smtp_port=smtp.port)
        host, _, port = running.url.removeprefix("http://").rpartition(":")
        smtp.at("reply", Stall())
        recipient = [{"email": "end@example.test"}]
        given = calling("send_email", accountId=account, to=recipient, body={"text": "a"}, idempotencyKey="one")
        with ThreadPoolExecutor(1) as caller:
            sent = caller.submit(post_to, (host, int(port)), token, given)
            smtp.reached("reply")
            assert running.process is not None
            running.process.send_signal(signal.SIGTERM)
            assert sent.result(9).result["structuredContent"]["data"]["status"] == "sending"
        smtp.release()
        assert running.stop() == 0
        assert len(smtp.messages) == 1
    finally:
        smtp.stop()
        running.stop()
