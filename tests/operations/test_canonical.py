"""Canonical JSON is the same whether it is written at once or in pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailbox_appliance.operations.decoding import canonical_json

LONG = 1_100_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def at_once(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


@given(VALUES)
def test_small_values(value: object) -> None:
    assert b"".join(canonical_json(value)) == at_once(value)


@pytest.mark.parametrize("unit", ["A", 'a"\\\n\x00', "é\u2028", "\U0001f600", "\ud800"], ids=ascii)
def test_long_texts_among_small_ones(unit: str) -> None:
    text = unit * (LONG // len(unit) + 1)
    deep: object = text
    for _ in range(6):
        deep = [deep]
    for value in (text, [text, 1, text], {"b": text, "a": {"z": [text, ""], "c": text + "."}, "é": "x"}, {"x": deep}):
        assert b"".join(canonical_json(value)) == at_once(value)


def test_what_is_nested_deeply() -> None:
    value: object = 1
    for _ in range(900):
        value = [value]
    assert b"".join(canonical_json(value)) == at_once(value)
