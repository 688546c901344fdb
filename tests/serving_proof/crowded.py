"""300 stalled handshakes, 300 slow clients, 25 MB uploads and swapped certificates: others stay served.

One run has, in turn: peace, the crowd from an address each, the crowd from one address, uploads while the certificate's
files are replaced, and all of it together. All the time one client asks GET /me over a connection that is kept, and
another over new ones. Nobody of these may fail, no new client sees a certificate that was never whole, and no upload
fails or arrives changed.
"""

import base64
import email
import hashlib
import http.client
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.certificates import any_certificate
from tests.servers.crowd import Crowd, Plan, Seen
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.prober import Latency, Prober
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.serving_proof.asking import Request, Told, ask
from tests.serving_proof.swapping import Swapper

SECURE_CROWD = {"silent": 200, "half-hello": 100, "slow-header": 150, "slow-body": 150}
PLAIN_CROWD = {"silent": 300, "slow-header": 150, "slow-body": 150}
UPLOAD = 25_000_000
#: Milliseconds of p95 that are too many while large messages are sent.
NOTICED = 500
_AT_ONCE = 2
_SETTLED = 4.0  # seconds after all have come: what it takes to let them in is no part of what is compared


@dataclass
class Phase:
    """What was measured in one of them."""

    name: str
    kept: Latency
    fresh: list[float] = field(default_factory=list)  # milliseconds
    seen: Seen | None = None

    def shown(self, peace: "Phase") -> str:
        """With its ratio to peace."""
        ratio = self.kept.p95 / peace.kept.p95
        fresh = sorted(self.fresh)
        new = f"new connections p95 {fresh[len(fresh) * 95 // 100]:.0f}, worst {fresh[-1]:.0f} ms" if fresh else ""
        crowd = f"\n      {self.seen}" if self.seen else ""
        kept = f"median {self.kept.median:.1f}, p95 {self.kept.p95:.1f} ({ratio:.1f}x), worst {self.kept.worst:.0f} ms"
        return f"  {self.name}: {kept}; {new}{crowd}"


class Newcomers:
    """Somebody who asks over a new connection each time; whatever does not succeed is noted."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = urlsplit(url), token
        self.took: list[float] = []
        self.failures: list[str] = []
        self.fingerprints: set[str] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newcomers")
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        context = any_certificate()
        while not self._ending.wait(0.1):
            began = time.perf_counter()
            try:
                self._ask(context)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            self.took.append((time.perf_counter() - began) * 1000)

    def _ask(self, context: ssl.SSLContext) -> None:
        if self._url.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._url.netloc, timeout=20, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._url.netloc, timeout=20)
        connection.connect()
        if isinstance(connection.sock, ssl.SSLSocket):
            shown = connection.sock.getpeercert(binary_form=True)
            self.fingerprints.add(hashlib.sha256(shown or b"").hexdigest())
        connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {self._token}"})
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.status == 200, response.status


class Uploads:
    """Clients that send messages of 25 MB, over and over; the SMTP server says what arrived."""

    def __init__(self, at: "Field", account: str, smtp: ScriptedSmtp, seed: int) -> None:
        self._url, self._token, self._account, self._smtp = at.url, at.token, account, smtp
        self._size, self._seed = int(at.size * UPLOAD * 3 // 4), seed
        self._chance = random.Random(seed)
        self._ending, self._lock = threading.Event(), threading.Lock()
        self.failures: list[str] = []
        self.count = 0
        self._threads = [threading.Thread(target=self._run, name=f"upload-{one}") for one in range(_AT_ONCE)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End with those that are under way."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            with self._lock:
                self.count += 1
                number, seconds = self.count, self._chance.choice((0.0, 1.0, 4.0))
                content = self._chance.randbytes(self._size)
            if trouble := self._upload(f"upload-{number}-{self._seed}-{self._url[:5]}", content, seconds):
                self.failures.append(f"upload {number}: {trouble}")

    def _upload(self, name: str, content: bytes, seconds: float) -> str:
        """What was wrong, or nothing."""
        body = {
            "to": [{"email": "bob@example.test"}],
            "subject": name,
            "body": {"text": "see there"},
            "attachments": [
                {
                    "filename": "large.bin",
                    "mimeType": "application/octet-stream",
                    "content": base64.b64encode(content).decode(),
                }
            ],
        }
        request = Request.of(
            "upload", "POST", f"/accounts/{self._account}/send", body, fields={"Idempotency-Key": name}, sends=seconds
        )
        told = ask(self._url, self._token, Told(request))
        if told.status != 200:
            return f"{told} {told.content[:200]!r}"
        wait_until(lambda: self._arrived(name) is not None, lambda: f"{name} does not arrive", 60)
        return "" if self._arrived(name) == hashlib.sha256(content).digest() else "it arrived changed"

    def _arrived(self, name: str) -> bytes | None:
        marks = f"Subject: {name}\r\n".encode()
        for message in self._smtp.messages:
            if marks in message.source[:2000]:
                parts = email.message_from_bytes(message.source).walk()
                (file,) = (part for part in parts if part.get_filename())
                return hashlib.sha256(bytes(file.get_payload(decode=True) or b"")).digest()
        return None


@dataclass
class Outcome:
    """What came of one listener."""

    scheme: str
    phases: list[Phase]
    uploads: int
    swaps: int = 0
    halves: int = 0

    def __str__(self) -> str:
        peace = self.phases[0]
        swapped = f", {self.swaps} swaps of the certificate, {self.halves} of them by halves" if self.swaps else ""
        lines = [f"{self.scheme}: {self.uploads} uploads of 25 MB{swapped}"]
        return "\n".join([*lines, *(phase.shown(peace) for phase in self.phases)])

    def require_served(self) -> None:
        """Raises AssertionError where others waited for the crowd.

        A body of 25 MB is read and written in steps that leave the others of the process no turn: how long they take is
        told, and judged by what a person would notice.
        """
        peace = [phase.kept.p95 for phase in self.phases if phase.name == "in peace"]
        limit = 2 * max(peace)
        limits = {phase.name: limit if phase.name.startswith("crowd") else max(limit, NOTICED) for phase in self.phases}
        slow = [phase.name for phase in self.phases if phase.kept.p95 > limits[phase.name]]
        assert not slow, f"p95 over {limit:.1f} ms, twice that in peace: {', '.join(slow)}\n{self}"


class Field:
    """One listener, with those who ask there."""

    def __init__(self, running: RunningAppliance, url: str, seconds: float, size: float) -> None:
        self.url, self.token, self.size, self._seconds = url, running.token or "", size, seconds
        self.failures: list[str] = []
        self.fingerprints: set[str] = set()

    def crowd(self, sources: int, seed: int) -> Crowd:
        """The bad clients, from so many addresses."""
        members = SECURE_CROWD if self.url.startswith("https") else PLAIN_CROWD
        scaled = {manner: max(1, int(count * self.size)) for manner, count in members.items()}
        return Crowd(Plan(self.url, scaled, max(1, int(sources * self.size)), seed=seed))

    def phase(self, name: str) -> Phase:
        newcomers, prober = Newcomers(self.url, self.token), Prober(self.url.removeprefix("http://"), self.token)
        time.sleep(self._seconds)
        kept = prober.stop()
        newcomers.stop()
        self.failures += [f"{name}: {failure}" for failure in newcomers.failures]
        self.fingerprints |= newcomers.fingerprints
        return Phase(name, kept, newcomers.took)

    def crowded(self, name: str, sources: int, seed: int) -> Phase:
        """Ask for a while amid the crowd."""
        with (crowd := self.crowd(sources, seed)):
            time.sleep(_SETTLED * self.size)
            phase = self.phase(name)
        phase.seen = crowd.seen
        return phase


@contextmanager
def staged(
    mail: MailServer, folder: Path, arguments: tuple[str, ...]
) -> Iterator[tuple[RunningAppliance, str, ScriptedSmtp]]:
    """An appliance with a mailbox that sends through a server which keeps what it is given."""
    running = RunningAppliance(folder, arguments=arguments).start()
    user = mail.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    try:
        running.set_up()
        yield running, running.connect(user, imap_port=mail.imap_port, smtp_port=smtp.port), smtp
        assert running.stop() == 0
    except Exception as error:
        if running.process is not None and (code := running.process.poll()) is not None:
            error.add_note(f"The appliance had ended with {code} by then: {running.said()}")
        raise
    finally:
        if running.process is not None and running.process.poll() is None:
            running.kill()
        smtp.stop()


def play(
    running: RunningAppliance,
    account: str,
    smtp: ScriptedSmtp,
    seed: int,
    *,
    is_secure: bool,
    seconds: float,
    size: float = 1,
) -> Outcome:
    """All phases at one listener, so many seconds each. Raises AssertionError."""
    url = running.https if is_secure else running.url
    assert url is not None
    at = Field(running, url, seconds, size)
    at.phase("warm")
    outcome = Outcome(url.partition(":")[0], [at.phase("in peace")], 0)
    outcome.phases.append(at.crowded("crowd of an address each", 600, seed))
    outcome.phases.append(at.crowded("crowd of one address", 1, seed))
    outcome.phases.append(at.phase("in peace"))
    with _busy(running, at, account, smtp, seed, outcome, is_secure):
        outcome.phases.append(at.phase("uploads" + " and swaps" * is_secure))
        outcome.phases.append(at.crowded("all together", 600, seed))
    outcome.phases.append(at.phase("in peace"))
    assert not at.failures, f"{len(at.failures)} newcomers were not served: {at.failures[:5]}\n{outcome}"
    return outcome


@contextmanager
def _busy(
    running: RunningAppliance, at: Field, account: str, smtp: ScriptedSmtp, seed: int, outcome: Outcome, is_secure: bool
) -> Iterator[None]:
    uploads = Uploads(at, account, smtp, seed)
    swapper = Swapper(running.folder, seed, 1.0).start() if is_secure else None
    ends: list[Callable[[], None]] = [uploads.stop, *([swapper.stop] if swapper else [])]
    try:
        yield
    finally:
        for end in ends:
            end()
    outcome.uploads = uploads.count
    assert not uploads.failures, f"{len(uploads.failures)} of {uploads.count} uploads: {uploads.failures[:3]}"
    if swapper is not None:
        outcome.swaps, outcome.halves = swapper.swaps, swapper.halves
        unknown = at.fingerprints - swapper.fingerprints
        assert not unknown, "a certificate was shown that nobody put there"
        wait_until(lambda: _shows(at, swapper.newest), lambda: "the last certificate is not taken", 10)


def _shows(at: Field, fingerprint: str) -> bool:
    newcomers = Newcomers(at.url, at.token)
    time.sleep(0.3)
    newcomers.stop()
    return newcomers.fingerprints == {fingerprint}
