"""JSON bodies that are too large to hold: long base64 texts stay where they are, and only the rest is decoded.

A body with files is a small object around long texts. Each long text is replaced by a short one before the JSON is
decoded. Afterwards the contents of attachments become `LargeText`; any other long text is put back as it was.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from mailbox_appliance.errors import InvalidJson
from mailbox_appliance.model.content import Base64Text, Content

_LEAST = 4000
_LONG = re.compile(rb'"[A-Za-z0-9+/=]{%d}' % _LEAST)
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


class LargeText:
    """A long text of the characters of base64, still in the body that it came in."""

    def __init__(self, text: Content) -> None:
        self.text = text

    def decode(self) -> Content:
        """The bytes that it stands for. Raises ValueError where it is not base64."""
        return Base64Text(self.text)


def decode_large(body: Content, decode: Callable[[bytes], Any]) -> Any:
    """The value that a JSON text stands for, with `LargeText` as `content` of attachments.

    `decode` reads the small text that is left. Raises InvalidJson.
    """
    texts: dict[str, LargeText] = {}
    small = b"".join(_Lifting(body, texts).pieces())
    try:
        value = decode(small)
    except InvalidJson:
        return decode(body.read())  # which names the right place
    left = texts.keys() - _put_into_attachments(value, texts)
    return _put_back(value, {mark: texts[mark].text for mark in left}) if left else value


class _Lifting:
    """Reads a body once. `texts` gets what is replaced, by what stands for it."""

    def __init__(self, body: Content, texts: dict[str, LargeText]) -> None:
        self._body, self._texts = body, texts
        self._mark = secrets.token_hex(16)

    def pieces(self) -> Iterator[bytes]:
        """The small text."""
        held, start, place = b"", None, 0  # `start`: of the long text we are in; `place`: of the first byte of `held`
        for piece in self._body.pieces():
            held += piece
            while held:
                if start is None:
                    found = _LONG.search(held)
                    if found is None:
                        kept = min(len(held), _LEAST)
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
    """Put the texts where files are expected; answers which."""
    attachments = value.get("attachments") if isinstance(value, dict) else None
    placed = set[str]()
    for attachment in attachments if isinstance(attachments, list) else ():
        mark = attachment.get("content") if isinstance(attachment, dict) else None
        if isinstance(mark, str) and mark in texts:
            attachment["content"] = texts[mark]
            placed.add(mark)
    return placed


def _put_back(value: Any, texts: dict[str, Content]) -> Any:
    """The value with every other text as it was, wherever it stands."""
    if isinstance(value, str):
        for mark, text in texts.items():
            if mark in value:
                value = value.replace(mark, text.read().decode("ascii"))
        return value
    if isinstance(value, list):
        return [_put_back(one, texts) for one in value]
    if isinstance(value, dict):
        return {_put_back(name, texts): _put_back(one, texts) for name, one in value.items()}
    return value
