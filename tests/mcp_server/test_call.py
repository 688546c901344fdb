"""Errors of tools become results; a full disk is reported, with one line in the log."""

import logging

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.store.database import DISK_FULL_MESSAGE
from tests.checked_client import CheckedClient
from tests.mcp_server.called import Called
from tests.operations.filled import FilledMailbox

PAGES = "PRAGMA max_page_count = "


def test_a_tool_on_a_full_disk_says_so_in_one_line(timed: Appliance, caplog: pytest.LogCaptureFixture) -> None:
    ada = CheckedClient(timed).set_up()
    box, tools = FilledMailbox(timed, ada.member["id"]), Called(timed, ada.token)
    given = {"accountId": box.id, "to": [{"email": "bob@example.org"}], "subject": "x" * 200}
    send = {**given, "body": {"text": "word " * 4_000}, "idempotencyKey": "once"}
    timed.store.database.row(f"{PAGES}1")  # all pages: SQLite may allocate no more
    caplog.set_level(logging.INFO)
    error = tools.error("send_email", **send)
    assert (error["code"], error["message"]) == ("internal_error", DISK_FULL_MESSAGE)
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert told.getMessage() == "mcp_tool_disk_full"
    assert told.exc_info is None
