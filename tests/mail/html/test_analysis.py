"""The text between tags, without knowledge of what is visible."""

import time

import pytest

from mailbox_appliance.mail.html.analysis import PREVIEW_TAG_READER, TAG_READER, text_of_tags


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("<p>One<p>Two<br>Three", "One\nTwo\nThree"),
        ("a &amp; b &lt;c&gt; &#8364;", "a & b <c> €"),
        ("<style>p{}</style><script>x<y</script><title>t</title><!-- c -->seen", "seen"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "a b\nc"),
        ("one\n two\t three", "one two three"),
        ("<p hidden>hidden too</p>", "hidden too"),
        ("<style>never closed", ""),
        ("x <!-- never closed", "x"),
        ("a<b", "a"),
    ],
)
def test_text_of_tags(html: str, text: str) -> None:
    assert text_of_tags(html) == text


def test_invisible_characters_are_left_out_and_counted() -> None:
    seen = TAG_READER.extract("a\u200bb", "text")
    assert (seen.text, dict(seen.hidden.counts), seen.is_analyzed) == ("ab", {"zero-width": 1}, False)


def test_of_a_long_body_the_beginning_is_read_behind_its_style_sheets() -> None:
    sheet = "<style>" + ".a{color:red}" * 40_000 + "</style>"
    seen = PREVIEW_TAG_READER.extract(sheet + "<p>word</p>" * 20_000, "markdown")
    assert seen.text.startswith("word\n\nword")
    assert not seen.is_whole
    assert PREVIEW_TAG_READER.extract(sheet + "<p>word</p>", "html").text == "word"


@pytest.mark.parametrize(
    "piece", ["<p>", "<style", "<style>", "</style>", "<script>x", "<!--", "&amp;", "<a '", "\u200b"]
)
def test_it_is_linear(piece: str) -> None:
    def seconds(count: int) -> float:
        html = piece * (count // len(piece))
        began = time.process_time()
        TAG_READER.extract(html, "text")
        PREVIEW_TAG_READER.extract(html, "text")
        return time.process_time() - began

    assert seconds(1_600_000) < 0.5 + 32 * seconds(100_000)
