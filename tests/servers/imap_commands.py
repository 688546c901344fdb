"""What clients say on an IMAP connection, cut into lines and literals (RFC 9051 4.3), while every byte can go on."""

import re
from dataclasses import dataclass

_LITERAL = re.compile(rb"\{(\d+)(\+?)\}\r\n$")


@dataclass(frozen=True)
class Literal:
    """Bytes of a literal, or of as much of it as has come."""

    data: bytes


@dataclass(frozen=True)
class Line:
    """A line up to its CRLF. `command` is all lines of the command so far, without tag: `UID FETCH 1:* (FLAGS)`."""

    data: bytes
    tag: str
    command: str
    is_whole: bool  # no literal follows
    awaits: bool = False  # a literal follows as soon as the server says `+`


class CommandReader:
    """Cuts up what one client sends. Lines inside AUTHENTICATE are commands without a name."""

    def __init__(self) -> None:
        self._rest = b""
        self._literal = 0
        self._begun: list[str] = []
        self._tag = ""
        self._name = ""

    def feed(self, data: bytes) -> list[Line | Literal]:
        """The pieces that are complete now, in order; together with what is still kept they are all bytes."""
        self._rest += data
        pieces: list[Line | Literal] = []
        while self._rest:
            if self._literal:
                part, self._rest = self._rest[: self._literal], self._rest[self._literal :]
                self._literal -= len(part)
                pieces.append(Literal(part))
                continue
            line, end, rest = self._rest.partition(b"\r\n")
            if not end:
                break
            self._rest = rest
            pieces.append(self._line(line + end))
        return pieces

    def drop_command(self) -> None:
        """Forget the command under way: its literal does not come, since the server said no."""
        self._begun.clear()
        self._literal = 0

    def _line(self, data: bytes) -> Line:
        text = data[:-2].decode("utf-8", "replace")
        if not self._begun:
            self._tag, text = self._split(text)
        self._begun.append(text)
        command = " ".join(self._begun)
        literal = _LITERAL.search(data)
        if literal is None:
            self._begun.clear()
            return Line(data, self._tag, command, is_whole=True)
        self._literal = int(literal[1])
        return Line(data, self._tag, command, is_whole=False, awaits=not literal[2])

    def _split(self, text: str) -> tuple[str, str]:
        tag, _, rest = text.partition(" ")
        if text.upper() == "DONE" or (self._name == "AUTHENTICATE" and not rest):
            return "", text if text.upper() == "DONE" else ""
        self._name = rest.split(" ")[0].upper()
        return tag, rest
