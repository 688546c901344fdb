"""Values of CSS: lengths, colors, transforms and clips. A value whose effect on text is unknown becomes an
UnjudgedValue.

Lengths assume a screen of 1,000 by 1,000 pixels, since the real size is unknown. In all of this package, `letters` as a
number is a font size in pixels.
"""

import colorsys
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_NUMBER = r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:e[+-]?\d{1,9})?"
_LENGTH = re.compile(rf"({_NUMBER})([a-z]{{1,5}}|%)?")
_LENGTH_FUNCTION = re.compile(r"(?:-webkit-|-moz-)?(calc|min|max|clamp)\(")
_LONGEST_FUNCTION = 300  # characters
_LENGTH_PARTS = re.compile(
    rf"(?P<number>{_NUMBER})(?P<unit>[a-z]{{1,5}}|%)?"
    r"|(?:-webkit-|-moz-)?(?P<call>(?:calc|min|max|clamp)?)\(|(?P<sign>[-+*/),])|\s+|(?P<other>.)",
    re.S,
)
_MOST_NESTED_FUNCTIONS = 10  # nested parentheses
_ABSOLUTE_UNITS = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6}
_LETTER_UNITS = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2} | dict.fromkeys(
    ("rem", "rlh", "rex", "rch", "rcap", "ric"), 0.0
)
_SCREEN_UNITS = frozenset(
    kind + side for kind in ("v", "sv", "lv", "dv", "cq") for side in ("w", "h", "min", "max", "i", "b")
)
_ROOT_UNITS = {"rem": 16.0, "rlh": 19.2, "rex": 8.0, "rch": 8.0, "rcap": 11.2, "ric": 16.0}
PERCENT_OF_SCREEN = 10.0  # pixels


@dataclass(frozen=True, slots=True)
class Length:
    """A CSS length: a number of pixels, plus a multiple of the font size, plus a percentage."""

    pixels: float = 0.0
    letters: float = 0.0  # times the font size
    percent: float = 0.0
    is_number: bool = False  # written without a unit

    def to_pixels(self, letters: float, percent: float = PERCENT_OF_SCREEN) -> float:
        """Return the length in pixels. `letters`: the font size in pixels. `percent`: the number of pixels in one
        percent.
        """
        return self.pixels + self.letters * letters + self.percent * percent

    def times(self, factor: float) -> "Length":
        """Return the length multiplied by a factor."""
        return Length(self.pixels * factor, self.letters * factor, self.percent * factor, self.is_number)

    def plus(self, other: "Length") -> "Length":
        """Return the sum of both lengths."""
        return Length(
            self.pixels + other.pixels,
            self.letters + other.letters,
            self.percent + other.percent,
            self.is_number and other.is_number,
        )


def parse_length(value: str) -> Length | None:
    """Return a length, a percentage, a number, or the result of `calc()` and similar functions. `value` must be in
    lower case. None for other values.
    """
    if found := _LENGTH.fullmatch(value):
        return _plain_length(float(found[1]), found[2])
    if _LENGTH_FUNCTION.match(value) and len(value) <= _LONGEST_FUNCTION:
        try:
            return _MathParser(value).parse()
        except (ValueError, ZeroDivisionError, OverflowError):
            return None
    return None


def _plain_length(number: float, unit: str | None) -> Length | None:
    if unit is None:
        return Length(pixels=number, is_number=True)
    if unit == "%":
        return Length(percent=number)
    if unit in _ABSOLUTE_UNITS:
        return Length(pixels=number * _ABSOLUTE_UNITS[unit])
    if unit in _LETTER_UNITS:
        return Length(letters=number * _LETTER_UNITS[unit], pixels=number * _ROOT_UNITS.get(unit, 0))
    return Length(pixels=number * PERCENT_OF_SCREEN) if unit in _SCREEN_UNITS else None


class _MathParser:
    """A parser for nested `calc()`, `min()`, `max()` and `clamp()` (CSS Values 4, 10). Raises ValueError for anything
    else.
    """

    def __init__(self, text: str) -> None:
        self._parts = [part for part in _LENGTH_PARTS.finditer(text) if not part[0].isspace()]
        self._place = 0

    def parse(self) -> Length:
        found = self._value(0)
        if self._place < len(self._parts) or not math.isfinite(found.to_pixels(16.0)):
            raise ValueError(found)  # CSS treats a value that is not a number as 0, and an infinite one as the largest
        return found

    def _sign(self, signs: str) -> str:
        """Consume the next token if it is one of these signs, and return it; otherwise return an empty text. At the end
        of the value, missing `)` are assumed (CSS Syntax 5.4.9).
        """
        if self._place == len(self._parts):
            return ")" if ")" in signs else ""
        sign = self._parts[self._place]["sign"]
        if not sign or sign not in signs:
            return ""
        self._place += 1
        return sign

    def _value(self, depth: int) -> Length:
        if self._place == len(self._parts) or depth > _MOST_NESTED_FUNCTIONS:
            raise ValueError(depth)
        part = self._parts[self._place]
        self._place += 1
        if part["number"]:
            found = _plain_length(float(part["number"]), part["unit"])
            if found is None:
                raise ValueError(part[0])
            return found
        if part["call"] is None:
            raise ValueError(part[0])
        given = [self._sum(depth)]
        while (end := self._sign("),")) != ")":
            if not end:
                raise ValueError(part[0])
            given.append(self._sum(depth))
        return _apply_function(part["call"], given)

    def _sum(self, depth: int) -> Length:
        total = self._product(depth)
        while sign := self._sign("+-"):
            total = total.plus(self._product(depth).times(-1 if sign == "-" else 1))
        return total

    def _product(self, depth: int) -> Length:
        total = self._value(depth + 1)
        while sign := self._sign("*/"):
            other = self._value(depth + 1)
            if sign == "/":
                other = Length(pixels=1 / other.pixels, is_number=other.is_number)
            if not (total.is_number or other.is_number):
                raise ValueError(sign)
            total = total.times(other.pixels) if other.is_number else other.times(total.pixels)
        return total


def _apply_function(name: str, given: list[Length]) -> Length:
    """Return the result of `calc()`, `min()`, `max()` or `clamp()` for these arguments. To compare lengths, it assumes
    a font size of 16 pixels.
    """
    if name in ("", "calc"):
        if len(given) > 1:
            raise ValueError(name)
        return given[0]
    sizes = [each.to_pixels(16.0) for each in given]
    is_number = all(each.is_number for each in given)
    if name == "clamp":
        low, middle, high = sizes
        return Length(pixels=max(low, min(middle, high)), is_number=is_number)
    return Length(pixels=min(sizes) if name == "min" else max(sizes), is_number=is_number)


# --- Values that may hide text and whose effect is not computed here ---
#
# Each has a name from a fixed vocabulary. A warning quotes it, so it must never contain a word that a sender chose.


@dataclass(frozen=True, slots=True)
class UnjudgedValue:
    """A declared value that may hide text but whose effect is unknown. `name`: its name in warnings, never a word of
    the sender. `options`: for a color, all colors that it can be, if they are known.
    """

    name: str
    options: tuple[tuple[float, float, float, float], ...] = ()


# fmt: off
#: Functions whose result only a browser knows: any value around them is valid (CSS Variables 3.1).
_BROWSER_ONLY = re.compile(
    r"(?<![\w-])(var|env|attr|if|inherit|random|sibling-index|sibling-count|first-valid|toggle|--[\w-]{1,100})\("
)
#: Functions of CSS Values 4 and 5, Color 4 and 5, Images 4, Transforms 2, Shapes 2, Filters 1, Anchor Positioning 1.
_KNOWN_FUNCTIONS = frozenset({
    "calc", "min", "max", "clamp", "round", "mod", "rem", "abs", "sign", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "pow", "sqrt", "hypot", "log", "exp", "progress", "calc-size", "anchor", "anchor-size", "minmax",
    "rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch", "color", "color-mix", "light-dark",
    "device-cmyk", "contrast-color", "alpha", "linear-gradient", "radial-gradient", "conic-gradient",
    "repeating-linear-gradient", "repeating-radial-gradient", "repeating-conic-gradient", "url", "image", "image-set",
    "cross-fade", "element", "paint", "inset", "rect", "xywh", "circle", "ellipse", "polygon", "path", "shape",
    "blur", "brightness", "contrast", "hue-rotate", "invert", "saturate", "sepia", "grayscale", "matrix", "matrix3d",
    "perspective", "rotate", "rotate3d", "rotatex", "rotatey", "rotatez", "scale", "scale3d", "scalex", "scaley",
    "scalez", "skew", "skewx", "skewy", "translate", "translate3d", "translatex", "translatey", "translatez",
})
#: Functions of one old browser. Another value beside them applies to all others.
_OBSOLETE_FUNCTIONS = frozenset({"expression", "progid", "eval"})
# fmt: on
_FUNCTION_NAME = re.compile(r"(?<![\w-])([\w-]{1,40})\(")


def defer_to_browser(name: str, value: str) -> UnjudgedValue | None:
    """Return an UnjudgedValue if only a browser can compute the value, as for `var()` or `env()`; None for other
    values. `name`: the property.
    """
    found = _BROWSER_ONLY.search(value) if "(" in value else None
    if found is None:
        return None
    return UnjudgedValue(f"{name}: {'--function' if found[1].startswith('--') else found[1]}()")


def find_unknown_function(name: str, value: str) -> UnjudgedValue | None:
    """Return an UnjudgedValue for a value with a CSS function that could not be interpreted. None if it has no
    function, or only obsolete ones. `name`: the property.
    """
    found = [call.removeprefix("-webkit-").removeprefix("-moz-") for call in _FUNCTION_NAME.findall(value)]
    if not found or found[0] in _OBSOLETE_FUNCTIONS or "progid:" in value:
        return None
    known = next((call for call in found if call in _KNOWN_FUNCTIONS), None)
    return UnjudgedValue(f"{name}: {known}()" if known else f"{name}: unknown function")


# --- Colors of CSS and HTML (CSS Color 4), and whether letters differ enough from their background ---


#: Red, green and blue from 0 to 1, and opacity.
Colour = tuple[float, float, float, float]

BLACK: Colour = (0, 0, 0, 1)
WHITE: Colour = (1, 1, 1, 1)
TRANSPARENT: Colour = (0, 0, 0, 0)
#: Letters with less contrast (WCAG 2.2, 1.4.3) and nearly the same hue count as hidden. Pale gray of footers, such as
#: #ddd on white, has 1.36; #eee has 1.16.
LEAST_CONTRAST = 1.25
_NEARLY_THE_SAME = 120 / 255  # sum of the differences of red, green and blue

_COLOUR_NAMES = """
aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc bisque ffe4c4 black 000000
blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00
chocolate d2691e coral ff7f50 cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan 00ffff darkblue 00008b
darkcyan 008b8b darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b
darkmagenta 8b008b darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000 darksalmon e9967a
darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f darkslategrey 2f4f4f darkturquoise 00ced1
darkviolet 9400d3 deeppink ff1493 deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222
floralwhite fffaf0 forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700 goldenrod daa520
gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0 hotpink ff69b4 indianred cd5c5c indigo 4b0082
ivory fffff0 khaki f0e68c lavender e6e6fa lavenderblush fff0f5 lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6
lightcoral f08080 lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey d3d3d3
lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa lightslategray 778899
lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime 00ff00 limegreen 32cd32 linen faf0e6
magenta ff00ff maroon 800000 mediumaquamarine 66cdaa mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db
mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen 00fa9a mediumturquoise 48d1cc mediumvioletred c71585
midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6
olive 808000 olivedrab 6b8e23 orange ffa500 orangered ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98
paleturquoise afeeee palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd
powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue 4169e1 saddlebrown 8b4513
salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d silver c0c0c0 skyblue 87ceeb
slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c
teal 008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5
yellow ffff00 yellowgreen 9acd32
canvas ffffff canvastext 000000 window ffffff windowtext 000000 field ffffff fieldtext 000000 buttontext 000000
linktext 0000ee infotext 000000 menutext 000000 captiontext 000000
""".split()  # noqa: SIM905 - a literal would take a line for each
NAMED_COLOURS = dict(zip(_COLOUR_NAMES[::2], _COLOUR_NAMES[1::2], strict=True))
_COLOUR_FUNCTION = re.compile(r"(rgba?|hsla?)\(([^()]{1,100})\)")
_ANY_COLOUR_FUNCTION = re.compile(
    r"(rgba?|hsla?|hwb|lab|lch|oklab|oklch|color|color-mix|light-dark|device-cmyk|contrast-color|alpha)\("
)
# CSS Color 4, 6.2 and appendix A: system colors, except those that are the same on nearly all systems.
_SYSTEM_COLOURS = frozenset({
    "accentcolor", "accentcolortext", "activetext", "buttonborder", "buttonface", "graytext", "highlight",
    "highlighttext", "mark", "marktext", "selecteditem", "selecteditemtext", "visitedtext", "activeborder",
    "activecaption", "appworkspace", "background", "buttonhighlight", "buttonshadow", "inactiveborder",
    "inactivecaption", "inactivecaptiontext", "infobackground", "menu", "scrollbar", "threeddarkshadow", "threedface",
    "threedhighlight", "threedlightshadow", "threedshadow", "windowframe", "-webkit-link", "-webkit-text",
    "-webkit-activelink", "-webkit-focus-ring-color",
})  # fmt: skip
_NOT_HEX = re.compile(r"[^0-9a-f]")


def parse_css_colour(value: str, name: str = "color") -> Colour | UnjudgedValue | None:
    """Return the color in a CSS value in lower case, or None if it is not a color. An UnjudgedValue stands for a color
    that depends on the browser. `name`: the property, for warnings.
    """
    if value.startswith("#"):
        return _parse_hex(value[1:])
    if value == "transparent":
        return TRANSPARENT
    if named := NAMED_COLOURS.get(value):
        return _parse_hex(named)
    if (found := _COLOUR_FUNCTION.fullmatch(value)) and (colour := _parse_colour_function(found[1][:3], found[2])):
        return colour
    if value in _SYSTEM_COLOURS:
        return UnjudgedValue(f"{name}: system color")
    return UnjudgedValue(f"{name}: {call[1]}()") if (call := _ANY_COLOUR_FUNCTION.match(value)) else None


def parse_html_colour(value: str) -> Colour | None:
    """Return the color of an HTML attribute such as `bgcolor`, or None for an empty one. Nearly any text is a color
    there (HTML 2.3.6).
    """
    value = value.strip().lower()[:128]
    if value in ("", "transparent"):
        return None
    if named := NAMED_COLOURS.get(value):
        return _parse_hex(named)
    value = value.removeprefix("#")
    if len(value) == 3 and not _NOT_HEX.search(value):
        return _parse_hex(value)
    digits = _NOT_HEX.sub("0", value)
    third = max(1, -(-len(digits) // 3))
    parts = [digits[place : place + third].ljust(third, "0")[-8:] for place in range(0, 3 * third, third)]
    while len(parts[0]) > 2 and all(part[0] == "0" for part in parts):
        parts = [part[1:] for part in parts]
    red, green, blue = (int(part[:2], 16) / 255 for part in parts)
    return red, green, blue, 1


def _parse_hex(digits: str) -> Colour | None:
    if len(digits) not in (3, 4, 6, 8) or _NOT_HEX.search(digits):
        return None
    if len(digits) < 6:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue, opaque = (int((digits + "ff")[place : place + 2], 16) / 255 for place in (0, 2, 4, 6))
    return red, green, blue, opaque


def _parse_colour_function(name: str, content: str) -> Colour | None:
    words = content.replace(",", " ").replace("/", " ").split()
    if len(words) not in (3, 4):
        return None
    try:
        opaque = _share(words[3], 1) if len(words) == 4 else 1
        if name == "rgb":
            red, green, blue = (_share(word, 255) for word in words[:3])
        else:
            turn = float(words[0].removesuffix("deg")) / 360 % 1
            red, green, blue = colorsys.hls_to_rgb(turn, _share(words[2], 100), _share(words[1], 100))
    except ValueError:
        return None
    return red, green, blue, opaque


def _share(word: str, whole: float) -> float:
    if word == "none":
        return 0
    number = float(word[:-1]) / 100 if word.endswith("%") else float(word) / whole
    if not -1e9 < number < 1e9:  # also if it is not a number
        raise ValueError(word)
    return min(1, max(0, number))


def blend(above: Colour, below: Colour) -> Colour:
    """Return the visible color if `above`, which may be partly transparent, lies over the opaque color `below`."""
    share = above[3]
    if share >= 1:
        return above
    red, green, blue = (share * high + (1 - share) * low for high, low in zip(above[:3], below[:3], strict=True))
    return red, green, blue, 1


@lru_cache(maxsize=1024)
def are_alike(letters: Colour, behind: Colour) -> bool:
    """Whether text of the color `letters` is invisible on the color `behind`: too little contrast, and nearly the same
    hue.
    """
    seen = blend(letters, behind)
    if sum(abs(one - other) for one, other in zip(seen[:3], behind[:3], strict=True)) > _NEARLY_THE_SAME:
        return False
    lights = sorted((_luminance(seen), _luminance(behind)))
    return (lights[1] + 0.05) / (lights[0] + 0.05) < LEAST_CONTRAST


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )  # WCAG 2.2, relative luminance
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def are_alike_between(letters: Colour, one: Colour, other: Colour) -> bool:
    """Whether text of the color `letters` is invisible somewhere in a gradient from `one` to `other`, both opaque."""
    way = [end - start for start, end in zip(one[:3], other[:3], strict=True)]
    length = sum(part * part for part in way)
    seen = blend(letters, one)
    share = sum((part - start) * step for part, start, step in zip(seen[:3], one[:3], way, strict=True))
    share = min(1.0, max(0.0, share / length)) if length else 0.0
    red, green, blue = (start + share * step for start, step in zip(one[:3], way, strict=True))
    return are_alike(letters, (red, green, blue, 1))


# --- Transforms and clips (CSS Transforms, CSS Masking): the movement of a box, and what is left of it ---


_FUNCTION_CALL = re.compile(r"([a-z0-9-]{1,20})\(((?:[^()]|\([^()]*+\))*+)\)")
_CLIP = re.compile(r"rect\(([^()]{1,100})\)")
#: From one to four words, the word for each of four sides.
WORDS_OF_SIDES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}
_PERCENT_OF_ITSELF = 3.0  # pixels of an element of usual size: `translate(-50%)` centers elements
_FAR = 400.0  # pixels
_LEAST_SCALE, _LEAST_AREA = 0.06, 0.0036
_LARGEST_SCALE = 10.0  # a larger factor makes letters larger than their surroundings
_LARGEST_SKEW = 80.0  # degrees
_ANGLE = re.compile(r"([+-]?[\d.]{1,30}(?:e[+-]?\d{1,3})?)(deg|grad|rad|turn)?")
_DEGREES = {"deg": 1.0, "grad": 0.9, "rad": 180 / math.pi, "turn": 360.0}
_EMPTY_PATH = re.compile(r"""["'](?:[mz]|[\d.,\s+-])*+["']""")
_FILL_RULE = re.compile(r"\A\s*+(?:nonzero|evenodd)\s*+,")


#: The value of a `clip-path` that is the box itself: overflow is hidden.
CLIPPED_BOX = "box"
_BOXES = frozenset({"border-box", "padding-box", "content-box", "margin-box", "fill-box", "stroke-box", "view-box"})
#: The movement in pixels, whether nothing is left, and the factor of the size of its letters.
_Effect = tuple[float, bool, float]
_NO_EFFECT: _Effect = (0.0, False, 1.0)


def parse_transform(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `transform`. Returns None for an invalid value, otherwise two entries:

    - `transform`: movement of the box in pixels, whether nothing of it remains visible, and the factor for the size of
      its text. An UnjudgedValue if the effect is unknown.
    - `turned`: whether the box is rotated out of the page.
    """
    if value == "none":
        return {"transform": (0.0, False, 1.0), "turned": False}
    if "(" not in value:
        return None
    moved, is_flat, factor, unjudged, turned = 0.0, False, 1.0, "", False
    for name, content in _FUNCTION_CALL.findall(value):
        found = _one_transform(name, content)
        if found is None:
            unjudged = unjudged or (name if name in _TRANSFORMS else "unknown function")
            continue
        moved, is_flat, factor = moved + found[0], is_flat or found[1], factor * found[2]
    turned = any(f"rotate{axis}" in value for axis in "xy3") or "matrix3d" in value
    if is_flat or moved >= 400 or not unjudged:
        return {"transform": (moved, is_flat, factor), "turned": turned}
    name = f"transform: {unjudged}{'' if ' ' in unjudged else '()'}"
    return {"transform": UnjudgedValue(name), "turned": turned}


# fmt: off
_TRANSFORMS = frozenset({
    "matrix", "matrix3d", "perspective", "rotate", "rotate3d", "rotatex", "rotatey", "rotatez", "scale", "scale3d",
    "scalex", "scaley", "scalez", "skew", "skewx", "skewy", "translate", "translate3d", "translatex", "translatey",
    "translatez"
})
# fmt: on


def _one_transform(name: str, content: str) -> _Effect | None:
    """Return the effect of one function of `transform`: movement in pixels, whether nothing of the box remains visible,
    and the factor for the size of its text. `content`: the function's arguments. None if it is not supported.
    """
    words = content.replace(",", " ").split() if "(" not in content else [each.strip() for each in content.split(",")]
    if name in ("rotate", "rotatez"):
        return _NO_EFFECT
    if name in ("rotatex", "rotatey"):
        return _effect_of_turn(content.strip())
    if name == "rotate3d":
        return _effect_of_rotation(words)
    if name.startswith("skew"):
        angles = [_parse_angle(word) for word in words]
        return _NO_EFFECT if all(each is not None and abs(each) < _LARGEST_SKEW for each in angles) else None
    lengths = [parse_length(word) for word in words]
    if not words or None in lengths:
        return None
    numbers = [each.to_pixels(16.0, _PERCENT_OF_ITSELF) for each in lengths if each]
    if name in ("scalex", "scaley", "scale", "scale3d", "scalez"):
        factors = [each.pixels + each.percent / 100 for each in lengths if each]
        return _effect_of_scale([] if name == "scalez" else factors[:2])
    if name in ("translate", "translatex", "translatey") or (name == "translate3d" and not any(numbers[2:])):
        moved = max(map(abs, numbers))
        return None if moved < _FAR and _is_by_its_size(lengths) else (moved, False, 1.0)
    if name == "translatez" and not any(numbers):
        return _NO_EFFECT
    if name == "matrix" and len(numbers) == 6:
        return _effect_of_matrix(numbers)
    if name == "matrix3d" and len(numbers) == 16:
        is_plane = not any((*numbers[2:4], *numbers[6:8], *numbers[8:10], numbers[11], numbers[14]))
        flat = _effect_of_matrix([*numbers[:2], *numbers[4:6], *numbers[12:14]])
        return flat if is_plane or (flat and flat[1]) else None
    return None


def _is_by_its_size(lengths: list[Length | None]) -> bool:
    """Whether one of these distances is 100% of the box's own size or more. The parent may then cut the box off."""
    return any(each and abs(each.percent) >= 100 for each in lengths)


def _effect_of_matrix(numbers: list[float]) -> _Effect | None:
    is_flat = abs(numbers[0] * numbers[3] - numbers[1] * numbers[2]) < _LEAST_AREA
    if max(map(abs, numbers[:4])) > _LARGEST_SCALE and not is_flat:
        return None
    factor = min(math.hypot(*numbers[:2]), math.hypot(*numbers[2:4]))
    return (max(abs(numbers[4]), abs(numbers[5])), is_flat, factor)


def _effect_of_scale(factors: list[float]) -> _Effect | None:
    least = min(map(abs, factors), default=1.0)
    if least < _LEAST_SCALE:
        return (0.0, True, least)
    return None if any(abs(factor) > _LARGEST_SCALE for factor in factors) else (0.0, False, least)


def _parse_angle(word: str) -> float | None:
    found = _ANGLE.fullmatch(word)
    if found is None or (not found[2] and found[1].strip("+-0.")):
        return None
    try:
        return float(found[1]) * _DEGREES[found[2] or "deg"]
    except ValueError:
        return None


def _effect_of_turn(angle: str) -> _Effect | None:
    """Return the effect of a rotation around an axis in the page: at about 90 degrees nothing of the box remains
    visible. None if the angle is not valid.
    """
    degrees = _parse_angle(angle)
    return None if degrees is None else (0.0, abs(math.cos(math.radians(degrees))) < _LEAST_SCALE, 1.0)


def _effect_of_rotation(words: list[str]) -> _Effect | None:
    """Return the effect of `rotate3d()`."""
    axis = [each.pixels for each in map(parse_length, words[:3]) if each]
    if len(axis) < 3 or len(words) != 4:
        return None
    if not any(axis[:2]):
        return _NO_EFFECT
    return _effect_of_turn(words[3]) if not axis[2] else None


def parse_rotate(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `rotate` (CSS Transforms 2, 5). Returns None for an invalid value, otherwise two entries:

    - `rotate`: whether nothing of the box remains visible. An UnjudgedValue if that is unknown.
    - `turned`: whether the box is rotated out of the page.
    """
    words = value.split()
    if value == "none" or (len(words) == 1 and _parse_angle(value) is not None):
        return {"rotate": False, "turned": False}
    axes = [word for word in words if word in ("x", "y", "z")]
    angles = [word for word in words if _parse_angle(word) is not None and not word.replace(".", "").isdigit()]
    if len(axes) == 1 and len(words) == 2 and angles:
        found = _NO_EFFECT if axes[0] == "z" else _effect_of_turn(angles[0])
    elif len(words) == 4 and len(angles) == 1:
        found = _effect_of_rotation([*(word for word in words if word != angles[0]), angles[0]])
    else:
        return None
    is_turned = "z" not in axes
    return {"rotate": found[1] if found else UnjudgedValue("rotate"), "turned": is_turned}


def parse_scale(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `scale`. Returns, under the name of the property, the factor for the size of text, or True
    if nothing of the box remains visible. None for an invalid value.
    """
    if value == "none":
        return {"scale": 1.0}
    numbers = [each.pixels + each.percent / 100 for each in map(parse_length, value.split()) if each]
    if not numbers:
        return None
    found = _effect_of_scale(numbers[:2])
    return {"scale": (found[1] or found[2]) if found else UnjudgedValue("scale")}


def parse_translate(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `translate`. Returns the distance in pixels by which the box moves, under the name of the
    property. None for an invalid value.
    """
    words = [value] if value.endswith(")") and value.count("(") == 1 else value.split()
    found = [parse_length(word) for word in words] if value != "none" else []
    if None in found:
        return None
    numbers = [abs(each.to_pixels(16.0, _PERCENT_OF_ITSELF)) for each in found if each]
    moved = max(numbers[:2], default=0.0)
    return {"translate": UnjudgedValue("translate") if moved < _FAR and _is_by_its_size(found) else moved}


def parse_transform_origin(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `transform-origin`. Returns it under the name of the property. A point 400 pixels away or
    more becomes an UnjudgedValue, as a rotation around it may move the box off the screen.
    """
    found = [parse_length(word) for word in value.split()]
    is_far = any(each and abs(each.to_pixels(16.0, _PERCENT_OF_ITSELF)) >= 400 for each in found)
    return {"transform-origin": UnjudgedValue("transform-origin") if is_far else value}


def parse_clip(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `clip`. Returns True under the name of the property if the visible rectangle is at most one
    pixel wide or high, otherwise False, or an UnjudgedValue if that is unknown. None for an invalid value.
    """
    if value == "auto":
        return {"clip": False}
    found = _CLIP.fullmatch(value)
    sides = [parse_length(word) for word in found[1].replace(",", " ").split()] if found else []
    if len(sides) != 4:
        return None
    top, right, bottom, left = (each.to_pixels(16.0) if each else None for each in sides)
    if _is_narrow(left or 0.0, right) or _is_narrow(top or 0.0, bottom):
        return {"clip": True}
    return {"clip": UnjudgedValue("clip: rect()") if any(side is not None for side in (right, bottom)) else False}


def _is_narrow(start: float, end: float | None) -> bool:
    return end is not None and end - start <= 1


def parse_clip_path(value: str) -> Mapping[str, object] | None:
    """Interpret a value of `clip-path` (CSS Masking 1, 5; CSS Shapes 2, 3). Returns, under the name of the property,
    True if the visible shape is empty, CLIPPED_BOX if it is the box itself, otherwise False.

    An unknown `path()` becomes an UnjudgedValue, which may hide text. None for other values that are not supported.
    """
    found = _FUNCTION_CALL.match(value)
    if found is None:
        return {"clip-path": CLIPPED_BOX if value in _BOXES else False} if value == "none" or value in _BOXES else None
    shape, content = found[1], found[2]
    if shape == "path":
        is_empty = _EMPTY_PATH.fullmatch(_FILL_RULE.sub("", content).strip())
        return {"clip-path": True if is_empty else UnjudgedValue("clip-path: path()")}
    words = content.partition(" at ")[0].partition(" round ")[0].replace(",", " ").split()
    given = [parse_length(word) for word in words]
    numbers = [each for each in given if each]
    if numbers and _leaves_nothing(shape, given, numbers):
        return {"clip-path": True}
    if shape == "inset" and numbers and all(each.to_pixels(16.0) <= 0 for each in numbers):
        return {"clip-path": False if any(each.to_pixels(16.0) < 0 for each in numbers) else CLIPPED_BOX}
    return None  # not understood, and so reported


def _leaves_nothing(shape: str, given: list[Length | None], numbers: list[Length]) -> bool:
    if shape == "inset":
        top, right, bottom, left = (numbers[place] for place in WORDS_OF_SIDES[min(4, len(numbers))])
        return any(one.percent + other.percent >= 99 for one, other in ((top, bottom), (left, right)))
    if shape == "rect" and len(given) == 4:
        # Measured from the upper left corner; `auto` is the far edge of the box.
        top_, right_, bottom_, left_ = (each.to_pixels(16.0) if each else None for each in given)
        return _is_narrow(left_ or 0.0, right_) or _is_narrow(top_ or 0.0, bottom_)
    if shape == "xywh" and len(numbers) == 4:
        return any(each.to_pixels(16.0) <= 1 for each in numbers[2:])
    if shape in ("circle", "ellipse"):
        return any(each.to_pixels(16.0) <= 1 for each in numbers)
    return shape == "polygon" and _is_line(numbers[::2]) | _is_line(numbers[1::2])


def _is_line(numbers: list[Length]) -> bool:
    places = [each.to_pixels(16.0) for each in numbers]
    return bool(places) and max(places) - min(places) <= 1
