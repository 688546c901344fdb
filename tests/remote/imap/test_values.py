"""What IMAP servers answer, as values."""

import pytest

from mailbox_appliance.model.accounts import AccountCapabilities
from mailbox_appliance.model.sync import FolderState, ListedFolder
from mailbox_appliance.remote.imap import values
from mailbox_appliance.remote.imap.folders import SelectedFolder


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
        # Written by careless clients, or by servers of their own mind: we could not call it by this name.
        (b'() "/" R&D', None, None, None),
        (b'() "/" &ZZ-', None, None, None),
        (b'() "/" Caf&', None, None, None),
        (b'() "/" &AGE-', None, None, None),
        (b'() "/" "Entw\xc3\xbcrfe"', None, None, None),
        (b'() "\xa7" x', None, None, None),
        (b'() "/"', None, None, None),
        (b"", None, None, None),
    ],
)
def test_folders(line: bytes, path: str | None, delimiter: str | None, attributes: set[str]) -> None:
    expected = () if path is None else (ListedFolder(path, delimiter, frozenset(attributes)),)
    found = values.read_listed_folder([b"* LIST " + line])
    assert (() if found is None else (found,)) == expected


def test_a_folder_named_in_a_literal() -> None:
    found = values.read_listed_folder([b'* list (\\Sent) "/" ', b'a"b\\c', b""])
    assert found == ListedFolder('a"b\\c', "/", frozenset({"\\sent"}))


@pytest.mark.parametrize("pieces", [[b"* LSUB () NIL a"], [b"* OK LIST"], [b"* 4 EXISTS"]])
def test_no_folder(pieces: list[bytes]) -> None:
    assert values.read_listed_folder(pieces) is None
    assert values.read_status(pieces) is None


@pytest.mark.parametrize("line", [b"* LIST (", b'* LIST a "/" b', b'* LIST () ("/") b', b'* LIST () "/" (b)'])
def test_bad_folders(line: bytes) -> None:
    with pytest.raises(ValueError):
        values.read_listed_folder([line])


@pytest.mark.parametrize(
    ("line", "path", "state"),
    [
        (b'"a b" (MESSAGES 2 UIDNEXT 5 UIDVALIDITY 9 HIGHESTMODSEQ 77)', "a b", FolderState(9, 5, 2, 77)),
        (b"inbox (uidvalidity 9 messages 2)", "INBOX", FolderState(9, 0, 2, None)),
        (b"&APw- (HIGHESTMODSEQ 0 UNSEEN 3)", "ü", FolderState(0, 0, 0, None)),
        (b"a (HIGHESTMODSEQ 9223372036854775807)", "a", FolderState(0, 0, 0, (1 << 63) - 1)),
        (b"a (HIGHESTMODSEQ 9223372036854775808)", "a", FolderState(0, 0, 0, None)),  # RFC 4551 had 64 bits
        (b"a ()", "a", FolderState(0, 0, 0, None)),
    ],
)
def test_status(line: bytes, path: str, state: FolderState) -> None:
    assert values.read_status([b"* STATUS " + line]) == (path, state)


@pytest.mark.parametrize("line", [b"R&D (MESSAGES 2)", b"a", b""])
def test_no_status(line: bytes) -> None:
    assert values.read_status([b"* STATUS " + line]) is None


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
    assert values.encode_folder_path(path) == wire


@pytest.mark.parametrize(
    ("name", "expected"),
    [("$Work", True), ("\\Seen", True), ("a-b_c.d:e", True), ("\\Recent", False), ("", False), ("a b", False)]
    + [(name, False) for name in ("a)", "a\r\nb", 'a"', "ü", "a{3}", "a%", "a*", "\\", "a\\b", "a]")],
)
def test_flags_that_can_be_written(name: str, expected: bool) -> None:
    assert values.is_flag(name) is expected


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
    assert list(values.uid_sets(uids)) == sets


def test_uid_sets_are_short() -> None:
    sets = list(values.uid_sets(range(0, 10_000, 2)))
    assert len(sets) > 1
    assert max(map(len, sets)) <= values.SET_LENGTH
    assert [int(uid) for one in sets for uid in one.split(",")] == list(range(0, 10_000, 2))


@pytest.mark.parametrize(
    ("text", "most", "uids"),
    [
        (b"5", 1, [5]),
        (b"7:9,3", 4, [7, 8, 9, 3]),  # in their order: COPYUID depends on it
        (b"9:7", 3, [7, 8, 9]),
        (b"1:4294967295", 1000, None),
        (b"1:3,5", 3, None),
    ],
)
def test_sets_that_are_read(text: bytes, most: int, uids: list[int] | None) -> None:
    assert values.read_uid_set(text, most) == uids


@pytest.mark.parametrize("text", [b"", b"1,", b"a", b"1:*", b"0", b"4294967296", b"1:2:3", b"12345678901"])
def test_sets_that_are_none(text: bytes) -> None:
    with pytest.raises(ValueError):
        values.read_uid_set(text, 10)


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        (b"[COPYUID 38505 304,319:320 3956:3958] Done", {304: 3956, 319: 3957, 320: 3958}),
        (b"* OK [copyuid 1 320,304 7:8] Done", {320: 7, 304: 8}),
        (b"[COPYUID 1 304,400 7:8] Done", {304: 7}),  # 400 was not asked for
        (b"[COPYUID 1 304:320 7:23] Done", {}),  # more than asked for
        (b"[COPYUID 1 304,319 7] Done", {}),
        (b"[COPYUID 1 304, 7] Done", {}),
        (b"[COPYUID 1 304 0] Done", {}),
        (b"Done", {}),
    ],
)
def test_copied_uids(text: bytes, copied: dict[int, int]) -> None:
    assert values.copied_uids(text, frozenset({304, 319, 320})) == copied


@pytest.mark.parametrize(("uidvalidity", "uid"), [(38505, 7), (38506, None), (8505, None), (None, 7)])
def test_uids_of_another_uidvalidity_mean_nothing(uidvalidity: int | None, uid: int | None) -> None:
    assert values.copied_uids(b"* OK [COPYUID 38505 304 7] Moved", {304}, uidvalidity) == {304: uid}
    assert values.appended_uid(b"[APPENDUID 38505 7] Done", uidvalidity) == uid


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (
            [b"* 2 EXISTS", b"* OK [UIDVALIDITY 9] x", b"* OK [UIDNEXT 5]", b"* OK [HIGHESTMODSEQ 77] x"],
            FolderState(9, 5, 2, 77),
        ),
        ([b"* ok [uidvalidity 9]", b"* 2 EXISTS", b"* 3 EXISTS", b"* OK [NOMODSEQ] none"], FolderState(9, 0, 3, None)),
        ([b"* OK [HIGHESTMODSEQ 18446744073709551615] x"], FolderState(0, 0, 0, None)),
        ([], FolderState(0, 0, 0, None)),
    ],
)
def test_folder_state(lines: list[bytes], state: FolderState) -> None:
    opened = SelectedFolder()
    assert all(opened.collect([line]) for line in lines if b"NOMODSEQ" not in line)
    assert opened.state == state


@pytest.mark.parametrize(
    ("text", "uid"),
    [(b"[APPENDUID 38505 3955] done", 3955), (b"done", None), (b"[APPENDUID 1 x]", None), (b"[APPENDUID 1 0]", None)],
)
def test_appended_uid(text: bytes, uid: int | None) -> None:
    assert values.appended_uid(text) == uid


@pytest.mark.parametrize(
    ("words", "permanent", "expected"),
    [
        ("IMAP4REV1", "\\Seen", AccountCapabilities()),
        (
            "IMAP4REV1 MOVE IDLE UIDPLUS",
            "\\Seen \\*",
            AccountCapabilities(labels=True, move=True, idle=True, uidplus=True),
        ),
        ("QRESYNC", "", AccountCapabilities(condstore=True, qresync=True)),
        ("CONDSTORE", "", AccountCapabilities(condstore=True)),
    ],
)
def test_capabilities(words: str, permanent: str, expected: AccountCapabilities) -> None:
    assert values.account_capabilities(words.split(), permanent.split()) == expected
