"""The background behind text: a color, and pictures over it (CSS Backgrounds 3, CSS Images 4). It shows whether text is
invisible because it has the color of its background.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from mailbox_appliance.mail.html import css_values
from mailbox_appliance.mail.html.css_values import Colour, UnjudgedValue

GRADIENT = re.compile(r"(?:-[a-z]{1,10}-)?(?:repeating-)?(?:linear-|radial-|conic-)?gradient\(")
_ANY_PICTURE = re.compile(r"url\(|(?:-webkit-)?image-set\(|image\(|(?:-webkit-)?cross-fade\(|element\(|paint\(")
_PICTURE_IN_MESSAGE = re.compile(r"url\(\s*+[\"']?\s*+(?:data|cid):")
_STOP = re.compile(r"#[0-9a-f]{3,8}(?![0-9a-z])|(?:rgb|hsl)a?\([^()]*\)|-?[a-z][a-z-]*\(?")
_GRADIENT_WORDS = frozenset({"from(", "to(", "color-stop(", "calc("})
_MOST_STOPS = 20


@dataclass(frozen=True, slots=True)
class BackgroundPicture:
    """A background picture or gradient behind text. `name`: its name in warnings. `stops`: the colors of a gradient, in
    order.
    """

    name: str
    stops: tuple[Colour, ...] = ()
    is_certain: bool = False  # it contains only these colors
    is_unknown: bool = False  # its colors are unknown
    covers: bool = True  # the color below it is invisible


@dataclass(frozen=True, slots=True)
class Backdrop:
    """The background behind the text of an element: a color, and optionally a picture over it."""

    colour: Colour | UnjudgedValue = css_values.WHITE
    picture: BackgroundPicture | None = None

    def with_background(self, colour: Colour | UnjudgedValue | None, picture: BackgroundPicture | None) -> "Backdrop":
        """Return the backdrop of an element inside this one. `colour` and `picture`: the background that the element
        itself declares, or None.
        """
        if isinstance(colour, UnjudgedValue) or (colour and colour[3] >= 1):
            return Backdrop(colour, picture)
        found = self
        if colour and colour[3] > 0:
            tinted = self.picture and replace(
                self.picture,
                stops=tuple(css_values.blend(colour, _solid_colour(stop, self.colour)) for stop in self.picture.stops),
            )
            below = self.colour if isinstance(self.colour, UnjudgedValue) else css_values.blend(colour, self.colour)
            found = Backdrop(below, tinted)
        if picture is None:
            return found
        # A picture over another one: the lower one may be visible, and nothing else is known about it.
        is_over = found.picture is not None and not (picture.is_certain and all(stop[3] >= 1 for stop in picture.stops))
        return Backdrop(found.colour, replace(picture, is_certain=False) if is_over else picture)

    def possible_colours(self) -> tuple[Colour, ...]:
        """Return the colors that may be behind text: those of a gradient, or the background color. Empty if they are
        unknown.
        """
        if isinstance(self.colour, UnjudgedValue):
            return ()
        if self.picture is None or not self.picture.stops:
            return (self.colour,)
        return tuple(_solid_colour(stop, self.colour) for stop in self.picture.stops)

    def hides_letters(self, letters: Colour) -> bool | UnjudgedValue:
        """Whether text in the color `letters` is invisible on this backdrop. Returns an UnjudgedValue if that is
        unknown.
        """
        if isinstance(self.colour, UnjudgedValue):
            is_over = self.picture and self.picture.is_certain and self.picture.covers
            if not (is_over and self.picture and all(stop[3] >= 1 for stop in self.picture.stops)):
                return self.colour
        return _is_unseen_on(letters, self)


def _solid_colour(stop: Colour, below: Colour | UnjudgedValue) -> Colour:
    return css_values.blend(stop, css_values.WHITE if isinstance(below, UnjudgedValue) else below)


@lru_cache(maxsize=512)
def _is_unseen_on(letters: Colour, backdrop: Backdrop) -> bool | UnjudgedValue:
    picture, below = backdrop.picture, backdrop.colour
    is_alike_below = not isinstance(below, UnjudgedValue) and css_values.are_alike(letters, below)
    if picture is None:
        return is_alike_below
    if picture.is_unknown:
        return UnjudgedValue(picture.name)
    stops = [_solid_colour(stop, below) for stop in picture.stops]
    alike = [css_values.are_alike(letters, stop) for stop in stops]
    if picture.is_certain and all(alike) and (picture.covers or is_alike_below):
        return True
    between = pairwise(stops)
    if any(alike) or any(css_values.are_alike_between(letters, one, other) for one, other in between):
        return UnjudgedValue(picture.name)
    return UnjudgedValue(picture.name) if is_alike_below and not (picture.stops and picture.covers) else False


def parse_picture(value: str, *, covers: bool = True) -> BackgroundPicture | None:
    """Return the picture or gradient in the value of a CSS background, or None if it has none. `covers`: whether the
    picture covers the whole box, so that the color below is invisible.
    """
    is_gradient = GRADIENT.search(value) is not None
    other = _ANY_PICTURE.search(value)
    if not is_gradient and other is None:
        return None
    name = "background-image: gradient" if is_gradient else "background-image: url()"
    if not is_gradient:
        return BackgroundPicture(name, is_unknown=_PICTURE_IN_MESSAGE.search(value) is not None, covers=False)
    stops: list[Colour] = []
    for word in _STOP.findall(_without_addresses(value)):
        if word.endswith("(") and not (word in _GRADIENT_WORDS or GRADIENT.fullmatch(word)):
            return BackgroundPicture(name, is_unknown=True)
        found = None if word.endswith("(") else css_values.parse_css_colour(word)
        if isinstance(found, UnjudgedValue) or word == "in" or len(stops) == _MOST_STOPS:
            return BackgroundPicture(name, is_unknown=True)
        stops += [found] if found else []
    if not stops or _PICTURE_IN_MESSAGE.search(value):
        return BackgroundPicture(name, is_unknown=True)
    return BackgroundPicture(name, tuple(stops), is_certain=other is None, covers=covers)


_ADDRESS = re.compile(
    r"""(?:url|(?:-webkit-)?image-set|image|(?:-webkit-)?cross-fade|element|paint)\(
    (?:"[^"]*+"|'[^']*+'|[^()]|\([^()]*+\))*+\)?""",
    re.X,
)


def _without_addresses(value: str) -> str:
    """Return a CSS background without `url()` and other functions for pictures, so that only gradients remain. Words in
    picture addresses must not count as colors.
    """
    return _ADDRESS.sub(" ", value)


def text_clip_colour(declared: Mapping[str, object], below: Backdrop) -> Colour | UnjudgedValue | None:
    """Return the visible color of text with `background-clip: text`, which shows the background of its element instead
    of its own color. None if the element declares no background.

    `declared`: the declarations of the element. `below`: the backdrop around it. Returns an UnjudgedValue if the color
    is unknown.
    """
    shown = declared.get("background-image")
    colour = declared.get("background-color")
    if isinstance(shown, BackgroundPicture):
        inside = below.with_background(colour if isinstance(colour, tuple | UnjudgedValue) else None, shown)
        stops = inside.possible_colours() if shown.stops and not shown.is_unknown else ()
        seen = [below.hides_letters(stop) for stop in stops]
        if stops and (not any(seen) or all(one is True for one in seen)):
            return stops[0]
        return UnjudgedValue("background-clip: text")
    if isinstance(shown, UnjudgedValue):
        return shown
    return colour if isinstance(colour, tuple | UnjudgedValue) else None
