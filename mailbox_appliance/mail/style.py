"""How an element looks, as far as it matters to whether it is seen: what is declared, and what it has from around it.

A child may be seen although it lies in an element whose own letters are not: newsletters set `font-size: 0` around what
they place side by side. Out of an element that is not shown at all nothing is seen (CSS Cascade 7, CSS Display 2.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mailbox_appliance.mail import boxes, colours
from mailbox_appliance.mail.colours import BLACK, WHITE, Colour
from mailbox_appliance.mail.lengths import Length
from mailbox_appliance.mail.properties import INHERIT, INITIAL

SMALLEST_LETTERS = 2.0  # pixels; below them nobody reads
_LEAST_OPACITY = 0.1
_WHOLE_LINE = 990.0  # pixels: what begins behind them is cut off where the overflow is hidden
_FLAT_LINE = 0.1  # times the size of letters
_LINK: Colour = (0, 0, 0xEE / 255, 1)
_BUTTON: Colour = (0xEF / 255, 0xEF / 255, 0xEF / 255, 1)
_OWN_LETTERS = frozenset({"button", "textarea", "input", "select"})
_SMALLER = frozenset({"small", "sub", "sup"})


@dataclass(slots=True, eq=False)  # not frozen: it would take three times as long to make one
class Style:
    """What an element hands to what is in it. `hidden` is the technique that hides its text; empty: it is seen."""

    gone: str = ""  # the technique by which nothing in it is seen, whatever it declares
    visible: bool = True
    opacity: float = 1.0
    letters: float = 16.0  # their size in pixels
    flat: bool = False  # its lines have no height
    clips: bool = False  # what flows over is not shown
    colour: Colour | None = BLACK  # of the letters; None: it cannot be told
    fill: Colour | None = None  # of the letters, in its stead
    behind: Colour | None = WHITE
    behind_blocks: Colour | None = WHITE  # without what is painted behind the text of a line only
    shifted: bool = False  # its lines begin where no screen reaches
    indented: bool = False  # the blocks in it do
    narrow: bool = False  # it has no width
    same_for_blocks: bool = True  # a block in it that declares nothing looks the same
    moves_line: bool = False  # the rest of the line that it stands in is where no screen reaches
    hidden: str = ""

    def values(self) -> tuple[object, ...]:
        """All that it says, to be compared."""
        return (
            *(self.gone, self.visible, self.opacity, self.letters, self.flat, self.clips),
            *(self.colour, self.fill, self.behind, self.behind_blocks, self.shifted),
            *(self.indented, self.narrow, self.moves_line),
        )


ROOT = Style()
UNSHOWN = Style(gone="element", hidden="element")  # of elements that no program shows


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
    behind = _behind(below, declared)
    style = Style(
        visible=_visible(declared, usual),
        opacity=usual.opacity * _factor(declared, "opacity") * _factor(declared, "filter"),
        letters=letters,
        flat=_flat(declared, usual, letters),
        clips=usual.clips or (not inline and boxes.clips(declared)),
        colour=_colour(declared, "color", usual.colour, BLACK),
        fill=_colour(declared, "-webkit-text-fill-color", usual.fill, None),
        behind=behind,
        behind_blocks=usual.behind_blocks if inline else behind,
        shifted=usual.shifted if inline else indented,
        indented=indented,
        narrow=usual.narrow if inline else boxes.is_narrow(name, declared, letters, usual.narrow),
        moves_line=inline and boxes.moves_line(declared, letters),
    )
    if declared.get("background-clip") == "text":
        _cut_out(style, below, declared)
    style.same_for_blocks = style.behind == style.behind_blocks and style.shifted == indented and not style.narrow
    style.gone = _gone(style, name, declared, inline=inline)
    style.hidden = style.gone or _hides_letters(style)
    return style


def _usual(around: Style, name: str) -> Style:
    """As browsers have it for an element that declares nothing (HTML 15.3)."""
    if name in _OWN_LETTERS:
        behind = _BUTTON if name == "button" else WHITE
        changed = replace(around, letters=13.0, colour=BLACK, fill=None, behind=behind, flat=False)
        changed.shifted = changed.indented = changed.narrow = False
        changed.behind_blocks = behind
    elif name in _SMALLER:
        changed = replace(around, letters=around.letters * 5 / 6)
    elif name == "table" and around.indented:
        changed = replace(around, shifted=False, indented=False)
    elif name == "mark":
        changed = replace(around, colour=BLACK, behind=(1, 1, 0, 1))
    else:
        return around
    return replace(changed, hidden=_hides_letters(changed))


def _visible(declared: Mapping[str, object], usual: Style) -> bool:
    value = declared.get("visibility", INHERIT)
    return usual.visible if value == INHERIT else value in ("visible", INITIAL)


def _factor(declared: Mapping[str, object], name: str) -> float:
    value = declared.get(name)
    return value if isinstance(value, float) else 1.0


def _letters(usual: Style, declared: Mapping[str, object]) -> float:
    value = declared.get("font-size", INHERIT)
    if isinstance(value, Length):
        return max(0.0, value.resolved(usual.letters, usual.letters / 100))
    return 16.0 if value == INITIAL else usual.letters


def _flat(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("line-height", INHERIT)
    if not isinstance(value, Length):
        return usual.flat and value == INHERIT
    if value.is_number:
        return value.pixels <= _FLAT_LINE
    return value.resolved(letters, letters / 100) <= max(boxes.LEAST_BOX, _FLAT_LINE * letters)


def _indented(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("text-indent", INHERIT)
    if not isinstance(value, Length):
        return usual.indented and value == INHERIT
    shift = value.resolved(letters)
    if shift <= -boxes.FAR:
        return shift + (boxes.pixels(declared, "padding-left", letters) or 0.0) <= -boxes.FAR
    return shift >= boxes.VERY_FAR or (shift >= _WHOLE_LINE and (usual.clips or boxes.clips(declared)))


def _cut_out(style: Style, below: Colour | None, declared: Mapping[str, object]) -> None:
    """The letters are cut out of the background, and what is around it lies behind them."""
    letters = style.fill or style.colour
    if letters is None or letters[3] < 1:
        style.fill, style.colour = None, style.behind if letters and declared.get("background-color") else None
    style.behind = style.behind_blocks = below


def _colour(declared: Mapping[str, object], name: str, around: Colour | None, initial: Colour | None) -> Colour | None:
    value = declared.get(name, INHERIT)
    if isinstance(value, tuple):
        return value
    return around if value == INHERIT else initial if value == INITIAL else None


def _behind(around: Colour | None, declared: Mapping[str, object]) -> Colour | None:
    """None: a picture, or a colour that is not worked out here."""
    if declared.get("background-image") is True or declared.get("box-shadow") is True:
        return None
    value = declared.get("background-color", INITIAL)
    if isinstance(value, tuple):
        if value[3] >= 1:
            return value
        return colours.over(value, around) if around else None
    return around if value in (INITIAL, INHERIT) else None


def _hides_letters(style: Style) -> str:
    """The technique by which letters are not seen, which other letters further inside may be."""
    if not style.visible:
        return "visibility"
    if style.letters < SMALLEST_LETTERS or (style.flat and style.clips):
        return "size"
    if style.shifted:
        return "off-screen"
    letters = style.fill or style.colour
    if letters and (letters[3] < _LEAST_OPACITY or (style.behind and colours.are_alike(letters, style.behind))):
        return "colour"
    return ""


def _gone(style: Style, name: str, declared: Mapping[str, object], *, inline: bool) -> str:
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
    if _is_nothing(declared, name, style):
        return "size"
    return "off-screen" if boxes.is_off_screen(name, declared, style.letters) else ""


def _is_nothing(declared: Mapping[str, object], name: str, style: Style) -> bool:
    if declared.get("scale") is True or boxes.moved(declared)[1]:
        return True
    if declared.get("clip") is True and declared.get("position") in ("absolute", "fixed"):
        return True
    return boxes.clips(declared) and (style.narrow or boxes.is_flat(name, declared, style.letters))


def link_colour(around: Style, colour: Colour | None) -> Style:
    """The style of a link that declares nothing: it has a colour of its own, and not that of the text around it."""
    changed = replace(around, colour=colour or _LINK)
    return replace(changed, hidden=around.gone or _hides_letters(changed))
