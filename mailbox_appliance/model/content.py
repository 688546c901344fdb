"""Bytes that may be too many to hold in memory: a message, a file, the body of a request.

Users of a `Content` iterate over its pieces, once or several times. Only `read` returns all bytes at once.
"""

import binascii
import struct
from collections.abc import Iterator, Sequence

#: Bytes of one piece: small enough that processing it does not delay other threads, large enough to be fast.
PIECE = 256 << 10
#: Bytes above which content goes through an encrypted temporary file and through the store in chunks.
LARGE = 1 << 20
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LINE = 76  # RFC 2045 6.8
_RAW_LINE = _LINE // 4 * 3
_LINES = 2048  # of one piece
_SPLIT = struct.Struct(f"{_LINE}s" * _LINES)


class Content:
    """A sequence of bytes made of parts, each in memory or read from disk when needed."""

    def __init__(self, *parts: "bytes | Content") -> None:
        self._parts: Sequence[bytes | Content] = _merge_small_parts(parts)
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self._size

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes in order, at most PIECE of them at a time."""
        for part in self._parts:
            if isinstance(part, Content):
                yield from part.pieces()
            else:
                yield from (part[start : start + PIECE] for start in range(0, len(part), PIECE))

    def read(self) -> bytes:
        """Return all bytes at once."""
        if len(self._parts) == 1 and isinstance(self._parts[0], bytes):
            return self._parts[0]
        return b"".join(self.pieces())

    def isascii(self) -> bool:
        """Whether every byte is ASCII."""
        return all(piece.isascii() for piece in self.pieces())

    def part(self, start: int, end: int) -> "Content":
        """Return the bytes from `start` up to, but not including, `end`, without reading them."""
        return _ContentRange(self, start, end)

    def split_header(self) -> "tuple[bytes, Content]":
        """Split a raw message. Returns the header, with the CRLF of its last line, and the rest from the empty line on.

        If there is no empty line, everything is header.
        """
        head = b""
        for piece in self.pieces():
            start = max(0, len(head) - 3)
            head += piece
            end = head.find(b"\r\n\r\n", start)
            if end >= 0:
                return head[: end + 2], self.part(end + 2, len(self))
        return head, Content()


def _merge_small_parts(parts: "Sequence[bytes | Content]") -> "list[bytes | Content]":
    """Return the parts with small neighbors joined, so that a small message is a single part."""
    flat: list[bytes | Content] = []
    for part in parts:
        inner = part._parts if type(part) is Content else (part,)
        for one in inner:
            last = flat[-1] if flat else None
            if isinstance(one, bytes) and isinstance(last, bytes) and len(one) + len(last) <= LARGE:
                flat[-1] = last + one
            else:
                flat.append(one)
    return flat


class _ContentRange(Content):
    def __init__(self, content: Content, start: int, end: int) -> None:
        super().__init__()
        self._content, self._start, self._end = content, start, end
        self._size = end - start

    def pieces(self) -> Iterator[bytes]:
        place = 0
        for piece in self._content.pieces():
            if place >= self._end:
                return
            if wanted := piece[max(0, self._start - place) : self._end - place]:
                yield wanted
            place += len(piece)


class Base64Text(Content):
    """The decoded bytes of a base64 text (RFC 4648 4), decoded piece by piece as they are read.

    Raises ValueError if the text is not base64 with padding and without line breaks.
    """

    def __init__(self, text: Content) -> None:
        super().__init__()
        self._text = text
        padding, previous = 0, b""
        for piece in text.pieces():
            if padding and piece.strip(b"="):
                raise ValueError("padding in the middle")
            bare = piece.rstrip(b"=")
            if bare.translate(None, _BASE64):
                raise ValueError("not base64")
            padding += len(piece) - len(bare)
            previous = piece
        if len(text) % 4 or padding > 2 or not previous:
            raise ValueError("not base64")
        self._size = len(text) // 4 * 3 - padding

    def pieces(self) -> Iterator[bytes]:
        held = b""
        for piece in self._text.pieces():
            held += piece
            whole = len(held) // 4 * 4
            yield binascii.a2b_base64(held[:whole])
            held = held[whole:]


class Base64Lines(Content):
    """The base64 encoding of other content, in lines of 76 characters that end with CRLF (RFC 2045 6.8)."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content
        characters = -(-len(content) // 3) * 4
        self._size = characters + 2 * -(-characters // _LINE)

    def pieces(self) -> Iterator[bytes]:
        held, step = b"", _RAW_LINE * _LINES
        for piece in self._content.pieces():
            held += piece
            while len(held) >= step:
                lines = _SPLIT.unpack(binascii.b2a_base64(held[:step], newline=False))
                yield b"\r\n".join((*lines, b""))
                held = held[step:]
        if held:
            text = binascii.b2a_base64(held, newline=False)
            yield b"".join([text[start : start + _LINE] + b"\r\n" for start in range(0, len(text), _LINE)])
