import time

import pytest

from mailbox_appliance.mail.html.text import to_text
from mailbox_appliance.mail.html.tokenizer import MAX_INPUT


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a  b\n c", "a b c"),
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("<div><div><div>a</div></div></div>b", "a\nb"),
        ("a<br>b<br/>c<BR>d", "a\nb\nc\nd"),
        ("a<b>b</b>c <i>d</i>", "abc d"),
        ("<h1>T</h1>x", "T\n\nx"),
        ("Gr&uuml;&szlig;e &amp; &lt;b&gt; &#8364; &nbsp; x", "Grüße & <b> € x"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<ul><li>a<ol><li>b</li></ol></li></ul>", "- a\n  1. b"),
        ("<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>", "A | B\n1 | 2"),
        ("<a href='https://x.example/y'>link</a>.", "link (https://x.example/y)."),
        ("<a href='https://x.example/'>x.example</a>", "x.example"),
        (
            "<a href='https://x.example/'>x <a href='https://y.example/'>y</a></a>",
            "x (https://x.example/)y (https://y.example/)",
        ),
        ("<a href='mailto:a@b'>a@b</a>", "a@b"),
        ("<a href='https://x.example/?a=1&amp;b=2'>go</a>", "go (https://x.example/?a=1&b=2)"),
        ("<a href='javascript:x()'>go</a> <a name=x>y</a>", "go y"),
        ("<blockquote>a<br>b</blockquote>c", "> a\n> b\n\nc"),
        ("<pre>  a\n   b\n\n\nc</pre>d", "  a\n   b\n\n\nc\n\nd"),
        ("<img src='https://x.example/p.gif' alt='A cat'><img src=y>", "A cat"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<head><title>t</title></head><body>x</body>", "x"),
        ("<head><title>t</title><body>x", "x"),
        ("<style>p{}</style><script>if (a<b) '</p>'</script>x", "x"),
        ("<script>never closed <p>x", ""),
        ("a<!-- <p>no</p> -->b<!doctype x><?xml y?>c<![if mso]>d", "abcd"),
        ("a<!-- never closed", "a"),
        ("<div style='display: none'>no<div>no</div></div>yes", "yes"),
        ("<span STYLE='x:y;visibility:hidden'>no</span><p hidden>no</p>yes", "yes"),
        ("<p class='hidden'>yes</p>", "yes"),
        ("1 < 2 > 0 <3 </ a>b", "1 < 2 > 0 <3 b"),  # HTML 13.2.5.7: a comment
        ("<a title='>'>x</a>", "x"),
        ('x<p title="unclosed>a</p><p>b</p>', "x"),  # as in browsers: an element without an end is not shown
        ("<a <b>x</b>", "x"),
        ("</p></ul></pre></a></blockquote>x", "x"),
        ("<x:y-z>a</x:y-z>", "a"),
        ("\0\ud800&#xD800;&#0;", "\ufffd\ufffd\ufffd\ufffd"),
    ],
)
def test_to_text(html: str, text: str) -> None:
    assert to_text(html) == text


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<!--",
        "<",
        "</",
        '<a "',
        "<a b='",
        "<![",
        "<script>",
        "<div hidden>",
        "<li>",
        "<ul>",
        "<blockquote>",
        "<pre>\n",
        "&",
        "<a href='http://x'>y</a>",
        "<a href='http://x'>",
        '<a x="y',
        "<p title=",
        "<style></script>",
    ],
)
def test_a_lot_of_malice_takes_no_time(piece: str) -> None:
    start = time.process_time()
    to_text(piece * (250_000 // len(piece)))
    assert time.process_time() - start < 5  # moments here; quadratic reading would take hours


@pytest.mark.parametrize(
    ("opened", "closed"), [("<a href='http://x'>", "</a>"), ("<ol>", "</ol>"), ("<pre>", "</pre>")]
)
def test_what_is_nested_around_a_long_text_takes_no_time(opened: str, closed: str) -> None:
    start = time.process_time()
    to_text(opened * 40_000 + "x" * 800_000 + closed * 40_000)
    assert time.process_time() - start < 5


def test_long_html_is_cut() -> None:
    assert len(to_text("x" * (MAX_INPUT + 10))) == MAX_INPUT
