"""Commands and answers of IMAP after the login (RFC 9051 2.2), by a reader of our own over the bounded channel.

imaplib keeps an answer until its end and takes many steps for each line: that was the largest cost of a sync. Here each
untagged answer is handed on as it comes, in pieces: text, literal, text, ... without the `{n}` between them.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mailbox_appliance.model.content import Content
from mailbox_appliance.remote.channel import Channel, TooLong
from mailbox_appliance.remote.faults import RemoteFault, disconnected
from mailbox_appliance.remote.imap_protocol import refusal, speaking

MAX_LINE = 4 << 20  # the structure of a message with 10,000 parts is one line
MAX_LITERAL = 80 << 20
MAX_TALK = 10_000  # lines between two commands that tell of no change
_PIECE = 64  # bytes that keeping a piece costs, however short it is

Pieces = list[bytes]
#: Is handed an untagged answer, and says whether that was asked for.
Hear = Callable[[Pieces], bool]

_LITERAL = re.compile(rb"~?\{(\d{1,19})\+?\}$")  # with ~ a literal8 (RFC 9051 4.3.1)
_STATUS = re.compile(rb"\* (?:OK|NO|BAD|BYE|PREAUTH)(?: |$)", re.I)  # their text may look like anything
_CHANGE = re.compile(rb"\* (?:\d+ (?:EXISTS|EXPUNGE|FETCH)|VANISHED)\b", re.I)
_EXISTS = re.compile(rb"\* (\d{1,10}) EXISTS\b", re.I)
_TAGGED = re.compile(rb" (OK|NO|BAD)(?: (.*))?", re.I | re.S)


def unasked(_pieces: Pieces) -> bool:
    """For a command whose untagged answers say nothing to us."""
    return False


class Wire:
    """A logged-in connection. After a fault that is no refusal it is of no use, and says so without sending more."""

    def __init__(self, channel: Channel, *, has_labels: bool = False) -> None:
        """`has_labels`: the server has X-GM-EXT-1, so labels are asked for with flags (`gmail`)."""
        self.channel, self.has_labels = channel, has_labels
        #: Without being asked the server told of a change in the selected folder, since this was last set to False.
        #: Told once, in the answer to any command, it is not told again in IDLE.
        self.has_changed = False
        #: The largest number of messages in it that was told so; 0 where none was.
        self.highest_exists = 0
        #: The part of a section that was asked for last was given as a part.
        self.gives_partial_sections = False
        self._tags = itertools.count(1)
        self._is_broken = False
        self._unsolicited_lines = 0
        self._idle_tag: bytes | None = None

    def run_command(
        self, command: str | bytes, hear: Hear = unasked, *, literal: Content | None = None, changes: bool = False
    ) -> bytes:
        """Carry a command out, with a literal at its end if one is given; answers the text behind the tagged OK.

        Raises RemoteFault, for NO and BAD too. Of a command that `changes` something the fault is `in_doubt` when the
        command was on its way and no tagged reply came.
        """
        sent = False
        try:
            with self._mark_broken_on_error():
                self._receive_available()  # what came before is no answer; notices an ended connection in time
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
        return _accepted(reply)

    def begin_idle(self) -> bool:
        """Send IDLE (RFC 2177) and read up to the `+`; True when a change was told meanwhile, or before."""
        with self._mark_broken_on_error():
            tag = self._send_command("IDLE")
            reply = self._read_reply(tag, unasked, until_go_on=True)
        if reply is not None:
            _accepted(reply)
        self._idle_tag = tag
        return self.has_changed

    def end_idle(self) -> bool:
        """End IDLE; True when a change was told since it began, or before."""
        with self._mark_broken_on_error():
            tag, self._idle_tag = self._idle_tag or b"", None
            self._send(b"DONE\r\n")
            self._read_reply(tag, unasked)
        return self.has_changed

    def forget_changes(self) -> None:
        """What was told of the selected folder so far is known, or about another one."""
        self.has_changed, self.highest_exists = False, 0

    def receive_available(self) -> bool:
        """Take in what has arrived, without waiting; True when a change was told. Raises RemoteFault at the end."""
        with self._mark_broken_on_error():
            self._receive_available()
        return self.has_changed

    def log_out(self) -> None:
        """Say that we leave, and wait a moment for the server to do so first."""
        if not self._is_broken and self._idle_tag is None:
            with self._mark_broken_on_error():
                self._send_command("LOGOUT")
                while self.channel.read_line(MAX_LINE):
                    pass

    @contextmanager
    def _mark_broken_on_error(self) -> Iterator[None]:
        if self._is_broken:
            raise disconnected("imap")
        try:
            with speaking():
                yield
        except BaseException:
            self._is_broken = True
            raise

    def _send_command(self, command: str | bytes, literal: Content | None = None) -> bytes:
        """Send a command up to its literal, if it has one; answers its tag."""
        tag = b"m%d" % next(self._tags)
        self._unsolicited_lines = 0
        text = command.encode("ascii") if isinstance(command, str) else command
        self._send(b"%b %b%b\r\n" % (tag, text, b"" if literal is None else b"{%d}" % len(literal)))
        return tag

    def _send(self, data: bytes) -> None:
        self.channel.send(data)
        self.channel.restart_timeout()

    def _read_reply(self, tag: bytes, hear: Hear, *, until_go_on: bool = False) -> tuple[bytes, bytes] | None:
        """Read up to the tagged reply: its status and text. None: up to a `+`, where that is waited for."""
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
            weight += int(found[1]) + len(line) + _PIECE
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
            if self._unsolicited_lines > MAX_TALK:
                raise ValueError("talk without an end")
            if _LITERAL.search(text) and not _STATUS.match(text):
                self.has_changed = True
                break  # the rest of it may still be on its way; it is read with the next answer
            self.channel.skip(len(line))
        if not is_open:
            raise ConnectionResetError

    def _note_unsolicited(self, text: bytes) -> None:
        """What an untagged answer that nobody asked for means."""
        if _CHANGE.match(text):
            self.has_changed = True
            if exists := _EXISTS.match(text):
                self.highest_exists = max(self.highest_exists, int(exists[1]))
        elif text[2:5].upper() == b"BYE":
            raise ConnectionResetError


def _accepted(reply: tuple[bytes, bytes] | None) -> bytes:
    """The text of a tagged OK. Raises RemoteFault."""
    status, text = reply or (b"BAD", b"")
    if status != b"OK":
        raise refusal(Exception(text.decode("latin-1")))
    return text
