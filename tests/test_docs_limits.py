"""The page of limits in the documentation has the numbers of the code."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from mailbox_appliance.cli.command_table import LARGEST_PAGE
from mailbox_appliance.cli.inputs import MAX_MESSAGES
from mailbox_appliance.feed import waiting
from mailbox_appliance.mail.parse import MAX_BODY
from mailbox_appliance.mail.search import MOST_BEGINNINGS, MOST_TERMS, MOST_WORDS
from mailbox_appliance.mailbox.attachments import MAX_FETCHED_BYTES
from mailbox_appliance.mcp_server import limits as mcp_limits
from mailbox_appliance.mcp_server.read_tools import _MAX_INLINE_FILE
from mailbox_appliance.oauth import flows
from mailbox_appliance.operations import (
    actions,
    contents,
    enrolment,
    members,
    message_input,
    operation,
    prepare,
    sessions,
    webhooks,
)
from mailbox_appliance.security import passwords
from mailbox_appliance.settings import OPTIONS
from mailbox_appliance.store import credentials, uploads
from mailbox_appliance.store.webhooks import KEPT_ATTEMPTS
from mailbox_appliance.web.server import framing
from mailbox_appliance.web.server.memory import DEFAULT_BOUNDS

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "limits.md").read_text("utf-8")
MIB = operation.MIB
#: The beginning of a row -> the numbers in the rest of it.
ROWS: dict[str, list[float]] = {
    "JSON body": [operation.JSON_LIMIT / MIB],
    "body of send, preview, forward, draft and `/mcp`": [operation.MAIL_LIMIT / MIB],
    "request headers": [DEFAULT_BOUNDS.max_header / 1024],
    "items on a page (`limit`)": [LARGEST_PAGE],
    "messages and labels in one bulk action": [actions.MAX_MESSAGES],
    "`q` of a search": [1000, MOST_TERMS, MOST_WORDS, MOST_BEGINNINGS],
    "`text` of a search": [1000, MOST_TERMS],
    "attachments of one message": [prepare.MAX_ATTACHMENTS, prepare.MAX_ATTACHMENT_BYTES / MIB],
    "upload |": [contents.MAX_UPLOAD_BYTES / MIB, uploads.UPLOAD_KEPT / timedelta(hours=1)],
    "uploads of one member": [uploads.MOST_BYTES / MIB, uploads.MOST_UPLOADS],
    "upload link": [uploads.LINK_KEPT / timedelta(minutes=1)],
    "recipients |": [prepare.MAX_RECIPIENTS],
    "attachment fetched from the mail server": [MAX_FETCHED_BYTES / MIB],
    "plain text, and HTML, kept of one message": [MAX_BODY],
    "schedule (`sendAt`)": [message_input.MAX_SCHEDULE_AHEAD / timedelta(days=1)],
    "failed sign-ins for one email": [
        sessions.MAX_FAILURES_PER_EMAIL,
        credentials.FAILURE_WINDOW / timedelta(minutes=1),
    ],
    "wrong current passwords when changing it": [sessions.MAX_FAILURES_PER_MEMBER],
    "wrong setup codes": [sessions.MAX_FAILURES_OF_SET_UP],
    "password |": [passwords.MIN_LENGTH, passwords.MAX_LENGTH],
    "session |": [credentials.SESSION_MAX_IDLE / timedelta(days=1), credentials.SESSION_MAX_AGE / timedelta(days=1)],
    "sessions of one member": [credentials.MOST_SESSIONS],
    "invitation |": [members.INVITATION_LIFETIME / timedelta(days=1)],
    "password reset link": [members.RESET_LIFETIME / timedelta(hours=1)],
    "console sign-in link": [enrolment._CONSOLE_LINK_LIFETIME / timedelta(seconds=1)],
    "sign-in at Google or Microsoft": [flows.LIFETIME / 60, flows.MOST_OF_A_SESSION, flows.MOST_OF_A_MEMBER],
    "TLS handshake": [DEFAULT_BOUNDS.handshake_timeout],
    "idle connection": [DEFAULT_BOUNDS.idle_timeout],
    "one result, text and structure together": [mcp_limits.MAX_RESULT_SIZE],
    "an error text": [mcp_limits.MAX_ERROR_SIZE],
    "recipients and attachments of one message": [mcp_limits.Limits().listed],
    "attachment inside a result (`inline`)": [_MAX_INLINE_FILE],
    "`--max-results`": [MAX_MESSAGES],
    "wait for an event in one request": [30],
    "requests and streams that wait for events": [
        waiting.MOST_READERS,
        waiting.MOST_OF_MEMBER,
        DEFAULT_BOUNDS.readers_per_peer,
    ],
    "unread output of a stream": [framing.MOST_UNREAD / 1024],
    "webhooks of a member": [webhooks.MOST_WEBHOOKS],
    "attempts kept of a webhook": [KEPT_ATTEMPTS],
}


@pytest.mark.parametrize("start", ROWS)
def test_a_row_has_the_number_of_the_code(start: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    rest = row.removeprefix(f"| {start}")
    numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", rest)]
    assert numbers[: len(ROWS[start])] == ROWS[start]


def test_defaults_of_settings_are_those_of_the_code() -> None:
    defaults = {option.name: option.default for option in OPTIONS}
    named = re.findall(r"`([a-z]+\.[a-z_]+)` \((\d+)", PAGE)
    assert len(named) >= 5
    assert [name for name, number in named if defaults[name] != int(number)] == []
