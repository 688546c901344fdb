"""The mixed load: clients that do at random what people, programs and mail servers do, and a ledger of the answers."""

import base64
import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.mcp_server.assistant import over_http
from tests.servers.corpus import Corpus
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance
from tests.serving_proof.asking import Request, Told, ask

MIB = 1 << 20
#: Messages that stay in each folder; older ones are deleted.
KEPT = 100
_FOLDERS = ("inbox", "sent", "archive", "trash", "drafts")
#: Answers that are right because another client has changed or deleted the same message.
_OVERTAKEN = (404, 409)
_REFUSED = (429, 503)
_FINAL = ("succeeded", "failed", "uncertain", "cancelled", "canceled")
_KEPT_BACKUPS = 2
_AT_FIRST = 40  # messages in each mailbox
_CALLS_A_CONNECTION = 50


@dataclass
class Ledger:
    """What was asked and how it was answered, of all clients."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: The first of the failures, as text.
    failures: list[str] = field(default_factory=list)
    requests: int = 0
    refused: int = 0
    failed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, activity: str, outcome: str, *, refused: bool = False, failure: str = "") -> None:
        """Count an answer; `failure` says what was wrong with it."""
        with self._lock:
            self.counts[activity, outcome] += 1
            self.requests += 1
            self.refused += refused
            if failure:
                self.failed += 1
                if len(self.failures) < 50:
                    self.failures.append(f"{activity}: {failure}")

    def totals(self) -> tuple[int, int, int]:
        """Requests, designed refusals, failures."""
        with self._lock:
            return self.requests, self.refused, self.failed

    def shown(self) -> str:
        """One line for each activity."""
        by_name: dict[str, list[str]] = {}
        for (activity, outcome), count in sorted(self.counts.items()):
            by_name.setdefault(activity, []).append(f"{count} x {outcome}")
        return "\n".join(f"  {name}: {', '.join(outcomes)}" for name, outcomes in by_name.items())


@dataclass
class Mailbox:
    """A connected mailbox and what a client has seen in it."""

    account: str
    user: str
    arrivals: Iterator[bytes]
    seen: list[Any] = field(default_factory=list)  # list items
    words: list[str] = field(default_factory=lambda: ["the"])


@dataclass
class Scene:
    """What all clients share. `largest`: bytes of the largest attachment that is sent or arrives."""

    running: RunningAppliance
    mail: MailServer
    mailboxes: list[Mailbox]
    largest: int
    ledger: Ledger = field(default_factory=Ledger)
    #: Deliveries whose outcome is not known yet: account and operation.
    pending: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, running: RunningAppliance, mail: MailServer, seed: int, largest: int) -> "Scene":
        """With two mailboxes of the same mail server, which have some messages and write to each other."""
        mailboxes = []
        for number in range(2):
            user = mail.fresh_user()
            messages = Corpus(user, seed + number).messages(1_000_000)
            arrivals = (message.source for message in messages)
            mail.deliver(user, *itertools.islice(arrivals, _AT_FIRST))
            account = running.connect(user, imap_port=mail.imap_port, smtp_port=mail.submission_port)
            mailboxes.append(Mailbox(account, user, arrivals))
            wait_until(lambda: _count(running, account) == _AT_FIRST, lambda: "the first sync does not end", 60)  # noqa: B023
        return cls(running, mail, mailboxes, largest)


def _count(running: RunningAppliance, account: str) -> int:
    return len(running.ask("GET", f"/accounts/{account}/messages?limit=100").data["items"])


class Client:
    """One client: its own random choices, a session of its own, and one thing at a time."""

    def __init__(self, scene: Scene, seed: str) -> None:
        self._scene, self._chance = scene, random.Random(seed)
        self._token, self._activity = scene.running.token or "", ""

    def play(self, activity: "Activity") -> None:
        """Do it; what goes wrong is in the ledger."""
        self._activity = activity.name
        try:
            activity.act(self, self._chance.choice(self._scene.mailboxes))
        except Exception as error:  # noqa: BLE001 - any error here is a failure of the proof, and the load goes on
            self._note(type(error).__name__, failure=f"{type(error).__name__}: {error}"[:300])

    # --- asking -----------------------------------------------------------------------------------------------------

    def _note(self, outcome: str, **more: Any) -> None:
        self._scene.ledger.note(self._activity, outcome, **more)

    def _ask(self, method: str, path: str, body: object = None, token: str | None = None, **fields: str) -> Told:
        """One request, over HTTP or HTTPS, counted."""
        running = self._scene.running
        url = self._chance.choice([running.url, running.https or running.url])
        given = {name.replace("_", "-"): value for name, value in fields.items()}
        request = Request.of(self._activity, method, path, body, fields=given)
        told = ask(url, token or self._token, Told(request))
        is_refused = told.status in _REFUSED and "Retry-After" in told.fields
        is_good = told.is_whole and told.status is not None and (told.status < 300 or told.status in _OVERTAKEN)
        failure = "" if is_good or is_refused else f"{told} {told.content[:300]!r}"
        self._note(str(told.status), refused=is_refused, failure=failure)
        return told

    def _data(self, method: str, path: str, body: object = None, **fields: str) -> Any:
        """The data of a good answer; None where it was refused, overtaken, or failed."""
        told = self._ask(method, path, body, **fields)
        return told.data if told.status is not None and told.status < 300 else None

    def _list(self, mailbox: Mailbox, **query: str) -> list[Any]:
        page = self._data("GET", f"/accounts/{mailbox.account}/messages?{urlencode(query)}")
        items = list(page["items"]) if page else []
        if items:
            mailbox.seen = items
            words = [word for item in items for word in item["subject"].split() if word.isalpha() and len(word) > 2]
            mailbox.words = words or mailbox.words
        return items

    def _message(self, mailbox: Mailbox) -> Any:
        """Some message that was listed."""
        items = mailbox.seen or self._list(mailbox, limit="50")
        return self._chance.choice(items) if items else None

    # --- reading ----------------------------------------------------------------------------------------------------

    def list(self, mailbox: Mailbox) -> None:
        """A page of a folder, of everything, or of all mailboxes."""
        folder = self._chance.choice(({}, {"folder": self._chance.choice(_FOLDERS)}))
        self._list(mailbox, limit="50", **folder)
        self._data("GET", "/messages?limit=20")

    def search(self, mailbox: Mailbox) -> None:
        """A word, two words, a prefix, or an operator."""
        first, second = self._chance.choices(mailbox.words, k=2)
        query = self._chance.choice((first, f"{first} {second}", f"{first[:3]}*", "is:unread", "has:attachment"))
        self._data("GET", f"/accounts/{mailbox.account}/messages?{urlencode({'q': query, 'limit': '50'})}")

    def get(self, mailbox: Mailbox) -> None:
        """A message and its conversation."""
        if message := self._message(mailbox):
            self._data("GET", f"/accounts/{mailbox.account}/messages/{message['id']}")
            self._data("GET", f"/accounts/{mailbox.account}/threads/{message['threadId']}")

    def body(self, mailbox: Mailbox) -> None:
        """A body in each form."""
        if message := self._message(mailbox):
            for form in ("text", "html", "markdown"):
                self._data("GET", f"/accounts/{mailbox.account}/messages/{message['id']}/body?format={form}")

    def download(self, mailbox: Mailbox) -> None:
        """An attachment, and at times the whole source."""
        items = self._list(mailbox, q="has:attachment", limit="50")
        if not items:
            return
        path = f"/accounts/{mailbox.account}/messages/{self._chance.choice(items)['id']}"
        message = self._data("GET", path)
        for attachment in (message or {}).get("attachments", ())[:2]:
            self._ask("GET", f"{path}/attachments/{attachment['id']}")
        if self._chance.random() < 0.3:
            self._ask("GET", f"{path}/raw")

    def look(self, mailbox: Mailbox) -> None:
        """Status, folders, labels, audit events, and a delivery that is not final."""
        for path in ("/status", f"/accounts/{mailbox.account}/folders", f"/accounts/{mailbox.account}/labels"):
            self._data("GET", path)
        self._data("GET", "/admin/audit-events?limit=20")
        self._data("GET", f"/accounts/{mailbox.account}/delivery-operations?limit=20")
        self.settle()

    def settle(self) -> None:
        """Look up one delivery whose outcome is not known yet."""
        try:
            account, operation = self._scene.pending.pop()
        except IndexError:
            return
        self._delivered(account, self._data("GET", f"/accounts/{account}/delivery-operations/{operation}"))

    def _delivered(self, account: str, delivery: Any) -> None:
        if delivery is None:
            return
        status = delivery["status"]
        if status not in _FINAL:
            self._scene.pending.insert(0, (account, delivery["operationId"]))
        else:
            self._note(status, failure="" if status == "succeeded" else f"a delivery is {status}: {delivery}")

    # --- writing ----------------------------------------------------------------------------------------------------

    def _letter(self, mailbox: Mailbox, size: int = 0) -> dict[str, Any]:
        words = " ".join(self._chance.choices(mailbox.words, k=40))
        to = self._chance.choice(self._scene.mailboxes).user
        letter: dict[str, Any] = {"to": [{"email": to}], "subject": words[:60], "body": {"text": words}}
        if self._chance.random() < 0.5:
            letter["body"]["html"] = f"<p>{words}</p>"
        if size:
            content = base64.b64encode(self._chance.randbytes(size)).decode()
            file = {"filename": "file.bin", "mimeType": "application/octet-stream", "content": content}
            letter["attachments"] = [file]
        return letter

    def _large(self) -> int:
        """Bytes of a large file: as many between 1 and 5 MiB as between 5 and 25."""
        return int(min(MIB, self._scene.largest) * max(1, self._scene.largest / MIB) ** self._chance.random())

    def _send(self, mailbox: Mailbox, letter: Mapping[str, Any]) -> None:
        path = f"/accounts/{mailbox.account}/send"
        self._delivered(mailbox.account, self._data("POST", path, letter, Idempotency_Key=uuid.uuid4().hex))

    def send(self, mailbox: Mailbox) -> None:
        """A small message, at times with a small file."""
        self._send(mailbox, self._letter(mailbox, self._chance.choice((0, 0, 0, 30_000))))

    def send_large(self, mailbox: Mailbox) -> None:
        """A message of 1 to 25 MiB."""
        self._send(mailbox, self._letter(mailbox, self._large()))

    def preview(self, mailbox: Mailbox) -> None:
        """A preview that is not sent."""
        self._data("POST", f"/accounts/{mailbox.account}/send/preview", self._letter(mailbox))

    def draft(self, mailbox: Mailbox) -> None:
        """A draft that is made, changed, read, and deleted or sent."""
        drafts = f"/accounts/{mailbox.account}/drafts"
        made = self._data("POST", drafts, self._letter(mailbox, self._chance.choice((0, 0, 200_000))))
        if made is None:
            return
        self._data("PUT", f"{drafts}/{made['id']}", self._letter(mailbox))
        self._data("GET", f"{drafts}/{made['id']}")
        if self._chance.random() < 0.5:
            self._data("DELETE", f"{drafts}/{made['id']}")
        else:
            self._send(mailbox, {"draftId": made["id"]})

    def act(self, mailbox: Mailbox) -> None:
        """A bulk action on some messages."""
        if items := mailbox.seen or self._list(mailbox, limit="50"):
            ids = [item["id"] for item in self._chance.sample(items, min(len(items), self._chance.randint(1, 20)))]
            names = ("markRead", "markUnread", "star", "unstar", "archive", "trash", "untrash")
            self._data(
                "POST",
                f"/accounts/{mailbox.account}/messages/actions",
                {"messageIds": ids, "action": self._chance.choice(names)},
            )

    def tidy(self, mailbox: Mailbox) -> None:
        """Delete what is older than the newest `KEPT` messages of each folder."""
        path = f"/accounts/{mailbox.account}/messages"
        for folder in _FOLDERS:
            page = self._data("GET", f"{path}?folder={folder}&limit={KEPT}")
            while page and (cursor := page["nextCursor"]):
                page = self._data("GET", f"{path}?{urlencode({'folder': folder, 'limit': KEPT, 'cursor': cursor})}")
                if page and (ids := [item["id"] for item in page["items"]]):
                    self._data("POST", f"{path}/actions", {"messageIds": ids, "action": "delete"})

    # --- what arrives, and administration ---------------------------------------------------------------------------

    def arrive(self, mailbox: Mailbox) -> None:
        """Another program delivers small messages to the server."""
        with _ARRIVING:
            sources = [next(mailbox.arrivals) for _ in range(self._chance.randint(1, 3))]
        self._scene.mail.deliver(mailbox.user, *sources)
        self._note("delivered")

    def arrive_large(self, mailbox: Mailbox) -> None:
        """Another program delivers a message of 1 to 25 MiB to the server."""
        message = EmailMessage()
        message["From"], message["To"] = "Someone <someone@example.com>", mailbox.user
        message["Subject"], message["Date"] = "A large file", formatdate()
        message["Message-ID"] = f"<{uuid.uuid4()}@example.com>"
        message.set_content("The file is attached.")
        content = self._chance.randbytes(self._large())
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename="large.bin")
        self._scene.mail.deliver(mailbox.user, message.as_bytes())
        self._note("delivered")

    def sign_in(self, mailbox: Mailbox) -> None:
        """Sign in, look, sign out."""
        body = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "proof"}
        if session := self._data("POST", "/auth/login", body):
            self._ask("GET", "/me", token=session["token"])
            self._ask("POST", "/auth/logout", token=session["token"])

    def back_up(self, mailbox: Mailbox) -> None:
        """Make a backup and verify it; older files are removed, as an operator does."""
        if made := self._data("POST", "/admin/backups", {}):
            self._data("POST", f"/admin/backups/{made['id']}/verify", {})
        files = sorted(
            (self._scene.running.folder / "backups").glob("*.mbxbackup"), key=lambda file: file.stat().st_mtime
        )
        for file in files[:-_KEPT_BACKUPS]:
            file.unlink(missing_ok=True)


_ARRIVING = threading.Lock()  # a generator serves one thread at a time


@dataclass(frozen=True)
class Activity:
    """Something that clients do, and how often a minute, all together."""

    name: str
    per_minute: float
    act: Callable[[Client, Mailbox], None]


ACTIVITIES = (
    Activity("arrive", 80, Client.arrive),
    Activity("list", 500, Client.list),
    Activity("search", 300, Client.search),
    Activity("get", 300, Client.get),
    Activity("body", 240, Client.body),
    Activity("download", 40, Client.download),
    Activity("look", 100, Client.look),
    Activity("send", 120, Client.send),
    Activity("send large", 2, Client.send_large),
    Activity("arrive large", 2, Client.arrive_large),
    Activity("preview", 80, Client.preview),
    Activity("draft", 50, Client.draft),
    Activity("act", 100, Client.act),
    Activity("sign in", 4, Client.sign_in),
    Activity("tidy", 8, Client.tidy),
    Activity("back up", 0.1, Client.back_up),
)
_MCP_CALLS = 90  # a minute


class Load:
    """All clients, each in a thread, until `stop`. Each activity is played once at first, then at random."""

    def __init__(self, scene: Scene, seed: int, rate: float = 1.0, clients: int = 12) -> None:
        """`rate`: a factor on how often everything is done."""
        self._scene, self._rate, self._clients, self._seed = scene, rate, clients, seed
        self._ending, self.has_played_all = threading.Event(), threading.Event()
        self._first, self._lock = list(ACTIVITIES), threading.Lock()
        targets = [(self._act, number) for number in range(clients)] + [(self._assist, clients)]
        self._threads = [
            threading.Thread(target=target, args=(number,), name=f"client-{number}") for target, number in targets
        ]
        self._unplayed = len(self._first) + 1

    def start(self) -> "Load":
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """End when each client has done what it is at, and every delivery has its outcome or a minute has passed."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        client, until = Client(self._scene, "last"), time.monotonic() + 60
        while self._scene.pending and self._scene.running.is_alive and time.monotonic() < until:
            client.play(Activity("look", 100, lambda one, _: one.settle()))
            time.sleep(0.2)
        if self._scene.pending:
            self._scene.ledger.note("send", "open", failure=f"{len(self._scene.pending)} deliveries have no outcome")

    def _act(self, number: int) -> None:
        client, chance = Client(self._scene, f"{self._seed} {number}"), random.Random(f"{self._seed} pace {number}")
        weights = [activity.per_minute for activity in ACTIVITIES]
        while not self._ending.is_set():
            with self._lock:
                first = self._first.pop(0) if self._first else None
            client.play(first or chance.choices(ACTIVITIES, weights)[0])
            if first:
                self._played()
            self._ending.wait(chance.expovariate(sum(weights) / 60 * self._rate / self._clients))

    def _assist(self, number: int) -> None:
        """The MCP client, which connects anew now and then."""
        chance, has_called = random.Random(f"{self._seed} mcp"), False
        while not self._ending.is_set():
            try:
                with over_http(self._scene.running.url, self._scene.running.token or "") as assistant:
                    for _ in range(_CALLS_A_CONNECTION):
                        self._call(assistant.call, chance)
                        if not has_called:
                            has_called = True
                            self._played()
                        if self._ending.wait(chance.expovariate(_MCP_CALLS / 60 * self._rate)):
                            break
                bad = [status for status in assistant.statuses if status >= 500]
                if bad:
                    self._scene.ledger.note("mcp", "status", failure=f"statuses {bad}")
            except Exception as error:  # noqa: BLE001 - any error here is a failure of the proof, and the load goes on
                self._scene.ledger.note("mcp", type(error).__name__, failure=f"{type(error).__name__}: {error}"[:300])
                self._ending.wait(1)

    def _call(self, call: Callable[[str, Mapping[str, Any]], dict[str, Any]], chance: random.Random) -> None:
        mailbox = chance.choice(self._scene.mailboxes)
        seen = [{"messageId": item["id"]} for item in mailbox.seen]
        letter = {"to": [{"email": mailbox.user}], "subject": "s", "body": {"text": "Hello"}}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_emails", {"limit": 20}),
            ("search_emails", {"q": chance.choice(mailbox.words), "limit": 20}),
            ("list_folders", {}),
            ("preview_send", letter),
            *([("get_email", chance.choice(seen)), ("get_email_body", chance.choice(seen))] if seen else []),
        ]
        name, arguments = chance.choice(calls)
        result = call(name, {"accountId": mailbox.account, **arguments})
        text = result["content"][0].get("text", "") if result.get("isError") else ""
        is_overtaken = '"not_found"' in text or '"conflict"' in text or '"sync_required"' in text
        is_refused = '"provider_unavailable"' in text
        failure = "" if not text or is_overtaken or is_refused else f"{name}: {text[:300]}"
        self._scene.ledger.note("mcp", "error" if text else "result", refused=is_refused, failure=failure)

    def _played(self) -> None:
        with self._lock:
            self._unplayed -= 1
            if not self._unplayed:
                self.has_played_all.set()


def keep_logs(running: RunningAppliance, folder: Path) -> None:
    """Copy the service's logs into a folder, to look a failure up."""
    for file in (running.folder / "logs").glob("*"):
        (folder / file.name).write_bytes(file.read_bytes())
