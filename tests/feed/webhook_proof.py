"""Proves that webhooks hold: every event arrives at least once and in order, while targets misbehave and processes die.

    calm ...... targets that behave get events; their delay is measured
    crowded ... some of these lie in their answers now, and others are slow, fail and hang; it may take twice as long
    killed .... the appliance is killed with -9 at random moments, and a secret is rotated
    later ..... an hour has passed, and every target behaves

Then each target has got each event: in order for each mailbox, with the same `webhook-id` each time, verified by the
library of the standard. `scripts/prove-webhooks` runs many rounds, the test suite a short one.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any

from mailbox_appliance.clock import from_timestamp
from tests.feed import later
from tests.feed.following import all_events, events
from tests.feed.targets import ACCEPTING, REFUSING, Got, Target, hangs_after
from tests.servers.certificates import server_context
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance

AT_ONCE = 8
UNTRUSTED = "has another certificate"
_HEALTHY, _MAILBOXES, _A_MEMBER = 6, 2, 20
_HOUR = 3600.0
_LETTER = (
    b"From: ann@example.org\r\nTo: bob@example.org\r\nSubject: %b\r\nMessage-ID: <%b@example.org>\r\n\r\nHello\r\n"
)
_numbers = count(1)


@dataclass(frozen=True)
class Size:
    """The size of a round. `hanging`: targets that hang. `kills`: at least one.

    `measured`: letters while delays are measured: so many that the half second does not count in which targets that
    begin to hang are noticed. `letters`: while the appliance is killed.
    """

    measured: int = 150
    letters: int = 60
    hanging: int = 20
    kills: int = 5
    pause: float = 0.15


@dataclass(frozen=True)
class Delays:
    """The p95 of the seconds from the commit of an event to its arrival at targets that behave."""

    calm: float
    crowded: float


@dataclass
class Hook:
    """A webhook at a target, and the secrets that verify its requests, with when each began."""

    target: Target
    token: str
    id: str
    secrets: list[tuple[float, str]] = field(default_factory=list)
    #: How many events there were before it.
    skipped: int = 0


@dataclass
class Stage:
    """An appliance, its mailboxes, and webhooks of several members."""

    running: RunningAppliance
    mail: MailServer
    token: str
    start: str
    #: Where the target with the wrong certificate goes in the end.
    moved: Target
    users: list[str] = field(default_factory=list)
    healthy: list[Hook] = field(default_factory=list)
    others: list[Hook] = field(default_factory=list)

    @property
    def hooks(self) -> list[Hook]:
        """All webhooks."""
        return self.healthy + self.others

    def deliver(self, letters: int, pause: float) -> None:
        """Let letters come, one after the other, to one mailbox after the other."""
        for _ in range(letters):
            number = next(_numbers)
            subject = b"letter%d" % number
            self.mail.deliver(self.users[number % len(self.users)], _LETTER % (subject, subject))
            time.sleep(pause)

    def events(self) -> list[dict[str, Any]]:
        """All events since the beginning, as they are listed now."""
        return all_events(self.running, self.token, self.start, types="message.created", limit=100)

    def await_letters(self, count: int, hooks: Sequence[Hook]) -> None:
        """Wait until there are this many events, and these webhooks have sent them all."""
        wait_until(lambda: len(self.events()) >= count, lambda: f"{len(self.events())} of {count} events", 60)
        listed = self.events()

        def missing() -> dict[str, int]:
            return {one.target.name: lacks for one in hooks if (lacks := _lacks(one, listed))}

        wait_until(lambda: not missing(), lambda: f"events are missing: {missing()}", 60)


def _lacks(hook: Hook, listed: Sequence[dict[str, Any]]) -> int:
    wanted = {event["id"] for event in listed[hook.skipped :]}
    return len(wanted - {got.headers["webhook-id"] for got in tuple(hook.target.got)})


@contextmanager
def staged(mail: MailServer, folder: Path, size: Size) -> Iterator[Stage]:
    """Yield an appliance with mailboxes that all members read, and targets without webhooks for those who misbehave."""
    right, wrong = server_context(folder / "right"), server_context(folder / "wrong")
    environment = {
        "MAILBOX_APPLIANCE_BACKUP_DAILY": "no",
        "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        "MAILBOX_APPLIANCE_LOG_LEVEL": "warning",
        "MAILBOX_APPLIANCE_REMOTE_CA_FILE": str(folder / "right" / "ca.pem"),
        "MAILBOX_APPLIANCE_WEBHOOKS_ALLOW_PRIVATE": "yes",
    }
    running = RunningAppliance(folder / "data", environment, later.ARGV).start()
    with ExitStack() as open_targets:
        try:
            token = running.set_up()
            stage = Stage(running, mail, token, "", open_targets.enter_context(Target("moved")))
            for _ in range(_MAILBOXES):
                _connect(stage)
            stage.start = events(running, token)["nextPosition"]
            for number in range(_HEALTHY):
                secure = number % 2 == 1
                target = open_targets.enter_context(Target(f"healthy {number}", None, right if secure else None))
                stage.healthy.append(_create(stage, token, target, includeBody=secure))
            behaviors = {**ACCEPTING, **REFUSING, **{f"hangs {one}": hangs_after() for one in range(size.hanging)}}
            targets = [Target(name, behave) for name, behave in behaviors.items()]
            targets.append(Target(UNTRUSTED, None, wrong))
            for number, target in enumerate(targets):
                if number % _A_MEMBER == 0:
                    token = _add_member(stage, number)
                stage.others.append(Hook(open_targets.enter_context(target), token, ""))
            yield stage
            assert running.stop() == 0
        finally:
            if running.is_alive:
                running.kill()


def _connect(stage: Stage) -> None:
    user = stage.mail.fresh_user()
    account = stage.running.connect(user, imap_port=stage.mail.imap_port, smtp_port=stage.mail.submission_port)
    access = {"sharedWithAll": True, "memberIds": []}
    assert stage.running.ask("PUT", f"/accounts/{account}/access", access).status == 200
    path = f"/accounts/{account}"
    wait_until(lambda: stage.running.ask("GET", path).data["status"] == "ready", lambda: "not ready", 20)
    stage.users.append(user)


def _add_member(stage: Stage, number: int) -> str:
    body = {"name": "Ann", "email": f"ann{number}@example.org", "role": "member"}
    invited = stage.running.ask("POST", "/admin/members", body)
    assert invited.status == 201, invited.body
    accepted = {"token": invited.data["invitation"]["token"], "password": PASSWORD, "deviceName": "test"}
    return str(stage.running.ask("POST", "/auth/enroll", accepted).data["token"])


def _create(stage: Stage, token: str, target: Target, skipped: int = 0, **more: object) -> Hook:
    body = {"url": target.url, "types": ["message.created"], **more}
    answer = stage.running.ask("POST", "/webhooks", body, token=token)
    assert answer.status == 201, answer.body
    return Hook(target, token, answer.data["webhook"]["id"], [(0.0, answer.data["secret"])], skipped)


def play(stage: Stage, seed: int, size: Size) -> Delays:
    """Play one round. Raises AssertionError if a rule is broken."""
    chance = random.Random(seed)
    came = 0
    delays = []
    # An event needs time for each target that accepts it. So as many do before others misbehave.
    behaviors = [hook.target.behave for hook in stage.others]
    for number, hook in enumerate(stage.others):
        if hook.target.name in ACCEPTING:
            hook.target.behave = None
            stage.others[number] = _create(stage, hook.token, hook.target)
    for phase in ("calm", "crowded"):
        if phase == "crowded":
            for number, hook in enumerate(stage.others):
                hook.target.behave = behaviors[number]
                if not hook.id:
                    stage.others[number] = _create(stage, hook.token, hook.target, came)
        began = time.time()
        stage.deliver(size.measured, size.pause)
        came += size.measured
        stage.await_letters(came, stage.healthy)
        delays.append(_p95(stage, began))
    assert _most_at_once(stage) <= AT_ONCE
    _kill(stage, chance, size)
    came += size.letters
    _come_back(stage)
    stage.await_letters(came, stage.hooks)
    judge(stage)
    return Delays(*delays)


def _most_at_once(stage: Stage) -> int:
    """The most requests at once to targets that hang, which notice when one ends."""
    hanging = [hook.target for hook in stage.others if hook.target.name.startswith("hangs")]
    seen = 0
    for _ in range(20):
        seen = max(seen, sum(target.connected for target in hanging))
        time.sleep(0.05)
    return seen


def _p95(stage: Stage, began: float) -> float:
    """The p95 of the delays of events since that time, until each came first."""
    committed = {event["id"]: from_timestamp(event["at"]).timestamp() for event in stage.events()}
    delays = []
    for hook in stage.healthy:
        first: dict[str, float] = {}
        for got in hook.target.got:
            first.setdefault(got.headers["webhook-id"], got.at)
        delays += [at - committed[one] for one, at in first.items() if committed[one] >= began]
    return quantiles(delays, n=20)[-1]


def _kill(stage: Stage, chance: random.Random, size: Size) -> None:
    left = size.letters
    for number in range(size.kills):
        some = left if number == size.kills - 1 else left // size.kills
        left -= some
        stage.deliver(some, size.pause)
        time.sleep(chance.uniform(0.0, 0.5))
        stage.running.kill()
        stage.running.start()
        if number == 0:
            _rotate(stage, chance.choice(stage.healthy))


def _rotate(stage: Stage, hook: Hook) -> None:
    answer = stage.running.ask("POST", f"/webhooks/{hook.id}/rotate-secret", {}, token=hook.token)
    assert answer.status == 200, answer.body
    hook.secrets.append((time.time(), answer.data["secret"]))


def _come_back(stage: Stage) -> None:
    """Let an hour pass, after which all targets behave."""
    for hook in stage.others:
        hook.target.calm()
    stage.running.kill()
    later.set_ahead(stage.running.folder, _HOUR)
    stage.running.start()
    for hook in stage.others:
        if hook.target.name == UNTRUSTED:
            assert not hook.target.got
            hook.target = stage.moved
            body = {"url": stage.moved.url}
            assert stage.running.ask("PATCH", f"/webhooks/{hook.id}", body, token=hook.token).status == 200


# --- the rules --------------------------------------------------------------------------------------------------------


def judge(stage: Stage) -> None:
    """Compare what each target got with the events. Raises AssertionError."""
    listed = stage.events()
    for hook in stage.hooks:
        assert not hook.target.failures, f"{hook.target.name}: {hook.target.failures}"
        assert hook.target.targets <= {"/hook"}, f"{hook.target.name} was followed elsewhere"
        _judge_order(hook, listed)
        for got in hook.target.got:
            _judge_signature(hook, got)


def _judge_order(hook: Hook, listed: Sequence[dict[str, Any]]) -> None:
    bodies: dict[str, bytes] = {}
    order: dict[str, list[str]] = {}
    for got in hook.target.got:
        body, name = got.verified, got.headers["webhook-id"]
        assert body["data"]["id"] == name, f"{hook.target.name}: another ID than its event's"
        position = body["data"]["position"].encode()
        assert bodies.setdefault(name, position) == position, f"{hook.target.name}: an ID of two events"
        sequence = order.setdefault(body["data"]["accountId"], [])
        if not sequence or sequence[-1] != name:  # sent again
            sequence.append(name)
    for account in {event["accountId"] for event in listed}:
        expected = [event["id"] for event in listed[hook.skipped :] if event["accountId"] == account]
        assert order.get(account, []) == expected, f"{hook.target.name}: not in order, or missing"


def _judge_signature(hook: Hook, got: Got) -> None:
    for since, secret in hook.secrets:
        if got.at > since + 1.0 or since == 0.0:
            assert got.is_signed(secret), f"{hook.target.name}: a signature does not verify"


def main() -> int:
    """Run the command line of `scripts/prove-webhooks`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-webhooks", description="Prove that webhooks hold.")
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds (default 3)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.rounds} rounds, {datetime.now(UTC):%H:%M}", flush=True)
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        mail = MailServer()
        mail.start(Path(name))
        try:
            for number in range(given.rounds):
                delays = prove(mail, Path(name) / str(number), given.seed + number, Size())
                assert delays.crowded <= 2 * delays.calm, "targets that misbehave hold up the others"
        except AssertionError as error:
            print(f"\nFAILED {error}\nrepeat it: scripts/prove-webhooks --seed {given.seed}", file=sys.stderr)
            return 1
        finally:
            mail.stop()
    return 0


def prove(mail: MailServer, folder: Path, seed: int, size: Size) -> Delays:
    """Play one round with an appliance of its own, print and return the delays."""
    folder.mkdir(exist_ok=True)
    with staged(mail, folder, size) as stage:
        delays = play(stage, seed, size)
        requests = sum(len(hook.target.got) for hook in stage.hooks)
        many = len(stage.hooks)
    print(
        f"seed {seed}: {many} targets, {requests} requests; p95 {delays.calm * 1000:.0f} ms calm,"
        f" {delays.crowded * 1000:.0f} ms crowded",
        flush=True,
    )
    return delays


if __name__ == "__main__":
    sys.exit(main())
