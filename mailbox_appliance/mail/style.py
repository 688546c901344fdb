"""How an element looks, as far as it matters to whether it is seen: what is declared, and what it has from around it.

A child may be seen although it lies in an element whose own letters are not: newsletters set `font-size: 0` around what
they place side by side. Out of an element that is not shown at all nothing is seen (CSS Cascade 7, CSS Display 2.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mailbox_appliance.mail import backdrop, boxes
from mailbox_appliance.mail.backdrop import Backdrop, Picture
from mailbox_appliance.mail.colours import BLACK, Colour
from mailbox_appliance.mail.doubts import inherited, own
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.properties import CURRENT_COLOUR, INHERIT, INITIAL
from mailbox_appliance.mail.unjudged import Unjudged

SMALLEST_LETTERS = 2.0  # pixels; below them nobody reads
_LEAST_OPACITY = 0.1
_WHOLE_LINE = 990.0  # pixels: what begins behind them is cut off where the overflow is hidden
_FLAT_LINE = 0.1  # times the size of letters
_LINK: Colour = (0, 0, 0xEE / 255, 1)
_BUTTON = Backdrop((0xEF / 255, 0xEF / 255, 0xEF / 255, 1))
_MARKED = Backdrop((1, 1, 0, 1))
_PAPER = Backdrop()
_USUAL_ASPECT = 0.5  # of the height of small letters to their size
_OWN_LETTERS = frozenset({"button", "textarea", "input", "select"})
_CLIPPING = frozenset({"textarea", "marquee", "select"})  # what flows over in these is not shown
TABLE_ROWS = frozenset({"tr", "tbody", "thead", "tfoot"})
_SMALLER = frozenset({"small", "sub", "sup"})


@dataclass(slots=True, eq=False)  # not frozen: it would take three times as long to make one
class Style:
    """What an element hands to what is in it. `hidden` is the technique that hides its text; empty: it is seen."""

    gone: str = ""  # the technique by which nothing in it is seen, whatever it declares
    visible: bool = True
    opacity: float = 1.0
    letters: float = 16.0  # their size in pixels
    zoom: float = 1.0
    adjusted: float | None = None  # `font-size-adjust`
    flat: bool = False  # its lines have no height
    clips: bool = False  # what flows over is not shown
    colour: Colour | Unjudged | None = BLACK  # of the letters
    fill: Colour | Unjudged | None = None  # of the letters, in its stead
    behind: Backdrop = _PAPER
    behind_blocks: Backdrop = _PAPER  # without what is painted behind the text of a line only
    shifted: bool = False  # its lines begin where no screen reaches
    indented: bool = False  # the blocks in it do
    narrow: bool = False  # it has no width
    low: str = ""  # why boxes in it may have no height
    layout: str = ""  # `flex` or `grid`: what stands in a line elsewhere is a box in it
    same_for_blocks: bool = True  # a block in it that declares nothing looks the same
    moves_line: bool = False  # the rest of the line that it stands in is where no screen reaches
    doubts: frozenset[str] = frozenset()  # what could not be judged of it and of what it lies in, whatever is declared
    unsure: frozenset[tuple[str, str]] = frozenset()  # properties that are handed on, with what could not be judged
    folded: bool = False  # it is shown when the reader unfolds it
    hidden: str = ""
    unjudged: tuple[str, ...] = ()  # why it cannot be said whether its text is seen

    def values(self) -> tuple[object, ...]:
        """All that it says, to be compared."""
        return (
            *(self.gone, self.visible, self.opacity, self.letters, self.zoom, self.adjusted, self.flat, self.clips),
            *(self.colour, self.fill, self.behind, self.behind_blocks, self.shifted),
            *(self.indented, self.narrow, self.low, self.layout, self.moves_line),
            *(self.doubts, self.unsure, self.folded),
        )


ROOT = Style()
UNSHOWN = Style(gone="element", hidden="element")  # of elements that no program shows


def judged(style: Style) -> Style:
    """The style with what its values say of text: whether it is hidden, or why that cannot be told."""
    by_colour = _by_colour(style)
    style.hidden = style.gone or _hides_letters(style) or ("colour" if by_colour is True else "")
    style.unjudged = ()
    if not style.hidden and (by_colour or style.doubts or style.unsure or style.folded):
        names = style.doubts | {name for _, name in style.unsure}
        names |= {by_colour.name} if isinstance(by_colour, Unjudged) else set()
        style.unjudged = tuple(sorted(names | {"details"} if style.folded else names))
    return style


def styled(around: Style, name: str, declared: Mapping[str, object]) -> Style:
    """The style of an element with that name, in an element with that style."""
    if around.gone:
        return around
    usual, inline = _usual(around, name), boxes.is_inline(name, declared)
    if not declared and (inline or usual.same_for_blocks):
        return usual
    letters = _letters(usual, declared)
    indented = _indented(declared, usual, letters)
    below = usual.behind if inline else usual.behind_blocks
    colour = _colour(declared, "color", usual.colour, BLACK)
    behind = _behind(below, declared, colour)
    style = Style(
        visible=_visible(declared, usual),
        opacity=usual.opacity * _factor(declared, "opacity") * _factor(declared, "filter"),
        letters=letters,
        zoom=usual.zoom * _factor(declared, "zoom") * (1.0 if inline else boxes.scaled(declared)),
        adjusted=_adjusted(declared, usual),
        flat=_flat(declared, usual, letters),
        clips=usual.clips or (not inline and boxes.clips(declared)),
        colour=colour,
        fill=_colour(declared, "-webkit-text-fill-color", usual.fill, None),
        behind=behind,
        behind_blocks=usual.behind_blocks if inline else behind,
        shifted=usual.shifted if inline else indented,
        indented=indented,
        narrow=usual.narrow if inline else boxes.is_narrow(name, declared, letters, usual.narrow),
        low=usual.low if inline else boxes.low(name, declared, letters),
        layout=str(declared.get("layout", "")),
        moves_line=inline and boxes.moves_line(declared, letters),
        folded=usual.folded,
    )
    if declared.get("background-clip") == "text":
        _cut_out(style, below, declared)
    style.same_for_blocks = (
        style.behind == style.behind_blocks and style.shifted == indented and not (style.narrow or style.low)
    )
    style.doubts = usual.doubts | own(name, declared, letters, usual.low, inline=inline)
    style.unsure = inherited(usual.unsure, declared)
    style.gone = _gone(style, name, declared, usual.low, inline=inline)
    if inline and usual.layout and not style.gone:
        boxed = replace(style, narrow=boxes.is_narrow(name, declared, letters, around=False))
        if _gone(boxed, name, declared, usual.low, inline=False):
            style.doubts |= {f"display: {usual.layout}"}
    return judged(style)


def _usual(around: Style, name: str) -> Style:
    """As browsers have it for an element that declares nothing (HTML 15.3)."""
    if name in _OWN_LETTERS:
        behind = _BUTTON if name == "button" else _PAPER
        changed = replace(around, letters=13.0, colour=BLACK, fill=None, behind=behind, flat=False)
        changed.shifted = changed.indented = changed.narrow = False
        changed.behind_blocks = behind
        changed.unsure = frozenset()
    elif name in _SMALLER:
        changed = replace(around, letters=around.letters * 5 / 6)
    elif name == "table" and around.indented:
        changed = replace(around, shifted=False, indented=False)
    elif name == "mark":
        changed = replace(around, colour=BLACK, behind=_MARKED)
    elif name == "marquee":
        changed = replace(around, doubts=around.doubts | {"marquee"})
    else:
        return around
    return judged(changed)


def _visible(declared: Mapping[str, object], usual: Style) -> bool:
    value = declared.get("visibility", INHERIT)
    return usual.visible if value == INHERIT else value in ("visible", INITIAL) or isinstance(value, Unjudged)


def _factor(declared: Mapping[str, object], name: str) -> float:
    value = declared.get(name)
    return value if isinstance(value, float) else 1.0


def _letters(usual: Style, declared: Mapping[str, object]) -> float:
    value = declared.get("font-size", INHERIT)
    if isinstance(value, Length):
        return max(0.0, value.to_pixels(usual.letters, usual.letters / 100))
    return 16.0 if value == INITIAL else usual.letters


def _flat(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("line-height", INHERIT)
    if not isinstance(value, Length):
        return usual.flat and value == INHERIT
    if value.is_number:
        return value.pixels <= _FLAT_LINE
    return value.to_pixels(letters, letters / 100) <= max(boxes.LEAST_BOX, _FLAT_LINE * letters)


def _indented(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("text-indent", INHERIT)
    if not isinstance(value, Length):
        return usual.indented and value == INHERIT
    shift = value.to_pixels(letters)
    if shift <= -boxes.FAR:
        return shift + (boxes.pixels(declared, "padding-left", letters) or 0.0) <= -boxes.FAR
    return shift >= boxes.VERY_FAR or (shift >= _WHOLE_LINE and (usual.clips or boxes.clips(declared)))


def _adjusted(declared: Mapping[str, object], usual: Style) -> float | None:
    value = declared.get("font-size-adjust", INHERIT)
    return value if isinstance(value, float) else usual.adjusted if value == INHERIT else None


def _cut_out(style: Style, below: Backdrop, declared: Mapping[str, object]) -> None:
    """The letters are cut out of the background, and what is around it lies behind them."""
    letters = style.fill or style.colour
    style.behind = style.behind_blocks = below
    if isinstance(letters, tuple) and letters[3] < 1:
        style.fill = backdrop.cut_out(declared, below) or letters


def _colour(
    declared: Mapping[str, object], name: str, around: Colour | Unjudged | None, initial: Colour | None
) -> Colour | Unjudged | None:
    value = declared.get(name, INHERIT)
    if isinstance(value, tuple | Unjudged):
        return value
    return around if value == INHERIT else initial if value == INITIAL else None


def _behind(around: Backdrop, declared: Mapping[str, object], letters: Colour | Unjudged | None) -> Backdrop:
    value = declared.get("background-color", INITIAL)
    if value == CURRENT_COLOUR:
        value = letters
    colour = value if isinstance(value, tuple | Unjudged) else None
    shadow, picture = declared.get("box-shadow"), declared.get("background-image")
    if isinstance(picture, Unjudged):
        picture = Picture(picture.name, is_unknown=True)
    if isinstance(picture, Picture) and declared.get("background-size") is False:
        picture = replace(picture, covers=False)
    found = around.with_background(colour, picture if isinstance(picture, Picture) else None)
    return found.with_background(None, shadow) if isinstance(shadow, Picture) else found


def _by_colour(style: Style) -> bool | Unjudged:
    """Whether letters are not seen for their colour."""
    letters = style.fill or style.colour
    if isinstance(letters, Unjudged) and letters.options:
        is_seen = not any(each[3] < _LEAST_OPACITY or style.behind.hides_letters(each) for each in letters.options)
        return False if is_seen else letters
    if not isinstance(letters, tuple):
        return letters or False
    return letters[3] < _LEAST_OPACITY or style.behind.hides_letters(letters)


def _hides_letters(style: Style) -> str:
    """The technique by which letters are not seen, which other letters further inside may be."""
    if not style.visible:
        return "visibility"
    size = style.letters * style.zoom * (1.0 if style.adjusted is None else style.adjusted / _USUAL_ASPECT)
    if size < SMALLEST_LETTERS or (style.flat and style.clips):
        return "size"
    if style.shifted:
        return "off-screen"
    return ""


def _gone(style: Style, name: str, declared: Mapping[str, object], low: str, *, inline: bool) -> str:
    """The technique by which nothing in an element is seen."""
    if declared.get("display") == "none" or declared.get("content-visibility") == "hidden":
        return "display"
    if str(declared.get("mso-hide", "")).startswith("all") and name != "a":
        return "display"  # Buttons are hidden from one program, which draws its own
    if style.opacity < _LEAST_OPACITY:
        return "opacity"
    if declared.get("clip-path") is True:
        return "size"
    if inline:
        return ""
    if name in TABLE_ROWS and declared.get("visibility") == "collapse":
        return "visibility"
    if _is_nothing(declared, name, style, low):
        return "size"
    return "off-screen" if boxes.is_off_screen(name, declared, style.letters) else ""


def _is_nothing(declared: Mapping[str, object], name: str, style: Style, low: str) -> bool:
    if declared.get("scale") is True or declared.get("rotate") is True or boxes.moved(declared)[1]:
        return True
    if declared.get("clip") is True and declared.get("position") in ("absolute", "fixed"):
        return True
    if not boxes.clips(declared) and name not in _CLIPPING:
        return False
    return style.narrow or boxes.is_flat(name, declared, style.letters, low)


def link_colour(around: Style, colour: Colour | None) -> Style:
    """The style of a link that declares nothing: it has a colour of its own, and not that of the text around it."""
    return judged(replace(around, colour=colour or _LINK))


def either(one: Style, other: Style, doubt: str) -> Style:
    """The style of an element that looks like one or the other, of which it cannot be told which."""
    if one.hidden and other.hidden:
        return one
    shown = other if one.hidden else one
    doubts = one.doubts | other.doubts | ({doubt} if one.hidden or other.hidden else set())
    style = replace(shown, doubts=doubts, unsure=one.unsure | other.unsure)
    for name in ("colour", "fill"):
        colour, other_colour = getattr(one, name), getattr(other, name)
        if colour != other_colour:
            setattr(style, name, _either_colour(colour, other_colour, doubt))
    if one.behind != other.behind:
        style.behind = _either_behind(one.behind, other.behind, doubt)
    if one.behind_blocks != other.behind_blocks:
        style.behind_blocks = _either_behind(one.behind_blocks, other.behind_blocks, doubt)
    return judged(style)


def _either_colour(one: Colour | Unjudged | None, other: Colour | Unjudged | None, doubt: str) -> Unjudged:
    """A color of letters that is one or the other."""
    options = [each.options if isinstance(each, Unjudged) else (each,) if each else () for each in (one, other)]
    return Unjudged(doubt, options[0] + options[1] if all(options) else ())


def _either_behind(one: Backdrop, other: Backdrop, doubt: str) -> Backdrop:
    if one.picture or other.picture or isinstance(one.colour, Unjudged) or isinstance(other.colour, Unjudged):
        return replace(one, picture=Picture(doubt, is_unknown=True))
    return Backdrop(one.colour, Picture(doubt, (other.colour,), covers=False))
