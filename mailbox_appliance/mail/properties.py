"""The properties of CSS by which something is seen or not, and what their values mean; all others are passed over.

A value that no browser knows is no value: the one that was given before stays in force (CSS Cascade 4.2).
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from mailbox_appliance.mail import backdrop, colours, css, shapes, unjudged
from mailbox_appliance.mail.backdrop import Picture
from mailbox_appliance.mail.lengths import PERCENT_OF_SCREEN, Length, length
from mailbox_appliance.mail.rare_properties import RARE, RARE_ALIASES, Reader, box_shadow
from mailbox_appliance.mail.unjudged import Unjudged

#: What is declared: of each property what its value means. The words `inherit` and `initial` stand for themselves.
Declared = dict[str, object]

INHERIT, INITIAL, CURRENT_COLOUR = "inherit", "initial", "currentcolor"
INHERITED = frozenset({
    "visibility", "font-size", "line-height", "color", "-webkit-text-fill-color", "text-indent", "font-size-adjust",
    "letter-spacing", "word-spacing", "-webkit-text-security", "-webkit-text-stroke", "color-scheme"
})  # fmt: skip
_FOR_ALL = {"inherit": INHERIT, "initial": INITIAL}

# fmt: off
_DISPLAYS = frozenset({
    "block", "inline", "inline-block", "flex", "inline-flex", "grid", "inline-grid", "flow-root", "contents",
    "list-item", "table", "inline-table", "table-row", "table-cell", "table-row-group", "table-header-group",
    "table-footer-group", "table-column", "table-column-group", "table-caption", "ruby", "ruby-text", "math",
    "-webkit-box", "-webkit-inline-box", "-webkit-flex", "-webkit-inline-flex", "block flow", "inline flow",
    "block flex", "block grid", "inline flow-root", "block flow-root"
})
_BLOCKS = frozenset({"block", "inline-block", "flex", "inline-flex", "grid", "inline-grid", "flow-root", "list-item"})
_INLINE = frozenset({"inline", "inline flow", "contents", "ruby"})
# fmt: on
_SIZES = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
}
_RELATIVE_SIZES = {"smaller": 5 / 6, "larger": 1.2}
_PICTURE = re.compile(r"url\(|[a-z-]{0,30}gradient\(|(?:-webkit-)?image-set\(|image\(|(?:-webkit-)?cross-fade\(")
_WORD = re.compile(r"""[^\s(),/]+(?:\((?:"[^"]*+"|'[^']*+'|[^()]|\([^()]*+\))*+\)?)?""")
# fmt: off
_IN_BACKGROUNDS = frozenset({
    "none", "repeat", "no-repeat", "repeat-x", "repeat-y", "space", "round", "scroll", "fixed", "local", "cover",
    "contain", "auto", "left", "right", "top", "bottom", "center", "border-box", "padding-box", "content-box", "text"
})
# fmt: on
_PLACES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}  # of one to four words, for four sides
_LONGEST_CACHED = 2_000
_CALLS = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)?")
_SIZE = re.compile(r"/\s*([^\s,/]+)")


def declared(text: str) -> tuple[Declared, Declared]:
    """What a `style` attribute or a block declares: in the usual way, and as important."""
    return _declared_often(text) if len(text) <= _LONGEST_CACHED else _declared(text)


def _declared(text: str) -> tuple[Declared, Declared]:
    usual: Declared = {}
    important: Declared = {}
    for name, value, is_important in css.declarations(text):
        reader = _READERS.get(_ALIASES.get(name, name))
        if reader is not None and value:
            (important if is_important else usual).update(_read(reader, _ALIASES.get(name, name), value))
    return usual, important


_declared_often = lru_cache(maxsize=512)(_declared)


def _read(reader: Reader, name: str, value: str) -> Mapping[str, object]:
    word = _FOR_ALL.get(value)
    if value in ("unset", "revert", "revert-layer"):
        word = INHERIT if name in INHERITED else INITIAL
    names = _LONGHANDS.get(name, (name,))
    if word and name != "all":
        return dict.fromkeys(names, word)
    if "env(" in value:
        value = _SAFE_AREA.sub("0px", value)
    found = reader(value) if (late := unjudged.late(name, value)) is None else None
    if found is None and "(" in value and not name.startswith(_SHOWING):
        doubt = late or unjudged.unread(name, value)
        return dict.fromkeys(names, doubt) if doubt else {}
    return found or {}


#: Nothing of a usual screen is cut off (CSS Environment Variables 1, 2.1).
_SAFE_AREA = re.compile(r"(?<![\w-])env\(\s*+safe-area-inset-(?:top|right|bottom|left)\s*+(?:,[^()]*+)?\)")
_SHOWING = ("padding", "min-", "border")  # properties that hide nothing


def _display(value: str) -> Mapping[str, object] | None:
    if value == "none":
        return {"display": "none"}
    value = " ".join(value.split())
    if value in _DISPLAYS:
        kind = "block" if value in _BLOCKS else "inline" if value in _INLINE else "other"
        return {"display": kind, "layout": next((one for one in ("flex", "grid") if one in value), "")}
    return None


def _word(name: str, *words: str) -> Reader:
    return lambda value: {name: value} if value in words else None


def _mso_hide(value: str) -> Mapping[str, object] | None:
    return {"mso-hide": value}


def _opacity(value: str) -> Mapping[str, object] | None:
    found = length(value)
    if found is None or not (found.is_number or found.percent):
        return {"opacity": 0.0} if found == Length() else None
    return {"opacity": min(1.0, max(0.0, found.pixels + found.percent / 100))}


def _font_size(value: str) -> Mapping[str, object] | None:
    """In pixels, or as a `Length` or a factor of the size around it."""
    if value in _SIZES:
        return {"font-size": Length(pixels=_SIZES[value])}
    if value in _RELATIVE_SIZES:
        return {"font-size": Length(letters=_RELATIVE_SIZES[value])}
    found = length(value)
    # Without a unit a browser takes it for pixels in an old document only. What is small is believed in any.
    if found is None or found.pixels < 0 or (found.is_number and found.pixels > 2):
        return None
    return {"font-size": found}


def _line_height(value: str) -> Mapping[str, object] | None:
    if value == "normal":
        return {"line-height": Length(pixels=1.2, is_number=True)}
    found = length(value)
    return {"line-height": found} if found else None


def _font(value: str) -> Mapping[str, object] | None:
    """The size is the first word that can be one; what stands before it are weights and the like."""
    for word in value.replace(" /", "/").replace("/ ", "/").split()[:8]:
        size, slash, height = word.partition("/")
        number = length(size)
        if size in _SIZES or size in _RELATIVE_SIZES or (number and not (number.is_number and number.pixels)):
            line = _line_height(height) if slash else _line_height("normal")
            found = _font_size(size)
            return {**found, **line} if found and line else None
    return None


def _colour(name: str) -> Reader:
    def read(value: str) -> Mapping[str, object] | None:
        if value == "currentcolor":
            return {name: INHERIT if name == "color" else CURRENT_COLOUR}
        found = colours.css_colour(value, name)
        return {name: found} if found is not None else None

    return read


def _background(value: str) -> Mapping[str, object] | None:
    """Its colour and its picture; of several layers the last has the colour."""
    colour: object = colours.TRANSPARENT
    sizes = _SIZE.findall(_CALLS.sub(" ", value))
    covers = all(size in ("auto", "cover", "contain", "100%") for size in sizes)
    for word in _WORD.findall(value):
        found = CURRENT_COLOUR if word == "currentcolor" else colours.css_colour(word, "background")
        size = length(word)
        if found is None and not (word in _IN_BACKGROUNDS or _PICTURE.match(word) or size):
            return None
        covers = covers and (size is None or size == Length(percent=100) or not (size.pixels or size.letters))
        colour = colour if found is None else found
    declared = {
        "background-color": colour,
        "background-image": backdrop.picture(value, covers=covers) or False,
        "background-size": covers,
    }
    return {**declared, "background-clip": "text"} if value.endswith(" text") else declared


def _background_image(value: str) -> Mapping[str, object] | None:
    return {"background-image": backdrop.picture(value) or False} if value == "none" or "(" in value else None


def _background_size(value: str) -> Mapping[str, object] | None:
    """Whether a picture lies behind all of a box."""
    return {"background-size": {"auto", "cover", "contain", "100%"}.issuperset(value.replace(",", " ").split())}


def _background_position(value: str) -> Mapping[str, object] | None:
    sizes = [each for each in map(length, value.replace(",", " ").split()) if each]
    return {"background-size": False} if any(each.pixels or each.letters for each in sizes) else {}


def _box_shadow(value: str) -> Mapping[str, object] | None:
    """One inside a box is a picture behind its letters."""
    found = box_shadow(value)
    return {"box-shadow": False if found is None else Picture("box-shadow", found, covers=False)}


def _length_of(name: str) -> Reader:
    def read(value: str) -> Mapping[str, object] | None:
        found = length(value)
        if found is None:
            return {name: INITIAL} if value in _AUTOMATIC or value.startswith("fit-content(") else None
        if found.is_number and found.pixels > 2:
            return None  # in an old document only
        return {name: found}

    return read


_AUTOMATIC = frozenset(
    {"auto", "none", "max-content", "min-content", "fit-content", "-webkit-fill-available", "stretch"}
)
_OVERFLOWS = frozenset({"visible", "hidden", "clip", "auto", "scroll", "overlay"})


def _overflow(value: str) -> Mapping[str, object] | None:
    words = value.split()
    if not 1 <= len(words) <= 2 or not _OVERFLOWS.issuperset(words):
        return None
    return {"overflow-x": words[0] != "visible", "overflow-y": words[-1] != "visible"}


def _overflow_of(name: str) -> Reader:
    return lambda value: {name: value != "visible"} if value in _OVERFLOWS else None


_OFFSETS = ("top", "right", "bottom", "left")


def _sides(*names: str) -> Reader:
    """Of a shorthand for four sides: top, right, bottom and left; those that have a name here."""

    def read(value: str) -> Mapping[str, object] | None:
        words = value.split()
        if not 1 <= len(words) <= 4:
            return None
        sides = (words[place] for place in _PLACES[len(words)])
        found: dict[str, object] = {}
        for name, word in zip(names, sides, strict=True):
            if name and (one := (_offset if name in _OFFSETS else _length_of)(name)(word)):
                found |= one
        return found

    return read


_OF_SCREEN = re.compile(r"\d(?:[sld]?v)(?:[hwib]|min|max)\b")


def _offset(name: str) -> Reader:
    """One of the size of the screen or more may lie where nobody scrolls to."""
    read_length = _length_of(name)

    def read(value: str) -> Mapping[str, object] | None:
        found = length(value)
        if found and found.pixels >= 100 * PERCENT_OF_SCREEN and _OF_SCREEN.search(value):
            return {name: Unjudged(f"{name}: viewport units")}
        return read_length(value)

    return read


_READERS: dict[str, Reader] = (
    RARE
    | {
        "display": _display,
        "mso-hide": _mso_hide,
        "visibility": _word("visibility", "visible", "hidden", "collapse"),
        "content-visibility": _word("content-visibility", "visible", "auto", "hidden"),
        "opacity": _opacity,
        "font": _font,
        "font-size": _font_size,
        "line-height": _line_height,
        "color": _colour("color"),
        "-webkit-text-fill-color": _colour("-webkit-text-fill-color"),
        "background": _background,
        "background-color": _colour("background-color"),
        "background-image": _background_image,
        "background-size": _background_size,
        "background-position": _background_position,
        "background-clip": lambda value: {"background-clip": value},
        "overflow": _overflow,
        "overflow-x": _overflow_of("overflow-x"),
        "overflow-y": _overflow_of("overflow-y"),
        "position": _word("position", "static", "relative", "absolute", "fixed", "sticky"),
        "float": _word("float", "left", "right", "none", "inline-start", "inline-end"),
        "box-shadow": _box_shadow,
        "margin": _sides("margin-top", "margin-right", "", "margin-left"),
        "padding": _sides("padding-top", "padding-right", "padding-bottom", "padding-left"),
        "inset": _sides(*_OFFSETS),
        "transform": shapes.transform,
        "transform-origin": shapes.transform_origin,
        "rotate": shapes.rotate,
        "scale": shapes.scale,
        "translate": shapes.translate,
        "clip": shapes.clip,
        "clip-path": shapes.clip_path,
    }
    | {name: _offset(name) for name in _OFFSETS}
    | {
        name: _length_of(name)
        for name in (
            *("height", "width", "max-height", "max-width"),
            *("min-height", "min-width", "text-indent", "margin-top", "margin-right", "margin-left"),
            *("padding-top", "padding-right", "padding-bottom", "padding-left"),
        )
    }
)
_ALIASES = RARE_ALIASES | {
    "-webkit-transform": "transform",
    "-webkit-transform-origin": "transform-origin",
    "-webkit-opacity": "opacity",
    "-webkit-clip-path": "clip-path",
    "-webkit-background-clip": "background-clip",
    "block-size": "height",
    "inline-size": "width",
    "max-block-size": "max-height",
    "max-inline-size": "max-width",
    "min-block-size": "min-height",
    "min-inline-size": "min-width",
    "padding-inline-start": "padding-left",
    "padding-block-start": "padding-top",
    "margin-inline-end": "margin-right",
    "margin-block-start": "margin-top",
    "margin-inline-start": "margin-left",
    "inset-block-start": "top",
    "inset-block-end": "bottom",
    "inset-inline-start": "left",
    "inset-inline-end": "right",
    "overflow-block": "overflow-y",
    "overflow-inline": "overflow-x",
}
_LONGHANDS = {
    "font": ("font-size", "line-height"),
    "background": ("background-color", "background-image", "background-size"),
    "overflow": ("overflow-x", "overflow-y"),
    "margin": ("margin-top", "margin-right", "margin-left"),
    "padding": ("padding-top", "padding-right", "padding-bottom", "padding-left"),
    "inset": ("top", "right", "bottom", "left"),
}
