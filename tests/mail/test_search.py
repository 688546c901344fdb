"""Typed queries and their filters."""

import re

import pytest

from mailbox_appliance.mail import search
from mailbox_appliance.mail.html.analysis import TAG_READER
from mailbox_appliance.mail.search import EXCERPT_LENGTH, LONGEST_TEXT, MOST_HTML, ExcerptFinder
from mailbox_appliance.model.messages import (
    MessageFilter,
    SearchedField,
    SearchMatch,
    SearchNoMatch,
    SearchScanLimit,
    SearchTerm,
    SearchUnavailable,
)
from mailbox_appliance.sync.parse_child import BoundedReader

DAY = 86_400_000
NEW_YEAR = 20454 * DAY  # 2026-01-01T00:00Z


def _terms(*terms: SearchTerm | str) -> MessageFilter:
    return MessageFilter(terms=tuple(SearchTerm(term) if isinstance(term, str) else term for term in terms))


def _in(field: SearchedField, text: str) -> MessageFilter:
    return _terms(SearchTerm(text, field))


# fmt: off
READING: list[tuple[str, MessageFilter]] = [
    ("",                              MessageFilter()),
    (" \t\n",                         MessageFilter()),
    ("invoice",                       _terms("invoice")),
    ("invoice  March",                _terms("invoice", "March")),
    ('"due date"',                    _terms("due date")),
    ('pay "due date" now',            _terms("pay", "due date", "now")),
    ('pay"due date"now',              _terms("pay", "due date", "now")),
    ("\u201cdue date\u201d",          _terms("due date")),
    ('"never closed',                 _terms("never closed")),
    ('word "',                        _terms("word")),
    ('word ""',                       _terms("word")),
    ("inv*",                          _terms(SearchTerm("inv*", is_prefix=True))),
    ('"the inv"*',                    _terms(SearchTerm("the inv", is_prefix=True))),
    ('"the inv*"',                    _terms("the inv*")),
    ("in*v",                          _terms("in*v")),
    ("東*",                            _terms(SearchTerm("東*", is_prefix=True))),
    ("from:ada@example.org",          _in("from", "ada@example.org")),
    ("FROM:Ada",                      _in("from", "Ada")),
    ('From:"Ada L."',                 _in("from", "Ada L.")),
    ("to:bob",                        _in("to", "bob")),
    ('subject:"the plan"',            _in("subject", "the plan")),
    ("subject:pl*",                   _terms(SearchTerm("pl*", "subject", is_prefix=True))),
    ("subject:re:plan",               _in("subject", "re:plan")),
    ("is:unread",                     MessageFilter(unread=True)),
    ("is:READ",                       MessageFilter(unread=False)),
    ("Is:Starred",                    MessageFilter(starred=True)),
    ("has:attachment",                MessageFilter(has_attachment=True)),
    ('has:"attachment"',              MessageFilter(has_attachment=True)),
    ("label:Work",                    MessageFilter(labels=("Work",))),
    ('label:"$Important" label:b',    MessageFilter(labels=("$Important", "b"))),
    ("after:2026-01-01",              MessageFilter(after=NEW_YEAR)),
    ("before:2026-01-01",             MessageFilter(before=NEW_YEAR)),
    ("after:2026-01-01T01:00:00Z",    MessageFilter(after=NEW_YEAR + DAY // 24)),
    ("after:2026-01-01t01:00z",       MessageFilter(after=NEW_YEAR + DAY // 24)),
    ("after:2026-01-01T01:00",        MessageFilter(after=NEW_YEAR + DAY // 24)),
    ("after:2026-01-01T02:00+01:00",  MessageFilter(after=NEW_YEAR + DAY // 24)),
    ('after:"2026-01-01 01:00:00.5"', MessageFilter(after=NEW_YEAR + DAY // 24 + 500)),
    ("after:2026-01-01 after:2026-01-02 before:2026-01-05 before:2026-01-04",
                                      MessageFilter(after=NEW_YEAR + DAY, before=NEW_YEAR + 3 * DAY)),
    ("12:30",                         _terms("12:30")),
    ("https://a.example/?b=c:d",      _terms("https://a.example/?b=c:d")),
    ("Re: plan",                      _terms("Re:", "plan")),
    ("in:inbox",                      _terms("in:inbox")),
    ('note:"a b"',                    _terms("note:a b")),
    ("-from:ada",                     _terms("-from:ada")),
    ("is:unread is:unread",           MessageFilter(unread=True)),
    ("invoice - March",               _terms("invoice", "March")),
    ("AND OR NOT",                    _terms("AND", "OR", "NOT")),
]
#: queries that match no message
IMPOSSIBLE = ["!!!", '""', '"', "🙂", "- is:unread", "is:read is:unread", "from:!!!", "from:!!! invoice", "subject:*"]
#: query -> the error
REFUSED: list[tuple[str, str]] = [
    ("is:important",            "Unknown value is:important. Supported values: is:unread, is:read, is:starred."),
    ("has:image",               "Unknown value has:image. Supported values: has:attachment."),
    ("before:yesterday",        "A date must be written as 2026-01-31 or 2026-01-31T12:00:00Z."),
    ("after:2026-02-30",        "A date must be written as"),
    ("after:2026-1-1",          "A date must be written as"),
    ("after:20260101",          "A date must be written as"),
    ("after:2026-01-01T25:00",  "A date must be written as"),
    ("after:2026-01-01T01",     "A date must be written as"),
    ("after:٢٠٢٦-01-01",        "A date must be written as"),
    ("after:0000-01-01",        "A date must be written as"),
    ("from: ada",               "from: needs a value directly after the colon, without a space."),
    ("invoice Subject:",        "subject: needs"),
    ('to:""',                   "to: needs"),
    ("before: 2026-01-01",      "before: needs"),
    ("label:",                  "label: needs"),
    ("i*",                      "A prefix needs at least 2 letters before *."),
    ('"in v"*',                 "A prefix needs"),
    ("from:a*",                 "A prefix needs"),
    ("be* " * 6,                "A query can have at most 5 prefixes (words that end in *)."),
    ('"' + "word " * 101 + '"', "A query can have at most 100 words, including the words of its phrases."),
    ("word " * 51,              "A query can have at most 50 words and phrases."),
]
#: query -> parts that look like keys and are not
MISREAD: list[tuple[str, tuple[str, ...]]] = [
    ("",                                ()),
    ("invoice from:ada is:read",        ()),
    ("12:30 https://a.example re:plan", ()),
    ('"in:trash" "-from:ada" a:b',      ()),
    ("in: trash",                       ()),
    ("in:trash CC:carol cc:bob",        ("in:", "cc:")),
    ("-from:ada -is:read -plan",        ("-from:", "-is:")),
    ('-from:"Ada L." cc:"Bob"',         ("-from:", "cc:")),
    ("older_than:3d -larger:5M",        ("older_than:", "-larger:")),
    ("pain:in:the subject:in:trash",    ()),
]
# fmt: on


@pytest.mark.parametrize(("typed", "expected"), READING)
def test_what_is_typed_is_a_filter(typed: str, expected: MessageFilter) -> None:
    assert search.parse_query(typed) == expected


@pytest.mark.parametrize("typed", IMPOSSIBLE)
def test_what_no_message_can_hold_means_none(typed: str) -> None:
    assert search.parse_query(typed).is_impossible


@pytest.mark.parametrize(("typed", "sentence"), REFUSED)
def test_what_cannot_be_meant_is_said(typed: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        search.parse_query(typed)


@pytest.mark.parametrize(("typed", "found"), MISREAD)
def test_keys_of_other_languages_are_noticed(typed: str, found: tuple[str, ...]) -> None:
    assert search.misread_keys(typed) == found


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("invoice -draft -Entwürfe", ("-draft", "-Entwürfe")),
        ('invoice -"due date" "-draft"', ('-"',)),
        ("cats OR dogs AND NOT birds", ("OR", "AND", "NOT")),
        ("cats or dogs and not birds", ()),
        ('"OR" subject:OR or: ORDER', ()),
        ("-from:ada -is:read -label:work", ()),
        ("-draft -draft", ("-draft",)),
        ("-foo:bar", ("-foo",)),
        ("well-known - -- -5 --all a -", ()),
        ("-" + "x" * 500, ("-" + "x" * 40,)),
    ],
)
def test_words_that_leave_out_or_choose_elsewhere_are_noticed(typed: str, found: tuple[str, ...]) -> None:
    assert search.misread_words(typed) == found


def test_filters_add_up() -> None:
    one = MessageFilter(terms=(SearchTerm("a"),), unread=True, labels=("x",), after=1, before=9)
    two = MessageFilter(
        terms=(SearchTerm("b", "from"),), text="t", unread=True, starred=False, labels=("y",), after=2, before=8
    )
    assert search.combine_filters([one, two]) == MessageFilter(
        terms=(SearchTerm("a"), SearchTerm("b", "from")),
        text="t",
        unread=True,
        starred=False,
        labels=("x", "y"),
        after=2,
        before=8,
    )
    assert search.combine_filters([]) == MessageFilter()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (MessageFilter(unread=True), MessageFilter(unread=False)),
        (MessageFilter(starred=True), MessageFilter(starred=False)),
        (MessageFilter(has_attachment=False), MessageFilter(has_attachment=True)),
        (MessageFilter(is_impossible=True), MessageFilter()),
    ],
)
def test_filters_that_exclude_each_other_mean_nothing(one: MessageFilter, two: MessageFilter) -> None:
    assert search.combine_filters([one, two]).is_impossible
    assert search.combine_filters([two, one]).is_impossible


# --- The result for a body in which a text was searched ---


LONG = " ".join(f"word{number}" for number in range(100))

# fmt: off
#: body, text, the excerpt (None: the text does not occur)
SHOWN: list[tuple[str, str, str | None]] = [
    ("Here it is.",                   "it is",         "Here it is."),
    ("Here it is.",                   "IT IS",         "Here it is."),
    ("Here\r\n  it\u00a0is.",         "it   is",       "Here it is."),
    ("Here it is.",                   " it\tis ",      "Here it is."),
    ("Here it, is.",                  "it is",         None),
    ("",                              "it",            None),
    ("in the middle: itself",         "its",           "in the middle: itself"),
    ("Zu\u0308rich",                  "zürich",        "Zürich"),
    ("東京都に住む",                   "京都",           "東京都に住む"),
    ("İstanbul and İzmir are here",   "are here",      "İstanbul and İzmir are here"),
    ("İstanbul",                      "İSTANBUL",      "İstanbul"),
    ("x" * 300,                       "x" * 3,         "x" * EXCERPT_LENGTH + "…"),
]
# fmt: on


@pytest.mark.parametrize(("body", "text", "shown"), SHOWN)
def test_a_body_shows_where_the_text_stands(body: str, text: str, shown: str | None) -> None:
    expected = SearchNoMatch() if shown is None else SearchMatch(excerpt=shown)
    assert ExcerptFinder(text).find(body, None) == expected


def test_of_a_long_body_a_part_is_shown_in_whole_words() -> None:
    context = ExcerptFinder("word50").find(LONG, None)
    assert isinstance(context, SearchMatch)
    assert context.excerpt.startswith("…word4")
    assert context.excerpt.endswith("…")
    assert " word50 " in context.excerpt
    assert 100 < len(context.excerpt) <= EXCERPT_LENGTH + 2
    assert all(word in LONG.split() for word in context.excerpt.strip("…").split())


@pytest.mark.parametrize("text", ["word0", "word99"])
def test_at_an_end_nothing_is_left_out(text: str) -> None:
    context = ExcerptFinder(text).find(LONG, None)
    assert isinstance(context, SearchMatch)
    assert context.excerpt.startswith("word0") == (text == "word0")
    assert context.excerpt.endswith("word99") == (text == "word99")


def test_the_text_of_html_is_looked_at_where_there_is_no_other() -> None:
    html = "<style>.plan {}</style><p>The <b>new</b> plan</p>"
    assert ExcerptFinder("new plan", BoundedReader()).find(None, html) == SearchMatch(excerpt="The new plan")
    assert ExcerptFinder("new plan", BoundedReader()).find("Another text", html) == SearchNoMatch()
    assert ExcerptFinder("style", BoundedReader()).find(None, html) == SearchNoMatch()
    assert ExcerptFinder("plan").find(None, None) == SearchNoMatch()


def test_a_body_that_is_not_there_is_unavailable() -> None:
    assert ExcerptFinder("plan").find(None, None, is_there=False) == SearchUnavailable()


def test_only_so_much_is_looked_through() -> None:
    body = "x " * (LONGEST_TEXT // 2) + "here"
    assert ExcerptFinder("here").find(body, None) == SearchScanLimit()
    assert isinstance(ExcerptFinder("x x").find(body, None), SearchMatch)
    assert ExcerptFinder("here", BoundedReader()).find(None, f"<p>{body}") == SearchScanLimit()


def test_html_that_is_not_analyzed_says_nothing() -> None:
    """Hidden text of it could appear in an excerpt."""
    excerpts = ExcerptFinder("plan", TAG_READER)
    assert excerpts.find(None, "<p hidden>The plan</p>") == SearchScanLimit()
    assert excerpts.find(None, "<p>The plan</p>") == SearchScanLimit()
    assert excerpts.find("The plan", "<p>The plan</p>") == SearchMatch(excerpt="The plan")


def test_of_all_the_html_of_a_page_only_so_much_is_read() -> None:
    excerpts = ExcerptFinder("here", BoundedReader())
    newsletter = "<p>" + "x " * (LONGEST_TEXT // 2 - 10)
    contexts = [excerpts.find(None, newsletter) for _ in range(MOST_HTML // LONGEST_TEXT + 2)]
    assert contexts[0] == SearchNoMatch()
    assert contexts[-1] == SearchScanLimit()
    assert excerpts.find("here it is", None) == SearchMatch(excerpt="here it is")
