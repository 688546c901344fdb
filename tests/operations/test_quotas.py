"""How many messages may be handed in: by one credential, and for one mailbox."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from tests.operations.filled import FilledMailbox, add_key
from tests.operations.resting import RestingMailbox, at
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock

LIMITS = {
    "sending.credential_per_hour": 2,
    "sending.credential_per_day": 3,
    "sending.account_per_hour": 3,
    "sending.account_per_day": 10,
}
BODY = a_message(sendAt=at(days=300))


@pytest.fixture
def box(tmp_path: Path, clock: FakeClock) -> Iterator[RestingMailbox]:
    made = Appliance(tmp_path / "limited", settings.load(environment={}, flags=LIMITS), clock)
    yield RestingMailbox(made)
    made.stop()


def test_a_credential_has_its_hour_and_its_day(box: RestingMailbox, clock: FakeClock) -> None:
    key = a_key()
    first = box.send(BODY, key).data
    clock.advance(600)
    assert box.send(BODY).status == 202
    refused = box.send(BODY)
    assert (refused.refusal, refused.headers["retry-after"]) == ((429, "too_many_attempts"), "3001")
    assert "`sending.credential_per_hour`" in refused.message
    assert box.send(BODY, key).data == first, "a retry is never counted"
    assert box.send(BODY | {"to": []}).refusal == (400, "invalid_request"), "what is wrong is told first"
    assert box.operations() == 2

    clock.advance(2999)
    assert box.send(BODY).refusal == (429, "too_many_attempts")
    clock.advance(2)
    assert box.send(BODY).status == 202, "it is as Retry-After said"
    clock.advance(3601)
    refused = box.send(BODY)
    assert "`sending.credential_per_day`" in refused.message
    clock.advance(float(refused.headers["retry-after"]))
    assert box.send(BODY).status == 202


def test_a_mailbox_has_its_hour_whoever_asks(box: RestingMailbox) -> None:
    appliance, ada = box.client.appliance, box.client.member["id"]
    _, other = add_key(appliance, ada, "mail.send")
    for token in (None, None, other):
        assert box.send(BODY, token=token).status == 202
    refused = box.send(BODY, token=other)
    assert (refused.refusal, "`sending.account_per_hour`" in refused.message) == ((429, "too_many_attempts"), True)
    another = FilledMailbox(appliance, ada, "another@example.org")
    path, header = f"/accounts/{another.id}/send", {"Idempotency-Key": a_key()}
    assert box.client.ask("POST", path, BODY, token=other, headers=header).status == 202


def test_a_preview_says_that_a_send_would_be_refused(box: RestingMailbox) -> None:
    for _ in range(2):
        box.send(BODY)
    answer = box.ask("POST", "/send/preview", BODY)
    (warning,) = answer.warnings
    assert "`sending.credential_per_hour`" in warning
    assert box.operations() == 2


def test_there_is_no_limit_unless_the_operator_sets_one(timed: Appliance) -> None:
    box = RestingMailbox(timed)
    assert {box.send(BODY).status for _ in range(30)} == {202}
