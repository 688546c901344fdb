"""The appliance honors a provider's `Retry-After` if it is longer than its own waiting time."""

from datetime import timedelta
from pathlib import Path

import pytest

from mailbox_appliance.clock import to_millis
from tests.sending.outlook import Outlook, outlook
from tests.servers.desk import a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Says
from tests.servers.mailboxes import wait_until

#: The provider's waiting time -> the appliance's.
SAID = [("90", "90"), ("5", "30"), ("99999", "3600"), ("Wed, 21 Oct 2026 07:28:00 GMT", "30"), ("-1", "30")]


@pytest.mark.parametrize(("said", "told"), SAID)
def test_a_client_is_told(tmp_path: Path, said: str, told: str) -> None:
    with outlook(tmp_path) as box:
        box.connect()
        box.graph.at("send", [Says(429, "ApplicationThrottled", {"Retry-After": said})])
        answer = box.send()
        assert (answer.status, answer.headers["Retry-After"]) == (429, told)


def test_a_client_is_told_what_the_sign_in_says(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect()
        box.provider.out_of_order(429, retry_after=120)
        answer = box.send()
        assert answer.status == 429
        assert 110 <= int(answer.headers["Retry-After"]) <= 120


@pytest.mark.parametrize(("said", "seconds"), [("5", 60), ("900", 900), ("3600", 1800)])
def test_a_scheduled_one_waits(tmp_path: Path, clock: FakeClock, said: str, seconds: int) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect()
        box.graph.at("draft", [Says(503, "ServiceUnavailable", {"Retry-After": said})])
        send_at = clock.now() + timedelta(seconds=60)
        operation = box.send(a_message(sendAt=send_at.strftime("%Y-%m-%dT%H:%M:%SZ"))).data["operationId"]
        clock.advance(61)
        box.desk.appliance.scheduler.wake()
        wait_until(lambda: next_attempt(box, operation)[0] == 1, lambda: str(next_attempt(box, operation)), 10)
        assert next_attempt(box, operation)[1] == to_millis(clock.now() + timedelta(seconds=seconds))


def next_attempt(box: Outlook, operation: str) -> tuple[object, object]:
    """Return the number of attempts and the time of the next one; nothing while one is in progress."""
    sql = "SELECT attempts, next_attempt_at FROM delivery_operations WHERE id = ? AND status = 'queued'"
    rows = box.desk.appliance.store.database.rows(sql, (operation,))
    return (rows[0][0], rows[0][1]) if rows else (0, None)
