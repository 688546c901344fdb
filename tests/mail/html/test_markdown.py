import pytest

from mailbox_appliance.mail.html.analysis import extract_visible
from mailbox_appliance.mail.html.tags import MAX_INPUT

LINK = "https://x.example"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("", ""),
        ("plain  words\n here", "plain words here"),
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("<div>a</div><div>b</div>", "a  \nb"),
        ("a<br>b<br><br>c", "a  \nb\n\nc"),
        ("a <b> bold </b>c <em>d</em> <s>e</s>", "a **bold** c *d* ~~e~~"),
        ("<b>a</b><strong>b</strong>", "**a**__b__"),
        ("<b><p>x</p><p>y</p></b>z", "**x**\n\n**y**\n\nz"),
        ("<b>never <i>closed", "**never *closed***"),
        ("<h1>T</h1>x<h3>a<br>b</h3>", "# T\n\nx\n\n### a b"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ol><li>a</li><li><p>b</p><p>c</p></li></ol>", "1. a\n\n2. b\n\n   c"),
        ("<ul><li>a<ol><li>b</li></ol></li><li>c</ul>", "- a\n  1. b\n- c"),
        ("<ul><li></ul>x", "x"),
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2|3</td></tr></table>",
            "| A | B |\n| --- | --- |\n| 1 | 2\\|3 |",
        ),
        ("<table><tr><td>A</td><td>B</td></tr><tr><td>1</td><td>2</td></tr></table>", "A | B  \n1 | 2"),
        (f"<a href='{LINK}/y?a=1&amp;b=2'>link</a>.", f"[link]({LINK}/y?a=1&b=2)."),
        (f"<a href='{LINK}/a b(c)'>t</a>", f"[t]({LINK}/a%20b%28c%29)"),
        (f"<a href='{LINK})'>[t]</a>", f"[\\[t\\]]({LINK}%29)"),
        (f"<a href='{LINK}'><div>a</div><div>b</div></a>", f"[a  \nb]({LINK})"),
        (f"<a href='{LINK}'><img alt=cat src=http://track.example/></a>", f"[cat]({LINK})"),
        ("<a href='javascript:x()'>go</a> <a href='data:text/html,x'>on</a> <a href=#x>up</a>", "go on up"),
        ("<blockquote>a<br>b<p>c</p></blockquote>d", "> a  \n> b\n>\n> c\n\nd"),
        ("<pre>  a\n ``` *b*\n\n\nc</pre>d", "````\n  a\n ``` *b*\n\n\nc\n````\n\nd"),
        ("<pre>x", "```\nx\n```"),
        ("<ul><li><pre>code</pre><li>b</ul>", "- \n  ```\n  code\n  ```\n\n- b"),
        ("use <code>x`y*z</code> now", "use ``x`y*z`` now"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<p>Title<br>---</p><p>---</p>", "Title  \n\\---\n\n\\---"),
        (
            "1. no list<br># no heading<br>- no item<br>> no quote",
            "1\\. no list  \n\\# no heading  \n\\- no item  \n\\> no quote",
        ),
        ("\ufdd0a\ufdd0 <a href='http://x/\ufdd0b\ufdd0'>c</a>", "\ufffda\ufffd [c](http://x/%EF%B7%90b%EF%B7%90)"),
        ("*a* _b_ snake_case [x](y) &lt;i> &amp;amp; \\", "\\*a\\* \\_b\\_ snake_case \\[x\\](y) \\<i> \\&amp; \\\\"),
        ("<img src='http://track.example/p.gif'><img alt='A cat' src=x>", "A cat"),
        ("<head><title>t</title></head><style>p{}</style><script>'</p>'</script>x", "x"),
        ("<div style='display:none'>no</div><p hidden>no</p><svg><text>no</text></svg>yes", "yes"),
        ("</p></ul></pre></a></blockquote></b></table></h1>x", "x"),
    ],
)
def test_to_markdown(html: str, markdown: str) -> None:
    assert extract_visible(html, "markdown")[0] == markdown


def test_long_html_is_cut() -> None:
    assert len(extract_visible("x" * (MAX_INPUT + 10), "markdown")[0]) == MAX_INPUT
