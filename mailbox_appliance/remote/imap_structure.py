"""BODYSTRUCTURE (RFC 9051 7.5.2) to a tree of parts under the numbers that FETCH takes (RFC 9051 6.4.5). Pure.

What a server leaves out or writes oddly has a plain value instead: nobody could do anything about it.
"""

from typing import TypedDict

from mailbox_appliance.mail import charsets
from mailbox_appliance.model.records import ListedPart
from mailbox_appliance.remote.imap_lexer import Value, number

MAX_DEPTH = 120  # of parts in parts; what lies deeper is left out

Items = list[Value]


class _Disposition(TypedDict):
    disposition: str | None
    disposition_parameters: dict[str, str]


def listed_part(structure: Items) -> ListedPart:
    """The tree. A multipart at its root has the number ``; one that an attached message N consists of, `N.TEXT`."""
    return _part(structure, "1", "", "", MAX_DEPTH)


def _part(value: Value, single: str, multiple: str, prefix: str, room: int) -> ListedPart:
    """A part: numbered `single`, or, when it is a multipart, `multiple` with children below `prefix`."""
    items = value if isinstance(value, list) else []
    if items and isinstance(items[0], list):
        return _multipart(items, multiple, prefix, room)
    kind = _word(_at(items, 0)) or "application"
    is_message = kind == "message" and isinstance(_at(items, 8), list)
    return ListedPart(
        number=single,
        mime_type=f"{kind}/{_word(_at(items, 1)) or 'octet-stream'}",
        parameters=_parameters(_at(items, 2)),
        encoding=_word(_at(items, 5)) or "7bit",
        octets=_size(_at(items, 6)),
        content_id=_text(_at(items, 3)).strip() or None,
        children=(_attached(items[8], single, room),) if is_message and room else (),
        **_disposition(_at(items, _place(items, kind, is_message))),
    )


def _multipart(items: Items, multiple: str, prefix: str, room: int) -> ListedPart:
    count = next((index for index, item in enumerate(items) if not isinstance(item, list)), len(items))
    numbers = [f"{prefix}.{index}" if prefix else str(index) for index in range(1, count + 1)] if room else []
    children = (_part(item, each, each, each, room - 1) for item, each in zip(items, numbers, strict=False))
    return ListedPart(
        number=multiple,
        mime_type=f"multipart/{_word(_at(items, count)) or 'mixed'}",
        parameters=_parameters(_at(items, count + 1)),
        encoding="7bit",
        octets=0,
        children=tuple(children),
        **_disposition(_at(items, count + 2)),
    )


def _attached(body: Value, message: str, room: int) -> ListedPart:
    return _part(body, f"{message}.1", f"{message}.TEXT", message, room - 1)


def _place(items: Items, kind: str, is_message: bool) -> int:
    """Where the disposition stands: behind what the kind has of its own, and the MD5."""
    if is_message:
        return 11
    # Seen in practice: a text without its number of lines.
    return 9 if kind == "text" and _size(_at(items, 7), -1) >= 0 else 8


def _disposition(value: Value) -> _Disposition:
    items = value if isinstance(value, list) else []
    kind = _word(_at(items, 0)) or None
    return {"disposition": kind, "disposition_parameters": _parameters(_at(items, 1))}


def _parameters(value: Value) -> dict[str, str]:
    items = value if isinstance(value, list) else []
    pairs = zip(items[::2], items[1::2], strict=False)
    return {_word(name): _text(content) for name, content in pairs if _word(name) and isinstance(content, bytes)}


def _at(items: Items, index: int) -> Value:
    return items[index] if index < len(items) else None


def _word(value: Value) -> str:
    return _text(value).strip().lower()


def _text(value: Value) -> str:
    return charsets.decode(value, None)[0] if isinstance(value, bytes) else ""


def _size(value: Value, otherwise: int = 0) -> int:
    try:
        return number(value)
    except ValueError:  # seen in practice: NIL, and -1
        return otherwise
