"""The style of one element, and whether it hides text. The cause can be the element's box, its font or color, or a
style that it inherits from its parents.

Values whose effect is unknown are reported by a name from a fixed vocabulary. In this module, `letters` is a font size
in pixels, and `declared` holds the interpreted declarations of one element.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mailbox_appliance.mail.html import css_backdrop
from mailbox_appliance.mail.html.css_backdrop import Backdrop, BackgroundPicture
from mailbox_appliance.mail.html.css_properties import CURRENT_COLOUR, INHERIT, INHERITED, INITIAL
from mailbox_appliance.mail.html.css_values import BLACK, CLIPPED_BOX, Colour, Length, UnjudgedValue

# --- The box: its place by an element's own declarations, and whether anything is left of it (CSS 2.1, 8 to 11) ---
#
# Width, height, overflow and transforms have no effect on inline elements; there, a margin moves the line.


TABLE_ROWS = frozenset({"tr", "tbody", "thead", "tfoot"})
_TABLE_PARTS = TABLE_ROWS | {"td", "th", "caption"}
#: Elements that are not in a line with the text around them, or are boxes in it.
BLOCK_ELEMENTS = _TABLE_PARTS | {
    "address", "article", "aside", "blockquote", "body", "button", "center", "dd", "details", "dialog", "dir", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "hr", "html", "iframe", "img", "input", "legend", "li", "listing", "main", "marquee", "menu", "meter",
    "nav", "object", "ol", "optgroup", "option", "p", "plaintext", "pre", "progress", "search", "section", "select",
    "summary", "table", "textarea", "ul", "xmp"
}  # fmt: skip
HEIGHT = "height"
LEAST_BOX = 1.0  # pixels of a box with hidden overflow
FAR_AWAY = 400.0  # pixels to the left or above, outside every screen
VERY_FAR_AWAY = 5_000.0  # in any direction: nobody scrolls that far
_SEEN_PADDING = 8.0  # pixels of padding in which some of the content is visible
_COVERING = 10.0  # pixels by which a box overlaps the line before it
_LEAST_COVER = 0.3  # opacity above which a background covers text
# visible without a background of their own
_PAINTED_ELEMENTS = frozenset({"img", "hr", "textarea", "svg", "input", "button"})
_PAINTING_PROPERTIES = ("box-shadow", "border", "border-image", "backdrop-filter")
GROWING_ELEMENTS = _TABLE_PARTS | {"table"}  # their size grows with their content

Declared = Mapping[str, object]


def is_inline(name: str, declared: Declared) -> bool:
    """Whether an element is part of a line of text, instead of a box of its own. `name`: its element name."""
    if declared.get("position") in ("absolute", "fixed"):
        return False
    if declared.get("float", "none") not in ("none", INITIAL, INHERIT):
        return False
    display = declared.get("display", INHERIT)
    if display == INHERIT:
        return name not in BLOCK_ELEMENTS
    return display in ("inline", INITIAL)


def length_in_pixels(declared: Declared, name: str, letters: float) -> float | None:
    """Return the declared length of a property in pixels, or None if it declares no length. `letters`: the font size in
    pixels.
    """
    value = declared.get(name)
    return value.to_pixels(letters) if isinstance(value, Length) else None


def clips_overflow(declared: Declared) -> bool:
    """Whether a box cuts off content that extends beyond it."""
    is_hidden = declared.get("overflow-x") is True or declared.get("overflow-y") is True
    return is_hidden or declared.get("clip-path") == CLIPPED_BOX


def is_flat(name: str, declared: Declared, letters: float, low: str = "") -> bool:
    """Whether a box has a height of about zero. A minimum height counts as height. `letters`: the font size in pixels.
    `low`: why boxes inside the parent may have no height (from `lowness_of`), or empty.
    """
    if _grows_with_content(name, declared):
        return False
    height = declared.get("height")
    if low == HEIGHT and isinstance(height, Length) and height.percent and not (height.pixels or height.letters):
        return True
    return _is_thin(declared, letters, "height", "padding-top", "padding-bottom")


def lowness_of(name: str, declared: Declared, letters: float) -> str:
    """Return the reason why boxes inside an element may have no height, or an empty text.

    The reason is `height` if the element itself has none. It is `display: grid` for a grid with a row or column of no
    size, and `display: flex` or `display: grid` for such a layout without height. `letters`: the font size in pixels.
    """
    layout = declared.get("layout")
    if layout == "grid" and declared.get("grid") is True:
        return "display: grid"
    if _grows_with_content(name, declared) or not _is_thin(declared, letters, "height"):
        return ""
    return f"display: {layout}" if layout else HEIGHT


def is_narrow(name: str, declared: Declared, letters: float, around: bool) -> bool:
    """Whether a box has a width of about zero. `letters`: the font size in pixels. `around`: whether its parent has no
    width.
    """
    if _grows_with_content(name, declared):
        return False
    if _is_thin(declared, letters, "width", "padding-left", "padding-right"):
        return True
    is_free = declared.get("position") in ("absolute", "fixed") or declared.get("float", "none") != "none"
    return around and not is_free and not _has_width(declared, letters)


def _has_width(declared: Declared, letters: float) -> bool:
    """Whether a box inside one without width still has a width of its own. Percentages count as zero."""
    lengths = [declared.get(each) for each in ("width", "min-width", "padding-left", "padding-right")]
    return any(isinstance(each, Length) and each.to_pixels(letters, 0.0) > LEAST_BOX for each in lengths)


def _grows_with_content(name: str, declared: Declared) -> bool:
    return name in GROWING_ELEMENTS and declared.get("display") != "block"


def _is_thin(declared: Declared, letters: float, side: str, *paddings: str) -> bool:
    given = [length_in_pixels(declared, each, letters) for each in (side, f"max-{side}")]
    if not any(each is not None and each <= LEAST_BOX for each in given):
        return False
    least = length_in_pixels(declared, f"min-{side}", letters) or 0.0
    return (
        least <= LEAST_BOX
        and sum(length_in_pixels(declared, each, letters) or 0.0 for each in paddings) < _SEEN_PADDING
    )


def is_off_screen(name: str, declared: Declared, letters: float) -> bool:
    """Whether a box is outside every screen. Padding of the same size moves its content back, so it is then visible.
    `letters`: the font size in pixels.
    """
    placed = declared.get("position", "static") not in ("static", INHERIT, INITIAL)
    for side in ("left", "top"):
        shift = 0.0 if name in _TABLE_PARTS else length_in_pixels(declared, f"margin-{side}", letters) or 0.0
        shift += _offset(declared, side, letters) if placed else 0.0
        if shift <= -FAR_AWAY and shift + (length_in_pixels(declared, f"padding-{side}", letters) or 0.0) <= -FAR_AWAY:
            return True
        if shift >= VERY_FAR_AWAY:
            return True
    if declared.get("float") == "right" and (length_in_pixels(declared, "margin-right", letters) or 0.0) <= -FAR_AWAY:
        return True
    if placed and any(not -FAR_AWAY < _offset(declared, side, letters) < VERY_FAR_AWAY for side in ("right", "bottom")):
        return True
    translate = declared.get("translate")
    return max(movement_of(declared)[0], translate if isinstance(translate, float) else 0.0) >= FAR_AWAY


def _offset(declared: Declared, side: str, letters: float) -> float:
    value = declared.get(side)
    if not isinstance(value, Length):
        return 0.0
    if value.percent and declared.get("position") == "relative":
        return value.to_pixels(letters, 0.0)  # percentages may put adjacent boxes over each other
    return VERY_FAR_AWAY if value.percent >= 100 else value.to_pixels(letters)


def movement_of(declared: Declared) -> tuple[float, bool]:
    """Return the distance in pixels by which `transform` moves a box, and whether nothing of the box remains
    visible.
    """
    value = declared.get("transform")
    return value[:2] if isinstance(value, tuple) else (0.0, False)


def scale_of(declared: Declared) -> float:
    """Return the factor by which `transform` and `scale` change the size of text in a box."""
    transform, scale = declared.get("transform"), declared.get("scale")
    factor = scale if isinstance(scale, float) else 1.0
    return factor * transform[2] if isinstance(transform, tuple) else factor


def moves_line(declared: Declared, letters: float) -> bool:
    """Whether the margin of an inline element moves the rest of its line off the screen. `letters`: the font size in
    pixels.
    """
    return (length_in_pixels(declared, "margin-left", letters) or 0.0) <= -FAR_AWAY


def may_cover(name: str, declared: Declared, letters: float, *, is_behind_text: bool) -> bool:
    """Whether a box may cover text outside it: it is moved from its usual position, and has a background or is a
    picture.

    `letters`: the font size in pixels. `is_behind_text`: whether the content before it is text.
    """
    position = declared.get("position", "static")
    is_free = position in ("absolute", "fixed", "sticky")
    if not is_free and not (is_behind_text and (position == "relative" or "float" in declared)):
        return False
    if not (name in _PAINTED_ELEMENTS or _is_opaque(declared)):
        return False
    if is_free:
        return not is_off_screen(name, declared, letters)
    shifts = [length_in_pixels(declared, f"margin-{side}", letters) or 0.0 for side in ("top", "left")]
    if position == "relative":
        shifts += [_offset(declared, side, letters) for side in ("top", "left")]
        shifts += [-_offset(declared, side, letters) for side in ("bottom", "right")]
    return min(shifts) <= -_COVERING


def _is_opaque(declared: Declared) -> bool:
    colour, picture = declared.get("background-color"), declared.get("background-image")
    is_coloured = colour[3] > _LEAST_COVER if isinstance(colour, tuple) else colour not in (None, INITIAL, INHERIT)
    others = (declared.get(each) for each in _PAINTING_PROPERTIES)
    return is_coloured or any(each not in (None, False, INITIAL, INHERIT) for each in (picture, *others))


# --- Values that may hide the text and cannot be judged ---
#
# A value counts only if it has an effect: an unknown width hides nothing unless overflow is hidden.


_COLOUR_PROPERTIES = frozenset({
    "color", "-webkit-text-fill-color", "background-color", "background-image", "background-size", "background-clip",
    "box-shadow"
})  # fmt: skip
_SIZE_PROPERTIES = frozenset(
    {"width", "height", "max-width", "max-height", "aspect-ratio", "flex", "-webkit-line-clamp"}
)
_OFFSET_PROPERTIES = frozenset({"top", "right", "bottom", "left"})
#: Only for boxes: inline elements ignore them.
_BOX_PROPERTIES = _SIZE_PROPERTIES | {
    "transform", "transform-origin", "scale", "rotate", "translate", "offset-path", "margin-top", "overflow-x",
    "overflow-y", "contain", "text-indent"
}  # fmt: skip
_HIGHEST_LINE = 10.0  # times the height of a box
_TURNING_PROPERTIES = ("transform", "rotate", "scale")


def inherited_doubts(around: frozenset[tuple[str, str]], declared: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    """Return the inherited styles of an element that may hide text but whose effect is unknown, as pairs: the property,
    and its name for the warning. `around`: the pairs of its parent.
    """
    kept = {(name, why) for name, why in around if _depends_on_parent(declared.get(name, INHERIT))}
    found = {
        (name, value.name)
        for name, value in declared.items()
        if isinstance(value, UnjudgedValue) and name in INHERITED and name not in _COLOUR_PROPERTIES
    }
    return frozenset(kept | found)


def _depends_on_parent(value: object) -> bool:
    """Whether a declared value depends on the value that the parent has."""
    return value == INHERIT or (isinstance(value, Length) and bool(value.letters or value.percent))


def own_doubts(name: str, declared: Mapping[str, object], letters: float, low: str, *, inline: bool) -> frozenset[str]:
    """Return names, for a warning, of an element's styles that may hide all of its content but whose effect is unknown.

    `letters`: the font size in pixels. `low`: why boxes inside the parent may have no height (from `lowness_of`), or
    empty. `inline`: whether the element is inline.
    """
    found = {
        value.name
        for key, value in declared.items()
        if isinstance(value, UnjudgedValue)
        and key not in INHERITED
        and key not in _COLOUR_PROPERTIES
        and not (inline and key in _BOX_PROPERTIES)
        and _can_hide(key, name, declared, letters)
    }
    if not inline and clips_overflow(declared) and name not in GROWING_ELEMENTS:
        height = length_in_pixels(declared, "height", letters) or length_in_pixels(declared, "max-height", letters)
        least = length_in_pixels(declared, "min-height", letters) or 0.0
        padding = sum(length_in_pixels(declared, f"padding-{side}", letters) or 0.0 for side in ("top", "bottom"))
        if height is not None and max(height, least) + padding < letters / 2:
            found.add("overflow: hidden")
        line = declared.get("line-height")
        if height and isinstance(line, Length):
            size = line.pixels * letters if line.is_number else line.to_pixels(letters, letters / 100)
            if size > _HIGHEST_LINE * max(height, least):
                found.add("overflow: hidden")  # letters are in the middle of their line, below the box
        if low and not (height and height > letters / 2):
            if low != HEIGHT:
                found.add(low)
            elif declared.get("position") in ("absolute", "fixed"):
                found.add("position: absolute")
    if declared.get("backface-visibility") == "hidden" and declared.get("turned") is True:
        found.add("backface-visibility")
    return frozenset(found)


def _can_hide(key: str, name: str, declared: Mapping[str, object], letters: float) -> bool:
    if key in _SIZE_PROPERTIES:
        return clips_overflow(declared) and name not in GROWING_ELEMENTS
    if key in _OFFSET_PROPERTIES:
        return declared.get("position", "static") not in ("static", INHERIT)
    if key in ("overflow-x", "overflow-y"):
        return is_flat(name, declared, letters) or is_narrow(name, declared, letters, around=False)
    if key == "z-index":
        return declared.get("position", "static") not in ("static", INHERIT, INITIAL)
    if key == "clip":
        return declared.get("position") in ("absolute", "fixed")
    if key == "transform-origin":
        return any(declared.get(each) is not None for each in _TURNING_PROPERTIES)
    return key != "margin-right" or declared.get("float") == "right"


# --- The whole style ---


SMALLEST_LETTERS = 2.0  # pixels: nobody can read smaller letters
_LEAST_OPACITY = 0.1
_WHOLE_LINE = 990.0  # pixels: text that starts after them is cut off if overflow is hidden
_FLAT_LINE = 0.1  # times the font size
_LINK_COLOUR: Colour = (0, 0, 0xEE / 255, 1)
_BUTTON_BACKDROP = Backdrop((0xEF / 255, 0xEF / 255, 0xEF / 255, 1))
_MARK_BACKDROP = Backdrop((1, 1, 0, 1))
_PAPER_BACKDROP = Backdrop()
_USUAL_ASPECT = 0.5  # height of small letters relative to the font size
_OWN_LETTERS = frozenset({"button", "textarea", "input", "select"})
_CLIPPING = frozenset({"textarea", "marquee", "select"})  # overflow in these is hidden
_SMALLER = frozenset({"small", "sub", "sup"})


@dataclass(slots=True, eq=False)  # not frozen, since creating it would take three times as long
class Style:
    """The style of an element, which its content inherits. `hidden`: the technique that hides its text, such as
    `opacity` or `color`; empty if the text is visible.
    """

    gone: str = ""  # the technique that hides all of its content, whatever that declares
    visible: bool = True
    opacity: float = 1.0
    letters: float = 16.0  # font size in pixels
    zoom: float = 1.0
    adjusted: float | None = None  # `font-size-adjust`
    flat: bool = False  # its lines have no height
    clips: bool = False  # overflow is hidden
    colour: Colour | UnjudgedValue | None = BLACK  # of the letters
    fill: Colour | UnjudgedValue | None = None  # color of the letters, in place of `colour`
    behind: Backdrop = _PAPER_BACKDROP
    behind_blocks: Backdrop = _PAPER_BACKDROP  # without backgrounds that are painted only behind the text of a line
    shifted: bool = False  # its lines start outside every screen
    indented: bool = False  # its blocks start outside every screen
    narrow: bool = False  # it has no width
    low: str = ""  # why boxes inside may have no height
    layout: str = ""  # `flex` or `grid`: inline content becomes boxes
    same_for_blocks: bool = True  # a block inside without declarations looks the same
    moves_line: bool = False  # the rest of its line is outside every screen
    doubts: frozenset[str] = frozenset()  # unjudged styles of it and of those around it; its content cannot undo them
    unsure: frozenset[tuple[str, str]] = frozenset()  # unjudged inherited properties, with names for the warning
    folded: bool = False  # it is visible after the reader unfolds it
    hidden: str = ""
    unjudged: tuple[str, ...] = ()  # why it is unknown whether its text is visible

    def values(self) -> tuple[object, ...]:
        """Return all values that determine the style. Styles with equal values are equal."""
        return (
            *(self.gone, self.visible, self.opacity, self.letters, self.zoom, self.adjusted, self.flat, self.clips),
            *(self.colour, self.fill, self.behind, self.behind_blocks, self.shifted),
            *(self.indented, self.narrow, self.low, self.layout, self.moves_line),
            *(self.doubts, self.unsure, self.folded),
        )


ROOT_STYLE = Style()
UNSHOWN_STYLE = Style(gone="element", hidden="element")  # for elements that no program shows


def judge(style: Style) -> Style:
    """Set `hidden` and `unjudged` of a style from its other values: the technique that hides its text, or why that is
    unknown. Returns the same style.
    """
    by_colour = _is_hidden_by_colour(style)
    style.hidden = style.gone or _letter_technique(style) or ("color" if by_colour is True else "")
    style.unjudged = ()
    if not style.hidden and (by_colour or style.doubts or style.unsure or style.folded):
        names = style.doubts | {name for _, name in style.unsure}
        names |= {by_colour.name} if isinstance(by_colour, UnjudgedValue) else set()
        style.unjudged = tuple(sorted(names | {"details"} if style.folded else names))
    return style


def style_of(around: Style, name: str, declared: Mapping[str, object]) -> Style:
    """Return the style of an element. `around`: the style of its parent. `name`: its element name. `declared`: its
    declarations.
    """
    if around.gone:
        return around
    usual, inline = _browser_style(around, name), is_inline(name, declared)
    if not declared and (inline or usual.same_for_blocks):
        return usual
    letters = _letter_size(usual, declared)
    indented = _is_indented_away(declared, usual, letters)
    below = usual.behind if inline else usual.behind_blocks
    colour = _colour(declared, "color", usual.colour, BLACK)
    behind = _backdrop_of(below, declared, colour)
    style = Style(
        visible=_is_visible(declared, usual),
        opacity=usual.opacity * _factor(declared, "opacity") * _factor(declared, "filter"),
        letters=letters,
        zoom=usual.zoom * _factor(declared, "zoom") * (1.0 if inline else scale_of(declared)),
        adjusted=_size_adjustment(declared, usual),
        flat=_is_flat_line(declared, usual, letters),
        clips=usual.clips or (not inline and clips_overflow(declared)),
        colour=colour,
        fill=_colour(declared, "-webkit-text-fill-color", usual.fill, None),
        behind=behind,
        behind_blocks=usual.behind_blocks if inline else behind,
        shifted=usual.shifted if inline else indented,
        indented=indented,
        narrow=usual.narrow if inline else is_narrow(name, declared, letters, usual.narrow),
        low=usual.low if inline else lowness_of(name, declared, letters),
        layout=str(declared.get("layout", "")),
        moves_line=inline and moves_line(declared, letters),
        folded=usual.folded,
    )
    if declared.get("background-clip") == "text":
        _cut_letters_out(style, below, declared)
    style.same_for_blocks = (
        style.behind == style.behind_blocks and style.shifted == indented and not (style.narrow or style.low)
    )
    style.doubts = usual.doubts | own_doubts(name, declared, letters, usual.low, inline=inline)
    style.unsure = inherited_doubts(usual.unsure, declared)
    style.gone = _element_technique(style, name, declared, usual.low, inline=inline)
    if inline and usual.layout and not style.gone:
        boxed = replace(style, narrow=is_narrow(name, declared, letters, around=False))
        if _element_technique(boxed, name, declared, usual.low, inline=False):
            style.doubts |= {f"display: {usual.layout}"}
    return judge(style)


def _browser_style(around: Style, name: str) -> Style:
    """Return the style that browsers give to an element by default (HTML 15.3). `around`: the style of its parent."""
    if name in _OWN_LETTERS:
        behind = _BUTTON_BACKDROP if name == "button" else _PAPER_BACKDROP
        changed = replace(around, letters=13.0, colour=BLACK, fill=None, behind=behind, flat=False)
        changed.shifted = changed.indented = changed.narrow = False
        changed.behind_blocks = behind
        changed.unsure = frozenset()
    elif name in _SMALLER:
        changed = replace(around, letters=around.letters * 5 / 6)
    elif name == "table" and around.indented:
        changed = replace(around, shifted=False, indented=False)
    elif name == "mark":
        changed = replace(around, colour=BLACK, behind=_MARK_BACKDROP)
    elif name == "marquee":
        changed = replace(around, doubts=around.doubts | {"marquee"})
    else:
        return around
    return judge(changed)


def _is_visible(declared: Mapping[str, object], usual: Style) -> bool:
    value = declared.get("visibility", INHERIT)
    return usual.visible if value == INHERIT else value in ("visible", INITIAL) or isinstance(value, UnjudgedValue)


def _factor(declared: Mapping[str, object], name: str) -> float:
    value = declared.get(name)
    return value if isinstance(value, float) else 1.0


def _letter_size(usual: Style, declared: Mapping[str, object]) -> float:
    value = declared.get("font-size", INHERIT)
    if isinstance(value, Length):
        return max(0.0, value.to_pixels(usual.letters, usual.letters / 100))
    return 16.0 if value == INITIAL else usual.letters


def _is_flat_line(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("line-height", INHERIT)
    if not isinstance(value, Length):
        return usual.flat and value == INHERIT
    if value.is_number:
        return value.pixels <= _FLAT_LINE
    return value.to_pixels(letters, letters / 100) <= max(LEAST_BOX, _FLAT_LINE * letters)


def _is_indented_away(declared: Mapping[str, object], usual: Style, letters: float) -> bool:
    value = declared.get("text-indent", INHERIT)
    if not isinstance(value, Length):
        return usual.indented and value == INHERIT
    shift = value.to_pixels(letters)
    if shift <= -FAR_AWAY:
        return shift + (length_in_pixels(declared, "padding-left", letters) or 0.0) <= -FAR_AWAY
    return shift >= VERY_FAR_AWAY or (shift >= _WHOLE_LINE and (usual.clips or clips_overflow(declared)))


def _size_adjustment(declared: Mapping[str, object], usual: Style) -> float | None:
    value = declared.get("font-size-adjust", INHERIT)
    return value if isinstance(value, float) else usual.adjusted if value == INHERIT else None


def _cut_letters_out(style: Style, below: Backdrop, declared: Mapping[str, object]) -> None:
    """Change the style of text with `background-clip: text` that is at least partly transparent: its color becomes that
    of its own background. The backdrop behind the text becomes `below`.
    """
    letters = style.fill or style.colour
    style.behind = style.behind_blocks = below
    if isinstance(letters, tuple) and letters[3] < 1:
        style.fill = css_backdrop.text_clip_colour(declared, below) or letters


def _colour(
    declared: Mapping[str, object], name: str, around: Colour | UnjudgedValue | None, initial: Colour | None
) -> Colour | UnjudgedValue | None:
    value = declared.get(name, INHERIT)
    if isinstance(value, tuple | UnjudgedValue):
        return value
    return around if value == INHERIT else initial if value == INITIAL else None


def _backdrop_of(around: Backdrop, declared: Mapping[str, object], letters: Colour | UnjudgedValue | None) -> Backdrop:
    value = declared.get("background-color", INITIAL)
    if value == CURRENT_COLOUR:
        value = letters
    colour = value if isinstance(value, tuple | UnjudgedValue) else None
    shadow, picture = declared.get("box-shadow"), declared.get("background-image")
    if isinstance(picture, UnjudgedValue):
        picture = BackgroundPicture(picture.name, is_unknown=True)
    if isinstance(picture, BackgroundPicture) and declared.get("background-size") is False:
        picture = replace(picture, covers=False)
    found = around.with_background(colour, picture if isinstance(picture, BackgroundPicture) else None)
    return found.with_background(None, shadow) if isinstance(shadow, BackgroundPicture) else found


def _is_hidden_by_colour(style: Style) -> bool | UnjudgedValue:
    """Whether the text has the color of its background or is transparent. Returns an UnjudgedValue if that is
    unknown.
    """
    letters = style.fill or style.colour
    if isinstance(letters, UnjudgedValue) and letters.options:
        is_seen = not any(each[3] < _LEAST_OPACITY or style.behind.hides_letters(each) for each in letters.options)
        return False if is_seen else letters
    if not isinstance(letters, tuple):
        return letters or False
    return letters[3] < _LEAST_OPACITY or style.behind.hides_letters(letters)


def _letter_technique(style: Style) -> str:
    """Return the technique that hides the text of an element by inherited values: `visibility`, `size` or `off-screen`;
    empty if none does. Elements inside it may be visible again.
    """
    if not style.visible:
        return "visibility"
    size = style.letters * style.zoom * (1.0 if style.adjusted is None else style.adjusted / _USUAL_ASPECT)
    if size < SMALLEST_LETTERS or (style.flat and style.clips):
        return "size"
    if style.shifted:
        return "off-screen"
    return ""


def _element_technique(style: Style, name: str, declared: Mapping[str, object], low: str, *, inline: bool) -> str:
    """Return the technique that hides all content of an element, such as `opacity`; empty if none does. Elements inside
    it cannot become visible again. `low`: why boxes inside its parent may have no height (from `lowness_of`), or empty.
    """
    if declared.get("display") == "none" or declared.get("content-visibility") == "hidden":
        return "display"
    if str(declared.get("mso-hide", "")).startswith("all") and name != "a":
        return "display"  # Senders hide buttons from one program, which draws its own
    if style.opacity < _LEAST_OPACITY:
        return "opacity"
    if declared.get("clip-path") is True:
        return "size"
    if inline:
        return ""
    if name in TABLE_ROWS and declared.get("visibility") == "collapse":
        return "visibility"
    if _is_empty_box(declared, name, style, low):
        return "size"
    return "off-screen" if is_off_screen(name, declared, style.letters) else ""


def _is_empty_box(declared: Mapping[str, object], name: str, style: Style, low: str) -> bool:
    if declared.get("scale") is True or declared.get("rotate") is True or movement_of(declared)[1]:
        return True
    if declared.get("clip") is True and declared.get("position") in ("absolute", "fixed"):
        return True
    if not clips_overflow(declared) and name not in _CLIPPING:
        return False
    return style.narrow or is_flat(name, declared, style.letters, low)


def link_style(around: Style, colour: Colour | None) -> Style:
    """Return the style of a link that declares nothing: it has its own color. `around`: the style of its parent.
    `colour`: the color of links that `body` sets, if any.
    """
    return judge(replace(around, colour=colour or _LINK_COLOUR))


def either_style(one: Style, other: Style, doubt: str) -> Style:
    """Return a style for an element that has one of two styles, if it is unknown which. Its text is hidden only if both
    hide it. `doubt`: the reason, for the warning.
    """
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
    return judge(style)


def _either_colour(
    one: Colour | UnjudgedValue | None, other: Colour | UnjudgedValue | None, doubt: str
) -> UnjudgedValue:
    """Return a value for a text color that is one of two. `doubt`: the reason, for the warning."""
    options = [each.options if isinstance(each, UnjudgedValue) else (each,) if each else () for each in (one, other)]
    return UnjudgedValue(doubt, options[0] + options[1] if all(options) else ())


def _either_behind(one: Backdrop, other: Backdrop, doubt: str) -> Backdrop:
    if one.picture or other.picture or isinstance(one.colour, UnjudgedValue) or isinstance(other.colour, UnjudgedValue):
        return replace(one, picture=BackgroundPicture(doubt, is_unknown=True))
    return Backdrop(one.colour, BackgroundPicture(doubt, (other.colour,), covers=False))
