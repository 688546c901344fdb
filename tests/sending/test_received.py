"""Messages as they arrive, byte for byte and field by field, read by two parsers that share no code with the writer."""

import email
from collections.abc import Iterator, Sequence
from email.message import Message

import pytest
from imapclient import IMAPClient
from imapclient.response_types import Envelope as ImapEnvelope

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.messages import OutgoingMessage
from mailbox_appliance.remote.smtp import SmtpConnection
from tests.mail.test_compose import DATE, decoded, filename, lines, people
from tests.sending.received import LETTERS, File, Letter, Mail, answer, message_id, passed_on, source
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD
from tests.servers.scripted_smtp import ScriptedSmtp

NAMES = [letter.name for letter in LETTERS]


def submit(port: int, user: str, mails: Sequence[tuple[bytes, tuple[str, ...]]]) -> None:
    """Submit these messages in order over one connection."""
    submission = SmtpConnection.open(Endpoint("127.0.0.1", port, "none", user, PASSWORD), ca_file="", timeout=10)
    for wire, recipients in mails:
        assert all(reply.code == 250 for reply in submission.send_envelope(user, recipients, size=len(wire)))
        assert submission.start_data().code == 354
        submission.send_body(wire)
        assert submission.send_final_dot(10).code == 250
    submission.quit()


@pytest.fixture(scope="module")
def handed() -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """Return what a server received of each message: the bytes, and its recipients."""
    server = ScriptedSmtp().start()
    try:
        submit(
            server.port,
            server.user,
            [(each.composed.wire.read(), each.composed.envelope.recipients) for each in LETTERS],
        )
        got = [(message.source, message.recipients) for message in server.messages]
    finally:
        server.stop()
    return dict(zip(NAMES, got, strict=True))


@pytest.fixture(scope="module")
def delivered(mail_server: MailServer) -> str:
    """Return a mailbox to which Postfix has delivered every message."""
    user = mail_server.fresh_user()
    submit(mail_server.submission_port, user, [(each.composed.wire.read(), (user,)) for each in LETTERS])
    mail_server.wait_for_messages(user, len(LETTERS), timeout=30)
    return user


def test_there_are_many() -> None:
    assert len(LETTERS) >= 60
    assert len(set(NAMES)) == len({letter.composed.message_id for letter in LETTERS}) == len(LETTERS)


@pytest.mark.parametrize("letter", LETTERS, ids=NAMES)
def test_what_a_server_receives(letter: Letter, handed: dict[str, tuple[bytes, tuple[str, ...]]]) -> None:
    received, recipients = handed[letter.name]
    assert received == letter.composed.wire.read()
    assert sorted(recipients) == sorted(dict.fromkeys(letter.recipients))
    read = email.message_from_bytes(received)
    assert [part.defects for part in read.walk() if part.defects] == []
    check_header(read, letter)
    check_body(read, letter.mail)


def check_header(read: Message, letter: Letter) -> None:
    mail = letter.mail
    for name, wanted in (("From", (mail.sender,)), ("To", mail.to), ("Cc", mail.cc)):
        assert [f"{shown}|{address}" if shown else address for shown, address in people(read, name)] == list(wanted)
    assert decoded(read.get("Subject", "")) == mail.subject
    assert (read["Date"], read["Message-ID"]) == ("Sun, 01 Mar 2026 12:30:05 +0100", letter.composed.message_id)
    assert read["In-Reply-To"] == mail.in_reply_to
    assert tuple((read["References"] or "").split()) == mail.references
    usual = {"from", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references", "mime-version"}
    content = {"content-type", "content-transfer-encoding"}
    assert {name: value for name, value in read.items() if name.lower() not in usual | content} == mail.others
    assert len(read.keys()) == len({name.lower() for name in read})


def check_body(read: Message, mail: Mail) -> None:
    texts = [part for part in parts(read) if not _is_file(part)]
    plain = [_text(part) for part in texts if part.get_content_type() == "text/plain"]
    html = [_text(part) for part in texts if part.get_content_type() == "text/html"]
    assert [each.rstrip("\r\n") for each in plain] == ([lines(mail.text).rstrip("\r\n")] if plain or mail.text else [])
    if mail.holds:
        assert [piece for piece in mail.holds if lines(piece).rstrip() not in html[0]] == []
    else:
        assert html == ([lines(mail.html)] if mail.html is not None else [])
    assert [_file(part) for part in parts(read) if _is_file(part)] == list(mail.files)


def parts(read: Message) -> Iterator[Message]:
    """Yield the parts that have content; an attached message is one."""
    if read.get_content_maintype() != "multipart":
        yield read
        return
    for part in read.get_payload():
        assert isinstance(part, Message)
        yield from parts(part)


def _is_file(part: Message) -> bool:
    return part.get_content_disposition() is not None or part.get_content_maintype() != "text"


def _file(part: Message) -> File:
    if part.is_multipart():  # an attached message
        inner = part.get_payload(0)
        assert isinstance(inner, Message)
        content: object = inner.as_bytes().replace(b"\n", b"\r\n")
    else:
        content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    content_id = (part["Content-ID"] or "").strip("<>") or None
    inline = part.get_content_disposition() == "inline"
    return File(filename(part) or part.get_filename() or "", part.get_content_type(), content, content_id, inline)


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode(part.get_content_charset("ascii"))


# --- through Postfix into Dovecot ---


def test_nothing_changes_on_the_way(mail_server: MailServer, delivered: str) -> None:
    arrived = mail_server.messages(delivered)
    by_id = {email.message_from_bytes(each)["Message-ID"]: each for each in arrived}
    for letter in LETTERS:
        assert by_id[letter.composed.message_id].endswith(b"\r\n" + letter.composed.wire.read()), letter.name


def test_an_imap_server_reads_the_same(mail_server: MailServer, delivered: str) -> None:
    with IMAPClient(mail_server.host, port=mail_server.imap_port, ssl=False) as client:
        client.login(delivered, PASSWORD)
        client.select_folder("INBOX", readonly=True)
        found: list[ImapEnvelope] = [each[b"ENVELOPE"] for each in client.fetch(client.search(), ["ENVELOPE"]).values()]
    by_id = {each.message_id.decode(): each for each in found}
    for letter in LETTERS:
        read, mail = by_id[letter.composed.message_id], letter.mail
        for given, wanted in ((read.from_, (mail.sender,)), (read.to, mail.to), (read.cc, mail.cc)):
            assert [_shown(each) for each in given or () if each.host] == list(wanted), letter.name
        assert decoded((read.subject or b"").decode()) == mail.subject, letter.name
        assert (read.in_reply_to or b"").decode() == (mail.in_reply_to or ""), letter.name
        assert read.bcc is None


def _shown(address: object) -> str:
    name, mailbox, host = (getattr(address, part) for part in ("name", "mailbox", "host"))
    shown = decoded(name.decode()) if name else ""
    return f"{shown}|{mailbox.decode()}@{host.decode()}" if shown else f"{mailbox.decode()}@{host.decode()}"


# --- threads (RFC 5256) ---


def test_replies_stand_with_what_they_answer_and_a_forward_apart(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    made: dict[str, bytes] = {}

    def send(name: str, message: OutgoingMessage) -> None:
        made[name] = compose(message, message_id=message_id(name), date=DATE).wire.read()

    made["root"] = source(
        "From: Bob <bob@example.org>", "To: alice@example.com, carol@example.org", "Subject: Lunch",
        "Message-ID: <root@example.org>", "Date: Mon, 05 Jan 2026 10:00:00 +0000",
    )  # fmt: skip
    send("reply", answer(made["root"]))
    made["again"] = source(
        "From: Bob <bob@example.org>", "To: alice@example.com", "Subject: AW: Lunch", "Message-ID: <again@example.org>",
        "In-Reply-To: <reply@example.com>", "References: <root@example.org> <reply@example.com>",
        "Date: Mon, 05 Jan 2026 11:00:00 +0000",
    )  # fmt: skip
    send("to all", answer(made["again"], everybody=True))
    send("other branch", answer(made["root"], everybody=True))
    send("forward", passed_on(made["root"], "See below"))
    made["unrelated"] = source("From: x@example.org", "Subject: Lunch today", "Message-ID: <u@example.org>", DATE_LINE)
    submit(mail_server.submission_port, user, [(wire, (user,)) for wire in made.values()])
    mail_server.wait_for_messages(user, len(made))
    threads = grouped(mail_server, user, "REFS")
    names = {email.message_from_bytes(wire)["Message-ID"]: name for name, wire in made.items()}
    replies = ["again", "other branch", "reply", "root", "to all"]
    assert sorted(sorted(names[each] for each in thread) for thread in threads) == [replies, ["forward"], ["unrelated"]]
    # REFERENCES also joins messages with the same base subject (RFC 5256 3, step 5), so also the forward of the first
    # one.
    by_subject = grouped(mail_server, user, "REFERENCES")
    assert sorted(sorted(names[each] for each in thread) for thread in by_subject) == [
        sorted([*replies, "forward"]),
        ["unrelated"],
    ]


DATE_LINE = "Date: Mon, 05 Jan 2026 12:00:00 +0000"


def grouped(mail_server: MailServer, user: str, algorithm: str) -> list[list[str]]:
    """Return the threads of the inbox (RFC 5256 4), by the names of the messages."""
    with IMAPClient(mail_server.host, port=mail_server.imap_port, ssl=False) as client:
        client.login(user, PASSWORD)
        client.select_folder("INBOX", readonly=True)
        envelopes = client.fetch(client.search(), ["ENVELOPE"])
        names = {uid: each[b"ENVELOPE"].message_id.decode() for uid, each in envelopes.items()}
        return [sorted(names[uid] for uid in _flat(thread)) for thread in client.thread(algorithm, "ALL", "UTF-8")]


def _flat(thread: object) -> Iterator[int]:
    if isinstance(thread, int):
        yield thread
    elif isinstance(thread, tuple):
        for each in thread:
            yield from _flat(each)
