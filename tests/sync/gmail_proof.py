"""Proves that the mirror of a mailbox of Gmail equals it: after a storm of labels, cuts, kill -9, and our own changes.

One message is one message, however many labels it has, and keeps its id wherever it goes; sent mail appears once.
`scripts/prove-mirror --gmail` runs all of it on a large mailbox, the test suite on a small one.
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.servers.fault_proxy import FaultProxy
from tests.servers.gmail import Gmail
from tests.servers.gmail_folders import SENT, Letter
from tests.servers.gmail_mailbox import GERMAN, GmailMailbox
from tests.servers.gmail_threads import header_of
from tests.servers.running import Answer
from tests.sync.gmail_mirrored import MirroredGmail
from tests.sync.gmail_rival import LABELS, GmailRival
from tests.sync.proof import Size, asked_size, run

USER = "ada@gmail.test"


@contextmanager
def mirrored(
    size: Size,
    prepare: Callable[[GmailMailbox, FaultProxy], None] = lambda _box, _proxy: None,
    names: dict[str, str] | None = None,
) -> Iterator[tuple[Gmail, MirroredGmail]]:
    """A mailbox with so many messages, and an appliance that has just begun with it."""
    with Gmail() as gmail, tempfile.TemporaryDirectory(prefix="proof-") as name:
        box = gmail.add(USER, names=names)
        proxy = FaultProxy(gmail.imap_port).start()
        prepare(box, proxy)
        made = MirroredGmail(box, Path(name) / "data", size.messages, proxy, gmail.smtp_port)
        try:
            yield gmail, made
        finally:
            made.appliance.stop()
            proxy.stop()


# --- our own changes --------------------------------------------------------------------------------------------------


class Members:
    """Those who use the appliance meanwhile: they change messages, and send some."""

    _ACTIONS = ("archive", "star", "unstar", "markRead", "markUnread", "addLabels", "removeLabels", "trash", "untrash")

    def __init__(self, made: MirroredGmail, seed: int) -> None:
        self._appliance, self._path = made.appliance, f"/accounts/{made.account_id}"
        self._chance = random.Random(seed)
        self._seed = seed
        self.answers: list[Answer] = []
        self.sent: list[str] = []

    def act(self, count: int) -> None:
        """Do something to some messages, so many times."""
        for _ in range(count):
            folder = self._chance.choice(("inbox", "inbox", "trash", "archive"))
            listed = self._ask("GET", f"{self._path}/messages?folder={folder}&limit=50")
            ids = [each["id"] for each in listed.data["items"]] if listed and listed.status == 200 else []
            some = self._chance.sample(ids, min(len(ids), self._chance.randint(1, 4)))
            wanted = {"messageIds": some, "action": self._chance.choice(self._ACTIONS), "labels": [LABELS[0], "ours"]}
            if some and (answer := self._ask("POST", f"{self._path}/messages/actions", wanted)):
                assert answer.status != 500, answer
                self.answers.append(answer)

    def send(self, count: int) -> list[str]:
        """Send so many messages, some of them to oneself; their subjects."""
        first = len(self.sent)
        for number in range(first, first + count):
            subject = f"sent {self._seed}-{number}"
            to = USER if number % 3 == 0 else "friend@example.test"
            body = {"to": [{"email": to}], "subject": subject, "body": {"text": "hello"}}
            key = f"gmail-proof-{self._seed}-{number}"
            answer = self._appliance.ask("POST", f"{self._path}/send", body, Idempotency_Key=key)
            assert answer.status == 200, answer
            self.sent.append(subject)
        return self.sent[first:]

    def check_sent(self, box: GmailMailbox, left_alone: list[str]) -> None:
        """None is there twice, wherever others put it; what they left alone is in Sent once."""
        everywhere = Counter(map(_subject, box.letters.values()))
        twice = [subject for subject in self.sent if everywhere[subject] > 1]
        assert not twice, f"more than once: {twice}"
        in_sent = Counter(_subject(letter) for letter in box.letters.values() if SENT in letter.labels)
        missing = [subject for subject in left_alone if not in_sent[subject]]
        assert not missing, f"not in Sent: {missing}"

    def _ask(self, method: str, path: str, body: object = None) -> Answer | None:
        try:
            return self._appliance.ask(method, path, body)
        except OSError:
            return None  # killed meanwhile


def _subject(letter: Letter) -> str:
    return str(header_of(letter.source).get("Subject", ""))


# --- the proofs -------------------------------------------------------------------------------------------------------


def prove_first_sync(size: Size) -> str:
    """After a first sync, in another language; after every UID has become another one the ids stay."""
    with mirrored(size, names=GERMAN) as (_, made):
        count = made.check(size.patience, goes_on=False)
        before = made.ids
        made.box.renumber()
        made.appliance.start()
        made.check(size.patience, goes_on=False)
        assert made.ids == before, "ids changed"
    return f"{count:,} messages"


def prove_storm(size: Size) -> str:
    """After a storm of labels during and after the first sync, others' and our own; what stayed keeps its id."""
    with mirrored(size) as (gmail, made):
        _rival(gmail, made, size.changes // 2, 1)
        made.check(size.patience)
        before = made.ids
        others = threading.Thread(target=_rival, args=(gmail, made, size.changes // 2, 2))
        others.start()
        members = Members(made, 3)
        members.act(size.changes // 20)
        members.send(max(6, size.changes // 100))
        others.join()
        left_alone = members.send(3)
        count = made.check(size.patience, goes_on=False)
        members.check_sent(made.box, left_alone)
        after = made.ids
        lost = [one for one in before.keys() & after.keys() if before[one] != after[one]]
        assert not lost, f"{len(lost)} ids changed"
        done = sum(answer.status == 200 for answer in members.answers)
        assert done, members.answers[:3]
    told = f"{done} of {len(members.answers)} actions and {len(members.sent)} sent of our own"
    return f"{size.changes:,} changes, {told}, {count:,} messages left"


def prove_odd(size: Size) -> str:
    """As the storm, where trash keeps labels, renamed labels are no change, IDLE tells more, and nothing is at hand."""

    def prepare(box: GmailMailbox, proxy: FaultProxy) -> None:
        box.keeps_labels_in_trash, box.counts_renames = True, False
        proxy.hide("CONDSTORE", "ESEARCH", "LIST-EXTENDED", "LIST-STATUS")

    with mirrored(size, prepare) as (gmail, made):
        gmail.tells_labels = True
        _rival(gmail, made, size.changes // 4, 4)
        count = made.check(size.patience, goes_on=False)
    return f"{size.changes // 4:,} changes, {count:,} messages"


def prove_silent_renames(size: Size) -> str:
    """Labels that get other names, or are removed, without any message having changed by its mod-sequence."""

    def prepare(box: GmailMailbox, _proxy: FaultProxy) -> None:
        box.counts_renames = False

    with mirrored(size, prepare) as (_, made):
        made.rest(size.patience)
        made.box.rename_label("Work", "Job")
        made.box.remove_label("later")
        made.rest(size.patience)
        made.box.rename_label("受信", "Job/受信")
        made.box.make_label("受信")
        count = made.check(size.patience, goes_on=False)
    return f"{count:,} messages"


def prove_cuts(size: Size) -> str:
    """After cut connections, at any byte, while others make changes."""
    chance = random.Random(3)
    with mirrored(size) as (gmail, made):
        others = threading.Thread(target=_rival, args=(gmail, made, size.changes // 4, 6))
        others.start()
        for number in range(size.cuts):
            accepted = made.proxy.accepted
            made.proxy.cut_after(chance.choice((200, 3_000, 50_000, 500_000, 3_000_000)))
            deadline = time.monotonic() + 1
            while made.proxy.cuts <= number and time.monotonic() < deadline:
                time.sleep(0.05)
            if made.proxy.cuts <= number:  # there is not so much to be said any more
                made.proxy.heal()
                made.proxy.cut_all()
            made.proxy.wait_for(_accepts_more_than(accepted), 60)
        made.proxy.heal()
        others.join()
        count = made.check(size.patience, goes_on=False)
        cuts = made.proxy.cuts
    return f"{cuts} cuts, {count:,} messages"


def prove_kills(size: Size) -> str:
    """After kill -9 at random moments, while others make changes, and we do."""
    chance = random.Random(4)
    with mirrored(size) as (gmail, made):
        others = threading.Thread(target=_rival, args=(gmail, made, size.changes // 4, 7))
        others.start()
        for number in range(size.kills):
            members = Members(made, number)
            ours = threading.Thread(target=members.act, args=(3,))
            ours.start()
            time.sleep(chance.uniform(0.0, 0.8))
            made.appliance.kill()
            ours.join()
            made.appliance.start()
        others.join()
        count = made.check(size.patience, goes_on=False)
    return f"{size.kills} kills, {count:,} messages"


PROOFS: tuple[Callable[[Size], str], ...] = (
    prove_first_sync,
    prove_storm,
    prove_odd,
    prove_silent_renames,
    prove_cuts,
    prove_kills,
)


def _accepts_more_than(count: int) -> Callable[[FaultProxy], bool]:
    return lambda proxy: proxy.accepted > count


def _rival(gmail: Gmail, made: MirroredGmail, changes: int, seed: int) -> None:
    rival = GmailRival(gmail, made.box, seed)
    rival.change(changes)
    rival.close()


def main() -> int:
    """All proofs."""
    size = asked_size(__doc__ or "", Size(messages=5_000))
    run((proof.__name__, partial(proof, size)) for proof in PROOFS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
