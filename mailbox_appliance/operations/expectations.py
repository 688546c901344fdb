"""What a value must be, in words for people: the sentences of msgspec (0.19 to 0.22) are written for programmers."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from msgspec import inspect

_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "bytes": "base64 text",
    "null": "null",
}
_OTHERWISE = "This is no value that is taken here."
_PATTERN = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_CHOICE = re.compile(r"Invalid (?:enum )?value .*", re.DOTALL)


def _count(number: str, what: str) -> str:
    return f"1 {what}" if number == "1" else f"{number} {'entries' if what == 'entry' else what + 's'}"


def _kinds(found: re.Match[str]) -> str:
    """`str | null`, and what was given instead."""
    wanted = [_NAMES.get(kind.strip(), "") for kind in found[1].split("|")]
    if not all(wanted):
        return _OTHERWISE
    given = _NAMES.get(found[2] or "", "")
    if found[2] in ("int", "float"):
        given = "a number with a fraction" if found[2] == "float" and _NAMES["int"] in wanted else "a number"
    return f"This must be {' or '.join(wanted)}{given and f', not {given}'}."


def _length(found: re.Match[str]) -> str:
    kind, bound, number = found.groups()
    least = bound == ">=" or "least" in bound
    if least and number == "1":
        return "This must not be empty."
    what = {"str": "character", "bytes": "byte"}.get(kind, "entry")
    return (
        f"This must {'be' if what == 'character' else 'have'} at {'least' if least else 'most'} {_count(number, what)}."
    )


#: What msgspec says, and what people are told. The first that fits counts; of anything else only that it is wrong.
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), told)
    for pattern, told in (
        (r"Expected `(str|array|object|bytes)` of length ([<>]=) (\d+)", _length),
        (r"Expected `(array)` of (at least length|at most length) (\d+)(?:, got \d+)?", _length),
        (r"Expected `array` of length (\d+)(?:, got \d+)?", lambda at: f"This must have {_count(at[1], 'entry')}."),
        (r"Expected `array` of length (\d+) to (\d+).*", lambda at: f"This must have {at[1]} to {at[2]} entries."),
        (r"Expected `(?:int|float)` <= (.+)", lambda at: f"This must be at most {at[1]}."),
        (r"Expected `(?:int|float)` >= (.+)", lambda at: f"This must be at least {at[1]}."),
        (r"Expected `(?:int|float)` < (.+)", lambda at: f"This must be less than {at[1]}."),
        (r"Expected `(?:int|float)` > (.+)", lambda at: f"This must be more than {at[1]}."),
        (r"Expected `(?:int|float)` that's a multiple of (.+)", lambda at: f"This must be a multiple of {at[1]}."),
        (r"Expected `([a-z| ]+)`(?:, got `(\w+)`)?", _kinds),
        (r"Object missing required field `(.*)`", lambda at: f"The field `{at[1]}` is missing."),
        (r"Object contains unknown field `(.*)`", lambda at: f"There is no field `{at[1]}` here."),
        (r"(?:Integer value|Number) out of range", lambda _: "This number is too large or too small."),
        (r"Invalid base64 encoded string", lambda _: "This must be base64 text (RFC 4648 4), with its padding."),
    )
)


def in_words(sentence: str, annotation: Any, steps: Iterable[str] = ()) -> str:
    """What a person is told where msgspec says `sentence` of what lies at `steps` in a value of this type."""
    if pattern := _PATTERN.fullmatch(sentence):
        return _expectations(annotation).get(pattern[1], "This has a character that is not allowed here.")
    if _CHOICE.fullmatch(sentence):
        choices = list(dict.fromkeys(_choices(_kinds_at([inspect.type_info(annotation)], steps))))
        return f"This must be one of {', '.join(f'`{choice}`' for choice in choices)}." if choices else _OTHERWISE
    return next((told(found) for pattern, told in _SENTENCES if (found := pattern.fullmatch(sentence))), _OTHERWISE)


@cache
def is_whole_number(annotation: Any) -> bool:
    """Whether values of this type are whole numbers and nothing else, but for None."""
    return all(isinstance(kind, inspect.IntType | inspect.NoneType) for kind in _plain([inspect.type_info(annotation)]))


def _plain(kinds: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """The kinds themselves: out of unions, without what is noted beside them."""
    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _plain([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _plain(kind.types)
        else:
            yield kind


def _kinds_at(kinds: Iterable[inspect.Type], steps: Iterable[str]) -> list[inspect.Type]:
    found = list(_plain(kinds))
    for step in steps:
        found = list(_plain(inner for kind in found for inner in _inside(kind, step)))
    return found


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """What may lie in a value of this kind under a field's name, a place in a list, or a key (`...`)."""
    if isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields if field.encode_name == step)
    elif isinstance(kind, inspect.CollectionType):
        yield kind.item_type
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type


def _choices(kinds: Iterable[inspect.Type]) -> Iterator[object]:
    for kind in kinds:
        if isinstance(kind, inspect.LiteralType):
            yield from kind.values
        elif isinstance(kind, inspect.EnumType):
            yield from (one.value for one in kind.cls)


@cache
def _expectations(annotation: Any) -> dict[str, str]:
    """For each pattern in a type, as msgspec quotes it: what is expected, in words (`expected` in Meta's `extra`)."""
    found: dict[str, str] = {}
    left: list[object] = [inspect.type_info(annotation)]
    seen: set[type] = set()
    while left:
        one = left.pop()
        if isinstance(one, inspect.Metadata) and isinstance(one.type, inspect.StrType) and one.extra:
            found[repr(one.type.pattern)] = one.extra["expected"]
        elif isinstance(one, inspect.StructType) and one.cls not in seen:
            seen.add(one.cls)
            left += one.fields
        elif isinstance(one, inspect.Type | inspect.Field) and not isinstance(one, inspect.StructType):
            left += _parts(one)
    return found


def _parts(one: inspect.Type | inspect.Field) -> Iterator[object]:
    for name in one.__struct_fields__:
        value = getattr(one, name)
        yield from value if isinstance(value, tuple) else (value,)
