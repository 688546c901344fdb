"""kill -9 between any two phases of a send by Microsoft Graph, and at every step, like `test_kill` for SMTP."""

import base64
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.model.accounts import OAuthLogin
from mailbox_appliance.store.store import Store
from tests.sending.outlook import ADA, graph_server
from tests.sending.test_kill import LONG, SHOWN, Send, ended
from tests.servers import dying
from tests.servers.graph import GraphServer
from tests.servers.graph_script import Action, Says, Step
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_provider import OAuthServer
from tests.servers.running import RunningAppliance
from tests.servers.smtp_script import DROP, Stall

pytestmark = pytest.mark.slow

DYING = (sys.executable, str(Path(dying.__file__)))


@dataclass
class Target:
    """An appliance with one mailbox that sends by Graph and kills itself at a given moment."""

    appliance: RunningAppliance
    account: str
    graph: GraphServer

    def order(self, at: str, step: Step | None, does: Action) -> Send:
        """Order it to die at this moment, while Graph does this."""
        if self.appliance.process is None or self.appliance.process.poll() is not None:
            self.appliance.start()  # after a test that failed
        self.graph.forget()
        self.graph.at("look", Says(503))  # the search finds nothing later
        if step is not None:
            self.graph.at(step, [does])
        (self.appliance.folder / dying.ORDER).write_text(at)
        return Send(self.account)

    def dies(self) -> None:
        """Return when it has killed itself, and Graph has noticed."""
        assert self.appliance.process is not None
        assert self.appliance.process.wait(LONG) == -signal.SIGKILL
        self.appliance.kill()
        self.graph.release()
        wait_until(lambda: self.graph.connections == 0, lambda: "the connection does not end", LONG)

    def found(self, send: Send) -> tuple[str, int]:
        """Start again; return the outcome of the same key, and how many messages were sent."""
        self.appliance.start()
        outcome = send.outcome(self.appliance)
        return outcome, sum(f"Subject: {send.key}".encode() in each.source for each in self.graph.messages)


@contextmanager
def a_target(folder: Path, more: dict[str, str]) -> Iterator[Target]:
    with OAuthServer(folder, "outlook") as provider, graph_server(provider, folder) as graph:
        table = folder / "providers.toml"
        table.write_text(provider.row(api_url=graph.url) + graph.row)
        environment = {
            "MAILBOX_APPLIANCE_REMOTE_PROVIDERS_FILE": str(table),
            "MAILBOX_APPLIANCE_REMOTE_CA_FILE": str(provider.ca_file),
        }
        appliance = RunningAppliance(folder / "data", environment | more, DYING)
        with ended(appliance.start()):
            appliance.set_up()
            assert appliance.stop() == 0
            account = _mailbox(appliance.folder, provider)
            appliance.start()
            yield Target(appliance, account, graph)


def _mailbox(folder: Path, provider: OAuthServer) -> str:
    store = Store.open(folder)
    try:
        with store.database.transaction(durable=True):
            store.oauth_apps.put(provider.app)
            owner = str(store.database.value("SELECT id FROM members"))
            login = OAuthLogin("outlook", ADA, ADA, provider.sign_up(), "graph")
            return store.oauth_logins.add(owner, None, login)
    finally:
        store.close()


@pytest.fixture(scope="module")
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4, "caller") as pool:
        yield pool


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with a_target(tmp_path_factory.mktemp("unseen"), {}) as made:
        yield made


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with a_target(tmp_path_factory.mktemp("seen"), SHOWN) as made:
        yield made


@dataclass(frozen=True)
class Moment:
    """The phase at which the appliance kills itself; what Graph does; the expected outcome."""

    at: str
    step: Step | None = None
    does: Action = None
    outcome: str = "succeeded"
    sent: int = 1


@pytest.mark.parametrize(
    "moment",
    [
        Moment("envelope"),
        Moment("data"),  # its draft is known, and was not sent
        Moment("dot", outcome="uncertain", sent=0),
        Moment("succeeded"),
        Moment("withdrawn", "send", Says(429)),
        Moment("failed", "send", Says(403, "ErrorSendAsDenied"), "failed", 0),
        Moment("uncertain", "sent", DROP, "uncertain", 1),
    ],
    ids=lambda moment: moment.at,
)
def test_killed_between_two_phases(unseen: Target, callers: ThreadPoolExecutor, moment: Moment) -> None:
    send = unseen.order(moment.at, moment.step, moment.does)
    send.first = callers.submit(send.ask, unseen.appliance)
    unseen.dies()
    assert send.shown is None
    assert unseen.found(send) == (moment.outcome, moment.sent)
    # A draft that may still be sent is left; one whose attempt ended just before is removed.
    left = 1 if moment.at in ("dot", "withdrawn", "failed") else 0
    wait_until(lambda: len(unseen.graph.drafts(ADA)) == left, lambda: str(unseen.graph.drafts(ADA)), LONG)


@pytest.mark.parametrize(
    "moment",
    [
        Moment("data", "drafted", Stall()),
        Moment("succeeded", "sent", Stall()),
    ],
    ids=lambda moment: moment.at,
)
def test_killed_between_two_phases_of_what_was_shown(seen: Target, callers: ThreadPoolExecutor, moment: Moment) -> None:
    send = seen.order(moment.at, moment.step, moment.does)
    assert moment.step is not None
    send.first = callers.submit(send.ask, seen.appliance)
    assert send.shown is not None
    wait_until(lambda: seen.graph.held(moment.step) == 1, lambda: "not reached", LONG)  # type: ignore[arg-type]
    seen.graph.release()
    seen.dies()
    assert seen.found(send) == (moment.outcome, moment.sent)
    wait_until(lambda: not seen.graph.drafts(ADA), lambda: str(seen.graph.drafts(ADA)), LONG)


SIZES = (2_300_000, 3_100_000)
ADDING: tuple[Step, ...] = ("attach", "attached", "session", "begun", "upload", "uploaded")


def attached(size: int) -> dict[str, str]:
    content = base64.b64encode(bytes(size)).decode()
    return {"filename": f"{size}", "mimeType": "application/octet-stream", "content": content}


@dataclass(frozen=True)
class Held:
    """The step at which Graph holds the appliance when it is killed; the expected outcome."""

    step: Step
    outcome: str
    is_answered: bool = False
    files: tuple[int, ...] = ()


@pytest.mark.parametrize(
    "held",
    [
        Held("draft", "succeeded"),
        Held("drafted", "succeeded"),
        Held("send", "uncertain"),
        Held("sent", "uncertain"),
        # the response has come, but the process dies before it is recorded
        Held("sent", "uncertain", is_answered=True),
        # One file is added in one request, one is uploaded.
        *(Held(step, "succeeded", files=SIZES) for step in ADDING),
        Held("send", "uncertain", files=SIZES),
    ],
    ids=str,
)
def test_killed_while_graph_holds_it(unseen: Target, callers: ThreadPoolExecutor, held: Held) -> None:
    send = unseen.order("never", held.step, Stall())
    send.body |= {"attachments": [attached(size) for size in held.files]}
    appliance, graph = unseen.appliance, unseen.graph
    send.first = callers.submit(send.ask, appliance)
    wait_until(lambda: graph.held(held.step) == 1, lambda: "not reached", LONG)
    assert appliance.process is not None
    os.kill(appliance.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, appliance.process.pid, os.WSTOPPED)
    if held.is_answered:
        graph.release()
        wait_until(lambda: graph.held(held.step) == 0, lambda: "held", LONG)
    appliance.process.kill()
    unseen.dies()
    assert unseen.found(send) == (held.outcome, 1)
    assert tuple(len(each.content) for each in graph.messages[-1].files) == held.files
    wait_until(lambda: not graph.drafts(ADA), lambda: str(graph.drafts(ADA)), LONG)
