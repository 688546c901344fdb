"""Large mail by Microsoft Graph: it arrives complete, and at most once, whatever happens while its files are
attached.
"""

import base64
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.remote import graph as remote_graph
from mailbox_appliance.sending import graph as sending_graph
from tests.sending.outlook import ADA, Outlook, outlook
from tests.sending.test_graph import told
from tests.sending.test_graph_doubt import attempt, planned
from tests.servers.desk import a_key, a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Action, Says, Step
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_answers import WORDS
from tests.servers.smtp_script import CLOSE, DROP, Stall

MB, MIB = 1_000_000, 1 << 20


def file(name: str, size: int, mime_type: str = "application/pdf", **more: Any) -> dict[str, Any]:
    content = base64.b64encode(random.Random(name).randbytes(size)).decode()
    return {"filename": name, "mimeType": mime_type, "content": content, **more}


#: Low limits: a MIME of 20 kB, files from 20 kB in ranges of 10 kB.
SCALED = 20_000


def scaled(monkeypatch: pytest.MonkeyPatch, box: Outlook) -> None:
    monkeypatch.setattr(sending_graph, "LARGEST_MESSAGE", SCALED)
    monkeypatch.setattr(sending_graph, "LEAST_UPLOADED", SCALED)
    monkeypatch.setattr(remote_graph, "_RANGE", SCALED // 2)
    box.graph.uploads.least = SCALED


#: One stays in the MIME, one is added in one request, one in three ranges.
FILES = [file("stays", 9_000), file("Anhang „größer“.pdf", 15_000), file("uploaded", 25_000)]


@pytest.fixture
def small(box: Outlook, monkeypatch: pytest.MonkeyPatch) -> Outlook:
    scaled(monkeypatch, box)
    return box


def got(box: Outlook) -> dict[str, tuple[str, bytes | None]]:
    """Return the attachments of the one message that was sent, by name."""
    (sent,) = box.graph.messages
    read = parse_message(sent.source)
    return {each.filename: (each.mime_type, attachment_bytes(sent.source, each.part)) for each in read.attachments}


def meant(files: list[dict[str, Any]]) -> dict[str, tuple[str, bytes]]:
    return {each["filename"]: (each["mimeType"], base64.b64decode(each["content"])) for each in files}


# --- what arrives ---


@pytest.mark.parametrize(
    ("sizes", "attached", "ranges"),
    [
        ([2_100_000], 0, 0),
        ([2_300_000], 1, 0),
        ([5 * MB], 0, 2),
        ([2 * MB, 3 * MB, 2_999_999], 1, 1),
        ([1 * MB] * 20, 18, 0),
        ([25 * MIB], 0, 7),
    ],
    ids=str,
)
def test_it_arrives_as_it_was_sent(box: Outlook, sizes: list[int], attached: int, ranges: int) -> None:
    files = [file(f"Übersicht „{number}“ 日本.pdf", size) for number, size in enumerate(sizes)]
    key, body = a_key(), a_message(attachments=files, bcc=[{"email": "dan@example.test"}], subject="Grüße")
    first = box.send(body, key)
    assert (first.status, first.data["status"]) == (200, "succeeded"), first
    assert got(box) == meant(files)
    (sent,) = box.graph.messages
    read = parse_message(sent.source)
    assert (read.subject, (read.text or "").strip()) == ("Grüße", "Hello")
    assert set(sent.recipients) == {"bob@example.test", "dan@example.test"}
    assert b"dan@example.test" not in sent.source
    assert (box.graph.count("attached"), box.graph.count("uploaded")) == (attached, ranges)
    assert box.send(body, key).data["operationId"] == first.data["operationId"]
    assert len(box.graph.messages) == 1
    assert not box.graph.drafts(ADA)


def test_pictures_and_messages_arrive_as_what_they_are(box: Outlook) -> None:
    html = '<p><img src="cid:a@x"><img src="cid:b@x"></p>'
    inner = b"From: x@x.test\r\nSubject: Inside\r\nContent-Type: text/plain\r\n\r\n" + b"Hello there\r\n" * 300_000
    files = [
        file("a.png", 100_000, "image/png", contentId="a@x"),
        file("b.png", 3_500_000, "image/png", contentId="b@x"),
        file("c.png", 2_800_000, "image/png"),
        {"filename": "m.eml", "mimeType": "message/rfc822", "content": base64.b64encode(inner).decode()},
    ]
    answer = box.send(a_message(body={"text": "Hello", "html": html}, attachments=files))
    assert answer.data["status"] == "succeeded", answer
    (sent,) = box.graph.messages
    assert [(each.name, each.mime_type, each.is_inline, each.content_id) for each in sent.files] == [
        ("b.png", "image/png", True, "b@x"),
        ("c.png", "image/png", False, None),
        ("m.eml", "message/rfc822", False, None),
    ]
    assert sent.files[2].content == inner
    found = {each.filename: (each.content_id, each.disposition) for each in parse_message(sent.source).attachments}
    assert found["a.png"] == ("a@x", "inline")
    assert found["b.png"] == ("b@x", "inline")
    assert {name: content for name, (_, content) in got(box).items()} == {
        name: content for name, (_, content) in meant(files).items()
    }
    assert 'src="cid:b@x"' in str(parse_message(sent.source).html)


def test_a_size_on_which_graph_has_another_opinion(small: Outlook) -> None:
    small.graph.uploads.least = 30_000
    assert small.send(a_message(attachments=FILES)).data["status"] == "succeeded"
    assert got(small) == meant(FILES)
    assert (small.graph.count("attached"), small.graph.count("uploaded")) == (2, 0)


def test_nothing_is_added_that_could_be_sent_before_its_draft_is_known(small: Outlook) -> None:
    known: list[tuple[str, Any]] = []
    database = small.desk.appliance.store.database
    sql = "SELECT phase, provider_draft_id FROM delivery_operations ORDER BY number DESC LIMIT 1"
    small.graph.before = lambda step: known.append((step, tuple(database.row(sql) or ())))
    assert small.send(a_message(attachments=FILES)).data["status"] == "succeeded"
    (item,) = small.graph.items
    known = [each for each in known if each[0] != "addresses"]  # asked for at any time
    added = ["attach", "attached", "session", "begun", *["upload", "uploaded"] * 3]
    assert [each[0] for each in known] == ["draft", "drafted", *added, "send", "sent"]
    assert {each[1] for each in known[2:-2]} == {("data", item)}
    assert {each[1] for each in known[-2:]} == {("dot", item)}


# --- faults ---


@dataclass(frozen=True)
class Odd:
    """What is done at a step; the answer to the client, and whether the same key then sends the message."""

    step: Step
    does: Action
    status: int
    told: str


LATER = (503, "provider_unavailable")
SLOWER = (429, "provider_rate_limited")
ODD = [
    Odd("attach", Says(400, "ErrorInvalidRequest"), 200, "message_rejected"),
    Odd("attach", Says(400, "ErrorMessageSizeExceeded"), 200, "message_too_large"),
    Odd("attach", Says(403, "ErrorAccessDenied"), 200, "message_rejected"),
    Odd("attach", Says(413), 200, "message_too_large"),
    Odd("attach", Says(404, "ErrorItemNotFound"), *LATER),
    Odd("attach", Says(412, "ErrorIrresolvableConflict"), *LATER),
    Odd("attach", Says(429, "ApplicationThrottled"), *SLOWER),
    Odd("attach", DROP, *LATER),
    Odd("attached", DROP, *LATER),  # it is there, but the client cannot know
    Odd("attached", CLOSE, *LATER),
    Odd("attached", Says(504), *LATER),
    Odd("session", Says(403, "ErrorAccessDenied"), 200, "message_too_large"),
    Odd("session", Says(400, "ErrorAttachmentSizeLimitExceeded"), 200, "message_too_large"),
    Odd("session", Says(429, "ApplicationThrottled"), *SLOWER),
    Odd("session", Says(503, "ServiceUnavailable"), *LATER),
    Odd("session", Says(201), *LATER),  # with no address
    Odd("session", DROP, *LATER),
    Odd("begun", DROP, *LATER),
    Odd("upload", Says(400), *LATER),
    Odd("upload", Says(401, "InvalidAuthenticationToken"), *LATER),
    Odd("upload", Says(403, "ErrorAccessDenied"), *LATER),
    Odd("upload", Says(404, "ErrorItemNotFound"), *LATER),
    Odd("upload", Says(410), *LATER),
    Odd("upload", Says(416), *LATER),
    Odd("upload", Says(413), 200, "message_too_large"),
    Odd("upload", Says(400, "ErrorMessageSizeExceeded"), 200, "message_too_large"),
    Odd("upload", Says(429), *SLOWER),
    Odd("upload", Says(503), *LATER),
    Odd("upload", Says(302, headers={"Location": "https://127.0.0.1/"}), *LATER),
    Odd("upload", DROP, *LATER),
    # Without an explicit confirmation the draft could be sent without its file.
    *(Odd(step, Says(status), *LATER) for step in ("attach", "session", "upload") for status in (200, 202, 204, 206)),
    Odd("uploaded", Says(200), *LATER),
    Odd("uploaded", DROP, *LATER),
    Odd("uploaded", CLOSE, *LATER),
    Odd("uploaded", Says(200), *LATER),  # does not affect the next one
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.step}: {odd.does}")
def test_whatever_happens_while_files_are_added_nobody_got_it(
    small: Outlook, odd: Odd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key, body = a_key(), a_message(attachments=FILES)
    small.graph.at(odd.step, [odd.does])
    answer = small.send(body, key)
    assert answer.status == odd.status, answer
    assert told(answer) == odd.told, answer
    assert not small.graph.messages
    wait_until(lambda: not small.graph.drafts(ADA), lambda: str(small.graph.drafts(ADA)), 5)
    assert small.status["status"] != "reauth_required"
    again = small.send(body, key)
    assert told(again) == ("succeeded" if odd.status != 200 else odd.told)
    if odd.status == 200:
        assert not small.graph.messages
    else:
        assert got(small) == meant(FILES)
    assert WORDS not in f"{answer.body} {again.body} {caplog.text}"
    assert not any(secret in f"{answer.body} {caplog.text}" for secret in ("authtoken", "AttachmentSessions"))


@pytest.mark.parametrize("ranges", [1, 2, 3])
def test_every_range_may_be_the_last(small: Outlook, ranges: int) -> None:
    key, body = a_key(), a_message(attachments=FILES)
    small.graph.at("uploaded", [*[None] * (ranges - 1), DROP])
    assert small.send(body, key).status == 503
    assert small.send(body, key).data["status"] == "succeeded"
    assert got(small) == meant(FILES)


@pytest.mark.parametrize("files", [FILES[:2], FILES[::2]], ids=["attach", "session"])
def test_a_token_that_ends_while_files_are_added_is_renewed(small: Outlook, files: list[dict[str, Any]]) -> None:
    assert small.send().data["status"] == "succeeded"
    small.age_tokens()
    small.graph.before = lambda step: small.provider.spoil_access() if step == "drafted" else None
    renewed = small.provider.count("token", grant="refresh_token")
    assert small.send(a_message(attachments=files)).data["status"] == "succeeded"
    assert small.provider.count("token", grant="refresh_token") == renewed + 1
    assert small.graph.count("drafted") == 2
    assert len(small.graph.messages[-1].files) == 1


def test_a_draft_is_removed_with_the_token_that_was_good_last(small: Outlook) -> None:
    assert small.send().data["status"] == "succeeded"
    small.age_tokens()
    small.graph.before = lambda step: small.provider.spoil_access() if step == "drafted" else None
    small.graph.at("upload", [None, Says(503)])
    assert small.send(a_message(attachments=FILES)).status == 503
    wait_until(lambda: not small.graph.drafts(ADA), lambda: str(small.graph.drafts(ADA)), 5)


def test_access_that_is_taken_back_while_files_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with outlook(tmp_path) as box:
        scaled(monkeypatch, box)
        box.connect()
        assert box.send().data["status"] == "succeeded"
        box.age_tokens()
        box.graph.before = lambda step: box.provider.revoke() if step == "drafted" else None
        assert box.send(a_message(attachments=FILES)).status == 503
        assert box.status["error"]["fault"] == "access_revoked"
        assert len(box.graph.messages) == 1


def test_a_mailbox_that_is_shared_takes_what_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with outlook(tmp_path) as box:
        scaled(monkeypatch, box)
        box.graph.shared = {ADA: {"team@example.test"}}
        box.connect(email="team@example.test")
        assert box.send(a_message(attachments=FILES[:2])).data["status"] == "succeeded"
        answer = box.send(a_message(attachments=FILES))
        assert told(answer) == "message_too_large"
        assert "for a shared mailbox" in str(answer.body)
        assert len(box.graph.messages) == 1
        assert box.status["status"] != "reauth_required"
        box.graph.uploads.is_for_all = True  # if Graph does it anyway
        assert box.send(a_message(attachments=FILES)).data["status"] == "succeeded"


def test_more_than_exchange_takes_is_told(small: Outlook) -> None:
    small.graph.uploads.most_in_all = 40_000
    answer = small.send(a_message(attachments=FILES))
    small.graph.uploads.most_in_all = 35 * MIB
    assert told(answer) == "message_too_large"
    assert "35 MB" in str(answer.body)
    assert not small.graph.messages
    wait_until(lambda: not small.graph.drafts(ADA), lambda: str(small.graph.drafts(ADA)), 5)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:1/x?authtoken=secret",
        "https://localhost/x?authtoken=secret",
        "http://localhost:1/x?authtoken=secret",
        "https://169.254.169.254/x?authtoken=secret",
        "https://evil.example/x?authtoken=secret",
        "file:///x?authtoken=secret",
    ],
)
def test_an_upload_that_leads_elsewhere_is_not_followed(
    small: Outlook, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    small.graph.uploads.leads_to = lambda _: url
    answer = small.send(a_message(attachments=FILES))
    assert (answer.status, answer.code) == LATER
    assert "upload_hosts" in str(answer.body)
    assert "secret" not in f"{answer.body} {caplog.text}"
    assert not small.graph.messages
    assert small.graph.count("upload") == 0
    wait_until(lambda: not small.graph.drafts(ADA), lambda: str(small.graph.drafts(ADA)), 5)


# --- time ---


def test_who_waits_is_answered_while_it_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with outlook(tmp_path, sending__answer_within=1) as box:
        scaled(monkeypatch, box)
        box.connect()
        box.graph.at("upload", [None, Stall()])
        answer = box.send(a_message(attachments=FILES))
        assert (answer.status, answer.data["status"]) == (200, "sending")
        box.graph.release("upload")
        box.desk.wait_for(box.account, answer.data["operationId"], "succeeded")
        assert got(box) == meant(FILES)


def test_a_scheduled_one_leaves_one_draft_at_most_and_goes_once(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with outlook(tmp_path, clock) as box:
        scaled(monkeypatch, box)
        box.connect()
        box.graph.at("attached", [DROP, None])
        box.graph.at("begun", [Says(503), None])
        box.graph.at("uploaded", [None, DROP, None])
        monkeypatch.setattr(
            "tests.sending.test_graph_doubt.a_message", lambda **more: a_message(attachments=FILES, **more)
        )
        operation = planned(box, clock)
        for number in (1, 2, 3):
            assert attempt(box, clock, operation, number) == "queued"
            assert len(box.graph.drafts(ADA)) <= 1
        assert attempt(box, clock, operation, 4) == "succeeded"
        assert got(box) == meant(FILES)
        wait_until(lambda: not box.graph.drafts(ADA), lambda: str(box.graph.drafts(ADA)), 5)


def test_one_that_is_withdrawn_while_files_are_added_is_not_sent(small: Outlook) -> None:
    """The mailbox is removed while files are attached."""
    account = small.account
    small.graph.at("upload", [Stall()])
    sending = small.desk.begin(account, a_message(attachments=FILES))
    wait_until(lambda: small.graph.held("upload") == 1, lambda: "not reached", 10)
    try:
        assert small.desk.ask("DELETE", f"/accounts/{account}").status in (200, 204)
        small.graph.release("upload")
        assert told(sending.result(10)) in ("account_removed", "not_found", "provider_unavailable")
        assert not small.graph.messages
    finally:
        small.connect()


# --- step by step: its token, the length of Bcc, and what is reported ---


RANGES = 3  # in which the last of FILES is uploaded


@pytest.fixture(scope="module")
def passing() -> FakeClock:
    """Return the clock of the appliance."""
    return FakeClock()


@pytest.fixture(scope="module")
def desk_of_all(tmp_path_factory: pytest.TempPathFactory, passing: FakeClock) -> Iterator[Outlook]:
    with outlook(tmp_path_factory.mktemp("outlook"), passing) as made:
        yield made


@pytest.fixture
def timed(desk_of_all: Outlook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outlook]:
    """Yield a mailbox that sends by Graph, with limits so low that small files count as large."""
    scaled(monkeypatch, desk_of_all)
    desk_of_all.connect()
    yield desk_of_all
    desk_of_all.graph.before = lambda _: None
    desk_of_all.graph.forget()


def test_a_token_that_ends_with_the_last_file_costs_none_of_them(timed: Outlook, passing: FakeClock) -> None:
    ranges: list[Step] = []

    def end(step: Step) -> None:
        if step == "uploaded":
            ranges.append(step)
            if len(ranges) == RANGES:
                timed.provider.spoil_access()
                passing.advance(timedelta(hours=2).total_seconds())

    timed.graph.before = end
    answer = timed.send(a_message(attachments=FILES))
    assert len(ranges) == RANGES
    assert answer.data["status"] == "succeeded", answer
    assert (timed.graph.count("drafted"), timed.graph.count("send")) == (1, 1)
    assert got(timed) == meant(FILES)


def test_there_is_room_for_many_bcc_in_what_is_just_small_enough(timed: Outlook) -> None:
    """Bcc is part of the MIME, so a message that would fit without it uploads one file separately."""
    files = [file("nearly all", SCALED * 65 // 100)]
    hidden = [f"hidden-{number}@example.test" for number in range(100)]
    body = a_message(attachments=files, bcc=[{"email": each} for each in hidden])
    assert timed.send(a_message(attachments=files)).data["status"] == "succeeded"
    assert timed.graph.count("attached") == 0
    timed.graph.forget()
    answer = timed.send(body)
    assert answer.data["status"] == "succeeded", answer
    (sent,) = timed.graph.messages
    assert set(sent.recipients) == {"bob@example.test", *hidden}
    assert b"hidden-" not in sent.source
    assert got(timed) == meant(files)
    assert timed.graph.count("attached") == 1


def test_a_login_that_is_taken_again_is_no_trouble_any_more(timed: Outlook) -> None:
    timed.graph.at("draft", [Says(403, "ErrorAccessDenied")])
    assert timed.send().status == 503
    assert timed.status["status"] == "reauth_required"
    assert timed.send().data["status"] == "succeeded"
    assert timed.status["status"] != "reauth_required"


@pytest.mark.parametrize("step", ["session", "upload", "attach"])
def test_a_client_is_told_how_long_graph_wants_it_to_wait_with_a_file(timed: Outlook, step: Step) -> None:
    timed.graph.at(step, [Says(503, "ServiceUnavailable", {"Retry-After": "90"})])
    answer = timed.send(a_message(attachments=FILES))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "90")
    assert not timed.graph.messages
    wait_until(lambda: not timed.graph.drafts(ADA), lambda: str(timed.graph.drafts(ADA)), 5)
