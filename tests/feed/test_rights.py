"""Every credential sees exactly the events of what it may read, however it reads them.

What each sees stands in tables that are written by hand. Everybody of `tests/doors/gathering.py` asks.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mailbox_appliance.cli.main import run
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mcp_server import call
from mailbox_appliance.mcp_server.tool import CallContext
from mailbox_appliance.model.deliveries import NewDelivery
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.operations.operation import LOCAL
from tests.doors.gathering import Gathering
from tests.doors.people import ELSEWHERE, HERE, Credential, Origin, World
from tests.doors.rest import Rest
from tests.feed.receiver import Receiver
from tests.feed.served import Opened, Served, serving
from tests.servers.mailboxes import wait_until

#: What happens in each mailbox.
IN_A_MAILBOX = ("message.created", "message.updated", "message.moved", "message.deleted", "account.updated")
#: What the letters below stand for. Deliveries are named after who sent them.
LETTERS = {
    "G": {f"granted {kind}" for kind in IN_A_MAILBOX},
    "S": {f"shared {kind}" for kind in IN_A_MAILBOX},
    "A": {f"an admin's {kind}" for kind in IN_A_MAILBOX},
    "B": {"backup.finished", "backup.failed"},
    **{name: {name} for name in ("dan", "later", "eve", "ada")},
}
# `later`: scheduled by dan, which everybody sees who reaches the mailbox.
OF_SESSIONS = {
    "ada's session": "S A ada B",
    "bea's session": "S B",
    "cid's session": "G S later",
    "dan's session": "G S dan later",
    "eve's session": "S eve",
    "fay's session": "G S later",
    "ivo's session": "S",
}
#: A key sees no backups. Without `mail.read` it sees nothing; keys without a line are such keys.
OF_KEYS = {
    "ada's key for mail.read": "S A ada",
    "ada's key with everything": "S A ada",
    "ada's key for the granted mailbox": "",
    "ada's key for the shared mailbox": "S",
    "ada's key for the an admin's mailbox": "A ada",
    "ada's key for no mailbox": "",
    "cid's key for mail.read": "G S later",
    "cid's key with everything": "G S later",
    "cid's key for the granted mailbox": "G later",
    "cid's key for the shared mailbox": "S",
    "cid's key for the an admin's mailbox": "",
    "cid's read-only key": "G S later",
    "cid's read-write key": "G S later",
    "cid's full key": "G S later",
    "bea's read-only key with all that is administrative": "S",
    "dan's full key": "G S dan later",
    "eve's full key": "S eve",
    "the key of an admin of earlier": "S",
}
TABLE = OF_SESSIONS | OF_KEYS
ALL_TYPES = (*IN_A_MAILBOX, "delivery.updated", "backup.finished", "backup.failed")
#: For the command line, which takes longer.
BY_CLI = ("ada's session", "dan's session", "cid's key for the granted mailbox", "a revoked key")


def wanted_by(name: str) -> set[str]:
    """The names of the events that a credential sees, by the table."""
    return set[str]().union(*(LETTERS[letter] for letter in TABLE.get(name, "").split()))


class Happening:
    """One event of each kind in each mailbox, by name."""

    def __init__(self, served: Served, world: World, ids: dict[str, str]) -> None:
        self.served, self.ids = served, ids
        self.boxes = {aim.mailbox.name: aim.mailbox.id for aim in world.mailboxes if aim.mailbox is not None}
        self._names: dict[tuple[str, str | None], str] = {}
        #: The message that comes after everything.
        self.last = ""

    def names(self, events: list[dict[str, Any]]) -> set[str]:
        """The events by their names; each may come once."""
        found = [self._names[one["type"], _subject(one)] for one in events if _subject(one) != self.last]
        assert len(found) == len(set(found)), found
        return set(found)

    def happen(self) -> None:
        """Change something of everything."""
        for box, account in self.boxes.items():
            self._change_mailbox(box, account)
        self._send("granted", "dan", "dan")
        self._send("granted", "later", "dan", kind="scheduled")
        self._send("shared", "eve", "eve")
        self._send("an admin's", "ada", "ada")
        self._send("granted", "not shown yet", "dan", is_shown=False)
        with self.served.store.database.transaction():
            self.served.store.changes.record("backup.finished", "bak_1")
            self.served.store.changes.record("backup.failed", "no space")
        self._names |= {("backup.finished", "bak_1"): "backup.finished", ("backup.failed", None): "backup.failed"}

    def _change_mailbox(self, box: str, account: str) -> None:
        created, updated, moved, deleted = self.there[account][:4]
        del created
        created = self.served.deliver(account)
        self.served.change("UPDATE messages SET flags = flags | 1 WHERE id = ?", updated)
        other = "(SELECT number FROM folders f WHERE f.account = m.account AND f.path = 'Trash')"
        self.served.change(f"UPDATE messages AS m SET folder = {other}, uid = 7 WHERE id = ?", moved)
        self.served.change("DELETE FROM messages WHERE id = ?", deleted)
        self.served.change("UPDATE accounts SET status = 'error' WHERE id = ?", account)
        subjects = (created, updated, moved, deleted, account)
        self._names |= {(kind, subject): f"{box} {kind}" for kind, subject in zip(IN_A_MAILBOX, subjects, strict=True)}

    def prepare(self) -> None:
        """Put messages into the mailboxes that are changed later."""
        self.there = {
            one: [self.served.deliver(one, str(number)) for number in range(4)] for one in self.boxes.values()
        }

    def _send(self, box: str, name: str, sender: str, *, kind: Any = "send", is_shown: bool = True) -> None:
        outgoing = OutgoingMessage(
            sender=Address(email="a@example.org"), to=(Address(email="x@example.test"),), subject="s", text="t"
        )
        at = self.served.appliance.clock.now()
        message = compose(outgoing, message_id=f"<{name.replace(' ', '-')}@example.org>", date=at)
        new = NewDelivery(self.boxes[box], "ses_1", self.ids[sender], name, "hash", kind, message, None)
        deliveries = self.served.store.deliveries
        operation = deliveries.accept(new).delivery.operation_id
        if is_shown:
            deliveries.mark_shown(operation)
        self._names["delivery.updated", operation] = name


def _subject(event: dict[str, Any]) -> str | None:
    data = event["data"]
    return data.get("id") or data.get("operationId")


# --- One walk: everybody waits in every way, then everything happens once ---


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("rights") / "data") as made:
        yield made


@dataclass
class Told:
    """The events that everybody got: way -> name of the credential -> names of events."""

    by: dict[str, dict[str, set[str]]]
    world: World
    happening: Happening
    start: str


@pytest.fixture(scope="module")
def told(served: Served) -> Told:
    """The same events as everybody got them."""
    gathering = Gathering(served.appliance)
    world = gathering.world()
    everybody = {who.name: who for who in world.credentials}
    assert TABLE.keys() <= everybody.keys()
    happening = Happening(served, world, gathering.ids)
    happening.prepare()
    served.start()
    start = served.position()
    with Receiver() as receiver:
        streams = {name: served.open("/events/stream", who.token, after=start) for name, who in everybody.items()}
        held = {
            name: served.open("/events", who.token, after=start, wait=30 if wanted_by(name) else 1)
            for name, who in everybody.items()
        }
        hooks = {
            name: served.open("/webhooks", who.token, "POST", _hook(f"{receiver.url}/{number}"))
            for number, (name, who) in enumerate(everybody.items())
        }
        made = {name: hook.status() for name, hook in hooks.items()}
        _wait_for_readers(served, len(made))
        happening.happen()
        found = {
            "page": {name: served.pages(who.token, start) for name, who in everybody.items()},
            "long poll": {name: _rest_of(served, held[name], who) for name, who in everybody.items()},
            "mcp": {name: _by_mcp(served, who, start) for name, who in everybody.items()},
            "cli": {name: _by_cli(served, everybody[name], start) for name in BY_CLI},
        }
        wait_until(lambda: _all_told(served), lambda: "some readers lag behind", 20)
        served.appliance.readers.stop()
        found["stream"] = {name: stream.events() for name, stream in streams.items()}
        found["webhook"] = _by_webhooks(happening, receiver, list(everybody))
    assert {name for name, status in made.items() if status == 201} == OF_SESSIONS.keys()
    by = {way: {name: happening.names(events) for name, events in by_name.items()} for way, by_name in found.items()}
    return Told(by, world, happening, start)


def _hook(url: str) -> dict[str, Any]:
    return {"url": url, "types": list(ALL_TYPES)}


def _wait_for_readers(served: Served, streams: int) -> None:
    def there() -> bool:
        return len(served.appliance.readers) >= len(TABLE)

    assert streams > len(TABLE)
    wait_until(there, lambda: f"{len(served.appliance.readers)} wait", 20)


def _all_told(served: Served) -> bool:
    readers, end = served.appliance.readers, served.store.changes.end()
    return all(one.after >= end for one in readers.list())


def _rest_of(served: Served, held: Opened, who: Credential) -> list[dict[str, Any]]:
    """The events in the answer to a request that waited, and on the next pages."""
    page = held.data()
    if page is None:
        return []
    first: list[dict[str, Any]] = page["items"]
    return first + served.pages(who.token, page["nextPosition"])


def _by_mcp(served: Served, who: Credential, start: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        asked = CallContext(served.appliance, LOCAL, who.token)
        shown = call.call_tool(asked, "list_changes", {"after": start, "limit": 5})
        if shown.is_error or not shown.structured["data"]["items"]:
            return found
        found += shown.structured["data"]["items"]
        start = shown.structured["data"]["nextPosition"]


def _by_cli(served: Served, who: Credential, start: str) -> list[dict[str, Any]]:
    environment = {
        "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        "MAILBOX_APPLIANCE_CONFIG_DIR": str(served.appliance.folder / "config"),
        "MAILBOX_APPLIANCE_INSTANCE": f"http://{served.place}",
        "MAILBOX_APPLIANCE_TOKEN": who.token,
    }
    out = io.StringIO()
    words = ["events", "list", "--after", start, "--limit", "100"]
    code = run(words, {}, Terminal(io.BytesIO(), out, io.StringIO(), environment))
    shown = json.loads(out.getvalue()) if code == 0 else {}
    items: list[dict[str, Any]] = shown.get("data", shown).get("items", [])
    return items


def _by_webhooks(happening: Happening, receiver: Receiver, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The events of each webhook before one more change, which every member gets. Events come in order."""
    happening.last = happening.served.deliver(happening.boxes["shared"], "the last one")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    ended = 0
    while ended < len(OF_SESSIONS):
        asked = receiver.got.get(timeout=20)
        event = json.loads(asked.body)["data"]
        if _subject(event) == happening.last:
            ended += 1
        else:
            found[names[int(asked.target.rpartition("/")[2])]].append(event)
    return found


@pytest.mark.parametrize("way", ["page", "long poll", "stream", "mcp", "cli"])
def test_everybody_is_told_of_what_they_may_read(way: str, told: Told) -> None:
    wrong = {name: found ^ wanted_by(name) for name, found in told.by[way].items() if found != wanted_by(name)}
    assert wrong == {}


def test_webhooks_tell_their_members_what_they_may_read(told: Told) -> None:
    wanted = {name: wanted_by(name) if name in OF_SESSIONS else set() for name in told.by["webhook"]}
    assert told.by["webhook"] == wanted


@pytest.mark.parametrize("letter", "GSA")
def test_a_mailbox_is_told_of_alone_or_not_found(letter: str, told: Told, served: Served) -> None:
    box = {"G": "granted", "S": "shared", "A": "an admin's"}[letter]
    account = told.happening.boxes[box]
    of_deliveries = {"G": {"dan", "later"}, "S": {"eve"}, "A": {"ada"}}[letter]
    rest = Rest(served.appliance)
    for who in told.world.credentials:
        query = f"after={told.start}&accountId={account}&limit=100"
        answer = rest.answer("GET", "/api/v1/events", who, HERE, query=query)
        if answer.status == 200:
            wanted = wanted_by(who.name) & (LETTERS[letter] | of_deliveries)
            assert told.happening.names(answer.data["items"]) == wanted, who.name
        else:
            assert letter not in TABLE.get(who.name, ""), who.name
            assert answer.status in (401, 403, 404)


@pytest.mark.parametrize("origin", ELSEWHERE, ids=lambda origin: origin.name)
def test_backups_are_told_of_on_private_connections_only(origin: Origin, told: Told, served: Served) -> None:
    rest = Rest(served.appliance)
    for who in told.world.credentials:
        answer = rest.answer("GET", "/api/v1/events", who, origin, query=f"after={told.start}&limit=100")
        seen = told.happening.names(answer.data["items"]) if answer.status == 200 else set()
        assert seen == wanted_by(who.name) - (set() if origin.is_secure else LETTERS["B"]), who.name
