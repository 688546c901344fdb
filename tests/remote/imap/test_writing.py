"""Changing a mailbox: against real Dovecot, and against servers that refuse, lack something, or go away midway."""

import select
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.sync import MessageIdentity
from mailbox_appliance.remote.errors import RemoteFault, Unmovable
from mailbox_appliance.remote.imap.client import ImapMailbox
from tests.remote.odd_server import Peer, talking
from tests.servers.dovecot import MailServer

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SEEN = frozenset({"\\Seen"})
NONE: frozenset[str] = frozenset()


def source(name: str) -> bytes:
    return b"Message-ID: <%b@Example.test>\r\nSubject: %b\r\n\r\nbody\r\n" % (name.encode(), name.encode())


@pytest.fixture
def user(mail_server: MailServer) -> str:
    user = mail_server.fresh_user()
    mail_server.deliver(user, *(source(name) for name in "abcd"))
    return user


@pytest.fixture
def mailbox(mail_server: MailServer, user: str) -> Iterator[ImapMailbox]:
    endpoint = Endpoint("127.0.0.1", mail_server.imap_port, "none", user, "secret")
    with ImapMailbox.open(endpoint, ca_file="", timeout=10) as mailbox:
        yield mailbox


def test_flags_are_set_and_taken_away(mailbox: ImapMailbox) -> None:
    mailbox.store_flags("INBOX", [1, 2], add=frozenset({"\\Seen", "$A"}), remove=NONE)
    mailbox.store_flags("INBOX", [2, 3, 99], add=frozenset({"\\Flagged"}), remove=SEEN)
    assert mailbox.fetch_flags() == {1: {"\\Seen", "$A"}, 2: {"\\Flagged", "$A"}, 3: {"\\Flagged"}, 4: NONE}


def test_what_came_meanwhile_can_be_changed(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    mailbox.store_flags("INBOX", [1], add=SEEN, remove=NONE)
    mail_server.deliver(user, source("later"))
    mailbox.store_flags("INBOX", [5], add=SEEN, remove=NONE)
    assert mailbox.fetch_flags([5]) == {5: SEEN}


def test_a_move_tells_the_new_uids(mail_server: MailServer, user: str, mailbox: ImapMailbox) -> None:
    mail_server.deliver(user, source("there"), folder="Archive")
    assert mailbox.move("INBOX", [1, 3, 99], "Archive") == {1: 2, 3: 3}
    assert sorted(mail_server.messages(user, "Archive")) == sorted(map(source, ("there", "a", "c")))
    assert mailbox.search_uids() == {2, 4}
    with pytest.raises(RemoteFault) as caught:
        mailbox.move("INBOX", [2], "No such folder")
    assert (caught.value.kind, caught.value.in_doubt) == ("refused", False)


def test_only_the_named_are_removed(mailbox: ImapMailbox) -> None:
    mailbox.store_flags("INBOX", [4], add=frozenset({"\\Deleted"}), remove=NONE)
    mailbox.expunge("INBOX", [1, 2])
    assert mailbox.fetch_flags() == {3: NONE, 4: {"\\Deleted"}}


def test_what_lies_there_is_identified(mailbox: ImapMailbox) -> None:
    uid = mailbox.append("INBOX", source("x"), flags=SEEN, at=AT)
    state, found = mailbox.identify("INBOX", [1, uid or 0, 99])
    assert state == mailbox.get_folder_state("INBOX")
    assert found.keys() == {1, uid}
    assert found[uid or 0] == MessageIdentity(uid or 0, SEEN, "x@example.test", len(source("x")), AT)


def test_permanent_flags(mailbox: ImapMailbox) -> None:
    assert mailbox.permanent_flags("Archive") >= {"\\Seen", "\\Deleted", "\\*"}


@pytest.mark.parametrize("flag", ["a b", "a)", "\r\n", "\\Recent", "ü"])
def test_flags_that_imap_cannot_write(mailbox: ImapMailbox, flag: str) -> None:
    def is_unsupported(fault: RemoteFault) -> bool:
        return (fault.kind, fault.in_doubt) == ("unsupported", False)

    with pytest.raises(RemoteFault, check=is_unsupported):
        mailbox.store_flags("INBOX", [1], add=frozenset({flag}), remove=NONE)
    with pytest.raises(RemoteFault, check=is_unsupported):
        mailbox.append("INBOX", b"", flags=frozenset({flag}), at=AT)


# --- scripted ---


def move(mailbox: ImapMailbox) -> object:
    return mailbox.move("a", [1, 2], "b")


def expunge(mailbox: ImapMailbox) -> None:
    mailbox.expunge("a", [1, 2])


def flag(mailbox: ImapMailbox) -> None:
    mailbox.store_flags("a", [1], add=SEEN, remove=frozenset({"x"}))


def append(mailbox: ImapMailbox) -> object:
    return mailbox.append("a", b"source", flags=SEEN, at=AT)


# Steps of a server: a command, and the status it gets; or how it goes away.
OK, NO, SILENT, GONE, BYE = "OK done", "NO no", "silent", "gone", "* BYE"
Write = Callable[[ImapMailbox], object]

SELECT, STORE, UNSTORE = 'SELECT "a"', "UID STORE 1 +FLAGS.SILENT (\\Seen)", "UID STORE 1 -FLAGS.SILENT (x)"
DELETE, EXPUNGE = "UID STORE 1:2 +FLAGS.SILENT (\\Deleted)", "UID EXPUNGE 1:2"
MARKED, UNDELETE = "UID SEARCH DELETED", "UID STORE 1:2 -FLAGS.SILENT (\\Deleted)"
ALONE = ((SELECT, OK), (MARKED, OK), (DELETE, OK))
MOVE, COPY = 'UID MOVE 1:2 "b"', 'UID COPY 1:2 "b"'


@pytest.mark.parametrize(
    ("write", "capabilities", "steps", "kind", "in_doubt"),
    [
        (flag, "", [(SELECT, NO)], "refused", False),
        (flag, "", [(SELECT, "OK [READ-ONLY] look only")], "refused", False),
        (flag, "", [(SELECT, GONE)], "disconnected", False),
        (flag, "", [(SELECT, OK), (STORE, NO)], "refused", False),
        (flag, "", [(SELECT, OK), (STORE, "NO [LIMIT] slow down")], "throttled", False),
        (flag, "", [(SELECT, OK), (STORE, GONE)], "disconnected", True),
        (flag, "", [(SELECT, OK), (STORE, BYE)], "disconnected", True),
        (flag, "", [(SELECT, OK), (STORE, SILENT)], "timeout", True),
        (flag, "", [(SELECT, OK), (STORE, "what is this?")], "malformed", True),
        (flag, "", [(SELECT, OK), (STORE, OK), (UNSTORE, NO)], "refused", True),  # half of it is done
        (expunge, "", [(SELECT, OK), (MARKED, "* SEARCH 1 9"), ("", OK)], "unsupported", False),
        (expunge, "", [(SELECT, OK), (MARKED, OK), (DELETE, OK), (MARKED, GONE)], "disconnected", True),
        (expunge, "", [*ALONE, (MARKED, "* SEARCH 1 2 9"), ("", OK), (UNDELETE, OK)], "unsupported", False),
        (expunge, "", [*ALONE, (MARKED, "* SEARCH 1 2"), ("", OK), ("EXPUNGE", GONE)], "disconnected", True),
        (expunge, "UIDPLUS", [(SELECT, OK), (DELETE, NO)], "refused", False),
        (expunge, "UIDPLUS", [(SELECT, OK), (DELETE, OK), (EXPUNGE, NO)], "refused", True),
        (expunge, "UIDPLUS", [(SELECT, OK), (DELETE, OK), (EXPUNGE, GONE)], "disconnected", True),
        (move, "", [(SELECT, OK), (MARKED, "* SEARCH 9"), ("", OK)], "unsupported", False),
        (move, "", [(SELECT, OK), (MARKED, OK), (COPY, NO)], "refused", False),
        (move, "", [(SELECT, OK), (MARKED, OK), (COPY, OK), (DELETE, NO)], "refused", True),
        (move, "MOVE", [(SELECT, OK), (MOVE, NO)], "refused", False),
        (move, "MOVE", [(SELECT, OK), (MOVE, "NO [TRYCREATE] none")], "refused", False),
        (move, "MOVE", [(SELECT, OK), (MOVE, GONE)], "disconnected", True),
        (move, "MOVE", [(SELECT, OK), (MOVE, "* OK [COPYUID 1 1 7] x"), ("", NO)], "refused", True),
        (move, "MOVE", [(SELECT, OK), (MOVE, "* 1 EXPUNGE"), ("", NO)], "refused", True),
        (move, "UIDPLUS", [(SELECT, OK), (COPY, NO)], "refused", False),
        (move, "UIDPLUS", [(SELECT, OK), (COPY, GONE)], "disconnected", True),
        (move, "UIDPLUS", [(SELECT, OK), (COPY, OK), (DELETE, NO)], "refused", True),
        (move, "UIDPLUS", [(SELECT, OK), (COPY, OK), (DELETE, OK), (EXPUNGE, NO)], "refused", True),
        (append, "", [("APPEND", NO)], "refused", False),
        (append, "", [("APPEND", GONE)], "disconnected", False),  # the message was never sent
        (append, "", [("APPEND", "+ go on"), ("source", GONE)], "disconnected", True),
        (append, "", [("APPEND", "+ go on"), ("source", NO)], "refused", False),
    ],
)
def test_what_is_in_doubt(
    write: Write, capabilities: str, steps: list[tuple[str, str]], kind: str, in_doubt: bool
) -> None:
    timeout = 0.5 if kind == "timeout" else 5
    with (
        talking(capabilities, lambda peer: play(peer, steps), timeout) as mailbox,
        pytest.raises(RemoteFault) as caught,
    ):
        write(mailbox)
    assert (caught.value.kind, caught.value.in_doubt) == (kind, in_doubt)
    assert isinstance(caught.value, Unmovable) == (kind == "unsupported")


def play(peer: Peer, steps: list[tuple[str, str]]) -> None:
    tag = ""
    for command, answer in steps:
        if command == "source":
            assert peer.hear() == "source"
        elif command:
            tag, _, heard = peer.hear().partition(" ")
            assert heard.startswith(command), heard
        if answer in (GONE, BYE):
            peer.say(*(["* BYE leaving"] if answer == BYE else []))
            peer.connection.shutdown(socket.SHUT_RDWR)
        elif answer.startswith(("*", "+", "what")):
            peer.say(answer)
        elif answer != SILENT:
            peer.say(f"{tag} {answer}")


def test_a_connection_that_ended_unseen_leaves_nothing_in_doubt() -> None:
    def part(peer: Peer) -> None:
        peer.answer()
        peer.say("* BYE you were quiet for too long")
        peer.connection.shutdown(socket.SHUT_WR)

    with talking("", part) as mailbox:
        mailbox.permanent_flags("a")
        assert select.select([mailbox.socket], [], [], 10)[0]
        with pytest.raises(RemoteFault) as caught:
            mailbox.append("a", b"source", flags=SEEN, at=AT)
        assert (caught.value.kind, caught.value.in_doubt) == ("disconnected", False)
        with pytest.raises(RemoteFault) as caught:
            mailbox.store_flags("a", [1], add=SEEN, remove=NONE)
        assert (caught.value.kind, caught.value.in_doubt) == ("disconnected", False)


@pytest.mark.parametrize(
    ("capabilities", "answers", "commands", "moved"),
    [
        (
            "MOVE UIDPLUS",
            [["* OK [COPYUID 7 1:2 11:12] x", "* 1 EXPUNGE", "* 1 EXPUNGE"]],
            [MOVE],
            {1: 11, 2: 12},
        ),
        ("MOVE", [["* VANISHED 1:2"]], [MOVE], {}),
        ("MOVE", [["* OK [COPYUID 7 1 11] x", "* OK [COPYUID 7 2 12] x"]], [MOVE], {1: 11, 2: 12}),
        ("MOVE", [["* OK [COPYUID 7 1:4294967295 1:4294967295] x"]], [MOVE], {}),
        ("UIDPLUS", [["OK [COPYUID 7 1:2 11:12] x"], [], []], [COPY, DELETE, EXPUNGE], {1: 11, 2: 12}),
        # One was gone already: nothing but the copied one is removed.
        (
            "UIDPLUS",
            [["OK [COPYUID 7 2 12] x"], [], []],
            [COPY, "UID STORE 2 +FLAGS.SILENT (\\Deleted)", "UID EXPUNGE 2"],
            {2: 12},
        ),
        ("UIDPLUS", [[], [], []], [COPY, DELETE, EXPUNGE], {}),
    ],
)
def test_moves(capabilities: str, answers: list[list[str]], commands: list[str], moved: dict[int, int]) -> None:
    heard = []

    def part(peer: Peer) -> None:
        assert peer.answer("* 2 EXISTS") == SELECT
        for lines in answers:
            untagged = [line for line in lines if line.startswith("*")]
            heard.append(peer.answer(*untagged, status=next((line for line in lines if line not in untagged), OK)))

    with talking(capabilities, part) as mailbox:
        assert mailbox.move("a", [1, 2], "b") == moved
    assert heard == commands
