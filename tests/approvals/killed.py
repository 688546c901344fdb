"""Proves that no message goes out that nobody approved, and that no approval is lost, while the appliance is killed.

In every round an API key sends messages that must be approved, a person approves some, rejects some and leaves some,
and the appliance is killed with -9 at one step: during the acceptance, during the decisions, or while the messages are
submitted. Every request is repeated until it is answered. Then, for each message:

    the server has accepted at most one copy, and it has the digest that was approved
    a copy: the approval was requested before it arrived        rejected, or left: no copy
    an answered decision stays, after any number of kills       approved: succeeded, or uncertain if killed at the dot

After all rounds, each message that was left still waits, and is sent once it is approved.
"""

import hashlib
import http.client
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from mailbox_appliance.clock import to_timestamp
from tests.sending.proof import ENVIRONMENT, Stage
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer, RunningAppliance
from tests.servers.smtp_script import Delay, Step

PATIENCE = 60.0
Killed = Literal["acceptance", "decision", "dot"]
KILLED: tuple[Killed, ...] = ("acceptance", "decision", "dot")
Plan = Literal["approve", "reject", "leave"]
_PLANS: tuple[Plan, ...] = ("approve", "reject", "leave")
_SLOW: tuple[Step, ...] = ("connect", "mail", "rcpt", "data", "body", "dot", "reply")


@dataclass
class Note:
    """A message, identified by its subject, and what its clients were told."""

    subject: str
    account: str
    plan: Plan
    body: dict[str, Any] = field(repr=False)
    operation_id: str = ""
    approval_id: str = ""
    digest: str = ""
    asked_at: float | None = None  # time.monotonic(): when the approval was first requested


@dataclass
class Scene:
    """The stage, and the API key that sends; the session of the stage's appliance decides."""

    stage: Stage
    key: str
    notes: list[Note] = field(default_factory=list)

    @property
    def appliance(self) -> RunningAppliance:
        """The appliance that is killed."""
        return self.stage.appliance

    def insist(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """Repeat a request until it is answered."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                answer = self.appliance.ask(method, path, body, **more)
            except (OSError, http.client.HTTPException, ValueError):
                answer = None
            if answer is not None and answer.status not in (429, 503):
                return answer
            time.sleep(0.03)
        raise AssertionError(f"no answer to {method} {path}")

    def accept(self, note: Note) -> None:
        """Send the message by the key, until it is accepted."""
        path = f"/accounts/{note.account}/send"
        answer = self.insist("POST", path, note.body, token=self.key, Idempotency_Key=note.subject)
        if answer.status == 400 and note.body.pop("sendAt", None):  # not accepted before its time had passed
            answer = self.insist("POST", path, note.body, token=self.key, Idempotency_Key=note.subject)
        assert answer.status == 202, f"{note}: {answer.body}"
        assert answer.data["status"] == "queued", f"{note}: {answer.body}"
        note.operation_id = answer.data["operationId"]

    def find(self, note: Note) -> dict[str, Any]:
        """Return the message's approval."""
        if note.approval_id:
            found: dict[str, Any] = self.insist("GET", f"/approvals/{note.approval_id}").data
            return found
        listed = self.insist("GET", "/approvals?limit=100").data["items"]
        (found,) = (each for each in listed if each["operationId"] == note.operation_id)
        note.approval_id, note.digest = found["id"], found["digest"]
        return found

    def decide(self, note: Note) -> None:
        """Do what is planned, until it is answered; an answer may have been lost with the process."""
        self.find(note)
        if note.plan == "leave":
            return
        if note.plan == "approve":
            note.asked_at = time.monotonic()
        body = {"digest": note.digest} if note.plan == "approve" else {}
        answer = self.insist("POST", f"/approvals/{note.approval_id}/{note.plan}", body)
        wanted = "approved" if note.plan == "approve" else "rejected"
        assert answer.status in (200, 409), f"{note}: {answer.body}"
        assert self.find(note)["status"] == wanted, f"a decision was lost: {note}: {answer.body}"

    def operation(self, note: Note) -> dict[str, Any]:
        """Return the delivery operation."""
        path = f"/accounts/{note.account}/delivery-operations/{note.operation_id}"
        found: dict[str, Any] = self.insist("GET", path, token=self.key).data
        return found

    def kill(self) -> None:
        """Kill the appliance, and start it again."""
        self.appliance.kill()
        self.appliance.start()


@contextmanager
def staged(mail: MailServer, folder: Path) -> Iterator[Scene]:
    """Yield an appliance with mailboxes whose policy asks for an approval of every message."""
    stage = Stage(RunningAppliance(folder, ENVIRONMENT).start(), mail)
    try:
        stage.appliance.set_up()
        for _ in range(2):
            stage.add_mailbox()
        for account in stage.accounts:
            answer = stage.appliance.ask("PUT", f"/accounts/{account}/sending-policy", {"approval": "always"})
            assert answer.status == 200, answer
        made = stage.appliance.ask("POST", "/me/api-keys", {"name": "Agent", "permissionProfile": "full"})
        yield Scene(stage, made.data["token"])
        assert stage.appliance.stop() == 0
    finally:
        stage.clear()


def play(scene: Scene, seed: int, number: int) -> Counter[str]:
    """Play one round; return how often each outcome occurred. Raises AssertionError if a rule is broken."""
    chance = random.Random(f"approvals/{seed}/{number}")
    killed = KILLED[number % len(KILLED)]
    notes = [_note(scene, chance, f"a{number}-{index}-{seed}") for index in range(chance.randint(3, 6))]
    scene.notes += notes
    for server in scene.stage.servers:
        for step in _SLOW:
            slow = killed == "dot" and chance.random() < 0.5
            server.at(step, [Delay(chance.uniform(0.02, 0.4))] * 6 if slow else [])
    _together(scene, scene.accept, notes, chance.uniform(0.0, 0.15) if killed == "acceptance" else None)
    assert not any(scene.stage.copies()[note.subject] for note in notes), "sent before anybody approved it"
    _together(scene, scene.decide, notes, chance.uniform(0.0, 0.12) if killed == "decision" else None)
    if killed == "dot":
        time.sleep(chance.uniform(0.0, 0.8))
        scene.kill()
    for server in scene.stage.servers:
        for step in _SLOW:
            server.at(step, [])
    return Counter(_judge(scene, note, killed) for note in notes)


def _note(scene: Scene, chance: random.Random, subject: str) -> Note:
    to = [{"email": f"{name}@example.test"} for name in chance.sample(("bob", "eve", "dan"), chance.randint(1, 3))]
    body: dict[str, Any] = {"subject": subject, "to": to, "body": {"text": "Hello\n.\nthere\n"}}
    if chance.random() < 0.3:
        body["sendAt"] = to_timestamp(datetime.now(UTC) + timedelta(seconds=chance.uniform(0.2, 2)))
    plan = chance.choices(_PLANS, (6, 2, 1))[0]
    return Note(subject, chance.choice(scene.stage.accounts), plan, body)


def _together(scene: Scene, act: Callable[[Note], None], notes: Sequence[Note], kill_after: float | None) -> None:
    problems: list[BaseException] = []

    def run(note: Note) -> None:
        try:
            act(note)
        except (AssertionError, KeyError, OSError) as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(note,)) for note in notes]
    for thread in threads:
        thread.start()
    if kill_after is not None:
        time.sleep(kill_after)
        scene.kill()
    for thread in threads:
        thread.join(PATIENCE + 10)
    if problems:
        raise problems[0]


def _judge(scene: Scene, note: Note, killed: Killed) -> str:
    if note.plan == "approve":
        wait_until(
            lambda: scene.operation(note)["status"] not in ("queued", "sending"),
            lambda: f"{note} does not end: {scene.operation(note)}",
            PATIENCE,
        )
    found, approval = scene.operation(note), scene.find(note)
    copies = [message for server in scene.stage.servers for message in server.messages if _is(note, message.source)]
    story = f"{note}: {found}, {approval['status']}, {len(copies)} copies"
    assert len(copies) <= 1, f"delivered twice: {story}"
    for handed in scene.stage.handed(note.subject):
        assert note.asked_at is not None, f"not approved: {story}"
        assert handed.at > note.asked_at, f"sent before it was approved: {story}"
        assert note.digest == f"sha256:{hashlib.sha256(handed.source).hexdigest()}", f"other bytes: {story}"
    if note.plan == "approve":
        assert approval["status"] == "approved", f"an approval was lost: {story}"
        assert found["status"] == "succeeded" or (found["status"] == "uncertain" and killed != "acceptance"), story
        assert copies or found["status"] == "uncertain", f"a success without a message: {story}"
    elif note.plan == "reject":
        assert (approval["status"], found["status"]) == ("rejected", "failed"), story
        assert found["error"]["code"] == "approval_rejected", story
    else:
        assert (approval["status"], found["status"]) == ("pending", "queued"), story
    return "left" if note.plan == "leave" else str(found["status"])


def _is(note: Note, source: bytes) -> bool:
    return f"Subject: {note.subject}\r\n".encode() in source


def check_all(scene: Scene) -> None:
    """After a last kill, check that every message that was left still waits, and goes out once it is approved."""
    scene.kill()
    left = [note for note in scene.notes if note.plan == "leave"]
    for note in left:
        assert scene.find(note)["status"] == "pending", note
        note.plan = "approve"
        scene.decide(note)
    for note in scene.notes:
        _judge(scene, note, "dot")


def prove(mail: MailServer, folder: Path, numbers: Sequence[int], seed: int) -> Counter[str]:
    """Play these rounds and check everything at the end; return how often each outcome occurred."""
    outcomes: Counter[str] = Counter()
    with staged(mail, folder) as scene:
        for done, number in enumerate(numbers, 1):
            try:
                outcomes += play(scene, seed, number)
            except AssertionError as error:
                raise AssertionError(f"round {number} of seed {seed}: {error}") from error
            if done % 50 == 0:
                print(f"{done} of {len(numbers)} rounds: {dict(outcomes)}", file=sys.stderr, flush=True)
        check_all(scene)
    return outcomes
