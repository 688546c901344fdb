"""The tags that close elements, if that decides about visibility; and the rules that count beyond a bound."""

import pytest

from mailbox_appliance.mail.html.analysis import extract_visible, visible_text

DEEP = "<div>" * 1_990
#: Needs more comparisons than allowed, and matches nothing.
TOO_MANY = "<style>.z div i{%s}</style>" + DEEP + "<i>X</i>"


@pytest.mark.parametrize(
    ("html", "is_seen"),
    [
        ("<p>" + "<b style='display:none'>" * 5 + "</p></b></b></b>X", True),  # three continue after it
        ("<p>" + "<b style='display:none'>" * 5 + "</p></b></b>X", False),
        ("<p style='display:none'><button></p>X</button>", False),  # closes no paragraph around a button
        ("<div style='display:none'><table>X</table></div>", False),
        ("<table style='display:none'><tr><td>X</table>", False),
        (TOO_MANY % "display:none", False),
        (TOO_MANY % "color:red", True),
        (TOO_MANY.replace("X", "") % "display:none" + "<p><i>X</i>", False),
        ("<font color=red><div><font color=blue><div>" * 400 + "</font>" * 800 + "X", False),
        ("<font color=red><div><font color=blue><div>" * 40 + "</font>" * 80 + "X", True),
    ],
    ids=range(10),
)
def test_what_is_seen(html: str, is_seen: bool) -> None:
    assert ("X" in extract_visible(html, "text")[0]) is is_seen


def test_of_a_hundred_thousand_runs_nothing_stays_behind() -> None:
    heart = "\u2764\ufe0f"
    assert visible_text("x\u200b" * 99_999 + heart)[0].endswith(heart)
    assert visible_text("x\u200b" * 100_000 + heart)[0].endswith(heart[0])
