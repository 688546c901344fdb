"""The fault proxy cuts, refuses, hides, stalls and counts as it is told."""

import imaplib
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.imap_commands import CommandReader, Line, Literal
from tests.servers.mailboxes import PASSWORD

MESSAGE = b"Subject: hello\r\n\r\n" + b"some text\r\n" * 2000
ASKED_ANYWAY = (
    "ENABLE QRESYNC",
    "NAMESPACE",
    "IDLE",
    'LIST "" "*" RETURN (SPECIAL-USE)',
    "UID EXPUNGE 1",
    "UID MOVE 1 Trash",
    "UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1)",
    "EXAMINE INBOX (CONDSTORE)",
)
LOST = (imaplib.IMAP4.abort, OSError)


@pytest.fixture
def proxy(mail_server: MailServer) -> Iterator[FaultProxy]:
    made = FaultProxy(mail_server.imap_port).start()
    yield made
    made.stop()


@pytest.fixture
def log_in(proxy: FaultProxy, mail_server: MailServer) -> Iterator[Callable[..., imaplib.IMAP4]]:
    """Opens connections of one fresh user through the proxy."""
    user = mail_server.fresh_user()
    opened: list[imaplib.IMAP4] = []

    def log_in() -> imaplib.IMAP4:
        client = imaplib.IMAP4(proxy.host, proxy.port, timeout=5)
        opened.append(client)
        client.login(user, PASSWORD)
        return client

    yield log_in
    for client in opened:
        with suppress(OSError):
            client.shutdown()


def test_commands_are_cut_into_lines_and_literals() -> None:
    reader = CommandReader()
    pieces = [
        piece for byte in b"a NOOP\r\nb LOGIN {3+}\r\nme\n {2}\r\n\r\n x\r\n" for piece in reader.feed(bytes([byte]))
    ]
    assert b"".join(piece.data for piece in pieces) == b"a NOOP\r\nb LOGIN {3+}\r\nme\n {2}\r\n\r\n x\r\n"
    lines = [piece for piece in pieces if isinstance(piece, Line)]
    assert [(line.tag, line.is_whole, line.awaits) for line in lines] == [
        ("a", True, False),
        ("b", False, False),
        ("b", False, True),
        ("b", True, False),
    ]
    assert lines[-1].command == "LOGIN {3+}  {2}  x"
    assert b"".join(piece.data for piece in pieces if isinstance(piece, Literal)) == b"me\n\r\n"


def test_what_a_client_says_is_counted(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    client = log_in()
    client.append("INBOX", "", "", MESSAGE)
    client.select("INBOX", readonly=True)
    client.uid("FETCH", "1:*", "(FLAGS)")
    client.fetch("1", "(BODY.PEEK[])")
    assert (proxy.count("FETCH"), proxy.count("UID FETCH"), proxy.count("APPEND"), proxy.count("LOG")) == (2, 1, 1, 0)
    assert "UID FETCH 1:* (FLAGS)" in proxy.commands
    assert (proxy.accepted, proxy.connections) == (1, 1)
    client.logout()
    proxy.wait_for(lambda each: each.connections == 0)
    assert proxy.cuts == 0


def test_a_cut_before_a_command_leaves_it_undone(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    proxy.cut_at("CREATE")
    proxy.cut_at("APPEND", moment="before")
    with pytest.raises(LOST):
        log_in().create("Lost")
    with pytest.raises(LOST):
        log_in().append("INBOX", "", "", MESSAGE)
    assert (proxy.cuts, proxy.count("CREATE")) == (2, 1)
    again = log_in()
    assert again.list('""', "Lost")[1] == [None]
    assert again.select("INBOX")[1] == [b"0"]


def test_a_cut_after_a_command_has_it_done_unheard(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    proxy.cut_at("APPEND INBOX", moment="after")
    with pytest.raises(LOST):
        log_in().append("INBOX", "", "", MESSAGE)
    client = log_in()
    assert client.select("INBOX")[1] == [b"1"]
    assert client.append("INBOX", "", "", MESSAGE)[0] == "OK"


@pytest.mark.parametrize("of_client", [False, True])
def test_a_connection_ends_after_so_many_bytes(
    of_client: bool, proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]
) -> None:
    client = log_in()
    client.append("INBOX", "", "", MESSAGE)
    client.select("INBOX")
    proxy.cut_after(10_000, of_client=of_client)
    with pytest.raises(LOST):
        client.append("INBOX", "", "", MESSAGE) if of_client else client.fetch("1", "(BODY.PEEK[])")
    again = log_in()
    assert again.select("INBOX")[1] == [b"1"]
    assert again.fetch("1", "(BODY.PEEK[])")[0] == "OK"


def test_commands_are_refused_as_often_as_told(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    client = log_in()
    proxy.refuse("CREATE", "APPEND", answer="NO [LIMIT] Not now", times=1)
    assert client.create("One") == ("NO", [b"[LIMIT] Not now"])
    assert client.create("One")[0] == "OK"
    assert client.append("INBOX", "", "", MESSAGE)[0] == "NO"
    assert client.append("INBOX", "", "", MESSAGE)[0] == "OK"
    assert client.select("INBOX")[1] == [b"1"]


def test_capabilities_are_hidden(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    proxy.hide("MOVE", "idle")
    for words in log_in().capability()[1]:
        assert {b"MOVE", b"IDLE"} & set(words.split()) == set()
        assert b"UIDPLUS" in words.split()


def test_a_poor_server_has_no_extension(mail_server: MailServer) -> None:
    poor = mail_server.poor()
    client = imaplib.IMAP4(poor.host, poor.port, timeout=5)
    assert client.capabilities == ("IMAP4REV1",)
    assert client.login(mail_server.fresh_user(), PASSWORD)[1] == [b"Logged in"]
    assert set(client.capability()[1]) == {b"IMAP4rev1"}
    _, [told] = client.append("INBOX", "", "", MESSAGE)
    assert b"APPENDUID" not in told
    client.select("INBOX", readonly=True)
    for command in ASKED_ANYWAY:
        client.send(b"X1 " + command.encode() + b"\r\n")
        assert client.readline().startswith(b"X1 BAD"), command
    client.send(b"X2 EXAMINE INBOX\r\n")
    examined = b""
    while not (line := client.readline()).startswith(b"X2"):
        examined += line
    assert b"UIDVALIDITY" in examined
    assert b"HIGHESTMODSEQ" not in examined
    client.logout()


def test_a_stalled_connection_goes_on(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    client = log_in()
    client.socket().settimeout(0.1)
    proxy.stall()
    with pytest.raises(TimeoutError):
        client.noop()
    proxy.go_on()
    assert log_in().noop()[0] == "OK"


def test_every_connection_is_cut(proxy: FaultProxy, log_in: Callable[..., imaplib.IMAP4]) -> None:
    clients = [log_in() for _ in range(3)]
    proxy.is_shut = True
    assert proxy.cut_all() == 3
    for client in clients:
        with pytest.raises(LOST):
            client.noop()
    with pytest.raises(LOST):
        log_in()
    proxy.heal()
    proxy.latency = 0.01
    assert log_in().noop()[0] == "OK"
