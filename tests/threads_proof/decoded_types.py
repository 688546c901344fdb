"""msgspec: types that were never used before, used for the first time by many threads at once.

msgspec publishes its notes on a type before they are complete, and another thread that finds them reads a null pointer
(SIGSEGV). The appliance therefore decodes through `mailbox_appliance.model.decoding`.
"""

import importlib
import itertools
import random
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from tests.threads_proof.together import run_together

_THREADS, _TYPES = 8, 8
_number = itertools.count()
_SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated, Generic, NamedTuple, TypedDict, TypeVar
from msgspec import Meta, Struct
T = TypeVar("T")
class Inner(Struct, rename="camel", forbid_unknown_fields=True):
    first_name: Annotated[str, Meta(max_length=10)] | None = None
    others: list[dict[str, int]] = []
class Page(Struct, Generic[T]):
    items: tuple[T, ...]
    next_cursor: str | None = None
class Pair(NamedTuple):
    inner: Inner
    page: Page[Inner]
class Loose(TypedDict):
    inner: Inner
    pair: Pair
@dataclass
class Plain:
    inner: Annotated[Inner | None, Meta(description="x")]
    loose: Loose
class Cat(Struct, tag="cat"):
    inner: Inner
class Dog(Struct, tag="dog"):
    plain: Plain
class Body(Struct):
    a: Inner
    b: Page[Page[Inner]]
    c: Pair
    d: Loose
    e: Plain
    f: Cat | Dog
    g: Body | None = None
"""
_INNER = {"firstName": "Ada", "others": [{"x": 1}]}
_PAGE = {"items": [_INNER]}
_LOOSE = {"inner": _INNER, "pair": [_INNER, _PAGE]}
_PLAIN = {"inner": _INNER, "loose": _LOOSE}
_BODY: dict[str, Any] = {"a": _INNER, "b": {"items": [_PAGE]}, "c": [_INNER, _PAGE], "d": _LOOSE, "e": _PLAIN}
_BODY["f"] = {"type": "dog", "plain": _PLAIN}
_BODY["g"] = {**_BODY, "f": {"type": "cat", "inner": _INNER}}
_VALUES: dict[str, Any] = {
    "Body": _BODY, "Plain": _PLAIN, "Loose": _LOOSE, "Pair": [_INNER, _PAGE], "Page[Inner]": _PAGE, "Inner": _INNER,
    "list[Body]": [_BODY], "dict[str, Page[Pair]]": {"x": {"items": [[_INNER, _PAGE]]}},
}  # fmt: skip


@dataclass(frozen=True)
class Decoding:
    """The three functions by which the appliance decodes."""

    convert: Callable[[Any, Any], Any]
    decode_json: Callable[[bytes, Any], Any]
    decode_msgpack: Callable[[bytes, Any], Any]

    @classmethod
    def of_appliance(cls) -> "Decoding":
        """Those of `mailbox_appliance.model.decoding`; a stand-in if this version has none."""
        try:
            module = importlib.import_module("mailbox_appliance.model.decoding")
        except ImportError:
            locked = _Locked()
            return cls(locked.convert, locked.decode_json, locked.decode_msgpack)
        return cls(module.convert, module.decode_json, module.decode_msgpack)

    @classmethod
    def unprotected(cls) -> "Decoding":
        """Those of msgspec, which crash here."""
        return cls(
            msgspec.convert,
            lambda data, kind: msgspec.json.decode(data, type=kind),
            lambda data, kind: msgspec.msgpack.decode(data, type=kind),
        )


@dataclass
class _Locked:
    """Makes a decoder under one lock at the first use of a type."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    decoders: dict[Any, msgspec.json.Decoder[Any]] = field(default_factory=dict)

    def convert(self, value: Any, kind: Any) -> Any:
        self._decoder(kind)
        return msgspec.convert(value, kind)

    def decode_json(self, data: bytes, kind: Any) -> Any:
        return self._decoder(kind).decode(data)

    def decode_msgpack(self, data: bytes, kind: Any) -> Any:
        self._decoder(kind)
        return msgspec.msgpack.decode(data, type=kind)

    def _decoder(self, kind: Any) -> msgspec.json.Decoder[Any]:
        with self.lock:
            if kind not in self.decoders:
                self.decoders[kind] = msgspec.json.Decoder(kind)
            return self.decoders[kind]


def stress(chance: random.Random, decoding: Decoding) -> None:
    """One round: `_TYPES` modules of fresh types, each read by all threads in an order of its own."""
    for _ in range(_TYPES):
        module = types.ModuleType(f"fresh_{next(_number)}")
        sys.modules[module.__name__] = module
        try:
            exec(_SOURCE, module.__dict__)
            orders = [chance.sample(sorted(_VALUES), len(_VALUES)) for _ in range(_THREADS)]
            run_together(*(partial(_read, module, order, decoding, seed) for seed, order in enumerate(orders)))
        finally:
            del sys.modules[module.__name__]


def _read(module: types.ModuleType, order: list[str], decoding: Decoding, seed: int) -> None:
    for position, name in enumerate(order):
        kind, value = eval(name, module.__dict__), _VALUES[name]
        how = (seed + position) % 3
        if how == 0:
            found = decoding.convert(value, kind)
        elif how == 1:
            found = decoding.decode_json(msgspec.json.encode(value), kind)
        else:
            found = decoding.decode_msgpack(msgspec.msgpack.encode(value), kind)
        again = msgspec.to_builtins(found)
        assert _without_nothing(again) == _without_nothing(value), f"{name} was read as {again}"


def _without_nothing(value: Any) -> Any:
    """Builtins to compare: pairs as lists, no nulls."""
    if isinstance(value, dict):
        return {key: _without_nothing(each) for key, each in value.items() if each is not None}
    return [_without_nothing(each) for each in value] if isinstance(value, list | tuple) else value
