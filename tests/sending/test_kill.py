"""kill -9 between any two phases of a send, and at every step of the server: never two messages, never a wrong status.

succeeded: the server has accepted exactly one message        failed: it has accepted none
uncertain: the dot may have gone out and the journal has no reply
503 or no answer: nobody received it, and the same key sends it    an operation that a client has seen stays
"""

import base64
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.servers import dying
from tests.servers.desk import a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Action, Keep, Lose, Stall, Step

pytestmark = pytest.mark.slow

#: Seconds on a busy machine after which an awaited event will not come.
LONG = 90
DYING = (sys.executable, str(Path(dying.__file__)))
SHOWN = {"MAILBOX_APPLIANCE_SENDING_ANSWER_WITHIN": "0"}
NONE_KEPT = {"MAILBOX_APPLIANCE_SENDING_KEEP_CONNECTION": "0"}
MANY = NONE_KEPT | {"MAILBOX_APPLIANCE_SERVER_WORKERS": "32", "MAILBOX_APPLIANCE_SERVER_WAITING_WORKERS": "24"}


@dataclass
class Send:
    """One request with one key, repeated until it is answered."""

    account: str
    body: dict[str, Any] = field(default_factory=a_message)
    key: str = field(default_factory=a_key)
    first: "Future[Answer]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.body = self.body | {"subject": self.key}

    def ask(self, appliance: RunningAppliance) -> Answer:
        return appliance.ask("POST", f"/accounts/{self.account}/send", self.body, Idempotency_Key=self.key)

    def look(self, appliance: RunningAppliance, operation_id: str) -> Answer:
        return appliance.ask("GET", f"/accounts/{self.account}/delivery-operations/{operation_id}")

    @property
    def shown(self) -> str | None:
        """Return the operation that the client saw before the appliance died, or None if it got no answer."""
        if self.first.exception(LONG) is not None:
            return None
        answer = self.first.result()
        assert answer.status == 200, answer
        return str(answer.data["operationId"])

    def outcome_of_first(self, appliance: RunningAppliance) -> str:
        """Send without a kill; return the status."""
        self.first.set_result(self.ask(appliance))
        return self.outcome(appliance)

    def outcome(self, appliance: RunningAppliance) -> str:
        """Repeat the request with the same key, like any client, until the operation is over; return its last
        status.
        """
        if self.shown is not None:
            assert self.look(appliance, self.shown).status == 200
        last = self.ask(appliance)
        assert last.status == 200, last
        operation_id = last.data["operationId"]
        assert self.shown in (None, operation_id)
        wait_until(
            lambda: self.look(appliance, operation_id).data["status"] != "sending", lambda: "it does not end", LONG
        )

        def is_same() -> bool:  # a warning may come between the two
            return bool(self.ask(appliance).data == self.look(appliance, operation_id).data)

        wait_until(is_same, lambda: "the key answers with another operation", LONG)
        return str(self.look(appliance, operation_id).data["status"])

    def copies(self, smtp: ScriptedSmtp) -> int:
        """Return how many messages with this key the server has accepted."""
        return sum(f"Subject: {self.key}".encode() in message.source for message in smtp.messages)


@pytest.fixture(scope="module")
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32, "caller") as pool:
        yield pool


@contextmanager
def ended(appliance: RunningAppliance) -> Iterator[RunningAppliance]:
    """Leave no process behind; if all went well, check that the appliance ends when asked to."""
    try:
        yield appliance
        assert appliance.stop() == 0
    finally:
        if appliance.process is not None and appliance.process.poll() is None:
            appliance.kill()


# --- between the phases ---


@dataclass(frozen=True)
class Moment:
    """The phase at which the appliance kills itself; what the server does; the expected outcome."""

    at: str
    outcome: str = "succeeded"
    copies: int = 1
    script: tuple[Step, Action | list[Action]] | None = None


UNSEEN = [
    Moment("accepted"),
    Moment("connecting"),
    Moment("envelope"),
    Moment("data"),
    Moment("dot", "uncertain", 0),
    Moment("succeeded"),
    Moment("withdrawn", script=("mail", ["451 4.3.0 later"])),
    Moment("failed", "failed", 0, script=("rcpt", ["550 5.1.1 unknown"])),
    Moment("uncertain", "uncertain", script=("reply", [Keep("421 closing")])),
]
# On a connection that sent an earlier message.
KEPT = [Moment("envelope"), Moment("data"), Moment("dot", "uncertain", 0), Moment("succeeded")]
# After a client saw that it is being sent: the server holds it until then.
SEEN = [
    Moment("envelope", script=("auth", [Stall()])),
    Moment("data", script=("rcpt", [Stall()])),
    Moment("dot", "uncertain", 0, script=("data", [Stall()])),
    Moment("succeeded", script=("reply", [Keep(Stall())])),
    Moment("failed", "failed", 0, script=("reply", [Lose(Stall("451 4.3.0 later"))])),
]


@dataclass
class Target:
    """An appliance with one mailbox that kills itself at a given moment."""

    appliance: RunningAppliance
    account: str
    smtp: ScriptedSmtp

    def dies(self) -> None:
        """Return when it has killed itself, and the server has noticed."""
        assert self.appliance.process is not None
        assert self.appliance.process.wait(20) == -signal.SIGKILL
        self.appliance.kill()
        wait_until(lambda: self.smtp.connected == 0, lambda: "the connection does not end", LONG)

    def order(self, moment: Moment) -> None:
        """Order it to die at this moment, while the server does this."""
        self.smtp.forget()
        if moment.script is not None:
            self.smtp.at(*moment.script)
        (self.appliance.folder / dying.ORDER).write_text(moment.at)


def a_target(folder: Path, mail_server: MailServer, environment: dict[str, str]) -> Iterator[Target]:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    appliance = RunningAppliance(folder, environment, DYING)
    with ended(appliance.start()):
        appliance.set_up()
        yield Target(appliance, appliance.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port), smtp)
    smtp.stop()


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Target]:
    yield from a_target(tmp_path_factory.mktemp("unseen") / "data", mail_server, NONE_KEPT)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Target]:
    yield from a_target(tmp_path_factory.mktemp("keeping") / "data", mail_server, {})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Target]:
    yield from a_target(tmp_path_factory.mktemp("seen") / "data", mail_server, SHOWN | NONE_KEPT)


@pytest.mark.parametrize("moment", UNSEEN, ids=lambda moment: moment.at)
def test_killed_between_two_phases(unseen: Target, callers: ThreadPoolExecutor, moment: Moment) -> None:
    check_unseen(unseen, callers, moment)


@pytest.mark.parametrize("moment", KEPT, ids=lambda moment: moment.at)
def test_killed_between_two_phases_on_a_kept_connection(
    keeping: Target, callers: ThreadPoolExecutor, moment: Moment
) -> None:
    assert Send(keeping.account).outcome_of_first(keeping.appliance) == "succeeded"
    check_unseen(keeping, callers, moment, connections=0 if moment.copies == 0 or moment.at == "succeeded" else 1)


def check_unseen(target: Target, callers: ThreadPoolExecutor, moment: Moment, connections: int | None = None) -> None:
    """Check a kill at this moment before any client has seen the operation."""
    target.order(moment)
    send = Send(target.account)
    send.first = callers.submit(send.ask, target.appliance)
    target.dies()
    assert send.shown is None
    target.appliance.start()
    assert send.outcome(target.appliance) == moment.outcome
    assert send.copies(target.smtp) == moment.copies
    assert connections in (None, target.smtp.count("connect"))


@pytest.mark.parametrize("moment", SEEN, ids=lambda moment: moment.at)
def test_killed_between_two_phases_of_what_was_shown(seen: Target, callers: ThreadPoolExecutor, moment: Moment) -> None:
    seen.order(moment)
    assert moment.script is not None
    held_at = moment.script[0]
    send = Send(seen.account)
    send.first = callers.submit(send.ask, seen.appliance)
    assert send.shown is not None
    wait_until(lambda: seen.smtp.held(held_at) == 1, lambda: f"{held_at} was not reached", LONG)
    seen.smtp.release(held_at)
    seen.dies()
    seen.appliance.start()
    assert send.outcome(seen.appliance) == moment.outcome
    assert send.copies(seen.smtp) == moment.copies


# --- at the steps of the server ---

LARGE = {
    "filename": "zeros",
    "mimeType": "application/octet-stream",
    "content": base64.b64encode(bytes(4 << 20)).decode(),
}


@dataclass(frozen=True)
class Held:
    """The step at which the server holds the appliance when it is killed; the expected outcome."""

    step: Step
    action: Action
    outcome: str = "succeeded"
    copies: int = 1
    body: dict[str, Any] = field(default_factory=a_message)
    is_stopped: bool = False


HELD = [
    Held("connect", Stall()),
    Held("ehlo", Stall()),
    Held("auth", Stall()),
    Held("mail", Stall()),
    Held("rcpt", Stall()),
    Held("data", Stall()),
    Held("body", Stall(), body=a_message(attachments=[LARGE])),  # so much that the dot cannot be on its way yet
    Held("dot", Stall(), "uncertain"),
    Held("dot", Lose(Stall("451 4.3.0 lost")), "uncertain", 0),
    Held("reply", Keep(Stall()), "uncertain"),
    Held("reply", Lose(Stall("554 5.7.1 no")), "uncertain", 0),
    # The reply has come, but the appliance dies before it records the reply.
    Held("reply", Keep(Stall()), "uncertain", is_stopped=True),
    Held("reply", Lose(Stall("554 5.7.1 no")), "uncertain", 0, is_stopped=True),
    Held("quit", Stall()),  # a recorded outcome stays
]


@dataclass
class Case:
    """The case of one mailbox."""

    held: Held
    smtp: ScriptedSmtp
    send: Send


@pytest.fixture(scope="module")
def crowd(
    tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer
) -> Iterator[tuple[RunningAppliance, list[Case]]]:
    """Yield a mailbox for each case, so that one kill covers all of them."""
    appliance = RunningAppliance(tmp_path_factory.mktemp("held") / "data", MANY).start()
    appliance.set_up()
    cases = []
    for held in HELD:
        user = mail_server.fresh_user()
        smtp = ScriptedSmtp(user=user).start()
        cases.append(
            Case(held, smtp, Send(appliance.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)))
        )
    assert appliance.stop() == 0
    yield appliance, cases
    for case in cases:
        case.smtp.stop()


@pytest.mark.parametrize("environment", [{}, SHOWN], ids=["unseen", "shown"])
def test_killed_while_the_server_holds_it(
    crowd: tuple[RunningAppliance, list[Case]], callers: ThreadPoolExecutor, environment: dict[str, str]
) -> None:
    first, cases = crowd
    appliance = RunningAppliance(first.folder, MANY | environment)
    appliance.token = first.token
    with ended(appliance.start()):
        begin(appliance, cases, callers, is_shown=bool(environment))
        kill(appliance, cases)
        appliance.start()
        found = [(case.held.step, case.send.outcome(appliance), case.send.copies(case.smtp)) for case in cases]
        assert found == [(case.held.step, case.held.outcome, case.held.copies) for case in cases]


def begin(appliance: RunningAppliance, cases: list[Case], callers: ThreadPoolExecutor, *, is_shown: bool) -> None:
    """Send from every mailbox, up to the step at which its server holds the appliance."""
    for case in cases:
        case.smtp.forget()
        case.smtp.at(case.held.step, [case.held.action])
        case.send = Send(case.send.account, case.held.body)
        case.send.first = callers.submit(case.send.ask, appliance)
    for case in cases:
        wait_until(partial(is_held, case), partial(str, case.held.step), LONG)
        if is_shown or case.held.step == "quit":  # no request waits for QUIT
            assert case.send.shown is not None


def kill(appliance: RunningAppliance, cases: list[Case]) -> None:
    """Stop the appliance, let some servers answer it, kill it, and let the servers finish."""
    assert appliance.process is not None
    os.kill(appliance.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, appliance.process.pid, os.WSTOPPED)  # every thread of it
    for case in cases:
        if case.held.is_stopped:
            case.smtp.release()
            wait_until(partial(is_let_go, case), partial(str, case.held.step), LONG)
    appliance.kill()
    for case in cases:
        case.smtp.release()
        wait_until(partial(is_alone, case), partial(str, case.held.step), LONG)


def is_held(case: Case) -> bool:
    return case.smtp.held(case.held.step) == 1


def is_let_go(case: Case) -> bool:
    return case.smtp.held(case.held.step) == 0


def is_alone(case: Case) -> bool:
    return case.smtp.connected == 0
