"""Converts the values and bodies of requests to typed values. An error names the invalid part of the request.

Also: bodies that are too large for memory, canonical JSON (which distinguishes a retry from another request), and
cursors of lists.
"""

import base64
import binascii
import json
import re
import secrets
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import Parameter as PythonParameter
from typing import Any, NoReturn, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from mailbox_appliance.errors import Detail, Invalid, InvalidJson
from mailbox_appliance.model.content import Base64Text, Content
from mailbox_appliance.model.decoding import convert, decode_untyped_json

# --- Errors about wrong values: msgspec's own sentences, except two that do not say what to do ---


def explain_type_error(sentence: str, annotation: Any, steps: Iterable[str] = ()) -> str:
    """Return an error message from msgspec's own text (`sentence`), with what is expected in place of a pattern or of
    a wrong choice.

    `annotation`: the type of the whole body or value. `steps`: field names and indexes that lead to the invalid part.
    """
    if sentence.startswith("Expected `str` matching regex"):
        kinds = _kinds_at(annotation, steps)
        extras = (kind.extra for kind in kinds if isinstance(kind, inspect.Metadata) and kind.extra)
        return str(next(extras)["expected"])
    if sentence.startswith("Invalid enum value"):
        choices = [f"`{choice}`" for kind in _kinds_at(annotation, steps) for choice in _choices(kind)]
        return f"This must be one of {', '.join(choices)}."
    return f"{sentence}."


@cache
def is_whole_number(annotation: Any) -> bool:
    """Whether a type allows only whole numbers, apart from None."""
    numbers = inspect.IntType | inspect.NoneType | inspect.Metadata
    return all(isinstance(kind, numbers) for kind in _kinds_at(annotation, ()))


def _kinds_at(annotation: Any, steps: Iterable[str]) -> list[inspect.Type]:
    """Return the types that a part of a value may have. `steps`: lead to the part, as for `explain_type_error`."""
    found = list(_flatten_kind(inspect.type_info(annotation)))
    for step in steps:
        found = [inner for kind in found for part in _step_into(kind, step) for inner in _flatten_kind(part)]
    return found


def _flatten_kind(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yield a type and the types in its annotation; of a union, each member."""
    if isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _flatten_kind(choice)
        return
    yield kind
    if isinstance(kind, inspect.Metadata):
        yield from _flatten_kind(kind.type)


def _step_into(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """Yield the types of the values inside a value. `...` is any key."""
    if isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields if field.encode_name == step)
    elif isinstance(kind, inspect.CollectionType):
        yield kind.item_type
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type


def _choices(kind: inspect.Type) -> Iterator[object]:
    if isinstance(kind, inspect.LiteralType):
        yield from kind.values
    elif isinstance(kind, inspect.EnumType):
        yield from (one.value for one in kind.cls)


# --- Parameters: single values of an operation, their names and types, and their place in a REST call ---


#: Parameters that are a header of a REST call.
HEADERS = {"idempotencyKey": "Idempotency-Key", "previewDigest": "If-Match", "lastEventId": "Last-Event-ID"}


@dataclass(frozen=True)
class Parameter:
    """A single value that an operation accepts, outside of a body.

    - wire: Its name in requests.
    - name: Its name in Python.
    - type: Its type.
    - default: Its default, if it is optional.
    """

    wire: str
    name: str
    type: Any
    default: Any = PythonParameter.empty

    @property
    def place(self) -> str:
        """The part of a REST request that contains the value: `header` or `query`. It does not apply to values in the
        path.
        """
        return "header" if self.wire in HEADERS else "query"

    @property
    def pointer(self) -> str:
        """The name of the value in errors, such as `header:Idempotency-Key` or `query:limit`."""
        return value_pointer(self.place, self.wire)

    @property
    def is_required(self) -> bool:
        """Whether a request must contain the value."""
        return self.default is PythonParameter.empty


def wire_name(name: str) -> str:
    """Return the name of a parameter in requests: `idempotency_key` becomes `idempotencyKey`."""
    return msgspec.structs.fields(msgspec.defstruct("Name", [name], rename="camel"))[0].encode_name


def value_pointer(place: str, wire: str) -> str:
    """Return the name of a single value in errors, such as `header:Idempotency-Key` or `query:limit`.

    `place`: `path`, `header` or `query`. `wire`: the name of the value in requests.
    """
    return f"{place}:{HEADERS.get(wire, wire) if place == 'header' else wire}"


# --- JSON bodies too large for memory: long base64 texts stay on disk, and only the rest is decoded ---
#
# A body with files is a small object around long texts. Each long text is replaced by a short one before the JSON is
# decoded. Afterwards the contents of attachments become `LargeText`; every other long text is put back unchanged.


_MIN_LONG = 4000
_LONG_BASE64 = re.compile(rb'"[A-Za-z0-9+/=]{%d}' % _MIN_LONG)
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


class LargeText:
    """A long base64 text that stays in the request body, on disk, until it is needed."""

    def __init__(self, text: Content) -> None:
        self.text = text

    def decode(self) -> Content:
        """Return the decoded bytes, readable piece by piece. Raises ValueError if the text is not base64."""
        return Base64Text(self.text)


def decode_large(body: Content, decode: Callable[[bytes], Any]) -> Any:
    """Decode a large JSON body without holding its files in memory: the `content` of each attachment becomes a
    `LargeText`.

    `decode`: decodes the small JSON text that is left without these files. Raises InvalidJson.
    """
    texts: dict[str, LargeText] = {}
    small = b"".join(_LongTextExtractor(body, texts).pieces())
    try:
        value = decode(small)
    except InvalidJson:
        return decode(body.read())  # which names the right place
    left = texts.keys() - _put_into_attachments(value, texts)
    return _restore_texts(value, {mark: texts[mark].text for mark in left}) if left else value


class _LongTextExtractor:
    """Replaces the long base64 texts in a JSON body by short names while reading it, and adds them to `texts`."""

    def __init__(self, body: Content, texts: dict[str, LargeText]) -> None:
        self._body, self._texts = body, texts
        self._mark = secrets.token_hex(16)

    def pieces(self) -> Iterator[bytes]:
        """Yield the JSON text with short names in place of the long texts."""
        held, start, place = b"", None, 0  # `start`: of the long text being read; `place`: of the first byte of `held`
        for piece in self._body.pieces():
            held += piece
            while held:
                if start is None:
                    found = _LONG_BASE64.search(held)
                    if found is None:
                        kept = min(len(held), _MIN_LONG)
                        yield held[: len(held) - kept]
                        place, held = place + len(held) - kept, held[len(held) - kept :]
                        break
                    start = place + found.start() + 1
                    yield held[: found.start() + 1]
                    place, held = place + found.end(), held[found.end() :]
                    continue
                end = held.find(b'"')
                text = held if end < 0 else held[:end]
                if text.translate(None, _BASE64):  # an ordinary text after all
                    yield self._body.part(start, place).read()
                    start = None
                elif end < 0:
                    place, held = place + len(held), b""
                else:
                    yield self._stand_in(start, place + end)
                    start, place, held = None, place + end, held[end:]
        yield held if start is None else self._body.part(start, len(self._body)).read()

    def _stand_in(self, start: int, end: int) -> bytes:
        mark = f"{self._mark}{len(self._texts):08d}"
        self._texts[mark] = LargeText(self._body.part(start, end))
        return mark.encode()


def _put_into_attachments(value: Any, texts: dict[str, LargeText]) -> set[str]:
    """Replace the short names in attachments by their long texts. Returns the names that were replaced."""
    attachments = value.get("attachments") if isinstance(value, dict) else None
    placed = set[str]()
    for attachment in attachments if isinstance(attachments, list) else ():
        mark = attachment.get("content") if isinstance(attachment, dict) else None
        if isinstance(mark, str) and mark in texts:
            attachment["content"] = texts[mark]
            placed.add(mark)
    return placed


def _restore_texts(value: Any, texts: dict[str, Content]) -> Any:
    if isinstance(value, str):
        for mark, text in texts.items():
            if mark in value:
                value = value.replace(mark, text.read().decode("ascii"))
        return value
    if isinstance(value, list):
        return [_restore_texts(one, texts) for one in value]
    if isinstance(value, dict):
        return {_restore_texts(name, texts): _restore_texts(one, texts) for name, one in value.items()}
    return value


# --- Bodies and single values, decoded to their types ---


# Names in messages may be anything that a client sent; our own pointers contain no backtick.
_AT_PLACE = re.compile(r" - at `(?:key in )?\$?([^`]*)`$")
_STEP = re.compile(r"\.|\[(\d+|\.\.\.)\]")
_NAMED_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(.*)`", re.DOTALL)
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
_LONG_BASE64_TEXT = re.compile(rb'"[A-Za-z0-9+/=]{4000}')
_COLON = re.compile(rb"\s*:")
_BASE64_PIECE = 1 << 20
_GOT_STRING = ", got `str`"  # a value in a query or a path is always a text
_MAX_QUOTE = 200


def body_types(annotation: Any) -> tuple[type[msgspec.Struct], ...]:
    """Return the structs that a body can be: one, or the members of a union. Empty if the type is not a body."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    structs = tuple(choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct))
    return structs if len(structs) == len(choices) else ()


def decode_json(body: bytes | Content) -> object:
    """Decode a JSON text (RFC 8259) to dicts, lists and scalars; large files in it become `LargeText`. Raises
    InvalidJson.

    NaN, halves of surrogate pairs, and objects with a repeated name are refused. RFC 7493 2.3 forbids repeated names,
    since one program would read the first value and another the last.
    """
    if isinstance(body, Content):
        return decode_large(body, decode_json)
    try:
        found = decode_untyped_json(body)
        # Well-formed JSON is read once more to find duplicate names; files (base64) contain none.
        small = _without_files(body)
        json.loads(small, object_pairs_hook=_require_unique, parse_int=bool, parse_float=bool)
        return found
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error
    except UnicodeDecodeError as error:
        raise InvalidJson(reason="it is not UTF-8.", details=(Detail("", "Not UTF-8."),)) from error
    except msgspec.DecodeError as error:
        reason = f"{_AT_PLACE.sub('', str(error))}."
        raise InvalidJson(reason=reason, details=(Detail("", reason),)) from error


def _without_files(body: bytes) -> bytes:
    """Empty each long base64 text, in small parts, since other threads wait during each. Names of fields stay."""
    kept, start, place = [], 0, 0
    while (found := _LONG_BASE64_TEXT.search(body, place)) is not None:
        end = body.find(b'"', found.end())
        place = end if end > 0 else len(body)
        if end > 0 and not _COLON.match(body, end + 1) and _is_base64(body, found.end(), end):
            kept.append(body[start : found.start()] + b'""')
            start = place = end + 1
    return b"".join([*kept, body[start:]])


def _is_base64(body: bytes, start: int, end: int) -> bool:
    pieces = range(start, end, _BASE64_PIECE)
    return not any(body[place : min(place + _BASE64_PIECE, end)].translate(None, _BASE64) for place in pieces)


def convert_body(raw: object, annotation: Any) -> Any:
    """Convert decoded JSON to the struct of a body. Raises Invalid, with a JSON pointer to the invalid part.

    If the body can be one of several structs, the first struct whose required fields are all present is used. If there
    is none, the last struct is used.
    """
    choices = body_types(annotation)
    chosen = next((choice for choice in choices if _fits_choice(raw, choice)), choices[-1])
    try:
        return convert(raw, chosen, custom=_convert_file)
    except msgspec.ValidationError as error:
        _refuse_mixed(raw, chosen, choices)
        _raise_invalid(error, chosen)
    except RecursionError as error:
        raise InvalidJson(reason="it is nested too deeply.", details=(Detail("", "Nested too deeply."),)) from error


def _convert_file(kind: type, value: object) -> object:
    """Return a file from its base64 text. Raises ValueError with the same messages as msgspec for `bytes`."""
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
    """Convert the text of a single value in a query, header or path to its type. Raises Invalid; `name` is the value's
    name.

    `null` is not accepted: an optional value is omitted instead. Whole numbers consist only of digits; msgspec alone
    would accept 5.0 and 1e1.
    """
    if is_whole_number(annotation) and not _WHOLE_NUMBER.fullmatch(text):
        raise Invalid.at(name, "This must be a whole number, written in digits.")
    try:
        return convert(text, _is_text_type(annotation), strict=False)
    except msgspec.ValidationError as error:
        sentence = str(error).removesuffix(_GOT_STRING)
        raise Invalid.at(name, explain_type_error(sentence, annotation)) from error


@cache
def _is_text_type(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    return Union[tuple(choice for choice in get_args(annotation) if choice is not types.NoneType)]  # noqa: UP007


def _require_unique(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        names = Counter(name for name, _ in members)
        reason = f"name `{_shorten_quote(names.most_common(1)[0][0])}` appears twice in one object."
        raise InvalidJson(reason=f"the {reason}", details=(Detail("", f"The {reason}"),))


def _fits_choice(raw: object, choice: type[msgspec.Struct]) -> bool:
    required = _required_fields(choice)
    return isinstance(raw, dict) and bool(required) and required <= raw.keys()


def _refuse_mixed(raw: object, chosen: type[msgspec.Struct], choices: tuple[type[msgspec.Struct], ...]) -> None:
    """Raise Invalid if a field belongs to another possible struct than the chosen one."""
    if not _fits_choice(raw, chosen) or not isinstance(raw, dict):
        return
    own, required = _field_names(chosen), _required_fields(chosen)
    others = set[str]().union(*map(_field_names, choices)).difference(own)
    stray = next((name for name in raw if name in others), None)
    if stray is not None:
        named, rest = _quote_names(required), _quote_names(own - required)
        beside = f", or with {rest}" if rest else ""
        raise Invalid.at(f"/{stray}", f"`{stray}` cannot be combined with {named}: give {named} alone{beside}.")


def _quote_names(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(names))


@cache
def _field_names(choice: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(choice))


@cache
def _required_fields(choice: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(choice) if field.required)


def _raise_invalid(error: msgspec.ValidationError, annotation: Any) -> NoReturn:
    text = str(error)
    at = _AT_PLACE.search(text)
    pointer = _STEP.sub(lambda step: "/" + (step[1] or ""), at[1] if at else "")
    sentence, steps = _AT_PLACE.sub("", text), pointer.split("/")[1:]
    if field := _NAMED_FIELD.fullmatch(sentence):
        name = _shorten_quote(field[1])
        pointer = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        sentence = sentence.replace(field[1], name)
        told = getattr(annotation, "about_stray", None)
        if len(steps) == 0 and told is not None and (known := told(name)) is not None:
            raise Invalid.at(pointer, known) from error
    raise Invalid.at(pointer, explain_type_error(sentence, annotation, steps)) from error


def _shorten_quote(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE else f"{text[:_MAX_QUOTE]}..."


# --- Canonical JSON, which distinguishes a repeated request from another one ---


_LONG_TEXT, _TEXT_PIECE = 1 << 20, 1 << 18  # characters
#: Files are at most this deep in a body (`/attachments/0/content`); deeper values are small, so one step writes them.
_MAX_DEPTH = 4


def canonical_json(value: object) -> Iterator[bytes]:
    """Yield a JSON value in one fixed form: sorted names, no spaces, UTF-8. Equal values give equal bytes.

    Long texts come in several pieces, because other threads must wait while one is processed.
    """
    stand_in, long = secrets.token_hex(16), list[str | LargeText]()
    short = _to_json(_replace_long_texts(value, stand_in, long, _MAX_DEPTH)).split(f'"{stand_in}"')
    for text, following in zip(short, [*long, None], strict=True):
        yield _encode(text)
        if following is not None:
            yield b'"'
            yield from following.text.pieces() if isinstance(following, LargeText) else _encode_pieces(following)
            yield b'"'


def _encode_pieces(text: str) -> Iterator[bytes]:
    return (_encode(_to_json(text[at : at + _TEXT_PIECE])[1:-1]) for at in range(0, len(text), _TEXT_PIECE))


def _replace_long_texts(value: object, stand_in: str, long: list[str | LargeText], depth: int) -> object:
    """Replace long texts by `stand_in`, down to `depth` levels, and append them to `long` in the order of output."""
    if isinstance(value, LargeText) or (isinstance(value, str) and len(value) > _LONG_TEXT):
        long.append(value)
        return stand_in
    if depth and isinstance(value, dict):
        return {name: _replace_long_texts(value[name], stand_in, long, depth - 1) for name in sorted(value)}
    if depth and isinstance(value, list):
        return [_replace_long_texts(one, stand_in, long, depth - 1) for one in value]
    return value


def _to_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- Cursors: the position where a list continues, as an opaque text that only this list accepts ---


_INVALID_CURSOR = "Invalid cursor. Pass `nextCursor` from the previous page unchanged."
_FOREIGN_CURSOR = "This cursor belongs to another list. Pass `nextCursor` of the same list, with unchanged filters."


def encode_cursor(position: int | None, *of: object) -> str | None:
    """Return the cursor for a position in a list; None for None, at the end of the list.

    `of`: values that identify the list, such as a mailbox and its filter.
    """
    if position is None:
        return None
    return base64.urlsafe_b64encode(f"{position}{_list_checksum(of)}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *of: object) -> int | None:
    """Return the position in a cursor; None for None. Raises Invalid if it is malformed or belongs to another list.

    `of`: values that identify the list, as given to `encode_cursor`.
    """
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        number, dot, mark = text.partition(".")
        position = int(number)
    except (binascii.Error, ValueError) as error:
        raise Invalid.at("cursor", _INVALID_CURSOR) from error
    if str(position) != number or abs(position) >= 1 << 62:
        raise Invalid.at("cursor", _INVALID_CURSOR)
    if dot + mark != _list_checksum(of):
        raise Invalid.at("cursor", _FOREIGN_CURSOR)
    return position


def _list_checksum(of: tuple[object, ...]) -> str:
    """Detects a cursor of another list. It protects nothing: access is checked again for every page."""
    return f".{zlib.crc32(repr(of).encode('utf-8', 'surrogatepass')):x}" if of else ""
