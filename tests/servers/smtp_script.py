"""What a scripted SMTP server can be told: at which steps, and what to do there."""

import email
import re
import time
from dataclasses import dataclass, field
from typing import Literal, Union, get_args

Step = Literal["connect", "ehlo", "starttls", "auth", "mail", "rcpt", "data", "body", "dot", "reply", "quit"]
STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class HangUp:
    """Close the connection: with a reset, as a crash or a firewall does, or politely."""

    reset: bool


@dataclass(frozen=True)
class Stall:
    """Hold the client until `release`, then act. At `reply` the message is kept (or lost) before the stall."""

    then: "Action" = None


@dataclass(frozen=True)
class Delay:
    """Wait so many seconds, then act."""

    seconds: float
    then: "Action" = None


@dataclass(frozen=True)
class Keep:
    """At `reply`: the message is kept, whatever is said then."""

    then: "Action" = None


@dataclass(frozen=True)
class Lose:
    """At `reply`: the message is lost, whatever is said then."""

    then: "Action" = None


DROP = HangUp(reset=True)
CLOSE = HangUp(reset=False)
#: A text is sent with CRLF behind it, bytes are sent as they are, None is the usual answer.
Action = Union[str, bytes, HangUp, Stall, Delay, Keep, Lose, None]  # noqa: UP007 - it refers to itself

USUAL: dict[Step, str] = {
    "connect": "220 scripted.test ESMTP",
    "starttls": "220 2.0.0 go ahead",
    "auth": "235 2.7.0 welcome",
    "mail": "250 2.1.0 ok",
    "rcpt": "250 2.1.5 ok",
    "data": "354 end with a dot",
    "reply": "250 2.0.0 kept",
    "quit": "221 2.0.0 bye",
}


@dataclass(frozen=True)
class Accepted:
    """A message that the server has kept: for it, delivery has happened."""

    sender: str
    recipients: tuple[str, ...]
    source: bytes = field(repr=False)
    parameters: tuple[str, ...]  # of MAIL FROM, e.g. SIZE=123
    at: float  # time.time()
    account: str = ""  # who was logged in

    @property
    def message_id(self) -> str:
        """Its Message-ID without angle brackets, or an empty text."""
        return str(email.message_from_bytes(self.source).get("Message-ID", "")).strip().strip("<>")


@dataclass(eq=False)
class Handed:
    """A message whose final dot has come, and what was said to it: nothing as long as `said` is None.

    `at` is when the dot came, `said_at` when the reply was sent (`time.monotonic()`).
    """

    source: bytes = field(repr=False)
    at: float
    said: str | None = None
    said_at: float = 0.0

    def answered(self, said: str) -> None:
        self.said, self.said_at = said, time.monotonic()

    @property
    def is_decided(self) -> bool:
        """Whether the client was given a reply that settles what became of the message."""
        return self.said is not None and re.match(r"[245][0-9][0-9][ -]", self.said) is not None


def keeps(action: Action) -> bool:
    """Whether a message is kept by this action at `reply`."""
    match action:
        case Keep() | None:
            return True
        case Stall(then) | Delay(_, then):
            return keeps(then)
        case str():
            return action.startswith("2")
        case _:
            return False
