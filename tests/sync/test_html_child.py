"""HTML is read in a child process: its time and memory are bounded, and its end never ends the service."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.mail.html.analysis import UNANALYZED, Form, VisibleContent
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.model.messages import StoredBody
from mailbox_appliance.operations.contents import body_in_form
from mailbox_appliance.sync import parse_child, parsers
from mailbox_appliance.sync.html_readers import HtmlReaders
from mailbox_appliance.sync.parse_child import Body
from tests.mail.hostile_pages import HOSTILE_PAGES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the counters of Linux")

MOST_SECONDS, MOST_MEMORY = 3.0, 350 << 20  # processor time for a form of a body; bytes of a child


class Child:
    """A child process, and what it used so far."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            parsers.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=parsers.environment()
        )
        assert self.process.stdin
        assert self.process.stdout
        self.requests, self.answers = self.process.stdin, self.process.stdout
        assert parse_child.read_block(self.answers) == b""

    def read(self, html: str, form: Form) -> VisibleContent:
        self.requests.write(parse_child.NUMBER.pack(1))
        parse_child.write_block(self.requests, parse_child.encode(Body(html, form)))
        self.requests.flush()
        return decode_msgpack(parse_child.read_block(self.answers), VisibleContent)

    def seconds(self) -> float:
        """Return the processor time that it used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def most_memory(self) -> int:
        """Return the most bytes of memory that it held at once."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.process.kill()
    made.process.wait()
    made.requests.close()
    made.answers.close()


def test_there_are_32_hostile_pages_of_up_to_2_mib() -> None:
    assert len(HOSTILE_PAGES) == 32
    assert all(1_000_000 < len(page) <= 2 << 20 for page in HOSTILE_PAGES.values())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_each_form_of_a_hostile_page_is_made_within_its_bounds(child: Child, form: Form) -> None:
    unanalyzed = set()
    for name, page in HOSTILE_PAGES.items():
        before = child.seconds()
        if not child.read(page, form).is_analyzed:
            unanalyzed.add(name)
        assert child.seconds() - before < MOST_SECONDS, name
        assert child.most_memory() < MOST_MEMORY, name
    assert len(unanalyzed) <= 8, unanalyzed  # a busy machine takes more processor time for the same


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSEGV])
def test_a_body_whose_child_ends_is_the_text_of_its_tags(end: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, signal, mailbox_appliance.sync.parse_child as child;"
        f"child._analyze = lambda html, form: os.kill(os.getpid(), {int(end)});"
        "child.main()"
    )
    monkeypatch.setattr(parsers, "command", lambda: [sys.executable, "-c", code])
    body = StoredBody(text=None, html="<p>seen</p><p hidden>not seen</p>", is_there=True)
    readers = HtmlReaders(4)
    try:
        assert body_in_form(body, "markdown", readers, visible_only=True) == ("seen\n\nnot seen", (UNANALYZED,))
    finally:
        readers.close()


@pytest.mark.parametrize(
    ("sheet", "content"),
    [
        (".q b{display:none}", f"<div class='{'a ' * 500_000}'>" + "<b></b>" * 100_000),
        ("[title*=aaab] b{display:none}", f"<div title='{'a' * 1_000_000}'>" + "<b></b>" * 100_000),
    ],
)
def test_a_selector_whose_match_cannot_be_interrupted_ends_the_child_in_time(
    sheet: str, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    page = f"<style>{sheet}</style>{content}<b class=q></b>"
    sources = [f"Content-Type: text/html\r\n\r\n{each}".encode() for each in (page, "<p>other</p>")]
    parser = parsers.Parsers(patience=300.0)
    try:
        hostile, other = parser.begin(sources).result()
    finally:
        parser.close()
    assert [record.__dict__["code"] for record in caplog.records] == [-signal.SIGVTALRM]
    assert (hostile.snippet, other.snippet) == ("", "other")


@pytest.mark.slow
def test_the_service_does_not_grow() -> None:
    readers = HtmlReaders(4)
    try:
        held = []
        for number in range(4):
            for name in ("formatting in paragraphs", "nested lists", "signs of entities"):
                readers.extract(f"{number}{HOSTILE_PAGES[name]}", "html")
            held.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        assert held[-1] - held[0] < 48 << 20, held  # at most 8,000,000 characters of results are kept
    finally:
        readers.close()
