"""What people are told who sent a wrong value: sentences of ours, for every field and parameter that there is."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, inspect

from mailbox_appliance.errors import Invalid
from mailbox_appliance.operations.decoding import body_types, convert_body, convert_value, explain_type_error
from mailbox_appliance.web.routes import ROUTES, Route

#: How msgspec speaks: names of types in backticks, comparisons, and its own beginnings of sentences.
FOREIGN = re.compile(r"`(str|int|array|object|null|float|bool|bytes)\b|^(Expected|Invalid|Object)\b|[<>]=|regex|got `")
#: Values of each JSON type, and some that no field takes.
WRONG: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    2**70,
    1.5,
    "",
    "nonsense",
    "x" * 6_000,
    "\u00e4 b",
    [],
    [7],
    [{}],
    {},
    {"nonsense": 1},
)
TEXTS = ("", "7", "7.0", "-1", "9" * 30, "nonsense", "x" * 6_000, "\u00e4 b", "null")


def fitting(kind: inspect.Type) -> Any:
    """A value of this kind."""
    match kind:
        case inspect.Metadata():
            return fitting(kind.type)
        case inspect.StructType():
            return {field.encode_name: fitting(field.type) for field in kind.fields if field.required}
        case inspect.UnionType():
            return fitting(kind.types[0])
        case inspect.StrType():
            return "ada@example.org" if kind.pattern else "x" * (kind.min_length or 1)
        case inspect.VarTupleType():
            return [fitting(kind.item_type)] * (kind.min_length or 0)
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.EnumType():
            return next(iter(kind.cls)).value
    return {inspect.IntType: 1, inspect.BoolType: True, inspect.BytesType: "YQ=="}.get(type(kind))


def wrong(kind: inspect.Type) -> Iterator[Any]:
    """Values that are mostly none of this kind: wrong as a whole, or in one of their parts."""
    if isinstance(kind, inspect.Metadata):
        yield from wrong(kind.type)
        return
    yield from WRONG
    if isinstance(kind, inspect.StructType):
        whole = fitting(kind)
        for field in kind.fields:
            yield {name: value for name, value in whole.items() if name != field.encode_name}
            yield from ({**whole, field.encode_name: value} for value in wrong(field.type))
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from wrong(choice)
    elif isinstance(kind, inspect.CollectionType):
        yield from ([value] for value in wrong(kind.item_type))
        yield [fitting(kind.item_type)] * ((kind.max_length or 0) + 1)


def told(route: Route) -> set[str]:
    """All that is said to wrong values of the body and the parameters of a route."""
    found, body = set(), route.operation.body
    for choice in body_types(body.type) if body else ():
        for value in wrong(inspect.type_info(choice)):
            try:
                convert_body(value, body.type if body else None)
            except Invalid as problem:
                found |= {problem.message, *(detail.message for detail in problem.details)}
    for wire, parameter in route.operation.parameters.items():
        for text in TEXTS:
            try:
                convert_value(text, parameter.type, wire)
            except Invalid as problem:
                found |= {problem.message, *(detail.message for detail in problem.details)}
    return found


def test_no_operation_speaks_to_programmers() -> None:
    sentences = set().union(*map(told, ROUTES))
    assert not {sentence for sentence in sentences if FOREIGN.search(sentence)}
    assert not {sentence for sentence in sentences if sentence.startswith("This is not a valid value")}
    assert len(sentences) > 100


class Inner(Struct, forbid_unknown_fields=True):
    color: Literal["red", "green"] = "red"
    number: Literal[1, 2] = 1


class Everything(Struct, forbid_unknown_fields=True, rename="camel"):
    text: Annotated[str, Meta(min_length=2, max_length=3)] = "ab"
    name: Annotated[str, Meta(min_length=1, max_length=1)] = "a"
    count: Annotated[int, Meta(ge=1, le=9)] = 1
    even: Annotated[int, Meta(multiple_of=2)] = 2
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    many: Annotated[list[Inner], Meta(min_length=1, max_length=2)] = []
    by_name: Annotated[dict[str, Inner], Meta(max_length=1)] = {}
    pair: tuple[int, int] = (1, 2)
    data: Annotated[bytes, Meta(max_length=1)] = b""
    either: str | int | None = None
    choice: Inner | None = None
    moment: Any = None


# A body for `Everything`, where its fault lies, and what is told.
SENTENCES: tuple[tuple[object, str, str], ...] = (
    ([], "", "This must be an object, not a list."),
    ({"other": 1}, "/other", "Unknown field `other`."),
    ({"text": "a"}, "/text", "This must be at least 2 characters."),
    ({"text": "abcd"}, "/text", "This must be at most 3 characters."),
    ({"text": 7}, "/text", "This must be a text, not a number."),
    ({"name": ""}, "/name", "This must not be empty."),
    ({"name": "ab"}, "/name", "This must be at most 1 character."),
    ({"count": 0}, "/count", "This must be at least 1."),
    ({"count": 10}, "/count", "This must be at most 9."),
    ({"count": 1.5}, "/count", "This must be a whole number, not a number with a fraction."),
    ({"count": True}, "/count", "This must be a whole number, not true or false."),
    ({"even": 3}, "/even", "This must be a multiple of 2."),
    ({"share": 0.0}, "/share", "This must be more than 0.0."),
    ({"share": 1.0}, "/share", "This must be less than 1.0."),
    ({"share": "1"}, "/share", "This must be a number, not a text."),
    ({"many": []}, "/many", "This must not be empty."),
    ({"many": [{}, {}, {}]}, "/many", "This must have at most 2 entries."),
    ({"many": None}, "/many", "This must be a list, not null."),
    ({"many": [{"color": "blue"}]}, "/many/0/color", "This must be one of `green`, `red`."),
    ({"many": [{"number": 3}]}, "/many/0/number", "This must be one of `1`, `2`."),
    ({"byName": {"a": {"color": "blue"}}}, "/byName/.../color", "This must be one of `green`, `red`."),
    ({"byName": {"a": {}, "b": {}}}, "/byName", "This must have at most 1 entry."),
    ({"pair": [1]}, "/pair", "This must have 2 entries."),
    ({"data": "YWE="}, "/data", "This must have at most 1 byte."),
    ({"data": "!"}, "/data", "This must be base64 text (RFC 4648 4) with padding."),
    ({"either": []}, "/either", "This must be a whole number or a text or null, not a list."),
    ({"choice": {"color": "x"}}, "/choice/color", "This must be one of `green`, `red`."),
    ({"choice": 1.5}, "/choice", "This must be an object or null, not a number."),
)


@pytest.mark.parametrize(("body", "place", "sentence"), SENTENCES, ids=lambda value: repr(value)[:30])
def test_what_is_wrong_is_told_in_words(body: object, place: str, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        convert_body(body, Everything)
    assert [(detail.path, detail.message) for detail in caught.value.details] == [(place, sentence)]


def test_a_value_on_the_wire_is_told_without_what_it_is() -> None:
    for text, kind, sentence in (
        ("x", int, "This must be a whole number, written in digits."),
        ("x", bool | None, "This must be true or false."),
        ("x", Literal["a", "b"], "This must be one of `a`, `b`."),
        ("", Annotated[str, Meta(min_length=1)] | None, "This must not be empty."),
        ("x", float, "This must be a number."),
    ):
        with pytest.raises(Invalid) as caught:
            convert_value(text, kind, "name")
        assert [(detail.path, detail.message) for detail in caught.value.details] == [("name", sentence)]


#: Sentences of msgspec that no type here draws, among them such as no release has: nothing of them is passed on.
OTHERS = (
    "Expected `array` of at least length 2, got 1",
    "Expected `array` of at most length 2, got 3",
    "Expected `array` of length 1 to 2, got 3",
    "Expected `bytes` of length >= 2",
    "Expected `object` of length >= 2",
    "Expected `float` that's a multiple of 0.5",
    "Expected `datetime` with a timezone component",
    "Expected `uuid`, got `int`",
    "Expected `datetime | null`, got `int`",
    "Invalid UUID",
    "Invalid value 7",
    "Invalid RFC3339 encoded datetime",
    "Integer value out of range",
    "Something `str` new",
)


@pytest.mark.parametrize("sentence", OTHERS)
def test_nothing_else_of_msgspec_is_passed_on(sentence: str) -> None:
    words = explain_type_error(sentence, Everything, ["moment"])
    assert words.startswith("This ")
    assert words.endswith(".")
    assert not FOREIGN.search(words)
