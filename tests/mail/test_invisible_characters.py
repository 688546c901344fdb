"""Characters that nobody sees, and similar ones that belong to visible text."""

import pytest

from mailbox_appliance.mail.html.analysis import HiddenText, visible_line, visible_text


@pytest.mark.parametrize(
    ("text", "seen", "counts"),
    [
        ("a\u200bb\u200cc\u200dd\ufeffe\u2060f", "abcdef", {"zero-width": 5}),
        ("so\u00adft\u034f", "soft", {"zero-width": 2}),
        ("a\U000e0069\U000e0067\U000e006e", "a", {"zero-width": 3}),
        ("😀\ufe0f\ufe01\ufe02\U000e0100\U000e0101", "😀\ufe0f", {"zero-width": 4}),
        ("h\ufe00i\ufe01", "hi", {"zero-width": 2}),
        ("\u115f\u1160\u3164\uffa0\u180e\ufff9", "", {"zero-width": 6}),
        ("\x00\x08\x1b[8m\x7f\x9b", "[8m", {"zero-width": 5}),
        ("\u202eevil\u202c \u2066a\u2069 \u200e\u200f\u061c", "evil a ", {"bidi": 7}),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 ©\ufe0f ☎\ufe0e", None, {}),
        ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", None, {}),
        ("🏴\U000e0067\U000e0062\U000e007f", "🏴", {"zero-width": 3}),
        ("می\u200cخواهم क्\u200dष ന്\u200d", None, {}),
        ("\u8fbb\U000e0100 \u1820\u180b", None, {}),
        ("a\tb\nc", None, {}),
        ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh", {}),
        ("", None, {}),
    ],
)
def test_characters_that_are_not_seen(text: str, seen: str | None, counts: dict[str, int]) -> None:
    assert visible_text(text) == (text if seen is None else seen, HiddenText(counts))


def test_a_line_is_one_line() -> None:
    assert visible_line(" a\r\n\tb\u2028c\u200b ") == ("a b c", HiddenText({"zero-width": 1}))
