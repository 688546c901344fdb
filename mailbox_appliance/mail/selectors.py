"""Selectors of CSS as mail uses them: tags, classes, ids, attributes, siblings, and what they lie in (CSS Selectors 4).

What depends on what the reader does (`:hover`), and what is no element (`::before`), never fits. What would need the
rest of the mail (`:last-child`, `:has()`), or the state of a form, is told apart as vague. Case does not count: in old
documents it does not for classes and ids, and most mail is such.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from mailbox_appliance.mail import css

_SIMPLE = re.compile(
    r"""(?P<tag>\*|(?:[\w-]|[^\x00-\x7f]|\\.)++)
    | \.(?P<class>(?:[\w-]|[^\x00-\x7f]|\\[^\n])++) | \#(?P<id>(?:[\w-]|[^\x00-\x7f]|\\[^\n])++)
    | \[\s*+(?P<name>[\w:-]++)\s*+(?:(?P<how>[~|^$*]?=)\s*+(?P<value>"[^"]*+"|'[^']*+'|[^\]\s]++)\s*+[iIsS]?\s*+)?\]
    | :(?P<pseudo>[\w-]++)(?:\((?P<argument>(?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+)\))?
    | (?P<combinator>\s*+[>+~]\s*+|\s++)""",
    re.X,
)
_NTH = re.compile(r"(?:(?P<step>[+-]?\d{0,4})n)?\s*(?P<start>[+-]?\s*\d{1,4})?")
_WORDS = {"odd": "2n+1", "even": "2n"}
_FIRST = frozenset({"first-child", "first-of-type"})
_NTHS = frozenset({"nth-child", "nth-of-type"})
_VAGUE = frozenset({
    "last-child", "last-of-type", "only-child", "only-of-type", "nth-last-child", "nth-last-of-type", "empty", "has",
    "lang", "dir", "checked", "default", "defined", "disabled", "enabled", "host", "in-range", "indeterminate",
    "invalid", "open", "optional", "out-of-range", "placeholder-shown", "read-only", "read-write", "required", "scope",
    "valid", "heading", "nth-col", "nth-last-col"
})  # fmt: skip
_LONGEST = 500  # characters of a selector
_MOST_PARTS = 12
_DEEPEST = 3  # `:not(:is())`


class NotUnderstood(ValueError):
    """A selector that is not understood here."""


class Nth(msgspec.Struct, frozen=True, gc=False):
    """Which of its siblings an element is: `step` times something, and `start`."""

    step: int
    start: int
    of_type: bool


class AnyOf(msgspec.Struct, frozen=True):
    """That an element is one of several things, or none of them."""

    compounds: tuple["Compound", ...]
    none: bool


UNTOLD = AnyOf((), none=True)  # for what is not told here


class Compound(msgspec.Struct, frozen=True, gc=False):
    """What one element must be."""

    tag: str = ""
    id: str = ""
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str, str], ...] = ()  # name, how it is compared (empty: it is there), value
    conditions: tuple[Nth | AnyOf, ...] = ()
    vague: str = ""  # it says more, which is not told here: a name for that

    @property
    def depends_on_attributes(self) -> bool:
        """Whether it looks at others than `id` and `class`."""
        anys = (each for each in self.conditions if isinstance(each, AnyOf))
        return bool(self.attributes) or any(one.depends_on_attributes for each in anys for one in each.compounds)


@dataclass(frozen=True, slots=True)
class Selector:
    """A compound, and what stands before it, the nearest first: with `>`, `+`, `~`, or empty where it lies in it."""

    subject: Compound
    around: tuple[tuple[str, Compound], ...]
    weight: tuple[int, int, int]  # ids; classes and attributes; tags


@dataclass(frozen=True, slots=True)
class Known:
    """What of an element selectors look at."""

    tag: str
    id: str
    classes: frozenset[str]
    attributes: Mapping[str, str]
    keys: tuple[str, ...]  # what rules may find it by: its tag, `#id`, `.class`
    number: int = 0  # of its siblings, from 1; 0: not told
    of_type: int = 0  # of those with its tag
    previous: Self | None = None  # the sibling before it


def selector(written: str) -> Selector | None:
    """A selector; None for what never fits. Raises NotUnderstood."""
    return _selector(written.strip(), 0)


def _selector(written: str, depth: int) -> Selector | None:
    if not written:
        return None
    if len(written) > _LONGEST or depth > _DEEPEST:
        raise NotUnderstood(written)
    parts: list[list[re.Match[str]]] = [[]]
    combinators: list[str] = []
    place = 0
    while place < len(written):
        found = _SIMPLE.match(written, place)
        if found is None and written.startswith("::", place):
            return None
        if found is None or len(parts) > _MOST_PARTS or (found["tag"] and parts[-1]):
            raise NotUnderstood(written)
        place = found.end()
        if found["combinator"]:
            combinators.append(found["combinator"].strip())
            parts.append([])
        else:
            parts[-1].append(found)
    if any(each["pseudo"] == "empty" for each in parts[-1]):
        return None  # it has no text
    compounds = [_compound(part, depth) for part in parts if part]
    whole = [each for each in compounds if each]
    if len(whole) < len(parts):
        return None
    around = tuple(zip(reversed(combinators), reversed(whole[:-1]), strict=True))
    return Selector(whole[-1], around, _weight(whole))


def _compound(found: Sequence[re.Match[str]], depth: int) -> Compound | None:
    def values(group: str) -> list[str]:
        return [css.unescaped(each[group]).lower() for each in found if each[group]]

    attributes = [
        (each["name"].lower(), each["how"] or "", css.unescaped((each["value"] or "").strip("\"'")).lower())
        for each in found
        if each["name"]
    ]
    tags = [tag for tag in values("tag") if tag != "*"]
    conditions: list[Nth | AnyOf] = []
    vague = ""
    for each in found:
        pseudo, argument = (each["pseudo"] or "").lower(), (each["argument"] or "").strip().lower()
        if pseudo in ("link", "any-link", "-webkit-any-link"):
            attributes.append(("href", "", ""))
        elif pseudo == "root":
            tags.append("html")
        elif pseudo in _VAGUE:
            vague = vague or f":{pseudo}{'()' if argument else ''}"
        elif pseudo:
            condition = _condition(pseudo, argument, depth)
            if condition is None:
                return None
            vague = vague or (f":{pseudo}()" if condition is UNTOLD else "")
            conditions.append(condition)
    return Compound(
        "".join(tags[:1]),
        "".join(values("id")[:1]),
        tuple(values("class")),
        tuple(attributes),
        tuple(conditions),
        vague,
    )


def _condition(pseudo: str, argument: str, depth: int) -> Nth | AnyOf | None:
    if pseudo in _FIRST:
        return Nth(0, 1, pseudo == "first-of-type")
    if pseudo in _NTHS:
        found = _NTH.fullmatch(_WORDS.get(argument, argument))
        if found is None and " of " in argument:
            return UNTOLD
        if found is None or not argument:
            return None
        step = found["step"]
        steps = 0 if step is None else int(step + "1") if step in ("", "+", "-") else int(step)
        return Nth(steps, int((found["start"] or "0").replace(" ", "")), pseudo == "nth-of-type")
    if pseudo in ("not", "is", "where", "matches", "-webkit-any"):
        try:
            given = [_selector(each.strip(), depth + 1) for each in css.split(argument, ",")]
        except NotUnderstood:
            return UNTOLD
        return _any_of(given, none=pseudo == "not")
    return None


def _any_of(selectors_: Sequence[Selector | None], *, none: bool) -> AnyOf | None:
    """What never fits is none of them."""
    known = [each.subject for each in selectors_ if each]
    if any(each.around or each.subject.vague for each in selectors_ if each):
        return UNTOLD
    return AnyOf(tuple(known), none) if known or none else None


def _weight(compounds: Sequence[Compound]) -> tuple[int, int, int]:
    return (
        sum(bool(each.id) for each in compounds),
        sum(len(each.classes) + len(each.attributes) + len(each.conditions) + bool(each.vague) for each in compounds),
        sum(bool(each.tag) for each in compounds),
    )


def fits(compound: Compound, known: Known) -> bool:
    """Whether an element is what a compound says."""
    return (
        (not compound.tag or compound.tag == known.tag)
        and (not compound.id or compound.id == known.id)
        and known.classes.issuperset(compound.classes)
        and all(_has(known.attributes, *each) for each in compound.attributes)
        and all(_meets(each, known) for each in compound.conditions)
    )


def asks_for_place(compound: Compound) -> bool:
    """Whether it depends on which of its siblings an element is."""
    return any(isinstance(each, Nth) or any(map(asks_for_place, each.compounds)) for each in compound.conditions)


def _meets(condition: Nth | AnyOf, known: Known) -> bool:
    """Where the place of an element is not told yet, it is in every place."""
    if isinstance(condition, AnyOf):
        if not known.number and any(map(asks_for_place, condition.compounds)):
            return True
        return any(fits(each, known) for each in condition.compounds) is not condition.none
    number = known.of_type if condition.of_type else known.number
    if not number:
        return True
    steps = number - condition.start
    return steps == 0 if condition.step == 0 else steps % condition.step == 0 and steps * condition.step >= 0


def _has(attributes: Mapping[str, str], name: str, how: str, value: str) -> bool:
    if name not in attributes:
        return False
    given = attributes[name].lower()
    match how:
        case "=":
            return given == value
        case "~=":
            return value in given.split()
        case "|=":
            return given == value or given.startswith(f"{value}-")
        case "^=":
            return value != "" and given.startswith(value)
        case "$=":
            return value != "" and given.endswith(value)
        case "*=":
            return value != "" and value in given
    return True
