"""Proves that threads may share the native libraries; see `scripts/prove-threads`."""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.threads_proof.child import DIED, DYING, ROUND, SUBJECTS

#: Freed memory is overwritten, buffers from 64 KiB on are mappings of their own, and Python's objects come from malloc.
ENVIRONMENT = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONMALLOC": "malloc"}
_TURN = 30.0  # seconds of one child
_PATIENCE = 180.0  # for a child to end after its time
_LONGEST_TRACE = 20_000
_DYING_THREAD = re.compile(r"^Current thread .*\n(?:  .*\n)*", re.MULTILINE)
_ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """What became of one subject."""

    subject: str
    rounds: int = 0
    #: How often by signal or exit code.
    deaths: Counter[str] = field(default_factory=Counter)
    #: What the first deaths left on stderr.
    traces: list[str] = field(default_factory=list)

    def add(self, output: str, errors: str, code: int | str) -> None:
        """Count one child: what it printed, and its exit code, or what else ended it."""
        lines = output.splitlines()
        self.rounds += lines.count(ROUND)
        ends = [int(line.removeprefix(f"{DIED} ")) for line in lines if line.startswith(DIED)]
        found = [*ends, *([code] if code else [])]
        self.deaths.update(_named(end) for end in found)
        if found and len(self.traces) < 3:
            self.traces.append(f"{', '.join(_named(end) for end in found)}\n{_stacks(errors)}")


def _stacks(errors: str) -> str:
    """What died, once for each death, and then the stacks of all threads at the first one."""
    dying = _DYING_THREAD.findall(errors)
    return "\n\n".join([*dying, errors[max(0, errors.find("Fatal Python error")) :][:_LONGEST_TRACE]])


def _named(code: int | str) -> str:
    if isinstance(code, str):
        return code
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def play(subject: str, seconds: float, seed: str, rounds: int = 0) -> Tally:
    """One child process. A child that does not end is killed and counts as dead."""
    tally = Tally(subject)
    command = (sys.executable, "-m", "tests.threads_proof.child", subject, str(seconds), str(rounds), seed)
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=_ROOT,
        env=os.environ | ENVIRONMENT,
    )
    try:
        output, errors = child.communicate(timeout=seconds + _PATIENCE)
        tally.add(output, errors, child.returncode)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)  # faulthandler writes where each thread is
        output, errors = child.communicate()
        tally.add(output, errors, "no end")
    return tally


def prove(subjects: Sequence[str], minutes: float, seed: int, rounds: int) -> list[Tally]:
    """The subjects in turns until the time is over, or each has had so many rounds (0: no limit)."""
    tallies = {subject: Tally(subject) for subject in subjects}
    until, turn = time.monotonic() + minutes * 60, 0
    while (left := until - time.monotonic()) > 0:
        waiting = [one for one in tallies.values() if not rounds or one.rounds < rounds]
        if not waiting:
            break
        tally = waiting[turn % len(waiting)]
        seconds = left if rounds else min(_TURN, max(1.0, minutes * 60 / len(subjects)), left)
        one = play(tally.subject, seconds, f"{seed} {turn}", rounds and rounds - tally.rounds)
        tally.rounds += one.rounds
        tally.deaths += one.deaths
        tally.traces += one.traces
        for trace in one.traces:
            print(f"\n{tally.subject}, turn {turn}: {trace}", flush=True)
        turn += 1
    return list(tallies.values())


def main() -> int:
    """The command line of `scripts/prove-threads`."""
    parser = argparse.ArgumentParser(
        prog="scripts/prove-threads", description="Prove that threads may share the native libraries."
    )
    parser.add_argument("minutes", nargs="?", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--only", choices=sorted(SUBJECTS | DYING), help="this subject alone")
    parser.add_argument(
        "--rounds", type=int, default=0, help="end a subject after so many rounds; the service's are starts"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    subjects = [options.only] if options.only else list(SUBJECTS)
    tallies = prove(subjects, options.minutes, options.seed, options.rounds)
    print(f"\n{'subject':<14}{'rounds':>8}{'deaths':>8}")
    for one in tallies:
        ends = ", ".join(f"{count} x {end}" for end, count in one.deaths.items())
        print(f"{one.subject:<14}{one.rounds:>8}{one.deaths.total():>8}  {ends}")
    idle = [one.subject for one in tallies if not one.rounds]
    if idle:
        print(f"no round of: {', '.join(idle)}")
    return 1 if idle or any(one.deaths for one in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
