"""Saved drafts that are sent: what goes out, when the draft goes, and that nobody changes one that is on its way."""

import base64
import email
import email.policy
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pytest

from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.operations import sending
from mailbox_appliance.remote.errors import ServerName
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.sending.worker import Ticket
from tests.checked_client import Answer, CheckedClient
from tests.operations.box import Box
from tests.operations.conftest import Mailbox
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.servers.desk import Desk, a_key
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall

BOB, HIDDEN = "bob@example.test", "hidden@example.test"
FILE = {"filename": "plan.txt", "mimeType": "text/plain", "content": base64.b64encode(b"step one").decode()}
WHOLE: dict[str, Any] = {
    "to": [{"email": BOB, "name": "Bob"}],
    "bcc": [{"email": HIDDEN}],
    "subject": "Pläne",
    "body": {"text": "Hello\n"},
    "attachments": [FILE],
}


class Drafts(Box):
    """The mailbox, its drafts and its sends."""

    def draft(self, **fields: Any) -> str:
        return str(self.ask("POST", "/drafts", WHOLE | fields).data["id"])

    def send(self, draft: str, key: str | None = None, *, token: str | None = None, **fields: Any) -> Answer:
        header = {"Idempotency-Key": key or a_key()}
        return self.ask("POST", "/send", {"draftId": draft, **fields}, token=token, headers=header)

    def preview(self, draft: str) -> Answer:
        return self.ask("POST", "/send/preview", {"draftId": draft})

    def put(self, source: bytes, flags: str = "\\Draft") -> str:
        """A message that another program has put among the drafts; answers its id."""
        return self.deliver(source, "Drafts", flags)

    def operations(self) -> int:
        return int(self.client.appliance.store.database.value("SELECT count(*) FROM delivery_operations"))


@pytest.fixture
def box(mailbox: Mailbox, asking: CheckedClient, mail_server: MailServer) -> Drafts:
    return Drafts(mailbox, asking, mail_server)


def tomorrow() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


def test_a_draft_goes_out_whole_and_then_goes(box: Drafts) -> None:
    draft, key = box.draft(), a_key()
    answer = box.send(draft, key)
    assert (answer.status, answer.data["kind"], answer.data["status"]) == (200, "send", "succeeded")
    (received,) = box.mailbox.smtp.messages
    assert received.recipients == (BOB, HIDDEN)
    message = email.message_from_bytes(received.source, policy=email.policy.default)
    assert (message["Subject"], message["Bcc"]) == ("Pläne", None)
    assert HIDDEN.encode() not in received.source
    assert [part.get_content() for part in message.iter_attachments()] == ["step one"]
    copy = box.ask("GET", f"/messages/{answer.data['result']['id']}").data
    assert (copy["subject"], copy["bcc"]) == ("Pläne", [{"email": HIDDEN}])
    # Who reads that it was sent does not find the draft any more.
    assert box.ask("GET", f"/drafts/{draft}").status == 404
    assert draft not in [item["id"] for item in box.ask("GET", "/drafts?limit=100").data["items"]]
    # The request is known by its key, though its draft is gone.
    again = box.send(draft, key)
    assert (again.status, again.data["operationId"]) == (200, answer.data["operationId"])
    other = box.send(draft)
    assert (other.refusal, other.places) == ((400, "invalid_request"), ["/draftId"])
    assert len(box.mailbox.smtp.messages) == 1


def test_one_draft_under_two_keys_is_sent_once(box: Drafts) -> None:
    for _ in range(3):
        draft, before = box.draft(), len(box.mailbox.smtp.messages)
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda key, draft=draft: box.send(draft, key), (a_key(), a_key())))
        done = [answer for answer in answers if answer.status == 200]
        (refused,) = (answer for answer in answers if answer.status != 200)
        assert [answer.data["status"] for answer in done] == ["succeeded"]
        # Which of these it is depends on whether the draft has been removed by then.
        assert refused.refusal in ((409, "conflict"), (400, "invalid_request"))
        assert len(box.mailbox.smtp.messages) == before + 1


def test_one_draft_under_one_key_on_two_threads_is_one_delivery(box: Drafts) -> None:
    draft, key = box.draft(), a_key()
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: box.send(draft, key), range(2)))
    assert {(answer.status, answer.data["status"]) for answer in answers} == {(200, "succeeded")}
    assert len({answer.data["operationId"] for answer in answers}) == 1
    assert len(box.mailbox.smtp.messages) == 1


def test_a_draft_that_is_being_sent_stays_as_it_is(box: Drafts) -> None:
    draft, key = box.draft(), a_key()
    box.mailbox.smtp.at("mail", Stall())
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(box.send, draft, key)
        box.mailbox.smtp.reached("mail")
        check_in_use(box, draft)
        box.mailbox.smtp.at("mail", None)
        box.mailbox.smtp.release("mail")
        assert asked.result(20).data["status"] == "succeeded"


def check_in_use(box: Drafts, draft: str) -> None:
    before = box.operations()
    refused = box.send(draft)
    assert (refused.refusal, refused.places) == ((409, "conflict"), ["operation"])
    (detail,) = refused.body["error"]["details"]
    assert detail["message"].startswith("dlv_"), "clients read the operation's ID here, and not in the sentence"
    assert box.ask("POST", "/send/preview", {"draftId": draft}).refusal == (409, "conflict")
    assert box.ask("PUT", f"/drafts/{draft}", {"body": {}}).refusal == (409, "conflict")
    assert box.ask("DELETE", f"/drafts/{draft}").refusal == (409, "conflict")
    assert box.ask("GET", f"/drafts/{draft}").data["subject"] == "Pläne"
    assert box.operations() == before


@pytest.fixture
def behind_proxy(desk: Desk, asking: CheckedClient, mail_server: MailServer) -> Iterator[tuple[Drafts, FaultProxy]]:
    proxy, user = FaultProxy(mail_server.imap_port).start(), mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    account = desk.connect(user, imap_port=proxy.port, smtp_port=smtp.port)
    yield Drafts(Mailbox(account, user, smtp), asking, mail_server), proxy
    smtp.stop()
    proxy.stop()


def test_a_draft_that_cannot_be_removed_yet_is_said_to_be_sent(behind_proxy: tuple[Drafts, FaultProxy]) -> None:
    box, proxy = behind_proxy
    draft = box.draft()
    proxy.refuse("UID STORE.*", answer="NO [UNAVAILABLE] not now")
    sent = box.send(draft)
    assert (sent.status, sent.data["status"]) == (200, "succeeded")
    for answer in (box.send(draft), box.preview(draft), box.ask("DELETE", f"/drafts/{draft}")):
        assert answer.refusal == (409, "conflict")
        assert sent.data["operationId"] in answer.message
        assert "already sent" in answer.message
        assert "about to be removed" in answer.message
        assert "Wait" not in answer.message


def when_sent(box: Drafts, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Have this done when the outcome is known, before anybody looks at the draft."""
    submit = box.client.appliance.sender.submit

    def submitted(operation_id: str, account_id: str, row: ParsedMessage | None) -> Ticket:
        ticket = submit(operation_id, account_id, row)
        assert ticket.wait(10)
        then()
        return ticket

    monkeypatch.setattr(box.client.appliance.sender, "submit", submitted)


@pytest.mark.parametrize(("draft_gone_within", "answer_within"), [(0.3, 20), (15, 1)])
def test_an_answer_waits_so_long_for_its_draft_to_go_and_no_longer(
    behind_proxy: tuple[Drafts, FaultProxy],
    monkeypatch: pytest.MonkeyPatch,
    draft_gone_within: float,
    answer_within: int,
) -> None:
    """Nor longer than for the outcome itself."""
    box, proxy = behind_proxy
    draft = box.draft()

    def stall(command: str) -> None:
        if command.startswith("UID STORE"):
            proxy.stall()

    proxy.on_command = stall
    monkeypatch.setattr(sending, "_DRAFT_REMOVAL_SECONDS", draft_gone_within)
    monkeypatch.setitem(box.client.appliance.settings.values, "sending.answer_within", answer_within)
    known = list[float]()
    when_sent(box, monkeypatch, lambda: known.append(time.monotonic()))
    sent = box.send(draft)
    waited = time.monotonic() - known[0]
    proxy.on_command = lambda _: None
    proxy.go_on()
    assert (sent.status, sent.data["status"]) == (200, "succeeded")
    assert 0.25 < waited < 5
    wait_until(lambda: box.ask("GET", f"/drafts/{draft}").status == 404, lambda: "the draft is still there", 10)


class _NoThreads(RemoteCalls):
    """No thread is to be had for a call."""

    def start(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("kind", [RemoteCalls, _NoThreads])
def test_a_draft_that_nobody_can_see_gone_changes_no_answer(
    behind_proxy: tuple[Drafts, FaultProxy], monkeypatch: pytest.MonkeyPatch, kind: type[RemoteCalls]
) -> None:
    """A stop, or no thread for it, just when the message was sent."""
    box, proxy = behind_proxy
    draft, calls = box.draft(), kind()
    calls.abandon_all()
    proxy.refuse("UID STORE.*", answer="NO [UNAVAILABLE] not now")  # so that nobody else is faster
    when_sent(box, monkeypatch, lambda: monkeypatch.setattr(box.client.appliance, "calls", calls))
    sent = box.send(draft)
    assert (sent.status, sent.data["status"]) == (200, "succeeded")


@pytest.mark.parametrize("answer_within", [0, 20])
def test_who_may_not_wait_begins_nothing_for_the_draft(
    behind_proxy: tuple[Drafts, FaultProxy], monkeypatch: pytest.MonkeyPatch, answer_within: int
) -> None:
    box, proxy = behind_proxy
    draft, calls, begun = box.draft(), RemoteCalls(), list[str]()
    proxy.refuse("UID STORE.*", answer="NO [UNAVAILABLE] not now")
    begin = calls.start

    def watched(server: ServerName, act: Callable[[], object]) -> Future[object]:
        begun.append(server)
        return begin(server, act)

    monkeypatch.setattr(calls, "start", watched)
    monkeypatch.setitem(box.client.appliance.settings.values, "sending.answer_within", answer_within)
    when_sent(box, monkeypatch, lambda: monkeypatch.setattr(box.client.appliance, "calls", calls))
    assert box.send(draft).data["status"] == "succeeded"
    assert begun == (["imap"] if answer_within else [])


def test_a_draft_that_is_scheduled_stays_as_it_is_until_it_is_taken_back(box: Drafts) -> None:
    draft = box.draft()
    answer = box.send(draft, sendAt=tomorrow())
    assert (answer.status, answer.data["status"]) == (202, "queued")
    (listed,) = box.ask("GET", "/scheduled").data["items"]
    assert (listed["to"], listed["subject"]) == (WHOLE["to"], "Pläne")
    check_in_use(box, draft)
    assert box.ask("DELETE", f"/scheduled/{answer.data['scheduleId']}").warnings == []
    assert box.ask("PUT", f"/drafts/{draft}", WHOLE | {"subject": "Other"}).status == 200
    assert box.send(draft).data["status"] == "succeeded"
    assert b"Other" in box.mailbox.smtp.messages[-1].source


def test_a_draft_that_was_refused_is_still_there(box: Drafts) -> None:
    draft = box.draft()
    box.mailbox.smtp.recipients[BOB] = "550 5.1.1 no such user"
    assert box.send(draft).data["error"] == {"code": "recipient_rejected"}
    assert box.ask("PUT", f"/drafts/{draft}", WHOLE | {"subject": "Better"}).status == 200
    box.mailbox.smtp.recipients.clear()
    assert box.send(draft).data["status"] == "succeeded"
    assert b"Better" in box.mailbox.smtp.messages[-1].source


def test_nobody_got_it_so_the_key_and_the_draft_are_free(box: Drafts) -> None:
    draft, key = box.draft(), a_key()
    box.mailbox.smtp.at("mail", "451 4.3.0 later")
    assert box.send(draft, key).refusal == (503, "provider_unavailable")
    assert box.ask("PUT", f"/drafts/{draft}", WHOLE | {"subject": "Meanwhile"}).status == 200
    box.mailbox.smtp.at("mail", None)
    assert box.send(draft, key).data["status"] == "succeeded"
    assert b"Meanwhile" in box.mailbox.smtp.messages[-1].source


def test_a_reply_among_the_drafts_continues_its_conversation(box: Drafts) -> None:
    parent = box.deliver(letter("Plans", number=77))
    draft = box.draft(replyToMessageId=parent)
    delivery = box.send(draft).data
    assert box.client.appliance.store.deliveries.get_work(delivery["operationId"]).parent_id == parent
    assert delivery["result"]["threadId"] == box.ask("GET", f"/messages/{parent}").data["threadId"]


REFUSED = {
    "somebody else's": (b"From: mallory@example.test\r\nTo: b@example.test\r\n\r\nHi\r\n", "From"),
    "to nobody": (b"Subject: x\r\n\r\nHi\r\n", "recipient"),
    "empty": (b"To: b@example.test\r\nSubject: \r\n\r\n \r\n", "empty"),
    "too many": (b"To: %b\r\n\r\nHi\r\n" % b",\r\n ".join(b"p%d@example.test" % n for n in range(501)), "500"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_draft_that_cannot_go(box: Drafts, name: str) -> None:
    source, reason = REFUSED[name]
    draft = box.put(source)
    before = box.operations()
    for answer in (box.send(draft), box.send(draft, sendAt=tomorrow()), box.preview(draft)):
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/draftId"])
        assert reason in answer.message
    assert (box.operations(), box.mailbox.smtp.messages) == (before, ())
    assert box.ask("DELETE", f"/drafts/{draft}").status == 200


def test_a_draft_of_a_subject_alone_goes_and_is_told_to_have_no_text(box: Drafts) -> None:
    draft = box.draft(body={}, attachments=[])
    preview = box.preview(draft)
    assert (preview.warnings, preview.data["bodyTextChars"]) == (["The message has no text."], 0)
    sent = box.send(draft)
    assert (sent.data["status"], sent.warnings) == ("succeeded", ["The message has no text."])
    later = box.send(box.draft(body={}, attachments=[]), sendAt=tomorrow())
    assert (later.status, later.warnings) == (202, ["The message has no text."])


def test_what_is_no_draft(box: Drafts) -> None:
    letter_id = box.deliver(letter("Plans", number=78))
    before = box.operations()
    for draft in (letter_id, "msg_00000000000000000000000000", "nonsense", "x" * 10_000):
        for answer in (box.send(draft), box.preview(draft)):
            assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/draftId"])
    assert box.operations() == before


def test_what_only_lies_among_the_drafts_is_sent_by_who_may_delete_it(box: Drafts) -> None:
    source = f"From: {box.mailbox.email}\r\nTo: {BOB}\r\nSubject: filed\r\n\r\nHi\r\n".encode()
    draft = box.put(source, flags="")
    _, token = add_key(box.client.appliance, box.client.member["id"], "mail.send")
    refused = box.send(draft, token=token)
    assert (refused.refusal, refused.places) == ((403, "permission_denied"), ["capability"])
    assert box.send(draft).data["status"] == "succeeded"


def test_a_draft_whose_server_is_away(desk: Desk, asking: CheckedClient) -> None:
    filled = FilledMailbox(desk.appliance, asking.member["id"], "away@example.org")
    (draft,) = filled.deliver(letter("one"), flags=["\\Draft"])
    path, header = f"/accounts/{filled.id}/send", {"Idempotency-Key": a_key()}
    for body in ({"draftId": draft}, {"draftId": draft, "sendAt": tomorrow()}):
        assert asking.ask("POST", path, body, headers=header).refusal == (503, "provider_unavailable")
    assert asking.ask("GET", f"/accounts/{filled.id}/delivery-operations").data["items"] == []
