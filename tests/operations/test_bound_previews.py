"""A send with the digest of a preview sends what was shown, or nothing."""

import base64
import copy
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

import pytest

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.draft import to_sendable
from mailbox_appliance.mail.preview import digest_of
from mailbox_appliance.model.messages import Address, OutgoingAttachment, OutgoingMessage
from tests.checked_client import Answer, CheckedClient
from tests.operations.box import Box
from tests.operations.conftest import Mailbox
from tests.operations.filled import add_key, letter
from tests.servers.desk import a_key
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

CHANGED = ((409, "conflict"), ["header:If-Match"])


def file(name: str, content: bytes = b"step one", **more: str) -> dict[str, str]:
    return {"filename": name, "mimeType": "text/plain", "content": base64.b64encode(content).decode(), **more}


WHOLE: dict[str, Any] = {
    "to": [{"email": "bob@example.test", "name": "Bob"}, {"email": "cy@example.test"}],
    "cc": [{"email": "di@example.test"}],
    "bcc": [{"email": "eve@example.test"}],
    "subject": "Pläne",
    "body": {"text": "Pay 100 €\n", "html": "<p>Pay <b>100</b> €</p><img src='cid:logo@x'>"},
    "attachments": [file("plan.txt"), file("logo.png", b"\x89PNG", contentId="logo@x")],
}
Change = Callable[[dict[str, Any]], Any]
# fmt: off
#: One thing that differs between the preview and the send.
CHANGES: dict[str, Change] = {
    "a To recipient more":    lambda m: m["to"].append({"email": "mallory@example.test"}),
    "a To recipient less":    lambda m: m["to"].pop(),
    "another To recipient":   lambda m: m["to"][0].update(email="b0b@example.test"),
    "the order of To":        lambda m: m["to"].reverse(),
    "a recipient's name":     lambda m: m["to"][0].update(name="Rob"),
    "a Cc recipient":         lambda m: m["cc"].append({"email": "mallory@example.test"}),
    "no Cc":                  lambda m: m.pop("cc"),
    "Cc becomes Bcc":         lambda m: m["bcc"].append(m.pop("cc")[0]),
    "a Bcc recipient":        lambda m: m["bcc"].append({"email": "mallory@example.test"}),
    "no Bcc":                 lambda m: m.pop("bcc"),
    "the subject":            lambda m: m.update(subject="Plane"),
    "one digit of the text":  lambda m: m["body"].update(text="Pay 900 €\n"),
    "one digit of the HTML":  lambda m: m["body"].update(html=m["body"]["html"].replace("100", "900")),
    "no HTML":                lambda m: m["body"].pop("html"),
    "the bytes of a file":    lambda m: m["attachments"].__setitem__(0, file("plan.txt", b"step two")),
    "the name of a file":     lambda m: m["attachments"][0].update(filename="plan.exe"),
    "the type of a file":     lambda m: m["attachments"][0].update(mimeType="text/html"),
    "a file less":            lambda m: m["attachments"].pop(0),
    "a file more":            lambda m: m["attachments"].append(file("more.txt")),
    "an inline picture":      lambda m: m["attachments"][1].update(content=file("", b"\x89GIF")["content"]),
    "an inline file attached": lambda m: m["attachments"][1].update(disposition="attachment"),
    "a reply":                lambda m: m.update(replyToMessageId=m["parent"]),
}
# fmt: on


class Bound(Box):
    """The mailbox, its previews and its sends."""

    def preview(self, body: dict[str, Any]) -> str:
        answer = self.ask("POST", "/send/preview", body)
        etag = answer.headers["etag"]
        assert re.fullmatch(r'"[0-9a-f]{64}"', etag)
        assert answer.data["previewDigest"] == etag.strip('"')
        return etag

    def send(self, body: dict[str, Any], etag: str | None, key: str | None = None) -> Answer:
        headers = {"Idempotency-Key": key or a_key()} | ({} if etag is None else {"If-Match": etag})
        return self.ask("POST", "/send", body, headers=headers)

    def sent(self) -> int:
        return len(self.mailbox.smtp.messages)


@pytest.fixture
def box(mailbox: Mailbox, asking: CheckedClient, mail_server: MailServer) -> Bound:
    return Bound(mailbox, asking, mail_server)


def refused(answer: Answer) -> tuple[tuple[int, str], list[str]]:
    return answer.refusal, answer.places


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_differs_from_the_preview_is_not_sent(box: Bound, change: Change) -> None:
    etag, body = box.preview(WHOLE), copy.deepcopy(WHOLE)
    if change is CHANGES["a reply"]:
        body["parent"] = box.deliver(letter("Plans", number=box.sent()))
    change(body)
    body.pop("parent", None)
    assert refused(box.send(body, etag)) == CHANGED
    assert box.sent() == 0
    # It is this message, previewed anew, that may be sent.
    assert box.send(body, box.preview(body)).data["status"] == "succeeded"
    assert box.send(WHOLE, etag).data["status"] == "succeeded"


def test_a_key_refused_for_its_preview_may_be_used_again(box: Bound) -> None:
    key = a_key()
    assert refused(box.send(WHOLE, f'"{"0" * 64}"', key)) == CHANGED
    assert box.send(WHOLE, box.preview(WHOLE), key).data["status"] == "succeeded"


def test_a_retry_is_the_delivery_as_it_is_whatever_its_preview(box: Bound) -> None:
    key, etag = a_key(), box.preview(WHOLE)
    first = box.send(WHOLE, etag, key).data
    for given in (etag, f'"{"0" * 64}"', None):
        assert box.send(WHOLE, given, key).data == first
    assert box.sent() == 1


HEX = "a" * 64


# fmt: off
#: `If-Match`, with `{}` for the ETag of the preview, and the status of the send.
IF_MATCH = (
    ("{}",                      200),
    ("*",                       200),
    ('"x", {}',                 200),
    ('{},"x"',                  200),
    ('W/"x", {}',               200),
    ("W/{}",                    409),  # RFC 9110 13.1.1: strong comparison
    (f'"{HEX}"',                409),
    ('""',                      409),
    ("",                        400),
    ("abc",                     400),
    ("{} {}",                   400),
    ("{},",                     400),
    ('"a"b"',                   400),
    ("**",                      400),
    ('"' + "x" * 1000 + '"',    400),
)
# fmt: on


@pytest.mark.parametrize(("given", "status"), IF_MATCH)
def test_if_match_is_read_as_rfc_9110_has_it(box: Bound, given: str, status: int) -> None:
    answer = box.send(WHOLE, given.replace("{}", box.preview(WHOLE)))
    assert answer.status == status
    assert status == 200 or answer.places == ["header:If-Match"]
    assert box.sent() == (status == 200)


def test_a_malformed_if_match_is_refused_also_for_a_retry(box: Bound) -> None:
    key = a_key()
    box.send(WHOLE, None, key)
    assert refused(box.send(WHOLE, "abc", key)) == ((400, "invalid_request"), ["header:If-Match"])


def test_the_preview_of_a_scheduled_send_binds_it(box: Bound) -> None:
    later = WHOLE | {"sendAt": "2026-12-31T09:00:00Z"}
    assert box.send(later, box.preview(WHOLE)).status == 202, "the time is not seen"


def test_a_reply_to_all_is_bound_with_the_recipients_that_it_gets(box: Bound) -> None:
    source = letter("Plans", number=7).replace(b"Subject", b"Cc: fay@example.test\r\nSubject", 1)
    parent = box.deliver(source)
    body = {"body": {"text": "Yes"}, "replyToMessageId": parent, "replyAll": True}
    etag = box.preview(body)
    assert refused(box.send(body | {"replyAll": False}, etag)) == CHANGED
    assert box.send(body, etag).status == 200


def test_a_draft_is_bound_as_it_is_saved(box: Bound) -> None:
    draft = box.ask("POST", "/drafts", WHOLE).data["id"]
    etag = box.preview({"draftId": draft})
    assert box.preview({"draftId": draft}) == etag
    # The same, saved again: only Date, Message-ID and boundaries differ.
    box.ask("PUT", f"/drafts/{draft}", WHOLE)
    assert box.preview({"draftId": draft}) == etag
    box.ask("PUT", f"/drafts/{draft}", WHOLE | {"body": {"text": "Pay 900 €\n"}})
    assert refused(box.send({"draftId": draft}, etag)) == CHANGED
    assert box.sent() == 0
    box.ask("PUT", f"/drafts/{draft}", WHOLE)
    assert box.send({"draftId": draft}, etag).data["status"] == "succeeded"


def test_a_draft_that_another_program_changed_is_not_sent(box: Bound) -> None:
    draft = box.ask("POST", "/drafts", WHOLE).data["id"]
    etag = box.preview({"draftId": draft})
    source = box.ask("GET", f"/messages/{draft}/raw").content
    box.server.doveadm("expunge", "-u", box.mailbox.email, "mailbox", "Drafts", "all")
    box.server.deliver(box.mailbox.email, source.replace(b"100", b"1000"), folder="Drafts", flags="\\Draft")
    assert refused(box.send({"draftId": draft}, etag)) == CHANGED, "before the change was noticed"
    box.client.appliance.sync.wake(box.mailbox.id, "Drafts")
    wait_until(lambda: box.ask("GET", f"/drafts/{draft}").status == 404, lambda: "it is still there", 20)
    assert refused(box.send({"draftId": draft}, etag)) == CHANGED, "afterwards"
    assert box.send({"draftId": draft}, None).status == 400
    assert box.sent() == 0


def test_a_forward_is_bound_with_what_it_quotes(box: Bound) -> None:
    source = BytesParser(policy=policy.SMTP).parsebytes(letter("Plans", number=9))
    assert isinstance(source, EmailMessage)
    source.add_attachment(b"%PDF", "application", "pdf", filename="plan.pdf")
    message = box.deliver(source.as_bytes())
    body: dict[str, Any] = {"to": [{"email": "bob@example.test"}], "comment": "See below."}

    def shown(asked: dict[str, Any]) -> str:
        return box.ask("POST", f"/messages/{message}/forward/preview", asked).headers["etag"]

    def forward(asked: dict[str, Any], etag: str) -> Answer:
        headers = {"Idempotency-Key": a_key(), "If-Match": etag}
        return box.ask("POST", f"/messages/{message}/forward", asked, headers=headers)

    answer = box.ask("POST", f"/messages/{message}/forward/preview", body)
    assert (answer.data["subject"], answer.data["to"]) == ("Fwd: Plans", body["to"])
    assert [one["filename"] for one in answer.data["attachments"]] == ["plan.pdf"]
    etag = shown(body)
    for other in ({"comment": "See below!"}, {"includeAttachments": False}, {"cc": [{"email": "cy@example.test"}]}):
        assert refused(forward(body | other, etag)) == CHANGED
        assert shown(body | other) != etag
    assert box.sent() == 0
    assert forward(body, etag).data["status"] == "succeeded"


def test_a_forward_that_cannot_be_made_has_no_preview(box: Bound) -> None:
    message = box.deliver(letter("Plans", number=11))
    path = f"/messages/{message}/forward/preview"
    assert box.ask("POST", path, {"to": []}).refusal == (400, "invalid_request")
    assert box.ask("POST", path, {"to": [{"email": "nobody"}]}).places == ["/to/0/email"]
    assert box.ask("POST", "/messages/msg_x/forward/preview", {"to": WHOLE["to"]}).refusal == (404, "not_found")
    appliance, ada = box.client.appliance, box.client.member["id"]
    _, writer = add_key(appliance, ada, "mail.drafts")
    _, reader = add_key(appliance, ada, "mail.read")
    (warning,) = box.ask("POST", path, {"to": WHOLE["to"]}, token=writer).warnings
    assert "mail.send" in warning
    assert box.ask("POST", path, {"to": WHOLE["to"]}, token=reader).refusal == (403, "permission_denied")


# --- The digest itself -----------------------------------------------------------------------------------------------

ADA, BOB = Address(email="ada@example.test", name="Ada"), Address(email="bob@example.test")


def digest(message: OutgoingMessage, number: int) -> str:
    made = compose(message, message_id=f"<{number}@example.test>", date=datetime(2026, 1, number, tzinfo=UTC))
    return digest_of(made, is_saved_draft=False)


def test_another_process_has_the_same_digest() -> None:
    """A preview from before a restart or an upgrade still binds: the digest is of the message alone."""
    message = OutgoingMessage(ADA, (BOB,), subject="Pläne", text="Grüße\n")
    assert digest(message, 1) == "b1a41aeb6c899a346ce99459911281b72e345c57d140a81f7e99ff36fae60c12"


TEXTS = ("", "plain", "Grüße", "日本語 " * 200, "From here\n.\n..\n", "a" * 2000, "=3D =?utf-8?q?x?=", "\r\n--=_mixed_")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [0, 1, 100_000, 2_000_000])
def test_every_encoding_has_the_same_digest_twice(text: str, size: int) -> None:
    files = (OutgoingAttachment("a.bin", "application/octet-stream", bytes(range(256)) * (size // 256) + b"x"),)
    subject = " ".join(text[:50].split())
    for html in (None, f"<p>{text}</p>"):
        message = OutgoingMessage(ADA, (BOB,), subject=subject, text=text, html=html, attachments=files)
        assert digest(message, 1) == digest(message, 2)
        assert digest(message, 1) != digest(replace(message, text=text + "x"), 1)


#: A draft as a mail program writes it: its boundary, and its text.
DRAFT = (
    "From: ada@example.test\r\nTo: bob@example.test\r\nSubject: Money\r\nMIME-Version: 1.0\r\n"
    'Content-Type: multipart/mixed; boundary="{0}"\r\n\r\n--{0}\r\nContent-Type: text/plain\r\n\r\n{1}\r\n'
    "--{0}\r\nContent-Type: text/html\r\n\r\n<p>x</p>\r\n--{0}--\r\n"
)


def draft_digest(boundary: str, text: str) -> str:
    source = DRAFT.format(boundary, text).encode()
    made = to_sendable(source, ADA, message_id="<1@example.test>", date=datetime(2026, 1, 1, tzinfo=UTC))
    return digest_of(made, is_saved_draft=True)


def test_a_boundary_hides_no_text() -> None:
    """The same text elsewhere in the message is not left out with it."""
    assert draft_digest("one", "Pay 100") == draft_digest("two", "Pay 100")
    assert draft_digest("100", "Pay 100") != draft_digest("900", "Pay 900")
    assert draft_digest("one", "Pay 100") != draft_digest("one", "Pay 900")
