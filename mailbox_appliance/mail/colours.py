"""Colours as CSS and HTML write them (CSS Color 4), and whether letters can be told from what lies behind them."""

import colorsys
import re
from functools import lru_cache

from mailbox_appliance.mail.unjudged import Unjudged

#: Red, green and blue from 0 to 1, and how opaque.
Colour = tuple[float, float, float, float]

BLACK: Colour = (0, 0, 0, 1)
WHITE: Colour = (1, 1, 1, 1)
TRANSPARENT: Colour = (0, 0, 0, 0)
#: Letters of less contrast (WCAG 2.2, 1.4.3), and of nearly the same hue, are taken for hidden. Pale grey of footers,
#: such as #ddd on white, has 1.36; #eee has 1.16.
LEAST_CONTRAST = 1.25
_NEARLY_THE_SAME = 120 / 255  # the differences of red, green and blue together

_NAMED = """
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
NAMED = dict(zip(_NAMED[::2], _NAMED[1::2], strict=True))
_FUNCTION = re.compile(r"(rgba?|hsla?)\(([^()]{1,100})\)")
_ANY_FUNCTION = re.compile(
    r"(rgba?|hsla?|hwb|lab|lch|oklab|oklch|color|color-mix|light-dark|device-cmyk|contrast-color|alpha)\("
)
# CSS Color 4, 6.2 and appendix A: the colours of a system, without those that are the same on nearly all.
_OF_SYSTEM = frozenset({
    "accentcolor", "accentcolortext", "activetext", "buttonborder", "buttonface", "graytext", "highlight",
    "highlighttext", "mark", "marktext", "selecteditem", "selecteditemtext", "visitedtext", "activeborder",
    "activecaption", "appworkspace", "background", "buttonhighlight", "buttonshadow", "inactiveborder",
    "inactivecaption", "inactivecaptiontext", "infobackground", "menu", "scrollbar", "threeddarkshadow", "threedface",
    "threedhighlight", "threedlightshadow", "threedshadow", "windowframe", "-webkit-link", "-webkit-text",
    "-webkit-activelink", "-webkit-focus-ring-color",
})  # fmt: skip
_NOT_HEX = re.compile(r"[^0-9a-f]")


def css_colour(value: str, name: str = "color") -> Colour | Unjudged | None:
    """A colour of CSS in lower case, as the value of a property; None for what is no colour."""
    if value.startswith("#"):
        return _hex(value[1:])
    if value == "transparent":
        return TRANSPARENT
    if named := NAMED.get(value):
        return _hex(named)
    if (found := _FUNCTION.fullmatch(value)) and (colour := _function(found[1][:3], found[2])):
        return colour
    if value in _OF_SYSTEM:
        return Unjudged(f"{name}: system color")
    return Unjudged(f"{name}: {call[1]}()") if (call := _ANY_FUNCTION.match(value)) else None


def html_colour(value: str) -> Colour | None:
    """The colour of an old attribute such as `bgcolor`: nearly everything is one (HTML 2.3.6)."""
    value = value.strip().lower()[:128]
    if value in ("", "transparent"):
        return None
    if named := NAMED.get(value):
        return _hex(named)
    value = value.removeprefix("#")
    if len(value) == 3 and not _NOT_HEX.search(value):
        return _hex(value)
    digits = _NOT_HEX.sub("0", value)
    third = max(1, -(-len(digits) // 3))
    parts = [digits[place : place + third].ljust(third, "0")[-8:] for place in range(0, 3 * third, third)]
    while len(parts[0]) > 2 and all(part[0] == "0" for part in parts):
        parts = [part[1:] for part in parts]
    red, green, blue = (int(part[:2], 16) / 255 for part in parts)
    return red, green, blue, 1


def _hex(digits: str) -> Colour | None:
    if len(digits) not in (3, 4, 6, 8) or _NOT_HEX.search(digits):
        return None
    if len(digits) < 6:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue, opaque = (int((digits + "ff")[place : place + 2], 16) / 255 for place in (0, 2, 4, 6))
    return red, green, blue, opaque


def _function(name: str, content: str) -> Colour | None:
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
    if not -1e9 < number < 1e9:  # not a number, too
        raise ValueError(word)
    return min(1, max(0, number))


def over(above: Colour, below: Colour) -> Colour:
    """What is seen of a colour that lies over an opaque one."""
    share = above[3]
    if share >= 1:
        return above
    red, green, blue = (share * high + (1 - share) * low for high, low in zip(above[:3], below[:3], strict=True))
    return red, green, blue, 1


@lru_cache(maxsize=1024)
def are_alike(letters: Colour, behind: Colour) -> bool:
    """Whether letters of one colour are not seen on another."""
    seen = over(letters, behind)
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
    """Whether letters are not seen somewhere on the way from one opaque colour to another."""
    way = [end - start for start, end in zip(one[:3], other[:3], strict=True)]
    length = sum(part * part for part in way)
    seen = over(letters, one)
    share = sum((part - start) * step for part, start, step in zip(seen[:3], one[:3], way, strict=True))
    share = min(1.0, max(0.0, share / length)) if length else 0.0
    red, green, blue = (start + share * step for start, step in zip(one[:3], way, strict=True))
    return are_alike(letters, (red, green, blue, 1))
