"""Connections that are kept for the next message: faster in the normal case, and never a second copy after a fault."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance import settings
from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.smtp import SmtpConnection
from mailbox_appliance.sending import smtp
from mailbox_appliance.sending.smtp import SmtpConnectionPool
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import CLOSE, DROP, Action, Delay, Keep, Lose, Stall, Step


@dataclass
class Box:
    """A mailbox in an appliance that keeps connections, with one of them kept."""

    desk: Desk
    clock: FakeClock
    account: str
    smtp: ScriptedSmtp

    def send(self) -> str:
        """Send a message; return its status, or the code of an error."""
        answer = self.desk.send(self.account, a_message())
        return str(answer.data["status"] if answer.status == 200 else answer.code)


@pytest.fixture(scope="module")
def _box(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Box]:
    clock, user = FakeClock(), mail_server.fresh_user()
    desk = Desk(tmp_path_factory.mktemp("kept") / "data", clock, sending__answer_within=20, sending__dot_timeout=2)
    smtp = ScriptedSmtp(user=user).start()
    yield Box(desk, clock, desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port), smtp)
    desk.close()
    smtp.stop()


@pytest.fixture
def box(_box: Box) -> Iterator[Box]:
    """Yield the mailbox with counters at 0 and one kept connection."""
    _box.smtp.forget()
    assert _box.send() == "succeeded"
    wait_until(lambda: _box.smtp.connected == 1, lambda: f"{_box.smtp.connected} connections", 10)
    _box.smtp.forget()
    yield _box
    _box.smtp.forget()
    _box.clock.advance(60)  # connections that were kept are no longer kept


def test_the_next_message_needs_no_connection(box: Box) -> None:
    assert [box.send() for _ in range(5)] == ["succeeded"] * 5
    assert (len(box.smtp.messages), box.smtp.count("connect"), box.smtp.count("quit")) == (5, 0, 0)


OF_NO_USE: list[tuple[Step, Action]] = [
    ("mail", "421 4.4.2 idle for too long"),
    ("mail", "354 what"),
    ("mail", "nonsense"),
    ("mail", "250 ok\r\n250 ok"),
    ("mail", DROP),
    ("mail", CLOSE),
    ("rcpt", "421 4.7.0 enough"),
    ("rcpt", "354 what"),
    ("rcpt", CLOSE),
    ("data", "421 4.3.2 closing"),
    ("data", "250 what"),
    ("data", DROP),
]


@pytest.mark.parametrize(("step", "action"), OF_NO_USE, ids=lambda value: str(value)[:30])
def test_one_that_is_of_no_use_costs_a_new_one_and_nothing_else(box: Box, step: Step, action: Action) -> None:
    box.smtp.at(step, [action])
    assert box.send() == "succeeded"
    assert (len(box.smtp.messages), box.smtp.count("connect"), box.smtp.count(step)) == (1, 1, 2)


REFUSALS: list[tuple[Step, str, str]] = [
    ("mail", "451 4.3.0 too many messages on this connection", "provider_unavailable"),
    ("mail", "452 4.3.1 later", "provider_unavailable"),
    ("mail", "530 5.7.0 log in", "provider_unavailable"),
    ("mail", "550 5.7.1 no", "failed"),
    ("mail", "503 5.5.1 what", "failed"),
    ("rcpt", "451 4.7.1 greylisted", "provider_unavailable"),
    ("rcpt", "550 5.1.1 no", "failed"),
    ("data", "451 4.3.0 later", "provider_unavailable"),
    ("data", "554 5.5.1 no", "failed"),
]


@pytest.mark.parametrize(("step", "says", "outcome"), REFUSALS, ids=lambda value: str(value)[:30])
def test_what_it_says_of_the_message_counts_and_nobody_else_is_asked(
    box: Box, step: Step, says: str, outcome: str
) -> None:
    box.smtp.at(step, [says])
    assert box.send() == outcome
    assert (len(box.smtp.messages), box.smtp.count("connect"), box.smtp.count(step)) == (0, 0, 1)
    wait_until(lambda: box.smtp.connected == 0, lambda: "it is kept", 10)


def test_one_that_is_silent_costs_a_moment(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "_PATIENCE", 0.2)
    box.smtp.at("mail", [Stall()])
    began = time.monotonic()
    assert box.send() == "succeeded"
    assert time.monotonic() - began < 5
    assert (len(box.smtp.messages), box.smtp.count("connect")) == (1, 1)


@pytest.mark.parametrize("step", ["rcpt", "data"])
def test_one_that_has_answered_may_take_its_time(box: Box, monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    monkeypatch.setattr(smtp, "_PATIENCE", 0.2)
    box.smtp.at(step, [Delay(0.5)])
    assert (box.send(), box.smtp.count("connect"), len(box.smtp.messages)) == ("succeeded", 0, 1)


def refuse_closer(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    """Let no thread start that closes unused connections."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "kept smtp connections":
            raise fault
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.parametrize("fault", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_what_happens_after_the_word_of_the_server_does_not_change_it(
    box: Box, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    box.clock.advance(60)
    wait_until(lambda: box.smtp.connected == 0, lambda: "one is kept", 10)
    wait_until(lambda: "kept smtp connections" not in names_of_threads(), lambda: "it lives", 10)
    refuse_closer(monkeypatch, fault)
    assert box.send() == "succeeded"
    wait_until(lambda: box.smtp.connected == 0, lambda: "it is kept", 10)
    monkeypatch.undo()
    assert [box.send(), box.send()] == ["succeeded"] * 2
    assert (box.smtp.count("connect"), box.smtp.connected) == (2, 1)


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(
    ("step", "action", "outcome", "copies"),
    [
        ("reply", "554 5.7.1 no", "failed", 0),
        ("reply", Lose("451 4.3.0 later"), "provider_unavailable", 0),
        ("reply", Keep("421 4.3.2 closing"), "uncertain", 1),
        ("reply", Keep(DROP), "uncertain", 1),
        ("reply", Lose(CLOSE), "uncertain", 0),
        ("reply", Keep("nonsense"), "uncertain", 1),
        ("reply", Keep("354 more"), "uncertain", 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_it_says_to_the_dot_counts_and_nothing_is_tried_again(
    box: Box, step: Step, action: Action, outcome: str, copies: int
) -> None:
    box.smtp.at(step, [action])
    assert box.send() == outcome
    assert (len(box.smtp.messages), box.smtp.count("connect")) == (copies, 0)
    wait_until(lambda: box.smtp.connected == 0, lambda: "it is kept", 10)
    assert (box.send(), box.smtp.count("connect")) == ("succeeded", 1)


def test_it_is_kept_three_seconds(box: Box) -> None:
    box.clock.advance(2.9)
    assert (box.send(), box.smtp.count("connect")) == ("succeeded", 0)
    box.clock.advance(3)
    assert (box.send(), box.smtp.count("connect")) == ("succeeded", 1)


def test_it_serves_for_so_many_messages(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "MOST_MESSAGES", 3)
    assert [box.send() for _ in range(5)] == ["succeeded"] * 5
    assert box.smtp.count("connect") == 1
    box.smtp.reached("quit")


def test_one_of_a_mailbox_that_is_removed_is_told_goodbye(box: Box, mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    try:
        account = box.desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
        assert box.desk.send(account, a_message()).data["status"] == "succeeded"
        before = smtp.count("quit")
        assert box.desk.ask("DELETE", f"/accounts/{account}").status == 200
        smtp.reached("quit", before + 1)
        wait_until(lambda: smtp.connected == 0, lambda: "it is kept", 10)
    finally:
        smtp.stop()


# --- without a store ---


@dataclass
class Shelf:
    """A connection pool and a server."""

    kept: SmtpConnectionPool
    endpoint: Endpoint
    clock: FakeClock
    smtp: ScriptedSmtp

    def used(self) -> SmtpConnection:
        """Return a connection that has sent one message."""
        session = self.kept.open(self.endpoint)
        list(session.send_envelope("a@example.test", ["b@example.test"], size=3))
        session.start_data()
        session.send_body(b"x\r\n")
        assert session.send_final_dot(5).code == 250
        return session

    def put(self, account_id: str = "acc") -> bool:
        """Keep a used connection."""
        session = self.used()
        if self.kept.keep(account_id, self.endpoint, session):
            return True
        session.close()
        return False


@pytest.fixture
def shelf(scripted_smtp: ScriptedSmtp, clock: FakeClock) -> Iterator[Shelf]:
    endpoint = Endpoint("127.0.0.1", scripted_smtp.port, "none", scripted_smtp.user, "secret")
    kept = SmtpConnectionPool(settings.load(environment={}), clock.monotonic)
    yield Shelf(kept, endpoint, clock, scripted_smtp)
    kept.stop()


def test_one_is_lent_once(shelf: Shelf) -> None:
    assert shelf.put()
    together = threading.Barrier(8)

    def take(_: int) -> SmtpConnection | None:
        together.wait(10)
        return shelf.kept.take("acc", shelf.endpoint)

    with ThreadPoolExecutor(8) as pool:
        [taken] = [session for session in pool.map(take, range(8)) if session is not None]
    taken.close()


def test_the_last_one_is_lent_first(shelf: Shelf) -> None:
    first, last = shelf.used(), shelf.used()
    assert shelf.kept.keep("acc", shelf.endpoint, first)
    shelf.clock.advance(2)
    assert shelf.kept.keep("acc", shelf.endpoint, last)
    assert shelf.kept.take("acc", shelf.endpoint) is last
    last.close()


@pytest.mark.parametrize(
    "other", [{"password": "new"}, {"username": "other"}, {"port": 1}, {"host": "localhost"}, {"security": "starttls"}]
)
def test_another_login_has_another_connection(shelf: Shelf, other: dict[str, str]) -> None:
    shelf.put()
    e = shelf.endpoint
    plain = {"host": e.host, "port": e.port, "security": e.security, "username": e.username, "password": e.password}
    assert shelf.kept.take("acc", Endpoint(**(plain | other))) is None  # type: ignore[arg-type]  # mypy knows no keys
    wait_until(lambda: shelf.smtp.connected == 0, lambda: "it is kept", 10)
    assert shelf.kept.take("acc", shelf.endpoint) is None


def test_another_mailbox_has_another_connection(shelf: Shelf) -> None:
    shelf.put()
    assert shelf.kept.take("other", shelf.endpoint) is None


def test_those_that_nobody_uses_are_told_goodbye(shelf: Shelf) -> None:
    shelf.put("old")
    shelf.clock.advance(2)
    shelf.put("new")
    shelf.clock.advance(1)
    shelf.kept.close_unused()
    assert (shelf.smtp.count("quit"), shelf.kept.take("old", shelf.endpoint)) == (1, None)
    wait_until(lambda: shelf.smtp.connected == 1, lambda: "not closed", 10)


def test_a_thread_closes_them_and_ends(shelf: Shelf) -> None:
    shelf.kept = SmtpConnectionPool(
        settings.load(environment={}, flags={"sending.keep_connection": 1}), shelf.clock.monotonic
    )
    others = set(threading.enumerate())
    shelf.put()
    shelf.clock.advance(1)
    shelf.smtp.reached("quit")
    wait_until(
        lambda: (
            "kept smtp connections" not in [thread.name for thread in threading.enumerate() if thread not in others]
        ),
        lambda: "the thread lives",
        10,
    )


@pytest.mark.parametrize("says", [None, "421 no", "554 no", "nonsense", CLOSE, DROP, Stall()], ids=str)
def test_a_goodbye_that_fails_is_one(shelf: Shelf, says: Action) -> None:
    shelf.smtp.at("quit", says)
    shelf.put()
    shelf.kept.drop("acc")
    assert (shelf.smtp.count("quit"), len(shelf.smtp.messages)) == (1, 1)
    shelf.smtp.release()
    wait_until(lambda: shelf.smtp.connected == 0, lambda: "it is kept", 10)


def test_few_are_kept_and_none_after_the_end(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "MOST_KEPT", 2)
    assert [shelf.put(name) for name in "abc"] == [True, True, False]
    shelf.kept.drop("a")
    assert (shelf.put("a"), shelf.put("d")) == (False, True)
    shelf.kept.stop()
    assert not shelf.put("e")
    wait_until(lambda: shelf.smtp.connected == 0, lambda: "one is open", 10)
    assert shelf.smtp.count("quit") == 3


def test_none_is_kept_that_nobody_would_close(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_closer(monkeypatch, RuntimeError("can't start new thread"))
    assert not shelf.put()
    monkeypatch.undo()
    assert shelf.put()


def test_mailboxes_that_have_gone_are_not_remembered_for_ever(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "MOST_GONE", 2)
    for name in "abc":
        shelf.kept.drop(name)
    assert [shelf.put(name) for name in "abc"] == [True, False, False]


def test_a_fault_is_told(shelf: Shelf) -> None:
    shelf.smtp.at("connect", "421 no")
    with pytest.raises(RemoteFault):
        shelf.kept.open(shelf.endpoint)


def test_none_is_kept_where_that_is_not_wanted(tmp_path: Path, mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    desk = Desk(tmp_path / "data", sending__keep_connection=0)
    try:
        account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
        for says in ("421 no", "554 no", "nonsense", CLOSE, DROP):
            smtp.at("quit", says)
            assert desk.send(account, a_message()).data["status"] == "succeeded"
        wait_until(lambda: smtp.connected == 0, lambda: "one is kept", 10)
        assert (len(smtp.messages), smtp.count("connect")) == (5, 6)
    finally:
        desk.close()
        smtp.stop()
