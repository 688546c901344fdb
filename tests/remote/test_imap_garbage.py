"""Whatever a server says, it is an answer or a RemoteFault, and soon."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from mailbox_appliance.model.sync import FolderState
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from tests.remote.odd_server import Peer, talking

EVERYTHING = "ENABLE QRESYNC CONDSTORE ESEARCH MOVE UIDPLUS LIST-EXTENDED LIST-STATUS SPECIAL-USE NAMESPACE"
NONE: frozenset[str] = frozenset()
AT = datetime(2026, 3, 4, tzinfo=UTC)

#: What to do, and what a server may say to it.
ASKED: list[tuple[Callable[[ImapMailbox], object], bytes]] = [
    (
        lambda mailbox: mailbox.folder_news("a", FolderState(7, 5, 4, 100), 4),
        (
            b"* 3 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 6] x\r\n* OK [HIGHESTMODSEQ 101] x\r\n"
            b"* VANISHED (EARLIER) 1:2,40:41\r\n* 2 FETCH (UID 4 FLAGS (\\Seen) MODSEQ (101))\r\n"
        ),
    ),
    (
        lambda mailbox: mailbox.list_folders_with_states(),
        (
            b'* LIST (\\Sent) "/" "a b"\r\n* STATUS "a b" (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 5 HIGHESTMODSEQ 6)\r\n'
            b'* LIST () NIL {3}\r\nabc\r\n* NAMESPACE (("" "/")("x/" "/")) NIL NIL\r\n'
        ),
    ),
    (
        lambda mailbox: list(mailbox.fetch_messages([4, 5])) + list(mailbox.fetch_headers([4, 5])),
        (
            b"* 2 FETCH (UID 4 RFC822.SIZE 3)\r\n* 3 FETCH (UID 5 FLAGS (\\Seen $a) INTERNALDATE"
            b' " 4-Mar-2026 05:06:07 +0000" RFC822.SIZE 3 BODY[] {3}\r\nabc)\r\n* 2 FETCH (UID 4 BODY[] "abc")\r\n'
        ),
    ),
    (
        lambda mailbox: (mailbox.fetch_structure(4), mailbox.read_section(4, "1", 0, 10)),
        (
            b'* 2 FETCH (UID 4 BODY[1]<0> {3}\r\nabc BODYSTRUCTURE (("text" "plain" ("charset" {5}\r\nutf-8)'
            b' NIL NIL "7bit" 1 2 NIL ("inline" ("a" "b")))("image" "gif" NIL NIL NIL "base64" 9) "mixed"))\r\n'
        ),
    ),
    (
        lambda mailbox: (mailbox.identify("a", [4, 5]), mailbox.move("a", [4, 5], "b")),
        (
            b"* 2 FETCH (UID 4 FLAGS () RFC822.SIZE 3 BODY[HEADER.FIELDS (MESSAGE-ID)] {21}\r\n"
            b"Message-ID: <a@b>\r\n\r\n)\r\n"
            b"* OK [COPYUID 7 4:5 6:7] x\r\n* VANISHED 4:5\r\n"
        ),
    ),
    (
        lambda mailbox: (
            mailbox.search_uids(),
            mailbox.search_message_id("a", "x"),
            mailbox.append("a", b"x", flags=NONE, at=AT),
        ),
        b'* 2 EXISTS\r\n* ESEARCH (TAG "x") UID ALL 1:3,7\r\n* SEARCH 4 5\r\n+ go on\r\n* BAD [ALERT] x\r\n',
    ),
]


@pytest.mark.parametrize("seed", range(120))
def test_garbage_is_a_fault(seed: int) -> None:
    chance = random.Random(seed)
    ask, says = ASKED[seed % len(ASKED)]

    def part(peer: Peer) -> None:
        while command := peer.hear():
            tag = command.split(" ")[0].encode()
            status = chance.choice([b"OK done", b"OK [COPYUID 1 4 9] done", b"NO no", b"OK done", b"OK done"])
            peer.say(mutated(says, chance) if seed >= len(ASKED) else says, tag + b" " + status + b"\r\n")

    began = time.monotonic()
    with talking(EVERYTHING, part, timeout=0.3) as mailbox:
        try:
            ask(mailbox)
        except RemoteFault:
            pass
    assert time.monotonic() - began < 5


def mutated(says: bytes, chance: random.Random) -> bytes:
    data = bytearray(says)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data))
        match chance.randint(0, 3):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                del data[place : place + chance.randint(1, 20)]
            case 2:
                data[place:place] = chance.choice(
                    [b"(" * 5000, b"9" * 5000, b'"', b"{9}\r\n", b"\r\n", b"NIL ", b"\x00"]
                )
            case _:
                data[place:place] = data[chance.randrange(len(data)) :]
    return bytes(data)
