"""Send IMAP commands and read their responses, after the sign-in (RFC 9051 2.2).

The library imaplib buffers a whole response and takes many steps for each line, which was the largest cost of a sync.
Here a function handles each untagged response while it arrives. It gets the response in pieces: text, literal, text and
so on, without the `{n}` that announces a literal.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mailbox_appliance.model.content import Content
from mailbox_appliance.remote.errors import RemoteFault, disconnected_fault
from mailbox_appliance.remote.imap.connection import errors_as_faults, fault_of_refusal
from mailbox_appliance.remote.net.channel import Channel, TooLong

MAX_LINE = 4 << 20  # the structure of a message with 10,000 parts is one line
MAX_LITERAL = 80 << 20
MAX_UNSOLICITED_LINES = 10_000  # lines between two commands that report no change
_PIECE_OVERHEAD = 64  # bytes of memory that each piece costs, however short it is

Pieces = list[bytes]
#: Handles an untagged response, and returns whether it was asked for.
ResponseHandler = Callable[[Pieces], bool]

_LITERAL = re.compile(rb"~?\{(\d{1,19})\+?\}$")  # with ~ a literal8 (RFC 9051 4.3.1)
_STATUS = re.compile(rb"\* (?:OK|NO|BAD|BYE|PREAUTH)(?: |$)", re.I)  # their text may contain anything
_CHANGE = re.compile(rb"\* (?:\d+ (?:EXISTS|EXPUNGE|FETCH)|VANISHED)\b", re.I)
_EXISTS = re.compile(rb"\* (\d{1,10}) EXISTS\b", re.I)
_TAGGED = re.compile(rb" (OK|NO|BAD)(?: (.*))?", re.I | re.S)


def ignore_response(_pieces: Pieces) -> bool:
    """Ignore an untagged response. For commands that need only their tagged reply."""
    return False


class ImapWire:
    """A connection to an IMAP server that is signed in.

    After NO or BAD it can still be used. After any other fault every call raises RemoteFault without sending anything.
    """

    def __init__(self, channel: Channel, *, has_labels: bool = False) -> None:
        """`has_labels`: the server has labels (X-GM-EXT-1), so they are requested together with flags."""
        self.channel, self.has_labels = channel, has_labels
        #: Whether the server reported an unsolicited change in the selected folder since this was last set to False. A
        #: change reported in the response to any command is not reported again in IDLE.
        self.has_changed = False
        #: The largest number of messages reported that way; 0 if none.
        self.highest_exists = 0
        #: Whether the server honored the range of the last partial section.
        self.gives_partial_sections = False
        self._tags = itertools.count(1)
        self._is_broken = False
        self._unsolicited_lines = 0
        self._idle_tag: bytes | None = None

    def run_command(
        self,
        command: str | bytes,
        hear: ResponseHandler = ignore_response,
        *,
        literal: Content | None = None,
        changes: bool = False,
    ) -> bytes:
        """Run a command. Returns the text after its tagged OK. Raises RemoteFault, also for NO and BAD.

        - hear: called with each untagged response; returns False if the response is unsolicited.
        - literal: data to send at the end of the command.
        - changes: the command changes something. If it was sent and no tagged reply came, the fault is `in_doubt`.
        """
        sent = False
        try:
            with self._mark_broken_on_error():
                # Earlier data is not a response to this command; reading it detects an ended connection in time.
                self._receive_available()
                sent = literal is None
                tag = self._send_command(command, literal)
                reply = None if literal is None else self._read_reply(tag, hear, until_go_on=True)
                if reply is None:
                    sent = True
                    if literal is not None:
                        self.channel.send_pieces(Content(literal, b"\r\n").pieces())
                        self.channel.restart_timeout()
                    reply = self._read_reply(tag, hear)
        except RemoteFault as fault:
            fault.in_doubt = sent and changes
            raise
        return _require_ok(reply)

    def begin_idle(self) -> bool:
        """Start IDLE (RFC 2177). Returns whether the selected folder has changed. Raises RemoteFault."""
        with self._mark_broken_on_error():
            tag = self._send_command("IDLE")
            reply = self._read_reply(tag, ignore_response, until_go_on=True)
        if reply is not None:
            _require_ok(reply)
        self._idle_tag = tag
        return self.has_changed

    def end_idle(self) -> bool:
        """End IDLE. Returns whether a change was reported since the folder was selected. Raises RemoteFault."""
        with self._mark_broken_on_error():
            tag, self._idle_tag = self._idle_tag or b"", None
            self._send(b"DONE\r\n")
            self._read_reply(tag, ignore_response)
        return self.has_changed

    def forget_changes(self) -> None:
        """Forget the changes that the server reported: they are handled, or concern another folder."""
        self.has_changed, self.highest_exists = False, 0

    def receive_available(self) -> bool:
        """Read the data that has arrived, without waiting. Returns whether the selected folder has changed.

        Raises RemoteFault if the connection ended.
        """
        with self._mark_broken_on_error():
            self._receive_available()
        return self.has_changed

    def log_out(self) -> None:
        """Send LOGOUT, and read until the server closes the connection. Does nothing after a fault or during IDLE."""
        if not self._is_broken and self._idle_tag is None:
            with self._mark_broken_on_error():
                self._send_command("LOGOUT")
                while self.channel.read_line(MAX_LINE):
                    pass

    @contextmanager
    def _mark_broken_on_error(self) -> Iterator[None]:
        if self._is_broken:
            raise disconnected_fault("imap")
        try:
            with errors_as_faults():
                yield
        except BaseException:
            self._is_broken = True
            raise

    def _send_command(self, command: str | bytes, literal: Content | None = None) -> bytes:
        """Send a command and return its tag. Of a literal, only the announcement of its length is sent."""
        tag = b"m%d" % next(self._tags)
        self._unsolicited_lines = 0
        text = command.encode("ascii") if isinstance(command, str) else command
        self._send(b"%b %b%b\r\n" % (tag, text, b"" if literal is None else b"{%d}" % len(literal)))
        return tag

    def _send(self, data: bytes) -> None:
        self.channel.send(data)
        self.channel.restart_timeout()

    def _read_reply(
        self, tag: bytes, hear: ResponseHandler, *, until_go_on: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Read responses up to the tagged reply. Returns its status and text.

        `hear`: gets each untagged response. `until_go_on`: stop at a continuation request (`+`), and return None.
        """
        while True:
            pieces = self._read_response()
            text = pieces[0]
            if text.startswith(b"* "):
                if not hear(pieces):
                    self._note_unsolicited(text)
            elif text.startswith(tag) and (found := _TAGGED.fullmatch(text, len(tag))):
                return found[1].upper(), found[2] or b""
            elif not text.startswith(b"+"):
                raise ValueError("neither an answer nor our tag")
            elif until_go_on:
                return None

    def _read_response(self) -> Pieces:
        line = self._read_line()
        if not line.endswith(b"}") or not line.startswith(b"* ") or _STATUS.match(line):
            return [line]
        pieces: Pieces = []
        weight = 0
        while found := _LITERAL.search(line):
            weight += int(found[1]) + len(line) + _PIECE_OVERHEAD
            if weight > MAX_LITERAL:
                raise TooLong
            pieces += [line[: found.start()], self._read_literal(int(found[1]))]
            line = self._read_line()
        return [*pieces, line]

    def _read_line(self) -> bytes:
        line = self.channel.read_line(MAX_LINE)
        if line.endswith(b"\r\n"):
            return line[:-2]
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        return line[:-1]

    def _read_literal(self, size: int) -> bytes:
        data = self.channel.read_exactly(size)
        if len(data) < size:
            raise ConnectionResetError
        return data

    def _receive_available(self) -> None:
        is_open = self.channel.receive_available()
        while (line := self.channel.buffered_line()) is not None:
            text = line.rstrip(b"\r\n")
            if not text.startswith((b"* ", b"+")):
                raise ValueError("not an answer")
            self._note_unsolicited(text)
            self._unsolicited_lines += not _CHANGE.match(text)
            if self._unsolicited_lines > MAX_UNSOLICITED_LINES:
                raise ValueError("talk without an end")
            if _LITERAL.search(text) and not _STATUS.match(text):
                self.has_changed = True
                break  # The rest may still be on its way; it is read with the next response.
            self.channel.skip(len(line))
        if not is_open:
            raise ConnectionResetError

    def _note_unsolicited(self, text: bytes) -> None:
        """Record the change that an unsolicited response reports, if any. BYE raises ConnectionResetError."""
        if _CHANGE.match(text):
            self.has_changed = True
            if exists := _EXISTS.match(text):
                self.highest_exists = max(self.highest_exists, int(exists[1]))
        elif text[2:5].upper() == b"BYE":
            raise ConnectionResetError


def _require_ok(reply: tuple[bytes, bytes] | None) -> bytes:
    """Return the text of a tagged OK. Raises RemoteFault for NO, BAD or None."""
    status, text = reply or (b"BAD", b"")
    if status != b"OK":
        raise fault_of_refusal(Exception(text.decode("latin-1")))
    return text


# --- The values of a response (RFC 9051 9): atoms, quoted strings, literals, NIL, nested lists. Pure ---
#
# Anything that does not fit is a ValueError; nothing here recurses, however deep the lists.


MAX_DEPTH = 1000
# values of one response: an empty list takes two bytes of a line, and thirty times as many in memory
MAX_VALUES = 200_000
MAX_UID = (1 << 32) - 1

#: None is NIL; atoms, strings and literals are the same type.
Value = bytes | list["Value"] | None

_TOKEN = re.compile(rb' *(?:([()])|"([^"\\]*(?:\\.[^"\\]*)*)"|([^ ()"]+)|$)', re.S)
_ESCAPED = re.compile(rb"\\(.)", re.S)


class ResponseReader:
    """Reads the values of a response one after the other, beginning at `position` in its first piece."""

    def __init__(self, pieces: Pieces, position: int) -> None:
        self.text, self.position = pieces[0], position
        self._pieces, self._index = pieces, 0
        self._values_left = MAX_VALUES

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match a pattern at the current position, and continue after it. Returns the match, or None."""
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
        return found

    def read_value(self) -> Value:
        """Return the next value: bytes, a list, or None for NIL. Raises ValueError if there is none."""
        value = self._next_token()
        if value is not _OPEN:
            return value
        return self._read_list()

    def read_rest(self) -> list[Value]:
        """Return all values up to the end of the response. Raises ValueError if it is malformed."""
        values: list[Value] = []
        while not self._is_at_end():
            values.append(self.read_value())
        return values

    def _read_list(self) -> list[Value]:
        """Return the list that begins at the current position; its `(` was read already."""
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


_OPEN: list[Value] = []  # compared by type, not by content
_CLOSE: list[Value] = []


def read_number(value: Value) -> int:
    """Return a number (RFC 9051 9) of up to 63 bits. Raises ValueError if the value is not one."""
    if not isinstance(value, bytes) or not value.isdigit() or len(value) > 19 or (found := int(value)) >= 1 << 63:
        raise ValueError("not a number")
    return found


def read_uid(value: Value) -> int:
    """Return a UID: 32 bits, never 0. Raises ValueError if the value is not one."""
    found = read_number(value)
    if not 0 < found <= MAX_UID:
        raise ValueError("not a UID")
    return found
