"""What the child process does with messages that are expensive to analyze, called in this process."""

import gc
import sys
import time
from collections.abc import Iterator

import pytest

from mailbox_appliance.mail.html.analysis import UNANALYZED_PART, extract_visible
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mail.search import with_searched_words
from mailbox_appliance.sync.parse_child import BoundedReader, _MessageReader

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no deadline within the child there")

SHEET = f"<style>{'.qa .b>.c~.d+.e{color:red}' * 20_000}</style>"
ROWS = "<p class='qa b c d e'>x</p>" * 3_000
HIDDEN = f"{SHEET}<p style='display:none'>HIDDENINSTR</p>{ROWS}"


@pytest.fixture(autouse=True)
def _no_callbacks() -> Iterator[None]:
    """Let no library of the tests run code at each garbage collection: a deadline that passes there would be lost."""
    callbacks, gc.callbacks[:] = list(gc.callbacks), []
    yield
    gc.callbacks[:] = callbacks


def taking(seconds: float) -> str:
    """HTML whose analysis takes about as much processor time on this machine."""
    count, took = 500, 0.0
    while took < seconds * 0.7:
        count = count * 2 if took < seconds / 4 else int(count * seconds / took) + 1
        began = time.process_time()
        extract_visible("<style>td{color:#111}</style><table>" + "<tr><td>x<td>y" * count, "text")
        took = time.process_time() - began
    return "<style>td{color:#111}</style><table>" + "<tr><td>x<td>y" * count


def test_one_deadline_holds_for_all_bodies_of_a_message() -> None:
    reader, html = BoundedReader(0.6), taking(0.3)
    began = time.process_time()
    seen = [reader.extract(html, "text").is_analyzed for _ in range(12)]
    assert time.process_time() - began < 0.5 * 12 * 0.3
    assert reader.has_failed
    assert not any(seen[4:])


@pytest.mark.slow
def test_messages_just_below_the_deadline_do_not_add_up() -> None:
    messages, html = _MessageReader(), taking(0.8)
    began = time.process_time()
    for _ in range(10):
        messages.extract(html, "text")
    assert time.process_time() - began < 0.8 * 10 * 0.8
    for _ in range(10):
        messages.extract("<p>cheap</p>", "text")
    assert messages.extract(taking(0.3), "text").is_analyzed


def test_hidden_text_that_could_not_be_analyzed_is_in_no_text_and_no_preview() -> None:
    source = (
        "Content-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nHi\r\n--B\r\nContent-Type: text/html\r\n\r\n"
        f"{HIDDEN}\r\n--B--\r\n"
    )
    gc.collect()  # an interruption amid a finalizer would be lost
    reader = BoundedReader(0.1)
    parsed = with_searched_words(parse_message(source.encode(), reader), reader)
    assert (parsed.text, parsed.snippet, parsed.warnings) == ("Hi", "Hi", (UNANALYZED_PART,))
    assert parsed.searched is not None
    assert "HIDDENINSTR" not in parsed.searched
