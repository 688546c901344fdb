"""Proves that whatever is done to a store, and wherever that ends or fails, what is left is the old store or the new.

Each action is done once without a fault, under strace, which says which of its system calls change the directory. In
every round then a copy of the directory meets one fault:

    kill -9 at one of these calls, which is not carried out any more
    EIO or ENOSPC as the answer to one of them, or to it and all that follow
    a file system that is too small

`scripts/prove-store` plays many rounds, the test suite a few. A round depends on the seed and its number alone.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tests.store_proof.actions import ACTIONS, Action, Breach, Known
from tests.store_proof.children import (
    Ended,
    Step,
    can_mount,
    can_trace,
    run_on_disk,
    run_with,
    steps_of,
)
from tests.store_proof.directories import copy
from tests.store_proof.durability import unsynced
from tests.store_proof.hazards import Hazard, SmallDisk, plan_of
from tests.store_proof.judging import Verdict, judge, known_of
from tests.store_proof.looking import Witnesses


@dataclass(frozen=True)
class Scene:
    """An action with its directory, what is known of it, and the steps that it goes through."""

    action: Action
    template: Path
    known: Known
    steps: Sequence[Step]
    plan: Sequence[Hazard]


@dataclass
class Tally:
    """What came out of the rounds of one action."""

    steps: int = 0
    rounds: int = 0
    seconds: float = 0
    ended: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """One round more that holds."""
        self.rounds += 1
        self.ended[verdict.ended] += 1
        self.left[verdict.left] += 1


# --- a round ----------------------------------------------------------------------------------------------------------


def scene_of(action: Action, base: Path, seed: int, rounds: int, witnesses: Witnesses) -> Scene:
    """Make an action's directory and do the action without a fault."""
    place = base / action.name.replace(" ", "-")
    place.mkdir()
    template, done = place / "template", place / "done"
    action.make(template)
    if template.exists():
        copy(template, done)
    steps, ended = steps_of(done, action.argv_on(template), action.given)
    if ended.code != 0 or not steps:
        raise Breach(f"without a fault: exit code {ended.code}, {len(steps)} steps: {ended.complaints}")
    if found := unsynced(steps, done):
        raise Breach(f"a power failure may undo it: {'; '.join(found)}")
    known = known_of(action, template, place / "other", done, witnesses)
    plan = plan_of(steps, _size(template), random.Random(f"{seed}/{action.name}"), disks=can_mount())
    return Scene(action, template, known, steps, list(islice(plan, rounds)))


def _size(folder: Path) -> int:
    """KiB; nothing where there is no folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) // 1024


def play(scene: Scene, number: int, witnesses: Witnesses) -> Verdict:
    """One round. Raises Breach where what is left is neither the old store nor the new one."""
    fault, folder = scene.plan[number], scene.template.with_name(f"round-{number:04}")
    ended = suffer(scene, fault, folder)
    try:
        verdict = judge(scene.action, scene.known, scene.template, folder, ended, witnesses)
    except Breach as breach:
        raise Breach(f"{scene.action.name}, round {number}, {fault}{_step(scene, fault)}: {breach}") from breach
    for left in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(left)
    return verdict


def suffer(scene: Scene, fault: Hazard, folder: Path) -> Ended:
    """Do the action on a copy of its directory, with the fault."""
    argv = scene.action.argv_on(scene.template)
    if isinstance(fault, SmallDisk):
        ended = run_on_disk(fault.size, scene.template, folder, argv, scene.action.given)
    else:
        if scene.template.exists():
            copy(scene.template, folder)
        ended = run_with(fault, folder, argv, scene.action.given)
    folder.mkdir(mode=0o700, exist_ok=True)  # where it ended before there was one
    return ended


def _step(scene: Scene, fault: Hazard) -> str:
    if isinstance(fault, SmallDisk):
        return ""
    return next(
        (
            f" ({step.text})"
            for step in scene.steps
            if (step.call, step.nth, step.file) == (fault.call, fault.nth, fault.file)
        ),
        "",
    )


# --- the whole --------------------------------------------------------------------------------------------------------


@contextmanager
def witnesses_for(jobs: int) -> Iterator[list[Witnesses]]:
    """One for each round that goes on at the same time."""
    made = [Witnesses() for _ in range(jobs)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def prove(actions: Sequence[Action], base: Path, seed: int, rounds: int, jobs: int = 2) -> dict[str, Tally]:
    """Play so many rounds of each action; answers what came out, breaches included."""
    told: dict[str, Tally] = {}
    with witnesses_for(jobs) as made:
        for action in actions:
            began, tally = time.monotonic(), told.setdefault(action.name, Tally())
            try:
                scene = scene_of(action, base, seed, rounds, made[0])
            except AssertionError as breach:
                tally.breaches.append(f"{action.name}: {breach}")
                continue
            tally.steps = len(scene.steps)
            play_all(scene, range(rounds), made, tally)
            tally.seconds = time.monotonic() - began
            if sys.stderr.isatty():
                print(f"{action.name}: {tally.rounds} rounds in {tally.seconds:.0f} s", file=sys.stderr)
    return told


def play_all(scene: Scene, numbers: Sequence[int], witnesses: Sequence[Witnesses], tally: Tally) -> None:
    """These rounds, as many at the same time as there are witnesses."""

    def work(share: int) -> None:
        for number in numbers[share :: len(witnesses)]:
            try:
                tally.add(play(scene, number, witnesses[share]))
            except AssertionError as breach:
                tally.breaches.append(str(breach))

    with ThreadPoolExecutor(len(witnesses)) as pool:
        for done in [pool.submit(work, share) for share in range(len(witnesses))]:
            done.result()


def table(told: dict[str, Tally]) -> str:
    """What came out, one line for each action."""
    lines = [f"{'action':<20}{'steps':>7}{'rounds':>7}{'old':>6}{'new':>6}{'broken':>7}{'s':>6}  how it ended"]
    for name, tally in told.items():
        ended = ", ".join(f"{count} {how}" for how, count in tally.ended.most_common())
        numbers = f"{tally.steps:>7}{tally.rounds:>7}{tally.left['old']:>6}{tally.left['new']:>6}"
        lines.append(f"{name:<20}{numbers}{len(tally.breaches):>7}{tally.seconds:>6.0f}  {ended}")
    return "\n".join(lines)


def main() -> int:
    """The command line of `scripts/prove-store`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-store", description="Prove that a store survives.")
    parser.add_argument("--rounds", type=int, default=300, help="how many rounds over all actions (default 300)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    parser.add_argument("--only", choices=sorted(ACTIONS), help="this action alone")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at the same time (default 2)")
    parser.add_argument("--keep", type=Path, help="leave the directories of rounds that do not hold below this folder")
    given = parser.parse_args()
    if reason := can_trace():
        print(f"prove-store: {reason}", file=sys.stderr)
        return 1
    if not can_mount():
        print("prove-store: NO FULL DISKS: no small file system can be mounted here (that takes root)", file=sys.stderr)
    actions = [ACTIONS[given.only]] if given.only else list(ACTIONS.values())
    print(f"seed {given.seed}, {given.rounds} rounds of {len(actions)} actions", flush=True)
    with tempfile.TemporaryDirectory(prefix="prove-store-", dir=given.keep or "/tmp") as name:
        told = prove(actions, Path(name), given.seed, -(-given.rounds // len(actions)), given.jobs)
        if given.keep:
            shutil.copytree(name, f"{name}-kept", symlinks=True)
    print(table(told))
    breaches = [breach for tally in told.values() for breach in tally.breaches]
    for breach in breaches:
        print(f"FAILED {breach}", file=sys.stderr)
    print(f"{sum(tally.rounds for tally in told.values())} rounds hold, {len(breaches)} do not")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
