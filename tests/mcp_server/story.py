"""A day of an AI agent that uses every tool. Any client can play it, and every result is checked.

The mailbox is that of `mailbag`; results are compared with the REST API, the mail server and the files.
"""

import base64
import json
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from typing import Any

from mailbox_appliance.clock import to_timestamp
from tests.mcp_server import mailbag
from tests.mcp_server.assistant import Speaker
from tests.mcp_server.judging import Judge, code_of, data_of, error_of
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance


@dataclass
class Story:
    """Played by a client in a mailbox of its own. `running`: for the REST API's view of the same.

    `is_literal`: the client passes arguments unchanged, even of a wrong type.
    """

    speaker: Speaker
    judge: Judge
    running: RunningAppliance
    mail: MailServer
    account: str
    user: str
    recipient: str
    is_literal: bool = True

    def play(self) -> None:
        self.look_around()
        self.turn_pages()
        self.read()
        self.follow_a_conversation()
        self.take_files()
        self.keep_drafts()
        self.send()
        self.send_a_large_file()
        self.send_a_draft()
        self.forward()
        self.send_later()
        self.tidy_up()
        self.go_wrong()
        assert set(self.judge.called) == {tool["name"] for tool in self.judge.tools}

    # --- asking -----------------------------------------------------------------------------------------------------

    def call(self, name: str, **arguments: Any) -> Any:
        """Make one checked call in any mailbox; return the result as on the wire. `from_` becomes `from`."""
        given = {key.removesuffix("_"): value for key, value in arguments.items()}
        return self.judge.check(name, given, self.speaker.call(name, given))

    def ask(self, name: str, **arguments: Any) -> Any:
        """Return the data of a successful result in this mailbox."""
        return data_of(self.call(name, accountId=self.account, **arguments))

    def pages(self, name: str, **arguments: Any) -> Iterator[Any]:
        """Yield the data of every page of a list."""
        cursor: dict[str, str] = {}
        while True:
            page = self.ask(name, **arguments, **cursor)
            yield page
            following = page.get("messages", page)["nextCursor"]
            if following is None:
                return
            cursor = {"cursor": following}

    def rest(self, path: str) -> Any:
        """Return the REST API's data for this mailbox."""
        answer = self.running.ask("GET", f"/accounts/{self.account}{path}")
        assert answer.status == 200, (path, answer)
        return answer.data

    def find(self, subject: str) -> Any:
        """Return the newest message in the inbox with this subject."""
        items = self.rest("/messages?folder=inbox&limit=100")["items"]
        return next(item for item in items if item["subject"] == subject)

    # --- the day ----------------------------------------------------------------------------------------------------

    def look_around(self) -> None:
        """List mailboxes, status, folders and labels."""
        mailboxes = data_of(self.call("list_accounts"))
        assert self.account in {mailbox["id"] for mailbox in mailboxes}
        assert self.account in {mailbox["id"] for mailbox in data_of(self.call("get_status"))["accounts"]}
        assert self.ask("list_folders") == self.rest("/folders")
        assert self.ask("list_labels") == self.rest("/labels")

    def turn_pages(self) -> None:
        """Read lists and searches to their ends: all that REST returns, once, in the same order."""
        wanted = [item["id"] for item in self.rest("/messages?folder=inbox&limit=100")["items"]]
        pages = list(self.pages("list_emails", folder="inbox", limit=9))
        assert all(len(page["items"]) <= 9 for page in pages)
        assert [item["id"] for page in pages for item in page["items"]] == wanted
        assert not {"body", "headers"} & {key for page in pages for item in page["items"] for key in item}
        everywhere = data_of(self.call("list_emails", limit=3))
        assert len(everywhere["items"]) == 3
        found = self.ask("search_emails", q=mailbag.RARE)["items"]
        assert [item["subject"] for item in found] == [mailbag.FILES]
        many = [item["id"] for page in self.pages("search_emails", q="trip", limit=5) for item in page["items"]]
        assert len(many) == len(set(many)) == mailbag.ANSWERS

    def read(self) -> None:
        """Read a long letter from its beginning to its end."""
        letter = self.find(mailbag.LONG)["id"]
        bare = self.ask("get_email", messageId=letter, bodyFormat="none")
        assert not {"body", "headers"} & bare.keys()
        assert bare["subject"] == mailbag.LONG
        for form in ("text", "markdown", "html"):
            whole = self.rest(f"/messages/{letter}/body?format={form}&limit=1000000")["content"]
            first = self.ask("get_email", messageId=letter, bodyFormat=form)["body"]
            assert (first["format"], first["offset"], first["totalChars"]) == (form, 0, len(whole))
            assert first["nextOffset"] == len(first["content"])
            assert whole.startswith(first["content"])
        parts = [self.ask("get_email", messageId=letter)["body"]]
        while parts[-1]["nextOffset"] is not None:
            offset = parts[-1]["nextOffset"]
            parts.append(self.ask("get_email_body", messageId=letter, bodyFormat="text", offset=offset))
        joined = "".join(part["content"] for part in parts)
        assert joined == self.rest(f"/messages/{letter}/body?format=text&limit=1000000")["content"]
        assert joined == mailbag.long_text()
        assert len(parts) > 2

    def follow_a_conversation(self) -> None:
        """Read a thread page by page: every message once, oldest first."""
        thread = self.find(mailbag.CONVERSATION)["threadId"]
        pages = list(self.pages("get_thread", threadId=thread, limit=5))
        assert {page["id"] for page in pages} == {thread}
        wanted = [item["id"] for item in self.rest(f"/threads/{thread}")["messages"]["items"]]
        assert [item["id"] for page in pages for item in page["messages"]["items"]] == wanted
        assert len(wanted) == mailbag.ANSWERS

    def take_files(self) -> None:
        """Download attachments by link, and a small one inline."""
        message = self.ask("get_email", messageId=self.find(mailbag.FILES)["id"], bodyFormat="none")
        ids = {attachment["filename"]: attachment["id"] for attachment in message["attachments"]}
        for file in (mailbag.TIDES, mailbag.CHART):
            of = {"accountId": self.account, "messageId": message["id"], "attachmentId": ids[file.name]}
            result = self.call("download_attachment", **of)
            link = data_of(result)
            assert link["filename"] == file.name
            # For a large message, the server reports encoded sizes: base64 padding is unknown before the download.
            assert 0 <= link["sizeBytes"] - len(file.content) <= 2, link
            assert "content" not in link
            resource = next(block for block in result["content"] if block["type"] == "resource_link")
            assert (resource["uri"], resource["mimeType"]) == (link["url"], file.media_type)
            assert fetched(link["url"]) == file.content
            self._take_inline(file, of)

    def _take_inline(self, file: mailbag.File, of: dict[str, str]) -> None:
        result = self.call("download_attachment", **of, inline=True)
        given = data_of(result).get("content")
        blobs = [block["resource"]["blob"] for block in result["content"] if block["type"] == "resource"]
        if file is mailbag.TIDES:
            assert base64.b64decode(given) == file.content
            assert [base64.b64decode(blob) for blob in blobs] == [file.content]
        else:
            assert (given, blobs) == (None, [])
            assert result["structuredContent"]["warnings"]
            assert fetched(data_of(result)["url"]) == file.content

    def keep_drafts(self) -> None:
        """Create, read, replace, preview and delete a draft."""
        to = [{"email": self.recipient, "name": "Bo"}]
        file = {"filename": "a.txt", "mimeType": "text/plain", "content": base64.b64encode(b"abc").decode()}
        made = self.ask("create_draft", to=to, subject="First", body={"text": "One"}, attachments=[file])
        draft = made["draftId"]
        assert self.ask("get_draft", draftId=draft)["subject"] == "First"
        self.ask("update_draft", draftId=draft, to=to, subject="Second", body={"text": "Two"})
        again = self.ask("get_draft", draftId=draft)
        assert (again["subject"], again["body"]["content"].strip(), again.get("attachments", [])) == (
            "Second",
            "Two",
            [],
        )
        preview = self.ask("preview_send", draftId=draft)
        assert (preview["subject"], preview["to"]) == ("Second", to)
        assert self.ask("preview_send", to=to, subject="Third", body={"text": "Three"})["bodyTextChars"] == 5
        assert self.ask("delete_draft", draftId=draft) == {"id": draft, "deleted": True}
        assert code_of(self.call("get_draft", accountId=self.account, draftId=draft)) == "not_found"

    def send(self) -> None:
        """Send a message once, with repeated calls."""
        before = len(self.mail.messages(self.recipient))
        message: dict[str, Any] = {
            "to": [{"email": self.recipient}],
            "subject": "By tool",
            "body": {"text": "Ahoy"},
            "idempotencyKey": uuid.uuid4().hex,
        }
        sent = self.settled(self.ask("send_email", **message))
        assert sent["status"] == "succeeded"
        again = self.ask("send_email", **message)
        assert (again["operationId"], again["status"]) == (sent["operationId"], "succeeded")
        other = self.call("send_email", accountId=self.account, **(message | {"subject": "Another"}))
        assert code_of(other) == "idempotency_conflict"
        assert len(self.mail.wait_for_messages(self.recipient, before + 1)) == before + 1

    def send_a_large_file(self) -> None:
        """Send a file of 25 MiB that the tools never see: less than 2 KB of text passes through them."""
        before, content = len(self.mail.messages(self.recipient)), bytes(range(256)) * 100_000
        asked = self.call("create_upload_link", filename="plans.bin")
        link = data_of(asked)
        put_file(link["url"], content)
        message = {"to": [{"email": self.recipient}], "body": {"text": "Plans"}, "idempotencyKey": uuid.uuid4().hex}
        message["attachments"] = [{"uploadId": link["uploadId"]}]
        sent = self.ask("send_email", **message)
        assert len(json.dumps([asked, message, sent])) < 2_000
        assert self.settled(sent)["status"] == "succeeded"
        parsed = message_from_bytes(self.mail.wait_for_messages(self.recipient, before + 1)[-1], policy=policy.default)
        assert [part.get_content() for part in parsed.iter_attachments()] == [content]

    def send_a_draft(self) -> None:
        """Send a draft, which is then no draft; a reply gets its recipient automatically."""
        before = len(self.mail.messages(self.recipient))
        to = [{"email": self.recipient}]
        draft = self.ask("create_draft", to=to, subject="Kept for now", body={"text": "Ahoy"})["draftId"]
        sent = self.settled(self.ask("send_email", draftId=draft, idempotencyKey=uuid.uuid4().hex))
        assert sent["status"] == "succeeded", sent
        assert b"Subject: Kept for now" in self.mail.wait_for_messages(self.recipient, before + 1)[-1]

        def is_gone() -> bool:
            result = self.call("get_draft", accountId=self.account, draftId=draft)
            return bool(result.get("isError")) and code_of(result) == "not_found"

        wait_until(is_gone, lambda: "the draft is still there", 10)
        answered = self.find(mailbag.LONG)
        preview = self.ask("preview_send", replyToMessageId=answered["id"], body={"text": "Thank you"})
        assert (preview["subject"], preview["to"]) == (f"Re: {mailbag.LONG}", [answered["from"]])

    def settled(self, operation: Any) -> Any:
        """Wait until a delivery is neither queued nor being sent; return the tool's result."""
        wanted = operation["operationId"]
        told = [operation]

        def is_over() -> bool:
            told.append(self.ask("get_delivery_operation", operationId=wanted))
            return told[-1]["status"] not in ("queued", "sending")

        wait_until(is_over, lambda: str(told[-1]), 20)
        return told[-1]

    def forward(self) -> None:
        """Forward a message with its files."""
        before = len(self.mail.messages(self.recipient))
        wanted = {"messageId": self.find(mailbag.FILES)["id"], "to": [{"email": self.recipient}]}
        sent = self.ask("forward_email", **wanted, comment="See below.", idempotencyKey=uuid.uuid4().hex)
        assert self.settled(sent)["kind"] == "forward"
        arrived = self.mail.wait_for_messages(self.recipient, before + 1)[-1]
        assert f"Subject: Fwd: {mailbag.FILES}".encode() in arrived
        assert mailbag.CHART.name.encode() in arrived

    def send_later(self) -> None:
        """Schedule a message for tomorrow, and cancel it."""
        tomorrow = to_timestamp(datetime.now(UTC) + timedelta(days=1))
        made = self.ask(
            "send_email",
            to=[{"email": self.recipient}],
            subject="Tomorrow",
            body={"text": "Later"},
            sendAt=tomorrow,
            idempotencyKey=uuid.uuid4().hex,
        )
        assert (made["kind"], made["status"]) == ("scheduled", "queued")
        waiting = self.ask("list_scheduled_emails")["items"]
        assert [(one["operationId"], one["subject"]) for one in waiting] == [(made["operationId"], "Tomorrow")]
        schedule = waiting[0]["id"]
        assert self.ask("cancel_scheduled_email", scheduleId=schedule) == {"id": schedule, "deleted": True}
        assert self.ask("list_scheduled_emails")["items"] == []
        over = self.ask("get_delivery_operation", operationId=made["operationId"])
        assert (over["status"], over["error"]["code"]) == ("failed", "canceled")

    def tidy_up(self) -> None:
        """Apply bulk actions, and check the result for each message."""
        notes = [self.find(f"Note {number}")["id"] for number in range(3)]
        position = self.ask("list_changes")["nextPosition"]
        for action, more in (("markRead", {}), ("star", {}), ("addLabels", {"labels": ["Kept"]}), ("trash", {})):
            done = self.ask("modify_emails", messageIds=[*notes, "msg_unknown"], action=action, **more)
            assert (done["action"], done["succeededIds"], done["uncertainIds"]) == (action, notes, [])
            assert done["failed"] == [{"messageId": "msg_unknown", "code": "not_found"}]
        flags = self.ask("get_email", messageId=notes[0], bodyFormat="none")
        assert (flags["flags"]["read"], flags["flags"]["starred"], flags["labels"]) == (True, True, ["Kept"])
        assert [label["name"] for label in self.ask("list_labels")] == ["Kept"]
        taken = self.call("modify_emails", accountId=self.account, messageIds=notes, action="untrash")
        undone = self.ask("undo_action", token=taken["structuredContent"]["undo"]["token"])
        assert (undone["action"], undone["succeededIds"], undone["failed"]) == ("undo", notes, [])
        assert set(notes) == {item["id"] for item in self.ask("list_emails", folder="trash")["items"]}
        self.see_changes(position, set(notes))
        assert data_of(self.call("list_approvals"))["items"] == []

    def see_changes(self, position: str, moved: set[str]) -> None:
        """Wait until these messages are told of as moved."""
        told: set[str] = set()
        while told != moved:
            page = self.ask("list_changes", after=position, types="message.moved", wait=20)
            assert page["items"], (told, moved)
            told |= {one["data"]["id"] for one in page["items"]}
            position = page["nextPosition"]

    def go_wrong(self) -> None:
        """Make invalid calls: the result of the tool reports each fault with a pointer."""
        box = {"accountId": self.account}
        wrong: tuple[tuple[str, dict[str, Any], str, str | None], ...] = (
            ("get_email", {**box, "messageId": "msg_unknown"}, "not_found", None),
            ("list_folders", {"accountId": "acc_unknown"}, "not_found", None),
            ("list_emails", {**box, "nonsense": 1}, "invalid_request", "/nonsense"),
            ("list_emails", {**box, "limit": 0}, "invalid_request", "/limit"),
            ("get_email", box, "invalid_request", "/messageId"),
            (
                "send_email",
                {**box, "to": [{"email": self.recipient}], "body": {}},
                "invalid_request",
                "/idempotencyKey",
            ),
            ("preview_send", {**box, "to": [{"email": ""}], "body": {"text": "a"}}, "invalid_request", "/to/0/email"),
        )
        mistyped: tuple[tuple[str, dict[str, Any], str, str | None], ...] = (
            ("list_emails", {**box, "limit": "5"}, "invalid_request", "/limit"),
            ("list_emails", {**box, "unread": 1}, "invalid_request", "/unread"),
            ("preview_send", {**box, "to": [{"email": 5}], "body": {"text": "a"}}, "invalid_request", "/to/0/email"),
        )
        for name, arguments, code, path in (*wrong, *(mistyped if self.is_literal else ())):
            error = error_of(self.call(name, **arguments))
            assert error["code"] == code, (name, arguments, error)
            if path is not None:
                assert path in [detail["path"] for detail in error["details"]], (name, arguments, error)


def put_file(url: str, content: bytes) -> None:
    """Send a file to an upload link, without a credential."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, content, method="PUT"), timeout=30) as answer:
        assert answer.status == 201


def fetched(url: str) -> bytes:
    """Download a link without a credential."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        assert answer.headers["Content-Disposition"].startswith("attachment")
        content: bytes = answer.read()
    return content
