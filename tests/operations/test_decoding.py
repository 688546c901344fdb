"""From text and JSON to typed values; each fault names its place."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, inspect

from mailbox_appliance.errors import Invalid, InvalidJson
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.operations.decoding import (
    LargeText,
    body_types,
    canonical_json,
    convert_body,
    convert_value,
    decode_cursor,
    decode_json,
    encode_cursor,
)
from mailbox_appliance.operations.message_input import SendDraftRequest, SendEmailRequest
from mailbox_appliance.operations.operation import IdempotencyKey
from mailbox_appliance.operations.sessions import SignInRequest
from mailbox_appliance.system.spool import Spool
from mailbox_appliance.web.routes import ROUTES


class Inner(Struct, forbid_unknown_fields=True, rename="camel"):
    some_names: list[Annotated[str, Meta(min_length=2)]] = []
    by_key: dict[str, int] = {}


class Outer(Struct, forbid_unknown_fields=True):
    inner: list[Inner]
    content: bytes = b""
    color: Literal["red", "green"] = "red"
    number: Literal[1, 2] | None = None
    below: "dict[str, Outer]" = {}
    count: Annotated[int, Meta(ge=1, le=9)] = 1


class ByDraft(Struct, forbid_unknown_fields=True):
    draft: str
    when: str = ""


class ByBody(Struct, forbid_unknown_fields=True):
    body: str
    draft: int = 0


class Optional(Struct):
    anything: int = 0


DECODED: tuple[tuple[bytes, object], ...] = (
    (b"{}", {}),
    (b" [1] ", [1]),
    (b"null", None),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    ('"\u2028"'.encode(), "\u2028"),
    (b"-0.5e-3", -0.0005),
    (b"18446744073709551615", 18446744073709551615),
    (b'{"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}]}', {"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}]}),
    (b'{"a": "{\\"b\\": 1, \\"b\\": 2}"}', {"a": '{"b": 1, "b": 2}'}),
    (b'{"%s": 1, "%s": 2}' % (b"a" * 2_000, b"b" * 2_000), {"a" * 2_000: 1, "b" * 2_000: 2}),
    (b"[%s]" % (b"9" * 300), [int("9" * 300)]),
    (b"[" * 500 + b"]" * 500, None),
)


@pytest.mark.parametrize(("text", "value"), DECODED, ids=lambda value: repr(value)[:20])
def test_json_is_decoded(text: bytes, value: object) -> None:
    found = decode_json(text)
    assert found == value if value is not None or text == b"null" else isinstance(found, list)


@pytest.mark.parametrize("text", [b"", b"NaN", b"1e400", b"\xff", b"[" * 10_000, b'"\\udc00"', b"{'a': 1}", b"[1]x"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidJson) as caught:
        decode_json(text)
    assert [detail.path for detail in caught.value.details] == [""]
    assert " - at " not in caught.value.message


TWICE: tuple[tuple[bytes, str], ...] = (
    (b'{"a": 1, "a": 2}', "a"),
    (b'{"a": 1, "\\u0061": 1}', "a"),
    (b'[[{"b": {"gr\xc3\xbcn": 1, "x": 2, "gr\xc3\xbcn": 3}}]]', "gr\u00fcn"),
    (b'{"content": "%s", "to": [], "to": []}' % (b"YQ" * 5_000), "to"),
    (b'{"a": "%s!%s", "b": "%s", "b": 1}' % ((b"YQ" * 5_000,) * 2 + (b"YQ" * 600_000,)), "b"),
    (b'{"%s" \n: 1, "x": {}, "%s": 2}' % ((b"YQ" * 5_000,) * 2), "YQ" * 100 + "..."),
    (b'{"a": "x\\"%s", "c": 1, "c": 2}' % (b"YQ" * 5_000), "c"),
    (b'{"": 1, "": 2}', ""),
    (b'{"%s": 1, "%s": 2}' % (b"a" * 2_000, b"a" * 2_000), "a" * 200 + "..."),
)


@pytest.mark.parametrize(("text", "name"), TWICE, ids=lambda value: repr(value)[:30])
def test_a_name_that_stands_twice_is_refused(text: bytes, name: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        decode_json(text)
    assert [detail.message for detail in caught.value.details] == [f"The name `{name}` appears twice in one object."]


# A body for `Outer`, where its fault lies, and what is told: msgspec's sentence, except for a choice.
FAULTS: tuple[tuple[object, str, str], ...] = (
    (None, "", "Expected `object`, got `null`."),
    ([], "", "Expected `object`, got `array`."),
    ({}, "/inner", "Object missing required field `inner`."),
    ({"inner": {}}, "/inner", "Expected `array`, got `object`."),
    ({"inner": [1]}, "/inner/0", "Expected `object`, got `int`."),
    ({"inner": [{}, {"some_names": []}]}, "/inner/1/some_names", "Object contains unknown field `some_names`."),
    ({"inner": [{}, {"someNames": ["ab", "a"]}]}, "/inner/1/someNames/1", "Expected `str` of length >= 2."),
    ({"inner": [{"byKey": {"a": "x"}}]}, "/inner/0/byKey/...", "Expected `int`, got `str`."),
    ({"inner": [{"a~b/c": 1}]}, "/inner/0/a~0b~1c", "Object contains unknown field `a~b/c`."),
    (
        {"inner": [{"x` - at `$.content`": 1}]},
        "/inner/0/x` - at `$.content`",
        "Object contains unknown field `x` - at `$.content``.",
    ),
    ({"inner": [{"line\nbreak": 1}]}, "/inner/0/line\nbreak", "Object contains unknown field `line\nbreak`."),
    ({"inner": [], "content": "!"}, "/content", "Invalid base64 encoded string."),
    ({"inner": [], "content": "YQ"}, "/content", "Invalid base64 encoded string."),
    ({"inner": [], "color": "blue"}, "/color", "This must be one of `green`, `red`."),
    ({"inner": [], "color": "x" * 6000}, "/color", "This must be one of `green`, `red`."),
    ({"inner": [], "number": 3}, "/number", "This must be one of `1`, `2`."),
    ({"inner": [], "count": 10}, "/count", "Expected `int` <= 9."),
    ({"inner": [], "count": 1.5}, "/count", "Expected `int`, got `float`."),
    ({"inner": [], "below": {"a": {"inner": [], "color": 1}}}, "/below/.../color", "Expected `str`, got `int`."),
    (
        {"inner": [], "below": {"a": {"inner": [], "color": ""}}},
        "/below/.../color",
        "This must be one of `green`, `red`.",
    ),
)


@pytest.mark.parametrize(("body", "place", "told"), FAULTS, ids=lambda value: repr(value)[-30:])
def test_a_fault_names_its_place_and_what_was_expected(body: object, place: str, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        convert_body(body, Outer)
    assert [(detail.path, detail.message) for detail in caught.value.details] == [(place, told)]
    assert caught.value.message == f"The request is not valid: {place}{place and ': '}{told}"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("x", int, "This must be a whole number, written in digits."),
        ("0", Annotated[int, Meta(ge=1)], "Expected `int` >= 1."),
        ("x", bool | None, "Expected `bool`."),
        ("x", Literal["a", "b"], "This must be one of `a`, `b`."),
        ("", Annotated[str, Meta(min_length=1)] | None, "Expected `str` of length >= 1."),
        ("x", float, "Expected `float`."),
    ],
)
def test_of_a_value_on_the_wire_its_own_type_is_not_told(text: str, kind: Any, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        convert_value(text, kind, "name")
    assert [(detail.path, detail.message) for detail in caught.value.details] == [("name", told)]


def test_every_pattern_of_an_operation_says_what_it_expects() -> None:
    bodies = [route.operation.body.type for route in ROUTES if route.operation.body]
    values = [one.type for route in ROUTES for one in route.operation.parameters.values()]
    left, seen = [inspect.type_info(one) for kind in bodies for one in body_types(kind)], set[type]()
    left += [inspect.type_info(kind) for kind in values]
    patterns = 0
    while left:
        kind = left.pop()
        if isinstance(kind, inspect.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            left += [field.type for field in kind.fields]
        elif isinstance(kind, inspect.UnionType):
            left += kind.types
        elif isinstance(kind, inspect.CollectionType):
            left.append(kind.item_type)
        elif isinstance(kind, inspect.Metadata):
            if getattr(kind.type, "pattern", None) is None:
                left.append(kind.type)
                continue
            patterns += 1
            assert kind.extra is not None
            assert kind.extra["expected"].startswith("This ")
        else:
            assert not getattr(kind, "pattern", None)
            assert not isinstance(kind, inspect.DictType | inspect.TupleType)  # whose parts are not visited here
    assert patterns > 10


Even = Annotated[str, Meta(pattern=r"^(\d\d)*$", extra={"expected": "This must be an even number of digits."})]


class Tree(Struct, forbid_unknown_fields=True):
    even: Even | None = None
    by_key: dict[str, tuple[Even, ...]] = {}
    below: list["Tree"] = []


# A body or a value of this type that does not match its pattern, and what is told.
PATTERNS: tuple[tuple[object, Any, str], ...] = (
    ({"even": "1"}, Tree, "This must be an even number of digits."),
    ({"by_key": {"a": ["1"]}}, Tree, "This must be an even number of digits."),
    ({"below": [{"below": [{"even": "1"}]}]}, Tree, "This must be an even number of digits."),
    (
        {"email": "nope", "password": "p", "deviceName": "d"},
        SignInRequest,
        "This is not a valid email address, such as ada@example.org.",
    ),
    (
        {"body": {}, "to": [{"email": "x y"}]},
        SendEmailRequest,
        "This is not a valid email address, such as ada@example.org.",
    ),
    ("a b", IdempotencyKey, "This must be 1 to 255 printable ASCII characters without spaces."),
    ("\u00e4", IdempotencyKey, "This must be 1 to 255 printable ASCII characters without spaces."),
)


@pytest.mark.parametrize(("given", "kind", "told"), PATTERNS)
def test_what_does_not_match_a_pattern_is_told_in_words(given: object, kind: Any, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        convert_value(given, kind, "key") if isinstance(given, str) else convert_body(given, kind)
    assert [detail.message for detail in caught.value.details] == [told]


def test_what_is_quoted_is_short() -> None:
    with pytest.raises(Invalid) as caught:
        convert_body({"inner": [], "x" * 100_000: 1}, Outer)
    assert len(caught.value.message) < 1000


# A body that may be either: which one it is, or where its fault lies.
CHOICES: tuple[tuple[object, type | str], ...] = (
    ({"draft": "d"}, ByDraft),
    ({"body": "b"}, ByBody),
    ({"draft": 7}, "/draft"),
    ({"draft": "d", "body": "b"}, "/body"),
    ({"draft": "d", "when": "w"}, ByDraft),
    ({"draft": "d", "body": "b", "when": "w"}, "/body"),
    ({"draft": "d", "nonsense": 1}, "/nonsense"),
    ({}, "/body"),
    ([], ""),
)


@pytest.mark.parametrize(("body", "expected"), CHOICES)
def test_of_a_choice_the_required_fields_decide(body: object, expected: type | str) -> None:
    if isinstance(expected, type):
        assert type(convert_body(body, ByDraft | ByBody)) is expected
        return
    with pytest.raises(Invalid) as caught:
        convert_body(body, ByDraft | ByBody)
    assert caught.value.details[0].path == expected


def test_what_belongs_to_another_shape_is_told_so() -> None:
    for body, message in (
        ({"draft": "d", "body": "b"}, "`body` cannot be combined with `draft`: give `draft` alone, or with `when`."),
        (
            {"draftId": "d", "subject": "s"},
            "`subject` cannot be combined with `draftId`: give `draftId` alone, or with `sendAt`.",
        ),
        ({"draft": "d", "nonsense": 1}, "Object contains unknown field `nonsense`."),
    ):
        with pytest.raises(Invalid) as caught:
            convert_body(body, ByDraft | ByBody if "draft" in body else SendDraftRequest | SendEmailRequest)
        assert [detail.message for detail in caught.value.details] == [message]


VALUES: tuple[tuple[str, Any, object], ...] = (
    ("7", int, 7),
    ("-7", int, -7),
    ("null", str | None, "null"),
    ("true", str, "true"),
    ("", str, ""),
)


@pytest.mark.parametrize(("text", "kind", "value"), VALUES)
def test_a_single_value_is_read_from_text(text: str, kind: Any, value: object) -> None:
    assert convert_value(text, kind, "name") == value


BAD_NUMBERS = (
    *("", " 7", "7 ", "+7", "07", "-0", "0x7", "1_0", "7.5", "5.0", "5.", "1e1", "1E1", "seven", "true", "null", "7\n"),
    *("\u0667", "\uff15", "9" * 5000),
)


@pytest.mark.parametrize("text", BAD_NUMBERS)
def test_a_bad_number_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        convert_value(text, Annotated[int, Meta(ge=1, le=100)], "limit")
    assert [detail.path for detail in caught.value.details] == ["limit"]
    with pytest.raises(Invalid):
        convert_value(text, Annotated[int, Meta(ge=1, le=100)] | None, "limit")


@pytest.mark.parametrize("kind", [bool | None, int | None, Annotated[bool, Meta(description="d")] | None])
def test_null_is_no_value_on_the_wire(kind: Any) -> None:
    with pytest.raises(Invalid):
        convert_value("null", kind, "unread")


def test_what_may_be_a_body() -> None:
    assert body_types(Outer) == (Outer,)
    assert body_types(ByDraft | ByBody) == (ByDraft, ByBody)
    for other in (int, str | None, Outer | None, list[Outer], Annotated[str, Meta(max_length=1)]):
        assert body_types(other) == ()


# --- Bodies that are too large to hold say the same as small ones ---


FILE = random.Random(7).randbytes(700_001)
TEXT = base64.b64encode(FILE).decode()


Spooled = Callable[[bytes], Content]


@pytest.fixture
def spooled() -> Iterator[Spooled]:
    """Puts a body into an encrypted temporary file."""
    with ExitStack() as stack:

        def put(body: bytes) -> Content:
            spool = stack.enter_context(closing(Spool()))
            spool.append(body)
            return spool.content()

        yield put


def message(**more: Any) -> dict[str, Any]:
    file = {"filename": "a", "mimeType": "application/octet-stream", "content": TEXT}
    return {"body": {"text": "Hello"}, "to": [{"email": "b@example.test"}], "attachments": [file], **more}


def plain(value: Any) -> Any:
    """The value with every text in it."""
    if isinstance(value, LargeText):
        return value.text.read().decode()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


BODIES: dict[str, Any] = {
    "one file": message(),
    "two files": message(attachments=message()["attachments"] * 2),
    "a long text beside": message(subject="A" * 5000),
    "a long text after a quote": message(subject='"' + "A" * 5000),
    "a long text before a quote": message(subject="A" * 5000 + '"x'),
    "a long text with an umlaut": message(subject="A" * 5000 + "ä"),
    "a long text somewhere": message(body={"text": TEXT}),
    "a long name": {**message(), "A" * 5000: 1},
    "a file elsewhere": {"attachments": TEXT, "content": [TEXT]},
    "a short file": message(attachments=[{"filename": "a", "mimeType": "text/plain", "content": "AAAA"}]),
    "a list": [TEXT, {"a": TEXT}],
    "nothing long": {"a": 1},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("pad", [0, 1, 3999, 4000, 4001, 262_143])
def test_a_large_body_says_what_it_says(spooled: Spooled, body: Any, pad: int) -> None:
    text = b" " * pad + json.dumps(body).encode()
    found = decode_json(spooled(text))
    assert plain(found) == body
    assert b"".join(canonical_json(found)) == b"".join(canonical_json(body))


def test_files_stay_where_they_are(spooled: Spooled) -> None:
    found: Any = decode_json(spooled(json.dumps(message()).encode()))
    assert isinstance(found["attachments"][0]["content"], LargeText)
    (file,) = convert_body(found, SendEmailRequest).attachments
    assert len(file.content) == len(FILE)
    assert file.content.read() == FILE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (TEXT[:-1], "Invalid base64 encoded string."),
        (TEXT[:5000] + "=" + TEXT[5001:], "Invalid base64 encoded string."),
        ("!", "Invalid base64 encoded string."),
        (5, "Expected `bytes`, got `int`."),
        (None, "Expected `bytes`, got `null`."),
    ],
)
def test_what_is_no_file_is_refused_with_its_place(spooled: Spooled, content: object, says: str) -> None:
    body = json.dumps(message(attachments=[{"filename": "a", "mimeType": "text/plain", "content": content}])).encode()
    for form in (body, spooled(body)):
        with pytest.raises(Invalid) as raised:
            convert_body(decode_json(form), SendEmailRequest)
        assert [(one.path, one.message) for one in raised.value.details] == [("/attachments/0/content", says)]


@pytest.mark.parametrize("cut", [-1, -2, 1000, 400_000])
def test_broken_json_is_told_as_of_a_small_body(spooled: Spooled, cut: int) -> None:
    text = json.dumps(message()).encode()[:cut]
    said = []
    for form in (text, spooled(text)):
        with pytest.raises(InvalidJson) as raised:
            decode_json(form)
        said.append(raised.value.message)
    assert said[0] == said[1]


def test_a_name_given_twice_is_refused(spooled: Spooled) -> None:
    text = b'{"subject": "a", "subject": "b", "text": "' + TEXT.encode() + b'"}'
    assert len(text) > LARGE // 2
    with pytest.raises(InvalidJson, match="twice"):
        decode_json(spooled(text))


# --- Cursors go there and back, and no other text is one ---


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("position", [0, 1, -1, 10**9 << 4, (1 << 62) - 1, -(1 << 62) + 1])
def test_a_position_comes_back(position: int) -> None:
    cursor = encode_cursor(position)
    assert cursor is not None
    assert cursor.isascii()
    assert decode_cursor(cursor) == position


def test_no_cursor_is_the_beginning_and_no_position_the_end() -> None:
    assert decode_cursor(None) is None
    assert encode_cursor(None) is None


BAD = (
    "",
    "A",
    "====",
    "MTI=x",
    "not a cursor",
    "\u0661",
    encoded(""),
    encoded(" 1"),
    encoded("1."),
    encoded(".1"),
    encoded("1.0.0"),
    encoded("01"),
    encoded("+1"),
    encoded("-0"),
    encoded("1_0"),
    encoded("1.0"),
    encoded("\u0661"),
    encoded(str(1 << 62)),
    encoded("9" * 100),
)


@pytest.mark.parametrize("cursor", BAD)
def test_any_other_text_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode_cursor(cursor)
    assert caught.value.details[0].path == "cursor"


@pytest.mark.parametrize("of", [("acc_1",), ("acc_2", None, "q"), ("acc_1", "\ud800"), ()])
def test_a_cursor_is_taken_by_its_own_list_only(of: tuple[object, ...]) -> None:
    cursor = encode_cursor(7, "acc_1", None, "q")
    assert decode_cursor(cursor, "acc_1", None, "q") == 7
    with pytest.raises(Invalid) as caught:
        decode_cursor(cursor, *of)
    assert caught.value.details[0].path == "cursor"
    with pytest.raises(Invalid):
        decode_cursor(encode_cursor(7, *of), "acc_1", None, "q")
