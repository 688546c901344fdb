"""A large body that is read page by page is made readable once."""

import time
from collections.abc import Iterator

import pytest

from mailbox_appliance.mail.alternatives import DIFFERENCE_WARNING
from mailbox_appliance.mail.html.analysis import (
    UNANALYZED,
    UNANALYZED_PLAIN,
    UNCOMPARED,
    HiddenText,
    extract_visible,
    visible_text,
)
from mailbox_appliance.model.messages import BodyFormat, StoredBody
from mailbox_appliance.operations.contents import body_in_form, readable_text
from mailbox_appliance.sync.html_readers import HtmlReaders

HTML = "".join(f"<p>Line <b>{number}</b><i style='display:none'>hidden</i></p>\n" for number in range(100))
TEXT = "".join(f"Line {number}, Gr\u00fc\u200b\u00dfe \U0001f4e8\n" for number in range(100_000))
HOSTILE = "<p>seen</p><p hidden>not seen</p><style>td{color:#111}</style><table>" + "<tr><td>x<td>y" * 140_000


@pytest.fixture(scope="module")
def readers() -> Iterator[HtmlReaders]:
    made = HtmlReaders(4)
    yield made
    made.close()


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_html_is_analyzed(form: BodyFormat, readers: HtmlReaders) -> None:
    seen, hidden = extract_visible(HTML, form)
    assert body_in_form(StoredBody(text=None, html=HTML, is_there=True), form, readers, visible_only=True) == (
        seen,
        hidden.warnings(),
    )


def test_what_comes_again_is_the_same_and_another_one_is_not() -> None:
    other = TEXT.replace("Line", "Word")
    for source in (TEXT, TEXT, other, TEXT, "short", TEXT):
        assert readable_text(source) == visible_text(source)


def test_it_is_not_made_again() -> None:
    wanted = readable_text(TEXT)
    began = time.process_time()
    visible_text(TEXT)
    once = time.process_time() - began
    began = time.process_time()
    for _ in range(4):
        assert readable_text("".join([TEXT])) == wanted
    assert time.process_time() - began < 3 * once


def test_html_that_is_too_expensive_is_read_by_its_tags(readers: HtmlReaders) -> None:
    alone = StoredBody(text=None, html=HOSTILE, is_there=True)
    for form in ("text", "markdown", "html"):
        content, warnings = body_in_form(alone, form, readers, visible_only=True)
        assert content.removeprefix("<pre>").startswith("seen\n\nnot seen\n\nx y"), content[:40]
        assert content.startswith("<pre>") == (form == "html")
        assert warnings[0] == UNANALYZED  # on a slow machine only the beginning is read


def test_the_plain_part_stands_for_html_that_is_too_expensive(readers: HtmlReaders) -> None:
    both = StoredBody(text="a & b", html=HOSTILE, is_there=True)
    assert body_in_form(both, "markdown", readers, visible_only=False) == ("a & b", (UNANALYZED_PLAIN,))
    assert body_in_form(both, "html", readers, visible_only=True) == ("<pre>a &amp; b</pre>", (UNANALYZED_PLAIN,))
    assert body_in_form(both, "html", readers, visible_only=False) == (HOSTILE, ())
    assert body_in_form(both, "text", readers, visible_only=False) == ("a & b", (UNCOMPARED,))


def test_two_versions_are_compared(readers: HtmlReaders) -> None:
    html = "<p>Let us meet for lunch next week"
    other = StoredBody(text="Pay the other account before noon today", html=html, is_there=True)
    assert body_in_form(other, "text", readers, visible_only=False)[1] == (DIFFERENCE_WARNING,)
    same = StoredBody(text="Let us meet for lunch next week", html=html, is_there=True)
    assert body_in_form(same, "text", readers, visible_only=False)[1] == ()


def test_nothing_to_tell_is_no_warning(readers: HtmlReaders) -> None:
    assert body_in_form(StoredBody(text="x", html=None, is_there=True), "markdown", readers, visible_only=False) == (
        "x",
        (),
    )
    assert not HiddenText()
