"""What is in a message, through the API: bodies page by page, attachments and sources from a real server."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from mailbox_appliance.mail.alternatives import DIFFERENCE_WARNING
from mailbox_appliance.mail.compose import compose, with_bcc
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.provenance import FIRST_TIME
from mailbox_appliance.model.deliveries import NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingAttachment, OutgoingMessage
from mailbox_appliance.model.sync import FetchedMessage
from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox
from tests.servers.dovecot import MailServer

MIB = 1 << 20
BINARY = hashlib.sha512(b"seed").digest()


def noise(size: int) -> bytes:
    """Bytes that hold everything, line breaks too."""
    return (BINARY * (size // len(BINARY) + 1))[:size]


class Mailbox(ConnectedMailbox):
    """Its messages, as they are got, and what is in them."""

    def got(self, *sources: bytes) -> list[dict[str, Any]]:
        """Put messages into the inbox; answers them, in order."""
        return [self.get(message_id) for message_id in reversed(self.deliver(*sources))]

    def get(self, message_id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/messages/{message_id}").data)

    def ask_for(self, message_id: str, rest: str) -> Answer:
        return self.ask("GET", f"/messages/{message_id}/{rest}")

    def attachments(self, message: dict[str, Any]) -> dict[str, bytes]:
        return {
            listed["filename"]: self.ask_for(message["id"], f"attachments/{listed['id']}").content
            for listed in message.get("attachments", ())
        }


@pytest.fixture
def box(checked_client: CheckedClient, mail_server: MailServer) -> Mailbox:
    return Mailbox(checked_client, mail_server)


def with_file(content: bytes, filename: str = "file.bin", *, text: str = "See the file.") -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"], message["Message-ID"] = "bob@example.test", "A file", f"<{id(content)}@x.test>"
    message.set_content(text)
    message.add_attachment(content, maintype="application", subtype="octet-stream", filename=filename)
    return message.as_bytes()


def part(headers: str, body: str) -> bytes:
    """A message of a text and one more part, written by hand."""
    return (
        "From: bob@example.test\nSubject: By hand\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
        f"--b\nContent-Type: text/plain\n\nHello\n--b\n{headers}\n\n{body}\n--b--\n"
    ).encode()


# --- attachments ---


@pytest.mark.parametrize("size", [0, 1, 57, 100_000, 300_000, 3 * MIB + 11])
def test_an_attachment_is_what_was_sent(box: Mailbox, size: int) -> None:
    content = noise(size)
    (message,) = box.got(with_file(content))
    (listed,) = message["attachments"]
    answer = box.ask_for(message["id"], f"attachments/{listed['id']}")
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="file.bin"'
    assert box.ask_for(message["id"], f"attachments/{listed['id']}").content == content


def test_what_real_messages_have(box: Mailbox) -> None:
    inner = EmailMessage()
    inner["Subject"] = "Inside"
    inner.set_content("Inner text")
    outer = EmailMessage()
    outer["Subject"] = "Many things"
    outer.set_content("Hello")
    outer.add_alternative("<p>Hello<img src='cid:pic@x'></p>", subtype="html")
    html = list(outer.iter_parts())[1]
    assert isinstance(html, EmailMessage)
    html.add_related(noise(2000), "image", "png", cid="<pic@x>", filename="pic.png", disposition="inline")
    outer.make_mixed()
    outer.add_attachment(inner)
    outer.add_attachment("<script>alert(1)</script>", subtype="html", filename="page.html")
    (message,) = box.got(outer.as_bytes())
    found = box.attachments(message)
    assert found["pic.png"] == noise(2000)
    assert found["page.html"].strip() == b"<script>alert(1)</script>"
    assert b"Inner text" in found["Inside.eml"]
    by_name = {listed["filename"]: listed for listed in message["attachments"]}
    assert (by_name["pic.png"]["contentId"], by_name["pic.png"]["disposition"]) == ("pic@x", "inline")
    page = box.ask_for(message["id"], f"attachments/{by_name['page.html']['id']}")
    assert (page.headers["content-type"], page.headers["content-security-policy"]) == ("text/html", "sandbox")


@pytest.mark.parametrize(
    ("headers", "body", "content", "media_type", "disposition"),
    [
        (
            "Content-Type: application/pdf\nContent-Disposition: attachment; filename*=UTF-8''%E2%82%AC%20rates.pdf",
            "x",
            b"x",
            "application/pdf",
            "attachment; filename=\"_ rates.pdf\"; filename*=UTF-8''%E2%82%AC%20rates.pdf",
        ),
        (
            'Content-Type: text/x; name="../../etc/pass\\"wd\\\\"\nContent-Transfer-Encoding: base64',
            "eA==",
            b"x",
            "text/x",
            None,
        ),
        (
            "Content-Type: image/png; name==?utf-8?B?w6QuZXhl?=\nContent-Transfer-Encoding: base64",
            "ey!JhIj\noxfQ",
            b'{"a":1}',
            "image/png",
            "attachment; filename=\"_.exe\"; filename*=UTF-8''%C3%A4.exe",
        ),
        ("Content-Type: image/gif\nContent-Transfer-Encoding: base64", "R0lGOD", b"GIF8", "image/gif", None),
        ('Content-Type: a"b<c>/d\nContent-Disposition: attachment', "x", b"x", "application/octet-stream", None),
        (
            "Content-Type: text/csv\nContent-Disposition: attachment; filename*0*=''a%0D%0AX-Bad:%20; filename*1=y.csv",
            "x",
            b"x",
            "text/csv",
            None,
        ),
    ],
)
def test_hostile_and_broken_parts(
    box: Mailbox, headers: str, body: str, content: bytes, media_type: str, disposition: str | None
) -> None:
    (message,) = box.got(part(headers, body))
    (listed,) = message["attachments"]
    answer = box.ask_for(message["id"], f"attachments/{listed['id']}")
    assert (answer.content, answer.headers["content-type"]) == (content, media_type)
    assert "x-bad" not in answer.headers
    assert answer.headers["content-disposition"].isascii()
    if disposition is not None:
        assert answer.headers["content-disposition"] == disposition


def test_what_is_not_there(box: Mailbox) -> None:
    (message,) = box.got(with_file(b"x"))
    for rest in ("raw", "body", f"attachments/{message['attachments'][0]['id']}"):
        assert box.ask_for("msg_none", rest).refusal == (404, "not_found")
    assert box.ask_for(message["id"], "attachments/att_none").refusal == (404, "not_found")


# --- sources ---


def test_a_source_is_the_message_byte_for_byte(box: Mailbox) -> None:
    sources = [
        b"Subject: a\n\nb\n",
        part("Content-Type: x/y", "\xff\x01"),
        with_file(noise(2 * MIB)),
        b"\xff\xfe no header",
    ]
    for source in sources:
        (message,) = box.got(source)
        answer = box.ask_for(message["id"], "raw")
        assert (answer.content, answer.headers["content-type"]) == (_crlf(source), "message/rfc822")
        assert answer.headers["content-disposition"] == f'attachment; filename="{message["id"]}.eml"'


def test_a_message_that_is_not_where_it_was_is_409_and_looked_for(box: Mailbox) -> None:
    (message,) = box.got(with_file(noise(1000)))
    box.client.appliance.sync.stop()
    box.server.doveadm("expunge", "-u", box.user, "mailbox", "INBOX", "all")
    box.server.deliver(box.user, b"Subject: another\n\n")
    for rest in ("raw", f"attachments/{message['attachments'][0]['id']}"):
        assert box.ask_for(message["id"], rest).refusal == (409, "sync_required")


def test_without_the_server_what_is_kept_is_still_there(box: Mailbox) -> None:
    (kept,) = box.got(with_file(noise(1000)))
    (other,) = box.got(with_file(noise(1001)))
    file, missing = (f"attachments/{message['attachments'][0]['id']}" for message in (kept, other))
    assert box.ask_for(kept["id"], file).content == noise(1000)
    with box.client.appliance.store.database.transaction():
        box.client.appliance.store.database.change(
            "UPDATE accounts SET connection = replace(connection, '127.0.0.1', '127.0.0.2')"
        )
    box.client.appliance.connections.drop(box.id)
    assert box.ask_for(kept["id"], file).content == noise(1000)
    assert box.ask_for(other["id"], missing).refusal == (503, "provider_unavailable")


def test_two_at_once_fetch_once(box: Mailbox) -> None:
    (message,) = box.got(with_file(noise(2 * MIB)))
    file = f"attachments/{message['attachments'][0]['id']}"
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: box.ask_for(message["id"], file).content, range(3)))
    assert answers == [noise(2 * MIB)] * 3
    parts = box.client.appliance.store.database.rows("SELECT part, size FROM cached_parts")
    assert len(parts) == len(set(parts))


def test_our_copy_of_what_was_sent_is_there_before_it_is_filed(
    checked_client: CheckedClient, filled: FilledMailbox
) -> None:
    store = checked_client.appliance.store
    box, eve = Address(email="box@example.org"), Address(email="eve@example.test")
    file = OutgoingAttachment("file.bin", "application/octet-stream", noise(5000))
    message = OutgoingMessage(sender=box, to=(box,), bcc=(eve,), subject="s", text="t", attachments=(file,))
    composed = compose(message, message_id="<a@example.org>", date=datetime(2026, 1, 2, tzinfo=UTC))
    new = NewDelivery(filled.id, "ses_1", checked_client.member["id"], "key", "hash", "send", composed, None)
    operation = store.deliveries.accept(new).delivery.operation_id
    source = with_bcc(composed.wire, composed.bcc_header).read()
    sent = store.folders.find(filled.id, "sent")
    assert sent is not None
    copy = FetchedMessage(0, frozenset({"\\Seen"}), datetime(2026, 1, 2, tzinfo=UTC), len(source), source)
    store.deliveries.succeed(operation, (sent, copy, parse_message(source)), reply_code=250)
    (listed,) = checked_client.ask("GET", f"/accounts/{filled.id}/messages?folder=sent").data["items"]
    path = f"/accounts/{filled.id}/messages/{listed['id']}"
    assert checked_client.ask("GET", f"{path}/raw").content == source
    file_path = f"{path}/attachments/{listed['attachments'][0]['id']}"
    assert checked_client.ask("GET", file_path).content == noise(5000)


# --- bodies ---


LEFT_OUT = "Hidden text was removed: 1 passage (display 1)."


def body(client: CheckedClient, mailbox: FilledMailbox, message_id: str, query: str = "", *warnings: str) -> Any:
    answer = client.ask("GET", f"/accounts/{mailbox.id}/messages/{message_id}/body{query}")
    assert answer.warnings == list(warnings)
    return answer.data


TEXT = b"Content-Type: text/plain; charset=utf-8\n\n1 < 2 & *so* on"
HTML = b"Content-Type: text/html\n\n<style>p{}</style><p>Hi <b>you</b></p><p hidden>no</p>"
BOTH = b"Content-Type: multipart/alternative; boundary=b\n\n--b\n" + TEXT + b"\n--b\n" + HTML + b"\n--b--\n"
BLANK = b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n--b\n" + HTML + b"\n--b--\n"


@pytest.mark.parametrize(
    ("source", "form", "content"),
    [
        (TEXT, "text", "1 < 2 & *so* on"),
        (TEXT, "html", "<pre>1 &lt; 2 &amp; *so* on</pre>"),
        (TEXT, "markdown", "1 < 2 & *so* on"),
        (HTML, "text", "Hi you"),
        (HTML, "html", "<style>p{}</style><p>Hi <b>you</b></p><p hidden>no</p>"),
        (HTML, "html&visibleOnly=true", "<p>Hi <b>you</b></p>"),
        (HTML, "markdown", "Hi **you**"),
        (TEXT, "html&visibleOnly=true", "<pre>1 &lt; 2 &amp; *so* on</pre>"),
        (BOTH, "text", "1 < 2 & *so* on"),
        (BOTH, "markdown", "Hi **you**"),
        (BLANK, "text", "Hi you"),
        (b"Content-Type: image/png\n\nx", "text", ""),
        (b"Content-Type: image/png\n\nx", "html", ""),
        (b"Content-Type: image/png\n\nx", "markdown", ""),
    ],
)
def test_the_forms_of_a_body(
    checked_client: CheckedClient, filled: FilledMailbox, source: bytes, form: str, content: str
) -> None:
    (message_id,) = filled.deliver(source)
    warnings = [LEFT_OUT] if "Hi" in content and "no" not in content else []
    warnings += [DIFFERENCE_WARNING] if source is BOTH and form == "text" else []
    found = body(checked_client, filled, message_id, f"?format={form}", *warnings)
    assert found == {
        "format": form.partition("&")[0],
        "content": content,
        "offset": 0,
        "nextOffset": None,
        "totalChars": len(content),
    }


def test_style_that_cannot_be_judged_is_a_warning_of_its_own(
    checked_client: CheckedClient, filled: FilledMailbox
) -> None:
    html = b"<p style='color:oklch(1 0 0)'>Kept</p><p hidden>no</p>"
    (message_id,) = filled.deliver(b"Content-Type: text/html\n\n" + html)
    told = "Some text may be hidden: the appliance cannot judge color: oklch() (1)."
    for form in ("text", "markdown", "html&visibleOnly=true"):
        found = body(checked_client, filled, message_id, f"?format={form}", LEFT_OUT, told)
        assert "Kept" in found["content"]
    body(checked_client, filled, message_id, "?format=html")


def test_characters_that_are_not_seen_are_left_out(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    text = "a\u200bb\U000e0041\u202ec"
    (message_id,) = filled.deliver(b"Content-Type: text/plain; charset=utf-8\n\n" + text.encode())
    told = "Hidden text was removed: 3 invisible characters."
    assert body(checked_client, filled, message_id, "", told)["content"] == "abc"
    assert body(checked_client, filled, message_id, "?format=html")["content"] == f"<pre>{text}</pre>"
    assert (
        body(checked_client, filled, message_id, "?format=html&visibleOnly=true", told)["content"] == "<pre>abc</pre>"
    )


def test_pages_of_a_body_hold_every_character_once(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    text = "aä€😀\n" * 12_345
    (message_id,) = filled.deliver(b"Content-Type: text/plain; charset=utf-8\n\n" + text.encode())
    text = text.rstrip("\n")
    found = ""
    offset: int | None = 0
    while offset is not None:
        page = body(checked_client, filled, message_id, f"?offset={offset}" if offset else "")
        assert (page["offset"], page["totalChars"], len(page["content"]) <= 20_000) == (offset, len(text), True)
        found, offset = found + page["content"], page["nextOffset"]
    assert found == text
    whole = body(checked_client, filled, message_id, "?limit=1000000")
    assert (whole["content"], whole["nextOffset"]) == (text, None)
    assert body(checked_client, filled, message_id, "?limit=1&offset=3")["content"] == "😀"
    for beyond in (len(text), len(text) + 1, 1 << 31):
        page = body(checked_client, filled, message_id, f"?offset={beyond}")
        assert (page["content"], page["offset"], page["nextOffset"]) == ("", beyond, None)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("format=pdf", "query:format"),
        ("offset=-1", "query:offset"),
        ("offset=x", "query:offset"),
        ("limit=0", "query:limit"),
        ("limit=1000001", "query:limit"),
        ("bodyFormat=text", "query:bodyFormat"),
    ],
)
def test_what_is_wrong_is_named(checked_client: CheckedClient, filled: FilledMailbox, query: str, place: str) -> None:
    (message_id,) = filled.deliver(TEXT)
    answer = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{message_id}/body?{query}")
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])


def header_only(box: Mailbox, message_id: str) -> None:
    """Let a message look as it does while its body has not been fetched."""
    store = box.client.appliance.store
    with store.database.transaction():
        number = store.database.value("SELECT number FROM messages WHERE id = ?", (message_id,))
        store.database.change("UPDATE messages SET body = 0, attachments = '[]' WHERE number = ?", (number,))
        store.database.change("UPDATE bodies SET text = NULL, html = NULL WHERE number = ?", (number,))


@pytest.mark.parametrize("size", [100, 400_000])
def test_a_body_that_is_not_here_yet_is_fetched(box: Mailbox, size: int) -> None:
    (message,) = box.got(with_file(noise(size), text="The text"))
    box.client.appliance.sync.stop()
    header_only(box, message["id"])
    assert box.ask_for(message["id"], "body").data["content"] == "The text"
    assert box.attachments(box.get(message["id"])) == {"file.bin": noise(size)}
    header_only(box, message["id"])
    assert box.get(message["id"])["body"] == {"text": "The text"}


def test_a_body_that_cannot_be_had_now_is_a_warning(box: Mailbox) -> None:
    (message,) = box.got(with_file(b"x"))
    box.client.appliance.sync.stop()
    header_only(box, message["id"])
    box.server.doveadm("expunge", "-u", box.user, "mailbox", "INBOX", "all")
    for rest in ("", "/body"):
        answer = box.client.ask("GET", f"/accounts/{box.id}/messages/{message['id']}{rest}")
        told = [warning for warning in answer.warnings if warning != FIRST_TIME]
        assert (answer.status, ["not been fetched yet" in warning for warning in told]) == (200, [True])


def _crlf(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
