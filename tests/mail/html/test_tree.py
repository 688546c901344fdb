"""The tags that close elements, if that decides about visibility; and the rules that count beyond a bound."""

import pytest

from mailbox_appliance.mail.html import css_sheets
from mailbox_appliance.mail.html.analysis import extract_visible, visible_text


@pytest.mark.parametrize(
    ("html", "is_seen"),
    [
        ("<p>" + "<b style='display:none'>" * 5 + "</p></b></b></b>X", True),  # three continue after it
        ("<p>" + "<b style='display:none'>" * 5 + "</p></b></b>X", False),
        ("<p style='display:none'><button></p>X</button>", False),  # closes no paragraph around a button
        ("<div style='display:none'><table>X</table></div>", False),
        ("<table style='display:none'><tr><td>X</table>", False),
        ("<style>.z div i{display:none}</style>" + "<div>" * 600 + "<i>X</i>", True),
        ("<font color=red><div><font color=blue><div>" * 400 + "</font>" * 800 + "X", True),
        ("<div style='display:none'>" * 600 + "X", False),
        ("<div>" * 600 + "<p style='display:none'>X</p>", False),
        ("<div>" * 600 + "<p style='font-size:.3em'><b style='font-size:.3em'>X", False),
        ("<div>" * 600 + "<b>X", True),
    ],
    ids=range(11),
)
def test_what_is_seen(html: str, is_seen: bool) -> None:
    assert ("X" in extract_visible(html, "text")[0]) is is_seen


@pytest.mark.parametrize("depth", range(500, 520))
def test_what_is_hidden_at_the_greatest_depth_of_the_tree_is_left_out(depth: int) -> None:
    text = extract_visible("<div>" * depth + "<p style='display:none'>X</p>" + "</div>" * depth + "Y", "text")[0]
    assert text == "Y"


@pytest.mark.parametrize(("rules", "unjudged"), [("div i{display:none}", {"selector": 1}), ("div i{color:red}", {})])
def test_beyond_the_bound_of_comparisons_what_may_be_hidden_is_left_out(
    rules: str, unjudged: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(css_sheets, "_MOST_COMPARISONS", 10)
    seen, hidden = extract_visible(f"<style>{rules}</style><i class=a>X</i><b>Y</b>", "text")
    assert ("X" in seen, "Y" in seen, hidden.unjudged) == (not unjudged, True, unjudged)


def test_of_a_hundred_thousand_runs_nothing_stays_behind() -> None:
    heart = "\u2764\ufe0f"
    assert visible_text("x\u200b" * 99_999 + heart)[0].endswith(heart)
    assert visible_text("x\u200b" * 100_000 + heart)[0].endswith(heart[0])
