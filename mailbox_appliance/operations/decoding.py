"""From what a door hands over to typed values; a fault names its place in the request."""

import re
import types
from collections.abc import Iterator
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
_LONGEST_QUOTE = 200


def body_types(annotation: Any) -> tuple[type[msgspec.Struct], ...]:
    """The structs that a body may be: one, or those of a union; nothing where the annotation is no body."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    structs = tuple(choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct))
    return structs if len(structs) == len(choices) else ()


def decode_json(body: bytes) -> object:
    """The value that a JSON text stands for (RFC 8259: no NaN, no lone surrogates). Raises InvalidJson."""
    try:
        return msgspec.json.decode(body)
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
        _refuse(error, "", chosen)
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error


def convert_value(text: str, annotation: Any, name: str) -> Any:
    """A single value from its text, as it stands in a query, a header or a path. Raises Invalid."""
    try:
        return msgspec.convert(text, annotation, strict=False)
    except msgspec.ValidationError as error:
        _refuse(error, name, annotation)


def _fits(raw: object, choice: type[msgspec.Struct]) -> bool:
    required = _required(choice)
    return isinstance(raw, dict) and bool(required) and required <= raw.keys()


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
