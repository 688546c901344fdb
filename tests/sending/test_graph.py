"""Sending by Microsoft Graph: at most once, whatever it answers, and no draft is left of a message that was not
sent.
"""

from dataclasses import dataclass
from datetime import timedelta
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.model.messages import Envelope
from mailbox_appliance.sending.graph import judge_message
from mailbox_appliance.sending.verdict import Refused
from tests.sending.outlook import ADA, SMTP_IS_OFF, Outlook, outlook
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Action, Says, Step
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_answers import WORDS
from tests.servers.smtp_script import CLOSE, DROP, Stall

TO_MANY = a_message(
    cc=[{"email": "cy@example.test", "name": "Cy, the „third“"}],
    bcc=[{"email": "dan@example.test"}, {"email": "eve@bücher.example"}],
    subject="Grüße",
)


BCD = ["b@x.test", "c@x.test", "d@x.test"]


def test_a_message_goes_once_and_its_bcc_is_nobodys_business(box: Outlook) -> None:
    key = a_key()
    first = box.send(TO_MANY, key)
    assert (first.status, first.data["status"]) == (200, "succeeded")
    assert box.send(TO_MANY, key).data == first.data
    (sent,) = box.graph.messages
    assert set(sent.recipients) == {
        "bob@example.test",
        "cy@example.test",
        "dan@example.test",
        "eve@xn--bcher-kva.example",
    }
    assert b"dan@example.test" not in sent.source
    assert message_from_bytes(sent.source)["Bcc"] is None
    assert len(box.graph.mail) == 2
    assert not box.graph.drafts(ADA)
    assert box.smtp.count("connect") == 0


def test_the_draft_that_is_sent_is_known_before(box: Outlook) -> None:
    known: list[Any] = []
    database = box.desk.appliance.store.database

    def look(step: Step) -> None:
        if step == "send":
            sql = "SELECT phase, provider_draft_id FROM delivery_operations ORDER BY number DESC LIMIT 1"
            known.append(database.row(sql))

    box.graph.before = look
    assert box.send().data["status"] == "succeeded"
    (item,) = box.graph.items
    assert [tuple(row) for row in known] == [("dot", item)]


@dataclass(frozen=True)
class Odd:
    """What Graph does at a step; the answer to the client; how many messages were sent, and how many drafts stay."""

    step: Step
    does: Action
    status: int
    told: str
    sent: int = 0
    drafts: int = 0


ODD = [
    Odd("draft", Says(400, "ErrorInvalidRecipients"), 200, "recipient_rejected"),
    Odd("draft", Says(413, "RequestEntityTooLarge"), 200, "message_too_large"),
    Odd("draft", Says(429, "ApplicationThrottled"), 429, "provider_rate_limited"),
    Odd("draft", Says(503, "ServiceUnavailable"), 503, "provider_unavailable"),
    Odd("draft", Says(404, "MailboxNotEnabledForRESTAPI"), 503, "provider_unavailable"),
    Odd("draft", DROP, 503, "provider_unavailable"),
    Odd("draft", CLOSE, 503, "provider_unavailable"),
    Odd("draft", Says(201), 503, "provider_unavailable"),
    Odd("drafted", DROP, 503, "provider_unavailable", drafts=1),  # its ID is unknown
    Odd("drafted", Says(504), 503, "provider_unavailable", drafts=1),
    Odd("send", Says(403, "ErrorSendAsDenied"), 200, "sender_rejected"),
    Odd("send", Says(400, "ErrorInvalidRecipients"), 200, "recipient_rejected"),
    Odd("send", Says(400), 200, "message_rejected"),
    Odd("send", Says(429, "ApplicationThrottled"), 429, "provider_rate_limited"),
    Odd("send", Says(401, "InvalidAuthenticationToken"), 503, "provider_unavailable"),
    Odd("send", Says(404, "ErrorItemNotFound"), 200, "uncertain", drafts=1),
    Odd("send", Says(503, "ServiceUnavailable"), 200, "uncertain", drafts=1),
    Odd("send", DROP, 200, "uncertain", drafts=1),
    Odd("sent", DROP, 200, "uncertain", 1),
    Odd("sent", CLOSE, 200, "uncertain", 1),
    Odd("sent", Says(500), 200, "uncertain", 1),
    Odd("sent", Says(504), 200, "uncertain", 1),
    Odd("sent", Says(404, "ErrorItemNotFound"), 200, "uncertain", 1),
    Odd("sent", Says(200), 200, "succeeded", 1),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.step}: {odd.does}")
def test_whatever_graph_does_a_key_sends_once_at_most(box: Outlook, odd: Odd) -> None:
    key, body = a_key(), a_message()
    box.graph.at(odd.step, [odd.does])
    answer = box.send(body, key)
    assert WORDS not in str(answer.body)
    if odd.told == "sender_rejected":
        assert "does not allow this mailbox to send from this address" in str(answer.body["warnings"])
    assert answer.status == odd.status, answer
    assert told(answer) == odd.told, answer
    assert len(box.graph.messages) == odd.sent
    # No request waits for that.
    wait_until(lambda: len(box.graph.drafts(ADA)) == odd.drafts, lambda: str(box.graph.drafts(ADA)), 5)
    # The same key again: it sends if nobody received anything, and otherwise returns the same answer.
    again = box.send(body, key)
    assert told(again) == ("succeeded" if odd.status != 200 else odd.told)
    assert len(box.graph.messages) == (1 if odd.status != 200 else odd.sent)


def told(answer: Any) -> str:
    if answer.status != 200:
        return str(answer.code)
    return str(answer.data.get("error", {}).get("code") or answer.data["status"])


def test_silence_after_the_request_to_send_leaves_doubt(tmp_path: Path) -> None:
    with outlook(tmp_path, sending__dot_timeout=1) as box:
        box.connect()
        box.graph.at("sent", Stall())
        assert box.send().data["status"] == "uncertain"
        assert len(box.graph.messages) == 1


def test_a_graph_that_cannot_be_reached_at_the_last_step_got_nothing(box: Outlook) -> None:
    box.graph.before = lambda step: box.graph.set_open(False) if step == "drafted" else None
    try:
        answer = box.send()
    finally:
        box.graph.set_open(True)
    assert (answer.status, answer.code) == (503, "provider_unavailable")
    assert not box.graph.messages


# --- permissions ---


def test_access_that_was_taken_back_is_told_by_name(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect()
        box.provider.revoke()
        answer = box.send()
        assert (answer.status, answer.code) == (503, "provider_unavailable")
        assert "Sign in again" in answer.body["error"]["message"]
        assert (box.status["status"], box.status["error"]["fault"]) == ("reauth_required", "access_revoked")


def test_a_token_that_graph_refuses_is_renewed_and_the_message_goes_once(box: Outlook) -> None:
    assert box.send().data["status"] == "succeeded"
    box.provider.spoil_access()
    box.age_tokens()
    assert box.send().data["status"] == "succeeded"
    assert len(box.graph.messages) == 2


def test_a_token_that_is_taken_back_before_the_last_step_is_renewed_for_the_next_try(box: Outlook) -> None:
    assert box.send().data["status"] == "succeeded"
    renewals = box.provider.count("token", grant="refresh_token")
    box.age_tokens()
    box.graph.at("send", [Says(401, "InvalidAuthenticationToken")])
    answer = box.send()
    assert (answer.status, answer.code) == (503, "provider_unavailable")
    assert "Sign in again" not in str(answer.body)
    assert box.send().data["status"] == "succeeded"
    assert box.provider.count("token", grant="refresh_token") == renewals + 1
    assert len(box.graph.messages) == 2


def test_a_provider_that_is_down_is_no_matter_of_signing_in(box: Outlook) -> None:
    box.provider.out_of_order(503)
    answer = box.send()
    assert (answer.status, answer.code) == (503, "provider_unavailable")
    assert box.status["status"] != "reauth_required"
    assert not box.graph.messages


# --- messages that can be sent ---


@pytest.mark.parametrize(("size", "code"), [(2_900_000, None), (3_100_000, "message_too_large")])
def test_text_that_is_too_large_for_a_request_fails_at_once(box: Outlook, size: int, code: str | None) -> None:
    lines = ("x" * 68 + "\n") * (size // 70)
    answer = box.send(a_message(body={"text": lines}))
    assert answer.data.get("error", {}).get("code") == code
    assert ("exceeds Microsoft Graph's limit of 3 MB for one request" in str(answer.body)) is (code is not None)
    assert len(box.graph.messages) == (0 if code else 1)
    assert not box.graph.drafts(ADA)


def test_letters_that_only_smtputf8_carries_are_told_of(box: Outlook) -> None:
    answer = box.send(a_message("jörg@example.test"))
    assert (answer.status, answer.code) == (422, "unsupported_capability")
    assert not box.graph.mail


@pytest.mark.parametrize(
    ("fields", "sender", "recipients", "may_go"),
    [
        (b"From: a@x.test\r\nTo: b@x.test\r\n", "a@x.test", ["b@x.test"], True),
        (b"From: a@x.test\r\nTo: b@x.test\r\nCc: c@x.test\r\nBcc: d@x.test\r\n", "a@x.test", BCD, True),
        (b"From: a@x.test\r\nTo: B <b@B\xc3\xbccher.test>\r\n", "a@x.test", ["b@xn--bcher-kva.test"], True),
        (b"From: A@X.test\r\nTo: g: b@x.test, c@x.test;\r\n", "a@x.test", ["b@x.test", "c@x.test"], True),
        (b"From: a@x.test\r\nTo: b@x.test, c@x.test\r\n", "a@x.test", ["b@x.test"], False),  # one too many
        (b"From: a@x.test\r\nTo: b@x.test\r\n", "a@x.test", ["b@x.test", "c@x.test"], False),  # one would be missing
        (b"From: a@x.test\r\nTo: b@x.test\r\n", "z@x.test", ["b@x.test"], False),
        (b"To: b@x.test\r\n", "a@x.test", ["b@x.test"], False),
    ],
)  # fmt: skip
def test_the_fields_must_say_what_the_envelope_says(
    fields: bytes, sender: str, recipients: list[str], may_go: bool
) -> None:
    verdict = judge_message(fields + b"Subject: x\r\n\r\nHello\r\n", Envelope(sender, tuple(recipients)))
    assert verdict == (None if may_go else Refused("message_rejected", None))


# --- disabled SMTP ---


def test_smtp_that_is_off_is_noted_and_graph_sends_in_its_place(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect("smtp")
        box.smtp.at("auth", SMTP_IS_OFF)
        assert box.send().data["status"] == "succeeded"
        assert (box.sends_via, len(box.graph.messages), box.smtp.count("connect")) == ("graph", 1, 1)
        assert box.send().data["status"] == "succeeded"
        assert (len(box.graph.messages), box.smtp.count("connect")) == (2, 1)
        assert not box.smtp.messages
        phases = box.desk.appliance.store.database.rows("SELECT phase FROM delivery_phases ORDER BY rowid")
        assert [row[0] for row in phases][:6] == ["accepted", "connecting", "envelope", "data", "dot", "replied"]


def test_smtp_that_works_is_used(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect("smtp")
        assert box.send().data["status"] == "succeeded"
        assert (len(box.smtp.messages), len(box.graph.mail), box.sends_via) == (1, 0, "smtp")


@pytest.mark.parametrize("says", ["535 5.7.3 Authentication unsuccessful", "421 4.3.2 later", "554 5.7.0 no"])
def test_another_refusal_leads_nowhere_else(tmp_path: Path, says: str) -> None:
    with outlook(tmp_path) as box:
        box.connect("smtp")
        box.smtp.at("auth", says)
        assert box.send().status in (429, 503)
        assert (len(box.graph.mail), box.sends_via) == (0, "smtp")


# --- shared mailboxes ---


def test_a_shared_mailbox_sends_from_itself(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.graph.shared = {ADA: {"team@example.test"}}
        box.connect(email="team@example.test")
        assert box.send(TO_MANY).data["status"] == "succeeded"
        (sent,) = box.graph.messages
        assert (sent.owner, sent.sender) == ("team@example.test", "team@example.test")
        assert all("/users/team@example.test/" in each.target for each in box.graph.mail)
        assert box.provider.asked[-1].values["scope"].count("Shared") == 2


def test_a_mailbox_that_is_shared_no_more_is_told_of(tmp_path: Path) -> None:
    with outlook(tmp_path) as box:
        box.connect(email="team@example.test")
        answer = box.send()
        assert (answer.status, answer.code) == (503, "provider_unavailable")
        assert (box.status["status"], box.status["error"]["fault"]) == ("reauth_required", "consent_required")


# --- the outcome ---


@dataclass(frozen=True)
class Doubt:
    """How the outcome became unknown; the state of the draft that Graph reports then; the status of the operation."""

    step: Step
    is_quick: bool = True
    look: Action = None
    outcome: str = "succeeded"


@pytest.mark.parametrize(
    "doubt",
    [
        Doubt("sent"),
        Doubt("sent", is_quick=False),  # no longer a draft, and not in Sent Items yet
        Doubt("send", outcome="uncertain"),  # still a draft, since sending can take time
        Doubt("sent", look=Says(503, "ServiceUnavailable"), outcome="uncertain"),
        Doubt("sent", look=Says(404, "MailboxNotEnabledForRESTAPI"), outcome="uncertain"),
        Doubt("sent", look=Says(404), outcome="uncertain"),  # from a proxy in front of Graph
        Doubt("sent", look=Says(403, "ErrorAccessDenied"), outcome="uncertain"),
        Doubt("sent", look=DROP, outcome="uncertain"),
    ],
    ids=str,
)
def test_what_is_a_draft_no_more_was_sent(tmp_path: Path, clock: FakeClock, doubt: Doubt) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect()
        box.graph.is_quick = doubt.is_quick
        box.graph.at(doubt.step, [DROP])
        operation = box.send().data["operationId"]
        assert box.desk.delivery(box.account, operation).data["status"] == "uncertain"
        box.graph.at("look", doubt.look)
        box.desk.appliance.scheduler.stop(10)  # the timer must not search first
        clock.advance(6)
        assert box.look(operation) == doubt.outcome
        assert len(box.graph.messages) == (doubt.step == "sent")
        assert len(box.graph.drafts(ADA)) == (doubt.step == "send")


def test_a_scheduled_one_leaves_one_draft_at_most_and_goes_once(tmp_path: Path, clock: FakeClock) -> None:
    with outlook(tmp_path, clock) as box:
        box.connect()
        # Its ID is unknown; it is known but may not be sent; sending is temporarily refused; then all works.
        box.graph.at("drafted", [DROP, None, Says(503), None])
        box.graph.at("send", [Says(429), None])
        send_at = (clock.now() + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
        operation = box.send(a_message(sendAt=send_at)).data["operationId"]
        for tries in range(4):
            clock.advance(1900)
            box.desk.appliance.scheduler.wake()
            wait_until(lambda tries=tries: attempts(box, operation) > tries, lambda: "no attempt", 10)  # type: ignore[misc]
            wait_until(lambda: box.desk.delivery(box.account, operation).data["status"] != "sending", str, 10)
            assert len(box.graph.drafts(ADA)) <= 1
        assert box.desk.delivery(box.account, operation).data["status"] == "succeeded"
        assert len(box.graph.messages) == 1
        wait_until(lambda: not box.graph.drafts(ADA), lambda: str(box.graph.drafts(ADA)), 5)


def attempts(box: Outlook, operation: str) -> int:
    sql = "SELECT attempts FROM delivery_operations WHERE id = ?"
    return int(box.desk.appliance.store.database.value(sql, (operation,)))
