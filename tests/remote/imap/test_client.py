"""A mailbox over IMAP: against real Dovecot, and against servers that do not behave."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from mailbox_appliance.model.accounts import Endpoint, Security
from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox, make_folder
from tests.remote.odd_server import Peer, examined, odd_server, talking
from tests.servers.dovecot import MailServer

SOURCE = b"Message-ID: <one@example.test>\r\nSubject: one\r\n\r\nbody\r\n"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def user(mail_server: MailServer) -> str:
    return mail_server.fresh_user()


@pytest.fixture
def mailbox(mail_server: MailServer, user: str) -> Iterator[ImapMailbox]:
    with opened(mail_server, user) as mailbox:
        yield mailbox


def opened(server: MailServer, user: str) -> ImapMailbox:
    return ImapMailbox.open(Endpoint("127.0.0.1", server.imap_port, "none", user, "secret"), ca_file="", timeout=10)


# --- signing in ---


@pytest.mark.parametrize(
    ("security", "port"), [("none", "imap_port"), ("starttls", "imap_port"), ("tls", "imaps_port")]
)
def test_every_way_in(mail_server: MailServer, user: str, security: Security, port: str) -> None:
    endpoint = Endpoint("localhost", getattr(mail_server, port), security, user, "secret")
    with ImapMailbox.open(endpoint, ca_file=str(mail_server.ca_file), timeout=10) as mailbox:
        assert mailbox.examine("INBOX").exists == 0
        found = mailbox.capabilities
    assert (found.labels, found.move, found.idle, found.condstore, found.qresync, found.uidplus) == (True,) * 6


@pytest.mark.parametrize(
    ("host", "port", "security", "password", "with_ca", "kind", "told"),
    [
        ("localhost", "imaps_port", "tls", "wrong", True, "login_refused", "password"),
        ("localhost", "imaps_port", "tls", 'wr"ong\\\r\nx', True, "login_refused", "password"),
        ("localhost", "imaps_port", "tls", "secret", False, "tls", "remote.ca_file"),
        ("localhost", "imap_port", "starttls", "secret", False, "tls", "remote.ca_file"),
        ("127.1", "imaps_port", "tls", "secret", True, "tls", "another name"),
        ("127.1", "imap_port", "starttls", "secret", True, "tls", "another name"),
        ("localhost", "imap_port", "tls", "secret", True, "tls", "starttls"),
        ("localhost", "smtp_port", "none", "secret", True, "malformed", "port"),
    ],
)
def test_no_way_in(
    mail_server: MailServer,
    user: str,
    host: str,
    port: str,
    security: Security,
    password: str,
    with_ca: bool,
    kind: str,
    told: str,
) -> None:
    endpoint = Endpoint(host, getattr(mail_server, port), security, user, password)
    with pytest.raises(RemoteFault) as caught:
        ImapMailbox.open(endpoint, ca_file=str(mail_server.ca_file) if with_ca else "", timeout=10)
    assert (caught.value.server, caught.value.kind) == ("imap", kind)
    assert told in caught.value.reason


def test_a_ca_file_that_is_none(mail_server: MailServer, tmp_path: object) -> None:
    endpoint = Endpoint("localhost", mail_server.imaps_port, "tls", "alice@example.test", "secret")
    with pytest.raises(RemoteFault) as caught:
        ImapMailbox.open(endpoint, ca_file=f"{tmp_path}/none.pem", timeout=10)
    assert caught.value.kind == "unreachable"
    assert f"{tmp_path}/none.pem, the file of the setting remote.ca_file, cannot be read" in caught.value.reason


def saying(line: str) -> Callable[[Peer], None]:
    def part(peer: Peer) -> None:
        peer.say(line)
        peer.until_gone()

    return part


def endless_line(peer: Peer) -> None:
    for _ in range(100):
        peer.say(b"* OK " + b"x" * 50_000)


def hangs_up_in_a_line(peer: Peer) -> None:
    peer.say(b"* OK hel")


def at_login(status: str) -> Callable[[Peer], None]:
    def part(peer: Peer) -> None:
        peer.say("* OK hello")
        peer.answer("* CAPABILITY IMAP4rev1")
        peer.answer(status=status)
        peer.until_gone()

    return part


def login_disabled(peer: Peer) -> None:
    peer.say("* OK hello")
    peer.answer("* CAPABILITY IMAP4rev1 LOGINDISABLED")
    peer.until_gone()
    assert b"secret" not in b"".join(peer.heard)


def bye_at_login(peer: Peer) -> None:
    peer.say("* OK hello")
    peer.answer("* CAPABILITY IMAP4rev1")
    peer.hear()
    peer.say("* BYE shutting down")


def drips(peer: Peer) -> None:
    peer.connection.settimeout(0.02)
    while True:
        peer.say(b"*")
        try:
            peer.connection.recv(1)
            return
        except TimeoutError:
            pass


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Peer.until_gone, "timeout"),
        (saying("* BYE [UNAVAILABLE] too many connections from 192.0.2.1"), "throttled"),
        (saying("* BYE [LIMIT] too many"), "throttled"),
        (saying("HTTP/1.1 400 Bad Request"), "malformed"),
        (endless_line, "malformed"),
        (hangs_up_in_a_line, "disconnected"),
        (at_login("NO [LIMIT] Too many logins"), "throttled"),
        (at_login("NO [UNAVAILABLE] backend down"), "refused"),
        (login_disabled, "login_refused"),
        (bye_at_login, "disconnected"),
        (drips, "timeout"),
    ],
)
def test_odd_servers_at_the_door(part: Callable[[Peer], None], kind: str) -> None:
    began = time.monotonic()
    timeout = 0.3 if kind == "timeout" else 60
    with odd_server(part) as port, pytest.raises(RemoteFault) as caught:
        ImapMailbox.open(Endpoint("127.0.0.1", port, "none", "alice", "secret"), ca_file="", timeout=timeout)
    assert caught.value.kind == kind
    assert "192.0.2.1" not in caught.value.reason + str(caught.value)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("greeting", ["* OK hello", "* PREAUTH you are in"])
def test_starttls_is_not_optional(greeting: str) -> None:
    def part(peer: Peer) -> None:
        peer.say(greeting)
        peer.answer("* CAPABILITY IMAP4rev1" + (" STARTTLS" if "PREAUTH" in greeting else ""))
        peer.until_gone()
        assert b"secret" not in b"".join(peer.heard)

    with odd_server(part) as port, pytest.raises(RemoteFault) as caught:
        ImapMailbox.open(Endpoint("127.0.0.1", port, "starttls", "alice", "secret"), ca_file="", timeout=5)
    assert (caught.value.kind, "STARTTLS" in caught.value.reason) == ("tls", True)


def test_a_user_name_cannot_end_the_command() -> None:
    def part(peer: Peer) -> None:
        peer.say("* OK hello")
        peer.answer("* CAPABILITY IMAP4rev1")
        assert peer.answer(status="NO no") == 'LOGIN "a b\\"\\\\" "secret"'
        peer.until_gone()

    with odd_server(part) as port, pytest.raises(RemoteFault, check=lambda f: f.kind == "login_refused"):
        ImapMailbox.open(Endpoint("127.0.0.1", port, "none", 'a b"\\', "secret"), ca_file="", timeout=5)


# --- folders and messages ---


def test_folders_have_their_names_and_uses(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    mail_server.make_folder(user, "Bücher/R&D")
    folders = {folder.path: folder for folder in mailbox.list_folders()}
    assert folders.keys() >= {"INBOX", "Sent", "Drafts", "Trash", "Junk", "Archive", "Bücher/R&D"}
    assert "\\sent" in folders["Sent"].attributes
    assert folders["Bücher/R&D"].delimiter == "/"
    assert mailbox.examine("Bücher/R&D").exists == 0


def test_a_message_goes_in_and_comes_out(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    uid = mailbox.append("Sent", SOURCE, flags=frozenset({"\\Seen", "$Mine"}), at=AT)
    assert uid is not None
    assert mailbox.search_message_id("Sent", "<one@example.test>") == (uid,)
    assert mailbox.search_message_id("Sent", "<two@example.test>") == ()
    [message] = mailbox.fetch_messages([uid])
    assert (message.uid, message.source, message.size) == (uid, SOURCE, len(SOURCE))
    assert message.flags == {"\\Seen", "$Mine"}
    assert message.internal_date == AT
    assert mail_server.messages(user, "Sent") == [SOURCE]


def test_reading_marks_nothing(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    mail_server.deliver(user, SOURCE)
    state = mailbox.examine("INBOX")
    assert (state.exists, state.uidnext) == (1, 2)
    assert len(list(mailbox.fetch_messages([1]))) == 1
    assert mailbox.fetch_flags() == {1: frozenset()}
    assert mailbox.examine("INBOX") == state


def test_flags_raise_the_position(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    mail_server.deliver(user, SOURCE, SOURCE, SOURCE)
    before = mailbox.examine("INBOX")
    mailbox.store_flags("INBOX", [1, 3], add=frozenset({"\\Answered", "$Forwarded"}), remove=frozenset())
    after = mailbox.examine("INBOX")
    assert mailbox.fetch_flags() == {1: {"\\Answered", "$Forwarded"}, 2: set(), 3: {"\\Answered", "$Forwarded"}}
    assert mailbox.fetch_flags([2, 3, 99]) == {2: set(), 3: {"\\Answered", "$Forwarded"}}
    assert after.highestmodseq is not None
    assert before.highestmodseq is not None
    assert after.highestmodseq > before.highestmodseq


def test_many_messages_come_in_the_order_asked(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    sources = [b"Subject: %d\r\n\r\n" % number + b"x" * 10 * number + b"\r\n" for number in range(120)]
    mail_server.deliver(user, *sources)
    mailbox.examine("INBOX")
    uids = sorted(mailbox.fetch_flags(), reverse=True)
    assert [message.source for message in mailbox.fetch_messages([*uids, 999])] == sources[::-1]


def test_a_folder_is_made_once(mailbox: ImapMailbox) -> None:
    mailbox.create_folder("Gesendete Objekte/Übrige")
    mailbox.create_folder("Gesendete Objekte/Übrige")
    assert mailbox.examine("Gesendete Objekte/Übrige").exists == 0


def test_what_the_server_refuses_does_not_break_the_connection(mailbox: ImapMailbox) -> None:
    for refused in (
        lambda: mailbox.examine("No such folder"),
        lambda: mailbox.append("No such folder", SOURCE, flags=frozenset(), at=AT),
        lambda: mailbox.search_message_id("No such folder", "<x@y>"),
    ):
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            refused()
    assert mailbox.examine("INBOX").exists == 0


SIZES = ("* 1 FETCH (UID 4 RFC822.SIZE 3)", "* 2 FETCH (UID 5 RFC822.SIZE 3)")
BODIES = tuple(f"* {uid - 3} FETCH (UID {uid} FLAGS () RFC822.SIZE 3 BODY[] {{3}}\r\ntwo)" for uid in (4, 5))
BROKEN, DOWN = "NO [SERVERBUG] cannot read", "NO [UNAVAILABLE] backend down"


@pytest.mark.parametrize(
    ("uids", "answers", "outcome"),
    [
        ([4, 5], [SIZES, BROKEN, BROKEN, BODIES[1:]], [5]),
        ([4, 5], ["NO cannot read", "NO cannot read", SIZES[1:], BODIES[1:]], [5]),
        ([4], [SIZES[:1], "NO cannot read"], []),
        # What is refused of all messages, or by such a code: it is not the messages that are at fault.
        ([4, 5], [SIZES, *["NO not now"] * 3], "refused"),
        ([4, 5], [SIZES, *[BROKEN] * 3], "refused"),
        ([4, 5], [SIZES, "NO cannot read", BODIES[:1], DOWN], "refused"),
        ([4], [SIZES[:1], DOWN], "refused"),
        ([4], [SIZES[:1], BROKEN], "refused"),
        ([4], [SIZES[:1], "NO [INUSE] busy"], "throttled"),
        ([4], [SIZES[:1], "NO [LIMIT] slower"], "throttled"),
    ],
)
def test_messages_that_are_refused(
    uids: list[int], answers: list[tuple[str, ...] | str], outcome: list[int] | str
) -> None:
    def part(peer: Peer) -> None:
        for said in answers:
            peer.answer(status=said) if isinstance(said, str) else peer.answer(*said)

    with examined(part) as mailbox:
        if isinstance(outcome, list):
            assert [message.uid for message in mailbox.fetch_messages(uids)] == outcome
            return
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == outcome):
            list(mailbox.fetch_messages(uids))


def test_a_message_whose_header_is_refused_is_told_without_it() -> None:
    def part(peer: Peer) -> None:
        peer.answer(status="NO cannot read")
        peer.answer(status="NO [SERVERBUG] cannot read")
        peer.answer("* 2 FETCH (UID 5 FLAGS () RFC822.SIZE 3 BODY[HEADER.FIELDS (DATE)]<0> {3}", b"two", b")\r\n")
        command = peer.answer('* 1 FETCH (UID 4 FLAGS (a) INTERNALDATE "04-Mar-2026 05:06:07 +0000" RFC822.SIZE 9)')
        assert command == "UID FETCH 4 (UID FLAGS INTERNALDATE RFC822.SIZE)"

    with examined(part) as mailbox:
        found = list(mailbox.fetch_headers([4, 5]))
    assert found[0] == FetchedMessage(4, frozenset({"a"}), AT, 9, b"")
    assert [message.source for message in found] == [b"", b"two"]


def test_a_huge_message_is_cut() -> None:
    def part(peer: Peer) -> None:
        peer.answer("* 1 FETCH (UID 4 RFC822.SIZE 3)", "* 2 FETCH (UID 5 RFC822.SIZE 70000000)")
        assert "BODY.PEEK[]<0.1048576>" in peer.answer(
            "* 2 FETCH (UID 5 FLAGS () RFC822.SIZE 70000000 BODY[]<0> {3}", b"two", b")\r\n"
        )
        assert "BODY.PEEK[])" in peer.answer("* 1 FETCH (UID 4 FLAGS () RFC822.SIZE 3 BODY[] {3}", b"one", b")\r\n")

    with examined(part) as mailbox:
        found = list(mailbox.fetch_messages([5, 4]))
    assert [(message.source, message.size) for message in found] == [(b"two", 70_000_000), (b"one", 3)]


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ([b"* 1 FETCH (UID 4 FLAGS () BODY[] {99999999999}\r\n"], "malformed"),
        ([b"* 1 FETCH (UID 4 FLAGS () BODY[] {30}\r\nshort"], "timeout"),
        ([b"* 1 FETCH (UID 4 FLAGS (\r\n", b"A OK\r\n"], "malformed"),
        ([b"* BYE gone\r\n"], "disconnected"),
    ],
)
def test_bad_answers_to_fetch(says: list[bytes], kind: str) -> None:
    def part(peer: Peer) -> None:
        peer.answer("* 1 FETCH (UID 4 RFC822.SIZE 3)")
        peer.hear()
        peer.say(*says)
        if kind == "disconnected":
            peer.connection.shutdown(socket.SHUT_RDWR)

    timeout = 0.3 if kind == "timeout" else 60
    with examined(part, timeout) as mailbox, pytest.raises(RemoteFault) as caught:
        list(mailbox.fetch_messages([4]))
    assert caught.value.kind == kind


def test_nothing_of_the_server_is_in_a_faults_text(mailbox: ImapMailbox) -> None:
    with pytest.raises(RemoteFault) as caught:
        mailbox.examine("Secret project")
    assert not re.search("secret project", str(caught.value) + caught.value.reason, re.IGNORECASE)


# --- where a new folder is made, by what the server allows ---


@pytest.mark.parametrize(
    ("inbox", "statuses", "made"),
    [
        ('* LIST () "/" INBOX', ["OK"], "Sent"),
        ('* LIST () "." INBOX', ["NO outside of your namespace", "OK"], "INBOX.Sent"),
        ('* LIST () "/" INBOX', ["NO [ALREADYEXISTS] is there"], "Sent"),
        ('* LIST () "." INBOX', ["NO", "NO"], None),
        ("* LIST () NIL INBOX", ["NO"], None),
        ('* LIST () "/" other', ["NO"], None),
    ],
)
def test_making(inbox: str, statuses: list[str], made: str | None) -> None:
    def part(peer: Peer) -> None:
        peer.answer(inbox)
        for status in statuses:
            assert peer.answer(status=status).startswith("CREATE")
        if made is not None:
            assert peer.answer() == f'SUBSCRIBE "{made}"'

    with talking("", part) as mailbox:
        if made is not None:
            assert make_folder(mailbox, "Sent") == made
            return
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            make_folder(mailbox, "Sent")
