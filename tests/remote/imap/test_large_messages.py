"""Large messages are read without their attachments, whose sizes are exact all the same, whatever a server does."""

import base64
from collections.abc import Callable, Iterator

import pytest

from mailbox_appliance.mail.large import LARGE_MESSAGE
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import client
from mailbox_appliance.remote.imap.client import ImapMailbox
from tests.remote.odd_server import Peer, talking
from tests.servers.dovecot import MailServer

SIZES = (1, 2, 3, 56, 57, 58, 100, 5000, 100_000, 100_001, 100_002)
PADDED = base64.b64encode(b"x" * 400_001).decode()
PART = "\r\n".join(PADDED[start : start + 76] for start in range(0, len(PADDED), 76)).encode()
STRUCTURE = (
    f'* 1 FETCH (UID 1 BODYSTRUCTURE (("text" "plain" NIL NIL NIL "7bit" 4 1)("a" "b" NIL NIL NIL "base64" {len(PART)}'
    ' NIL ("attachment" ("filename" "f"))) "mixed"))'
)


def attached(*parts: bytes) -> bytes:
    """A message with these files, encoded as they are to travel."""
    head = b"Subject: s\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nText\r\n"
    one = b"--B\r\nContent-Type: a/b\r\nContent-Disposition: attachment\r\n"
    one += b"Content-Transfer-Encoding: base64\r\n\r\n%b\r\n"
    return head + b"".join(one % part for part in parts) + b"--B--\r\n"


def in_lines(size: int, length: int = 76) -> bytes:
    """So many bytes in base64, in lines of this length."""
    encoded = base64.b64encode(b"x" * size)
    return b"\r\n".join(encoded[start : start + length] for start in range(0, len(encoded), length))


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    client.forget_failed_end_reads()


@pytest.fixture
def read(mail_server: MailServer) -> Iterator[Callable[[bytes], ParsedMessage]]:
    """How a message is read from a real server."""
    user = mail_server.fresh_user()
    endpoint = Endpoint("127.0.0.1", mail_server.imap_port, "none", user, "secret")
    with ImapMailbox.open(endpoint, ca_file="", timeout=10) as mailbox:

        def read(source: bytes) -> ParsedMessage:
            mail_server.deliver(user, source)
            mailbox.examine("INBOX")
            mailbox.refresh()
            return client.read_large(mailbox, max(mailbox.search_uids()))

        yield read


def test_sizes_are_exact(read: Callable[[bytes], ParsedMessage]) -> None:
    source = attached(*map(in_lines, SIZES), in_lines(5001, 64), in_lines(5002, 72), in_lines(5000) + b"\r\n\r\n")
    assert len(source) > LARGE_MESSAGE
    found = [one.size_bytes for one in read(source).attachments]
    assert found == [one.size_bytes for one in parse_message(source).attachments] == [*SIZES, 5001, 5002, 5000]


def test_what_the_end_does_not_tell_is_estimated(read: Callable[[bytes], ParsedMessage]) -> None:
    one_line, odd = in_lines(9001, 9999999), in_lines(2000, 30) + b"\r\n" + in_lines(3000)
    found = [one.size_bytes for one in read(attached(one_line, odd)).attachments]
    assert found[0] == pytest.approx(9001, rel=0.05)
    assert found[1] == pytest.approx(5000, rel=0.05)


def playing(ends: Callable[[Peer, str], object], asked: list[str], part_of: str = "<0>") -> Callable[[Peer], None]:
    """The part of a server that gives everything of a large message, and does this when it is asked for ends.

    `part_of`: what it calls the beginning of a section.
    """

    def part(peer: Peer) -> None:
        while command := peer.hear():
            tag, _, command = command.partition(" ")
            if "EXAMINE" in command:
                peer.say("* 1 EXISTS", "* OK [UIDVALIDITY 7] x", "* OK [UIDNEXT 2] x", f"{tag} OK done")
            elif "BODYSTRUCTURE" in command:
                peer.say(STRUCTURE, f"{tag} OK done")
            elif "BODY.PEEK[2]" in command:
                asked.append(command)
                ends(peer, tag)
            elif "HEADER" in command or "BODY.PEEK[1]" in command:
                section = command[command.index("[") : command.index("]") + 1]
                peer.say(f"* 1 FETCH (UID 1 BODY{section}{part_of} {{4}}", "a: b)", f"{tag} OK done")

    return part


def given(text: str, data: bytes = PART[-200:]) -> Callable[[Peer, str], object]:
    """The server says this, with some bytes behind, and that it is done."""
    return lambda peer, tag: peer.say(text.replace("#", f"{{{len(data)}}}"), data + b")\r\n", f"{tag} OK done")


ESTIMATED = 400_000  # of 400,001
OFFSET = len(PART) - 200
RIGHT = given(f"* 1 FETCH (UID 1 BODY[2]<{OFFSET}> #")
#: What a server does when it is asked for ends, whether the connection is good afterwards.
ODD: list[tuple[str, Callable[[Peer, str], object], bool]] = [
    ("no", lambda peer, tag: peer.say(f"{tag} NO not this"), True),
    ("bad", lambda peer, tag: peer.say(f"{tag} BAD what"), True),
    ("nothing told", lambda peer, tag: peer.say(f"{tag} OK done"), True),
    ("NIL", lambda peer, tag: peer.say(f"* 1 FETCH (UID 1 BODY[2]<{OFFSET}> NIL)", f"{tag} OK done"), True),
    ("another part", given(f"* 1 FETCH (UID 1 BODY[3]<{OFFSET}> #"), True),
    ("another message", given(f"* 2 FETCH (UID 2 BODY[2]<{OFFSET}> #"), True),
    ("elsewhere", given("* 1 FETCH (UID 1 BODY[2]<0> #"), True),
    ("all of it", given("* 1 FETCH (UID 1 BODY[2] #", PART), True),
    ("more than asked", given(f"* 1 FETCH (UID 1 BODY[2]<{OFFSET}> #", PART[-500:]), True),
    ("as much as asked", given(f"* 1 FETCH (UID 1 BODY[2]<{OFFSET}> #", PART[-500:-236]), True),
    ("far more than asked", given(f"* 1 FETCH (UID 1 BODY[3]<{OFFSET}> #", bytes(1 << 20)), False),
    ("no base64", given(f"* 1 FETCH (UID 1 BODY[2]<{OFFSET}> #", b"\0\xff\r\n" * 40), True),
    ("nonsense", lambda peer, tag: peer.say("* 1 FETCH (((", f"{tag} OK done"), False),
    ("the end", lambda peer, tag: peer.say("* BYE no more"), False),
    ("silence", lambda peer, tag: None, False),
]


@pytest.mark.parametrize(("ends", "is_good"), [one[1:] for one in ODD], ids=[one[0] for one in ODD])
def test_a_server_that_answers_oddly_hurts_nobody(ends: Callable[[Peer, str], object], is_good: bool) -> None:
    with talking("IMAP4rev1", playing(ends, []), timeout=0.5) as mailbox:
        mailbox.examine("INBOX")
        found = client.read_large(mailbox, 1)
        assert (found.text, [one.size_bytes for one in found.attachments]) == ("a: b", [ESTIMATED])
        if not is_good:
            with pytest.raises(RemoteFault):
                mailbox.fetch_structure(1)


def hang_up(peer: Peer, _tag: str) -> None:
    peer.say("* BYE no more")


def refuse(peer: Peer, tag: str) -> None:
    peer.say(f"{tag} BAD what")


def read_from(ends: Callable[[Peer, str], object], asked: list[str], user: str = "alice") -> None:
    """Read a message over a connection of this user to a server that does this when it is asked for ends."""
    with talking("IMAP4rev1", playing(ends, asked), user=user) as mailbox:
        mailbox.examine("INBOX")
        assert client.read_large(mailbox, 1).text == "a: b"


@pytest.mark.parametrize("ends", [hang_up, refuse])
def test_one_that_gives_none_every_time_is_asked_no_more(ends: Callable[[Peer, str], object]) -> None:
    asked: list[str] = []
    for _ in range(5):
        read_from(ends, asked)
    assert len(asked) == 3
    read_from(ends, asked, "bob")
    assert len(asked) == 4, "what one account's server does says nothing of another's"


def test_one_that_gives_them_in_between_is_asked_still() -> None:
    asked: list[str] = []
    for ends in (hang_up, refuse, RIGHT, hang_up, hang_up, RIGHT):
        read_from(ends, asked)
    assert len(asked) == 6


def test_one_that_gives_all_of_a_section_is_not_asked() -> None:
    """It would give all of every file."""
    asked: list[str] = []
    with talking("IMAP4rev1", playing(RIGHT, asked, part_of="")) as mailbox:
        mailbox.examine("INBOX")
        assert [one.size_bytes for one in client.read_large(mailbox, 1).attachments] == [ESTIMATED]
    assert asked == []


def test_the_end_is_asked_for_once_and_believed() -> None:
    asked: list[str] = []
    with talking("IMAP4rev1", playing(RIGHT, asked)) as mailbox:
        mailbox.examine("INBOX")
        assert [one.size_bytes for one in client.read_large(mailbox, 1).attachments] == [400_001]
    assert asked == [f"UID FETCH 1 (UID BODY.PEEK[2]<{OFFSET}.264>)"]
