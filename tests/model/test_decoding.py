"""Every decode goes through one module, which completes a type before threads share it."""

import ast
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import msgspec
import pytest

import mailbox_appliance
from mailbox_appliance.model import decoding
from mailbox_appliance.model.decoding import convert, decode_json, decode_msgpack, decode_untyped_json, prepare_types

ROOT = Path(mailbox_appliance.__file__).parent
FORMATS = {"json", "msgpack", "toml", "yaml"}
SHARED = {"decode", "Decoder", "decode_lines"}
Item = TypeVar("Item")


class Part(msgspec.Struct):
    size: int


class Page(msgspec.Struct, Generic[Item]):
    items: list[Item]


class Facts(TypedDict):
    part: Part


class Pair(NamedTuple):
    left: Part
    right: Part | None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Part, {"size": 1}),
        (Page[Part], {"items": [{"size": 1}]}),
        (Facts, {"part": {"size": 1}}),
        (Pair, [{"size": 1}, None]),
        (tuple[Part, ...], [{"size": 1}]),
    ],
)
def test_decodes_every_kind_of_type(kind: Any, value: object) -> None:
    expected = msgspec.convert(value, kind)
    assert convert(value, kind) == expected
    assert decode_json(msgspec.json.encode(value), kind) == expected
    assert decode_msgpack(msgspec.msgpack.encode(value), kind) == expected
    assert decode_untyped_json(msgspec.json.encode(value)) == value


def test_text_converts_only_where_it_may() -> None:
    assert convert("5", int, strict=False) == 5
    with pytest.raises(msgspec.ValidationError):
        convert("5", int)


def test_preparing_completes_every_struct() -> None:
    class Late(msgspec.Struct):
        part: Part

    prepare_types()
    assert {Late, Part} <= decoding._json.keys()


FRESH = """
from __future__ import annotations
import dataclasses
from typing import Annotated, Generic, NamedTuple, TypedDict, TypeVar
import msgspec
from msgspec import Meta
Item = TypeVar("Item")
class Inner(msgspec.Struct):
    a: Annotated[str, Meta(max_length=10)] | None = None
    b: list[dict[str, int]] = []
class Struct(msgspec.Struct):
    f0: Annotated[Inner | None, Meta(description="x")] | None = None
    f1: Annotated[Inner | None, Meta(description="x")] | None = None
    f2: Annotated[Inner | None, Meta(description="x")] | None = None
class Generic_(msgspec.Struct, Generic[Item]):
    f0: list[Item] | Item | None = None
    f1: Annotated[Inner | None, Meta(description="x")] | None = None
class Typed(TypedDict, total=False):
    f0: Inner
    f1: Inner | None
@dataclasses.dataclass
class Data:
    f0: Inner | None = None
    f1: Inner | None = None
class Named(NamedTuple):
    f0: Inner | None = None
    f1: Inner | None = None
kinds = {"struct": Struct, "generic": Generic_[Inner], "typed": Typed, "dataclass": Data}
"""
INNER = {"a": "x", "b": [{"y": 1}]}


def _decode_fresh_types() -> None:
    """What a forked child does: eight threads decode types that nobody has decoded before, each at the same moment."""
    sys.setswitchinterval(2e-5)
    failures: list[BaseException] = []
    for number in range(30):
        module = sys.modules[f"fresh{number}"] = type(sys)(f"fresh{number}")
        exec(FRESH, module.__dict__)
        gate = threading.Barrier(8)

        def use(module: Any = module, gate: threading.Barrier = gate) -> None:
            try:
                for name, kind in module.kinds.items():
                    gate.wait()
                    convert({"f0": INNER, "f1": INNER}, kind)
                    convert([INNER, INNER], module.Named)
                    assert name
            except BaseException as error:  # noqa: BLE001 - told below
                failures.append(error)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os._exit(1 if failures else 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_threads_may_decode_fresh_types_at_once() -> None:
    child = os.fork()
    if child == 0:
        _decode_fresh_types()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_other_module_calls_a_decoder() -> None:
    calls = [call for file in sorted(ROOT.rglob("*.py")) if file.name != "decoding.py" for call in _calls(file)]
    calls += list(_calls(ROOT / "operations" / "decoding.py"))
    assert calls == []


def _calls(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        where = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "msgspec":
            taken = {name.name for name in node.names}
            if taken & {"convert", *FORMATS} or (node.module != "msgspec" and taken & SHARED):
                yield f"{where} imports {sorted(taken)}"
        elif isinstance(node, ast.Attribute) and _is_decoder(node):
            yield f"{where} uses {ast.unparse(node)}"


def _is_decoder(node: ast.Attribute) -> bool:
    name = ast.unparse(node)
    of_format = node.attr in SHARED and name.removesuffix(f".{node.attr}").removeprefix("msgspec.") in FORMATS
    return name == "msgspec.convert" or (name.startswith("msgspec.") and of_format)
