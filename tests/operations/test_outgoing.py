"""What may be sent, and how a reply is addressed: refused with the place of the fault, and then nothing is stored."""

import base64
import email
from datetime import UTC, datetime
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

import pytest

from mailbox_appliance.errors import Invalid
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.operations.prepare import compose_message
from tests.operations.conftest import Mailbox
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

FILE = {"filename": "a.txt", "mimeType": "text/plain", "content": "YQ=="}


def people(count: int) -> list[dict[str, str]]:
    return [{"email": f"p{number}@example.test"} for number in range(count)]


def without(name: str, **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in a_message(**fields).items() if key != name}


REFUSED: list[tuple[dict[str, Any], str]] = [
    # line breaks and controls, openly
    (a_message(subject="a\r\nBcc: x@example.test"), "/subject"),
    (a_message(subject="a\nb"), "/subject"),
    (a_message(subject="a\0b"), "/subject"),
    (a_message(subject="a\u2028b"), "/subject"),
    (a_message(to="x", cc=[]) | {"to": [{"email": "b@example.test", "name": "a\rb"}]}, "/to/0/name"),
    (a_message(cc=[{"email": "b@example.test"}, {"email": "b@example.test", "name": "a\nb"}]), "/cc/1/name"),
    (a_message(bcc=[{"email": "b@example.test", "name": "\0"}]), "/bcc/0/name"),
    (a_message(attachments=[FILE, FILE | {"filename": "a\r\nb"}]), "/attachments/1/filename"),
    (a_message(attachments=[FILE | {"contentId": "a\r\nb"}]), "/attachments/0/contentId"),
    (a_message(attachments=[FILE | {"mimeType": "text/plain\r\nX: y"}]), "/attachments/0/mimeType"),
    (a_message("b@example.test\r\nRSET"), "/to/0/email"),
    (a_message("b@example.test\n"), "/to/0/email"),
    # longer than anybody means
    (a_message(subject="s" * 5_001), "/subject"),
    (a_message(subject="s" * 100_000), "/subject"),
    (a_message(attachments=[FILE | {"filename": "f" * 1_001}]), "/attachments/0/filename"),
    (a_message(attachments=[FILE | {"contentId": "c" * 251}]), "/attachments/0/contentId"),
    (a_message(attachments=[FILE | {"mimeType": "text/plain; a=" + "b" * 1_000}]), "/attachments/0/mimeType"),
    # hidden in what looks like an encoded word
    (a_message(subject="=?utf-8?Q?a=0D=0ABcc:_x?="), "/subject"),
    (a_message(subject="=?utf-8?B?YQ0KQmNjOiB4?="), "/subject"),
    (a_message(bcc=[{"email": "b@example.test", "name": "=?us-ascii?q?a=0Ab?="}]), "/bcc/0/name"),
    (a_message(attachments=[FILE | {"filename": "=?utf-8?Q?a=00?="}]), "/attachments/0/filename"),
    (a_message(attachments=[FILE | {"contentId": "=?utf-8?Q?a=0A?="}]), "/attachments/0/contentId"),
    # who it goes to
    (without("to"), "/to"),
    (a_message() | {"to": []}, "/to"),
    (a_message() | {"to": people(501)}, "/to"),
    (a_message() | {"to": people(250), "cc": people(250), "bcc": people(1)}, "/bcc"),
    (a_message() | {"to": people(1), "cc": people(500), "bcc": people(1)}, "/cc"),
    ({"body": {"text": "x"}, "bcc": people(501)}, "/bcc"),
    (a_message("not an address"), "/to/0/email"),
    (a_message("b@-example.test"), "/to/0/email"),
    (a_message() | {"to": [{"email": "b@example.test", "name": ""}]}, "/to/0/name"),
    (a_message() | {"to": [{"name": "Bob"}]}, "/to/0/email"),
    (a_message() | {"to": {"email": "b@example.test"}}, "/to"),
    (a_message(**{"from": "somebody@example.test"}), "/from"),
    (a_message(replyAll=True), "/replyToMessageId"),
    (a_message(replyToMessageId=""), "/replyToMessageId"),
    (a_message(**{"from": "somebody@example.test\r\nBcc: x@example.test"}), "/from"),
    (a_message(**{"from": "=?utf-8?Q?a=0D=0A?=@example.test"}), "/from"),
    (a_message("=?utf-8?Q?a=0D=0A?=@example.test\r\n"), "/to/0/email"),
    # what goes
    (without("subject", body={}), "/body"),
    (a_message(subject=" ", body={"text": ""}), "/body"),
    (a_message(subject="", body={"text": " \r\n\t", "html": ""}), "/body"),
    (without("subject", body={"html": "<html><body> <p></p></body></html>"}), "/body"),
    (without("body"), "/body"),
    (a_message() | {"body": {"markdown": "x"}}, "/body/markdown"),
    (a_message() | {"body": {"text": None}}, "/body/text"),
    (a_message(priority="high"), "/priority"),
    (a_message(draftId="msg_1"), "/body"),
    ({"draftId": ""}, "/draftId"),
    (a_message(attachments=[FILE] * 101), "/attachments"),
    (a_message(attachments=[FILE | {"content": "not base64"}]), "/attachments/0/content"),
    (a_message(attachments=[FILE | {"content": "YQ"}]), "/attachments/0/content"),
    (a_message(attachments=[FILE | {"filename": ""}]), "/attachments/0/filename"),
    (a_message(attachments=[FILE | {"mimeType": "text"}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"mimeType": "multipart/mixed"}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"mimeType": "text/plain; charset"}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"mimeType": 'text/plain; a="b\n c"'}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"mimeType": "text/plain; charset=utf-8\r\nX: y"}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"mimeType": "multipart/mixed; boundary=b"}]), "/attachments/0/mimeType"),
    (a_message(attachments=[FILE | {"disposition": "hidden"}]), "/attachments/0/disposition"),
    (a_message(attachments=[FILE | {"contentId": "a b"}]), "/attachments/0/contentId"),
    (a_message(attachments=[FILE | {"contentId": "<a"}]), "/attachments/0/contentId"),
    (a_message(attachments=[FILE | {"contentId": "<<a>>"}]), "/attachments/0/contentId"),
    (a_message(attachments=[FILE | {"contentId": "<>"}]), "/attachments/0/contentId"),
    # when
    (a_message(sendAt="tomorrow"), "/sendAt"),
    (a_message(sendAt="2020-01-01T00:00:00Z"), "/sendAt"),
    (a_message(sendAt=None), "/sendAt"),
    ({"draftId": "msg_x", "sendAt": "9999-01-01T00:00:00Z"}, "/sendAt"),
    ({"draftId": "msg_x", "subject": "both shapes"}, "/subject"),
    ({"draftId": "msg_00000000000000000000000000"}, "/draftId"),
    ({"draftId": None}, "/draftId"),
]


@pytest.mark.parametrize(("body", "path"), REFUSED, ids=lambda value: str(value)[-60:])
def test_what_is_refused(desk: Desk, mailbox: Mailbox, body: dict[str, Any], path: str) -> None:
    key = a_key()
    before = operations(desk)
    answer = desk.send(mailbox.id, body, key)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert path in [detail["path"] for detail in answer.body["error"]["details"]]
    assert mailbox.smtp.count("connect") == 0
    # A preview is as strict, and says the very same.
    previewed = desk.ask("POST", f"/accounts/{mailbox.id}/send/preview", body).body["error"]
    assert previewed["details"] == answer.body["error"]["details"]
    # Nothing is stored: the key is free for what can be sent.
    assert operations(desk) == before


def operations(desk: Desk) -> list[Any]:
    """All that is stored of sends."""
    database = desk.appliance.store.database
    return [*database.rows("SELECT * FROM delivery_operations"), *database.rows("SELECT * FROM delivery_messages")]


def test_a_key_is_free_after_a_refusal(desk: Desk, mailbox: Mailbox) -> None:
    key = a_key()
    assert desk.send(mailbox.id, REFUSED[0][0], key).status == 400
    assert desk.send(mailbox.id, a_message(), key).data["status"] == "succeeded"


def test_too_much_to_attach(desk: Desk, mailbox: Mailbox) -> None:
    half = base64.b64encode(bytes(13 << 20)).decode()
    body = a_message(attachments=[FILE | {"content": half}, FILE | {"content": half}])
    answer = desk.send(mailbox.id, body)
    assert (answer.status, answer.code) == (400, "message_too_large")
    assert [detail["path"] for detail in answer.body["error"]["details"]] == ["/attachments"]
    message = "The size of all attachments together is larger than the limit of 25 MiB."
    assert answer.body["error"]["message"] == message


def test_a_content_id_in_brackets_is_the_same(desk: Desk, mailbox: Mailbox) -> None:
    body = a_message(body={"html": "<img src='cid:img1@x'>"}, attachments=[FILE | {"contentId": "<img1@x>"}])
    sent = only(desk, mailbox, body)
    assert [part["Content-ID"] for part in sent.walk() if part["Content-ID"]] == ["<img1@x>"]


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_what_cannot_be_written_is_a_refusal() -> None:
    sender, to = Address(email="a@example.test"), Address(email="a@[192.0.2.1]")
    for outgoing in (OutgoingMessage(sender=sender, to=(to,)), OutgoingMessage(sender=to, to=(sender,))):
        with pytest.raises(Invalid) as caught:
            compose_message(outgoing, NOW)
        assert [detail.path for detail in caught.value.details] == [""]


def test_texts_that_just_fit(desk: Desk, mailbox: Mailbox) -> None:
    file = FILE | {"filename": "🎉" * 1000, "contentId": "c" * 250, "mimeType": "text/plain; charset=utf-8"}
    sent = only(desk, mailbox, a_message(subject="🎉" * 5_000, attachments=[file]))
    part = list(sent.walk())[-1]
    assert (part.get_content_type(), part.get_param("charset")) == ("text/plain", "utf-8")


def test_bounds_that_just_fit(desk: Desk, mailbox: Mailbox) -> None:
    body = a_message(attachments=[FILE] * 100) | {"to": people(500)}
    assert desk.send(mailbox.id, body).data["status"] == "succeeded"
    [message] = mailbox.smtp.messages
    assert len(message.recipients) == 500
    assert len(email.message_from_bytes(message.source).get_payload()) == 101


def test_what_only_looks_encoded_arrives_literally(desk: Desk, mailbox: Mailbox) -> None:
    text = "=?utf-8?Q?caf=C3=A9?="
    sent = only(desk, mailbox, a_message(subject=text))
    found = decode_header(sent["Subject"])
    assert b"".join(part if isinstance(part, bytes) else part.encode() for part, _ in found).decode() == text


def only(desk: Desk, mailbox: Mailbox, body: dict[str, Any]) -> Message:
    """What the server gets of this send."""
    answer = desk.send(mailbox.id, body)
    assert (answer.status, answer.data["status"]) == (200, "succeeded"), answer
    return email.message_from_bytes(mailbox.smtp.messages[-1].source)


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"html": "<html><body> <p></p></body></html>"}])
def test_a_message_of_a_subject_alone_goes_and_is_told_to_have_no_text(
    desk: Desk, mailbox: Mailbox, body: dict[str, str]
) -> None:
    message, key = a_message(subject="EOM", body=body), a_key()
    preview = desk.ask("POST", f"/accounts/{mailbox.id}/send/preview", message)
    assert (preview.status, preview.data["bodyTextChars"]) == (200, 0)
    sent, again = desk.send(mailbox.id, message, key), desk.send(mailbox.id, message, key)
    assert (sent.status, sent.data["status"], again.data) == (200, "succeeded", sent.data)
    for answer in (preview, sent, again):
        assert answer.body["warnings"] == ["The message has no text."]
    assert email.message_from_bytes(mailbox.smtp.messages[-1].source)["Subject"] == "EOM"


def test_files_without_a_word_go_and_a_picture_counts_as_text(desk: Desk, mailbox: Mailbox) -> None:
    files = without("subject", body={}, attachments=[FILE])
    assert desk.send(mailbox.id, files).body["warnings"] == ["The message has no text."]
    assert "warnings" not in desk.send(mailbox.id, a_message(body={"html": "<img src='cid:a'>"})).body


def named(message: Message, field: str) -> list[str]:
    return [address for _, address in getaddresses(message.get_all(field, []))]


# --- replies ---

CAROL, DAN = "carol@example.test", "dan@example.test"


def delivered(desk: Desk, mailbox: Mailbox, mail_server: MailServer, *fields: str, name: str) -> str:
    """The id of a message with these header fields that has come to the mailbox."""
    head = [*fields, f"Message-ID: <{name}@example.test>", "Date: Mon, 05 Jan 2026 10:00:00 +0000"]
    if not any(line.startswith("Subject:") for line in fields):
        head.append(f"Subject: {name}")
    mail_server.deliver(mailbox.email, ("\r\n".join(head) + "\r\n\r\nHello\r\n").encode())
    found: list[str] = []

    def arrived() -> bool:
        items = desk.ask("GET", f"/accounts/{mailbox.id}/messages?folder=inbox&limit=100").data["items"]
        for item in items:
            message = desk.message(mailbox.id, item["id"])
            if message.data["headers"].get("Message-ID") == f"<{name}@example.test>":
                found[:] = [item["id"]]
        return bool(found)

    wait_until(arrived, lambda: f"{name} did not arrive", 15)
    return found[0]


def reply(parent: str, **fields: Any) -> dict[str, Any]:
    return {"body": {"text": "Yes"}, "replyToMessageId": parent, **fields}


def test_a_reply_goes_to_reply_to_and_continues_the_thread(
    desk: Desk, mailbox: Mailbox, mail_server: MailServer
) -> None:
    parent = delivered(
        desk, mailbox, mail_server,
        f"From: Carol <{CAROL}>", "Reply-To: List <list@example.test>", f"To: {mailbox.email}, {DAN}",
        "Subject: Lunch", "References: <first@example.test>", "In-Reply-To: <first@example.test>", name="lunch",
    )  # fmt: skip
    answer = desk.send(mailbox.id, reply(parent))
    sent = email.message_from_bytes(mailbox.smtp.messages[-1].source)
    assert (named(sent, "To"), named(sent, "Cc")) == (["list@example.test"], [])
    assert sent["Subject"] == "Re: Lunch"
    assert sent["In-Reply-To"] == "<lunch@example.test>"
    assert sent["References"].split() == ["<first@example.test>", "<lunch@example.test>"]
    thread = desk.message(mailbox.id, parent).data["threadId"]
    assert answer.data["result"]["threadId"] == thread
    found = desk.ask("GET", f"/accounts/{mailbox.id}/threads/{thread}").data["messages"]["items"]
    assert [item["id"] for item in found] == [parent, answer.data["result"]["id"]]


def test_what_is_given_replaces_what_would_be_filled_in(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    parent = delivered(
        desk, mailbox, mail_server, f"From: {CAROL}", f"To: {mailbox.email}", f"Cc: {DAN}", name="replaced"
    )
    to_other = only(desk, mailbox, reply(parent, to=[{"email": "eve@example.test"}], subject="Other"))
    assert (named(to_other, "To"), to_other["Subject"]) == (["eve@example.test"], "Other")
    no_cc = only(desk, mailbox, reply(parent, replyAll=True, cc=[]))
    assert (named(no_cc, "To"), named(no_cc, "Cc")) == ([CAROL], [])
    given_cc = only(desk, mailbox, reply(parent, cc=[{"email": "eve@example.test"}]))
    assert (named(given_cc, "To"), named(given_cc, "Cc")) == ([CAROL], ["eve@example.test"])


def test_a_reply_to_all_leaves_ourselves_out(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    own = mailbox.email
    parent = delivered(
        desk, mailbox, mail_server,
        f"From: Carol <{CAROL}>", f"To: {own.upper()}, Dan <{DAN}>", f"Cc: {own}, eve@example.test, {CAROL.upper()}",
        "Subject: Re: all", name="all",
    )  # fmt: skip
    sent = only(desk, mailbox, reply(parent, replyAll=True))
    assert (named(sent, "To"), named(sent, "Cc")) == ([CAROL, DAN], ["eve@example.test"])
    assert sent["Subject"] == "Re: all"
    assert "list" not in str(only(desk, mailbox, reply(parent))["To"])
    assert set(mailbox.smtp.messages[0].recipients) == {CAROL, DAN, "eve@example.test"}


def test_a_reply_to_what_we_sent_goes_to_whom_we_sent_it(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    parent = delivered(desk, mailbox, mail_server, f"From: {mailbox.email}", f"To: {DAN}", name="own")
    assert named(only(desk, mailbox, reply(parent)), "To") == [DAN]


def test_nobody_is_named_twice(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    parent = delivered(
        desk, mailbox, mail_server,
        f"From: {CAROL}", f"To: {mailbox.email}", f"Cc: {DAN}, eve@example.test", name="twice",
    )  # fmt: skip
    to_dan = only(desk, mailbox, reply(parent, replyAll=True, to=[{"email": DAN.upper()}]))
    assert (named(to_dan, "To"), named(to_dan, "Cc")) == (["DAN@example.test"], ["eve@example.test"])
    cc_carol = only(desk, mailbox, reply(parent, replyAll=True, cc=[{"email": CAROL}], to=[{"email": DAN}]))
    assert (named(cc_carol, "To"), named(cc_carol, "Cc")) == ([DAN], [CAROL])
    cc_only = only(desk, mailbox, reply(parent, replyAll=True, cc=[{"email": CAROL}]))
    assert (named(cc_only, "To"), named(cc_only, "Cc")) == ([], [CAROL])


UNUSABLE = (
    '"a b"@x.example',
    "a@-x.example",
    "a@[127.0.0.1]",
    "a@x.example.",
    f"a@{'l' * 64}.example",
    "a@xn--ü.example",
)


@pytest.mark.parametrize(("number", "address"), list(enumerate(UNUSABLE)))
def test_a_reply_to_whom_nobody_can_write(
    desk: Desk, mailbox: Mailbox, mail_server: MailServer, number: int, address: str
) -> None:
    main = delivered(desk, mailbox, mail_server, f"From: <{address}>", f"To: {DAN}", name=f"unusable-{number}")
    for everybody in (False, True):
        answer = desk.send(mailbox.id, reply(main, replyAll=everybody))
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert [detail["path"] for detail in answer.body["error"]["details"]] == ["/replyToMessageId"]
    assert named(only(desk, mailbox, reply(main, to=[{"email": CAROL}])), "To") == [CAROL]
    others = delivered(
        desk, mailbox, mail_server,
        f"From: {CAROL}", f"To: <{address}>, {DAN}", f"Cc: <{address}>", name=f"others-{number}",
    )  # fmt: skip
    shown = desk.message(mailbox.id, others).data["cc"][0]["email"]
    preview = desk.ask("POST", f"/accounts/{mailbox.id}/send/preview", reply(others, replyAll=True))
    kept = desk.ask("POST", f"/accounts/{mailbox.id}/drafts", reply(others, replyAll=True))
    key = a_key()
    sent = desk.send(mailbox.id, reply(others, replyAll=True), key)
    again = desk.send(mailbox.id, reply(others, replyAll=True), key)
    assert again.data == sent.data
    for answer in (preview, kept, sent, again):
        (warning,) = answer.body["warnings"]
        assert warning == f"This reply does not go to {shown}: these addresses of the original are not usable."
    received = email.message_from_bytes(mailbox.smtp.messages[-1].source)
    assert (named(received, "To"), named(received, "Cc")) == ([CAROL, DAN], [])
    assert "warnings" not in desk.send(mailbox.id, reply(others, replyAll=True, to=[{"email": DAN}], cc=[])).body


def test_a_reply_to_odd_addresses_that_are_in_use(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    parent = delivered(desk, mailbox, mail_server, "From: <a.@docomo.example>", "Cc: b@my_host.example", name="in-use")
    only(desk, mailbox, reply(parent, replyAll=True))
    assert mailbox.smtp.messages[-1].recipients == ('"a."@docomo.example', "b@my_host.example")


def test_a_reply_to_nothing(desk: Desk, mailbox: Mailbox) -> None:
    body = reply("msg_00000000000000000000000000")
    for path, key in (("send/preview", None), ("send", a_key()), ("drafts", None)):
        answer = desk.ask("POST", f"/accounts/{mailbox.id}/{path}", body, Idempotency_Key=key)
        assert (answer.status, answer.code) == (404, "not_found")
        assert [detail["path"] for detail in answer.body["error"]["details"]] == ["/replyToMessageId"]


def test_a_reply_to_more_than_may_be(desk: Desk, mailbox: Mailbox, mail_server: MailServer) -> None:
    crowd = ",\r\n ".join(f"p{number}@example.test" for number in range(501))
    everybody = delivered(desk, mailbox, mail_server, f"From: {CAROL}", f"To: {crowd}", name="crowd")
    writers = delivered(desk, mailbox, mail_server, f"From: {CAROL}", f"Reply-To: {crowd}", name="writers")
    for body, path in (
        (reply(everybody, replyAll=True), "/replyAll"),
        (reply(writers), "/replyToMessageId"),
        (reply(everybody, replyAll=True, bcc=people(501)), "/bcc"),
    ):
        answer = desk.send(mailbox.id, body)
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert [detail["path"] for detail in answer.body["error"]["details"]] == [path]
    assert desk.send(mailbox.id, reply(everybody)).data["status"] == "succeeded"


def test_the_sender_is_the_mailbox(desk: Desk, mailbox: Mailbox) -> None:
    sent = only(desk, mailbox, a_message(**{"from": mailbox.email.upper()}))
    assert getaddresses([sent["From"]]) == [("Ada L.", mailbox.email)]
    assert mailbox.smtp.messages[0].sender == mailbox.email
    assert sent["Message-ID"].endswith("@example.test>")
