"""A message before the SDK sees it: what is none is refused in words of ours, whatever carries it (JSON-RPC 2.0)."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from mailbox_appliance.model.decoding import decode_json

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

UNREADABLE = (
    "This is no JSON (RFC 8259) in UTF-8, is nested too deeply, or half of a surrogate pair stands alone in it (8.2)."
)
NO_MESSAGE = "This is no JSON-RPC 2.0 message"
_BATCH = "Messages come one at a time here; batches are not taken."
_NO_OBJECT = f"{NO_MESSAGE}: it must be an object."
_WRONG_RPC = f'{NO_MESSAGE}: `jsonrpc` must be "2.0".'
_WRONG_ID = f"{NO_MESSAGE}: `id` must be a string or a whole number of 64 bits."
_WRONG_METHOD = f"{NO_MESSAGE}: `method` must be a string."
_UNASKED = "Nothing is asked of you here, so there is nothing to answer."
_WRONG_PARAMS = "`params` must be an object."
_NO_METHOD = "There is no such method; its name is longer than any."
_LONGEST_METHOD = _LONGEST_ID = 200  # characters
_HIGHEST_ID = 2**63


class Refused(Exception):
    """A message that is answered with an error at once. `id`: of the request, None where it has no good one."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None, data: Any = None) -> None:
        self.code, self.message, self.request_id, self.data = code, message, request_id, data
        super().__init__(message)

    def to_json(self) -> bytes:
        """The error as a message."""
        error = {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})
        return msgspec.json.encode({"jsonrpc": "2.0", "id": self.request_id, "error": error})


class Message(msgspec.Struct, frozen=True):
    """The outside of a message; `params` as they were written, not read."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    result: Raw = Raw()
    error: Raw = Raw()
    params: Raw = Raw()

    @property
    def short_id(self) -> str | int | None:
        """The id as it is echoed by an error; None where it is none, or would fill the answer."""
        is_good = _is_id(self.id) and (isinstance(self.id, int) or len(self.id) <= _LONGEST_ID)
        return self.id if is_good else None


def read(body: bytes) -> Message:
    """The outside of a request or notification. Raises Refused for anything else."""
    message = _decoded(body)
    fault = _fault(message)
    if fault is not None:
        raise Refused(INVALID_REQUEST, fault, message.short_id)
    if bytes(memoryview(message.params)[:1]) not in (b"", b"{", b"n"):  # n: null
        raise Refused(INVALID_PARAMS, _WRONG_PARAMS, message.short_id)
    if message.id is not UNSET and len(message.method) > _LONGEST_METHOD:  # what is not found is echoed by the SDK
        raise Refused(METHOD_NOT_FOUND, _NO_METHOD, message.short_id)
    return message


def _decoded(body: bytes) -> Message:
    try:
        return decode_json(body, Message)
    except msgspec.ValidationError:
        raise Refused(INVALID_REQUEST, _BATCH if body.lstrip()[:1] == b"[" else _NO_OBJECT) from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise Refused(PARSE_ERROR, UNREADABLE) from None


def _fault(message: Message) -> str | None:
    if message.jsonrpc != "2.0":
        return _WRONG_RPC
    if message.id is not UNSET and not _is_id(message.id):
        return _WRONG_ID
    if message.method is UNSET and (len(memoryview(message.result)) or len(memoryview(message.error))):
        return _UNASKED
    return None if isinstance(message.method, str) else _WRONG_METHOD


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and -_HIGHEST_ID <= value < _HIGHEST_ID)
