"""From what a door hands over to typed values; a fault names its place in the request."""

import json
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NoReturn, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from mailbox_appliance.errors import Detail, Invalid, InvalidJson

# Names in messages may be anything a client sent; the place of a fault is ours and has no backtick.
_AT = re.compile(r" - at `(?:key in )?\$?([^`]*)`$")
_STEP = re.compile(r"\.|\[(\d+|\.\.\.)\]")
_NAMED_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)
_PATTERN = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_FILE = re.compile(rb'"[A-Za-z0-9+/=]{4000,}"(?!\s*:)')
_LONGEST_QUOTE = 200


def body_types(annotation: Any) -> tuple[type[msgspec.Struct], ...]:
    """The structs that a body may be: one, or those of a union; nothing where the annotation is no body."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    structs = tuple(choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct))
    return structs if len(structs) == len(choices) else ()


def decode_json(body: bytes) -> object:
    """The value that a JSON text stands for. Raises InvalidJson.

    RFC 8259, without NaN and lone surrogates; RFC 7493 2.3: of a name that stands twice in an object, one program takes
    the first value and another the last.
    """
    try:
        found = msgspec.json.decode(body)
        # What was found well-formed is read once more for its names; files (base64) have none.
        json.loads(_FILE.sub(b'""', body), object_pairs_hook=_require_unique, parse_int=bool, parse_float=bool)
        return found
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error
    except UnicodeDecodeError as error:
        raise InvalidJson(reason="it is not UTF-8.", details=(Detail("", "Not UTF-8."),)) from error
    except msgspec.DecodeError as error:
        reason = f"{_AT.sub('', str(error))}."
        raise InvalidJson(reason=reason, details=(Detail("", reason),)) from error


def convert_body(raw: object, annotation: Any) -> Any:
    """A decoded body as its struct. Of a choice it is the first whose required fields are there, else the last.

    Raises Invalid, with a JSON pointer to the fault.
    """
    choices = body_types(annotation)
    chosen = next((choice for choice in choices if _fits(raw, choice)), choices[-1])
    try:
        return msgspec.convert(raw, chosen)
    except msgspec.ValidationError as error:
        _refuse_mixed(raw, chosen, choices)
        _refuse(error, "", chosen)
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error


def convert_value(text: str, annotation: Any, name: str) -> Any:
    """A single value from its text, as it stands in a query, a header or a path. Raises Invalid.

    What may be None may be left out; a text never means that, so that `null` is no yes or no.
    """
    try:
        return msgspec.convert(text, _of_text(annotation), strict=False)
    except msgspec.ValidationError as error:
        _refuse(error, name, annotation)


@cache
def _of_text(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    return Union[tuple(choice for choice in get_args(annotation) if choice is not types.NoneType)]  # noqa: UP007


def _require_unique(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        names = Counter(name for name, _ in members)
        reason = f"name `{_cut(names.most_common(1)[0][0])}` stands twice in one object."
        raise InvalidJson(reason=f"the {reason}", details=(Detail("", f"The {reason}"),))


def _fits(raw: object, choice: type[msgspec.Struct]) -> bool:
    required = _required(choice)
    return isinstance(raw, dict) and bool(required) and required <= raw.keys()


def _refuse_mixed(raw: object, chosen: type[msgspec.Struct], choices: tuple[type[msgspec.Struct], ...]) -> None:
    """Raises Invalid where a field is given that belongs to another shape of the body than the one that was chosen."""
    if not _fits(raw, chosen) or not isinstance(raw, dict):
        return
    own, required = _fields(chosen), _required(chosen)
    others = set[str]().union(*map(_fields, choices)).difference(own)
    stray = next((name for name in raw if name in others), None)
    if stray is not None:
        named, rest = _quoted(required), _quoted(own - required)
        beside = f", or with {rest}" if rest else ""
        raise Invalid.at(f"/{stray}", f"`{stray}` does not go with {named}: give {named} alone{beside}.")


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(names))


@cache
def _fields(choice: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(choice))


@cache
def _required(choice: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(choice) if field.required)


def _refuse(error: msgspec.ValidationError, name: str, annotation: Any) -> NoReturn:
    text = str(error)
    at = _AT.search(text)
    pointer = name or _STEP.sub(lambda step: "/" + (step[1] or ""), at[1] if at else "")
    message = _AT.sub("", text)
    if not name and (field := _NAMED_FIELD.fullmatch(message)):
        pointer = f"{pointer}/{_cut(field[1]).replace('~', '~0').replace('/', '~1')}"
    if pattern := _PATTERN.fullmatch(message):
        message = _expectations(annotation).get(pattern[1], "This has a character that is not allowed here.")
    raise Invalid.at(pointer, f"{_cut(message).removesuffix('.')}.") from error


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


def _cut(text: str) -> str:
    """What a client sent is quoted, but not without end."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
