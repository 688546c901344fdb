"""What IMAP servers answer, as values."""

from datetime import UTC, datetime

import pytest

from mailbox_appliance.records import AccountCapabilities, FetchedMessage, FolderState, ListedFolder
from mailbox_appliance.remote import imap_values


@pytest.mark.parametrize(
    ("line", "path", "delimiter", "attributes"),
    [
        (b'(\\HasNoChildren \\Sent) "/" Sent', "Sent", "/", {"\\hasnochildren", "\\sent"}),
        (b'() "." "INBOX.Entw&APw-rfe"', "INBOX.Entwürfe", ".", set()),
        (b'() "/" inbox', "INBOX", "/", set()),
        (b'() "/" "a \\"b\\" \\\\c"', 'a "b" \\c', "/", set()),
        (b'(\\Noselect) NIL ""', None, None, None),
        (b'() "/" 2024', "2024", "/", set()),
        (b'() "/" "2024"', "2024", "/", set()),
        (b'() "/" "R&-D"', "R&D", "/", set()),
        (b'(\\NoSelect) "/" Public', "Public", "/", {"\\noselect"}),
        (b"() NIL flat", "flat", None, set()),
        (b'() "/" ' + b"x" * 1025, None, None, None),
        (b'() "/" "half of a pair &2AA-"', None, None, None),  # no text: it could be neither stored nor shown
    ],
)
def test_folders(line: bytes, path: str | None, delimiter: str | None, attributes: set[str]) -> None:
    expected = () if path is None else (ListedFolder(path, delimiter, frozenset(attributes)),)
    assert imap_values.folders([line]) == expected


def test_a_folder_named_in_a_literal_and_one_listed_twice() -> None:
    data = [(b'() "/" {5}', b'a"b\\c'), b"", b'() "/" a', b'(\\Sent) "/" a', None]
    assert [folder.path for folder in imap_values.folders(data)] == ['a"b\\c', "a"]


def test_folders_are_bounded() -> None:
    lines = [b'() "/" f%d' % number for number in range(imap_values.MAX_FOLDERS + 5)]
    assert len(imap_values.folders(lines)) == imap_values.MAX_FOLDERS


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("INBOX", '"INBOX"'),
        ("Entwürfe", '"Entw&APw-rfe"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("R&D", '"R&-D"'),
        ("a\r\nA1 DELETE x", '"a&AA0ACg-A1 DELETE x"'),
    ],
)
def test_paths_on_the_wire(path: str, wire: str) -> None:
    assert imap_values.wire_path(path) == wire


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        ([b"1 (UID 5 FLAGS (\\Seen $Label))"], {5: {"\\Seen", "$Label"}}),
        ([b"1 (FLAGS () UID 5)"], {5: set()}),
        ([b"1 (UID 5 MODSEQ (12) FLAGS (\\SEEN \\Recent \\draft))"], {5: {"\\Seen", "\\Draft"}}),
        ([b"1 (FLAGS (\\Seen))"], {}),  # unasked: no UID
        ([b"1 (UID 5 FLAGS ())", b"1 (UID 5 FLAGS (\\Flagged))"], {5: {"\\Flagged"}}),  # the later one counts
        ([None], {}),
    ],
)
def test_flags(lines: list[bytes], flags: dict[int, set[str]]) -> None:
    assert imap_values.flags(lines) == flags


@pytest.mark.parametrize(
    ("uids", "sets"),
    [
        ([], []),
        ([7], ["7"]),
        ([3, 1, 2, 2], ["1:3"]),
        ([1, 2, 4, 6, 7, 8], ["1:2,4,6:8"]),
        ([4294967295], ["4294967295"]),
    ],
)
def test_uid_sets(uids: list[int], sets: list[str]) -> None:
    assert list(imap_values.uid_sets(uids)) == sets


def test_uid_sets_are_short() -> None:
    sets = list(imap_values.uid_sets(range(0, 10_000, 2)))
    assert len(sets) > 1
    assert max(map(len, sets)) <= imap_values.SET_LENGTH
    assert [int(uid) for one in sets for uid in one.split(",")] == list(range(0, 10_000, 2))


def test_messages_in_the_order_wanted() -> None:
    data = [
        (b'1 (UID 4 FLAGS (\\Seen) INTERNALDATE "21-Nov-2026 05:00:00 +0100" RFC822.SIZE 3 BODY[] {3}', b"one"),
        b")",
        (b'2 (UID 5 FLAGS () INTERNALDATE "rubbish" RFC822.SIZE 99 BODY[]<0> {3}', b"two"),
        b")",
        b"3 (UID 6 RFC822.SIZE 7 FLAGS () BODY[] NIL)",
        b"4 (UID 7 FLAGS (\\Seen))",
        b'5 (UID 8 BODY[] "quoted")',
    ]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert list(imap_values.messages(data, [5, 4, 6, 7, 8, 9])) == [
        FetchedMessage(5, frozenset(), epoch, 99, b"two"),
        FetchedMessage(4, frozenset({"\\Seen"}), datetime(2026, 11, 21, 4, tzinfo=UTC), 3, b"one"),
        FetchedMessage(6, frozenset(), epoch, 7, b""),
        FetchedMessage(8, frozenset(), epoch, 6, b"quoted"),
    ]


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("31-Dec-9999 23:59:59 -1200", datetime(1970, 1, 1, tzinfo=UTC)),  # in UTC there is no such moment
        ("31-Dec-9999 23:59:59 +0000", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_dates_at_the_end_of_time(written: str, moment: datetime) -> None:
    data = [(f'1 (UID 4 FLAGS () INTERNALDATE "{written}" RFC822.SIZE 3 BODY[] {{3}}'.encode(), b"one"), b")"]
    assert [message.internal_date for message in imap_values.messages(data, [4])] == [moment]


@pytest.mark.parametrize("data", [[None], [], [b""]])
def test_no_messages(data: list[bytes | None]) -> None:
    assert list(imap_values.messages(data, [1])) == []


@pytest.mark.parametrize(
    ("untagged", "state"),
    [
        (
            {"UIDVALIDITY": [b"9"], "UIDNEXT": [b"5"], "EXISTS": [b"2"], "HIGHESTMODSEQ": [b"77"]},
            FolderState(9, 5, 2, 77),
        ),
        ({"UIDVALIDITY": [b"9"], "EXISTS": [b"2", b"3"], "NOMODSEQ": [b""]}, FolderState(9, 0, 3, None)),
        ({}, FolderState(0, 0, 0, None)),
    ],
)
def test_folder_state(untagged: dict[str, list[bytes]], state: FolderState) -> None:
    assert imap_values.folder_state(untagged) == state


@pytest.mark.parametrize(
    ("text", "uid"),
    [(b"[APPENDUID 38505 3955] done", 3955), (b"done", None), (b"[APPENDUID 1 x]", None)],
)
def test_appended_uid(text: bytes, uid: int | None) -> None:
    assert imap_values.appended_uid(text) == uid


@pytest.mark.parametrize(
    ("words", "permanent", "expected"),
    [
        (b"IMAP4rev1", b"(\\Seen)", AccountCapabilities()),
        (
            b"IMAP4rev1 MOVE IDLE UIDPLUS",
            b"(\\Seen \\*)",
            AccountCapabilities(labels=True, move=True, idle=True, uidplus=True),
        ),
        (b"qresync", b"", AccountCapabilities(condstore=True, qresync=True)),
        (b"CONDSTORE", b"", AccountCapabilities(condstore=True)),
    ],
)
def test_capabilities(words: bytes, permanent: bytes, expected: AccountCapabilities) -> None:
    assert imap_values.capabilities(words.split(), permanent) == expected
