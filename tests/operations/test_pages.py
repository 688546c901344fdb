"""Cursors go there and back, and no other text is one."""

import base64

import pytest

from mailbox_appliance.errors import Invalid
from mailbox_appliance.operations.decoding import decode_cursor, encode_cursor


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("position", [0, 1, -1, 10**9 << 4, (1 << 62) - 1, -(1 << 62) + 1])
def test_a_position_comes_back(position: int) -> None:
    cursor = encode_cursor(position)
    assert cursor is not None
    assert cursor.isascii()
    assert decode_cursor(cursor) == position


def test_no_cursor_is_the_beginning_and_no_position_the_end() -> None:
    assert decode_cursor(None) is None
    assert encode_cursor(None) is None


BAD = (
    "",
    "A",
    "====",
    "MTI=x",
    "not a cursor",
    "\u0661",
    encoded(""),
    encoded(" 1"),
    encoded("1."),
    encoded(".1"),
    encoded("1.0.0"),
    encoded("01"),
    encoded("+1"),
    encoded("-0"),
    encoded("1_0"),
    encoded("1.0"),
    encoded("\u0661"),
    encoded(str(1 << 62)),
    encoded("9" * 100),
)


@pytest.mark.parametrize("cursor", BAD)
def test_any_other_text_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode_cursor(cursor)
    assert caught.value.details[0].path == "cursor"


@pytest.mark.parametrize("of", [("acc_1",), ("acc_2", None, "q"), ("acc_1", "\ud800"), ()])
def test_a_cursor_is_taken_by_its_own_list_only(of: tuple[object, ...]) -> None:
    cursor = encode_cursor(7, "acc_1", None, "q")
    assert decode_cursor(cursor, "acc_1", None, "q") == 7
    with pytest.raises(Invalid) as caught:
        decode_cursor(cursor, *of)
    assert caught.value.details[0].path == "cursor"
    with pytest.raises(Invalid):
        decode_cursor(encode_cursor(7, *of), "acc_1", None, "q")
