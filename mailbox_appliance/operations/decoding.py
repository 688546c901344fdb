"""From what a door hands over to typed values; a fault names its place in the request."""

import json
import re
import types
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NoReturn, Union, get_args, get_origin

import msgspec

from mailbox_appliance.errors import Detail, Invalid, InvalidJson
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.decoding import convert, decode_untyped_json
from mailbox_appliance.operations.expectations import in_words, is_whole_number
from mailbox_appliance.operations.large_json import LargeText, decode_large

# Names in messages may be anything a client sent; the place of a fault is ours and has no backtick.
_AT = re.compile(r" - at `(?:key in )?\$?([^`]*)`$")
_STEP = re.compile(r"\.|\[(\d+|\.\.\.)\]")
_NAMED_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
_FILE = re.compile(rb'"[A-Za-z0-9+/=]{4000}')
_NAMES_SOMETHING = re.compile(rb"\s*:")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_PIECE = 1 << 20
_GOT_TEXT = ", got `str`"  # what stands in a query or a path is always a text
_LONGEST_QUOTE = 200


def body_types(annotation: Any) -> tuple[type[msgspec.Struct], ...]:
    """The structs that a body may be: one, or those of a union; nothing where the annotation is no body."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    structs = tuple(choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct))
    return structs if len(structs) == len(choices) else ()


def decode_json(body: bytes | Content) -> object:
    """The value that a JSON text stands for, with `LargeText` where a file is large. Raises InvalidJson.

    RFC 8259, without NaN and lone surrogates; RFC 7493 2.3: of a name that stands twice in an object, one program takes
    the first value and another the last.
    """
    if isinstance(body, Content):
        return decode_large(body, decode_json)
    try:
        found = decode_untyped_json(body)
        # What was found well-formed is read once more for its names; files (base64) have none.
        small = _without_files(body)
        json.loads(small, object_pairs_hook=_require_unique, parse_int=bool, parse_float=bool)
        return found
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error
    except UnicodeDecodeError as error:
        raise InvalidJson(reason="it is not UTF-8.", details=(Detail("", "Not UTF-8."),)) from error
    except msgspec.DecodeError as error:
        reason = f"{_AT.sub('', str(error))}."
        raise InvalidJson(reason=reason, details=(Detail("", reason),)) from error


def _without_files(body: bytes) -> bytes:
    """The JSON text with an empty text in place of each long one that is base64 and no name.

    Never in one step over all of it: others would wait for that.
    """
    kept, start, place = [], 0, 0
    while (found := _FILE.search(body, place)) is not None:
        end = body.find(b'"', found.end())
        place = end if end > 0 else len(body)
        if end > 0 and not _NAMES_SOMETHING.match(body, end + 1) and _is_base64(body, found.end(), end):
            kept.append(body[start : found.start()] + b'""')
            start = place = end + 1
    return b"".join([*kept, body[start:]])


def _is_base64(body: bytes, start: int, end: int) -> bool:
    pieces = range(start, end, _PIECE)
    return not any(body[place : min(place + _PIECE, end)].translate(None, _BASE64) for place in pieces)


def convert_body(raw: object, annotation: Any) -> Any:
    """A decoded body as its struct. Of a choice it is the first whose required fields are there, else the last.

    Raises Invalid, with a JSON pointer to the fault.
    """
    choices = body_types(annotation)
    chosen = next((choice for choice in choices if _fits(raw, choice)), choices[-1])
    try:
        return convert(raw, chosen, custom=_convert_file)
    except msgspec.ValidationError as error:
        _refuse_mixed(raw, chosen, choices)
        _refuse(error, chosen)
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error


def _convert_file(kind: type, value: object) -> object:
    """A file from its base64 text. Raises ValueError with the sentences that msgspec has for `bytes`."""
    if kind is not Content:
        raise NotImplementedError
    if isinstance(value, LargeText):
        try:
            return value.decode()
        except ValueError:
            raise ValueError("Invalid base64 encoded string") from None
    try:
        return Content(convert(value, bytes))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def convert_value(text: str, annotation: Any, name: str) -> Any:
    """A single value from its text, as it stands in a query, a header or a path. Raises Invalid.

    What may be None may be left out; a text never means that, so that `null` is no yes or no. A whole number is written
    in digits: msgspec takes 5.0 and 1e1 as well.
    """
    if is_whole_number(annotation) and not _WHOLE_NUMBER.fullmatch(text):
        raise Invalid.at(name, "This must be a whole number, in digits.")
    try:
        return convert(text, _of_text(annotation), strict=False)
    except msgspec.ValidationError as error:
        sentence = str(error).removesuffix(_GOT_TEXT)
        raise Invalid.at(name, in_words(sentence, annotation)) from error


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


def _refuse(error: msgspec.ValidationError, annotation: Any) -> NoReturn:
    text = str(error)
    at = _AT.search(text)
    pointer = _STEP.sub(lambda step: "/" + (step[1] or ""), at[1] if at else "")
    sentence, steps = _AT.sub("", text), pointer.split("/")[1:]
    if field := _NAMED_FIELD.fullmatch(sentence):
        name = _cut(field[1])
        pointer = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        sentence = sentence.replace(field[1], name)
        told = getattr(annotation, "about_stray", None)
        if len(steps) == 0 and told is not None and (known := told(name)) is not None:
            raise Invalid.at(pointer, known) from error
    raise Invalid.at(pointer, in_words(sentence, annotation, steps)) from error


def _cut(text: str) -> str:
    """What a client sent is quoted, but not without end."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
