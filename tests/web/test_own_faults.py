"""An internal error becomes an error object without details, which are in the log."""

import pytest

from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox


def test_a_fault_of_ours_is_logged_and_tells_nothing(
    checked_client: CheckedClient, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox = FilledMailbox(checked_client.appliance, checked_client.member["id"])
    (message_id,) = mailbox.deliver(b"Subject: private matter\r\n\r\nHello\r\n")
    with mailbox.store.database.transaction():
        mailbox.store.database.change("UPDATE messages SET people = '{broken'")
    for path in (f"/accounts/{mailbox.id}/messages", f"/accounts/{mailbox.id}/messages/{message_id}"):
        caplog.clear()
        answer = checked_client.ask("GET", path)
        assert answer.refusal == (500, "internal_error")
        assert answer.places == []
        assert b"broken" not in answer.content
        assert b"Decode" not in answer.content
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 1
        assert errors[0].exc_info is not None


def test_a_store_that_cannot_be_used_is_a_fault_of_ours(
    checked_client: CheckedClient, caplog: pytest.LogCaptureFixture
) -> None:
    checked_client.appliance.stop()
    answer = checked_client.ask("GET", "/me")
    assert answer.refusal == (500, "internal_error")
    assert b"closed" not in answer.content
    assert [r.levelname for r in caplog.records if r.levelno >= 40] == ["ERROR"]
