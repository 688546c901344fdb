"""Lists and searches through the API: every filter, alone and together, in one mailbox and in all that are reached."""

from urllib.parse import quote

import pytest

from mailbox_appliance.model.sync import FetchedMessage
from tests.checked_client import CheckedClient
from tests.operations.connected import request_to_connect
from tests.operations.filled import FilledMailbox, add_key, add_member, letter
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.store.mail import MORNING, parsed

MORE = b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nThe budget\r\n"
PART = b"--x\r\nContent-Type: application/pdf\r\nContent-Disposition: %s; filename=a.pdf\r\n\r\nabc\r\n--x--\r\n"


def _source(subject: str, sender: str, date: str, body: bytes = b"\r\nHello there\r\n") -> bytes:
    fields = f"From: {sender}\r\nTo: Carol <carol@example.test>\r\nSubject: {subject}\r\nDate: {date}\r\n"
    return fields.encode() + body


PLAN = _source("The plan", "Ada L. <ada@example.test>", "Wed, 4 Mar 2026 12:00:00 +0000")
INVOICE = _source("Invoice 東京都", "bob@example.test", "Thu, 5 Mar 2026 00:00:00 +0100", MORE + PART % b"attachment")
PICTURE = _source("Rechnung für Zoë", "Ada B <b@a.test>", "Fri, 6 Mar 2026 00:00:00 +0000", MORE + PART % b"inline")
SPAM = _source("The plan of spam", "spam@example.test", "Wed, 4 Mar 2026 12:00:00 +0000")


@pytest.fixture
def mailbox(checked_client: CheckedClient) -> FilledMailbox:
    """A mailbox whose first sync is through, with four messages: plan, invoice, picture; and one in the spam folder."""
    made = FilledMailbox(checked_client.appliance, checked_client.member["id"])
    made.deliver(PLAN, flags=["\\Seen", "$Important"])
    made.deliver(INVOICE, flags=["\\Flagged"])
    made.deliver(PICTURE, folder="Projects/Ärger & Co", flags=["Work", "$important"])
    made.deliver(SPAM, folder="spam")
    made.store.accounts.mark_synced(made.id)
    return made


def found(client: CheckedClient, path: str, query: str) -> list[str]:
    """What a list shows, by one letter each: p(lan), i(nvoice), r(echnung); s for what lies in spam."""
    items = client.ask("GET", f"{path}/messages?{query}").data["items"]
    names = {"The plan": "p", "Invoice 東京都": "i", "Rechnung für Zoë": "r", "The plan of spam": "s"}
    return [names[item["subject"]] for item in items]


# fmt: off
#: query of the list -> what it shows
FILTERS: list[tuple[str, str]] = [
    ("",                                   "rip"),
    ("unread=true",                        "ri"),
    ("unread=false",                       "p"),
    ("starred=true",                       "i"),
    ("starred=false",                      "rp"),
    ("hasAttachment=true",                 "i"),
    ("hasAttachment=false",                "rp"),
    ("from=ada",                           "rp"),
    ("from=ADA@example.test",              "p"),
    ("from=Ada+L",                         "p"),
    ("from=Test+Ada",                         ""),
    ("to=carol",                           "rip"),
    ("to=ada",                             ""),
    ("subject=plan",                       "p"),
    ("subject=RECHNUNG%20fur",             "r"),
    ("subject=%E4%BA%AC%E9%83%BD",         "i"),
    ("subject=budget",                     ""),
    ("subject=!!!",                        ""),
    ("after=2026-03-05",                   "r"),
    ("after=2026-03-04T23:00:00Z",         "ri"),
    ("before=2026-03-04T23:00:00Z",        "p"),
    ("before=2026-03-05",                  "ip"),
    ("after=2026-03-04T12:00:00.000Z&before=2026-03-04T12:00:00.001Z", "p"),
    ("after=2026-03-06&before=2026-03-05", ""),
    ("folder=inbox&unread=true",           "i"),
    ("folder=spam",                        "s"),
    ("folder=spam&q=plan",                 "s"),
    ("q=plan",                             "p"),
    ("q=budget",                           "ri"),
    ("q=budg*",                            "ri"),
    ("q=hello+plan",                       "p"),
    ("q=hello+budget",                     ""),
    ("q=%22the+budget%22",                 "ri"),
    ("q=%22budget+the%22",                 ""),
    ("q=from:bob+budget",                  "i"),
    ("q=is:unread+has:attachment",         "i"),
    ("q=is:read",                          "p"),
    ("q=label:work",                       "r"),
    ("q=label:%24important",               "rp"),
    ("q=label:%24important+is:read",       "p"),
    ("q=label:none",                       ""),
    ("q=after:2026-03-05",                 "r"),
    ("q=12:30",                            ""),
    ("q=!!!",                              ""),
    ("q=plan+-",                           "p"),
    ("q=%E4%BA%AC",                        "i"),
    ("q=a1",                               ""),
    ("q=%22%22%22",                        ""),
    ("q=plan+OR+budget",                   ""),
    ("q=budget&unread=true&from=ada",      "r"),
    ("q=is:read&unread=true",              ""),
    ("q=before:2026-03-06&after=2026-03-04T13:00Z", "i"),
    ("text=the+budget",                    "ri"),
    ("text=budget+the",                    "ri"),
    ("text=plan&q=is:read",                "p"),
    ("text=!!!",                           ""),
]
#: query of the list -> the place that is refused
REFUSED: list[tuple[str, str]] = [
    ("q=is:important",          "query:q"),
    ("q=has:nothing",           "query:q"),
    ("q=before:yesterday",      "query:q"),
    ("q=from:",                 "query:q"),
    ("q=a*",                    "query:q"),
    (f"q={'a+' * 51}",          "query:q"),
    (f"q={'a' * 1001}",         "query:q"),
    (f"text={'a+' * 51}",       "query:text"),
    ("after=yesterday",         "query:after"),
    ("before=2026-02-30",       "query:before"),
    ("before=",                 "query:before"),
    ("q=",                      "query:q"),
    ("q=%20%09",                "query:q"),
    ("text=",                   "query:text"),
    ("text=%E2%80%83",          "query:text"),
    ("unread=maybe",            "query:unread"),
    ("from=",                   "query:from"),
    ("from_=ada",               "query:from_"),
    ("has_attachment=true",     "query:has_attachment"),
    ("folder=",                 "query:folder"),
    ("cursor=nonsense",         "query:cursor"),
    ("limit=0",                 "query:limit"),
    ("label=work",              "query:label"),
    ("q=a&q=b",                 "query:q"),
]
# fmt: on


def test_every_filter(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    expected = dict(FILTERS)
    assert len(expected) == len(FILTERS)
    for path in (f"/accounts/{mailbox.id}", ""):
        assert {query: "".join(found(checked_client, path, query)) for query in expected} == expected


def test_what_cannot_be_meant_is_refused(checked_client: CheckedClient) -> None:
    for query, place in REFUSED:
        answer = checked_client.ask("GET", f"/messages?{query}")
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), query


def test_a_search_is_paged(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    mailbox.deliver(*(letter(f"number {number}", "the same words") for number in range(7)))
    pages = checked_client.pages("/messages?q=same+words", 3)
    last = [[item["subject"][-1] for item in page["items"]] for page in pages]
    assert last == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


def test_a_cursor_of_another_list_is_refused(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    (one, *_) = mailbox.deliver(letter("one", number=1), letter("two", number=2, answers=1), folder="Sent")
    thread = checked_client.ask("GET", f"/accounts/{mailbox.id}/messages/{one}").data["threadId"]
    other = FilledMailbox(checked_client.appliance, checked_client.member["id"], "b@x.org")
    other.deliver(letter("a"), letter("b"))
    own = f"/accounts/{mailbox.id}"
    lists = (
        f"{own}/messages?limit=1",
        f"{own}/messages?limit=1&folder=sent",
        f"{own}/messages?limit=1&q=hello",
        f"{own}/messages?limit=1&unread=true",
        f"{own}/threads/{thread}?limit=1",
        f"/accounts/{other.id}/messages?limit=1",
        "/messages?limit=1",
        "/messages?limit=1&unread=true",
    )
    for path in lists:
        data = checked_client.ask("GET", path).data
        cursor = data.get("messages", data)["nextCursor"]
        for another in lists:
            answer = checked_client.ask("GET", f"{another}&cursor={cursor}")
            if another == path:
                more = path.replace("limit=1", "limit=2")  # the limit may change
                assert checked_client.ask("GET", f"{more}&cursor={cursor}").status == answer.status == 200
            else:
                assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["query:cursor"]), (path, another)


def test_where_nothing_can_match_it_is_said(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    path = f"/accounts/{mailbox.id}/messages"
    for query in ("q=!!!", "text=?", "from=!", "q=is:read+is:unread", "q=is:read&unread=true"):
        answer = checked_client.ask("GET", f"{path}?{query}")
        assert (answer.data["items"], len(answer.warnings)) == ([], 1), query
    assert checked_client.ask("GET", f"{path}?q=plan").warnings == []


def test_what_is_no_operator_is_named(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    for path in (f"/accounts/{mailbox.id}/messages", "/messages"):
        answer = checked_client.ask("GET", f"{path}?q=in:trash+-from:ada+plan")
        assert answer.data["items"] == []
        there_are = "Supported: from: to: subject: is: has: after: before: label:"
        assert answer.warnings == [
            f"in: is not a supported operator: searched as text. {there_are}",
            f"-from: is not a supported operator: searched as text. {there_are}",
        ]


def test_that_nothing_is_left_out_is_said(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    said = "searched as text. All terms of a query must match; exclusion by - or NOT is not supported."
    many = "+".join(f"-w{chr(97 + number)}" for number in range(12))
    for path in (f"/accounts/{mailbox.id}/messages", "/messages"):
        with_plan, without = (checked_client.ask("GET", f"{path}?q={sign}plan") for sign in ("", "-"))
        assert without.data["items"] == with_plan.data["items"]
        assert without.warnings == [f"-plan: {said}"]
        assert checked_client.ask("GET", f"{path}?q=plan+OR+menu").warnings == [f"OR: {said}"]
        (warning,) = checked_client.ask("GET", f"{path}?q={many}").warnings
        assert "-wj and others: searched" in warning


def test_while_bodies_are_coming_a_search_says_so(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    folder = mailbox.store.folders.find(mailbox.id, "inbox")
    assert folder is not None
    fetched = FetchedMessage(900, frozenset(), MORNING, 5, b"")
    mailbox.store.mailbox_writer.add_headers(folder, [(fetched, parsed(subject="A late plan", text=""))])
    for path in (f"/accounts/{mailbox.id}/messages", "/messages"):
        assert checked_client.ask("GET", path).warnings == []
        assert checked_client.ask("GET", f"{path}?unread=true").warnings == []
        (warning,) = checked_client.ask("GET", f"{path}?q=plan").warnings
        assert warning.startswith("Message bodies that are not indexed yet: 1.")
        late = checked_client.ask("GET", f"{path}?text=late").data["items"][0]
        assert late["searchContext"] == {"status": "unavailable"}


def test_a_searched_text_is_shown_where_it_stands(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    items = checked_client.ask("GET", f"/accounts/{mailbox.id}/messages?text=THE++budget").data["items"]
    assert [item["searchContext"] for item in items] == [{"status": "matched", "excerpt": "The budget"}] * 2
    (item,) = checked_client.ask("GET", "/messages?text=plan&subject=plan").data["items"]
    assert item["searchContext"] == {"status": "no_literal_match"}


# --- every mailbox ---


def test_every_mailbox_that_is_reached_is_searched(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    appliance = checked_client.appliance
    bob = add_member(appliance, "bob")
    other, foreign = (
        FilledMailbox(appliance, checked_client.member["id"], "b@x.org"),
        FilledMailbox(appliance, bob, "c@x.org"),
    )
    other.deliver(letter("The plan of B"))
    foreign.deliver(letter("The plan of C"))
    listed = [item["accountId"] for item in checked_client.ask("GET", "/messages?q=plan").data["items"]]
    assert sorted(listed) == sorted([mailbox.id, other.id])
    assert checked_client.ask("GET", "/messages?q=plan").warnings == [
        "The first sync of 1 of these mailboxes is still running."
    ]
    foreign.grant(checked_client.member["id"])
    assert len(checked_client.ask("GET", "/messages?q=plan").data["items"]) == 3
    reader = checked_client.log_in("bob@example.org")
    assert [item["accountId"] for item in reader.ask("GET", "/messages").data["items"]] == [foreign.id]


def test_a_key_lists_the_mailboxes_it_reaches(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    other = FilledMailbox(checked_client.appliance, checked_client.member["id"], "b@x.org")
    other.deliver(letter("The plan of B"))
    member = checked_client.member["id"]
    for accounts, count in (([other.id], 1), ([], 0), (None, 4)):
        _, token = add_key(checked_client.appliance, member, "mail.read", accounts=accounts)
        assert len(checked_client.ask("GET", "/messages", token=token).data["items"]) == count
    _, token = add_key(checked_client.appliance, member, "mail.organize")
    assert checked_client.ask("GET", "/messages", token=token).refusal == (403, "permission_denied")


def test_a_folder_is_looked_for_in_each_mailbox(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    other = FilledMailbox(checked_client.appliance, checked_client.member["id"], "b@x.org")
    other.deliver(letter("Spam of B"), folder="spam")
    with other.store.database.transaction():
        other.store.database.change("DELETE FROM folders WHERE account = 2 AND path = 'null'")
    mailbox.deliver(letter("Only here"), folder="null")
    for name, expected in (("spam", ["Spam of B", "The plan of spam"]), ("null", ["Only here"])):
        items = checked_client.ask("GET", f"/messages?folder={name}").data["items"]
        assert sorted(item["subject"] for item in items) == expected
    (folder, *_) = checked_client.ask("GET", f"/accounts/{mailbox.id}/folders").data
    assert {
        item["accountId"] for item in checked_client.ask("GET", f"/messages?folder={folder['id']}").data["items"]
    } == {mailbox.id}
    for name in ("nowhere", "drafts"):
        assert checked_client.ask("GET", f"/messages?folder={name}").refusal == (404, "not_found")


def test_without_any_mailbox_nothing_is_listed(checked_client: CheckedClient) -> None:
    assert checked_client.ask("GET", "/messages").data == {"items": [], "nextCursor": None}
    assert checked_client.ask("GET", "/messages?q=plan").data == {"items": [], "nextCursor": None}


def test_a_text_of_any_language_is_found_in_a_query(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    mailbox.deliver(letter("회의 안내", "내일 회의가 있습니다"), letter("Встреча", "Завтра в Москве"))
    for query, subject in (("회의", "회의 안내"), ("москве", "Встреча"), ("subject:안내", "회의 안내")):
        items = checked_client.ask("GET", f"/messages?q={quote(query)}").data["items"]
        assert [item["subject"] for item in items] == [subject]


# --- labels ---


def test_the_labels_of_a_mailbox(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    path = f"/accounts/{mailbox.id}/labels"
    names = ["$Important", "Work"]
    assert checked_client.ask("GET", path).data == [{"id": name, "name": name} for name in names]
    _, token = add_key(checked_client.appliance, checked_client.member["id"], "mail.send")
    assert checked_client.ask("GET", path, token=token).refusal == (403, "permission_denied")


def test_a_reader_is_told_how_many_bodies_are_still_to_come(
    checked_client: CheckedClient, mail_server: MailServer
) -> None:
    proxy = mail_server.proxy()
    request = request_to_connect(mail_server, imap_port=proxy.port)
    mail_server.seed(request["email"], {"INBOX": 60})
    proxy.refuse(r"UID FETCH .*BODY\.PEEK\[\]", answer="NO [SERVERBUG] Oops")
    account = checked_client.ask("POST", "/accounts", request).data["id"]

    def warnings() -> list[str]:
        return list(checked_client.ask("GET", f"/accounts/{account}/messages").body.get("warnings", []))

    told = ["Mail of this mailbox is still being fetched (60 messages still without their text)."]
    wait_until(lambda: warnings() == told, lambda: str(warnings()), 10)
    proxy.heal()
    wait_until(lambda: not warnings(), lambda: str(warnings()), 15)
