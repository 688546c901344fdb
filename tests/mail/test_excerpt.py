"""What is said of a body in which a text was searched."""

import pytest

from mailbox_appliance.mail.html.analysis import TAG_READER
from mailbox_appliance.mail.search import EXCERPT_LENGTH, LONGEST_TEXT, MOST_HTML, ExcerptFinder
from mailbox_appliance.model.messages import SearchMatched, SearchNoMatch, SearchScanLimit, SearchUnavailable
from mailbox_appliance.sync.parse_child import BoundedReader

LONG = " ".join(f"word{number}" for number in range(100))

# fmt: off
#: body, text, what is shown of it (None: it does not stand there)
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
    expected = SearchNoMatch() if shown is None else SearchMatched(excerpt=shown)
    assert ExcerptFinder(text).find(body, None) == expected


def test_of_a_long_body_a_part_is_shown_in_whole_words() -> None:
    context = ExcerptFinder("word50").find(LONG, None)
    assert isinstance(context, SearchMatched)
    assert context.excerpt.startswith("…word4")
    assert context.excerpt.endswith("…")
    assert " word50 " in context.excerpt
    assert 100 < len(context.excerpt) <= EXCERPT_LENGTH + 2
    assert all(word in LONG.split() for word in context.excerpt.strip("…").split())


@pytest.mark.parametrize("text", ["word0", "word99"])
def test_at_an_end_nothing_is_left_out(text: str) -> None:
    context = ExcerptFinder(text).find(LONG, None)
    assert isinstance(context, SearchMatched)
    assert context.excerpt.startswith("word0") == (text == "word0")
    assert context.excerpt.endswith("word99") == (text == "word99")


def test_the_text_of_html_is_looked_at_where_there_is_no_other() -> None:
    html = "<style>.plan {}</style><p>The <b>new</b> plan</p>"
    assert ExcerptFinder("new plan", BoundedReader()).find(None, html) == SearchMatched(excerpt="The new plan")
    assert ExcerptFinder("new plan", BoundedReader()).find("Another text", html) == SearchNoMatch()
    assert ExcerptFinder("style", BoundedReader()).find(None, html) == SearchNoMatch()
    assert ExcerptFinder("plan").find(None, None) == SearchNoMatch()


def test_a_body_that_is_not_there_is_unavailable() -> None:
    assert ExcerptFinder("plan").find(None, None, is_there=False) == SearchUnavailable()


def test_only_so_much_is_looked_through() -> None:
    body = "x " * (LONGEST_TEXT // 2) + "here"
    assert ExcerptFinder("here").find(body, None) == SearchScanLimit()
    assert isinstance(ExcerptFinder("x x").find(body, None), SearchMatched)
    assert ExcerptFinder("here", BoundedReader()).find(None, f"<p>{body}") == SearchScanLimit()


def test_html_that_is_not_analyzed_says_nothing() -> None:
    """What is hidden in it could stand in an excerpt."""
    excerpts = ExcerptFinder("plan", TAG_READER)
    assert excerpts.find(None, "<p hidden>The plan</p>") == SearchScanLimit()
    assert excerpts.find(None, "<p>The plan</p>") == SearchScanLimit()
    assert excerpts.find("The plan", "<p>The plan</p>") == SearchMatched(excerpt="The plan")


def test_of_all_the_html_of_a_page_only_so_much_is_read() -> None:
    excerpts = ExcerptFinder("here", BoundedReader())
    newsletter = "<p>" + "x " * (LONGEST_TEXT // 2 - 10)
    contexts = [excerpts.find(None, newsletter) for _ in range(MOST_HTML // LONGEST_TEXT + 2)]
    assert contexts[0] == SearchNoMatch()
    assert contexts[-1] == SearchScanLimit()
    assert excerpts.find("here it is", None) == SearchMatched(excerpt="here it is")
