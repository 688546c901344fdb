"""Counts the events of a mailbox at a real server: a storm by another client, and all that only looks like a change.

    steps                                  events
    first sync of all messages             created: each
    storm on messages of their own         updated: each flagged one; moved, deleted, created: each one
    another UIDVALIDITY                    none
    a folder renamed, moved away and back  moved: each of its messages, each time
    a folder deleted                       deleted: each of its messages
    what we do by the API                  one each; a draft that is sent: deleted, and its copy in Sent created
    the mailbox connected again            none
    the mailbox removed, and added again   none; then created: each message that is there, under another ID

`scripts/prove-events --storm` makes 5,000 changes, the test suite some hundred.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from imapclient import IMAPClient

from tests.console.house import Box, House
from tests.feed.following import events
from tests.servers.corpus import CorpusMessage
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD, wait_until
from tests.servers.scripted_smtp import ScriptedSmtp

SETTINGS = {"MAILBOX_APPLIANCE_BACKUP_DAILY": "no", "MAILBOX_APPLIANCE_SYNC_POLL_INTERVAL": "2"}
_IN_FOLDER, _OURS = 20, 10  # messages in the folder that is renamed, and of each of our actions


class Following:
    """All events of a member, as they come."""

    def __init__(self, house: House, box: Box, position: str) -> None:
        self.house, self.box, self.position = house, box, position
        self.copy: dict[str, dict[str, Any]] = {}
        self.ever: set[str] = set()  # IDs that were created at any time
        self.deliveries: list[dict[str, Any]] = []
        self.states: list[str] = []
        self._counts = Counter[str]()

    def take(self) -> None:
        """Read what is there. No message is created twice, and none is changed or deleted that is not there."""
        while True:
            page = events(self.house.running, self.box.owner.token, self.position, limit=100)
            assert not page["reset"]
            self.position = page["nextPosition"]
            for event in page["items"]:
                self._apply(event["type"], event["data"])
            if not page["items"]:
                return

    def _apply(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "delivery.updated":
            self.deliveries.append(data)
        elif kind == "account.updated":
            self.states.append(data["status"])
        else:
            self._counts[kind.removeprefix("message.")] += 1
            if kind == "message.created":
                assert data["id"] not in self.ever
                self.ever.add(data["id"])
            assert (data["id"] in self.copy) == (kind != "message.created"), (kind, data)
            self.copy[data["id"]] = data
            if kind == "message.deleted":
                del self.copy[data["id"]]

    def expect(self, patience: float = 10, **counts: int) -> None:
        """Wait for exactly these events since the last call."""

        def is_there() -> bool:
            self.take()
            return self._counts == counts

        wait_until(is_there, lambda: f"{dict(self._counts)}, expected {counts}", patience)
        self._counts.clear()

    def expect_delivery(self, operation: str, *statuses: str) -> None:
        """Wait for these states of a delivery; the last event is the operation as a lookup shows it."""

        def states() -> list[str]:
            self.take()
            return [one["status"] for one in self.deliveries if one["operationId"] == operation]

        wait_until(lambda: states()[-1:] == [statuses[-1]], lambda: str(states()), 20)
        assert states() == [*statuses], states()
        shown = self.house.ask(self.box.owner, "GET", f"/accounts/{self.box.id}/delivery-operations/{operation}").data
        assert [one for one in self.deliveries if one["operationId"] == operation][-1] == shown

    def require_lists(self) -> int:
        """The copy is what the lists show; return how many messages that is."""
        listed: dict[str, dict[str, Any]] = {}
        for folder in ("", "&folder=spam", "&folder=trash"):  # which other lists leave out
            page: dict[str, Any] = {"nextCursor": ""}
            while (cursor := page["nextCursor"]) is not None:
                query = f"limit=100{folder}{cursor and f'&cursor={cursor}'}"
                page = self.house.ask(self.box.owner, "GET", f"/accounts/{self.box.id}/messages?{query}").data
                listed |= {one["id"]: one for one in page["items"]}
        assert self.copy.keys() == listed.keys()
        different = [(self.copy[key], listed[key]) for key in listed if self.copy[key] != listed[key]]
        assert not different, different[:2]
        return len(listed)


def letter(name: str) -> bytes:
    """A message that belongs to no conversation."""
    head = f"From: rival@example.test\r\nTo: ada@example.test\r\nSubject: {name}\r\nMessage-ID: <{name}@example.test>"
    return f"{head}\r\nDate: Mon, 01 Jun 2026 10:00:00 +0000\r\n\r\nIt is {name}.\r\n".encode()


class Storm:
    """A mailbox with as many messages as the storm needs, and who follows its events."""

    def __init__(self, house: House, changes: int) -> None:
        self.house, self.part = house, changes // 5
        user = house.server.fresh_user()
        self._fill(user, "INBOX", 4 * self.part + 4 * _OURS)
        self._fill(user, "Projects", _IN_FOLDER)
        self.smtp = ScriptedSmtp(user=user).start()
        owner = house.add_member("storm")
        start = events(house.running, owner.token)["nextPosition"]
        servers = house.servers(user)
        servers["smtp"]["port"] = self.smtp.port
        self.asked = {"email": user, **servers}
        answer = house.ask(owner, "POST", "/accounts", self.asked)
        assert answer.status == 201, answer.body
        self.following = Following(house, Box(answer.data["id"], user, owner), start)
        self.total = 4 * self.part + 4 * _OURS + _IN_FOLDER

    def _fill(self, user: str, folder: str, count: int) -> None:
        began = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp())
        made = (CorpusMessage(letter(f"{folder}{number}"), began + number, "") for number in range(count))
        self.house.server.fill(user, folder, made)

    @property
    def box(self) -> Box:
        """The mailbox."""
        return self.following.box

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Ask for something in the mailbox; return the data of the answer."""
        answer = self.house.ask(self.box.owner, method, f"/accounts/{self.box.id}{path}", body, **headers)
        assert answer.status in (200, 201, 202), answer.body
        return answer.data

    def act(self, action: str, ids: Sequence[str], **more: str) -> None:
        """Apply an action to messages."""
        answer = self.ask("POST", "/messages/actions", {"messageIds": [*ids], "action": action, **more})
        assert answer["succeededIds"] == [*ids], answer

    def client(self) -> IMAPClient:
        """Another client of the mailbox, in its inbox."""
        client = IMAPClient(self.house.server.host, self.house.server.imap_port, ssl=False)
        client.login(self.box.email, PASSWORD)
        client.select_folder("INBOX")
        return client

    # --- what happens, and what is told of it

    def first_sync(self) -> None:
        """Every message is created."""
        self.following.expect(120, created=self.total)
        self.house.wait_until_ready(self.box)
        self.following.take()
        assert self.following.states[2:] == ["ready"]  # after connecting and syncing, which may be over

    def blow(self) -> None:
        """Every message is changed once at most, so each change is an event."""
        chance, n = random.Random(1), self.part
        with self.client() as client:
            uids = list(client.search())[: 4 * n]
            chance.shuffle(uids)
            flagged, moved, deleted = uids[: 2 * n], uids[2 * n : 3 * n], uids[3 * n :]
            changes: list[tuple[str, int]] = [("flag", uid) for uid in flagged]
            changes += [("move", uid) for uid in moved] + [("delete", uid) for uid in deleted]
            changes += [("append", number) for number in range(n)]
            chance.shuffle(changes)
            for kind, number in changes:
                match kind:
                    case "flag":
                        client.add_flags([number], [chance.choice(("\\Seen", "\\Flagged", "$Work"))], silent=True)
                    case "move":
                        client.move([number], chance.choice(("Archive", "Trash", "Projects")))
                    case "delete":
                        client.delete_messages([number], silent=True)
                        client.uid_expunge([number])
                    case _:
                        client.append(chance.choice(("INBOX", "Archive", "Junk")), letter(f"new{number}"))
            self.in_projects = client.folder_status("Projects", ["MESSAGES"])[b"MESSAGES"]
        self.following.expect(20, updated=2 * n, moved=n, deleted=n, created=n)

    def renumber(self) -> None:
        """Another UIDVALIDITY, while the appliance is away, is no event; what comes after it is one."""
        self.house.running.stop()
        self.house.server.renumber(self.box.email)
        self.house.running.start()
        self.house.server.deliver(self.box.email, letter("after"))
        self.following.expect(60, created=1)
        self._wait_for_rounds(2)
        self.following.expect()

    def _wait_for_rounds(self, count: int) -> None:
        for _ in range(count):
            before = self._last_sync()
            wait_until(lambda before=before: self._last_sync() != before, lambda: "no round of sync", 30)  # type: ignore[misc]

    def _last_sync(self) -> object:
        return self.ask("GET", "")["lastSyncAt"]

    def rename(self) -> None:
        """A folder is renamed, moved away, moved back and deleted."""
        with self.client() as client:
            for name, target in (
                ("Projects", "Renamed"),
                ("Renamed", "Archive/Renamed"),
                ("Archive/Renamed", "Projects"),
            ):
                client.rename_folder(name, target)
                self.following.expect(moved=self.in_projects)
            client.delete_folder("Projects")
            self.following.expect(deleted=self.in_projects)

    def act_ourselves(self) -> None:
        """What people do by the API is told of once, also when sync sees it."""
        inbox = self.ask("GET", f"/messages?folder=inbox&limit={_OURS}")["items"]
        ids = [one["id"] for one in inbox]
        for action, more, told in (
            ("markRead", {}, "updated"),
            ("markUnread", {}, "updated"),
            ("star", {}, "updated"),
            ("move", {"folder": "spam"}, "moved"),
            ("archive", {}, "moved"),
            ("trash", {}, "moved"),
            ("delete", {}, "deleted"),
        ):
            self.act(action, ids, **more)
            self.following.expect(**{told: sum(told != "updated" or _changes(action, one) for one in inbox)})
        self._wait_for_rounds(1)
        self.following.expect()

    def write(self) -> None:
        """Drafts, sends and scheduled sends."""
        message = {"to": [{"email": "eve@example.org"}], "subject": "Ours", "body": {"text": "Hello"}}
        draft = self.ask("POST", "/drafts", message)
        self.following.expect(created=1)
        for text in ("one", "two"):
            self.ask("PUT", f"/drafts/{draft['id']}", message | {"body": {"text": text}})
            self.following.expect(updated=1)
        self.ask("DELETE", f"/drafts/{draft['id']}")
        self.following.expect(deleted=1)
        sent = self.ask("POST", "/send", message, Idempotency_Key="one")
        self.following.expect(created=1)
        self.following.expect_delivery(sent["operationId"], "succeeded")
        draft = self.ask("POST", "/drafts", message)
        self.following.expect(created=1)
        sent = self.ask("POST", "/send", {"draftId": draft["id"]}, Idempotency_Key="two")
        self.following.expect(created=1, deleted=1)
        self.following.expect_delivery(sent["operationId"], "succeeded")
        later = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        waiting = self.ask("POST", "/send", message | {"sendAt": later}, Idempotency_Key="three")
        self.following.expect_delivery(waiting["operationId"], "queued")
        self.ask("DELETE", f"/scheduled/{waiting['scheduleId']}")
        self.following.expect_delivery(waiting["operationId"], "queued", "failed")
        self.following.expect(created=1)  # what was canceled is kept as a draft
        self._wait_for_rounds(2)  # sync finds the copies, which are known
        self.following.expect()

    def reconnect(self) -> None:
        """To connect the mailbox again is no event of a message; to remove it is none either, but its IDs end."""
        self.ask("POST", "/reconnect", {})
        self._wait_for_rounds(1)
        self.following.expect()
        count = self.following.require_lists()
        self.ask("DELETE", "")
        self.following.expect()
        self.following.copy.clear()
        answer = self.house.ask(self.box.owner, "POST", "/accounts", self.asked)
        assert answer.status == 201, answer.body
        self.following.box = Box(answer.data["id"], self.box.email, self.box.owner)
        self.following.expect(120, created=count)


def _changes(action: str, listed: dict[str, Any]) -> bool:
    """Whether an action on flags changes a message that was listed so before the first of them."""
    return not listed["flags"]["starred"] if action == "star" else action == "markUnread" or not listed["flags"]["read"]


def run(house: House, changes: int) -> int:
    """Let all of it happen to a new mailbox; return how many messages it has at the end."""
    storm = Storm(house, changes)
    try:
        for step in (
            storm.first_sync,
            storm.blow,
            storm.renumber,
            storm.rename,
            storm.act_ourselves,
            storm.write,
            storm.reconnect,
        ):
            began = time.monotonic()
            step()
            print(f"{step.__name__:16} {time.monotonic() - began:6.1f} s", flush=True)
        return storm.following.require_lists()
    finally:
        storm.smtp.stop()


def main() -> int:
    """A large storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=5000, help="changes by the other client (default: 5000)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        server = MailServer().start(Path(name))
        house = House(Path(name) / "house", server, environment=SETTINGS)
        try:
            print(f"{run(house, asked.changes):,} messages; every event was expected", flush=True)
        finally:
            house.stop()
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
