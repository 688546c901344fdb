"""Properties of CSS that can hide text and that mail rarely uses: what few of their values do is known here."""

import re
from collections.abc import Callable, Mapping

from mailbox_appliance.mail import colours
from mailbox_appliance.mail.lengths import Length, length
from mailbox_appliance.mail.unjudged import Unjudged

Reader = Callable[[str], Mapping[str, object] | None]

_FAR = 400.0  # pixels
_LARGEST_ZOOM = 10.0
_LEAST_SPACING = -0.5  # times the size of letters: closer ones lie on each other
_THICK = 4.0  # pixels of a line that covers letters
_LEAST_OUTLINE = -5.0
_WIDE_BORDER = 20.0  # pixels: a narrower one is a line, or the triangle of an arrow
_WIDEST = 50.0  # times the height of a box
_MINMAX = re.compile(r"minmax\([^(),]*,([^(),]*)\)")
_FRACTION = re.compile(r"([\d.]{1,20})fr")
_FILTERS = re.compile(
    r"(?<![\w-])(blur|brightness|contrast|hue-rotate|invert|saturate|sepia|grayscale|url)\(([^()]*)\)"
)
_HARMLESS_FILTERS = frozenset({"grayscale", "sepia", "hue-rotate"})  # letters stay as different from what is behind
_OPACITY = re.compile(r"opacity\(\s*([\d.]{1,20})(%?)\s*\)")
_RATIO = re.compile(r"(?:auto\s+)?([\d.]{1,20})(?:\s*/\s*([\d.]{1,20}))?(?:\s+auto)?")


def _only(name: str, *safe: str) -> Reader:
    """A property of which these values hide nothing, and any other may."""
    return lambda value: {name: value if value in safe else Unjudged(name)}


def _filter(value: str) -> Mapping[str, object] | None:
    """How opaque it leaves something (Filter Effects 1); what changes its colours is not worked out."""
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
        radius = length(content.strip()) if name == "blur" and content.strip() else None
        if name not in _HARMLESS_FILTERS and not (
            name == "blur" and (not content.strip() or (radius and radius.to_pixels(16.0) <= 1))
        ):
            return {"filter": Unjudged(f"filter: {name}()")}
    return {"filter": rest}


def _zoom(value: str) -> Mapping[str, object] | None:
    found = Length(pixels=1.0, is_number=True) if value in ("normal", "reset", "document") else length(value)
    if found is None or not (found.is_number or found.percent):
        return None
    factor = found.pixels + found.percent / 100
    return {"zoom": Unjudged("zoom") if factor > _LARGEST_ZOOM else factor or 1.0}


def _font_size_adjust(value: str) -> Mapping[str, object] | None:
    """The height of small letters, as a share of the size (CSS Fonts 5, 2.5)."""
    if value == "none" or value.endswith("from-font"):
        return {"font-size-adjust": "initial"}
    found = length(value.split()[-1])
    return {"font-size-adjust": found.pixels} if found and found.is_number else None


def _spacing(name: str) -> Reader:
    def read(value: str) -> Mapping[str, object] | None:
        found = length(value) if value != "normal" else Length()
        if found is None:
            return None
        shift = found.to_pixels(16.0)
        is_narrow = name == "letter-spacing" and shift < _LEAST_SPACING * 16
        return {name: Unjudged(name) if is_narrow or abs(shift) >= _FAR else "initial"}

    return read


def _thick(name: str, least: float) -> Reader:
    """A line that may cover letters from a width on; negative: from an offset down."""

    def read(value: str) -> Mapping[str, object] | None:
        found = [each.to_pixels(16.0) for each in map(length, value.split()) if each]
        return {name: Unjudged(name) if any(x > least if least > 0 else x < least for x in found) else value}

    return read


def _text_decoration(value: str) -> Mapping[str, object] | None:
    return _thick("text-decoration", _THICK)(value) if "line-through" in value else {"text-decoration": value}


def _color_scheme(value: str) -> Mapping[str, object] | None:
    is_dark = "dark" in value.split() and "light" not in value.split()
    return {"color-scheme": Unjudged("color-scheme: dark") if is_dark else value}


def _content(value: str) -> Mapping[str, object] | None:
    """A picture in the place of what is in an element (CSS Content 3, 2)."""
    return {"content": Unjudged("content: url()") if "(" in value and "counter" not in value else value}


def _contain(value: str) -> Mapping[str, object] | None:
    is_safe = {"none", "layout", "style"}.issuperset(value.split())
    return {"contain": value if is_safe else Unjudged("contain")}


def _aspect_ratio(value: str) -> Mapping[str, object] | None:
    found = _RATIO.fullmatch(value)
    try:
        ratio = float(found[1]) / float(found[2] or 1) if found else 1.0
    except (ValueError, ZeroDivisionError):
        ratio = 1.0
    return {"aspect-ratio": Unjudged("aspect-ratio") if ratio > _WIDEST else value}


def _flex(value: str) -> Mapping[str, object] | None:
    """An item that may have no width: it does not grow from a basis of nothing (CSS Flexbox 1, 7.1)."""
    words = value.split()
    basis = length(words[2] if len(words) > 2 else "0px") if words[0].startswith("0") else None
    return {"flex": Unjudged("flex") if basis and _is_thin(basis) else value}


def _flex_basis(value: str) -> Mapping[str, object] | None:
    basis = length(value)
    return {"flex": Unjudged("flex") if basis and _is_thin(basis) else value}


def _flex_grow(value: str) -> Mapping[str, object] | None:
    found = length(value)
    return {"flex": value} if found and found.pixels > 0 else None


def _is_thin(found: Length) -> bool:
    return found.to_pixels(16.0) <= 1


def _tracks(value: str) -> Mapping[str, object] | None:
    """Whether a row or column of a grid may have no size."""
    for word in _MINMAX.sub(r"\1", value).replace("/", " ").replace(",", " ").split():
        word = word.removeprefix("repeat(").rstrip(")")
        share, size = _FRACTION.fullmatch(word), length(word)
        if (share and length(share[1]) and float(share[1]) < 0.05) or (
            size and not (size.is_number and size.pixels) and _is_thin(size)
        ):
            return {"grid": True}
    return {"grid": False}


def _border(value: str) -> Mapping[str, object] | None:
    """Whether a border is so wide that it may cover text."""
    widest = max((each.to_pixels(16.0) for each in map(length, value.split()) if each), default=0.0)
    return {"border": widest >= _WIDE_BORDER and not {"transparent", "none", "hidden"} & set(value.split())}


def _z_index(value: str) -> Mapping[str, object] | None:
    """What lies below 0 lies behind the backgrounds around it (CSS 2.1, appendix E)."""
    found = length(value)
    return {"z-index": Unjudged("z-index") if found and found.pixels < 0 else value}


def _stroke(value: str) -> Mapping[str, object] | None:
    return _thick("-webkit-text-stroke", _THICK)(value)


RARE: dict[str, Reader] = {
    "all": _only("all"),
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
    "grid": _tracks,
    "-webkit-line-clamp": _only("-webkit-line-clamp", "none"),
    "letter-spacing": _spacing("letter-spacing"),
    "mask": _only("mask", "none"),
    "mask-border": _only("mask-border", "none"),
    "mix-blend-mode": _only("mix-blend-mode", "normal"),
    "offset-path": _only("offset-path", "none", "auto"),
    "outline-offset": _thick("outline-offset", _LEAST_OUTLINE),
    "text-decoration": _text_decoration,
    "-webkit-text-security": _only("-webkit-text-security", "none"),
    "-webkit-text-stroke": _stroke,
    "word-spacing": _spacing("word-spacing"),
    "z-index": _z_index,
    "zoom": _zoom,
}
#: Names that are read as if they were another one of these.
RARE_ALIASES = {
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


def box_shadow(value: str) -> tuple[colours.Colour, ...] | None:
    """The colours of a shadow inside a box that lies behind its text; None where there is none.

    A thin one is only a line at the edge (CSS Backgrounds 3, 6.1).
    """
    if "inset" not in value:
        return None
    sizes = [
        abs(each.to_pixels(16.0)) for each in map(length, re.split(r"[\s,()]+", value)) if each and not each.percent
    ]
    if max(sizes, default=0.0) < 8:
        return None
    words = re.findall(r"#[0-9a-f]{3,8}|(?:rgb|hsl)a?\([^()]*\)|[a-z]+", value)
    found = [colours.css_colour(word) for word in words]
    return tuple(each for each in found if isinstance(each, tuple))
