"""Requests that wait for events and streams of them, over sockets at a real appliance: limits, headers, and the end."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.feed.waiting import MOST_OF_MEMBER
from tests.servers.running import PASSWORD, RunningAppliance

_POLL, _STREAM = "/events?wait=30", "/events/stream"


def begin(running: RunningAppliance, path: str, method: str = "GET", version: str = "1.1") -> socket.socket:
    """Send a request over a connection of its own."""
    place = urlsplit(running.url)
    connection = socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=30)
    head = f"{method} /api/v1{path} HTTP/{version}\r\nHost: {place.netloc}\r\nAuthorization: Bearer {running.token}"
    connection.sendall(f"{head}\r\n\r\n".encode())
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes connections at the end."""
    with ExitStack() as stack:
        yield stack


def cause_event(running: RunningAppliance) -> None:
    """Create a backup, of which administrators' sessions are told."""
    assert running.ask("POST", "/admin/backups", {}, timeout=60).status == 201


def test_beyond_the_limit_of_a_member_the_answer_says_when_to_come_again(
    running: RunningAppliance, opened: ExitStack
) -> None:
    for number in range(MOST_OF_MEMBER):
        connection = opened.enter_context(begin(running, _POLL if number % 2 else _STREAM))
        if number % 2 == 0:
            assert connection.recv(9) == b"HTTP/1.1 "
    assert running.ask("GET", "/me").status == 200  # all requests before it wait by now, at most a few excepted
    for path in (_POLL, _STREAM) * 5:
        refused = running.ask("GET", path, timeout=60)
        if refused.status == 429:
            break
    assert (refused.status, refused.code) == (429, "too_many_attempts")
    assert refused.headers["Retry-After"] == "5"
    assert running.ask("GET", "/events").status == 200  # it need not wait
    assert running.ask("GET", "/me").status == 200


def test_an_answer_after_waiting_looks_like_one_at_once(running: RunningAppliance) -> None:
    place = urlsplit(running.url).netloc
    connection = http.client.HTTPConnection(place, timeout=60)
    fields = {"Authorization": f"Bearer {running.token}"}
    start = running.ask("GET", "/events").data["nextPosition"]
    connection.request("GET", f"/api/v1/events?wait=30&limit=1&after={start}", headers=fields)
    cause_event(running)
    waited = connection.getresponse()
    told = json.loads(waited.read())
    connection.request("GET", f"/api/v1/events?limit=1&after={start}", headers=fields)
    at_once = connection.getresponse()
    assert json.loads(at_once.read()) == told
    assert [event["type"] for event in told["data"]["items"]] == ["backup.finished"]
    mine, others = (
        {name: value for name, value in one.getheaders() if name not in ("X-Request-Id", "Date")}
        for one in (waited, at_once)
    )
    assert mine == others
    assert waited.headers["X-Request-Id"].startswith("req_")
    connection.close()


def test_old_clients_and_methods_without_a_body(running: RunningAppliance, opened: ExitStack) -> None:
    head = opened.enter_context(begin(running, _STREAM, "HEAD", "1.0"))
    answer = rest_of(head)
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Type: text/event-stream" in answer
    old = opened.enter_context(begin(running, _STREAM, version="1.0"))
    data = b""
    while not data.endswith(b"\n\n"):
        piece = old.recv(65536)
        assert piece, data
        data += piece
    assert data.endswith(b"\r\n\r\n: still here\n\n")  # not in chunks
    assert b"Transfer-Encoding" not in data


def test_at_the_end_of_the_appliance_all_are_answered(running: RunningAppliance, opened: ExitStack) -> None:
    streams = [opened.enter_context(begin(running, _STREAM)) for _ in range(60)]
    polls = [opened.enter_context(begin(running, _POLL)) for _ in range(60)]
    for stream in streams:
        assert stream.recv(9) == b"HTTP/1.1 "
    assert running.ask("GET", "/me").status == 200
    assert running.stop() == 0
    assert all(rest_of(stream).endswith(b"\r\n0\r\n\r\n") for stream in streams)
    assert all(json.loads(rest_of(poll).partition(b"\r\n\r\n")[2])["data"]["items"] == [] for poll in polls)
    assert "server_stop_incomplete" not in running.said()


def test_who_signs_out_is_told_nothing_more(running: RunningAppliance, opened: ExitStack) -> None:
    admin = running.token
    request = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "another"}
    running.token = str(running.ask("POST", "/auth/login", request).data["token"])
    stream, poll = (opened.enter_context(begin(running, path)) for path in (_STREAM, _POLL))
    assert stream.recv(9) == b"HTTP/1.1 "
    assert running.ask("POST", "/auth/logout").status == 200
    running.token = admin
    assert rest_of(stream).endswith(b"\r\n0\r\n\r\n")
    assert poll.recv(65536).startswith(b"HTTP/1.1 401 ")
