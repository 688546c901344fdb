"""The commands that send, against the appliance as a process and real mail servers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Outcome
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep


class Desk:
    """A command line with a session at an appliance with one mailbox."""

    def __init__(self, cli: CommandLine, appliance: RunningAppliance, mail_server: MailServer) -> None:
        self._cli, self._appliance, self.mail = cli, appliance, mail_server
        self.user, self.reader = mail_server.fresh_user(), mail_server.fresh_user()
        cli.environment["MAILBOX_APPLIANCE_TOKEN"] = appliance.set_up()

    def connect(self, smtp_port: int) -> str:
        """Connect the mailbox, wait until it is known, and return its ID."""
        account = self._appliance.connect(self.user, imap_port=self.mail.imap_port, smtp_port=smtp_port)
        self.until(lambda: self.data("accounts", "show")["status"] == "ready", "the first sync")
        return account

    def run(self, *argv: str, stdin: bytes = b"") -> Outcome:
        """Run a command line and return its outcome."""
        return self._cli(*argv, stdin=stdin)

    def data(self, *argv: str, stdin: bytes = b"") -> Any:
        """Return the data of a command, which must succeed."""
        outcome = self.run(*argv, stdin=stdin)
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.data

    def items(self, *argv: str) -> list[Any]:
        """Return the items of a list."""
        found = self.data(*argv)["items"]
        assert isinstance(found, list)
        return found

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until the condition is true."""
        wait_until(lambda: bool(condition()), lambda: f"{what} did not come about", 15)

    def status(self, operation_id: str) -> str:
        """Return the status of an operation."""
        return str(self.run("emails", "delivery-status", operation_id).data["status"])


@pytest.fixture
def desk(cli: CommandLine, mail_server: MailServer) -> Iterator[Desk]:
    appliance = RunningAppliance(cli.data_dir).start()
    yield Desk(cli, appliance, mail_server)
    assert appliance.stop() == 0


def letter(sender: str, to: str) -> bytes:
    """Return a message with an attachment."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"], message["Subject"] = f"Reader <{sender}>", to, "The plans"
    message["Message-ID"], message["Date"] = "<plans@example.test>", datetime.now(UTC)
    message.set_content("They are attached.\n")
    message.add_attachment(b"\x00plan", "application", "x-plan", filename="plan.bin")
    return message.as_bytes()


def subjects(sources: list[bytes]) -> list[str]:
    return sorted(str(message_from_bytes(source, policy=SMTP)["Subject"]) for source in sources)


def key(name: str) -> tuple[str, str]:
    return "--idempotency-key", name


def test_preview_answer_forward_and_send_drafts(desk: Desk) -> None:
    mail, user, reader = desk.mail, desk.user, desk.reader
    mail.deliver(user, letter(reader, user))
    desk.connect(mail.submission_port)
    desk.until(lambda: desk.items("emails", "list", "--folder", "inbox"), "the letter")
    (original,) = desk.items("emails", "list", "--folder", "inbox")

    answer = ("--reply-to", original["id"], "--text", "Thank you.")
    preview = desk.data("emails", "preview", *answer)
    assert (preview["from"], [to["email"] for to in preview["to"]]) == (user, [reader])
    assert (preview["subject"], preview["attachments"]) == ("Re: The plans", [])
    assert desk.data("emails", "send", *key("answer"), *answer)["status"] == "succeeded"

    forward = ("emails", "forward", original["id"], "--to", reader, *key("forward"), "--comment", "See below.")
    forwarded = desk.data(*forward)
    assert (forwarded["kind"], forwarded["status"]) == ("forward", "succeeded")
    assert desk.data(*forward) == forwarded
    assert desk.run(*forward, "--no-attachments").error["code"] == "idempotency_conflict"

    draft = desk.data("drafts", "create", "--to", reader, "--subject", "From a draft", "--text", "Kept.")
    assert desk.data("emails", "preview", "--draft", draft["id"])["subject"] == "From a draft"
    sent = desk.data("drafts", "send", draft["id"], *key("draft"))
    assert sent["status"] == "succeeded"
    assert desk.data("emails", "send", "--draft", draft["id"], *key("draft")) == sent

    received = mail.wait_for_messages(reader, 3)
    assert subjects(received) == ["From a draft", "Fwd: The plans", "Re: The plans"]
    (copy,) = (parsed for source in received if "Fwd" in (parsed := message_from_bytes(source, policy=SMTP))["Subject"])
    assert isinstance(copy, EmailMessage)
    assert [part.get_content() for part in copy.iter_attachments()] == [b"\x00plan"]
    assert len(mail.wait_for_messages(user, 3, "Sent")) == 3
    desk.until(lambda: not mail.messages(user, "Drafts") and not desk.items("drafts", "list"), "the end of the draft")
    fetch = ("fetch", "-u", user, "flags", "mailbox", "INBOX")
    desk.until(lambda: {"\\Answered", "$Forwarded"} <= set(mail.doveadm(*fetch).split()), "the flags")
    assert len(desk.items("emails", "deliveries")) == 3
    assert desk.run("emails", "resolve", sent["operationId"], "--outcome", "failed").error["code"] == "conflict"


def test_send_later_and_call_it_back(desk: Desk) -> None:
    desk.connect(desk.mail.submission_port)
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat(timespec="milliseconds")
    message = ("--to", desk.reader, "--text", "Later.")
    first = desk.data("emails", "send", *key("soon"), *message, "--subject", "Soon", "--send-at", soon)
    assert (first["kind"], first["status"]) == ("scheduled", "queued")
    far = (datetime.now() + timedelta(days=100)).strftime("%Y-%m-%d 12:00")  # noqa: DTZ005 - a local time is meant
    second = desk.data("emails", "send", *key("far"), *message, "--subject", "Far", "--send-at", far)
    waiting = desk.items("scheduled", "list")
    assert [one["id"] for one in waiting] == [first["scheduleId"], second["scheduleId"]]
    assert [one["subject"] for one in waiting] == ["Soon", "Far"]

    past = desk.run("emails", "send", *key("past"), *message, "--send-at", "2020-01-31T09:00:00Z")
    assert (past.code, past.error["details"][0]["path"]) == (2, "/sendAt")
    canceled = desk.data("scheduled", "cancel", second["scheduleId"])
    assert canceled == {"id": second["scheduleId"], "deleted": True}
    ended = desk.run("emails", "delivery-status", second["operationId"])
    assert (ended.code, ended.data["status"], ended.data["error"]) == (5, "failed", {"code": "canceled"})
    assert desk.data("scheduled", "cancel", second["scheduleId"]) == canceled
    assert [one["subject"] for one in desk.items("drafts", "list")] == ["Far"]

    desk.until(lambda: desk.status(first["operationId"]) == "succeeded", "the delivery")
    assert subjects(desk.mail.wait_for_messages(desk.reader, 1)) == ["Soon"]
    assert desk.items("scheduled", "list") == []
    assert desk.run("scheduled", "cancel", first["scheduleId"]).error["code"] == "conflict"


def test_doubt_is_shown_and_decided_by_a_person(desk: Desk, scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.user = desk.user
    account = desk.connect(scripted_smtp.port)
    scripted_smtp.at("reply", Keep(DROP))
    for outcome, code in (("succeeded", 0), ("failed", 5)):
        send = ("emails", "send", *key(outcome), "--to", desk.reader, "--subject", "Lost", "--text", "Is it?")
        shown = desk.run(*send, "--format", "table")
        assert shown.code == 3
        assert "UNCERTAIN: This message may have been delivered" in shown.out
        operation = desk.run(*send).data
        assert f"emails resolve {operation['operationId']} --account {account} --outcome" in shown.out
        look = ("emails", "delivery-status", operation["operationId"])
        assert desk.run(*look).code == 3
        assert "UNCERTAIN" in desk.run("emails", "deliveries", "--format", "table").out
        resolve = ("emails", "resolve", operation["operationId"], "--outcome", outcome)
        assert desk.data(*resolve)["status"] == outcome
        assert desk.run(*look).code == code
        assert desk.run(*resolve).error["code"] == "conflict"
    assert len(scripted_smtp.messages) == 2
