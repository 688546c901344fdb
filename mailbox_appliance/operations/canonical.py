"""Canonical JSON, by which a repeated request is told from another one."""

import json
import secrets
from collections.abc import Iterator

from mailbox_appliance.operations.large_json import LargeText

_LONG, _PIECE = 1 << 20, 1 << 18  # characters
#: Files lie no deeper in a body (`/attachments/0/content`); what is deeper is small, or is written in one step.
_DEEPEST = 4


def canonical(value: object) -> Iterator[bytes]:
    """A JSON value with sorted names and no spaces, in UTF-8.

    In pieces, also of a single text that is long: what is done with all of it in one step, others wait for.
    """
    stand_in, long = secrets.token_hex(16), list[str | LargeText]()
    short = _write(_shortened(value, stand_in, long, _DEEPEST)).split(f'"{stand_in}"')
    for text, following in zip(short, [*long, None], strict=True):
        yield _encode(text)
        if following is not None:
            yield b'"'
            yield from following.text.pieces() if isinstance(following, LargeText) else _pieces(following)
            yield b'"'


def _pieces(text: str) -> Iterator[bytes]:
    return (_encode(_write(text[at : at + _PIECE])[1:-1]) for at in range(0, len(text), _PIECE))


def _shortened(value: object, stand_in: str, long: list[str | LargeText], depth: int) -> object:
    """The value with another text in place of each long one; these are added to `long`, as they will be written."""
    if isinstance(value, LargeText) or (isinstance(value, str) and len(value) > _LONG):
        long.append(value)
        return stand_in
    if depth and isinstance(value, dict):
        return {name: _shortened(value[name], stand_in, long, depth - 1) for name in sorted(value)}
    if depth and isinstance(value, list):
        return [_shortened(one, stand_in, long, depth - 1) for one in value]
    return value


def _write(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
