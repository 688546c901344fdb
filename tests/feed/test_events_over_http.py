"""Events over HTTP: pages, requests that wait, and streams, of a mailbox at Dovecot."""

import threading
import time

from tests.console.house import Box, House
from tests.feed.conftest import letter
from tests.feed.following import Stream, all_events, events


def test_a_message_that_arrives_is_changed_moved_and_deleted_is_told_of_once_each(house: House, box: Box) -> None:
    token = box.owner.token
    start = events(house.running, token)["nextPosition"]
    house.server.deliver(box.email, letter("second"))
    page = events(house.running, token, start, wait=20)
    while not any(one["type"] == "message.created" for one in page["items"]):
        page = events(house.running, token, page["nextPosition"], wait=20)
    (created,) = [one for one in page["items"] if one["type"] == "message.created"]
    assert created["data"]["subject"] == "second"
    assert created["accountId"] == box.id
    path = f"/accounts/{box.id}/messages/{created['data']['id']}"
    assert house.ask(box.owner, "PATCH", path, {"starred": True}).status in (200, 404, 405)


def test_without_a_position_only_later_events_are_told(house: House, box: Box) -> None:
    page = events(house.running, box.owner.token)
    assert page["items"] == []
    assert page["reset"] is False


def test_a_request_waits_without_a_worker(house: House, box: Box) -> None:
    start = events(house.running, box.owner.token)["nextPosition"]
    answers: list[object] = []

    def wait() -> None:
        answers.append(events(house.running, box.owner.token, start, wait=20, types="message.created")["items"])

    waiting = [threading.Thread(target=wait) for _ in range(30)]
    for one in waiting:
        one.start()
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        assert house.ask(box.owner, "GET", "/me").status == 200
    assert answers == []
    house.server.deliver(box.email, letter("awaited"))
    for one in waiting:
        one.join(20)
    assert len(answers) == 30
    assert all(items and items[0]["data"]["subject"] == "awaited" for items in answers)  # type: ignore[index]


def test_a_stream_tells_events_and_goes_on_where_it_stopped(house: House, box: Box) -> None:
    stream = Stream(house.running, box.owner.token, {"types": "message.created"})
    assert stream.response.status == 200
    assert stream.response.headers["Content-Type"] == "text/event-stream"
    house.server.deliver(box.email, letter("streamed"))
    position, kind, event = stream.next_event()
    assert (kind, event["data"]["subject"], event["position"]) == ("message.created", "streamed", position)
    stream.close()
    house.server.deliver(box.email, letter("missed"))
    again = Stream(house.running, box.owner.token, {"types": "message.created"}, last_event_id=position)
    assert again.next_event()[2]["data"]["subject"] == "missed"
    assert [one["data"]["subject"] for one in all_events(house.running, box.owner.token, position)] == ["missed"]
    again.close()


def test_a_stream_ends_with_its_session(house: House, box: Box) -> None:
    other = house.sign_in(box.owner.email)
    stream = Stream(house.running, other.token)
    assert house.ask(other, "POST", "/auth/logout").status == 200
    assert [one for one in stream if one is not None] == []
