"""Proves that the mirror equals the server: after a first sync, a storm, cuts, kill -9, UIDVALIDITY, and a poor server.

`scripts/prove-mirror` runs all of it on a large mailbox, the test suite on a small one.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from imapclient import IMAPClient

from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.store.store import Store
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import PASSWORD, wait_until
from tests.servers.running import RunningAppliance
from tests.sync.rival import Rival

#: Flags and content of each message: path -> UID -> flags and hash.
Content = dict[str, dict[int, tuple[frozenset[str], str]]]
_POLL = {"MAILBOX_APPLIANCE_SYNC_POLL_INTERVAL": "2"}


@dataclass(frozen=True)
class Size:
    """How large the proof is."""

    messages: int = 20_000
    changes: int = 5_000
    cuts: int = 50
    kills: int = 20
    patience: float = 300  # seconds to wait for the mirror to be complete


# --- both sides -------------------------------------------------------------------------------------------------------


def on_server(server: MailServer, user: str) -> Content:
    """What the server has, read by imapclient without any of our own reading."""
    found: Content = {}
    with IMAPClient(server.host, server.imap_port, ssl=False) as client:
        client.login(user, PASSWORD)
        for _, _, path in client.list_folders():
            client.select_folder(path, readonly=True)
            uids = client.search()
            found[str(path)] = {}
            for start in range(0, len(uids), 500):
                for uid, item in client.fetch(uids[start : start + 500], ["FLAGS", "BODY.PEEK[]"]).items():
                    flags = (flag.decode() for flag in item[b"FLAGS"])
                    kept = frozenset(flag for flag in flags if flag != "\\Recent")
                    found[str(path)][uid] = kept, hash_of_source(item[b"BODY[]"])
    return found


def in_store(folder: Path) -> Content:
    """What the store of an appliance that is stopped has. Its index has every message once, and nothing is gone."""
    store = Store.open(folder)
    try:
        found: Content = {}
        for account_id in store.accounts.list_ids():
            for one in store.folders.list(account_id):
                bodies = store.database.rows(
                    "SELECT m.uid, m.subject, b.text, b.html FROM messages m LEFT JOIN bodies b USING (number)"
                    " WHERE m.folder = ?",
                    (one.number,),
                )
                hashes = {uid: hash_of(subject, text, markup) for uid, subject, text, markup in bodies}
                flags = store.mailbox_writer.load_flags(one.number)
                assert None not in hashes, f"{sum(1 for row in bodies if row[0] is None)} messages have no UID"
                found[one.path] = {uid: (flags[uid], hashes[uid]) for uid in hashes}
        indexed, kept = (
            store.database.value(f"SELECT count(*) FROM {table}") for table in ("message_index_docsize", "messages")
        )
        assert indexed == kept, f"{indexed} messages are indexed, {kept} are there"
        return found
    finally:
        store.close()


def ids_by_message(folder: Path) -> dict[str, str]:
    """Message-ID to id, of the messages whose Message-ID is unique."""
    store = Store.open(folder)
    try:
        rows = store.database.rows(
            "SELECT message_id, min(id) FROM messages WHERE message_id IS NOT NULL GROUP BY 1 HAVING count(*) = 1"
        )
        return dict(rows)
    finally:
        store.close()


def assert_equal(server: MailServer, user: str, folder: Path) -> int:
    """The mirror has what the server has; answers how many messages that are."""
    theirs, ours = on_server(server, user), in_store(folder)
    assert ours.keys() == theirs.keys(), f"folders {sorted(ours.keys() ^ theirs.keys())}"
    for path, messages in theirs.items():
        mine = ours[path]
        assert mine.keys() == messages.keys(), f"{path}: {len(messages)} there, {len(mine)} here"
        different = [uid for uid in messages if messages[uid] != mine[uid]]
        assert not different, f"{path}: {len(different)} differ: {[(messages[u], mine[u]) for u in different[:3]]}"
    return sum(map(len, theirs.values()))


def hash_of_source(source: bytes) -> str:
    """Of what is kept of a message's content."""
    parsed = parse_message(source)
    return hash_of(parsed.subject, parsed.text, parsed.html)


def hash_of(*texts: str | None) -> str:
    """As `hash_of_source`, of what was kept."""
    return hashlib.sha256("\0".join(str(text) for text in texts).encode("utf-8", "surrogatepass")).hexdigest()


# --- a mailbox and its appliance --------------------------------------------------------------------------------------


class Mirrored:
    """A mailbox, and an appliance that mirrors it through a proxy."""

    def __init__(self, server: MailServer, folder: Path, messages: int, proxy: FaultProxy, seed: int) -> None:
        self.server, self.proxy, self.user = server, proxy, server.fresh_user()
        parts = {"INBOX": messages * 6 // 10, "Archive": messages * 3 // 10, "Sent": messages // 10}
        server.seed(self.user, parts, seed)
        self.appliance = RunningAppliance(folder, _POLL)
        self.appliance.start().set_up()
        self.account_id = self.appliance.connect(self.user, imap_port=proxy.port, smtp_port=server.submission_port)

    def state(self) -> Any:
        """The mailbox in GET /status."""
        return self.appliance.ask("GET", "/status").data["accounts"][0]

    def wait_until_complete(self, patience: float) -> None:
        """Until two rounds ended from now on, so that one of them began since, and nothing is left to fetch."""
        for _ in range(2):
            before = self.state()["lastSyncAt"]
            self._wait_for_change(before, patience)
        wait_until(
            lambda: self.state()["progress"] is None and self.state()["status"] == "ready",
            lambda: str(self.state()),
            patience,
        )

    def _wait_for_change(self, before: str | None, patience: float) -> None:
        wait_until(lambda: self.state()["lastSyncAt"] != before, lambda: str(self.state()), patience)

    def check(self, patience: float) -> int:
        """Let it come to rest, stop it, compare, and start it again."""
        self.wait_until_complete(patience)
        assert self.appliance.stop() == 0
        count = assert_equal(self.server, self.user, self.appliance.folder)
        self.appliance.start()
        return count


@contextmanager
def mirrored(
    server: MailServer, size: Size, prepare: Callable[[FaultProxy], None] = lambda _: None, seed: int = 1
) -> Iterator[Mirrored]:
    """A mailbox with so many messages, and an appliance that has just begun with it."""
    proxy = server.proxy()
    prepare(proxy)
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        made = Mirrored(server, Path(name) / "data", size.messages, proxy, seed)
        try:
            yield made
        finally:
            made.appliance.stop()
            proxy.stop()


# --- the proofs -------------------------------------------------------------------------------------------------------


def prove_first_sync_and_uidvalidity(server: MailServer, size: Size) -> str:
    """After a first sync, and after every UID has become another one: then the ids stay."""
    with mirrored(server, size) as made:
        made.check(size.patience)
        made.appliance.stop()
        before = ids_by_message(made.appliance.folder)
        server.renumber(made.user)
        made.appliance.start()
        count = made.check(size.patience)
        made.appliance.stop()
        after = ids_by_message(made.appliance.folder)
        lost = sum(1 for message_id, identity in before.items() if after.get(message_id) != identity)
        assert not lost, f"{lost} of {len(before)} ids changed"
        made.appliance.start()
    return f"{count:,} messages, {len(before):,} ids kept"


def prove_storm(server: MailServer, size: Size) -> str:
    """After a storm of changes by another client during the first sync."""
    with mirrored(server, size, seed=2) as made:
        _rival(made, size.changes, 1)
        count = made.check(size.patience)
    return f"{size.changes:,} changes, {count:,} messages left"


def prove_cuts(server: MailServer, size: Size) -> str:
    """After cut connections, at any byte, while another client makes changes."""
    with mirrored(server, size, seed=3) as made:
        other = threading.Thread(target=_rival, args=(made, size.changes // 10, 2))
        other.start()
        cut_at_random(made.proxy, size.cuts, within=5)
        other.join()
        count = made.check(size.patience)
        cuts = made.proxy.cuts
    return f"{cuts} cuts, {count:,} messages"


def prove_kills(server: MailServer, size: Size) -> str:
    """After kill -9 at random moments of the first sync."""
    chance = random.Random(4)
    with mirrored(server, size, seed=4) as made:
        for _ in range(size.kills):
            time.sleep(chance.uniform(0.0, 0.8))
            made.appliance.kill()
            made.appliance.start()
        count = made.check(size.patience)
    return f"{size.kills} kills, {count:,} messages"


def prove_poor(server: MailServer, size: Size) -> str:
    """Against a server without extensions, with changes by another client."""
    with mirrored(server, size, FaultProxy.make_poor, seed=5) as made:
        _rival(made, size.changes // 10, 5)
        count = made.check(size.patience)
    return f"{size.changes // 10:,} changes, {count:,} messages"


PROOFS = (prove_first_sync_and_uidvalidity, prove_storm, prove_cuts, prove_kills, prove_poor)


def cut_at_random(proxy: FaultProxy, times: int, *, within: float) -> None:
    """Cut connections after so many bytes, or after so many seconds in which there is not so much to be said."""
    chance = random.Random(3)
    for number in range(times):
        accepted = proxy.accepted
        proxy.cut_after(chance.choice((200, 3_000, 50_000, 500_000, 3_000_000)))
        deadline = time.monotonic() + within
        while proxy.cuts <= number and time.monotonic() < deadline:
            time.sleep(0.05)
        if proxy.cuts <= number:
            proxy.heal()
            proxy.cut_all()
        proxy.wait_for(_accepts_more_than(accepted), 60)
    proxy.heal()


def _accepts_more_than(count: int) -> Callable[[FaultProxy], bool]:
    return lambda proxy: proxy.accepted > count


def _rival(made: Mirrored, changes: int, seed: int) -> None:
    rival = Rival(made.server, made.user, seed)
    rival.change(changes)
    rival.close()


def asked_size(description: str, defaults: Size) -> Size:
    """How large the proof is to be, from the command line."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("messages", "changes", "cuts", "kills"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    return Size(**vars(parser.parse_args()))


def run(proofs: Iterable[tuple[str, Callable[[], str]]]) -> None:
    """Run proofs, one after the other; say how each went."""
    for name, proof in proofs:
        began = time.monotonic()
        told = proof()
        print(f"{name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)


def main() -> int:
    """All proofs."""
    size = asked_size(__doc__ or "", Size())
    with tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        server = MailServer().start(Path(name))
        try:
            run((proof.__name__, partial(proof, server, size)) for proof in PROOFS)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
