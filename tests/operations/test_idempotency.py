"""What is the same request, and what a key of before there were delivery operations answers."""

import json
from typing import Any

import pytest

from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.operations import sending
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.operations.resting import START, RestingMailbox, at
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock

BODY: dict[str, Any] = a_message(subject="Grüße", sendAt=at(hours=1))


def test_the_same_request_however_it_is_written(box: RestingMailbox) -> None:
    key = a_key()
    first = box.send(BODY, key).data
    ways = (
        json.dumps(dict(reversed(BODY.items()))).encode(),
        json.dumps(BODY, indent=4, ensure_ascii=False).encode(),
        json.dumps(BODY, separators=(",", ":")).replace("A", "\\u0041").encode(),
    )
    for way in ways:
        assert box.send(way, key).data == first
    slash = box.ask("POST", "/send/", BODY, headers={"Idempotency-Key": key})
    assert (slash.status, slash.data) == (202, first)
    assert box.operations() == 1


def test_another_request_under_the_same_key(box: RestingMailbox) -> None:
    key = a_key()
    box.send(BODY, key)
    other_box = FilledMailbox(box.client.appliance, box.client.member["id"], "other@example.org")
    (message,) = box.deliver(letter("Plans"))
    header = {"Idempotency-Key": key}
    for path, body in (
        (f"/accounts/{box.id}/send", BODY | {"subject": "Other"}),
        (f"/accounts/{box.id}/send", BODY | {"replyAll": False}),
        (f"/accounts/{other_box.id}/send", BODY),
        (f"/accounts/{box.id}/messages/{message}/forward", {"to": BODY["to"]}),
    ):
        answer = box.client.ask("POST", path, body, headers=header)
        assert answer.refusal == (409, "idempotency_conflict")
    assert box.operations() == 1


def test_keys_of_different_credentials_are_different_keys(box: RestingMailbox) -> None:
    key, ada = a_key(), box.client.member["id"]
    tokens = [add_key(box.client.appliance, ada, "mail.send")[1] for _ in range(2)]
    tokens.append(box.client.log_in().token)
    made = [box.send(BODY, key, token=token).data["operationId"] for token in (None, *tokens)]
    assert len(set(made)) == 4
    assert [box.send(BODY, key, token=token).data["operationId"] for token in (None, *tokens)] == made


# --- keys of earlier releases ---


def remember(box: RestingMailbox, key: str, body: object, status: int = 200, **data: Any) -> None:
    """What an earlier release has answered to this request, an hour ago."""
    credential = box.client.ask("GET", "/me").data["credential"]["id"]
    stored = json.dumps({"data": {"id": "old-1", "threadId": "old-thread-1", **data}})
    expires = to_timestamp(START.replace(day=3, hour=2))
    row = (credential, key, sending.send.fingerprint({"accountId": box.id}, body), status, stored, expires)
    with box.store.database.transaction(durable=True):
        sql = "INSERT INTO legacy_idempotency VALUES (?, ?, ?, ?, ?, ?)"
        box.store.database.change(sql, row)


@pytest.mark.parametrize(("status", "data"), [(200, {}), (200, {"warnings": ["The copy is late."]}), (202, {})])
def test_a_key_of_an_earlier_release_answers_as_it_did(
    box: RestingMailbox, clock: FakeClock, status: int, data: dict[str, Any]
) -> None:
    key = a_key()
    remember(box, key, BODY, status, **data)
    for _ in range(2):
        answer = box.send(BODY, key)
        assert (answer.status, answer.data) == (status, {"id": "old-1", "threadId": "old-thread-1", **data})
        assert answer.headers["idempotency-replayed"] == "true"
    assert box.send(BODY | {"subject": "Other"}, key).refusal == (409, "idempotency_conflict")
    assert box.operations() == 0
    clock.advance(23 * 3600)  # its 24 hours are over
    answer = box.send(a_message(sendAt=at(days=3)), key)
    assert (answer.status, answer.data["kind"]) == (202, "scheduled")
    assert "idempotency-replayed" not in answer.headers


def test_only_its_own_credential_has_an_old_key(box: RestingMailbox) -> None:
    key = a_key()
    remember(box, key, BODY)
    _, token = add_key(box.client.appliance, box.client.member["id"], "mail.send")
    assert box.send(BODY, key, token=token).data["status"] == "queued"
    assert "idempotency-replayed" not in box.send(BODY).headers
