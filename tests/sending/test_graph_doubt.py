"""Uncertain sends by Microsoft Graph: they stay uncertain if nothing can be known, whatever happened to a draft."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.clock import to_millis
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.accounts import OAuthLogin
from mailbox_appliance.remote.graph import Graph, GraphResponse
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.providers import OUTLOOK
from mailbox_appliance.sending.outcome import Outcome, Recorder
from mailbox_appliance.store.restore import merge
from tests.sending.outlook import ADA, SMTP_IS_OFF, Outlook, outlook
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Action, Says, Step
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_provider import OAuthServer
from tests.servers.smtp_script import DROP
from tests.store.labeled import ALL, listed


def planned(box: Outlook, clock: FakeClock) -> str:
    """Schedule a message for the next minute; return its operation."""
    send_at = (clock.now() + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(box.send(a_message(sendAt=send_at)).data["operationId"])


def attempt(box: Outlook, clock: FakeClock, operation: str, number: int) -> str:
    """Let time pass until that attempt is over; return the status."""
    clock.advance(1900)
    box.desk.appliance.scheduler.wake()
    sql = "SELECT attempts FROM delivery_operations WHERE id = ?"
    database = box.desk.appliance.store.database
    wait_until(lambda: database.value(sql, (operation,)) == number, lambda: "no attempt", 10)
    wait_until(lambda: status(box, operation) != "sending", lambda: "sending", 10)
    return status(box, operation)


def status(box: Outlook, operation: str) -> str:
    return str(box.desk.delivery(box.account, operation).data["status"])


def look(box: Outlook, clock: FakeClock, operation: str) -> str:
    """Let time pass until the next search, and search; return the status."""
    box.desk.appliance.scheduler.stop(10)
    clock.advance(600)
    return box.look(operation)


def refused_once(box: Outlook, clock: FakeClock) -> str:
    """Schedule a message whose draft is temporarily refused, and removed; return its operation."""
    box.graph.at("send", [Says(429)])
    operation = planned(box, clock)
    assert attempt(box, clock, operation, 1) == "queued"
    wait_until(lambda: not box.graph.drafts(ADA), lambda: str(box.graph.drafts(ADA)), 5)
    return operation


def test_a_draft_of_an_earlier_attempt_is_no_evidence_of_one_by_smtp(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect("graph")
        operation = refused_once(box, clock)
        box.desk.appliance.store.oauth_logins.set_sends_via(box.account, "smtp")
        box.smtp.at("dot", [DROP])
        assert attempt(box, clock, operation, 2) == "uncertain"
        assert look(box, clock, operation) == "uncertain"
        assert [*box.smtp.messages, *box.graph.messages] == []


def test_a_draft_that_we_removed_is_no_evidence_after_a_restore(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect("graph")
        operation = refused_once(box, clock)
        database = box.desk.appliance.store.database
        with database.transaction(durable=True):
            merge.hold_sends(database, clock.now())
        assert status(box, operation) == "uncertain"
        assert look(box, clock, operation) == "uncertain"
        assert not box.graph.messages


def test_nothing_is_gone_from_a_mailbox_that_may_not_be_looked_into(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect("graph")
        box.graph.at("send", [DROP])
        operation = box.send().data["operationId"]
        box.graph.at("look", Says(404, "ErrorItemNotFound"))
        box.graph.at("folder", [Says(403, "ErrorAccessDenied"), Says(404, "ErrorItemNotFound"), DROP])
        assert [look(box, clock, operation) for _ in range(3)] == ["uncertain"] * 3
        assert look(box, clock, operation) == "succeeded"


def test_while_all_mail_is_hidden_evidence_is_not_given_up(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect("smtp")
        store = box.desk.appliance.store
        box.smtp.at("dot", [DROP])
        operation = box.send().data["operationId"]
        folders = [each for each in listed() if each.path != ALL]
        store.folders.replace(box.account, folders, folder_roles.assign_roles(folders))
        assert look(box, clock, operation) == "uncertain"
        sql = "SELECT evidence_looks, evidence_next_at FROM delivery_operations WHERE id = ?"
        looks, next_at = store.database.rows(sql, (operation,))[0]
        assert (looks, next_at) == (1, to_millis(clock.now() + timedelta(minutes=10)))


# --- removing old drafts delays nothing ---


@pytest.mark.parametrize(
    ("step", "does"), [("list", Says(400)), ("list", DROP), ("remove", Says(403, "ErrorAccessDenied"))], ids=str
)
def test_a_draft_that_cannot_be_removed_holds_up_no_message(
    tmp_path: Path, clock: FakeClock, step: Step, does: Action
) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect("graph")
        box.graph.at("drafted", [DROP])
        operation = planned(box, clock)
        assert attempt(box, clock, operation, 1) == "queued"
        box.graph.at(step, does)
        assert attempt(box, clock, operation, 2) == "succeeded"
        assert box.status["status"] != "reauth_required"
        assert len(box.graph.messages) == 1


# --- what must not be lost after an internal error ---


def test_a_fault_of_ours_after_the_request_to_send_leaves_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Graph.send_draft

    def broken(self: Graph, token: str, draft_id: str, timeout: float) -> GraphResponse:
        send(self, token, draft_id, timeout)
        raise RuntimeError

    monkeypatch.setattr(Graph, "send_draft", broken)
    with outlook(tmp_path) as box:
        box.connect()
        key = a_key()
        answers = [box.send(a_message(), key), box.send(a_message(), key)]
        assert [each.data["status"] for each in answers] == ["uncertain", "uncertain"]
        assert len(box.graph.messages) == 1


def test_a_draft_is_removed_when_it_is_recorded_that_it_was_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, drafts = Recorder.record, list[int]()
    with outlook(tmp_path) as box:

        def failing(self: Recorder, *given: Any) -> Outcome:
            drafts.append(len(box.graph.drafts(ADA)))
            if len(drafts) < 3:
                raise OSError
            return record(self, *given)

        monkeypatch.setattr(Recorder, "record", failing)
        box.connect()
        box.graph.at("send", Says(429))
        assert box.send().status == 429
        wait_until(lambda: not box.graph.drafts(ADA), lambda: str(box.graph.drafts(ADA)), 5)
        assert drafts == [1, 1, 1]


def test_an_answer_that_does_not_say_so_is_no_word_of_its_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = https.HttpsResponse(200, {}, b'{"id": "AAkA"}')
    monkeypatch.setattr(https, "request", lambda *_: answer)
    assert Graph(OUTLOOK, None, ca_file="", timeout=1).get_draft_state("a-token", "AAkA") == "draft"


def test_what_only_outlook_says_leads_no_other_mailbox_to_graph(tmp_path: Path) -> None:
    with outlook(tmp_path) as box, OAuthServer(tmp_path / "certificates", "google") as google:
        table, store = tmp_path / "providers.toml", box.desk.appliance.store
        box.connect()
        row = google.row(smtp=box.smtp.port, smtp_tls="none", api_url=box.graph.url)
        table.write_text(table.read_text() + row)
        with store.database.transaction(durable=True):
            store.oauth_apps.put(google.app)
            owner = str(store.database.value("SELECT id FROM members"))
            login = OAuthLogin("google", "ada@gmail.test", google.person, google.sign_up(), "smtp")
            box.account = store.oauth_logins.add(owner, None, login)
        box.smtp.at("auth", SMTP_IS_OFF)
        assert box.send().status == 503
        assert (box.smtp.count("auth"), box.graph.asked, box.sends_via) == (1, [], "smtp")


# --- a provider's `Retry-After`, if it is longer than the appliance's own waiting time ---


#: The provider's waiting time -> the appliance's.
SAID = [("90", "90"), ("5", "30"), ("99999", "3600"), ("Wed, 21 Oct 2026 07:28:00 GMT", "30"), ("-1", "30")]


@pytest.mark.parametrize(("said", "told"), SAID)
def test_a_client_is_told(tmp_path: Path, said: str, told: str) -> None:
    with outlook(tmp_path) as box:
        box.connect()
        box.graph.at("send", [Says(429, "ApplicationThrottled", {"Retry-After": said})])
        answer = box.send()
        assert (answer.status, answer.headers["Retry-After"]) == (429, told)


def test_a_client_is_told_what_the_sign_in_says(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect()
        box.provider.out_of_order(429, retry_after=120)
        answer = box.send()
        assert answer.status == 429
        assert 110 <= int(answer.headers["Retry-After"]) <= 120


@pytest.mark.parametrize(("said", "seconds"), [("5", 60), ("900", 900), ("3600", 1800)])
def test_a_scheduled_one_waits(tmp_path: Path, clock: FakeClock, said: str, seconds: int) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect()
        box.graph.at("draft", [Says(503, "ServiceUnavailable", {"Retry-After": said})])
        send_at = clock.now() + timedelta(seconds=60)
        operation = box.send(a_message(sendAt=send_at.strftime("%Y-%m-%dT%H:%M:%SZ"))).data["operationId"]
        clock.advance(61)
        box.desk.appliance.scheduler.wake()
        wait_until(lambda: next_attempt(box, operation)[0] == 1, lambda: str(next_attempt(box, operation)), 10)
        assert next_attempt(box, operation)[1] == to_millis(clock.now() + timedelta(seconds=seconds))


def next_attempt(box: Outlook, operation: str) -> tuple[object, object]:
    """Return the number of attempts and the time of the next one; nothing while one is in progress."""
    sql = "SELECT attempts, next_attempt_at FROM delivery_operations WHERE id = ? AND status = 'queued'"
    rows = box.desk.appliance.store.database.rows(sql, (operation,))
    return (rows[0][0], rows[0][1]) if rows else (0, None)
