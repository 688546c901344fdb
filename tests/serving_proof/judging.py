"""What must hold of an end: every request that was under way answered, every send journalled as the servers know it."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.sending.letters import Attempt, Letter
from tests.sending.proof import Stage, judge
from tests.serving_proof.asking import Told

WITHIN = 10.0
#: What is out for so many seconds before the first signal is under way: the listener has had the time to take it.
UNDER_WAY = 0.2
#: Seconds after the signal by which a slow reader who is to get everything wants to be through.
_READ_BY = 4.0
_PATIENCE = 40.0
#: What is no fault of ours, and no answer that a client could take for a success that was none.
_MAY_BE_TOLD = {200, 201, 202, 408, 409, 429, 503}


@dataclass
class Round:
    """One round, as it goes."""

    number: int
    how: str
    told: list[Told] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # what each SMTP server does
    signalled: float = 0.0
    ended: float = 0.0
    hurry: threading.Event = field(default_factory=threading.Event)  # it has ended
    code: int | None = None


def judge_answers(now: Round) -> None:
    """Of the signals and of what the clients were told. Raises AssertionError."""
    took = now.ended - now.signalled
    assert now.code == 0, f"it ended with {now.code}"
    assert took <= WITHIN, f"it took {took:.1f} s to end"
    for told in now.told:
        assert told.status is None or told.status in _MAY_BE_TOLD, f"{told}: {told.content[:300]!r}"
        if _was_under_way(told, now.signalled):
            assert told.is_whole, f"under way and not answered: {told}"


def _was_under_way(told: Told, signalled: float) -> bool:
    """Whether all of it had come before the first signal; of readers, those who want to be through soon."""
    if told.sent is None or told.sent > signalled - UNDER_WAY:
        return False
    return told.sent + told.request.reads < signalled + _READ_BY


def judge_log(folder: Path) -> None:
    """Nothing failed that must not. What was looked at is taken away."""
    for file in sorted((folder / "logs").glob("appliance.log*")):
        for line in file.read_text().splitlines():
            said = json.loads(line)
            assert said["level"] not in ("error", "critical"), line
        file.unlink()
    assert not (folder / "run.json").exists(), "run.json is left"


def settle(stage: Stage, now: Round) -> None:
    """Start again; every send is repeated until it is over, and held against what the servers have."""
    stage.appliance.start()
    answers = {told.request.fields["Idempotency-Key"]: told for told in now.told if told.request.kind == "send"}
    for letter in now.letters:
        for attempt in letter.attempts:
            _take_up(attempt, answers[attempt.key])
            attempt.insist(stage.appliance, _PATIENCE)
            assert attempt.problem is None, attempt.problem
    try:
        judge(stage, now.letters)
    except AssertionError as error:
        raise AssertionError(f"{error}; {_story(stage, now)}") from error
    made = [told.data["id"] for told in now.told if told.request.kind == "backup" and told.status == 201]
    kept = {one["id"] for one in stage.appliance.ask("GET", "/admin/backups").data["items"]}
    assert kept.issuperset(made), "a backup that was told of is not there"
    for told in now.told:
        told.content = b""  # there are many, and some are large
    assert stage.appliance.stop() == 0


def _story(stage: Stage, now: Round) -> str:
    """What helps to understand a round that does not hold."""
    operations = [
        stage.appliance.ask("GET", f"/accounts/{attempt.account}/delivery-operations/{attempt.operation_id}").body
        for letter in now.letters
        for attempt in letter.attempts
    ]
    said = [
        (one.said, f"{one.at - now.signalled:.2f}", f"{one.said_at - now.signalled:.2f}")
        for letter in now.letters
        for one in stage.handed(letter.subject)
    ]
    sends = [str(told) for told in now.told if told.request.kind == "send"]
    return f"{now.how}, ended after {now.ended - now.signalled:.2f} s; {now.held}; {said}; {sends}; {operations}"


def _take_up(attempt: Attempt, told: Told) -> None:
    """What a client was told before the end counts after it."""
    if told.status in (200, 202) and told.is_whole:
        attempt.operation_id, attempt.status = told.data["operationId"], told.data["status"]


def shown(rounds: Sequence[Round]) -> str:
    """What was done, in a line or two."""
    kinds = Counter(told.request.kind for one in rounds for told in one.told)
    statuses = Counter(str(told.status or "closed") for one in rounds for told in one.told)
    under_way = sum(_was_under_way(told, one.signalled) for one in rounds for told in one.told)
    took = sorted(one.ended - one.signalled for one in rounds)
    asked = f"{sum(kinds.values())} requests ({_listed(kinds)}), {under_way} of them under way"
    sent = Counter(
        attempt.status or "not accepted" for one in rounds for letter in one.letters for attempt in letter.attempts
    )
    return (
        f"{len(rounds)} ends, {asked}: {_listed(statuses)}\n"
        f"  sends after the next start: {_listed(sent)}\n"
        f"  signals: {_listed(Counter(one.how for one in rounds))}\n"
        f"  from signal to end: median {took[len(took) // 2]:.1f} s, longest {took[-1]:.1f} s"
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.most_common())
