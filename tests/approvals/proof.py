"""Proves that policies and approvals hold below every interface: `scripts/prove-approvals`.

- matrix: every policy, way to send and credential, compared with a table by hand.
- recipients: random policies and recipients, compared with a model; the SMTP server's record is the judge.
- killed: kill -9 between acceptance, approval and the final dot.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.approvals import killed, matrix
from tests.approvals.conftest import ENVIRONMENT, Desk, new_desk
from tests.approvals.recipients import draw, identities, identity
from tests.console.house import House
from tests.servers.dovecot import MailServer


@contextmanager
def _desk(mail: MailServer, folder: Path) -> Iterator[Desk]:
    house = House(folder, mail, environment=ENVIRONMENT)
    try:
        with new_desk(house) as desk:
            yield desk
    finally:
        house.stop()


def prove_recipients(desk: Desk, count: int, seed: int) -> Counter[str]:
    """Send messages to random recipients under random policies; return how often each outcome occurred.

    Raises AssertionError unless each message reaches all of its recipients, or nobody if the model refuses it.
    """
    chance, outcomes = random.Random(seed), Counter[str]()
    own = desk.box.email.rpartition("@")[2]
    for number in range(count):
        case = draw(chance)
        desk.set_policy(**(case.policy() | {"internalOnly": False}))
        before = len(desk.smtp.messages)
        fields = {name: [{"email": each.written} for each in people] for name, people in case.fields.items()}
        answer = desk.post("send", {"subject": "Random", "body": {"text": "Text."}, **fields})
        arrived = desk.smtp.messages[before:]
        story = f"message {number} of seed {seed} from {own}: {case}: {answer.body}"
        if any(
            '"' in each.written or ".@" in each.written for each in case.recipients
        ):  # the API takes no quoted local parts; drafts may have them
            outcome = "invalid"
            assert (answer.status, arrived) == (400, ()), story
        elif case.is_refused(with_internal=False):
            outcome = "refused"
            assert (answer.status, answer.code, arrived) == (403, "policy_denied", ()), story
        else:
            outcome = "sent"
            assert answer.status == 200, story
            assert len(arrived) == 1, story
            assert {identity(each) for each in arrived[0].recipients} == identities(case.recipients), story
        outcomes[outcome] += 1
    return outcomes


def main() -> int:
    """Run the command line of `scripts/prove-approvals`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-approvals", description="Prove policies and approvals.")
    parser.add_argument("--rounds", type=int, default=300, help="how many rounds with kill -9 (default 300)")
    parser.add_argument("--messages", type=int, default=500, help="how many random messages (default 500)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        mail = MailServer()
        mail.start(folder)
        try:
            with _desk(mail, folder / "desk") as desk:
                _report("matrix", lambda: matrix.prove(desk, matrix.RULES))
            with _desk(mail, folder / "random") as desk:
                _report("recipients", lambda: prove_recipients(desk, given.messages, given.seed))
            _report("killed", lambda: killed.prove(mail, folder / "data", range(given.rounds), given.seed))
        except AssertionError as error:
            print(f"FAILED {error}\nrepeat it: scripts/prove-approvals --seed {given.seed}", file=sys.stderr)
            return 1
        finally:
            mail.stop()
    return 0


def _report(name: str, prove: Callable[[], Counter[str]]) -> None:
    began = time.monotonic()
    counted = prove()
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items()))
    print(f"{name} holds: {sum(counted.values())} cases in {time.monotonic() - began:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
