"""Proves that the mirror of a mailbox of Gmail equals it: after a storm of labels, cuts, kill -9, and our own changes.

One message is one message, however many labels it has, and keeps its id wherever it goes; sent mail appears once.
`scripts/prove-mirror --gmail` runs all of it on a large mailbox, the test suite on a small one.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.servers.fault_proxy import FaultProxy
from tests.servers.gmail import Gmail
from tests.servers.gmail_mailbox import GERMAN, GmailMailbox
from tests.sync.gmail_members import Members
from tests.sync.gmail_mirrored import MirroredGmail
from tests.sync.gmail_rival import GmailRival
from tests.sync.proof import Size, asked_size, cut_at_random, run

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
    with mirrored(size) as (gmail, made), ThreadPoolExecutor() as pool:
        _rival(gmail, made, size.changes // 2, 1)
        made.check(size.patience)
        before = made.ids
        others = pool.submit(_rival, gmail, made, size.changes // 2, 2)
        members = Members(made, 3)
        members.act(size.changes // 20)
        members.send(max(6, size.changes // 100))
        others.result()
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
    """After cut connections, at any byte, while others make changes, and we do."""
    with mirrored(size) as (gmail, made), ThreadPoolExecutor() as pool:
        others = pool.submit(_rival, gmail, made, size.changes // 4, 6)
        members = Members(made, 9)
        ours = pool.submit(_at_work, members, size.cuts)
        cut_at_random(made.proxy, size.cuts, within=1)
        others.result()
        ours.result()
        count = made.check(size.patience, goes_on=False)
        members.check_sent(made.box, [])
        cuts = made.proxy.cuts
    return f"{cuts} cuts, {len(members.sent)} sent meanwhile, {count:,} messages"


def prove_kills(size: Size) -> str:
    """After kill -9 at random moments, while others make changes, and we change and send."""
    chance = random.Random(4)
    with mirrored(size) as (gmail, made), ThreadPoolExecutor() as pool:
        others = pool.submit(_rival, gmail, made, size.changes // 4, 7)
        members = Members(made, 8)
        ours = pool.submit(_at_work, members, size.kills)
        for _ in range(size.kills):
            time.sleep(chance.uniform(0.0, 0.8))
            made.appliance.kill()
            made.appliance.start()
        others.result()
        ours.result()
        count = made.check(size.patience, goes_on=False)
        members.check_sent(made.box, [])
    return f"{size.kills} kills, {len(members.sent)} sent meanwhile, {count:,} messages"


PROOFS: tuple[Callable[[Size], str], ...] = (
    prove_first_sync,
    prove_storm,
    prove_odd,
    prove_silent_renames,
    prove_cuts,
    prove_kills,
)


def _rival(gmail: Gmail, made: MirroredGmail, changes: int, seed: int) -> None:
    rival = GmailRival(gmail, made.box, seed)
    rival.change(changes)
    rival.close()


def _at_work(members: Members, count: int) -> None:
    for _ in range(count):
        members.act(1)
        members.send(1)


def main() -> int:
    """All proofs."""
    size = asked_size(__doc__ or "", Size(messages=5_000))
    run((proof.__name__, partial(proof, size)) for proof in PROOFS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
