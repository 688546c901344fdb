"""Mail whose HTML takes seconds to analyze, read in parallel by one key: every other request is served as ever.

Figures: how long `GET /healthz` and another member's list of messages take meanwhile, and each of the hostile reads.
"""

import base64
import http.client
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil

from mailbox_appliance.mail.html.analysis import UNANALYZED
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, Answer, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp

#: Seconds, at most: of each hostile read, and of p95 of what others ask meanwhile.
MOST_OF_A_READ, MOST_OF_OTHERS = 5.0, 0.05
_PEACE = 2.0  # seconds of it, to compare with
_EVERY = 0.02  # seconds between the requests of others
_MIB = 1 << 20


def _sheet(rules: str, body: str) -> str:
    return f"<style>{rules}</style>{body}"


#: Eight style sheets of one kind, each with a class of its own, and two of other kinds.
SHEETS: Mapping[str, str] = {
    f"siblings {n}": _sheet(f".z{n} .b>.c~.d+.e{{color:red}}" * 20_000, f"<p class='z{n} b c d e'>x" * 3_000)
    for n in range(8)
} | {
    "not": _sheet(":not(:is(.a,.b,.c) .d){color:red}" * 10_000, "<p>x" * 20_000),
    "places": _sheet(":nth-child(2n+1) ~ :nth-child(3n){color:red}" * 10_000, "<p>x" * 20_000),
}
#: Each costs in another place of the analysis.
OTHERS: Mapping[str, str] = {
    "table": _sheet("td{color:#111}", "<table>" + "<tr><td>x<td>y" * 140_000),
    "formatting": _sheet("", "<b><i><u><s><p>" * 130_000),
    "small elements": _sheet("i{color:red}", "<i>x</i>" * 230_000),
    "entities": _sheet("", "<p>&amp;&lt;&#120;" * 100_000),
    "attributes": _sheet("".join(f"[a{n}^=x] [b~=y]{{color:red}}" for n in range(8_000)), "<p a1=xx b='y z'>x" * 8_000),
    "everything in everything": _sheet("* *{color:red}" * 40_000, "<div>" * 500 + "<p>x" * 5_000),
    "nesting": "<div style='color:red'>" * 85_000 + "x",
    "long attributes": _sheet("[title*=zz]{color:red}", ("<p title='" + "x" * 20_000 + "'>y") * 95),
    "comments": _sheet("", "<!--x-->" * 240_000),
    "unclosed tags": _sheet("", "<a href='x" * 190_000),
}


@dataclass
class Outcome:
    """What was measured; times in seconds."""

    reads: dict[str, float] = field(default_factory=dict)
    again: dict[str, float] = field(default_factory=dict)
    unanalyzed: int = 0
    others: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)

    def p95(self, name: str) -> float:
        """Of the requests of others with this name."""
        times = sorted(self.others[name])
        return times[len(times) * 95 // 100]

    def require_served(self) -> None:
        """Raise AssertionError where others waited, or a hostile read took too long; for a machine that idles."""
        assert max(self.reads.values()) <= MOST_OF_A_READ, self
        assert all(self.p95(name) <= MOST_OF_OTHERS for name in self.others), self

    def __str__(self) -> str:
        lines = [
            f"  {name}: {len(times)} requests, p95 {self.p95(name) * 1000:.0f}, worst {max(times) * 1000:.0f} ms"
            for name, times in self.others.items()
        ]
        slowest = max(self.reads, key=self.reads.__getitem__)
        read = f"{len(self.reads)} hostile reads, {self.unanalyzed} without an analysis"
        lines.append(
            f"  {read}; slowest {self.reads[slowest]:.1f} s ({slowest}); again {max(self.again.values()):.2f} s"
        )
        lines += [f"  memory {when}: {told}" for when, told in self.memory.items()]
        return "\n" + "\n".join(lines)


class Others:
    """Somebody who asks every so often, one request after the other, for as long as this lasts."""

    def __init__(self, running: RunningAppliance, path: str, token: str) -> None:
        self.times: list[float] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(running.url, path, token), name="others")
        self._thread.start()

    def stop(self) -> list[float]:
        """End, and return how many seconds each answer took, counted from when it should have been asked."""
        self._ending.set()
        self._thread.join()
        return self.times

    def _ask(self, url: str, path: str, token: str) -> None:
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            response.read()
            connection.close()
            assert response.status == 200, response.status
            self.times.append(time.monotonic() - due)
            due += _EVERY


@contextmanager
def staged(mail: MailServer, folder: Path, bodies: Mapping[str, str]) -> Iterator["Scene"]:
    """An appliance with a mailbox of hostile mail, and one of another member."""
    running = RunningAppliance(folder).start()
    user, other = mail.fresh_user(), mail.fresh_user()
    servers = {each: ScriptedSmtp(user=each).start() for each in (user, other)}
    try:
        running.set_up()
        mail.deliver(user, *(_message(name, html) for name, html in bodies.items()))
        mail.deliver(other, *(_message(f"ordinary {n}", "<p>Good morning") for n in range(60)))
        yield Scene(running, mail.imap_port, {each: smtp.port for each, smtp in servers.items()}, bodies)
        assert running.stop() == 0
    finally:
        if running.process is not None and running.process.poll() is None:
            running.kill()
        for smtp in servers.values():
            smtp.stop()


class Scene:
    """The appliance, with all mail arrived."""

    def __init__(
        self, running: RunningAppliance, imap_port: int, smtp_ports: Mapping[str, int], bodies: Mapping[str, str]
    ) -> None:
        self.running = running
        (user, port), (other, others_port) = smtp_ports.items()
        self.account = running.connect(user, imap_port=imap_port, smtp_port=port)
        self.key = self._key()
        self.member = self._member()
        administrator, running.token = running.token, self.member
        self.others_account = running.connect(other, imap_port=imap_port, smtp_port=others_port)
        running.token = administrator
        self.ids = self._arrived(self.account, self.key, set(bodies))
        self._arrived(self.others_account, self.member, {f"ordinary {n}" for n in range(60)})

    def _key(self) -> str:
        body = {"name": "reader", "permissionProfile": "read-only", "accounts": [self.account]}
        return str(_expect(self.running.ask("POST", "/me/api-keys", body), 201).data["token"])

    def _member(self) -> str:
        body = {"name": "Grace", "email": "grace@example.org", "role": "member"}
        made = _expect(self.running.ask("POST", "/admin/members", body), 201).data
        accepted = {"token": made["invitation"]["token"], "password": PASSWORD, "deviceName": "test"}
        return str(_expect(self.running.ask("POST", "/auth/enroll", accepted), 200).data["token"])

    def _arrived(self, account: str, token: str, subjects: set[str]) -> dict[str, str]:
        def is_ready() -> bool:
            return bool(self.running.ask("GET", f"/accounts/{account}", token=token).data["status"] == "ready")

        wait_until(is_ready, lambda: "the first sync is not through", 120)
        items = self.running.ask("GET", f"/accounts/{account}/messages?limit=100", token=token).data["items"]
        found = {item["subject"]: item["id"] for item in items}
        assert subjects == found.keys()
        return found

    def read(self, name: str, form: str = "markdown") -> tuple[float, Answer]:
        """The answer to one read, and how many seconds it took."""
        query = urlencode({"format": form, "limit": 1})
        began = time.monotonic()
        path = f"/accounts/{self.account}/messages/{self.ids[name]}/body?{query}"
        answer = _expect(self.running.ask("GET", path, token=self.key), 200)
        return time.monotonic() - began, answer

    def memory(self) -> str:
        """Resident memory of the service and of its children, in MiB."""
        assert self.running.process is not None
        service = psutil.Process(self.running.process.pid)
        children = [child.memory_info().rss // _MIB for child in service.children()]
        return f"service {service.memory_info().rss // _MIB} MiB, children {children}"


def play(scene: Scene, names: list[str]) -> Outcome:
    """Read these in parallel, and then again. Raises AssertionError."""
    outcome = Outcome(memory={"before": scene.memory()})
    others = _others(scene)
    time.sleep(_PEACE)
    outcome.others = {f"{name}, in peace": each.stop() for name, each in others.items()}
    others = _others(scene)
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            answers = dict(zip(names, pool.map(scene.read, names), strict=True))
            outcome.memory["in use"] = scene.memory()
    finally:
        outcome.others |= {name: each.stop() for name, each in others.items()}
    outcome.reads = {name: seconds for name, (seconds, _) in answers.items()}
    outcome.unanalyzed = sum(UNANALYZED in answer.body.get("warnings", ()) for _, answer in answers.values())
    outcome.again = {name: scene.read(name)[0] for name in names}
    return outcome


def _others(scene: Scene) -> dict[str, Others]:
    listing = f"/api/v1/accounts/{scene.others_account}/messages"
    return {
        "GET /healthz": Others(scene.running, "/healthz", scene.member),
        "list of another member": Others(scene.running, listing, scene.member),
    }


def _message(subject: str, html: str) -> bytes:
    fields = f"Subject: {subject}\r\nFrom: a@example.org\r\nContent-Type: text/html\r\n"
    encoded = base64.encodebytes(html.encode()).replace(b"\n", b"\r\n")
    return f"{fields}Content-Transfer-Encoding: base64\r\n\r\n".encode() + encoded


def _expect(answer: Answer, status: int) -> Answer:
    assert answer.status == status, answer
    return answer
