"""Decodes JSON, MessagePack and plain objects to typed values. No other module calls msgspec's decoders.

msgspec 0.22 publishes its data about a type (`StructInfo`) before it is complete. A second thread that decodes the same
type at that moment reads a null pointer, and the process dies by SIGSEGV. So each type is completed once, under one
lock, before any thread decodes it. A complete type has complete parts, so later decodes need no lock.
`docs/decisions/001-msgspec-first-use.md` has the evidence, and the condition for removing this.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")
#: Gets the type and the value. A ValueError that it raises becomes a ValidationError with the place.
Custom = Callable[[type, object], object]

_lock = threading.Lock()
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def prepare_types() -> None:
    """Make all structs defined so far safe for decoding in threads. Call it before threads start."""
    for kind in _structs(msgspec.Struct):
        with suppress(TypeError):  # a struct with a union that msgspec cannot decode: nothing decodes it
            _json_decoder(kind)


def decode_json(data: bytes | str, kind: type[Kind]) -> Kind:
    """Decode a JSON text (RFC 8259). Raises msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError."""
    found: Kind = _json_decoder(kind).decode(data)
    return found


def decode_untyped_json(data: bytes | str) -> Any:
    """Decode a JSON text to dicts, lists and scalars. Raises msgspec.DecodeError, UnicodeDecodeError."""
    return _json_decoder(Any).decode(data)


def decode_msgpack(data: bytes, kind: type[Kind]) -> Kind:
    """Decode a MessagePack value. Raises msgspec.DecodeError, msgspec.ValidationError."""
    decoder = _msgpack.get(kind)
    if decoder is None:
        with _lock:
            decoder = _msgpack.setdefault(kind, msgspec.msgpack.Decoder(kind))
    found: Kind = decoder.decode(data)
    return found


def convert(value: object, kind: Any, *, strict: bool = True, custom: Custom | None = None) -> Any:
    """Convert dicts, lists and scalars to a type. Raises msgspec.ValidationError.

    `strict`: if False, numbers and booleans may be text. `custom`: converts to types that msgspec does not know.
    """
    _json_decoder(kind)
    return msgspec.convert(value, kind, strict=strict, dec_hook=custom)


def _json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _json.get(kind)
    if decoder is None:
        with _lock:
            decoder = _json.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder


def _structs(parent: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from _structs(kind)
