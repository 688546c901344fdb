"""What the words of an IMAP answer are (RFC 9051 9): atoms, quoted strings, literals, NIL, lists in lists. Pure.

Whatever does not fit is a ValueError; nothing here recurses, however deep the lists.
"""

import re

from mailbox_appliance.remote.imap_wire import Pieces

MAX_DEPTH = 1000
MAX_VALUES = 200_000  # of one answer: an empty list takes two bytes of a line, and thirty times as many here
MAX_UID = (1 << 32) - 1

#: None is NIL; an atom, a string and a literal are alike.
Value = bytes | list["Value"] | None

_TOKEN = re.compile(rb' *(?:([()])|"([^"\\]*(?:\\.[^"\\]*)*)"|([^ ()"]+)|$)', re.S)
_ESCAPED = re.compile(rb"\\(.)", re.S)


class Reader:
    """Reads an answer from left to right."""

    def __init__(self, pieces: Pieces, position: int) -> None:
        self.text, self.position = pieces[0], position
        self._pieces, self._index = pieces, 0
        self._values_left = MAX_VALUES

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Step over what matches here, within one piece of text."""
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
        return found

    def read_value(self) -> Value:
        """The next value."""
        value = self._next_token()
        if value is not _OPEN:
            return value
        return self._read_list()

    def read_rest(self) -> list[Value]:
        """All values up to the end of the answer."""
        values: list[Value] = []
        while not self._is_at_end():
            values.append(self.read_value())
        return values

    def _read_list(self) -> list[Value]:
        """The list whose `(` has been read."""
        whole: list[Value] = []
        open_lists = [whole]
        while open_lists:
            value = self._next_token()
            if value is _OPEN:
                inner: list[Value] = []
                open_lists[-1].append(inner)
                open_lists.append(inner)
                if len(open_lists) > MAX_DEPTH:
                    raise ValueError("lists are nested too deep")
            elif value is _CLOSE:
                open_lists.pop()
            else:
                open_lists[-1].append(value)
        return whole

    def _next_token(self) -> Value:
        found = _TOKEN.match(self.text, self.position)
        if not found:
            raise ValueError("no value where one is due")
        self.position = found.end()
        self._values_left -= 1
        if self._values_left < 0:
            raise ValueError("more values than anybody needs")
        if found[1]:
            return _OPEN if found[1] == b"(" else _CLOSE
        if found[2] is not None:
            return _ESCAPED.sub(rb"\1", found[2]) if b"\\" in found[2] else found[2]
        if found[3]:
            return None if found[3].upper() == b"NIL" else found[3]
        return self._read_literal()

    def _read_literal(self) -> bytes:
        if self._index + 2 >= len(self._pieces):
            raise ValueError("the answer ends too early")
        self._index += 2
        self.text, self.position = self._pieces[self._index], 0
        return self._pieces[self._index - 1]

    def _is_at_end(self) -> bool:
        return self._index + 2 >= len(self._pieces) and not self.text[self.position :].strip(b" ")


_OPEN: list[Value] = []  # told apart by what they are, not by what is in them
_CLOSE: list[Value] = []


def number(value: Value) -> int:
    """A number (RFC 9051 9), of up to 63 bits. Raises ValueError."""
    if not isinstance(value, bytes) or not value.isdigit() or len(value) > 19 or (found := int(value)) >= 1 << 63:
        raise ValueError("not a number")
    return found


def uid_number(value: Value) -> int:
    """A UID: 32 bits, never 0. Raises ValueError."""
    found = number(value)
    if not 0 < found <= MAX_UID:
        raise ValueError("not a UID")
    return found
