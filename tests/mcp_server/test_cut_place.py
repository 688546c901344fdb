"""Cuts in a text: nothing that a reader sees as one character is split."""

import pytest

from mailbox_appliance.mcp_server.limits import find_cut


@pytest.mark.parametrize(
    ("text", "number", "place"),
    [
        ("ab\r\ncd", 3, 2),
        ("ab\U0001f469\u200d\U0001f4bbcd", 3, 2),
        ("ab\U0001f469\u200d\U0001f4bbcd", 4, 2),
        ("ab❤\ufe0fcd", 3, 2),
        ("ab1\ufe0f\u20e3cd", 4, 2),
        ("abe\u0301cd", 3, 2),
        ("ab\ud83d\ude00cd", 3, 2),
        ("abcdef", 3, 3),
        ("ab", 3, 2),
        ("\r\n", 1, 1),
        ("e" + "\u0301" * 40, 20, 20),
    ],
)
def test_what_is_one_character_stays_whole(text: str, number: int, place: int) -> None:
    assert find_cut(text, number) == place
