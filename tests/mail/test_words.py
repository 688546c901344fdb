"""Searches and the texts that they find, tested with the index itself."""

from collections.abc import Callable, Iterator

import apsw
import pytest

from mailbox_appliance.mail import search
from mailbox_appliance.model.messages import SearchedField, SearchTerm

Found = Callable[..., bool]


@pytest.fixture(scope="module")
def index() -> Iterator[apsw.Connection]:
    """Return an index like that of the store, in memory."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE message_index USING fts5(subject, sender, recipients, body, scope, content='',"
        " contentless_delete=1, detail=full, prefix='3 5', tokenize='unicode61 remove_diacritics 2')"
    )
    yield connection
    connection.close()


@pytest.fixture
def finds(index: apsw.Connection) -> Iterator[Found]:
    """Return a function that tests whether a term finds a text in one column."""

    def look(text: str, term: SearchTerm, column: str = "body") -> bool:
        index.execute(
            f"INSERT INTO message_index (rowid, {column}, scope) VALUES (1, ?, 'a1')", (search.to_index_text(text),)
        )
        said = search.match_expression([term], ["a1"])
        return said is not None and bool(
            list(index.execute("SELECT rowid FROM message_index WHERE message_index MATCH ?", (said,)))
        )

    yield look
    index.execute("DELETE FROM message_index")


# fmt: off
#: text, search, whether it is found
FINDING: list[tuple[str, str, bool]] = [
    ("The invoice is due",       "invoice",              True),
    ("The invoice is due",       "INVOICE",              True),
    ("The invoice is due",       "voice",                False),
    ("The invoice is due",       "invoices",             False),
    ("The invoice is due",       "invoice is",           True),
    ("The invoice is due",       "is invoice",           False),
    ("Die Rechnung für Zoë",     "fur zoe",              True),
    ("fur Zoe",                  "für Zoë",              True),
    ("Zoe\u0308 in Zu\u0308rich", "zoë in zürich",        True),
    ("x\u0302y",                 "x\u0302y",             True),
    ("x\u0302y",                 "xy",                   True),
    ("Donau\u00addampf",         "donaudampf",           True),
    ("bob@example.test",         "bob@example.test",     True),
    ("bob@example.test",         "example",              True),
    ("see https://a.example/b?c=d", "https://a.example/b?c=d", True),
    ("at 12:30",                 "12:30",                True),
    ("AND OR NOT NEAR",          "AND OR NOT NEAR",      True),
    ('say "quoted" so',          '"quoted"',             True),
    ("foo-bar",                  "foo-bar",              True),
    ("foo bar",                  "foo_bar",              True),
    ("Windows11",                "windows",              False),
    ("東京都に住む",              "東京",                  True),
    ("東京都に住む",              "京都",                  True),
    ("東京都に住む",              "東都",                  False),
    ("東京都に住む",              "住む",                  True),
    ("東京都に住む",              "東",                    True),
    ("東京都に住む",              "都",                    True),
    ("東京都に住む",              "む",                    True),
    ("東京都に住む",              "東京都に住む",           True),
    ("東京都に住む",              "東京都に住む人",         False),
    ("東京 大阪",                 "東京 大阪",             True),
    ("東京 大阪",                 "東京大阪",              False),
    ("版",                       "版",                    True),
    ("Windows版の話",             "windows版",            True),
    ("Windows版の話",             "windows版の",          True),
    ("新Windows版",               "新windows",            True),
    ("第3章です",                 "第3章",                 True),
    ("東京3区",                   "東京3",                True),
    ("テスト",                    "テスト",                True),
    ("ﾃｽﾄ",                      "テスト",                True),
    ("ガイド",                    "ｶﾞｲﾄﾞ",                True),
    ("Ｅｍａｉｌ",                 "email",                True),
    ("회의가 있습니다",            "회의",                  True),
    ("회의가 있습니다",            "의",                    True),
    ("\U00020000\U00020001\U00020002", "\U00020001\U00020002", True),
    ("Привет, Мир",              "привет мир",           True),
    ("ΑΘΗΝΑ",                    "αθηνα",                True),
    ("a\ue000b",                 "a",                    False),
    ("anything",                 "!!!",                  False),
    ("a1",                       "a1",                   True),
    ("other",                    "a1",                   False),
]
#: field of the term -> columns in which it is found
FIELDS: list[tuple[SearchedField, set[str]]] = [
    ("any",     {"subject", "sender", "recipients", "body"}),
    ("from",    {"sender"}),
    ("to",      {"recipients"}),
    ("subject", {"subject"}),
]
# fmt: on


@pytest.mark.parametrize(("text", "searched", "expected"), FINDING)
def test_what_finds_what(finds: Found, text: str, searched: str, expected: bool) -> None:
    assert finds(text, SearchTerm(searched)) is expected


@pytest.mark.parametrize(
    ("text", "searched", "expected"),
    [
        ("invoices", "inv", True),
        ("invoices", "invoices", True),
        ("voices", "inv", False),
        ("the invoices", "the inv", True),
        ("the old invoices", "the inv", False),
        ("invoice then", "inv th", False),
        ("東京都", "東京", True),
        ("Äpfel", "apf", True),
    ],
)
def test_the_last_word_may_be_a_beginning(finds: Found, text: str, searched: str, expected: bool) -> None:
    assert finds(text, SearchTerm(searched, is_prefix=True)) is expected


@pytest.mark.parametrize(("field", "columns"), FIELDS)
@pytest.mark.parametrize("is_prefix", [False, True])
def test_a_field_is_looked_for_in_its_column(
    index: apsw.Connection, field: SearchedField, columns: set[str], is_prefix: bool
) -> None:
    names = ("subject", "sender", "recipients", "body", "scope")
    for number, column in enumerate(names, 1):
        index.execute(f"INSERT INTO message_index (rowid, {column}) VALUES (?, 'a77')", (number,))
    said = search.match_expression([SearchTerm("A77"[: 2 if is_prefix else 3], field, is_prefix=is_prefix)])
    rows = list(index.execute("SELECT rowid FROM message_index WHERE message_index MATCH ?", (said,)))
    index.execute("DELETE FROM message_index")
    assert {names[number - 1] for (number,) in rows} == columns


@pytest.mark.parametrize(
    "typed",
    [
        '"',
        '""',
        "'",
        "*",
        "a*",
        "^a",
        "a AND",
        "NOT a",
        "NEAR(a b)",
        "{a} : b",
        "subject : a",
        "a + b",
        "(",
        "\0",
        "-a",
        "🙂",
        "a\ud800b",
    ],
)
def test_nothing_typed_is_read_as_a_query_language(index: apsw.Connection, typed: str) -> None:
    for term in (SearchTerm(typed), SearchTerm(typed, is_prefix=True), SearchTerm(typed, "subject")):
        said = search.match_expression([term], ["a1"])
        if said is not None:
            list(index.execute("SELECT rowid FROM message_index WHERE message_index MATCH ?", (said,)))


def test_only_the_scopes_that_are_named_are_searched(index: apsw.Connection) -> None:
    for number in (1, 2, 3):
        index.execute("INSERT INTO message_index (rowid, body, scope) VALUES (?, 'word', ?)", (number, f"a{number}"))
    sql = "SELECT rowid FROM message_index WHERE message_index MATCH ? ORDER BY rowid"
    found = [
        list(index.execute(sql, (search.match_expression([SearchTerm("word")], scopes),)))
        for scopes in ((), ("a2",), ("a3", "a1"))
    ]
    index.execute("DELETE FROM message_index")
    assert found == [[(1,), (2,), (3,)], [(2,)], [(1,), (3,)]]


def test_plain_ascii_is_indexed_as_it_is() -> None:
    text = "As it is: 100% plain"
    assert search.to_index_text(text) is text


def test_words_are_those_of_a_person() -> None:
    assert search.split_words("Hello, 東京都 (Ärger) a_b 1.5!") == ("Hello", "東京都", "Ärger", "a", "b", "1", "5")
    assert search.split_words("!?… 🙂") == ()
