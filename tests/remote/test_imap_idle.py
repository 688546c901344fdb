"""IDLE in steps, as a selector drives it: lines in pieces, news before and after it, connections that end, TLS."""

import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from mailbox_appliance.model.accounts import Endpoint, Security
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from tests.remote.odd_server import Peer, examined
from tests.servers.dovecot import MailServer

SOURCE = b"Subject: one\r\n\r\nbody\r\n"


def idle(peer: Peer, *says: str) -> None:
    """Play a server that says this during one IDLE."""
    tag, _, command = peer.hear().partition(" ")
    assert command == "IDLE"
    peer.say(*says)
    assert peer.hear() == "DONE"
    peer.say(f"{tag} OK done")


def hear_to_the_end(mailbox: ImapMailbox) -> None:
    while not mailbox.poll_idle():
        wait(mailbox)


def wait(mailbox: ImapMailbox) -> None:
    """Until the socket is readable, as a selector says."""
    with selectors.DefaultSelector() as selector:
        selector.register(mailbox.socket, selectors.EVENT_READ)
        assert selector.select(10)


@pytest.mark.parametrize(("security", "port"), [("none", "imap_port"), ("tls", "imaps_port")])
def test_a_selector_sees_new_mail(mail_server: MailServer, security: Security, port: str) -> None:
    user = mail_server.fresh_user()
    endpoint = Endpoint("localhost", getattr(mail_server, port), security, user, "secret")
    with ImapMailbox.open(endpoint, ca_file=str(mail_server.ca_file), timeout=10) as mailbox:
        mailbox.examine("INBOX")
        assert not mailbox.begin_idle()
        assert not mailbox.poll_idle()
        mail_server.deliver(user, SOURCE)
        changed = False
        while not changed:
            wait(mailbox)
            changed = mailbox.poll_idle()
        assert mailbox.end_idle()
        assert mailbox.examine("INBOX").exists == 1
        assert not mailbox.begin_idle()
        assert not mailbox.end_idle()


def test_what_a_command_was_told_counts_as_well() -> None:
    """A server tells of a change once: in IDLE it does not say again what stood in the answer to FETCH."""

    def part(peer: Peer) -> None:
        peer.answer("* 3 EXISTS", "* 1 FETCH (UID 4 FLAGS ())")
        idle(peer, "+ idling")
        peer.answer("* 3 EXISTS")
        peer.reply("+ idling")

    with examined(part) as mailbox:
        mailbox.fetch_flags()
        assert mailbox.begin_idle()
        assert mailbox.end_idle()
        mailbox.examine("INBOX")
        assert not mailbox.begin_idle()


@pytest.mark.parametrize(
    ("says", "changed"),
    [
        (["+ idling", "* 3 EXISTS"], True),
        (["+ idling", "* OK Still here", "* 1 FETCH (FLAGS (\\Seen))"], True),
        (["* 3 EXISTS", "+ idling"], True),
        (["+ idling", "* OK Still here"], False),
        (["+ "], False),
    ],
)
def test_what_lines_mean(says: list[str], changed: bool) -> None:
    with examined(lambda peer: idle(peer, *says)) as mailbox:
        mailbox.begin_idle()
        assert mailbox.end_idle() is changed


def test_a_connection_that_waits_can_be_cut(mail_server: MailServer) -> None:
    endpoint = Endpoint("localhost", mail_server.imaps_port, "tls", mail_server.fresh_user(), "secret")
    cuts: list[Callable[[], None]] = []
    ca_file = str(mail_server.ca_file)
    with ImapMailbox.open(endpoint, ca_file=ca_file, timeout=10, on_connected=cuts.append) as mailbox:
        mailbox.examine("INBOX")
        mailbox.begin_idle()
        threading.Timer(0.1, cuts[0]).start()
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "disconnected"):
            hear_to_the_end(mailbox)


def test_many_changes_at_once_are_none() -> None:
    changes = [f"* {number} FETCH (FLAGS (\\Seen))" for number in range(1, 30_000)]
    with examined(lambda peer: idle(peer, "+ idling", *changes)) as mailbox:
        mailbox.begin_idle()
        hear_to_the_end(mailbox)
        assert mailbox.end_idle()


def test_lines_that_come_in_pieces() -> None:
    steps = threading.Semaphore(0)

    def part(peer: Peer) -> None:
        tag = peer.hear().split(" ")[0]
        for says in (b"+ idl", b"ing\r\n* OK Still", b" here\r\n* 3 EXI", b"STS\r\n* 4 EX"):
            peer.say(says)
            assert steps.acquire(timeout=10) or b"+" in says
        peer.say(b"ISTS\r\n")
        assert peer.hear() == "DONE"
        peer.say(f"{tag} OK done")

    with examined(part) as mailbox:
        steps.release()
        assert not mailbox.begin_idle()
        steps.release()
        for expected in (False, True):
            wait(mailbox)
            assert mailbox.poll_idle() is expected
            steps.release()
        assert mailbox.end_idle()


def test_bytes_that_tls_has_already_decrypted(mail_server: MailServer) -> None:
    """select() does not show them."""
    user = mail_server.fresh_user()
    endpoint = Endpoint("localhost", mail_server.imaps_port, "tls", user, "secret")
    with ImapMailbox.open(endpoint, ca_file=str(mail_server.ca_file), timeout=10) as mailbox:
        sock = mailbox.socket
        assert isinstance(sock, ssl.SSLSocket)
        sock.sendall(b"x NOOP\r\ny NOOP\r\n")
        sock.settimeout(10)
        assert sock.recv(1) == b"x"
        assert sock.pending()
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "malformed"):  # nothing that we asked for
            mailbox.poll_idle()


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (b"* BYE shutting down\r\n", "disconnected"),
        (b"", "disconnected"),
        (b"* OK still he", "disconnected"),
        (b"rubbish\r\n", "malformed"),
        (b"* 1 " + b"x" * (1 << 20), "malformed"),
        (b"+\r\n" * 30_000, "malformed"),  # talk without an end
        (b"* OK Still here\r\n" * 30_000, "malformed"),
    ],
)
def test_an_end_is_noticed(says: bytes, kind: str) -> None:
    def part(peer: Peer) -> None:
        peer.hear()
        peer.say("+ idling", says)
        with suppress(OSError):  # the client has ended the connection already, as it may after malformed data
            peer.connection.shutdown(socket.SHUT_WR)

    with examined(part) as mailbox:
        mailbox.begin_idle()
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == kind):
            hear_to_the_end(mailbox)
        with pytest.raises(RemoteFault):
            mailbox.end_idle()


def test_news_with_a_literal_wait_for_the_end_of_idle() -> None:
    def part(peer: Peer) -> None:
        tag = peer.hear().split(" ")[0]
        peer.say("+ idling", b"* 1 FETCH (BODY[] {100}\r\n* BYE")
        assert peer.hear() == "DONE"
        peer.say(b"x" * 95 + b")\r\n", f"{tag} OK done")
        assert peer.answer("* 0 EXISTS").startswith("EXAMINE")

    with examined(part) as mailbox:
        mailbox.begin_idle()
        hear_to_the_end(mailbox)
        assert mailbox.end_idle()
        assert mailbox.examine("a").exists == 0


def test_idle_that_is_refused_leaves_the_connection() -> None:
    def part(peer: Peer) -> None:
        peer.answer(status="NO not now")
        peer.answer("* 5 EXISTS")

    with examined(part) as mailbox:
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            mailbox.begin_idle()
        assert mailbox.examine("INBOX").exists == 5
