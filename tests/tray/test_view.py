"""The icon: the figure of the console's icon in every size, distinguishable in every look."""

import re
from collections import Counter
from importlib.resources import files

import pytest

from mailbox_appliance.tray.view import ICON_SIZES, IconLook, icon_pixels

BLUE, WHITE = (0x01, 0x72, 0xAD), (255, 255, 255)


def pixel(drawn: bytes, size: int, x: float, y: float) -> tuple[int, ...]:
    """Return the pixel at a place in 32nds of the side."""
    at = (int(y * size / 32) * size + int(x * size / 32)) * 4
    return tuple(drawn[at : at + 4])


def opaque(drawn: bytes) -> Counter[tuple[int, ...]]:
    """Count the colors of opaque pixels."""
    return Counter(tuple(drawn[at : at + 3]) for at in range(0, len(drawn), 4) if drawn[at + 3] == 255)


@pytest.mark.parametrize("size", ICON_SIZES)
def test_it_is_an_envelope_on_a_rounded_square(size: int) -> None:
    drawn = icon_pixels(size, IconLook.WELL)
    assert len(drawn) == size * size * 4
    assert pixel(drawn, size, 0, 0)[3] < 64, "a corner is round"
    assert pixel(drawn, size, 16, 3) == (*BLUE, 255)
    assert pixel(drawn, size, 16, 27) == (*BLUE, 255)
    rows = [drawn[at : at + size * 4] for at in range(0, len(drawn), size * 4)]
    lines = [row for row in rows if sum(row[at : at + 3] == bytes(WHITE) for at in range(0, len(row), 4)) > size // 2]
    assert len(lines) == 2 * max(1, round(size / 16)), "its upper and its lower edge are whole white rows"


def test_its_ground_is_that_of_the_console_icon() -> None:
    drawing = (files("mailbox_appliance") / "web/console/icon.svg").read_text("utf-8")
    ground = re.search(r'<rect[^>]*fill="#(\w{6})"', drawing)
    assert ground is not None
    assert bytes.fromhex(ground[1]) == bytes(BLUE)


@pytest.mark.parametrize("size", ICON_SIZES)
def test_each_look_is_told_apart(size: int) -> None:
    well, attention, stopped = (
        opaque(icon_pixels(size, look)) for look in (IconLook.WELL, IconLook.ATTENTION, IconLook.STOPPED)
    )
    assert well[BLUE] > size * size // 3
    assert attention[(0xFF, 0xB0, 0x00)] > size * size // 12, "an amber dot"
    assert attention[BLUE] > size * size // 5
    assert not stopped[BLUE]
    ((red, green, blue), _count) = stopped.most_common(1)[0]
    assert max(red, green, blue) - min(red, green, blue) < 20, "grey"


def test_it_is_the_same_from_left_and_right() -> None:
    size = 48
    drawn = icon_pixels(size, IconLook.WELL)
    for y in range(32):
        assert [pixel(drawn, size, x, y) for x in (2, 9, 13)] == [pixel(drawn, size, 31.99 - x, y) for x in (2, 9, 13)]
