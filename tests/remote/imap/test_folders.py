"""What happened in a folder: against real Dovecot with each extension there and not, and against scripted answers."""

import dataclasses
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.model.sync import FolderChanges, FolderState
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import folders as imap_folders
from mailbox_appliance.remote.imap import values
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.imap.folders import ChangeCollector
from tests.remote.odd_server import Peer, odd_server, talking
from tests.servers.dovecot import MailServer

#: What a server offers, with everything above it; Dovecot gives the rest by default.
OFFERS = {
    "everything": "",
    "condstore": "IMAP4rev1 AUTH=PLAIN IDLE ENABLE CONDSTORE ESEARCH UIDPLUS LIST-EXTENDED LIST-STATUS SPECIAL-USE",
    "nothing": "IMAP4rev1 AUTH=PLAIN",
}
SOURCE = b"Message-ID: <one@example.test>\r\nSubject: one\r\n\r\nbody\r\n"
SINCE = FolderState(7, 5, 4, 100)


@pytest.fixture(scope="module", params=OFFERS)
def server(request: pytest.FixtureRequest, mail_server: MailServer) -> Iterator[tuple[MailServer, str]]:
    """A server, and what it offers."""
    if not (offered := OFFERS[request.param]):
        yield mail_server, request.param
        return
    with tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        other = MailServer(f"imap_capability = {offered}").start(Path(name))
        yield other, request.param
        other.stop()


def opened(server: MailServer, user: str) -> ImapMailbox:
    return ImapMailbox.open(Endpoint("127.0.0.1", server.imap_port, "none", user, "secret"), ca_file="", timeout=10)


class Mirror:
    """Applies news as a mirror would."""

    def __init__(self, mailbox: ImapMailbox, path: str, *, opens_again: bool) -> None:
        self._mailbox, self._path, self._opens_again = mailbox, path, opens_again
        self.flags: dict[int, frozenset[str]] = {}
        self.state: FolderState | None = None

    def look(self) -> FolderChanges:
        if self._opens_again:
            self._mailbox.examine("Archive")
        news = self._mailbox.folder_news(self._path, self.state, len(self.flags))
        left = self.flags.keys() - news.vanished if news.present is None else self.flags.keys() & news.present
        self.flags = {uid: self.flags[uid] for uid in left} | dict(news.changed)
        self.state = news.state
        return news


def plain(news: FolderChanges) -> tuple[dict[int, set[str]], set[int], set[int] | None]:
    """What changed, what vanished, what is present: in types that compare to what a test writes."""
    changed = {uid: set(flags) for uid, flags in news.changed.items()}
    return changed, set(news.vanished), None if news.present is None else set(news.present)


@pytest.mark.parametrize("opens_again", [False, True])
def test_a_mirror_follows(server: tuple[MailServer, str], opens_again: bool) -> None:
    dovecot, offered = server
    user = dovecot.fresh_user()
    with opened(dovecot, user) as mailbox, opened(dovecot, user) as other:
        mirror = Mirror(mailbox, "INBOX", opens_again=opens_again)
        assert mirror.look().present == frozenset()
        dovecot.deliver(user, *[SOURCE] * 6)
        mirror.look()
        assert mirror.flags == dict.fromkeys(range(1, 7), frozenset())

        other.store_flags("INBOX", [2], add=frozenset({"\\Seen", "$A"}), remove=frozenset())
        other.store_flags("INBOX", [3], add=frozenset({"\\Flagged"}), remove=frozenset())
        news = mirror.look()
        if offered != "nothing":
            assert plain(news) == ({2: {"\\Seen", "$A"}, 3: {"\\Flagged"}}, set(), None)
        expunge(other, dovecot, user, 1, 5)
        dovecot.deliver(user, SOURCE)
        news = mirror.look()
        if offered == "everything":
            assert plain(news) == ({7: set()}, {1, 5}, None)
        else:
            assert plain(news)[2] == {2, 3, 4, 6, 7}
        assert mirror.flags == {2: {"\\Seen", "$A"}, 3: {"\\Flagged"}, 4: set(), 6: set(), 7: set()}

        expunge(other, dovecot, user, 6)
        assert mirror.look().state.exists == 4
        assert mirror.flags.keys() == {2, 3, 4, 7}
        quiet = mirror.look()
        if offered != "nothing":
            assert plain(quiet) == ({}, set(), None)
        assert mailbox.search_uids() == {2, 3, 4, 7}
        assert (mirror.state.highestmodseq is None if mirror.state else None) == (offered == "nothing")


def expunge(other: ImapMailbox, dovecot: MailServer, user: str, *uids: int) -> None:
    dovecot.doveadm("expunge", "-u", user, "mailbox", "INBOX", "uid", ",".join(map(str, uids)))


def test_another_uidvalidity_tells_everything(server: tuple[MailServer, str]) -> None:
    dovecot, _ = server
    user = dovecot.fresh_user()
    dovecot.deliver(user, SOURCE, SOURCE, folder="Archive")
    with opened(dovecot, user) as mailbox:
        state = mailbox.folder_news("Archive", None, 0).state
        news = mailbox.folder_news("Archive", dataclasses.replace(state, uidvalidity=state.uidvalidity + 1), 2)
        assert plain(news) == ({1: set(), 2: set()}, set(), {1, 2})


def test_folders_and_their_positions_in_one_look(server: tuple[MailServer, str]) -> None:
    dovecot, offered = server
    user = dovecot.fresh_user()
    dovecot.deliver(user, SOURCE, SOURCE, folder="Archive")
    dovecot.make_folder(user, 'Bücher/R&D "x"')
    with opened(dovecot, user) as mailbox:
        folders, states = mailbox.list_folders_with_states()
        paths = {folder.path for folder in folders}
        assert paths >= {"INBOX", "Archive", "Sent", 'Bücher/R&D "x"'}
        assert paths >= states.keys() >= {"INBOX", "Archive", "Sent", 'Bücher/R&D "x"'}
        assert (states["Archive"].exists, states["Archive"].uidnext) == (2, 3)
        assert states["Archive"] == mailbox.get_folder_state("Archive") == mailbox.examine("Archive")
        assert (states["Archive"].highestmodseq is None) == (offered == "nothing")
        assert set(mailbox.list_folders()) == set(folders)
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            mailbox.get_folder_state("No such folder")


# --- scripted ---


HEAD = ("* OK [UIDVALIDITY 7] x", "* OK [UIDNEXT 6] x")


@pytest.mark.parametrize(
    ("says", "known", "changed", "vanished", "asks_all"),
    [
        (["* 4 EXISTS", "* OK [HIGHESTMODSEQ 100] x"], 4, {}, set(), False),
        (
            [
                "* 3 EXISTS",
                "* OK [HIGHESTMODSEQ 9223372036854775807] x",
                "* VANISHED (EARLIER) 1:2,40:41",
                "* 2 FETCH (UID 4 FLAGS (\\Seen) MODSEQ (9223372036854775807))",
                "* 3 FETCH (UID 5 FLAGS () MODSEQ (9))",
            ],
            4,
            {4: {"\\Seen"}, 5: set()},
            {1, 2, 40, 41},
            False,
        ),
        # Of the folder that was selected before: until CLOSED.
        (
            [
                *("* 99 EXISTS", "* 1 FETCH (UID 9 FLAGS (x))", "* VANISHED (EARLIER) 3", "* OK [CLOSED] x"),
                *(*HEAD, "* 4 EXISTS", "* OK [HIGHESTMODSEQ 101] x"),
            ],
            4,
            {},
            set(),
            False,
        ),
        (["* 2 EXISTS", "* OK [HIGHESTMODSEQ 101] x", "* VANISHED (EARLIER) 1:4294967295"], 4, {}, set(), True),
        (["* 3 EXISTS", "* OK [HIGHESTMODSEQ 101] x"], 4, {}, set(), True),  # it forgot to tell one
        (["* 5 EXISTS", "* OK [HIGHESTMODSEQ 101] x"], 4, {}, set(), True),
    ],
)
def test_qresync(says: list[str], known: int, changed: dict[int, set[str]], vanished: set[int], asks_all: bool) -> None:
    def part(peer: Peer) -> None:
        assert peer.answer(*HEAD, *says) == 'EXAMINE "a" (QRESYNC (7 100))'
        if asks_all:
            assert peer.answer('* ESEARCH (TAG "x") UID ALL 1,3:4') == "UID SEARCH RETURN (ALL) ALL"

    with talking("ENABLE QRESYNC ESEARCH", part) as mailbox:
        news = mailbox.folder_news("a", SINCE, known)
    assert plain(news) == (changed, vanished, {1, 3, 4} if asks_all else None)


@pytest.mark.parametrize(
    ("says", "asked"),
    [
        (["* 1 EXISTS", *HEAD, "* OK [NOMODSEQ] x"], 'EXAMINE "a" (QRESYNC (7 100))'),
        (["* 1 EXISTS", "* OK [UIDVALIDITY 8] x", "* OK [HIGHESTMODSEQ 4] x"], 'EXAMINE "a" (QRESYNC (7 100))'),
        # Restored from a copy: the same UIDVALIDITY, and positions that have been before.
        (["* 1 EXISTS", *HEAD, "* OK [HIGHESTMODSEQ 99] x"], 'EXAMINE "a" (QRESYNC (7 100))'),
        (
            ["* 1 EXISTS", HEAD[0], "* OK [UIDNEXT 4] x", "* OK [HIGHESTMODSEQ 100] x"],
            'EXAMINE "a" (QRESYNC (7 100))',
        ),
    ],
)
def test_a_server_that_cannot_go_on_tells_everything(says: list[str], asked: str) -> None:
    def part(peer: Peer) -> None:
        assert peer.answer(*says) == asked
        assert peer.answer("* 1 FETCH (UID 4 FLAGS (\\Seen))") == "UID FETCH 1:* (UID FLAGS)"

    with talking("ENABLE QRESYNC", part) as mailbox:
        news = mailbox.folder_news("a", SINCE, 4)
    assert plain(news) == ({4: {"\\Seen"}}, set(), {4})


def test_enabling_that_is_refused() -> None:
    def part(peer: Peer) -> None:
        peer.authenticate("IMAP4rev1 AUTH=PLAIN ENABLE QRESYNC")
        while (command := peer.answer("* CAPABILITY IMAP4rev1 ENABLE QRESYNC", status="NO no")) != "ENABLE QRESYNC":
            assert command == "CAPABILITY"
        assert peer.answer() == 'SELECT "INBOX" (CONDSTORE)'
        assert peer.answer("* 0 EXISTS", *HEAD, "* OK [HIGHESTMODSEQ 100] x") == 'EXAMINE "a" (CONDSTORE)'

    with odd_server(part) as port:
        endpoint = Endpoint("127.0.0.1", port, "none", "alice", "secret")
        with ImapMailbox.open(endpoint, ca_file="", timeout=5) as mailbox:
            assert mailbox.folder_news("a", SINCE, 0).present is None


@pytest.mark.parametrize(
    ("exists", "modseq", "answers", "known", "changed", "present"),
    [
        (4, 100, [], 4, {}, None),
        (0, 100, [], 0, {}, None),
        (4, 101, [["* 1 FETCH (UID 2 FLAGS (a) MODSEQ (101))"]], 4, {2: {"a"}}, None),
        (5, 101, [["* 5 FETCH (UID 5 FLAGS ())"]], 4, {5: set()}, None),
        (3, 100, [["* 1 FETCH (UID 2 FLAGS ())"]], 4, {}, {2}),  # a removal need not raise the position
        (4, 101, [["* 4 FETCH (UID 5 FLAGS ())"], ["* 1 FETCH (UID 5 FLAGS ())"]], 4, {5: set()}, {5}),
        (0, 101, [], 4, {}, set()),
    ],
)
def test_condstore(
    exists: int,
    modseq: int,
    answers: list[list[str]],
    known: int,
    changed: dict[int, set[str]],
    present: set[int] | None,
) -> None:
    commands: list[str] = []

    def part(peer: Peer) -> None:
        commands.append(peer.answer(*HEAD, f"* {exists} EXISTS", f"* OK [HIGHESTMODSEQ {modseq}] x"))
        commands.extend(peer.answer(*lines) for lines in answers)

    with talking("CONDSTORE", part) as mailbox:
        news = mailbox.folder_news("a", SINCE, known)
    assert plain(news) == (changed, set(), present)
    assert commands[0] == 'EXAMINE "a" (CONDSTORE)'
    if modseq != 100 and exists:
        assert commands[1] == "UID FETCH 1:* (UID FLAGS) (CHANGEDSINCE 100)"


@pytest.mark.parametrize("modseq", [99, 100])
def test_positions_that_go_back_with_condstore_alone(modseq: int) -> None:
    def part(peer: Peer) -> None:
        uidnext = 6 if modseq < 100 else 4
        peer.answer(HEAD[0], f"* OK [UIDNEXT {uidnext}] x", "* 4 EXISTS", f"* OK [HIGHESTMODSEQ {modseq}] x")
        assert peer.answer("* 1 FETCH (UID 2 FLAGS (a))") == "UID FETCH 1:* (UID FLAGS)"

    with talking("CONDSTORE", part) as mailbox:
        assert plain(mailbox.folder_news("a", SINCE, 4)) == ({2: {"a"}}, set(), {2})


def test_more_uids_than_there_can_be() -> None:
    """A few bytes may stand for billions."""
    line = '* ESEARCH (TAG "x") UID ALL 1:500000'

    def part(peer: Peer) -> None:
        peer.answer(*HEAD, "* 4 EXISTS")
        peer.answer(line, line.replace("1:500000", "1000001:1500000"))

    with talking("ESEARCH", part) as mailbox:
        mailbox.examine("a")
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "malformed"):
            mailbox.search_uids()


def test_more_found_than_there_can_be() -> None:
    def part(peer: Peer) -> None:
        peer.answer("* 4 EXISTS")
        peer.answer(*("* SEARCH " + " ".join(map(str, range(start, start + 60_000))) for start in (1, 60_001)))

    with talking("", part) as mailbox, pytest.raises(RemoteFault, check=lambda fault: fault.kind == "malformed"):
        mailbox.search_message_id("a", "<x@y>")


def test_vanished_ones_line_by_line() -> None:
    changes = ChangeCollector()
    began = time.thread_time()
    for uid in range(1, 40_000, 2):
        assert changes.collect([b"* VANISHED (EARLIER) %d" % uid])
    assert time.thread_time() - began < 2
    assert changes.vanished is not None
    assert len(changes.vanished) == 20_000
    changes.collect([b"* VANISHED (EARLIER) 100001:200000"])
    assert changes.vanished is None


@pytest.mark.parametrize("line", ["* VANISHED (EARLIER) 0", "* VANISHED (EARLIER) 1,", "* 1 FETCH (UID 0 FLAGS ())"])
def test_news_that_make_no_sense(line: str) -> None:
    def part(peer: Peer) -> None:
        peer.answer(*HEAD, line)

    with talking("ENABLE QRESYNC", part) as mailbox, pytest.raises(RemoteFault) as caught:
        mailbox.folder_news("a", SINCE, 4)
    assert (caught.value.kind, caught.value.in_doubt) == ("malformed", False)
    assert not re.search("VANISHED|FETCH", caught.value.reason)


LIST_ALL = 'LIST "" "*"'


@pytest.mark.parametrize(
    ("capabilities", "dialogue", "paths"),
    [
        ("", [(LIST_ALL, ['* LIST () "/" INBOX'])], ["INBOX"]),
        ("SPECIAL-USE LIST-EXTENDED", [(LIST_ALL + " RETURN (SPECIAL-USE CHILDREN)", ['* LIST () "/" a'])], ["a"]),
        # The user's own folders may lie where "*" does not show them; others' are no part of the mailbox.
        (
            "NAMESPACE",
            [
                (LIST_ALL, ['* LIST () "." INBOX']),
                ("NAMESPACE", ['* NAMESPACE (("" ".")("INBOX." ".")("#mh/" "/" "X" ("y"))) (("Other." ".")) NIL']),
                ('LIST "" "INBOX.*"', ['* LIST () "." INBOX.Sent']),
                ('LIST "" "#mh/*"', []),
            ],
            ["INBOX", "INBOX.Sent"],
        ),
        (
            "NAMESPACE",
            [(LIST_ALL, ['* LIST () "." "INBOX.a"']), ("NAMESPACE", ['* NAMESPACE (("INBOX." ".")) NIL NIL'])],
            ["INBOX.a"],
        ),
        ("NAMESPACE", [(LIST_ALL, ['* LIST () "." b']), ("NAMESPACE", ["* NAMESPACE NIL NIL NIL"])], ["b"]),
        ("", [(LIST_ALL, ['* LIST (\\Noselect) "/" a', '* LIST () "/" a/b', '* LIST () "/" a/b'])], ["a/b"]),
    ],
)
def test_listing(capabilities: str, dialogue: list[tuple[str, list[str]]], paths: list[str]) -> None:
    def part(peer: Peer) -> None:
        for command, lines in dialogue:
            assert peer.answer(*lines) == command

    with talking(capabilities, part) as mailbox:
        assert [folder.path for folder in mailbox.list_folders()] == paths


def test_a_look_without_list_status_asks_one_by_one() -> None:
    def part(peer: Peer) -> None:
        assert peer.answer('* LIST () "/" a', '* LIST () "/" b', '* LIST (\\Noselect) "/" c') == LIST_ALL
        assert peer.answer(status="NO not now") == 'STATUS "a" (MESSAGES UIDNEXT UIDVALIDITY)'
        peer.answer('* STATUS "b" (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 5)')

    with talking("", part) as mailbox:
        folders, states = mailbox.list_folders_with_states()
    assert [folder.path for folder in folders] == ["a", "b"]
    assert states == {"b": FolderState(5, 4, 3, None)}


def test_a_look_with_list_status_is_one_command() -> None:
    def part(peer: Peer) -> None:
        command = peer.answer(
            '* LIST () "/" a', "* STATUS a (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 5 HIGHESTMODSEQ 6)", '* LIST () "/" b'
        )
        assert command == LIST_ALL + " RETURN (STATUS (MESSAGES UIDNEXT UIDVALIDITY HIGHESTMODSEQ))"

    with talking("LIST-EXTENDED LIST-STATUS CONDSTORE", part) as mailbox:
        folders, states = mailbox.list_folders_with_states()
    assert [folder.path for folder in folders] == ["a", "b"]
    assert states == {"a": FolderState(5, 4, 3, 6)}


def test_lines_that_a_look_repeats_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    same = ['* LIST () "/" a', '* LIST () "/" b', "* STATUS b (MESSAGES 1 UIDNEXT 2 UIDVALIDITY 3)"]
    before, after = (f"* STATUS a (MESSAGES {count} UIDNEXT 9 UIDVALIDITY 5)" for count in (3, 4))
    read: list[bytes] = []

    def reading(pieces: list[bytes]) -> tuple[str, FolderState] | None:
        read.append(pieces[0])
        return values.read_status(pieces)

    def part(peer: Peer) -> None:
        for said in ((*same, before), (after, *reversed(same)), (after, *same)):
            peer.answer(*said)

    monkeypatch.setattr(imap_folders, "read_status", reading)
    with talking("LIST-EXTENDED LIST-STATUS", part) as mailbox:
        looks = [mailbox.list_folders_with_states() for _ in range(3)]
    assert [states["a"].exists for _, states in looks] == [3, 4, 4]
    assert [{folder.path for folder in listed} for listed, _ in looks] == [{"a", "b"}] * 3
    assert [one.decode() for one in read] == [same[2], before, after]


STATUS = 'STATUS "a" (MESSAGES UIDNEXT UIDVALIDITY HIGHESTMODSEQ)'
CHANGED = "UID FETCH 1:* (UID FLAGS) (CHANGEDSINCE 100 VANISHED)"


@pytest.mark.parametrize(
    ("status", "says", "commands", "expected"),
    [
        ("MESSAGES 4 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 100", [], ["NOOP", STATUS], ({}, set(), None)),
        (
            "MESSAGES 4 UIDNEXT 6 UIDVALIDITY 7 HIGHESTMODSEQ 102",
            ["* VANISHED (EARLIER) 2", "* 4 FETCH (UID 5 FLAGS () MODSEQ (102))", "* VANISHED 3"],
            ["NOOP", STATUS, CHANGED],
            ({5: set()}, {2}, None),
        ),
        (
            "MESSAGES 3 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 102",
            ["* VANISHED (EARLIER) 1:4294967295"],
            ["NOOP", STATUS, CHANGED, "UID FETCH 1:* (UID FLAGS)"],
            ({}, set(), {2, 3}),
        ),
        (
            "MESSAGES 0 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 102",
            [],
            ["NOOP", STATUS],
            ({}, set(), set()),
        ),
    ],
)
def test_qresync_in_a_folder_that_is_still_selected(
    status: str, says: list[str], commands: list[str], expected: tuple[object, ...]
) -> None:
    heard: list[str] = []
    answers = {STATUS: [f"* STATUS a ({status})"], CHANGED: says, "NOOP": ["* 9 EXISTS"]}

    def part(peer: Peer) -> None:
        peer.answer(*HEAD, "* 4 EXISTS", "* OK [HIGHESTMODSEQ 100] x")
        everything = ["* 1 FETCH (UID 2 FLAGS ())", "* 2 FETCH (UID 3 FLAGS ())"]
        heard.extend(peer.answer(*answers.get(command, everything)) for command in commands)
        peer.reply("+ idling")

    with talking("ENABLE QRESYNC", part) as mailbox:
        mailbox.examine("a")
        assert plain(mailbox.folder_news("a", SINCE, 4)) == expected
        assert mailbox.begin_idle() == ("* VANISHED 3" in says)  # told on the way, so not told again
    assert heard == commands


def test_a_selected_folder_that_was_made_anew_is_opened_again() -> None:
    def part(peer: Peer) -> None:
        peer.answer(*HEAD, "* 4 EXISTS", "* OK [HIGHESTMODSEQ 100] x")
        assert peer.answer() == "NOOP"
        assert peer.answer("* STATUS a (MESSAGES 1 UIDNEXT 2 UIDVALIDITY 8 HIGHESTMODSEQ 1)") == STATUS
        assert peer.answer("* OK [UIDVALIDITY 8] x", "* OK [HIGHESTMODSEQ 1] x", "* 1 EXISTS").startswith("EXAMINE")
        peer.answer("* 1 FETCH (UID 1 FLAGS ())")

    with talking("ENABLE QRESYNC", part) as mailbox:
        mailbox.examine("a")
        news = mailbox.folder_news("a", SINCE, 4)
    assert (plain(news), news.state.uidvalidity) == (({1: set()}, set(), {1}), 8)
