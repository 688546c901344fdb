"""What a fault proxy does to commands and answers: a test changes it any time, connections ask for it."""

import re
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import Self

from tests.servers.mailboxes import BUSY

Moment = OneOf["before", "after"]

#: What a server refuses that offers nothing beyond RFC 3501, whether or not it is asked for by name.
EXTENSIONS = (
    "ENABLE", "IDLE", "MOVE", "NAMESPACE", "UNSELECT", "COMPRESS", "NOTIFY", "SORT", "THREAD", "UID EXPUNGE",
    r"LIST \(", r"LIST .* RETURN \(", r"SEARCH RETURN", r"STATUS .*HIGHESTMODSEQ",
    r"FETCH .*(CHANGEDSINCE|MODSEQ|PREVIEW|EMAILID)", r"STORE .*UNCHANGEDSINCE",
    r"(SELECT|EXAMINE) .*\((CONDSTORE|QRESYNC)",
)  # fmt: skip
_RESPONSE_CODES = re.compile(rb"\[(?:APPENDUID|COPYUID|HIGHESTMODSEQ|MAILBOXID|UIDNOTSTICKY) [^\]\r]*\] ?")


@dataclass
class _Rule:
    """Something to be done to the commands that match, so many times."""

    pattern: re.Pattern[str]
    times: float
    moment: Moment = "before"
    answer: str = ""

    def takes(self, command: str) -> bool:
        """Whether it is this one's turn."""
        if self.times <= 0 or not self.pattern.match(command):
            return False
        self.times -= 1
        return True


class Faults:
    """The faults in force, and what was heard.

    Commands are named by a pattern that their text begins with, without tag, in any case: `MOVE` and `UID MOVE` are
    both found by `MOVE`; `UID EXPUNGE` is only found by itself.
    """

    def __init__(self) -> None:
        self.latency = 0.0  # seconds that every piece of data takes, each way
        self.commands: list[str] = []  # what clients said, without tags, in order; `clear()` it at will
        self.on_command: Callable[[str], None] = _nothing  # told of each, before it is passed on
        self.accepted = 0  # connections ever
        self.cuts = 0  # how often a fault ended a connection
        self.is_shut = False  # new connections are closed at once
        self._changed = threading.Condition()
        self._hidden: frozenset[str] = frozenset()
        self._shown: frozenset[str] | None = None
        self._strips_codes = False
        self._changes: list[tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]]] = []
        self._stalled = self._is_withholding = False
        self._withheld: bytes | None = None
        self._refusals: list[_Rule] = []
        self._cut_rules: list[_Rule] = []
        self._budget: tuple[int, bool] | None = None
        self._budget_round = 0

    # --- what a test sets ---

    def hide(self, *words: str) -> None:
        """Leave these words out wherever the server tells its capabilities."""
        self._hidden |= {word.upper() for word in words}

    def show_only(self, *words: str) -> None:
        """Leave out all other capabilities."""
        self._shown = frozenset(word.upper() for word in words)

    def refuse(self, *patterns: str, answer: str = "BAD Unknown command", times: float = float("inf")) -> None:
        """Answer these commands with this, instead of passing them on: `NO [LIMIT] Not now`."""
        with self._changed:
            self._refusals += [_Rule(_pattern(each), times, answer=answer) for each in patterns]

    def make_poor(self) -> None:
        """Be a server that has IMAP4rev1 and nothing else: neither told, nor done when asked for."""
        self.show_only("IMAP4REV1")
        self.refuse(*EXTENSIONS)
        self._strips_codes = True

    def change_answers(self, pattern: bytes, change: Callable[[re.Match[bytes]], bytes]) -> None:
        """Say something else wherever the server says this, within one piece of data: for short answers."""
        self._changes.append((re.compile(pattern, re.IGNORECASE), change))

    def withhold(self, answer: bytes) -> None:
        """Keep back the next answer that has this in it. The client never hears it: `go_on` ends its connection."""
        with self._changed:
            self._withheld = answer

    def wait_until_withheld(self) -> None:
        """Return when an answer is kept back."""
        self.wait_for(lambda faults: faults._is_withholding, 60)

    def cut_at(self, pattern: str, *, moment: Moment = "before", times: float = 1) -> None:
        """End the connection at such a command: before the server hears it, or after it has carried it out.

        The client hears nothing of the answer either way.
        """
        with self._changed:
            self._cut_rules.append(_Rule(_pattern(pattern), times, moment))

    def cut_after(self, count: int, *, of_client: bool = False) -> None:
        """End a connection as soon as so many more bytes of the server (or of the client) have passed through it."""
        with self._changed:
            self._budget = count, of_client
            self._budget_round += 1

    def heal(self) -> None:
        """No cuts, refusals, delays any more; capabilities that are hidden stay hidden."""
        with self._changed:
            self._refusals, self._cut_rules, self._budget = [], [], None
            self.latency, self.is_shut = 0.0, False
        self.go_on()

    def stall(self) -> None:
        """From now on pass nothing on, in both directions, on open and on new connections."""
        with self._changed:
            self._stalled = True

    def go_on(self) -> None:
        """Pass on again, also what was held back."""
        with self._changed:
            self._stalled = self._is_withholding = False
            self._changed.notify_all()

    # --- what a test asks ---

    def count(self, pattern: str) -> int:
        """How many of the commands that came match."""
        wanted = _pattern(pattern)
        return sum(1 for command in list(self.commands) if wanted.match(command))

    def wait_for(self, condition: Callable[[Self], bool], timeout: float = 10) -> None:
        """Return when the condition holds; it is looked at whenever a command came or a connection ended."""
        with self._changed:
            held = self._changed.wait_for(lambda: condition(self), timeout * BUSY)
        assert held, f"after {timeout * BUSY} s; the last commands: {self.commands[-20:]}"

    # --- what connections ask ---

    def note(self, command: str) -> None:
        """Remember what a client said."""
        self.on_command(command)
        with self._changed:
            self.commands.append(command)
            self._changed.notify_all()

    def refusal(self, command: str) -> str | None:
        """The answer that this command gets instead of the server's."""
        with self._changed:
            return next((rule.answer for rule in self._refusals if rule.takes(command)), None)

    def cut_moment(self, command: str, is_whole: bool) -> Moment | None:
        """When the connection ends for this command, of which maybe only the first line has come."""
        with self._changed:
            rules = [rule for rule in self._cut_rules if is_whole or rule.moment == "before"]
            return next((rule.moment for rule in rules if rule.takes(command)), None)

    def hold(self) -> None:
        """Take as long as data is to take."""
        if self.latency:
            time.sleep(self.latency)
        if self._stalled:
            with self._changed:
                self._changed.wait_for(lambda: not self._stalled)

    def allowed(self, passed: "Passed", data: bytes, of_client: bool) -> bytes:
        """As much of the data as may pass; when that is not all, the connection ends. `passed` counts on."""
        with self._changed:
            already = passed.count(self._budget_round, of_client, len(data))
            if self._budget is None or self._budget[1] != of_client:
                return data
            left = self._budget[0] - already
            if left >= len(data):
                return data
            self._budget = None
            return data[: max(left, 0)]

    def rewritten(self, data: bytes, tells_capabilities: bool) -> bytes:
        """An answer as the client is to see it. Raises OSError for one that is withheld."""
        with self._changed:
            if self._withheld is not None and self._withheld in data:
                self._withheld, self._is_withholding = None, True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._is_withholding)
                raise ConnectionAbortedError
        if self._strips_codes and b"[" in data:
            data = _RESPONSE_CODES.sub(b"", data)
        for pattern, change in self._changes:
            data = pattern.sub(change, data)
        if not tells_capabilities or b"CAPABILITY" not in data or (not self._hidden and self._shown is None):
            return data
        return re.sub(rb"(?<=CAPABILITY )[^\]\r\n]*", lambda found: self._kept(found[0].split()), data)

    def _kept(self, words: Collection[bytes]) -> bytes:
        names = {word: word.decode().upper() for word in words}
        kept = [word for word, name in names.items() if name not in self._hidden]
        return b" ".join(word for word in kept if self._shown is None or names[word] in self._shown)


class Passed:
    """How many bytes went through a connection, each way, since the last `cut_after`."""

    def __init__(self) -> None:
        self._round = 0
        self._counts = {True: 0, False: 0}

    def count(self, number: int, of_client: bool, more: int) -> int:
        """How many there were before these."""
        if number != self._round:
            self._round, self._counts = number, {True: 0, False: 0}
        before = self._counts[of_client]
        self._counts[of_client] += more
        return before


def _pattern(text: str) -> re.Pattern[str]:
    begin = "" if text.upper().startswith("UID ") else "(?:UID )?"
    end = r"\b" if text[-1:].isalpha() else ""
    return re.compile(rf"{begin}(?:{text}){end}", re.IGNORECASE)


def _nothing(_command: str) -> None:
    """Nobody wants to hear of it."""
