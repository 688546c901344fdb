"""Where CSS puts the box of an element, and whether anything of it is left (CSS 2.1, 8 to 11): by its own declarations.

Width, height, overflow and transforms do nothing to what stands in a line; there a margin moves the line.
"""

from collections.abc import Mapping

from mailbox_appliance.mail.elements import BLOCKS, TABLE_PARTS
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.properties import INHERIT, INITIAL
from mailbox_appliance.mail.shapes import CLIPS

HEIGHT = "height"
LEAST_BOX = 1.0  # pixels of a box whose overflow is hidden
FAR = 400.0  # pixels to the left or above, where no screen reaches
VERY_FAR = 5_000.0  # in any direction: nobody scrolls there
_SEEN_PADDING = 8.0  # pixels in which something of the content is seen
_COVERING = 10.0  # pixels by which a box lies over the line before it
_LEAST_COVER = 0.3  # of opacity
_PAINTED = frozenset({"img", "hr", "textarea", "svg", "input", "button"})  # without a background of their own
_PAINTING = ("box-shadow", "border", "border-image", "backdrop-filter")
GROW = TABLE_PARTS | {"table"}  # with what is in them

Declared = Mapping[str, object]


def is_inline(name: str, declared: Declared) -> bool:
    """Whether an element stands in a line with the text around it."""
    if declared.get("position") in ("absolute", "fixed"):
        return False
    if declared.get("float", "none") not in ("none", INITIAL, INHERIT):
        return False
    display = declared.get("display", INHERIT)
    if display == INHERIT:
        return name not in BLOCKS
    return display in ("inline", INITIAL)


def pixels(declared: Declared, name: str, letters: float) -> float | None:
    """A length in pixels; None where there is none."""
    value = declared.get(name)
    return value.to_pixels(letters) if isinstance(value, Length) else None


def clips(declared: Declared) -> bool:
    """Whether what flows over is not shown."""
    is_hidden = declared.get("overflow-x") is True or declared.get("overflow-y") is True
    return is_hidden or declared.get("clip-path") == CLIPS


def is_flat(name: str, declared: Declared, letters: float, low: str = "") -> bool:
    """Whether a box has no height; what has a least height has one. `low`: of the box that it lies in."""
    if _grows(name, declared):
        return False
    height = declared.get("height")
    if low == HEIGHT and isinstance(height, Length) and height.percent and not (height.pixels or height.letters):
        return True
    return _is_thin(declared, letters, "height", "padding-top", "padding-bottom")


def low(name: str, declared: Declared, letters: float) -> str:
    """Why boxes in it may have no height: it has none itself, or it is a grid with a row or a column of no size."""
    layout = declared.get("layout")
    if layout == "grid" and declared.get("grid") is True:
        return "display: grid"
    if _grows(name, declared) or not _is_thin(declared, letters, "height"):
        return ""
    return f"display: {layout}" if layout else HEIGHT


def is_narrow(name: str, declared: Declared, letters: float, around: bool) -> bool:
    """Whether a box has no width; `around`: whether the one that it lies in has none."""
    if _grows(name, declared):
        return False
    if _is_thin(declared, letters, "width", "padding-left", "padding-right"):
        return True
    is_free = declared.get("position") in ("absolute", "fixed") or declared.get("float", "none") != "none"
    return around and not is_free and not _has_width(declared, letters)


def _has_width(declared: Declared, letters: float) -> bool:
    """Whether it has one whatever that around it is; a share of nothing is nothing."""
    lengths = [declared.get(each) for each in ("width", "min-width", "padding-left", "padding-right")]
    return any(isinstance(each, Length) and each.to_pixels(letters, 0.0) > LEAST_BOX for each in lengths)


def _grows(name: str, declared: Declared) -> bool:
    return name in GROW and declared.get("display") != "block"


def _is_thin(declared: Declared, letters: float, side: str, *paddings: str) -> bool:
    given = [pixels(declared, each, letters) for each in (side, f"max-{side}")]
    if not any(each is not None and each <= LEAST_BOX for each in given):
        return False
    least = pixels(declared, f"min-{side}", letters) or 0.0
    return least <= LEAST_BOX and sum(pixels(declared, each, letters) or 0.0 for each in paddings) < _SEEN_PADDING


def is_off_screen(name: str, declared: Declared, letters: float) -> bool:
    """Whether a box lies where no screen reaches; padding of the same size takes its content back."""
    placed = declared.get("position", "static") not in ("static", INHERIT, INITIAL)
    for side in ("left", "top"):
        shift = 0.0 if name in TABLE_PARTS else pixels(declared, f"margin-{side}", letters) or 0.0
        shift += _offset(declared, side, letters) if placed else 0.0
        if shift <= -FAR and shift + (pixels(declared, f"padding-{side}", letters) or 0.0) <= -FAR:
            return True
        if shift >= VERY_FAR:
            return True
    if declared.get("float") == "right" and (pixels(declared, "margin-right", letters) or 0.0) <= -FAR:
        return True
    if placed and any(not -FAR < _offset(declared, side, letters) < VERY_FAR for side in ("right", "bottom")):
        return True
    translate = declared.get("translate")
    return max(moved(declared)[0], translate if isinstance(translate, float) else 0.0) >= FAR


def _offset(declared: Declared, side: str, letters: float) -> float:
    value = declared.get(side)
    if not isinstance(value, Length):
        return 0.0
    if value.percent and declared.get("position") == "relative":
        return value.to_pixels(letters, 0.0)  # what lies side by side may be put over each other by percentages
    return VERY_FAR if value.percent >= 100 else value.to_pixels(letters)


def moved(declared: Declared) -> tuple[float, bool]:
    """How far a transform moves a box, in pixels, and whether nothing is left of it."""
    value = declared.get("transform")
    return value[:2] if isinstance(value, tuple) else (0.0, False)


def scaled(declared: Declared) -> float:
    """The factor by which transforms change the size of letters in a box."""
    transform, scale = declared.get("transform"), declared.get("scale")
    factor = scale if isinstance(scale, float) else 1.0
    return factor * transform[2] if isinstance(transform, tuple) else factor


def moves_line(declared: Declared, letters: float) -> bool:
    """Whether the margin of what stands in a line moves the rest of the line off the screen."""
    return (pixels(declared, "margin-left", letters) or 0.0) <= -FAR


def may_cover(name: str, declared: Declared, letters: float, *, is_behind_text: bool) -> bool:
    """Whether a box may lie over text that is not its own: one with a background, or a picture, out of its place."""
    position = declared.get("position", "static")
    is_free = position in ("absolute", "fixed", "sticky")
    if not is_free and not (is_behind_text and (position == "relative" or "float" in declared)):
        return False
    if not (name in _PAINTED or _is_opaque(declared)):
        return False
    if is_free:
        return not is_off_screen(name, declared, letters)
    shifts = [pixels(declared, f"margin-{side}", letters) or 0.0 for side in ("top", "left")]
    if position == "relative":
        shifts += [_offset(declared, side, letters) for side in ("top", "left")]
        shifts += [-_offset(declared, side, letters) for side in ("bottom", "right")]
    return min(shifts) <= -_COVERING


def _is_opaque(declared: Declared) -> bool:
    colour, picture = declared.get("background-color"), declared.get("background-image")
    is_coloured = colour[3] > _LEAST_COVER if isinstance(colour, tuple) else colour not in (None, INITIAL, INHERIT)
    others = (declared.get(each) for each in _PAINTING)
    return is_coloured or any(each not in (None, False, INITIAL, INHERIT) for each in (picture, *others))
