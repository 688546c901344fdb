"""Reading mail through the API: pages, folders, whole messages and threads, all of the shape of the Draft record."""

import pytest

from mailbox_appliance.mail.provenance import FIRST_TIME
from mailbox_appliance.operations.decoding import encode_cursor
from tests.checked_client import CheckedClient
from tests.message_shape import check_messages
from tests.operations.connected import request_to_connect
from tests.operations.filled import FilledMailbox, add_member, letter
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until


def subjects(client: CheckedClient, filled: FilledMailbox, query: str = "") -> list[str]:
    return [item["subject"] for item in client.ask("GET", f"/accounts/{filled.id}/messages{query}").data["items"]]


# --- lists ---


def test_a_list_is_newest_first_without_bodies(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    filled.deliver(letter("one"), letter("two"), letter("three"))
    answer = checked_client.ask("GET", f"/accounts/{filled.id}/messages")
    assert answer.data.keys() == {"items", "nextCursor"}
    assert [item["subject"] for item in answer.data["items"]] == ["three", "two", "one"]
    assert answer.data["nextCursor"] is None
    assert check_messages(answer.data) == 3
    for item in answer.data["items"]:
        assert not {"body", "headers", "searchContext"} & item.keys()
        assert (item["accountId"], item["snippet"]) == (filled.id, "Hello")
        assert item["folder"]["role"] == "inbox"


def test_before_the_first_sync_is_through_a_list_says_so(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    path = f"/accounts/{filled.id}/messages"
    assert ["first sync" in warning for warning in checked_client.ask("GET", path).warnings] == [True]
    filled.store.accounts.mark_synced(filled.id)
    assert checked_client.ask("GET", path).warnings == []


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_pages_hold_every_message_once(checked_client: CheckedClient, filled: FilledMailbox, limit: int) -> None:
    filled.deliver(*(letter(str(number)) for number in range(12)))
    pages = []
    for page in checked_client.pages(f"/accounts/{filled.id}/messages", limit):
        pages.append([item["subject"] for item in page["items"]])
        filled.deliver(letter("new"))  # comes in while the pages are read, and moves none of them
    subjects = [str(number) for number in reversed(range(12))]
    assert pages == [subjects[start : start + limit] for start in range(0, 12, limit)]


def test_a_page_holds_fifty_unless_told(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    filled.deliver(*(letter(str(number)) for number in range(51)))
    page = checked_client.ask("GET", f"/accounts/{filled.id}/messages").data
    assert len(page["items"]) == 50
    rest = checked_client.ask("GET", f"/accounts/{filled.id}/messages?cursor={page['nextCursor']}").data
    assert ([item["subject"] for item in rest["items"]], rest["nextCursor"]) == (["0"], None)


def test_messages_of_one_second_keep_their_order_over_pages(
    checked_client: CheckedClient, filled: FilledMailbox
) -> None:
    ids = filled.deliver(*(letter(str(number)) for number in range(5)))
    with filled.store.database.transaction():
        filled.store.database.change("UPDATE messages SET date = 0, internal_date = 0")
    pages = checked_client.pages(f"/accounts/{filled.id}/messages", 2)
    assert [item["id"] for page in pages for item in page["items"]] == ids[::-1]


# How a folder is named, and what is found there.
NAMES: tuple[tuple[str, list[str]], ...] = (
    ("inbox", ["in the inbox"]),
    ("INBOX", ["in the inbox"]),
    ("Inbox", ["in the inbox"]),
    ("sent", ["sent"]),
    ("Sent", ["sent"]),
    ("trash", ["thrown away"]),
    ("spam", ["spam"]),
    ("Junk", ["spam"]),
    ("Projects/%C3%84rger%20%26%20Co", ["trouble"]),
    ("%C3%84rger+%26+Co", ["trouble"]),
    ("null", ["nothing"]),
)


@pytest.fixture
def sorted_mail(filled: FilledMailbox) -> FilledMailbox:
    filled.deliver(letter("in the inbox"))
    filled.deliver(letter("sent"), folder="sent")
    filled.deliver(letter("thrown away"), folder="trash")
    filled.deliver(letter("spam"), folder="spam")
    filled.deliver(letter("trouble"), folder="Projects/Ärger & Co")
    filled.deliver(letter("nothing"), folder="null")
    return filled


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_a_folder_is_named_by_role_path_or_name(
    checked_client: CheckedClient, sorted_mail: FilledMailbox, name: str, expected: list[str]
) -> None:
    assert subjects(checked_client, sorted_mail, f"?folder={name}") == expected


def test_a_folder_is_named_by_its_id(checked_client: CheckedClient, sorted_mail: FilledMailbox) -> None:
    for folder in checked_client.ask("GET", f"/accounts/{sorted_mail.id}/folders").data:
        (found,) = subjects(checked_client, sorted_mail, f"?folder={folder['id']}")
        assert found


def test_spam_and_trash_are_shown_only_when_named(checked_client: CheckedClient, sorted_mail: FilledMailbox) -> None:
    assert subjects(checked_client, sorted_mail) == ["nothing", "trouble", "sent", "in the inbox"]


@pytest.mark.parametrize("name", ["nowhere", "drafts", "archive", "fld_unknown", "%25", "'%20OR%201=1", "inbox%00"])
def test_an_unknown_folder_is_told(checked_client: CheckedClient, sorted_mail: FilledMailbox, name: str) -> None:
    answer = checked_client.ask("GET", f"/accounts/{sorted_mail.id}/messages?folder={name}")
    assert answer.refusal == (404, "not_found")


def test_a_folder_of_another_mailbox_is_not_found(checked_client: CheckedClient, sorted_mail: FilledMailbox) -> None:
    other = FilledMailbox(checked_client.appliance, checked_client.member["id"], "other@example.org")
    (folder, *_) = checked_client.ask("GET", f"/accounts/{other.id}/folders").data
    answer = checked_client.ask("GET", f"/accounts/{sorted_mail.id}/messages?folder={folder['id']}")
    assert answer.refusal == (404, "not_found")
    assert subjects(checked_client, other) == []


def test_folders_are_listed_with_counts(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    filled.deliver(letter("one"), letter("two"))
    filled.deliver(letter("three"), flags=["\\Seen"])
    by_path = {folder["path"]: folder for folder in checked_client.ask("GET", f"/accounts/{filled.id}/folders").data}
    inbox, project = by_path["INBOX"], by_path["Projects/Ärger & Co"]
    assert (inbox["role"], inbox["unreadCount"], inbox["totalCount"]) == ("inbox", 2, 3)
    assert (project["name"], project["unreadCount"], project["totalCount"]) == ("Ärger & Co", 0, 0)
    assert project.keys() == {"id", "name", "unreadCount", "totalCount", "path"}
    assert by_path["Junk"]["role"] == "spam"
    assert by_path["Sent"]["roleSource"] == "extension"


# --- one message ---

FULL = """\
From: =?utf-8?q?Bob_B=C3=BCcher?= <bob@example.test>
To: box@example.org, "" <plain@example.test>
Cc: Carol <carol@example.test>
Reply-To: answers@example.test
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Date: Tue, 03 Mar 2026 10:00:00 +0100
Message-ID: <full@example.test>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: multipart/alternative; boundary=a

--a
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 8bit

Hällo
--a
Content-Type: text/html; charset=utf-8

<p>Hello</p>
--a--
--b
Content-Type: application/pdf; name=plan.pdf
Content-Disposition: attachment; filename=plan.pdf
Content-Transfer-Encoding: base64

aGVsbG8=
--b
Content-Type: image/png
Content-Disposition: inline
Content-ID: <logo@example.test>
Content-Transfer-Encoding: base64

aGk=
--b--
""".replace("\n", "\r\n").encode()


def test_a_whole_message(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    (message_id,) = filled.deliver(FULL, flags=["\\Seen", "\\Flagged", "$Important"])
    answer = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{message_id}")
    message = answer.data
    assert check_messages(answer.body) == 1
    assert message["from"] == {"email": "bob@example.test", "name": "Bob Bücher"}
    assert message["to"] == [{"email": "box@example.org"}, {"email": "plain@example.test"}]
    assert message["cc"] == [{"email": "carol@example.test", "name": "Carol"}]
    assert message["replyTo"] == [{"email": "answers@example.test"}]
    assert (message["subject"], message["date"]) == ("Grüße", "2026-03-03T09:00:00.000Z")
    assert message["body"]["text"].strip() == "Hällo"
    assert message["body"]["html"].strip() == "<p>Hello</p>"
    assert message["flags"] == {"read": True, "starred": True, "draft": False}
    assert message["labels"] == ["$Important"]
    assert message["headers"]["Message-ID"] == "<full@example.test>"
    plan, logo = message["attachments"]
    assert (plan["filename"], plan["mimeType"], plan["sizeBytes"]) == ("plan.pdf", "application/pdf", 5)
    assert (plan["disposition"], logo["disposition"], logo["contentId"]) == (
        "attachment",
        "inline",
        "logo@example.test",
    )
    assert not {"draftId", "bcc", "searchContext"} & message.keys()
    assert answer.warnings == [FIRST_TIME]


# What a message of the network may look like.
ODD: tuple[bytes, ...] = (
    b"",
    b"\r\n",
    b"no header at all",
    b"Subject: only\r\n\r\n",
    b"From: nobody\r\nTo: undisclosed-recipients:;\r\n\r\nx",
    b"From: <>\r\nTo: <>\r\nCc: ,,,\r\nBcc: x\r\nReply-To: @\r\n\r\nx",
    b'From: "" <a@b.c>\r\nTo: "  " <a@b.c>, =?utf-8?q??= <b@b.c>\r\n\r\nx',
    b"Date: never\r\nSubject: \xff\xfe\x00\r\n\r\n\xff\xfe",
    b"Date: Mon, 1 Jan 0001 00:00:00 +1400\r\n\r\nx",
    b"Date: Fri, 31 Dec 9999 23:59:59 -1400\r\n\r\nx",
    b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Disposition: attachment\r\n\r\n\r\n--x--",
    b"Content-Type: text/html\r\n\r\n<p>html only",
    b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nx",
    b"X: 1\r\nX: 2\r\n\x80: y\r\n\r\nx",
)


def test_whatever_came_has_the_shape(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    ids = filled.deliver(*ODD, flags=["\\Recent", "\\Answered"])
    assert len(ids) == len(ODD)
    listed = checked_client.ask("GET", f"/accounts/{filled.id}/messages?limit=100").data
    assert check_messages(listed) == len(ODD)
    for message_id in ids:
        answer = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{message_id}")
        assert check_messages(answer.data) == 1
        assert "labels" not in answer.data
        thread = checked_client.ask("GET", f"/accounts/{filled.id}/threads/{answer.data['threadId']}")
        assert check_messages(thread.data) == 1


def test_a_draft_has_a_draft_id(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    (message_id,) = filled.deliver(letter("draft"), flags=["\\Draft"])
    message = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{message_id}").data
    assert (message["draftId"], message["flags"]["draft"]) == (message_id, True)


@pytest.mark.parametrize("message_id", ["msg_unknown", "%00", "%F0%9F%92%A9", "x" * 5000, "'", "..", "1"])
def test_an_unknown_message_or_thread_is_told(
    checked_client: CheckedClient, filled: FilledMailbox, message_id: str
) -> None:
    for kind in ("messages", "threads", "delivery-operations"):
        answer = checked_client.ask("GET", f"/accounts/{filled.id}/{kind}/{message_id}")
        assert answer.refusal == (404, "not_found")


def test_a_message_of_another_mailbox_is_not_found(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    (message_id,) = filled.deliver(letter("here"))
    thread_id = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{message_id}").data["threadId"]
    other = FilledMailbox(checked_client.appliance, checked_client.member["id"], "other@example.org")
    for path in (f"messages/{message_id}", f"threads/{thread_id}"):
        assert checked_client.ask("GET", f"/accounts/{filled.id}/{path}").status == 200
        assert checked_client.ask("GET", f"/accounts/{other.id}/{path}").refusal == (404, "not_found")


# --- threads ---


def test_a_thread_is_oldest_first_in_pages(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    ids = filled.deliver(letter("Plan", number=1), *(letter("Re: Plan", number=n, answers=n - 1) for n in range(2, 6)))
    filled.deliver(letter("Something else", number=100))
    thread_id = checked_client.ask("GET", f"/accounts/{filled.id}/messages/{ids[2]}").data["threadId"]
    path = f"/accounts/{filled.id}/threads/{thread_id}"
    whole = checked_client.ask("GET", path).data
    assert whole.keys() == {"id", "subject", "messages"}
    assert (whole["id"], whole["subject"], whole["messages"]["nextCursor"]) == (thread_id, "Plan", None)
    assert [item["id"] for item in whole["messages"]["items"]] == ids
    pages = list(checked_client.pages(path, 2))
    assert {page["subject"] for page in pages} == {"Plan"}
    assert [item["id"] for page in pages for item in page["messages"]["items"]] == ids


def test_an_unknown_thread_is_told_on_every_page(checked_client: CheckedClient, filled: FilledMailbox) -> None:
    cursor = encode_cursor(1, filled.id, "thr_unknown")  # of a thread that went into another one meanwhile
    for query in ("", f"?cursor={cursor}"):
        answer = checked_client.ask("GET", f"/accounts/{filled.id}/threads/thr_unknown{query}")
        assert answer.refusal == (404, "not_found")


# --- through a real server ---


def test_mail_of_a_real_server_is_read_by_who_it_is_shared_with(
    checked_client: CheckedClient, mail_server: MailServer
) -> None:
    request = request_to_connect(mail_server)
    user = request["email"]
    mail_server.deliver(user, FULL, letter("Second", number=2))
    mail_server.deliver(user, letter("Spam", number=3), folder="Junk")
    account_id = checked_client.ask("POST", "/accounts", request).data["id"]
    path = f"/accounts/{account_id}"
    wait_until(lambda: checked_client.ask("GET", path).data["status"] == "ready", lambda: "is not ready", 10)
    listed = checked_client.ask("GET", f"{path}/messages")
    assert (listed.warnings, len(listed.data["items"])) == ([], 2)
    for item in listed.data["items"]:
        whole = checked_client.ask("GET", f"{path}/messages/{item['id']}").data
        assert {name: whole[name] for name in item} == item
    bob = add_member(checked_client.appliance, "bob")
    store = checked_client.appliance.store
    with store.database.transaction():
        store.database.change("INSERT INTO account_grants VALUES (?, ?)", (account_id, bob))
    shared = checked_client.log_in("bob@example.org").ask("GET", f"{path}/messages?folder=spam").data
    assert [item["subject"] for item in shared["items"]] == ["Spam"]
