"""What of an element's declarations could hide its text and cannot be judged, each by a name of a fixed vocabulary.

A value counts only where it has an effect: a width that is not known hides nothing unless the overflow is cut off.
"""

from collections.abc import Mapping

from mailbox_appliance.mail import boxes
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.properties import INHERIT, INHERITED, INITIAL
from mailbox_appliance.mail.unjudged import Unjudged

_COLOURS = frozenset({
    "color", "-webkit-text-fill-color", "background-color", "background-image", "background-size", "background-clip",
    "box-shadow"
})  # fmt: skip
_SIZES = frozenset({"width", "height", "max-width", "max-height", "aspect-ratio", "flex", "-webkit-line-clamp"})
_OFFSETS = frozenset({"top", "right", "bottom", "left"})
#: Of boxes only: they do nothing to what stands in a line.
_OF_BOXES = _SIZES | {
    "transform", "transform-origin", "scale", "rotate", "translate", "offset-path", "margin-top", "overflow-x",
    "overflow-y", "contain", "text-indent"
}  # fmt: skip
_HIGHEST_LINE = 10.0  # times the height of a box
_TURNS = ("transform", "rotate", "scale")


def inherited(around: frozenset[tuple[str, str]], declared: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    """The properties that are handed on to what is inside, each with the name of what cannot be judged."""
    kept = {(name, why) for name, why in around if _hands_on(declared.get(name, INHERIT))}
    found = {
        (name, value.name)
        for name, value in declared.items()
        if isinstance(value, Unjudged) and name in INHERITED and name not in _COLOURS
    }
    return frozenset(kept | found)


def _hands_on(value: object) -> bool:
    """Whether a value depends on the same one around it."""
    return value == INHERIT or (isinstance(value, Length) and bool(value.letters or value.percent))


def own(name: str, declared: Mapping[str, object], letters: float, low: str, *, inline: bool) -> frozenset[str]:
    """Names of what cannot be judged of an element and of all in it. `low`: of the box that it lies in."""
    found = {
        value.name
        for key, value in declared.items()
        if isinstance(value, Unjudged)
        and key not in INHERITED
        and key not in _COLOURS
        and not (inline and key in _OF_BOXES)
        and _matters(key, name, declared, letters)
    }
    if not inline and boxes.clips(declared) and name not in boxes.GROW:
        height = boxes.pixels(declared, "height", letters) or boxes.pixels(declared, "max-height", letters)
        least = boxes.pixels(declared, "min-height", letters) or 0.0
        padding = sum(boxes.pixels(declared, f"padding-{side}", letters) or 0.0 for side in ("top", "bottom"))
        if height is not None and max(height, least) + padding < letters / 2:
            found.add("overflow: hidden")
        line = declared.get("line-height")
        if height and isinstance(line, Length):
            size = line.pixels * letters if line.is_number else line.to_pixels(letters, letters / 100)
            if size > _HIGHEST_LINE * max(height, least):
                found.add("overflow: hidden")  # letters lie in the middle of their line, below the box
        if low and not (height and height > letters / 2):
            if low != boxes.HEIGHT:
                found.add(low)
            elif declared.get("position") in ("absolute", "fixed"):
                found.add("position: absolute")
    if declared.get("backface-visibility") == "hidden" and declared.get("turned") is True:
        found.add("backface-visibility")
    return frozenset(found)


def _matters(key: str, name: str, declared: Mapping[str, object], letters: float) -> bool:
    if key in _SIZES:
        return boxes.clips(declared) and name not in boxes.GROW
    if key in _OFFSETS:
        return declared.get("position", "static") not in ("static", INHERIT)
    if key in ("overflow-x", "overflow-y"):
        return boxes.is_flat(name, declared, letters) or boxes.is_narrow(name, declared, letters, around=False)
    if key == "z-index":
        return declared.get("position", "static") not in ("static", INHERIT, INITIAL)
    if key == "clip":
        return declared.get("position") in ("absolute", "fixed")
    if key == "transform-origin":
        return any(declared.get(each) is not None for each in _TURNS)
    return key != "margin-right" or declared.get("float") == "right"
