"""Proves that serving goes on whoever comes, and ends well whatever is under way. See the parts of this proof.

`scripts/prove-serving` plays all of it, the test suite a short form. What is done depends on the seed alone; when it
happens, on the machine.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.servers.dovecot import MailServer
from tests.serving_proof import crowded, ending, hostile, judging, storms

SECURE = ("--https-port", "0", "--https-host", "127.0.0.1")


@dataclass(frozen=True)
class Given:
    """What was asked for on the command line."""

    seed: int
    rounds: int
    round: int | None
    arguments: tuple[str, ...]
    seconds: float
    changes: int


def ends(mail: MailServer, folder: Path, given: Given) -> str:
    """SIGTERM with 20 requests and 5 sends under way."""
    numbers = range(given.rounds) if given.round is None else [given.round]
    played = []
    with ending.staged(mail, folder, given.arguments) as scene:
        scene.is_secure = bool(given.arguments)
        for number in numbers:
            try:
                played.append(ending.play(scene, given.seed, number))
            except AssertionError as error:
                raise AssertionError(f"round {number}: {error}") from error
            if sys.stderr.isatty():
                print(f"\r{len(played)} of {len(numbers)} ends", end="", file=sys.stderr, flush=True)
    return judging.shown(played)


def crowds(mail: MailServer, folder: Path, given: Given) -> str:
    """Bad clients, large uploads and swapped certificates."""
    told = []
    with crowded.staged(mail, folder, given.arguments) as (running, account, smtp):
        for is_secure in (True, False) if given.arguments else (False,):
            outcome = crowded.play(running, account, smtp, given.seed, is_secure=is_secure, seconds=given.seconds)
            outcome.require_served()
            told.append(str(outcome))
            smtp.forget()
    return "\n".join(told)


def changes(_: MailServer, folder: Path, given: Given) -> str:
    """Reloads, swaps, and HTTPS switched off, on and elsewhere, in a storm."""
    return str(storms.play(folder, given.seed, given.changes))


def hostile_mail(mail: MailServer, folder: Path, _: Given) -> str:
    """Mail that takes seconds to analyze, read in parallel: others are served as ever."""
    bodies = {**hostile.SHEETS, **hostile.OTHERS}
    with hostile.staged(mail, folder, bodies) as scene:
        outcome = hostile.play(scene, list(bodies))
    outcome.require_served()
    return str(outcome)


PARTS: dict[str, Callable[[MailServer, Path, Given], str]] = {
    "crowds": crowds,
    "changes": changes,
    "ends": ends,
    "hostile-mail": hostile_mail,
}


def main() -> int:
    """The command line of `scripts/prove-serving`."""
    parser = argparse.ArgumentParser(
        prog="scripts/prove-serving", description="Prove that serving goes on and ends well."
    )
    parser.add_argument("--only", choices=sorted(PARTS), help="this part alone")
    parser.add_argument("--rounds", type=int, default=30, help="how many ends (default 30)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    parser.add_argument("--round", type=int, help="play this end of the seed alone")
    parser.add_argument("--seconds", type=float, default=6, help="of each phase of the crowds (default 6)")
    parser.add_argument("--changes", type=int, default=300, help="how many changes of HTTPS (default 300)")
    parser.add_argument("--plain", action="store_true", help="without HTTPS")
    options = parser.parse_args()
    given = Given(
        options.seed, options.rounds, options.round, () if options.plain else SECURE, options.seconds, options.changes
    )
    print(f"seed {given.seed}", flush=True)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        mail = MailServer().start(folder)
        try:
            for part in [options.only] if options.only else PARTS:
                failures += _prove(part, mail, folder / part, given)
        finally:
            mail.stop()
    return 1 if failures else 0


def _prove(part: str, mail: MailServer, folder: Path, given: Given) -> int:
    began = time.monotonic()
    try:
        told = PARTS[part](mail, folder, given)
    except AssertionError as error:
        again = f"scripts/prove-serving --seed {given.seed} --only {part}"
        print(f"\n{part}: FAILED {error}\nrepeat it: {again}", file=sys.stderr)
        return 1
    print(f"\n{part} ({time.monotonic() - began:.0f} s): {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
