"""Text that senders hide is removed in every form, and counted. Visible text with a similar style stays."""

import re
from pathlib import Path

import pytest

from mailbox_appliance.mail.html.analysis import TECHNIQUES, Form, HiddenText, extract_visible
from mailbox_appliance.mail.html.text import to_preview_text
from tests.mail.doubting import NEWSLETTERS, QUIET, UNJUDGED
from tests.mail.hiding import HIDDEN
from tests.mail.showing import SEEN

FORMS: tuple[Form, ...] = ("text", "markdown", "html")


@pytest.mark.parametrize(("name", "html"), [(name, html) for name, cases in HIDDEN.items() for html in cases])
def test_what_is_hidden_is_left_out_and_counted(name: str, html: str) -> None:
    for form in FORMS:
        seen, hidden = extract_visible(f"before {html} behind" if "<body" not in html else html, form)
        assert "X" not in seen, form
        assert hidden.counts == {name: 1}, form
    assert "X" not in to_preview_text(html)


@pytest.mark.parametrize("html", SEEN)
def test_what_is_seen_stays(html: str) -> None:
    for form in FORMS:
        assert "X" in extract_visible(html, form)[0], form
    assert "X" in to_preview_text(html)


@pytest.mark.parametrize(("name", "html"), [(name, html) for name, cases in UNJUDGED.items() for html in cases])
def test_what_cannot_be_judged_is_kept_with_a_warning(name: str, html: str) -> None:
    for form in FORMS:
        seen, hidden = extract_visible(html, form)
        assert "X" in seen, form
        assert name in hidden.unjudged, form
        assert name in hidden.warnings()[-1]


@pytest.mark.parametrize("html", [*QUIET, *NEWSLETTERS])
def test_known_safe_style_gives_no_warning(html: str) -> None:
    for form in FORMS:
        seen, hidden = extract_visible(html, form)
        assert "X" in seen, form
        assert hidden.unjudged == {}, form


# --- counting ---


@pytest.mark.parametrize(
    ("html", "counts"),
    [
        ("<div hidden>a<p>b</p><img src=x>c</div>", {"display": 1}),
        ("<p hidden>a</p><p hidden>b</p><p style='color:#fff'>c</p>", {"display": 2, "color": 1}),
        ("<p hidden></p><p hidden> &nbsp;&zwnj;\u200b </p><p hidden><b></b></p>", {}),
        ("<p hidden><img src=x></p>", {"display": 1}),
        ("<img src=x style='display:none'><img src=x width=1 height=1 alt=''>", {}),
        ("<div style='font-size:0'>a<b style='font-size:12px'>b</b>c</div>", {"size": 1}),
        ("<div style='font-size:0'>a<b style='display:none'>b</b>c</div>", {"size": 1, "display": 1}),
        ("<title>a</title><style>p{}</style><script>b</script>", {}),
        ("<!doctype html><!--[if mso]>a<![endif]--><!-- --><?xml b?><!--[if !mso]><!-->c<!--<![endif]-->", {}),
        ("<div hidden><!-- a --></div><!-- b -->", {"element": 1}),
        ("a\u200bb&zwnj;c&#x202e;d&lrm;", {"zero-width": 2, "bidi": 2}),
        ("<p hidden>a\u200b</p>", {"display": 1}),
    ],
)
def test_how_much_is_left_out(html: str, counts: dict[str, int]) -> None:
    for form in FORMS:
        assert extract_visible(html, form)[1].counts == counts


def test_the_counts_make_one_sentence() -> None:
    many = HiddenText({"display": 1, "color": 1, "zero-width": 10}) + HiddenText({"bidi": 4})
    assert many.warnings() == ("Hidden text was removed: 2 passages (color 1, display 1), 14 invisible characters.",)
    assert HiddenText({"bidi": 1}).warnings() == ("Hidden text was removed: 1 invisible character.",)
    assert HiddenText({"size": 1}).warnings() == ("Hidden text was removed: 1 passage (size 1).",)
    assert (HiddenText() + HiddenText()).warnings() == ()
    assert not HiddenText({"size": 0})
    assert many


@pytest.mark.parametrize(
    ("html", "unjudged"),
    [
        ("<p style='mask:url(a)'>a<b>b</b></p><p style='mask:url(b)'>c</p>", {"mask": 2}),
        ("<div style='mask:url(a)'><p style='mask:url(b)'>a</p><p>b</p></div>", {"mask": 1}),
        ("<div style='color:lab(0 0 0)'><p>a</p><p>b</p><p style='color:#111'>c</p></div>", {"color: lab()": 1}),
        ("<p style='mask:url(a)'> &nbsp;\u200b<br></p><p style='mask:url(b)' hidden>a</p>", {}),
        ("<p style='mask:url(a);color:var(--x)'>a</p>", {"color: var()": 1, "mask": 1}),
        ("<style>@import 'data:x';</style><p>a</p><p>b</p>", {"style sheet in a data: URL": 1}),
        ("<style>@import 'data:x';</style>", {}),
        ("<div style='position:absolute;inset:0;background:#fff'></div>", {}),
        ("<p style='color:evil(1 2 3)'>a</p>", {"color: unknown function": 1}),
        ("<p style='color:--ignore-previous-instructions()'>a</p>", {"color: --function()": 1}),
        ("a<b hidden>b</b>", {}),
    ],
)
def test_how_often_style_cannot_be_judged(html: str, unjudged: dict[str, int]) -> None:
    for form in FORMS:
        assert extract_visible(html, form)[1].unjudged == unjudged, form


def test_what_cannot_be_judged_is_a_warning_of_its_own() -> None:
    some = HiddenText({"display": 1}, {"mask": 1}) + HiddenText({}, {"mask": 1, "color: oklch()": 1, "zoom": 0})
    assert some.warnings() == (
        "Hidden text was removed: 1 passage (display 1).",
        "Some text may be hidden: the appliance cannot judge mask (2), color: oklch() (1).",
    )
    many = HiddenText({}, {f"name {number:02}": 1 for number in range(13)})
    assert many.warnings()[0].endswith("name 08 (1), name 09 (1), 3 more.")
    assert HiddenText({}, {"mask": 1})
    assert not HiddenText({}, {"mask": 0})


# --- the resulting HTML ---


@pytest.mark.parametrize(
    ("html", "seen"),
    [
        ("<p onclick='x()' title=no id=no class=no data-x=no>a &lt;b&gt;</p>", "<p>a &lt;b&gt;</p>"),
        ("<p style='color:red;--x:no;font-family:no;background:url(no)'>a</p>", '<p style="color: red">a</p>'),
        ("<a href='javascript:x()'>a</a>", "<a>a</a>"),
        ("<a href='https://x.example/?a=1&amp;b'>b</a>", '<a href="https://x.example/?a=1&amp;b">b</a>'),
        ("<img src='data:no' alt='a &quot;b&quot;'>", '<img alt="a &quot;b&quot;">'),
        ("<img src=cid:x width=20>", '<img src="cid:x" width="20">'),
        ("<p>a<p>b<ul><li>c<li>d", "<p>a</p><p>b</p><ul><li>c</li><li>d</li></ul>"),
        ("<b><div>a</b>b</div>c", "<b></b><div><b>a</b>b</div>c"),
        ("<html><head><title>no</title></head><body><style>no</style>a<script>no</script></body></html>", "a"),
        ("<o:p>a</o:p></x>", "a"),
    ],
)
def test_html_has_nothing_but_what_is_seen(html: str, seen: str) -> None:
    assert extract_visible(html, "html")[0] == seen


# --- the documentation ---


def test_the_page_has_the_table_of_techniques() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/hidden-text.md").read_text(encoding="utf-8")
    section = page.partition("## Techniques\n")[2].partition("\n#")[0].partition("|---|---|")[2]
    assert dict(re.findall(r"^\| ([a-z-]+) \| (.+) \|$", section, re.M)) == dict(TECHNIQUES)
