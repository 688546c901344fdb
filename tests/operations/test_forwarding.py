"""Forwarding through the API: what goes out, once for each key, and what is refused."""

import base64
import email
import email.policy
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest

from mailbox_appliance.mail.html.analysis import UNANALYZED_OUTGOING
from tests.checked_client import Answer, CheckedClient
from tests.operations.box import Box
from tests.operations.conftest import Mailbox
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.operations.test_outgoing import people
from tests.servers.desk import Desk, a_key
from tests.servers.dovecot import MailServer

BOB = "bob@example.test"
TO: dict[str, Any] = {"to": [{"email": BOB}]}


class Forwards(Box):
    """The mailbox and what is forwarded from it."""

    def forward(self, message: str, body: object = None, key: str | None = None, **more: Any) -> Answer:
        header = {"Idempotency-Key": key or a_key()}
        return self.ask("POST", f"/messages/{message}/forward", TO if body is None else body, headers=header, **more)

    def last(self) -> EmailMessage:
        message = email.message_from_bytes(self.mailbox.smtp.messages[-1].source, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        return message


@pytest.fixture
def box(mailbox: Mailbox, asking: CheckedClient, mail_server: MailServer) -> Forwards:
    return Forwards(mailbox, asking, mail_server)


def original(*files: bytes, subject: str = "Plans", html: str | None = None) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = "Carol <carol@example.test>", "us@example.test"
    message["Subject"], message["Message-ID"] = subject, f"<{a_key()}@example.test>"
    message["Date"] = "Mon, 05 Jan 2026 10:00:00 +0000"
    message.set_content("Meet me at noon.\n")
    if html is not None:
        message.add_alternative(html, subtype="html")
        shown = message.get_body(("html",))
        assert shown is not None
        shown.add_related(b"\x89PNG", "image", "png", cid="<logo@x>", filename="logo.png")
    for number, content in enumerate(files):
        message.add_attachment(content, "application", "pdf", filename=f"plan {number} ü.pdf")
    return message.as_bytes(policy=email.policy.SMTP)


def test_the_original_goes_along_below_the_comment(box: Forwards) -> None:
    message = box.deliver(original(b"%PDF", html='<p>Noon <img src="cid:logo@x"></p>'))
    key, body = a_key(), TO | {"comment": "See below.\nBest", "cc": [{"email": "dan@example.test", "name": "Dan"}]}
    answer = box.forward(message, body, key)
    assert (answer.status, answer.data["kind"], answer.data["status"]) == (200, "forward", "succeeded")
    sent = box.last()
    assert (sent["Subject"], sent["To"], sent["Cc"]) == ("Fwd: Plans", BOB, "Dan <dan@example.test>")
    assert (sent["In-Reply-To"], sent["References"]) == (None, None)
    text = sent.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert text.startswith("See below.")
    assert text.index("Best") < text.index("From: Carol <carol@example.test>") < text.index("Meet me at noon.")
    assert 'src="cid:logo@x"' in sent.get_body(("html",)).get_content()  # type: ignore[union-attr]
    names = {part.get_filename(): part.get_payload(decode=True) for part in sent.walk() if part.get_filename()}
    assert names == {"logo.png": b"\x89PNG", "plan 0 ü.pdf": b"%PDF"}
    assert box.client.appliance.store.deliveries.get_work(answer.data["operationId"]).parent_id == message

    again = box.forward(message, body, key)
    assert (again.status, again.data) == (200, answer.data)
    assert box.forward(message, body | {"comment": "Other"}, key).refusal == (409, "idempotency_conflict")
    assert len(box.mailbox.smtp.messages) == 1


def test_a_forward_is_found_in_the_conversation_of_the_original_by_its_subject(box: Forwards) -> None:
    message = box.deliver(original(subject="Moving house in May"))
    thread = box.ask("GET", f"/messages/{message}").data["threadId"]
    result = box.forward(message).data["result"]
    assert result["threadId"] == thread
    listed = box.ask("GET", f"/threads/{thread}").data["messages"]["items"]
    assert [item["id"] for item in listed] == [message, result["id"]]


def test_without_attachments_only_what_the_text_shows_goes_along(box: Forwards) -> None:
    message = box.deliver(original(b"%PDF", html='<p>Noon <img src="cid:logo@x"></p>'))
    assert box.forward(message, TO | {"includeAttachments": False}).data["status"] == "succeeded"
    assert [part.get_filename() for part in box.last().walk() if part.get_filename()] == ["logo.png"]


def test_the_same_key_on_two_threads_is_one_delivery(box: Forwards) -> None:
    message, key = box.deliver(original()), a_key()
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: box.forward(message, key=key), range(2)))
    assert len({answer.data["operationId"] for answer in answers}) == 1
    assert len(box.mailbox.smtp.messages) == 1


ODD = {
    "a subject with a line break hidden in it": b"Subject: =?utf-8?q?a=0D=0ABcc:_x=40example.test?=\r\n\r\nHi\r\n",
    "a file name with a line break hidden in it": (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHi\r\n--b\r\nContent-Disposition: attachment;\r\n"
        b' filename="=?utf-8?q?a=0D=0AX:_y?="\r\nContent-Type: a/b/c\r\n\r\nx\r\n--b--\r\n'
    ),
    "no header at all": b"\r\nHi\r\n",
    "8-bit junk": b"Subject: \xff\xfe\r\nFrom: \xff <a@[1.2.3.4]>\r\n\r\n\xff\xfe\r\n",
}


@pytest.mark.parametrize("name", list(ODD))
def test_an_odd_original_is_forwarded_all_the_same(box: Forwards, name: str) -> None:
    message = box.deliver(b"X-Test: " + a_key().encode() + b"\r\n" + ODD[name])
    assert box.forward(message).data["status"] == "succeeded"
    source = box.mailbox.smtp.messages[-1].source
    assert source.isascii()
    assert not {"bcc", "x"} & {field.lower() for field in box.last()}


def test_too_much_to_forward(box: Forwards) -> None:
    message = box.deliver(original(bytes(26 << 20)))
    refused = box.forward(message)
    assert (refused.refusal, refused.places) == ((400, "message_too_large"), ["/includeAttachments"])
    assert box.forward(message, TO | {"includeAttachments": False}).data["status"] == "succeeded"
    many = box.deliver(original(*(b"x" for _ in range(101)), subject="Many"))
    refused = box.forward(many)
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/includeAttachments"])


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "/to"),
    ({"to": []}, "/to"),
    ({"to": people(501)}, "/to"),
    (TO | {"cc": people(500)}, "/cc"),
    ({"to": [{"email": "b@example.test\r\nRSET"}]}, "/to/0/email"),
    ({"to": [{"email": "b@-example.test"}]}, "/to/0/email"),
    ({"to": [{"email": BOB, "name": "a\r\nb"}]}, "/to/0/name"),
    ({"to": [{"email": BOB, "name": "=?utf-8?Q?a=0D=0ABcc:_x?="}]}, "/to/0/name"),
    (TO | {"cc": [{"email": BOB}, {"email": BOB, "name": "a\nb"}]}, "/cc/1/name"),
    (TO | {"bcc": [{"email": BOB}]}, "/bcc"),
    (TO | {"from": "somebody@example.test"}, "/from"),
    (TO | {"comment": None}, "/comment"),
    (TO | {"includeAttachments": "no"}, "/includeAttachments"),
    (TO | {"subject": "Other"}, "/subject"),
    (TO | {"sendAt": "2099-01-01T00:00:00Z"}, "/sendAt"),
)


def test_what_is_refused(desk: Desk, asking: CheckedClient) -> None:
    filled = FilledMailbox(desk.appliance, asking.member["id"], "forwarding@example.org")
    (message,) = filled.deliver(letter("Plans"))
    path = f"/accounts/{filled.id}/messages/{message}/forward"
    header = {"Idempotency-Key": a_key()}
    for body, place in REFUSED:
        answer = asking.ask("POST", path, body, headers=header)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), body
    no_key = asking.ask("POST", path, TO)
    assert (no_key.refusal, no_key.places) == ((400, "invalid_request"), ["header:Idempotency-Key"])
    unknown = path.replace(message, "msg_00000000000000000000000000")
    assert asking.ask("POST", unknown, TO, headers=header).refusal == (404, "not_found")
    _, reader = add_key(desk.appliance, asking.member["id"], "mail.read", "mail.drafts")
    assert asking.ask("POST", path, TO, headers=header, token=reader).refusal == (403, "permission_denied")
    assert asking.ask("POST", path, TO, headers=header).refusal == (503, "provider_unavailable")
    assert asking.ask("GET", f"/accounts/{filled.id}/delivery-operations").data["items"] == []


def test_who_may_only_send_forwards_too(box: Forwards) -> None:
    message = box.deliver(original(subject=base64.b32encode(b"any").decode()))
    _, token = add_key(box.client.appliance, box.client.member["id"], "mail.send")
    assert box.forward(message, token=token).data["status"] == "succeeded"


def test_a_plain_part_made_of_tags_alone_is_whole_and_told(box: Forwards, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = f"<style>{'.qa .b>.c~.d+.e{color:red}' * 20_000}</style>"
    html = sheet + "<p class='qa b c d e'>word</p>\r\n" * 10_000
    message = box.deliver(f"Subject: slow\r\nContent-Type: text/html\r\n\r\n{html}".encode())
    readers = box.client.appliance.html_readers
    monkeypatch.setattr(readers, "for_request", partial(readers.for_request, 0.5))  # no machine analyzes it in that
    answer = box.forward(message)
    assert (answer.status, answer.warnings) == (200, [UNANALYZED_OUTGOING])
    text = box.last().get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert text.count("word") == 10_000
