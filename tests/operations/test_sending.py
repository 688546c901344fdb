"""Sending through the API: what each behaviour of a server comes to, and that each key sends at most once."""

import base64
import email
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.operations.conftest import Mailbox
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import CLOSE, DROP, Action, Keep, Lose, Stall, Step

BOB = "bob@example.test"


def details(answer: Answer) -> list[str]:
    return [detail["path"] for detail in answer.body["error"].get("details", [])]


# --- through real servers ---


@pytest.fixture(scope="module")
def real(desk: Desk, mail_server: MailServer) -> tuple[str, str]:
    """A mailbox whose IMAP and SMTP servers are real: its id and its address."""
    user = mail_server.fresh_user()
    return desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port), user


def test_a_message_arrives_once_and_its_copy_lies_in_sent_once(
    desk: Desk, real: tuple[str, str], mail_server: MailServer
) -> None:
    account, user = real
    bob, hidden, key = mail_server.fresh_user(), mail_server.fresh_user(), a_key()
    body = a_message(bob, bcc=[{"email": hidden, "name": "Hidden"}], subject="Grüße")
    answer = desk.send(account, body, key)
    assert (answer.status, answer.data["status"], answer.data["kind"]) == (200, "succeeded", "send")
    assert answer.data["accountId"] == account
    assert "warnings" not in answer.body
    result = answer.data["result"]["id"]

    at_once = desk.message(account, result)
    assert (at_once.status, at_once.data["subject"]) == (200, "Grüße")
    assert at_once.data["folder"]["role"] == "sent"
    assert at_once.data["bcc"] == [{"email": hidden, "name": "Hidden"}]
    assert at_once.data["threadId"] == answer.data["result"]["threadId"]
    assert at_once.data["flags"]["read"]

    for recipient in (bob, hidden):
        [received] = mail_server.wait_for_messages(recipient, 1)
        assert b"bcc" not in received.lower()
        assert hidden.encode() not in received.replace(b"Delivered-To: " + hidden.encode(), b"").split(b"\r\nFrom:")[1]
    [copy] = mail_server.wait_for_messages(user, 1, "Sent")
    assert email.message_from_bytes(copy)["Bcc"] == f"Hidden <{hidden}>"

    again = desk.send(account, body, key)
    assert (again.status, again.data) == (200, desk.delivery(account, answer.data["operationId"]).data)
    assert again.data["operationId"] == answer.data["operationId"]
    other = desk.send(account, a_message(bob, subject="Another"), key)
    assert (other.status, other.code) == (409, "idempotency_conflict")

    # Sync finds the copy on the server: it is the message that was promised, and there is only one.
    wait_until(lambda: mirrored_in_sent(desk, account) == 1, lambda: "Sent was not looked at", 10)
    assert is_on_server(desk, result)
    assert [item["id"] for item in sent_at(desk, account)] == [result]
    assert desk.message(account, result).data["subject"] == "Grüße"
    assert len(mail_server.messages(bob)) == 1
    assert len(mail_server.messages(user, "Sent")) == 1


def sent_at(desk: Desk, account: str) -> list[Any]:
    return list(desk.ask("GET", f"/accounts/{account}/messages?folder=sent").data["items"])


def mirrored_in_sent(desk: Desk, account: str) -> int:
    """How many messages sync has seen in Sent."""
    sent = desk.appliance.store.folders.find_by_role(account, "sent")
    return sent.state.exists if sent is not None and sent.state is not None else 0


def is_on_server(desk: Desk, message_id: str) -> bool:
    found = desk.appliance.store.database.value("SELECT uid FROM messages WHERE id = ?", (message_id,))
    return found is not None


def test_a_real_server_refuses_a_recipient_and_then_nobody_gets_it(
    desk: Desk, real: tuple[str, str], mail_server: MailServer
) -> None:
    account, _ = real
    bob, nobody = mail_server.fresh_user(), "nobody.there@example.test"
    answer = desk.send(account, a_message(bob, cc=[{"email": nobody}]))
    assert (answer.status, answer.data["status"]) == (200, "failed")
    assert answer.data["error"] == {"code": "recipient_rejected"}
    assert "result" not in answer.data
    [warning] = answer.body["warnings"]
    assert nobody in warning
    assert bob not in warning
    assert mail_server.messages(bob) == []


# --- what replies come to ---

OUTCOMES: list[tuple[Step, Action, str]] = [
    ("connect", "554 5.7.1 go away", "503"),
    ("connect", "421 4.3.2 down for now", "503"),
    ("connect", "421 4.7.0 too many connections", "429"),
    ("connect", DROP, "503"),
    ("connect", b"hello\r\n", "503"),
    ("ehlo", "550 no", "503"),
    ("ehlo", CLOSE, "503"),
    ("auth", "454 4.7.0 later", "503"),
    ("auth", "454 4.7.0 too many login attempts", "429"),
    ("auth", DROP, "503"),
    ("mail", "451 4.3.0 later", "503"),
    ("mail", "450 4.4.5 slow down", "429"),
    ("mail", "421 4.3.2 closing", "503"),
    ("mail", DROP, "503"),
    ("mail", b"2\r\n", "503"),
    ("mail", "550 5.7.1 not you", "sender_rejected"),
    ("mail", "552 5.3.4 too large", "message_too_large"),
    ("rcpt", "450 4.2.0 greylisted", "503"),
    ("rcpt", "421 closing", "503"),
    ("rcpt", CLOSE, "503"),
    ("rcpt", "550 5.1.1 unknown", "recipient_rejected"),
    ("rcpt", "553 5.1.8 sender unknown", "sender_rejected"),
    ("data", "451 later", "503"),
    ("data", "250 what", "503"),
    ("data", DROP, "503"),
    ("data", "554 5.5.1 no", "message_rejected"),
    ("reply", "451 4.3.0 later", "503"),
    ("reply", "452 4.3.1 full", "503"),
    ("reply", "552 5.3.4 too large", "message_too_large"),
    ("reply", "554 5.7.1 spam", "message_rejected"),
    ("reply", "421 4.3.2 closing", "uncertain"),
    ("reply", Keep("421 4.3.2 closing"), "uncertain"),
    ("reply", Keep(DROP), "uncertain"),
    ("reply", Lose(CLOSE), "uncertain"),
    ("dot", DROP, "uncertain"),
    ("reply", Keep(b"oops\r\n"), "uncertain"),
    ("reply", Keep("354 more"), "uncertain"),
    ("quit", DROP, "succeeded"),
    ("quit", "500 what", "succeeded"),
    ("reply", "250 kept", "succeeded"),
]


@pytest.mark.parametrize(("step", "action", "outcome"), OUTCOMES, ids=lambda value: str(value)[:40])
def test_what_a_server_does_decides(desk: Desk, mailbox: Mailbox, step: Step, action: Action, outcome: str) -> None:
    mailbox.smtp.at(step, action)
    key, body = a_key(), a_message()
    answer = desk.send(mailbox.id, body, key)
    kept = len(mailbox.smtp.messages)
    if outcome in ("503", "429"):
        check_nobody_got_it(desk, mailbox, answer, int(outcome))
        mailbox.smtp.at(step, None)
        retry = desk.send(mailbox.id, body, key)  # the key is free again
        assert (retry.status, retry.data["status"], len(mailbox.smtp.messages)) == (200, "succeeded", 1)
        return
    status = outcome if outcome in ("uncertain", "succeeded") else "failed"
    assert (answer.status, answer.data["status"]) == (200, status)
    assert answer.data.get("error") == ({"code": outcome} if status == "failed" else None)
    assert kept == (1 if status == "succeeded" else kept if status == "uncertain" else 0)
    connections = mailbox.smtp.count("connect")
    mailbox.smtp.at(step, None)
    replay = desk.send(mailbox.id, body, key)
    assert (replay.status, replay.body.get("warnings")) == (200, answer.body.get("warnings"))
    assert (replay.data["operationId"], replay.data["status"]) == (answer.data["operationId"], status)
    assert desk.delivery(mailbox.id, answer.data["operationId"]).data == replay.data
    assert (mailbox.smtp.count("connect"), len(mailbox.smtp.messages)) == (connections, kept)


def check_nobody_got_it(desk: Desk, mailbox: Mailbox, answer: Answer, status: int) -> None:
    code = {503: "provider_unavailable", 429: "provider_rate_limited"}[status]
    assert (answer.status, answer.code) == (status, code)
    assert int(answer.headers["Retry-After"]) > 0
    assert details(answer) == ["smtp"]
    assert mailbox.smtp.messages == ()
    assert desk.appliance.store.deliveries.list_sending() == ()


def test_a_connection_that_is_lost_within_the_message(desk: Desk, mailbox: Mailbox) -> None:
    # More than fits into the buffers of both ends, so that the dot cannot be on its way yet.
    content = base64.b64encode(bytes(4 << 20)).decode()
    body = a_message(attachments=[{"filename": "zeros", "mimeType": "application/octet-stream", "content": content}])
    mailbox.smtp.at("body", DROP)
    check_nobody_got_it(desk, mailbox, desk.send(mailbox.id, body), 503)


def test_silence_after_the_dot_is_uncertain_in_time(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.smtp.at("reply", Keep(Stall()))
    answer = desk.send(mailbox.id, a_message())
    assert (answer.status, answer.data["status"]) == (200, "uncertain")


def test_one_of_two_recipients_is_refused_and_nobody_is_sent_to(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.smtp.recipients["bad@example.test"] = "550 5.1.1 no such user"
    body = a_message(cc=[{"email": "bad@example.test"}, {"email": "late@example.test"}])
    mailbox.smtp.recipients["late@example.test"] = "450 4.2.0 later"
    answer = desk.send(mailbox.id, body)
    assert answer.data["error"] == {"code": "recipient_rejected"}
    assert answer.body["warnings"] == [
        "The mail server rejected bad@example.test, so the message was not sent to anyone."
    ]
    assert mailbox.smtp.count("rcpt") == 3
    assert mailbox.smtp.count("data") == 0
    assert mailbox.smtp.messages == ()


def test_a_refused_login_turns_the_mailbox_to_reauth_required(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.smtp.at("auth", "535 5.7.8 wrong")
    key = a_key()
    answer = desk.send(mailbox.id, a_message(), key)
    assert (answer.status, answer.code, details(answer)) == (503, "provider_unavailable", ["smtp"])
    account = desk.account(mailbox.id)
    assert (account["status"], account["error"]["code"]) == ("reauth_required", "authentication_failed")
    mailbox.smtp.at("auth", None)
    assert desk.send(mailbox.id, a_message(), key).data["status"] == "succeeded"
    account = desk.account(mailbox.id)
    assert (account["status"], account["error"]) == ("ready", None)


def test_no_server_at_all(desk: Desk, mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    account, port = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mail_server.submission_port), 1
    connection = desk.appliance.store.database
    with connection.transaction():
        connection.change(
            "UPDATE accounts SET connection = json_set(connection, '$.smtp.port', ?) WHERE id = ?", (port, account)
        )
    answer = desk.send(account, a_message())
    assert (answer.status, answer.code, details(answer)) == (503, "provider_unavailable", ["smtp"])


def test_a_message_over_the_announced_size_is_not_even_offered(desk: Desk, mailbox: Mailbox) -> None:
    before, mailbox.smtp.extensions = mailbox.smtp.extensions, ("SIZE 100",)
    try:
        answer = desk.send(mailbox.id, a_message())
    finally:
        mailbox.smtp.extensions = before
    assert answer.data["error"] == {"code": "message_too_large"}
    assert mailbox.smtp.count("mail") == 0


def test_an_address_beyond_ascii_goes_where_the_server_takes_it(desk: Desk, mailbox: Mailbox) -> None:
    key, body = a_key(), a_message("jürgen@bücher.example")
    before, mailbox.smtp.extensions = mailbox.smtp.extensions, ("SIZE 52428800",)
    try:
        answer = desk.send(mailbox.id, body, key)
    finally:
        mailbox.smtp.extensions = before
    assert (answer.status, answer.code) == (422, "unsupported_capability")
    assert desk.send(mailbox.id, body, key).data["status"] == "succeeded"
    assert mailbox.smtp.messages[0].recipients == ("jürgen@xn--bcher-kva.example",)
    assert "SMTPUTF8" in mailbox.smtp.messages[0].parameters


# --- keys ---


def test_another_credential_has_keys_of_its_own(desk: Desk, mailbox: Mailbox) -> None:
    login = {"email": "ada@example.org", "password": "correct horse battery", "deviceName": "other"}
    token = desk.ask("POST", "/auth/login", login).data["token"]
    key = a_key()
    first, second = desk.send(mailbox.id, a_message(), key), desk.send(mailbox.id, a_message(), key, token=token)
    assert first.data["operationId"] != second.data["operationId"]
    assert len(mailbox.smtp.messages) == 2
    # The same member sees both, whichever credential asks.
    assert desk.delivery(mailbox.id, second.data["operationId"]).data == second.data


@pytest.mark.parametrize("key", ["k", "k" * 255, "!~", '"quoted",;\''])
def test_keys_that_are_taken(desk: Desk, mailbox: Mailbox, key: str) -> None:
    assert desk.send(mailbox.id, a_message(subject=key), key).status == 200


@pytest.mark.parametrize("key", [None, "", "k" * 256, "a key", "k\t", "schlüssel", "k\x7f"])
def test_keys_that_are_not(desk: Desk, mailbox: Mailbox, key: str | None) -> None:
    answer = desk.ask("POST", f"/accounts/{mailbox.id}/send", a_message(), Idempotency_Key=key)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert details(answer) == ["header:Idempotency-Key"]


def test_the_same_request_is_the_same_however_it_is_written(desk: Desk, mailbox: Mailbox) -> None:
    key, body = a_key(), a_message()
    first = desk.send(mailbox.id, body, key)
    again = desk.ask("POST", f"/accounts/{mailbox.id}/send/", dict(reversed(list(body.items()))), Idempotency_Key=key)
    assert again.data["operationId"] == first.data["operationId"]


# --- at once ---


@pytest.fixture
def held(mailbox: Mailbox) -> Iterator[Mailbox]:
    """The mailbox, whose server holds everybody at MAIL."""
    mailbox.smtp.at("mail", Stall())
    yield mailbox
    mailbox.smtp.forget()


def test_two_requests_with_one_key_make_one_delivery(desk: Desk, held: Mailbox) -> None:
    key = a_key()
    asked = [desk.begin(held.id, a_message(), key) for _ in range(3)]
    held.smtp.reached("mail")
    other = desk.send(held.id, a_message(subject="Another"), key)
    assert (other.status, other.code) == (409, "idempotency_conflict")
    operation = desk.appliance.store.deliveries.list_sending()[0].operation_id
    assert desk.delivery(held.id, operation).status == 404  # nobody was shown it yet
    held.smtp.at("mail", None)
    held.smtp.release("mail")
    answers = [each.result(20) for each in asked]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert {answer.data["operationId"] for answer in answers} == {operation}
    assert {answer.data["status"] for answer in answers} == {"succeeded"}
    assert len(held.smtp.messages) == 1


def test_two_requests_with_one_key_are_both_told_when_nobody_got_it(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.smtp.at("mail", Stall("451 4.3.0 later"))
    key = a_key()
    asked = [desk.begin(mailbox.id, a_message(), key) for _ in range(2)]
    mailbox.smtp.reached("mail")
    wait_until(lambda: waiting(desk) == 2, lambda: f"{waiting(desk)} wait", 10)
    mailbox.smtp.release("mail")
    assert [(each.result(20).status, each.result(20).code) for each in asked] == [(503, "provider_unavailable")] * 2
    mailbox.smtp.at("mail", None)
    assert desk.send(mailbox.id, a_message(), key).data["status"] == "succeeded"


@pytest.mark.parametrize(("reply", "status", "error"), [(None, "succeeded", None), ("451 4.3.0 later", "failed", 1)])
def test_retries_that_find_no_place_to_wait_are_shown_what_there_is(
    desk: Desk, mailbox: Mailbox, reply: Action, status: str, error: int | None
) -> None:
    mailbox.smtp.at("mail", Stall(reply))
    key = a_key()
    first = desk.begin(mailbox.id, a_message(), key)
    mailbox.smtp.reached("mail")
    retries = [desk.begin(mailbox.id, a_message(), key) for _ in range(7)]
    wait_until(lambda: waiting(desk) == 4, lambda: f"{waiting(desk)} wait", 10)
    wait_until(lambda: sum(each.done() for each in retries) == 4, lambda: "some still wait for a place", 10)
    early = [each.result() for each in retries if each.done()]
    assert {(answer.status, answer.data["status"]) for answer in early} == {(200, "sending")}
    mailbox.smtp.at("mail", None)
    mailbox.smtp.release("mail")
    # What was shown is not taken back any more, whoever has waited for it.
    late = [each.result(20) for each in (first, *retries) if each.result(20) not in early]
    ended = {"code": "provider_unavailable"} if error else None
    assert [(each.status, each.data["status"], each.data.get("error")) for each in late] == [(200, status, ended)] * 4
    assert len({answer.data["operationId"] for answer in (*early, *late)}) == 1
    assert desk.send(mailbox.id, a_message(), key).data == late[0].data
    assert len(mailbox.smtp.messages) == (0 if error else 1)


def waiting(desk: Desk) -> int:
    """How many requests wait for an outcome now."""
    return desk.appliance.worker_limits.waiting


def test_what_does_not_wait_answers_at_once_and_nobody_else_is_held_up(
    desk: Desk, held: Mailbox, real: tuple[str, str], mail_server: MailServer
) -> None:
    asked = [desk.begin(held.id, a_message(subject=str(number)), a_key()) for number in range(50)]
    wait_until(lambda: sum(each.done() for each in asked) == 46, lambda: f"{sum(e.done() for e in asked)} done", 20)
    shown = [each.result() for each in asked if each.done()]
    assert {(answer.status, answer.data["status"]) for answer in shown} == {(200, "sending")}
    assert desk.ask("GET", "/me").status == 200
    account, _ = real
    bob = mail_server.fresh_user()
    other = desk.send(account, a_message(bob))  # it does not wait, but it is sent all the same
    desk.wait_for(account, other.data["operationId"], "succeeded")
    held.smtp.at("mail", None)
    held.smtp.release("mail")
    first = [each.result(20) for each in asked]
    for answer in first:
        desk.wait_for(held.id, answer.data["operationId"], "succeeded", 20)
    assert len(held.smtp.messages) == 50
    subjects = [email.message_from_bytes(message.source)["Subject"] for message in held.smtp.messages]
    assert len(set(subjects)) == 50


# --- a mailbox that goes away ---


@pytest.mark.parametrize(
    ("step", "status"),
    [("mail", "failed"), ("rcpt", "failed"), ("data", "failed"), ("body", "succeeded"), ("reply", "succeeded")],
)
def test_the_mailbox_is_removed_while_a_send_is_under_way(
    desk: Desk, mail_server: MailServer, mailbox: Mailbox, step: Step, status: str
) -> None:
    user = mail_server.fresh_user()
    before, mailbox.smtp.user = mailbox.smtp.user, user
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=mailbox.smtp.port)
    mailbox.smtp.at(step, Stall())
    asked = desk.begin(account, a_message())
    mailbox.smtp.reached(step)
    if step == "body":  # the dot goes out right behind the message; nothing can be taken back once it has
        wait_until(
            lambda: desk.appliance.store.deliveries.list_sending()[0].phase == "dot", lambda: "no dot was sent", 10
        )
    assert desk.ask("DELETE", f"/accounts/{account}").status == 200
    mailbox.smtp.at(step, None)
    mailbox.smtp.release(step)
    answer = asked.result(20)
    mailbox.smtp.user = before
    assert (answer.status, answer.data["status"]) == (200, status)
    assert answer.data.get("error") == ({"code": "account_removed"} if status == "failed" else None)
    assert len(mailbox.smtp.messages) == (status == "succeeded")


def test_threads_and_sockets_do_not_pile_up(desk: Desk, mailbox: Mailbox) -> None:
    names = [thread.name for thread in threading.enumerate()]
    assert len([name for name in names if name.startswith("sending ")]) <= 24
    wait_until(lambda: mailbox.smtp.connected == 0, lambda: f"{mailbox.smtp.connected} left", 10)
    for _ in itertools.repeat(None, 3):
        desk.send(mailbox.id, a_message())
    wait_until(lambda: mailbox.smtp.connected == 0, lambda: f"{mailbox.smtp.connected} left", 10)


def test_what_is_stored_of_a_message_goes_with_its_mailbox(desk: Desk, mail_server: MailServer) -> None:
    email = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=email).start()
    try:
        account = desk.connect(email, imap_port=mail_server.imap_port, smtp_port=smtp.port)
        smtp.at("reply", Keep(DROP))
        assert desk.send(account, a_message()).data["status"] == "uncertain"
    finally:
        smtp.stop()
    count = "SELECT count(*) FROM delivery_operations JOIN delivery_messages ON operation = id WHERE account_id = ?"
    assert desk.appliance.store.database.value(count, (account,)) == 1
    desk.ask("DELETE", f"/accounts/{account}")
    assert desk.appliance.store.database.value(count, (account,)) == 0
