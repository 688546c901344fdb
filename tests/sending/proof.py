"""Proves that each idempotency key sends at most one message, and that no status is wrong, while processes are killed.

In every round clients send with keys against servers that delay, refuse or drop at any step. The appliance is killed
with -9 at a random moment and started again, and every request is repeated until it is answered. Then, for each key:

    the server has accepted at most one copy          succeeded: it has one         failed: it has none
    uncertain: the dot may have gone out, and no reply that decides can have been recorded
    an answer to a client stays true, and after all rounds every succeeded message is in Sent exactly once

`scripts/prove-delivery` runs many rounds, the test suite a few. A round depends only on the seed and its number.
"""

import argparse
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mailbox_appliance.clock import to_timestamp
from tests.sending.letters import Attempt, Letter
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import CLOSE, DROP, Action, Delay, Handed, Keep, Lose, Step

ENVIRONMENT = {
    "MAILBOX_APPLIANCE_SERVER_WORKERS": "24",
    "MAILBOX_APPLIANCE_SERVER_WAITING_WORKERS": "16",
    "MAILBOX_APPLIANCE_SENDING_ANSWER_WITHIN": "1",
    "MAILBOX_APPLIANCE_LOG_LEVEL": "warning",
}
MAILBOXES = 3
PATIENCE = 60.0
#: Seconds between the record of the dot and the dot on the wire, and between its reply and the outcome in the journal.
_SLOWEST = 1.0
_SUBJECT = re.compile(rb"^Subject: (.*?)\r?$", re.M)

#: What a server may do before the dot, after which nobody receives the message.
BEFORE: tuple[Action, ...] = ("451 4.3.0 later", "421 4.3.2 closing", DROP, CLOSE, b"\xff\xfe\r\n")
TROUBLE: dict[Step, tuple[Action, ...]] = {
    "connect": ("554 5.7.1 go away", *BEFORE),
    "ehlo": ("550 5.0.0 no", *BEFORE),
    "auth": ("454 4.7.0 later", *BEFORE),
    "mail": ("550 5.1.8 not you", "452 4.3.1 full", *BEFORE),
    "rcpt": ("550 5.1.1 unknown", "450 4.2.1 busy", *BEFORE),
    "data": ("554 5.6.0 no", *BEFORE),
    "body": (DROP, CLOSE, "421 4.3.2 closing"),
    "dot": (DROP, CLOSE, "451 4.3.0 lost", "421 4.3.2 closing", "554 5.7.1 lost", b"hm\r\n"),
    "reply": (
        Keep(DROP),
        Keep(CLOSE),
        Keep("421 4.3.2 closing"),
        Keep(b"hm\r\n"),
        Lose(DROP),
        Lose("554 5.7.1 no"),
        Lose("452 4.3.1 full"),
        Keep(Delay(0.3)),
    ),
    "quit": (DROP, CLOSE, b"", "500 what"),
}


@dataclass
class Stage:
    """The appliance, its mailboxes and their servers, and the state of every message so far."""

    appliance: RunningAppliance
    mail: MailServer
    users: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    servers: list[ScriptedSmtp] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)  # time.monotonic()

    def add_mailbox(self) -> None:
        """Connect another mailbox, with an SMTP server of its own."""
        self.users.append(user := self.mail.fresh_user())
        self.servers.append(server := ScriptedSmtp(user=user).start())
        self.accounts.append(self.appliance.connect(user, imap_port=self.mail.imap_port, smtp_port=server.port))

    def clear(self) -> None:
        """Stop everything that still runs."""
        process = self.appliance.process
        if process is not None and process.poll() is None:
            self.appliance.kill()
        for server in self.servers:
            server.stop()

    def copies(self) -> Counter[str]:
        """Return how many copies of each message the servers have accepted."""
        return Counter(_subject(message.source) for server in self.servers for message in server.messages)

    def handed(self, subject: str) -> list[Handed]:
        """Return every arrival of the final dot of a message."""
        return [one for server in self.servers for one in server.handed if _subject(one.source) == subject]


def _subject(source: bytes) -> str:
    found = _SUBJECT.search(source)
    return found[1].decode() if found else ""


@contextmanager
def staged(mail: MailServer, folder: Path) -> Iterator[Stage]:
    """Yield an appliance with a few mailboxes, each with a scripted server."""
    stage = Stage(RunningAppliance(folder, ENVIRONMENT).start(), mail)
    try:
        stage.appliance.set_up()
        for _ in range(MAILBOXES):
            stage.add_mailbox()
        yield stage
        assert stage.appliance.stop() == 0
    finally:
        stage.clear()


# --- a round ----------------------------------------------------------------------------------------------------------


def play(stage: Stage, seed: int, number: int) -> Counter[str]:
    """Play one round; return how often each status occurred. Raises AssertionError if a rule is broken."""
    chance = random.Random(f"{seed}/{number}")
    letters = [_letter(stage, chance, f"r{number}-{index}-{seed}") for index in range(chance.randint(4, 8))]
    stage.letters += letters
    for server in stage.servers:
        _script(server, chance)
    attempts = [attempt for letter in letters for attempt in letter.attempts]
    threads = [threading.Thread(target=attempt.insist, args=(stage.appliance, PATIENCE)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        time.sleep(chance.uniform(0.0, 0.7))
        stage.kills.append(time.monotonic())
        stage.appliance.kill()
        stage.appliance.start()
    time.sleep(chance.uniform(0.0, 0.4))
    for server in stage.servers:
        calm(server)
    for thread in threads:
        thread.join(PATIENCE + 10)
        assert not thread.is_alive(), "a client gets no answer"
    for attempt in attempts:
        attempt.take_back_if_waiting(stage.appliance)
    judge(stage, letters)
    outcomes = Counter(attempt.status or "not accepted" for attempt in attempts)
    _settle_some(stage, letters, chance)
    return outcomes


def _settle_some(stage: Stage, letters: Sequence[Letter], chance: random.Random) -> None:
    """Resolve some uncertain operations as a person who knows what arrived; from then on they follow the same rules."""
    copies = stage.copies()
    for letter in letters:
        if "uncertain" in letter.statuses().values() and chance.random() < 0.5:
            letter.settle(stage.appliance, "succeeded" if copies[letter.subject] else "failed")


def _script(server: ScriptedSmtp, chance: random.Random) -> None:
    for step, troubles in TROUBLE.items():
        actions: list[Action] = []
        for _ in range(chance.choice((0, 0, 1, 2))):
            trouble = chance.choice(troubles)
            if step not in ("reply", "body") and chance.random() < 0.3:
                trouble = Delay(chance.uniform(0.01, 0.4), trouble)
            actions.append(trouble if chance.random() < 0.6 else None)
        server.at(step, actions)


def calm(server: ScriptedSmtp) -> None:
    """Make the server behave normally from now on; connections that it holds stay held."""
    for step in TROUBLE:
        server.at(step, [])


def _letter(stage: Stage, chance: random.Random, subject: str) -> Letter:
    account = chance.choice(stage.accounts)
    message: dict[str, Any] = {
        "subject": subject,
        "to": [
            {"email": f"{name}@example.test"} for name in chance.sample(("bob", "eve", "dan"), chance.randint(1, 3))
        ],
        "body": {"text": "Hello\n.\nthere\n" * chance.choice((1, 1, 1, 4000))},
    }
    kind = chance.choices(("plain", "twice", "scheduled", "draft"), (6, 2, 3, 2))[0]
    if kind == "scheduled":
        moment = datetime.now(UTC) + timedelta(seconds=chance.uniform(0.1, 1.5))
        message["sendAt"] = to_timestamp(moment)
    if kind == "draft":
        draft = stage.appliance.ask("POST", f"/accounts/{account}/drafts", message)
        assert draft.status == 201, draft
        message = {"draftId": draft.data["id"]}
    keys = [f"{subject}-a", f"{subject}-b"] if kind == "draft" else [f"{subject}-a"] * (2 if kind == "twice" else 1)
    return Letter(subject, account, [Attempt(account, key, message) for key in keys])


# --- the rules --------------------------------------------------------------------------------------------------------


def judge(stage: Stage, letters: Sequence[Letter]) -> None:
    """Compare the outcome of each message with the servers. Raises AssertionError."""
    copies = stage.copies()
    for letter in letters:
        _judge_letter(stage, letter, copies[letter.subject])


def _judge_letter(stage: Stage, letter: Letter, copies: int) -> None:
    story = f"{letter}: {copies} copies, {[handed.said for handed in stage.handed(letter.subject)]}"
    statuses = letter.statuses()
    assert copies <= 1, f"delivered twice: {story}"
    assert len({attempt.operation_id for attempt in letter.attempts if attempt.operation_id}) <= len(letter.keys()), (
        story
    )
    if "succeeded" in statuses:
        assert copies == 1, f"a success without a message: {story}"
        assert len([status for status in statuses.values() if status in ("succeeded", "uncertain")]) == 1, story
    if copies == 1:
        assert set(statuses.values()) & {"succeeded", "uncertain"}, f"a message that nobody owns to: {story}"
    if "uncertain" in statuses.values():
        handed = stage.handed(letter.subject)
        # The dot may have been on its way when the server disconnected, or the process died, during the body.
        assert not handed or _may_doubt(stage, handed[-1]), f"doubt without a reason: {story}"


def _may_doubt(stage: Stage, handed: Handed) -> bool:
    """Whether uncertain is right: no reply that decides came, or the appliance was killed before its record."""
    if not handed.is_decided:
        return True
    return any(handed.at - _SLOWEST < killed < handed.said_at + _SLOWEST for killed in stage.kills)


def check_all(stage: Stage) -> None:
    """After a last kill, check that every answer is unchanged, and that Sent has each succeeded message once and no
    other.
    """
    stage.appliance.kill()
    stage.appliance.start()
    copies = stage.copies()
    for letter in stage.letters:
        assert copies[letter.subject] <= 1, letter
        for attempt in letter.attempts:
            attempt.check_unchanged(stage.appliance)
    for user, account in zip(stage.users, stage.accounts, strict=True):
        _check_sent(stage, user, account)


def _check_sent(stage: Stage, user: str, account: str) -> None:
    letters = [letter for letter in stage.letters if letter.account == account]
    expected = Counter(letter.subject for letter in letters if "succeeded" in letter.statuses().values())

    def filed() -> Counter[str]:
        return Counter(_subject(source) for source in stage.mail.messages(user, "Sent"))

    def difference() -> str:
        there = filed()
        return f"Sent has too many: {there - expected}, and lacks {expected - there}"

    wait_until(lambda: filed() == expected, difference, 150)


# --- all rounds -------------------------------------------------------------------------------------------------------


def prove(mail: MailServer, folder: Path, numbers: Sequence[int], seed: int) -> Counter[str]:
    """Play these rounds and check everything at the end; return how often each status occurred."""
    outcomes: Counter[str] = Counter()
    with staged(mail, folder) as stage:
        for done, number in enumerate(numbers, 1):
            try:
                outcomes += play(stage, seed, number)
            except AssertionError as error:
                raise AssertionError(f"round {number} of seed {seed}: {error}") from error
            if sys.stderr.isatty() or done % 50 == 0:
                print(f"\r{done} of {len(numbers)} rounds: {dict(outcomes)}", end="", file=sys.stderr, flush=True)
        check_all(stage)
    return outcomes


def main() -> int:
    """Run the command line of `scripts/prove-delivery`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-delivery", description="Prove at most once, with kill -9.")
    parser.add_argument("--rounds", type=int, default=500, help="how many rounds (default 500)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    parser.add_argument("--round", type=int, help="play this round of the seed alone")
    given = parser.parse_args()
    numbers = [given.round] if given.round is not None else list(range(given.rounds))
    print(f"seed {given.seed}, {len(numbers)} rounds", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        mail = MailServer()
        mail.start(folder)
        try:
            outcomes = prove(mail, folder / "data", numbers, given.seed)
        except AssertionError as error:
            print(f"\nFAILED {error}\nrepeat it: scripts/prove-delivery --seed {given.seed} --round N", file=sys.stderr)
            return 1
        finally:
            mail.stop()
    told = ", ".join(f"{count} {status}" for status, count in sorted(outcomes.items()))
    print(f"\n{len(numbers)} rounds in {time.monotonic() - began:.0f} s hold: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
