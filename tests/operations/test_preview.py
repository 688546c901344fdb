"""A preview shows what a send hands over, by the very same rules, says what stands in its way, and leaves no trace."""

import base64
from typing import Any

from mailbox_appliance.mail.html.analysis import UNANALYZED_OUTGOING
from mailbox_appliance.mail.parse import parse_message
from tests.checked_client import Answer, CheckedClient
from tests.operations.conftest import Mailbox
from tests.operations.filled import add_key, add_member, everything_stored, letter
from tests.operations.resting import RestingMailbox, at
from tests.servers.desk import a_key, a_message

FILE = {"filename": "Plän.pdf", "mimeType": "application/pdf", "content": base64.b64encode(b"%PDF-1").decode()}
PICTURE = FILE | {"filename": "logo.png", "mimeType": "image/png", "contentId": "logo@x"}
PEOPLE = {
    "to": [{"email": "bob@example.test", "name": "Bob"}],
    "cc": [{"email": "cy@example.test"}],
    "bcc": [{"email": "di@example.test", "name": "Dî"}],
}


def preview(box: RestingMailbox, body: dict[str, Any], **more: Any) -> Answer:
    return box.ask("POST", "/send/preview", body, **more)


def test_it_shows_what_would_go_out(box: RestingMailbox) -> None:
    body = a_message(subject="Grüße", attachments=[FILE, PICTURE], **{"from": "BOX@example.org"}) | PEOPLE
    body["body"] = {"html": "<p>Hello <b>you</b></p><img src='cid:logo@x'>"}
    answer = preview(box, body)
    assert (answer.status, answer.warnings) == (200, [])
    shown = answer.data
    assert {name: shown[name] for name in PEOPLE} == PEOPLE
    assert (shown["accountId"], shown["from"], shown["subject"]) == (box.id, "box@example.org", "Grüße")
    assert {(file["filename"], file["mimeType"], file["sizeBytes"]) for file in shown["attachments"]} == {
        ("Plän.pdf", "application/pdf", 6),
        ("logo.png", "image/png", 6),
    }
    # The text is derived from the HTML, and counted.
    assert shown["bodyTextChars"] >= len("Hello you")
    assert shown["bodyHtmlChars"] >= len(body["body"]["html"])


def test_it_resolves_a_reply_as_a_send_does(box: RestingMailbox) -> None:
    source = letter("Plans", number=5).replace(
        b"To: box@example.org", b"To: box@example.org, Eve <eve@example.test>\r\nCc: Fay <fay@example.test>"
    )
    (parent,) = box.deliver(source)
    body = {"body": {"text": "Yes"}, "replyToMessageId": parent, "replyAll": True}
    shown = preview(box, body).data
    assert shown["subject"] == "Re: Plans"
    assert [each["email"] for each in shown["to"]] == ["bob@example.test", "eve@example.test"]
    assert [each["email"] for each in shown["cc"]] == ["fay@example.test"]
    operation = box.send(body | {"sendAt": at(hours=1)}).data["operationId"]
    work = box.store.deliveries.get_work(operation)
    sent = parse_message(work.wire.read())
    assert (sent.subject, [each.email for each in sent.to]) == ("Re: Plans", ["bob@example.test", "eve@example.test"])
    assert work.parent_id == parent


def test_it_leaves_no_trace(box: RestingMailbox) -> None:
    before = everything_stored(box.client.appliance)
    for body in (a_message(subject="Traceless"), a_message(sendAt=at(hours=1))):
        assert preview(box, body).status == 200
    after = everything_stored(box.client.appliance)
    assert "Traceless" not in after
    assert after == before


def test_it_says_who_may_not_send(box: RestingMailbox) -> None:
    appliance, ada = box.client.appliance, box.client.member["id"]
    _, writer = add_key(appliance, ada, "mail.drafts")
    _, sender = add_key(appliance, ada, "mail.send")
    _, reader = add_key(appliance, ada, "mail.read")
    (warning,) = preview(box, a_message(), token=writer).warnings
    assert "mail.send" in warning
    assert box.send(a_message(), token=writer).refusal == (403, "permission_denied")
    assert preview(box, a_message(), token=sender).warnings == []
    refused = preview(box, a_message(), token=reader)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["capability"])
    add_member(appliance, "eve")
    eve = box.client.log_in("eve@example.org").token
    assert preview(box, a_message(), token=eve).refusal == (404, "not_found")


def test_it_warns_of_what_only_the_server_can_say(box: RestingMailbox) -> None:
    (warning,) = preview(box, a_message("jürgen@bücher.example")).warnings
    assert "SMTPUTF8" in warning
    assert preview(box, a_message("ann@bücher.example")).warnings == []
    box.store.accounts.set_status(box.id, "reauth_required")
    (warning,) = preview(box, a_message()).warnings
    assert "needs a new sign-in" in warning


def test_what_goes_out_is_what_was_shown(mailbox: Mailbox, asking: CheckedClient) -> None:
    body = a_message(subject="Same", attachments=[FILE, PICTURE]) | PEOPLE | {"body": {"html": "<h1>Hi</h1>"}}
    shown = asking.ask("POST", f"/accounts/{mailbox.id}/send/preview", body).data
    assert mailbox.smtp.count("connect") == 0
    asking.ask("POST", f"/accounts/{mailbox.id}/send", body, headers={"Idempotency-Key": a_key()})
    (received,) = mailbox.smtp.messages
    got = parse_message(received.source)
    assert [each.email for each in (*got.to, *got.cc)] == [each["email"] for each in (*shown["to"], *shown["cc"])]
    assert received.recipients == tuple(each["email"] for name in PEOPLE for each in shown[name])
    assert (got.subject, len(got.text or ""), len(got.html or "")) == (
        shown["subject"],
        shown["bodyTextChars"],
        shown["bodyHtmlChars"],
    )
    assert [(each.filename, each.size_bytes) for each in got.attachments] == [
        (each["filename"], each["sizeBytes"]) for each in shown["attachments"]
    ]


def test_a_plain_part_made_of_tags_alone_is_whole_and_told(box: RestingMailbox) -> None:
    box.client.appliance.html_readers.close()  # as under a flood of hostile mail: nothing can be analyzed
    answer = preview(box, a_message(body={"html": "<p>word</p>" * 5_000}))
    assert (answer.status, answer.warnings) == (200, [UNANALYZED_OUTGOING])
    assert answer.data["bodyTextChars"] >= 5_000 * len("word")
