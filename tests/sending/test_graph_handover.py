"""Submission by Microsoft Graph, step by step: its token, the length of Bcc, and what is reported."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.sending.outlook import ADA, Outlook, outlook
from tests.sending.test_graph_files import FILES, SCALED, file, got, meant, scaled
from tests.servers.desk import a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.graph_script import Says, Step
from tests.servers.mailboxes import wait_until

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
def box(desk_of_all: Outlook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outlook]:
    """Yield a mailbox that sends by Graph, with limits so low that small files count as large."""
    scaled(monkeypatch, desk_of_all)
    desk_of_all.connect()
    yield desk_of_all
    desk_of_all.graph.before = lambda _: None
    desk_of_all.graph.forget()


def test_a_token_that_ends_with_the_last_file_costs_none_of_them(box: Outlook, passing: FakeClock) -> None:
    ranges: list[Step] = []

    def end(step: Step) -> None:
        if step == "uploaded":
            ranges.append(step)
            if len(ranges) == RANGES:
                box.provider.spoil_access()
                passing.advance(timedelta(hours=2).total_seconds())

    box.graph.before = end
    answer = box.send(a_message(attachments=FILES))
    assert len(ranges) == RANGES
    assert answer.data["status"] == "succeeded", answer
    assert (box.graph.count("drafted"), box.graph.count("send")) == (1, 1)
    assert got(box) == meant(FILES)


def test_there_is_room_for_many_bcc_in_what_is_just_small_enough(box: Outlook) -> None:
    """Bcc is part of the MIME, so a message that would fit without it uploads one file separately."""
    files = [file("nearly all", SCALED * 65 // 100)]
    hidden = [f"hidden-{number}@example.test" for number in range(100)]
    body = a_message(attachments=files, bcc=[{"email": each} for each in hidden])
    assert box.send(a_message(attachments=files)).data["status"] == "succeeded"
    assert box.graph.count("attached") == 0
    box.graph.forget()
    answer = box.send(body)
    assert answer.data["status"] == "succeeded", answer
    (sent,) = box.graph.messages
    assert set(sent.recipients) == {"bob@example.test", *hidden}
    assert b"hidden-" not in sent.source
    assert got(box) == meant(files)
    assert box.graph.count("attached") == 1


def test_a_login_that_is_taken_again_is_no_trouble_any_more(box: Outlook) -> None:
    box.graph.at("draft", [Says(403, "ErrorAccessDenied")])
    assert box.send().status == 503
    assert box.status["status"] == "reauth_required"
    assert box.send().data["status"] == "succeeded"
    assert box.status["status"] != "reauth_required"


@pytest.mark.parametrize("step", ["session", "upload", "attach"])
def test_a_client_is_told_how_long_graph_wants_it_to_wait_with_a_file(box: Outlook, step: Step) -> None:
    box.graph.at(step, [Says(503, "ServiceUnavailable", {"Retry-After": "90"})])
    answer = box.send(a_message(attachments=FILES))
    assert (answer.status, answer.headers["Retry-After"]) == (503, "90")
    assert not box.graph.messages
    wait_until(lambda: not box.graph.drafts(ADA), lambda: str(box.graph.drafts(ADA)), 5)
