"""What FETCH answers say, well-formed or not."""

import random
import re
from datetime import UTC, datetime

import pytest

from mailbox_appliance.model.sync import FetchedMessage
from mailbox_appliance.remote.imap.values import (
    MAX_FLAGS,
    FetchCollector,
    FetchedItems,
    FlagCollector,
    SectionCollector,
    parse_flags,
    parse_internal_date,
    read_fetch,
)
from mailbox_appliance.remote.imap.wire import (
    MAX_DEPTH,
    MAX_UID,
    MAX_VALUES,
    Pieces,
    ResponseReader,
    Value,
    read_number,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pieces", "values"),
    [
        ([b"a 12 nil"], [b"a", b"12", None]),
        ([b'"" "a b" "a\\"b\\\\c"'], [b"", b"a b", b'a"b\\c']),
        ([b"((a) () b)  (c)"], [[[b"a"], [], b"b"], [b"c"]]),
        ([b"(a ", b'") (', b" b)"], [[b"a", b'") (', b"b"]]),
        ([b"", b"one", b"", b"two", b""], [b"one", b"two"]),
        ([b'"NIL" BODY[1.2] \\Seen '], [b"NIL", b"BODY[1.2]", b"\\Seen"]),
        ([b""], []),
    ],
)
def test_values(pieces: Pieces, values: list[Value]) -> None:
    assert ResponseReader(pieces, 0).read_rest() == values


@pytest.mark.parametrize("text", [b"(a", b'"a', b'"a\\"', b"(" * (MAX_DEPTH + 5) + b")" * (MAX_DEPTH + 5), b"(a "])
def test_no_values(text: bytes) -> None:
    with pytest.raises(ValueError):
        ResponseReader([text], 0).read_rest()


def test_more_values_than_anybody_needs() -> None:
    assert len(ResponseReader([b"(" + b"() " * (MAX_VALUES // 2 - 1) + b")"], 0).read_rest()) == 1
    with pytest.raises(ValueError):
        ResponseReader([b"(" + b"()" * (MAX_VALUES // 2) + b")"], 0).read_rest()


@pytest.mark.parametrize("value", [None, [], b"", b"-1", b"1.5", b"9" * 19, b"1" * 5000, "²".encode()])
def test_no_number(value: Value) -> None:
    with pytest.raises(ValueError):
        read_number(value)


def message(uid: int, source: bytes, *flags: str, at: datetime = EPOCH, size: int | None = None) -> FetchedMessage:
    return FetchedMessage(uid, frozenset(flags), at, len(source) if size is None else size, source)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            [
                [
                    b'* 1 FETCH (UID 4 FLAGS (\\Seen) INTERNALDATE "21-Nov-2026 05:00:00 +0100" RFC822.SIZE 3 BODY[] ',
                    b"one",
                    b")",
                ]
            ],
            message(4, b"one", "\\Seen", at=datetime(2026, 11, 21, 4, tzinfo=UTC)),
        ),
        (
            [[b"* 1 FETCH (BODY[] ", b"one", b" MODSEQ (12) FLAGS (\\SEEN \\Recent $A) UID 4)"]],
            message(4, b"one", "\\Seen", "$A"),
        ),
        ([[b"* 1 fetch (uid 4 flags () body[] ", b"one", b")"]], message(4, b"one")),
        ([[b"* 2 FETCH (UID 4 RFC822.SIZE 99 BODY[]<0> ", b"two", b")"]], message(4, b"two", size=99)),
        ([[b"* 2 FETCH (UID 4 RFC822.SIZE 7 BODY[] NIL)"]], message(4, b"", size=7)),
        ([[b'* 2 FETCH (UID 4 BODY[] "quo\\"ted" )']], message(4, b'quo"ted')),
        ([[b'* 2 FETCH (UID 4 BODY[HEADER.FIELDS (DATE "FROM")]<0> ', b"a: b", b")"]], message(4, b"a: b")),
        # An answer may come in parts, and among others.
        (
            [
                [b"* 2 FETCH (UID 4 FLAGS (a))"],
                [b"* 2 FETCH (UID 4 BODY[] ", b"two", b")"],
                [b"* 2 FETCH (UID 4 FLAGS (b))"],
            ],
            message(4, b"two", "b"),
        ),
        (
            [[b"* 2 FETCH (UID 4 BODY[] ", b"a) UID 5 (", b' X-GM-LABELS ("a b" ', b"(c", b") ENVELOPE ((NIL)))"]],
            message(4, b"a) UID 5 (", "a b", "(c"),
        ),
        ([[b"* 2 FETCH (UID 4 BODY[] ", b"two", b' INTERNALDATE "rubbish")']], message(4, b"two")),
        ([[b"* 2 FETCH (UID 4 FLAGS (a))"]], None),
        ([], None),
    ],
)
def test_messages(answers: list[Pieces], expected: FetchedMessage | None) -> None:
    collected = FetchCollector([4])
    assert all(collected.collect(pieces) for pieces in answers)
    assert (collected.found[4].to_message() if answers else None) == expected


@pytest.mark.parametrize(
    ("line", "with_flags"),
    [
        (b"* 1 FETCH (UID 5 FLAGS (\\Seen))", True),  # of another message
        (b"* 1 FETCH (FLAGS (\\Seen))", True),
        (b"* 1 FETCH (FLAGS (\\Seen) MODSEQ (12))", False),
        (b"* 1 FETCH (UID 4 FLAGS (\\Seen))", False),  # flags were not asked for: they changed
        (b"* 1 EXPUNGE", True),
        (b"* 3 EXISTS", True),
        (b"* OK [HIGHESTMODSEQ 4] FETCH (", True),
    ],
)
def test_news_among_the_answers(line: bytes, with_flags: bool) -> None:
    assert not FetchCollector([4], with_flags=with_flags).collect([line])


@pytest.mark.parametrize(
    "pieces",
    [
        [b"* 1 FETCH (UID 4"],
        [b"* 1 FETCH (UID 4) x"],
        [b"* 1 FETCH (UID 4 FLAGS)"],
        [b"* 1 FETCH (UID 4 FLAGS NIL)"],
        [b"* 1 FETCH (UID 0 FLAGS ())"],
        [b"* 1 FETCH (UID 4294967296 FLAGS ())"],
        [b"* 1 FETCH (UID NIL)"],
        [b"* 1 FETCH (UID (4))"],
        [b"* 1 FETCH (RFC822.SIZE 9999999999999999999)"],
        [b"* 1 FETCH (BODY[] (a))"],
        [b"* 1 FETCH (BODY[] ", b"a", b""],
        [b"* 1 FETCH (BODY[ a)"],
        [b"* 1 FETCH ( )("],
        [b"* 1 FETCH (UID 4 BODY[] "],
        [b"* 1 FETCH (UID 4 BODY[] ", b"a", b") x"],
        [b"* 1 FETCH (UID 0 RFC822.SIZE 3)"],
        [b"* 1 FETCH ((UID 4))"],
    ],
)
def test_bad_answers(pieces: Pieces) -> None:
    with pytest.raises(ValueError):
        read_fetch(pieces)


def test_broken_answers_are_bad_or_fine() -> None:
    chance = random.Random(7)
    whole = (
        b'* 12 FETCH (UID 4 FLAGS (\\Seen $A) INTERNALDATE " 4-Mar-2026 05:06:07 +0000" BODY[] "a\\"b" X (a (b "c")))'
    )
    for _ in range(20_000):
        line = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            line[chance.randrange(len(line))] = chance.choice(b'()"\\ []<>0A\xff')
        pieces = [bytes(line[: chance.randint(0, len(line))]), b"literal", bytes(line[chance.randint(0, len(line)) :])]
        try:
            told = read_fetch(pieces)
        except ValueError:
            continue
        assert told is None or is_fine(told), pieces


def is_fine(told: FetchedItems) -> bool:
    """Whether all that was told is such as a caller can rely on."""
    return (
        (told.uid is None or 0 < told.uid <= MAX_UID)
        and (told.size is None or 0 <= told.size < 1 << 63)
        and (told.flags is None or not any(re.search(r'[ ()"]|^$', flag) for flag in told.flags))
        and (told.internal_date is None or told.internal_date.tzinfo is UTC)
        and (told.section is None or isinstance(told.section, bytes))
    )


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        ([b"* 1 FETCH (UID 5 FLAGS (\\Seen $Label))"], {5: {"\\Seen", "$Label"}}),
        ([b"* 1 FETCH (UID 5 FLAGS (\\Seen) MODSEQ (9))"], {5: {"\\Seen"}}),
        ([b"* 1 FETCH (FLAGS () UID 5)"], {5: set()}),
        ([b"* 1 FETCH (UID 5 MODSEQ (12) FLAGS (\\SEEN \\Recent \\draft))"], {5: {"\\Seen", "\\Draft"}}),
        ([b"* 1 FETCH (UID 5 FLAGS (  a  b ))"], {5: {"a", "b"}}),
        ([b"* 1 FETCH (UID 5 FLAGS ())", b"* 1 FETCH (UID 5 FLAGS (\\Flagged))"], {5: {"\\Flagged"}}),
        ([b"* 1 FETCH (UID 5 FLAGS (" + b"x" * 300 + b"))"], {5: {"x" * 300}}),
        ([b"* 1 FETCH (UID 5 FLAGS (\xff))"], {5: {"\ufffd"}}),
    ],
)
def test_flags(lines: list[bytes], flags: dict[int, set[str]]) -> None:
    answers = FlagCollector()
    assert all(answers.collect([line]) for line in lines)
    assert answers.found == flags


def test_more_flags_than_anybody_needs() -> None:
    found = parse_flags(b" ".join(b"label%d" % number for number in range(5000)) + b" \\SEEN")
    assert (len(found), "\\Seen" in found, "label0" in found) == (MAX_FLAGS, True, True)


@pytest.mark.parametrize("line", [b"* 1 FETCH (FLAGS (\\Seen))", b"* 1 FETCH (UID 6 FLAGS ())", b"* 1 FETCH (UID 5)"])
def test_flags_that_were_not_asked_for(line: bytes) -> None:
    answers = FlagCollector({5})
    assert not answers.collect([line])
    assert not answers.found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b" 4-Mar-2026 05:06:07 +0000", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)),
        (b"04-MAR-2026 05:06:07 -0130", datetime(2026, 3, 4, 6, 36, 7, tzinfo=UTC)),
        (b"31-Dec-1998 23:59:60 +0000", datetime(1998, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (b"31-Dec-9999 23:59:59 +0000", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (b"31-Dec-9999 23:59:59 -1200", EPOCH),  # in UTC there is no such moment
        (b"00-Mar-2026 05:06:07 +0000", EPOCH),
        (b"04-Mrz-2026 05:06:07 +0000", EPOCH),
        (b"04-Mar-2026 25:06:07 +0000", EPOCH),
        (b"", EPOCH),
        (None, EPOCH),
        ([], EPOCH),
    ],
)
def test_dates(written: Value, expected: datetime) -> None:
    assert parse_internal_date(written) == expected


# --- sections of one message ---


def section(name: str, data: bytes, before: str = "UID 1") -> Pieces:
    return [f"* 1 FETCH ({before} BODY{name} ".encode(), data, b")"]


def test_of_sections_no_more_is_kept_than_was_asked_for() -> None:
    answers = SectionCollector(1, {"BODY[2]<10>": 4, "BODY[3]<0>": 4})
    assert answers.collect(section("[2]<10>", b"12345"))
    assert answers.collect(section("[3]<0>", b"123"))
    for name in ("[4]<10>", "[2]<11>", "[2]"):
        assert answers.collect(section(name, b"1234"))
    assert not answers.collect(section("[3]<0>", b"abc", "UID 2"))
    assert not answers.collect(section("[3]<0>", b"abcd", "UID 1 FLAGS (\\Seen)")), "news of a change, too"
    assert answers.found == {"BODY[2]<10>": b"1234", "BODY[3]<0>": b"abcd"}


@pytest.mark.parametrize("name", ["[2]<10>", "[2]<11>"])
def test_far_more_than_was_asked_for_is_not_listened_to(name: str) -> None:
    answers = SectionCollector(1, {"BODY[2]<10>": 4})
    for _ in range(3):
        assert answers.collect(section(name, bytes(300_000)))
    with pytest.raises(ValueError, match="far more"):
        answers.collect(section(name, bytes(300_000)))
