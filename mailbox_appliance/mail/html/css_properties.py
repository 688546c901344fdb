"""The CSS properties that can hide text, and the meaning of their values. All other properties are ignored.

A property reader is a function that interprets one value of a property. It returns the resulting declarations by name,
or None if the value is not valid. An UnjudgedValue marks a value that may hide text.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from mailbox_appliance.mail.html import css_backdrop, css_parser, css_values
from mailbox_appliance.mail.html.css_backdrop import BackgroundPicture
from mailbox_appliance.mail.html.css_values import PERCENT_OF_SCREEN, Length, UnjudgedValue, parse_length

# --- Properties that mail rarely uses: only a few of their values are understood here ---


PropertyReader = Callable[[str], Mapping[str, object] | None]

_FAR = 400.0  # pixels
_LARGEST_ZOOM = 10.0
_LEAST_SPACING = -0.5  # times the font size: closer letters overlap
_THICK_LINE = 4.0  # pixels: a thicker line may cover letters
_LEAST_OUTLINE = -5.0
_WIDE_BORDER = 20.0  # pixels: a narrower one is a line, or the triangle of an arrow
_WIDEST = 50.0  # times the height of a box
_MINMAX = re.compile(r"minmax\([^(),]*,([^(),]*)\)")
_FRACTION = re.compile(r"([\d.]{1,20})fr")
_FILTERS = re.compile(
    r"(?<![\w-])(blur|brightness|contrast|hue-rotate|invert|saturate|sepia|grayscale|url)\(([^()]*)\)"
)
_HARMLESS_FILTERS = frozenset({"grayscale", "sepia", "hue-rotate"})  # the contrast of letters stays the same
_OPACITY = re.compile(r"opacity\(\s*([\d.]{1,20})(%?)\s*\)")
_RATIO = re.compile(r"(?:auto\s+)?([\d.]{1,20})(?:\s*/\s*([\d.]{1,20}))?(?:\s+auto)?")


def _keyword_reader(name: str, *safe: str) -> PropertyReader:
    """Any value that is not in `safe` may hide text."""
    return lambda value: {name: value if value in safe else UnjudgedValue(name)}


def _filter(value: str) -> Mapping[str, object] | None:
    """Return the opacity that remains. A filter that may change the contrast of text is not judged."""
    if "(" not in value and value != "none":
        return None
    rest = 1.0
    for number, percent in _OPACITY.findall(value):
        try:
            rest *= float(number) / (100 if percent else 1)
        except ValueError:
            return None
    if rest < 0.1:
        return {"filter": rest}
    for name, content in _FILTERS.findall(value):
        radius = parse_length(content.strip()) if name == "blur" and content.strip() else None
        if name not in _HARMLESS_FILTERS and not (
            name == "blur" and (not content.strip() or (radius and radius.to_pixels(16.0) <= 1))
        ):
            return {"filter": UnjudgedValue(f"filter: {name}()")}
    return {"filter": rest}


def _zoom(value: str) -> Mapping[str, object] | None:
    found = Length(pixels=1.0, is_number=True) if value in ("normal", "reset", "document") else parse_length(value)
    if found is None or not (found.is_number or found.percent):
        return None
    factor = found.pixels + found.percent / 100
    return {"zoom": UnjudgedValue("zoom") if factor > _LARGEST_ZOOM else factor or 1.0}


def _font_size_adjust(value: str) -> Mapping[str, object] | None:
    """Return the height of lower-case letters as a share of the font size (CSS Fonts 5, 2.5)."""
    if value == "none" or value.endswith("from-font"):
        return {"font-size-adjust": "initial"}
    found = parse_length(value.split()[-1])
    return {"font-size-adjust": found.pixels} if found and found.is_number else None


def _spacing_reader(name: str) -> PropertyReader:
    def read(value: str) -> Mapping[str, object] | None:
        found = parse_length(value) if value != "normal" else Length()
        if found is None:
            return None
        shift = found.to_pixels(16.0)
        is_narrow = name == "letter-spacing" and shift < _LEAST_SPACING * 16
        return {name: UnjudgedValue(name) if is_narrow or abs(shift) >= _FAR else "initial"}

    return read


def _thickness_reader(name: str, least: float) -> PropertyReader:
    """A line thicker than `least` pixels may cover text. With a negative `least`, so may one with a lower offset."""

    def read(value: str) -> Mapping[str, object] | None:
        found = [each.to_pixels(16.0) for each in map(parse_length, value.split()) if each]
        return {name: UnjudgedValue(name) if any(x > least if least > 0 else x < least for x in found) else value}

    return read


def _text_decoration(value: str) -> Mapping[str, object] | None:
    return (
        _thickness_reader("text-decoration", _THICK_LINE)(value)
        if "line-through" in value
        else {"text-decoration": value}
    )


def _color_scheme(value: str) -> Mapping[str, object] | None:
    is_dark = "dark" in value.split() and "light" not in value.split()
    return {"color-scheme": UnjudgedValue("color-scheme: dark") if is_dark else value}


def _content(value: str) -> Mapping[str, object] | None:
    """A picture may replace the text of the element (CSS Content 3, 2)."""
    return {"content": UnjudgedValue("content: url()") if "(" in value and "counter" not in value else value}


def _contain(value: str) -> Mapping[str, object] | None:
    is_safe = {"none", "layout", "style"}.issuperset(value.split())
    return {"contain": value if is_safe else UnjudgedValue("contain")}


def _aspect_ratio(value: str) -> Mapping[str, object] | None:
    found = _RATIO.fullmatch(value)
    try:
        ratio = float(found[1]) / float(found[2] or 1) if found else 1.0
    except (ValueError, ZeroDivisionError):
        ratio = 1.0
    return {"aspect-ratio": UnjudgedValue("aspect-ratio") if ratio > _WIDEST else value}


def _flex(value: str) -> Mapping[str, object] | None:
    """An item that starts at zero and does not grow may have no width (CSS Flexbox 1, 7.1)."""
    words = value.split()
    basis = parse_length(words[2] if len(words) > 2 else "0px") if words[0].startswith("0") else None
    return {"flex": UnjudgedValue("flex") if basis and _is_thin(basis) else value}


def _flex_basis(value: str) -> Mapping[str, object] | None:
    basis = parse_length(value)
    return {"flex": UnjudgedValue("flex") if basis and _is_thin(basis) else value}


def _flex_grow(value: str) -> Mapping[str, object] | None:
    found = parse_length(value)
    return {"flex": value} if found and found.pixels > 0 else None


def _is_thin(found: Length) -> bool:
    return found.to_pixels(16.0) <= 1


def _has_flat_track(value: str) -> Mapping[str, object] | None:
    """Return whether a row or column of a grid may have no size."""
    for word in _MINMAX.sub(r"\1", value).replace("/", " ").replace(",", " ").split():
        word = word.removeprefix("repeat(").rstrip(")")
        share, size = _FRACTION.fullmatch(word), parse_length(word)
        if (share and parse_length(share[1]) and float(share[1]) < 0.05) or (
            size and not (size.is_number and size.pixels) and _is_thin(size)
        ):
            return {"grid": True}
    return {"grid": False}


def _border(value: str) -> Mapping[str, object] | None:
    """Return whether a border is visible and so wide that it may cover text."""
    widest = max((each.to_pixels(16.0) for each in map(parse_length, value.split()) if each), default=0.0)
    return {"border": widest >= _WIDE_BORDER and not {"transparent", "none", "hidden"} & set(value.split())}


def _z_index(value: str) -> Mapping[str, object] | None:
    """A box with a negative value may be behind the backgrounds of its parents (CSS 2.1, appendix E)."""
    found = parse_length(value)
    return {"z-index": UnjudgedValue("z-index") if found and found.pixels < 0 else value}


_RARE_READERS: dict[str, PropertyReader] = {
    "all": _keyword_reader("all"),
    "animation": lambda value: {"animation": value},
    "aspect-ratio": _aspect_ratio,
    "backface-visibility": lambda value: {"backface-visibility": value},
    "backdrop-filter": lambda value: {"backdrop-filter": value != "none"},
    "border": _border,
    "border-image": lambda value: {"border-image": "fill" in value.split()},
    "color-scheme": _color_scheme,
    "contain": _contain,
    "content": _content,
    "filter": _filter,
    "flex": _flex,
    "flex-basis": _flex_basis,
    "flex-grow": _flex_grow,
    "font-size-adjust": _font_size_adjust,
    "grid": _has_flat_track,
    "-webkit-line-clamp": _keyword_reader("-webkit-line-clamp", "none"),
    "letter-spacing": _spacing_reader("letter-spacing"),
    "mask": _keyword_reader("mask", "none"),
    "mask-border": _keyword_reader("mask-border", "none"),
    "mix-blend-mode": _keyword_reader("mix-blend-mode", "normal"),
    "offset-path": _keyword_reader("offset-path", "none", "auto"),
    "outline-offset": _thickness_reader("outline-offset", _LEAST_OUTLINE),
    "text-decoration": _text_decoration,
    "-webkit-text-security": _keyword_reader("-webkit-text-security", "none"),
    "-webkit-text-stroke": _thickness_reader("-webkit-text-stroke", _THICK_LINE),
    "word-spacing": _spacing_reader("word-spacing"),
    "z-index": _z_index,
    "zoom": _zoom,
}
#: Names that are read as other names of this table.
_RARE_ALIASES = {
    "-webkit-animation": "animation",
    "-webkit-backdrop-filter": "backdrop-filter",
    **{f"border-{side}": "border" for side in ("top", "right", "bottom", "left")},
    **{f"border-{side}-width": "border" for side in ("top", "right", "bottom", "left")},
    "border-width": "border",
    "border-image-slice": "border-image",
    "animation-name": "animation",
    "-webkit-animation-name": "animation",
    "-webkit-backface-visibility": "backface-visibility",
    "-webkit-filter": "filter",
    "-webkit-flex": "flex",
    "-webkit-flex-basis": "flex-basis",
    "-webkit-flex-grow": "flex-grow",
    "grid-template": "grid",
    "grid-template-rows": "grid",
    "grid-template-columns": "grid",
    "grid-auto-rows": "grid",
    "grid-auto-columns": "grid",
    "line-clamp": "-webkit-line-clamp",
    "-webkit-mask": "mask",
    "mask-image": "mask",
    "-webkit-mask-image": "mask",
    "mask-border-source": "mask-border",
    "-webkit-mask-box-image": "mask-border",
    "-webkit-mask-box-image-source": "mask-border",
    "offset": "offset-path",
    "-webkit-text-stroke-width": "-webkit-text-stroke",
}


# --- All relevant properties ---


#: Declarations: the meaning of each property's value. The words `inherit` and `initial` stay as they are.
Declared = dict[str, object]

INHERIT, INITIAL, CURRENT_COLOUR = "inherit", "initial", "currentcolor"
INHERITED = frozenset({
    "visibility", "font-size", "line-height", "color", "-webkit-text-fill-color", "text-indent", "font-size-adjust",
    "letter-spacing", "word-spacing", "-webkit-text-security", "-webkit-text-stroke", "color-scheme"
})  # fmt: skip
_KEYWORDS_FOR_ALL = {"inherit": INHERIT, "initial": INITIAL}

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
_FONT_SIZES = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
}  # fmt: skip
_RELATIVE_SIZES = {"smaller": 5 / 6, "larger": 1.2}
_PICTURE = re.compile(r"url\(|[a-z-]{0,30}gradient\(|(?:-webkit-)?image-set\(|image\(|(?:-webkit-)?cross-fade\(")
_WORD = re.compile(r"""[^\s(),/]+(?:\((?:"[^"]*+"|'[^']*+'|[^()]|\([^()]*+\))*+\)?)?""")
# fmt: off
_BACKGROUND_WORDS = frozenset({
    "none", "repeat", "no-repeat", "repeat-x", "repeat-y", "space", "round", "scroll", "fixed", "local", "cover",
    "contain", "auto", "left", "right", "top", "bottom", "center", "border-box", "padding-box", "content-box", "text"
})
# fmt: on
_LONGEST_CACHED = 2_000
_CALLS = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)?")
_SIZE = re.compile(r"/\s*([^\s,/]+)")


def parse_declared(text: str) -> tuple[Declared, Declared]:
    """Return the interpreted declarations of a `style` attribute or a rule's block: the normal ones, and the
    `!important` ones.
    """
    return _declared_often(text) if len(text) <= _LONGEST_CACHED else _parse_declared(text)


def _parse_declared(text: str) -> tuple[Declared, Declared]:
    usual: Declared = {}
    important: Declared = {}
    for name, value, is_important in css_parser.parse_declarations(text):
        reader = _READERS.get(_ALIASES.get(name, name))
        if reader is not None and value:
            (important if is_important else usual).update(_read_value(reader, _ALIASES.get(name, name), value))
    return usual, important


_declared_often = lru_cache(maxsize=512)(_parse_declared)


def _read_value(reader: PropertyReader, name: str, value: str) -> Mapping[str, object]:
    word = _KEYWORDS_FOR_ALL.get(value)
    if value in ("unset", "revert", "revert-layer"):
        word = INHERIT if name in INHERITED else INITIAL
    names = _LONGHANDS.get(name, (name,))
    if word and name != "all":
        return dict.fromkeys(names, word)
    if "env(" in value:
        value = _SAFE_AREA.sub("0px", value)
    found = reader(value) if (late := css_values.defer_to_browser(name, value)) is None else None
    if found is None and "(" in value and not name.startswith(_HARMLESS_PROPERTIES):
        doubt = late or css_values.find_unknown_function(name, value)
        return dict.fromkeys(names, doubt) if doubt else {}
    return found or {}


#: Usual screens cut nothing off (CSS Environment Variables 1, 2.1).
_SAFE_AREA = re.compile(r"(?<![\w-])env\(\s*+safe-area-inset-(?:top|right|bottom|left)\s*+(?:,[^()]*+)?\)")
_HARMLESS_PROPERTIES = ("padding", "min-", "border")  # properties that hide nothing


def _display(value: str) -> Mapping[str, object] | None:
    if value == "none":
        return {"display": "none"}
    value = " ".join(value.split())
    if value in _DISPLAYS:
        kind = "block" if value in _BLOCKS else "inline" if value in _INLINE else "other"
        return {"display": kind, "layout": next((one for one in ("flex", "grid") if one in value), "")}
    return None


def _word_reader(name: str, *words: str) -> PropertyReader:
    return lambda value: {name: value} if value in words else None


def _opacity(value: str) -> Mapping[str, object] | None:
    found = parse_length(value)
    if found is None or not (found.is_number or found.percent):
        return {"opacity": 0.0} if found == Length() else None
    return {"opacity": min(1.0, max(0.0, found.pixels + found.percent / 100))}


def _font_size(value: str) -> Mapping[str, object] | None:
    if value in _FONT_SIZES:
        return {"font-size": Length(pixels=_FONT_SIZES[value])}
    if value in _RELATIVE_SIZES:
        return {"font-size": Length(letters=_RELATIVE_SIZES[value])}
    found = parse_length(value)
    # Only old documents take a number without a unit as pixels. A small value counts in any document.
    if found is None or found.pixels < 0 or (found.is_number and found.pixels > 2):
        return None
    return {"font-size": found}


def _line_height(value: str) -> Mapping[str, object] | None:
    if value == "normal":
        return {"line-height": Length(pixels=1.2, is_number=True)}
    found = parse_length(value)
    return {"line-height": found} if found else None


def _font(value: str) -> Mapping[str, object] | None:
    """The size is the first word that can be one; words before it are weights and similar values."""
    for word in value.replace(" /", "/").replace("/ ", "/").split()[:8]:
        size, slash, height = word.partition("/")
        number = parse_length(size)
        if size in _FONT_SIZES or size in _RELATIVE_SIZES or (number and not (number.is_number and number.pixels)):
            line = _line_height(height) if slash else _line_height("normal")
            found = _font_size(size)
            return {**found, **line} if found and line else None
    return None


def _colour_reader(name: str) -> PropertyReader:
    def read(value: str) -> Mapping[str, object] | None:
        if value == "currentcolor":
            return {name: INHERIT if name == "color" else CURRENT_COLOUR}
        found = css_values.parse_css_colour(value, name)
        return {name: found} if found is not None else None

    return read


def _background(value: str) -> Mapping[str, object] | None:
    """The last one of several layers has the color."""
    colour: object = css_values.TRANSPARENT
    sizes = _SIZE.findall(_CALLS.sub(" ", value))
    covers = all(size in ("auto", "cover", "contain", "100%") for size in sizes)
    for word in _WORD.findall(value):
        found = CURRENT_COLOUR if word == "currentcolor" else css_values.parse_css_colour(word, "background")
        size = parse_length(word)
        if found is None and not (word in _BACKGROUND_WORDS or _PICTURE.match(word) or size):
            return None
        covers = covers and (size is None or size == Length(percent=100) or not (size.pixels or size.letters))
        colour = colour if found is None else found
    declared = {
        "background-color": colour,
        "background-image": css_backdrop.parse_picture(value, covers=covers) or False,
        "background-size": covers,
    }
    return {**declared, "background-clip": "text"} if value.endswith(" text") else declared


def _background_image(value: str) -> Mapping[str, object] | None:
    return {"background-image": css_backdrop.parse_picture(value) or False} if value == "none" or "(" in value else None


def _background_size(value: str) -> Mapping[str, object] | None:
    """Return whether the picture covers the whole box."""
    return {"background-size": {"auto", "cover", "contain", "100%"}.issuperset(value.replace(",", " ").split())}


def _background_position(value: str) -> Mapping[str, object] | None:
    sizes = [each for each in map(parse_length, value.replace(",", " ").split()) if each]
    return {"background-size": False} if any(each.pixels or each.letters for each in sizes) else {}


def _box_shadow(value: str) -> Mapping[str, object] | None:
    """A shadow inside the box is a picture behind its text, except a line at the edge (CSS Backgrounds 3, 6.1)."""
    lengths = filter(None, map(parse_length, re.split(r"[\s,()]+", value)))
    sizes = [abs(each.to_pixels(16.0)) for each in lengths if not each.percent]
    if "inset" not in value or max(sizes, default=0.0) < 8:
        return {"box-shadow": False}
    words = re.findall(r"#[0-9a-f]{3,8}|(?:rgb|hsl)a?\([^()]*\)|[a-z]+", value)
    colours = [each for each in map(css_values.parse_css_colour, words) if isinstance(each, tuple)]
    return {"box-shadow": BackgroundPicture("box-shadow", tuple(colours), covers=False)}


def _length_reader(name: str) -> PropertyReader:
    def read(value: str) -> Mapping[str, object] | None:
        found = parse_length(value)
        if found is None:
            return {name: INITIAL} if value in _AUTOMATIC or value.startswith("fit-content(") else None
        if found.is_number and found.pixels > 2:
            return None  # only in an old document
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


def _overflow_reader(name: str) -> PropertyReader:
    return lambda value: {name: value != "visible"} if value in _OVERFLOWS else None


_OFFSETS = ("top", "right", "bottom", "left")


def _sides(*names: str) -> PropertyReader:
    """Return a function that interprets a shorthand with one to four lengths, such as `margin`."""

    def read(value: str) -> Mapping[str, object] | None:
        words = value.split()
        if not 1 <= len(words) <= 4:
            return None
        sides = (words[place] for place in css_values.WORDS_OF_SIDES[len(words)])
        found: dict[str, object] = {}
        for name, word in zip(names, sides, strict=True):
            if name and (one := (_offset_reader if name in _OFFSETS else _length_reader)(name)(word)):
                found |= one
        return found

    return read


_OF_SCREEN = re.compile(r"\d(?:[sld]?v)(?:[hwib]|min|max)\b")


def _offset_reader(name: str) -> PropertyReader:
    """Readers may not scroll to a box that is one screen or more away in viewport units."""
    read_length = _length_reader(name)

    def read(value: str) -> Mapping[str, object] | None:
        found = parse_length(value)
        if found and found.pixels >= 100 * PERCENT_OF_SCREEN and _OF_SCREEN.search(value):
            return {name: UnjudgedValue(f"{name}: viewport units")}
        return read_length(value)

    return read


_READERS: dict[str, PropertyReader] = (
    _RARE_READERS
    | {
        "display": _display,
        "mso-hide": lambda value: {"mso-hide": value},
        "visibility": _word_reader("visibility", "visible", "hidden", "collapse"),
        "content-visibility": _word_reader("content-visibility", "visible", "auto", "hidden"),
        "opacity": _opacity,
        "font": _font,
        "font-size": _font_size,
        "line-height": _line_height,
        "color": _colour_reader("color"),
        "-webkit-text-fill-color": _colour_reader("-webkit-text-fill-color"),
        "background": _background,
        "background-color": _colour_reader("background-color"),
        "background-image": _background_image,
        "background-size": _background_size,
        "background-position": _background_position,
        "background-clip": lambda value: {"background-clip": value},
        "overflow": _overflow,
        "overflow-x": _overflow_reader("overflow-x"),
        "overflow-y": _overflow_reader("overflow-y"),
        "position": _word_reader("position", "static", "relative", "absolute", "fixed", "sticky"),
        "float": _word_reader("float", "left", "right", "none", "inline-start", "inline-end"),
        "box-shadow": _box_shadow,
        "margin": _sides("margin-top", "margin-right", "", "margin-left"),
        "padding": _sides("padding-top", "padding-right", "padding-bottom", "padding-left"),
        "inset": _sides(*_OFFSETS),
        "transform": css_values.parse_transform,
        "transform-origin": css_values.parse_transform_origin,
        "rotate": css_values.parse_rotate,
        "scale": css_values.parse_scale,
        "translate": css_values.parse_translate,
        "clip": css_values.parse_clip,
        "clip-path": css_values.parse_clip_path,
    }
    | {name: _offset_reader(name) for name in _OFFSETS}
    | {
        name: _length_reader(name)
        for name in (
            *("height", "width", "max-height", "max-width"),
            *("min-height", "min-width", "text-indent", "margin-top", "margin-right", "margin-left"),
            *("padding-top", "padding-right", "padding-bottom", "padding-left"),
        )
    }
)
_ALIASES = _RARE_ALIASES | {
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
