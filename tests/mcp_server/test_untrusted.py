"""Every string of a message that its sender wrote is named, and stands in a fence."""

from typing import Any

import pytest

from mailbox_appliance.mcp_server import render
from mailbox_appliance.mcp_server.limits import (
    UNTRUSTED_LINK,
    UNTRUSTED_MESSAGE,
    UNTRUSTED_MESSAGES,
    UNTRUSTED_PREVIEW,
    UNTRUSTED_SCHEDULED,
    UNTRUSTED_THREAD,
    UntrustedFields,
)
from tests.mcp_server.test_render import MARK, outside

ADDRESS = {"email": f"{MARK}@x.example", "name": f"{MARK} x"}
ATTACHMENT = {"id": "att_1", "filename": f"{MARK}.txt", "mimeType": f"{MARK}/x", "contentId": f"{MARK}@x"}
OF_ADDRESS = {"email", "name"}
OF_ATTACHMENT = {f"/attachments/0/{name}" for name in ("filename", "mimeType", "contentId")}
RECIPIENTS: dict[str, Any] = {field: [ADDRESS] for field in ("to", "cc", "bcc", "replyTo")}
OF_RECIPIENTS = {f"/{field}/0/{name}" for field in RECIPIENTS for name in OF_ADDRESS}
READ: dict[str, Any] = {
    "id": "msg_1",
    "from": ADDRESS,
    **RECIPIENTS,
    "subject": f"{MARK} s",
    "snippet": f"{MARK} p",
    "searchContext": {"field": "body", "excerpt": f"{MARK} e"},
    "attachments": [ATTACHMENT],
    "body": {"format": "text", "content": f"{MARK} b", "offset": 0, "nextOffset": None, "totalChars": 5},
}
OF_READ = {"/from/email", "/from/name", "/subject", "/snippet", "/searchContext/excerpt", "/body/content"}
OF_READ |= OF_RECIPIENTS | OF_ATTACHMENT


def below(path: str, places: set[str]) -> set[str]:
    return {f"{path}{place}" for place in places}


@pytest.mark.parametrize(
    ("data", "senders", "places"),
    [
        (READ, UNTRUSTED_MESSAGE, OF_READ),
        ({"items": [READ]}, UNTRUSTED_MESSAGES, below("/items/0", OF_READ)),
        (
            {"subject": f"{MARK} s", "messages": {"items": [READ]}},
            UNTRUSTED_THREAD,
            {"/subject"} | below("/messages/items/0", OF_READ),
        ),
        ({"to": [ADDRESS], "subject": f"{MARK} s"}, UNTRUSTED_SCHEDULED, {"/subject"} | below("/to/0/", OF_ADDRESS)),
        (
            {**RECIPIENTS, "subject": f"{MARK} s", "attachments": [ATTACHMENT]},
            UNTRUSTED_PREVIEW,
            {"/subject"} | OF_RECIPIENTS | OF_ATTACHMENT,
        ),
        ({"filename": f"{MARK}.txt", "mimeType": f"{MARK}/x"}, UNTRUSTED_LINK, {"/filename", "/mimeType"}),
    ],
)
def test_a_senders_words_are_named_and_fenced(data: dict[str, Any], senders: UntrustedFields, places: set[str]) -> None:
    shown = render.present(data, tool="get_email", about="Mail.", senders=senders)
    assert shown.structured is not None
    assert set(shown.structured["untrusted"]) == below("/data", places)
    assert MARK in shown.text
    assert MARK not in outside(shown)
