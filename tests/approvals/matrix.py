"""Every policy, way to send and credential, compared with a table by hand. The SMTP server's record is the judge.

Each message goes to somebody whom the mailbox has heard from, and to somebody new: to both, or to nobody.
"""

import http.client
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from mailbox_appliance.clock import to_timestamp
from tests.approvals.conftest import Desk
from tests.console.house import Person, a_mail
from tests.mcp_server.posted import PREVIOUS, calling, headers_of
from tests.servers.mailboxes import wait_until
from tests.servers.running import Answer

Outcome = Literal["sent", "waits", "refused"]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Rule:
    """The policies of the mailbox and of the leashed key, and what becomes of a message of that key, and of others."""

    mailbox: dict[str, Any]
    key: dict[str, Any]
    of_key: Outcome
    of_others: Outcome


# fmt: off
RULES: tuple[Rule, ...] = (
    #    mailbox                                          key                                     key        others
    Rule({},                                              {},                                     "sent",    "sent"),
    Rule({"approval": "always"},                          {},                                     "waits",   "waits"),
    Rule({"approval": "newRecipients"},                   {},                                     "waits",   "waits"),
    Rule({"allowedRecipients": ["example.org"]},          {},                                     "refused", "refused"),
    Rule({},                                              {"blockedRecipients": ["evil.test"]},   "refused", "sent"),
    Rule({"allowedRecipients": []},                       {},                                     "refused", "refused"),
    Rule({"allowedRecipients": ["evil.test", "example.org"]},{},                                     "sent",    "sent"),
    Rule({"blockedRecipients": ["test"]},                 {},                                     "refused", "refused"),
    Rule({"maxRecipients": 1},                            {"maxRecipients": 9},                   "refused", "refused"),
    Rule({"maxRecipients": 2},                            {"maxRecipients": 1},                   "refused", "sent"),
    Rule({"internalOnly": True},                          {},                                     "refused", "refused"),
    Rule({"perHour": 0},                                  {},                                     "refused", "refused"),
    Rule({},                                              {"perDay": 0},                          "refused", "sent"),
    Rule({},                                              {"approval": "always"},                 "waits",   "sent"),
    Rule({"approval": "always"},                          {"allowedRecipients": ["example.org"]}, "refused", "waits"),
    Rule({"approval": "newRecipients"},                   {"approval": "never"},                  "waits",   "waits"),
)
# fmt: on
SHORT = RULES[:5]


@dataclass
class Case:
    """A message of one rule: to whom, and the message that is answered or forwarded."""

    known: str
    new: str
    original: str

    @property
    def to(self) -> list[dict[str, str]]:
        """The recipients in a request."""
        return [{"email": self.known}, {"email": self.new}]

    def body(self) -> dict[str, Any]:
        """A new message, with the second recipient as Bcc."""
        return {"to": self.to[:1], "bcc": self.to[1:], "subject": "Matrix", "body": {"text": "Text."}}


@dataclass
class Matrix:
    """A desk whose mailbox is shared with another member, and all credentials."""

    desk: Desk
    guest: Person
    credentials: dict[str, str] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)

    def play(self, rule: Rule) -> None:
        """Try each way with each credential. Raises AssertionError unless exactly what the table says is sent."""
        desk, before = self.desk, len(self.desk.smtp.messages)
        desk.set_policy()
        desk.set_key_policy()
        case = self._case()
        drafts = {name: self._draft(case) for name in self.credentials}
        desk.set_policy(**rule.mailbox)
        desk.set_key_policy(**rule.key)
        sent = 0
        for (name, token), (way, send) in itertools.product(self.credentials.items(), WAYS.items()):
            expected = rule.of_key if name == "leashed key" else rule.of_others
            outcome = send(self, case, token, drafts[name])
            what = f"{way} by the {name} under {rule}"
            if name == "stranger" or (way == "mcp" and "session" in name and outcome == "refused"):
                assert outcome == "refused", what
                continue
            assert outcome == expected, what
            self.counted[outcome] += 1
            sent += outcome == "sent"
        arrived = desk.smtp.messages[before:]
        wait_until(lambda: len(desk.smtp.messages) - before >= sent, lambda: f"{len(arrived)}, not {sent}: {rule}", 20)
        self._wait_for_the_schedule()
        arrived = desk.smtp.messages[before:]
        assert len(arrived) == sent, f"{len(arrived)} arrived, not {sent}: {rule}"
        both = sorted((case.known, case.new))
        assert all(sorted(message.recipients) == both for message in arrived), rule

    def _case(self) -> Case:
        number = next(_numbers)
        known, new = f"bob-{number}@example.org", f"eve-{number}@evil.test"
        mail = a_mail(f"To answer {number}", From=known, To=self.desk.box.email, Cc=new)
        self.desk.house.server.deliver(self.desk.box.email, mail)

        def find() -> list[str]:
            listed = self.desk.house.messages(self.desk.box, folder="inbox")
            return [each["id"] for each in listed if each["subject"] == f"To answer {number}"]

        wait_until(lambda: bool(find()), lambda: "not received", 20)
        return Case(known, new, find()[0])

    def _draft(self, case: Case) -> str:
        answer = self.desk.owner("POST", f"/accounts/{self.desk.box.id}/drafts", case.body())
        assert answer.status == 201, answer.body
        return str(answer.data["id"])

    def _wait_for_the_schedule(self) -> None:
        """Reject what waits for an approval, and wait until the rest was due."""
        for found in self.desk.owner("GET", "/approvals?status=pending&limit=100").data["items"]:
            assert self.desk.owner("POST", f"/approvals/{found['id']}/reject", {}).status == 200

        def left() -> list[Any]:
            items = self.desk.owner("GET", f"/accounts/{self.desk.box.id}/scheduled").data["items"]
            return [each for each in items if each["status"] == "queued"]

        wait_until(lambda: not left(), lambda: str(left()), 10)


def _outcome(status: int, answer: Any) -> Outcome:
    if status in (401, 403, 404, 429):
        return "refused"
    assert status in (200, 202), answer
    if answer["data"]["status"] == "succeeded":
        return "sent"
    assert answer["data"]["status"] == "queued", answer
    return "waits"


def _post(matrix: Matrix, path: str, body: object, token: str, key: str | None = None) -> Answer:
    return matrix.desk.post(path, body, token, key or f"matrix-{next(_numbers)}")


def _rest(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    answer = _post(matrix, "send", case.body(), token)
    return _outcome(answer.status, answer.body)


def _saved_draft(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    answer = _post(matrix, "send", {"draftId": draft}, token)
    return _outcome(answer.status, answer.body)


def _forward(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    answer = _post(matrix, f"messages/{case.original}/forward", {"to": case.to}, token)
    return _outcome(answer.status, answer.body)


def _reply_all(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    body = {"replyToMessageId": case.original, "replyAll": True, "body": {"text": "Yes."}}
    answer = _post(matrix, "send", body, token)
    return _outcome(answer.status, answer.body)


def _scheduled(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    at = to_timestamp(datetime.now(UTC) + timedelta(seconds=0.7))
    answer = _post(matrix, "send", case.body() | {"sendAt": at}, token)
    if answer.status == 202 and not any("approves it" in warning for warning in answer.body.get("warnings", ())):
        return "sent"  # later, which the server's record shows
    return _outcome(answer.status, answer.body)


def _retry(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    key = f"matrix-{next(_numbers)}"
    first, second = (_post(matrix, "send", case.body(), token, key) for _ in range(2))
    assert _outcome(first.status, first.body) == _outcome(second.status, second.body)
    return _outcome(second.status, second.body)


def _mcp(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    place, key = {"accountId": matrix.desk.box.id}, {"idempotencyKey": f"matrix-{next(_numbers)}"}
    given = calling("send_email", **place, **case.body(), **key)
    connection = http.client.HTTPConnection(urlsplit(matrix.desk.house.url).netloc, timeout=60)
    connection.request("POST", "/mcp", json.dumps(given), headers_of(token, given, PREVIOUS))
    response = connection.getresponse()
    said = response.read()
    connection.close()
    if response.status != 200:
        return "refused"
    result = json.loads(said)["result"]
    answer = result.get("structuredContent") or json.loads(result["content"][0]["text"])
    if result.get("isError"):
        assert answer["error"]["code"] in ("policy_denied", "too_many_attempts", "not_found", "api_key_required"), (
            answer
        )
        return "refused"
    return _outcome(200, answer if "data" in answer else {"data": answer})


def _cli(matrix: Matrix, case: Case, token: str, draft: str) -> Outcome:
    environment = {**os.environ, "MAILBOX_APPLIANCE_INSTANCE": matrix.desk.house.url, "MAILBOX_APPLIANCE_TOKEN": token}
    given = ["--account", matrix.desk.box.id, "--to", case.known, "--bcc", case.new, "--subject", "Matrix"]
    given += ["--text", "Text.", "--idempotency-key", f"matrix-{next(_numbers)}"]
    command = [sys.executable, "-m", "mailbox_appliance", "emails", "send", *given, "--format", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    if done.returncode and not done.stdout:
        code = json.loads(done.stderr)["error"]["code"]
        assert code in ("policy_denied", "too_many_attempts", "not_found", "account_not_found"), done.stderr
        return "refused"
    return _outcome(200, json.loads(done.stdout))


WAYS: dict[str, Callable[[Matrix, Case, str, str], Outcome]] = {
    "rest": _rest,
    "draft": _saved_draft,
    "forward": _forward,
    "reply-all": _reply_all,
    "scheduled": _scheduled,
    "retry": _retry,
    "mcp": _mcp,
    "cli": _cli,
}


def made(desk: Desk) -> Matrix:
    """Share the mailbox of a desk, and return its credentials: sessions, keys, and an administrator without access."""
    house, guest = desk.house, desk.house.add_member("guest")
    access = {"sharedWithAll": False, "memberIds": [guest.id]}
    assert desk.owner("PUT", f"/accounts/{desk.box.id}/access", access).status == 200
    matrix = Matrix(desk, guest)
    matrix.credentials = {"owner's session": desk.box.owner.token, "guest's session": guest.token}
    for name, member in (("owner's key", desk.box.owner), ("guest's key", guest)):
        body = {"name": name, "permissionProfile": "full"}
        matrix.credentials[name] = house.ask(member, "POST", "/me/api-keys", body).data["token"]
    matrix.credentials |= {"leashed key": desk.key, "stranger": house.ada.token}
    return matrix


def prove(desk: Desk, rules: Sequence[Rule]) -> Counter[str]:
    """Play these rules; return how often each outcome occurred."""
    matrix = made(desk)
    for rule in rules:
        matrix.play(rule)
    return matrix.counted
