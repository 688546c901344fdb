"""How long a server may take for an answer, however little it says."""

import socket
from collections.abc import Iterator

import pytest

from mailbox_appliance.remote.net.channel import LONGEST_ANSWER, MOST_SAVED_SECONDS, SLOWEST_RATE, Channel

TIMEOUT = 30.0


class Talk:
    """An answer that comes in pieces, on a clock that the test moves."""

    def __init__(self, *, patient: bool) -> None:
        self.now = 1000.0
        ours, self.theirs = socket.socketpair()
        self.channel = Channel(ours, TIMEOUT, patient=patient, clock=lambda: self.now)

    def lasts(self, size: int, every: float, most: float) -> float:
        """Seconds until it counts as stalled, when so many bytes come every so many seconds."""
        began = self.now
        try:
            while self.now - began < most:
                self.theirs.sendall(b"x" * size)
                self.channel.read_exactly(size)
                self.now += every
        except TimeoutError:
            pass
        return self.now - began

    def close(self) -> None:
        self.channel.close()
        self.theirs.close()


@pytest.fixture
def talk() -> Iterator[Talk]:
    made = Talk(patient=True)
    yield made
    made.close()


def test_an_answer_that_drips_ends(talk: Talk) -> None:
    assert talk.lasts(1, 10, most=1000) <= TIMEOUT + 10


def test_what_came_fast_lets_nobody_drip_for_long(talk: Talk) -> None:
    talk.lasts(1 << 16, 0.01, most=1)
    assert MOST_SAVED_SECONDS <= talk.lasts(100, 10, most=10_000) <= TIMEOUT + MOST_SAVED_SECONDS + 20


def test_an_answer_that_moves_may_take_long(talk: Talk) -> None:
    assert talk.lasts(SLOWEST_RATE * 10, 9, most=1200) >= 1200


def test_no_answer_takes_longer_than_the_longest(talk: Talk) -> None:
    assert LONGEST_ANSWER - 20 <= talk.lasts(SLOWEST_RATE * 12, 10, most=3 * LONGEST_ANSWER) <= LONGEST_ANSWER + 20


def test_the_next_answer_begins_anew(talk: Talk) -> None:
    talk.lasts(1, 10, most=1000)
    talk.channel.restart_timeout()
    assert talk.lasts(SLOWEST_RATE * 10, 9, most=100) >= 100


def test_without_patience_the_timeout_holds() -> None:
    talk = Talk(patient=False)
    assert talk.lasts(SLOWEST_RATE * 10, 1, most=1000) <= TIMEOUT + 1
    talk.close()
