"""A large body that is read page by page is made readable once."""

import time
from collections.abc import Callable

import pytest

from mailbox_appliance.mail.hidden import Hidden, of_html, visible_text
from mailbox_appliance.operations.readable import readable_html, readable_text

HTML = "".join(f"<p>Line <b>{number}</b><i style='display:none'>hidden</i></p>\n" for number in range(1_500))
TEXT = "".join(f"Line {number}, Gr\u00fc\u200b\u00dfe \U0001f4e8\n" for number in range(100_000))

Make = Callable[[str], tuple[str, Hidden]]
BOTH = pytest.mark.parametrize(
    ("made", "make", "large"),
    [
        (lambda html: readable_html(html, "text"), lambda html: of_html(html, "text"), HTML),
        (readable_text, visible_text, TEXT),
    ],
    ids=["html", "text"],
)


@BOTH
def test_what_comes_again_is_the_same_and_another_one_is_not(made: Make, make: Make, large: str) -> None:
    other = large.replace("Line", "Word")
    for source in (large, large, other, large, "short", large):
        assert made(source) == make(source)


def test_each_form_is_itself() -> None:
    for form in ("text", "markdown", "html", "text"):
        assert readable_html(HTML, form) == of_html(HTML, form)
    assert readable_text(HTML * 10) == visible_text(HTML * 10) != readable_html(HTML * 10, "text")


@BOTH
def test_it_is_not_made_again(made: Make, make: Make, large: str) -> None:
    wanted = made(large)
    began = time.process_time()
    make(large)
    once = time.process_time() - began
    began = time.process_time()
    for _ in range(4):
        assert made("".join([large])) == wanted
    assert time.process_time() - began < 3 * once
