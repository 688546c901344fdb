import pytest

from mailbox_appliance.mail.html.analysis import extract_visible
from mailbox_appliance.mail.html.tags import MAX_INPUT


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
    assert extract_visible(html, "text")[0] == text


def test_long_html_is_cut() -> None:
    assert len(extract_visible("x" * (MAX_INPUT + 10), "text")[0]) == MAX_INPUT
