"""One stress in a process of its own: `python -m tests.threads_proof.child SUBJECT SECONDS ROUNDS SEED`.

Prints a line for each round, and `died CODE` for each death of a process that the stress watches. Whatever kills this
process is seen by its parent; faulthandler writes the stacks.
"""

import faulthandler
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from tests.threads_proof import decoded_types, documents, first_requests, handshakes, one_database, shared_ciphers
from tests.threads_proof.hurried import TURN

Round = Callable[[random.Random], None]
ROUND, DIED = "round", "died"


@contextmanager
def _decoding(find: Callable[[], decoded_types.Decoding]) -> Iterator[Round]:
    yield partial(decoded_types.stress, decoding=find())


@contextmanager
def _plain(stress: Round) -> Iterator[Round]:
    yield stress


@contextmanager
def _service() -> Iterator[Round]:
    with first_requests.staged() as service:
        yield partial(first_requests.stress, service=service)


def _crash(_: random.Random) -> None:
    faulthandler._sigsegv()  # type: ignore[attr-defined]


#: What is proved, by name.
SUBJECTS: dict[str, Callable[[], AbstractContextManager[Round]]] = {
    "msgspec": partial(_decoding, decoded_types.Decoding.of_appliance),
    "apsw": partial(_plain, one_database.stress),
    "cryptography": partial(_plain, shared_ciphers.stress),
    "expat": partial(_plain, documents.stress),
    "ssl": partial(_plain, handshakes.stress),
    "service": _service,
}
#: What is known to die, to show that a death is seen.
DYING: dict[str, Callable[[], AbstractContextManager[Round]]] = {
    "msgspec unprotected": partial(_decoding, decoded_types.Decoding.unprotected),
    "crash": partial(_plain, _crash),
}


def main(subject: str, seconds: float, rounds: int, seed: str) -> None:
    """Play rounds until the time or their number is over; 0 of them: as many as the time allows."""
    faulthandler.enable()
    sys.setswitchinterval(TURN)
    chance, done = random.Random(seed), 0
    with (SUBJECTS | DYING)[subject]() as stress:
        until = time.monotonic() + seconds
        while done == 0 or (time.monotonic() < until and (not rounds or done < rounds)):
            try:
                stress(chance)
            except first_requests.Died as death:
                print(f"{DIED} {death.code}", flush=True)
                print(death, file=sys.stderr, flush=True)
            print(ROUND, flush=True)
            done += 1


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
