"""Analyze the HTML of mail for API requests, in two child processes that sync does not use.

Analyzing hostile HTML may take seconds, or never end. So the child limits the time for each body
(`parse_child.BoundedReader`), and this module limits the time for each request. After that time it kills the child and
uses the text between the HTML tags instead. That result is cached for some minutes, so reading the same body again
returns at once.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec

from mailbox_appliance.mail.encoded_words import without_surrogates
from mailbox_appliance.mail.html.analysis import PREVIEW_TAG_READER, TAG_READER, ReadForm, TagReader, VisibleContent
from mailbox_appliance.model.decoding import decode_msgpack
from mailbox_appliance.sync.parse_child import Body, Comparison, Request
from mailbox_appliance.sync.parsers import IDLE, Batch, ParserChild

#: Seconds within which a request is answered in any case, and the part of them for which it waits for a child.
WITHIN, MOST_WAIT = 4.0, 2.0
#: Seconds in analysis after which a body no longer counts as progress.
LONG = 0.1
#: How many bodies are analyzed at once.
_CHILDREN = 2
# Bounds of the cache: results, characters in them, and seconds for which a body counts as too expensive.
_MOST_KEPT, _MOST_CHARACTERS, _KEPT_FOR = 64, 8_000_000, 300.0
_ANY = "any"  # the key for a body that is too expensive in every form
_VERDICTS = {msgspec.msgpack.encode(True): "differs", msgspec.msgpack.encode(False): "agrees"}


T = TypeVar("T")


class HtmlReaders:
    """Analyzes message bodies for API requests, in child processes that start on first use. Thread-safe."""

    def __init__(self, most_waiting: int, *, idle: float = IDLE, within: float = WITHIN) -> None:
        """Prepare the child processes. They start on first use.

        - most_waiting: how many requests may be in analysis or wait for it at once. A request beyond this number
          waits only while the children finish bodies quickly.
        - idle: seconds without work after which a child ends.
        - within: seconds for the bodies of one request.
        """
        self._within = within
        self._queue = _ChildQueue([ParserChild(idle=idle) for _ in range(_CHILDREN)], most_waiting)
        self._cache, self._verdicts = _Cache[VisibleContent](), _Cache[str]()
        self._tags = threading.Lock()
        self._shared = threading.local()

    def for_request(self, within: float = WITHIN) -> "RequestReader":
        """Return a reader for all bodies of one request that sends or stores their text.

        `within`: seconds for all bodies together, counted from the first one.
        """
        return RequestReader(self, within, TAG_READER)

    @contextmanager
    def sharing(self, within: float = WITHIN) -> Iterator[None]:
        """Context manager: all bodies that this thread reads until the block ends share one time limit.

        `within`: that limit in seconds, counted from the first body.
        """
        self._shared.reader = RequestReader(self, within, PREVIEW_TAG_READER)
        try:
            yield
        finally:
            self._shared.reader = None

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of HTML, for display. `form`: the output format, or `beginning` for a one-line
        preview.

        If the analysis takes too long, return only the text between the HTML tags, and only that of the first part.
        """
        return self._for_display().extract(html, form)

    def differs(self, text: str, html: str) -> bool | None:
        """Return whether a message's plain text contains something that its HTML does not show.

        Returns None if the analysis takes too long.
        """
        return self._for_display().differs(text, html)

    def _for_display(self) -> "RequestReader":
        shared: RequestReader | None = getattr(self._shared, "reader", None)
        return shared or RequestReader(self, self._within, PREVIEW_TAG_READER)

    def read(self, html: str, form: ReadForm, until: float, tags: TagReader) -> VisibleContent:
        """Return the visible content of HTML. `form`: the output format, or `beginning` for a one-line preview.

        `until`: the time limit of the analysis (`time.monotonic`). `tags`: extracts the text if there is no analysis by
        then.
        """
        key = _digest(html)
        seen, is_final = self._cache.find(key, form) or self._cache.find(key, _ANY), False
        if seen is None:
            answer, is_final = self._ask(Body(without_surrogates(html), form), until)
            seen = _decode(answer)
        if seen is None or (tags is TAG_READER and not (seen.is_analyzed or seen.is_whole)):
            seen = self._read_tags(key, html, form, tags)
        if is_final and (seen.is_analyzed or form != "beginning"):
            self._cache.keep(key, form if seen.is_analyzed else _ANY, seen, len(seen.text))
        return seen

    def compare(self, text: str, html: str, until: float) -> bool | None:
        """Return whether a message's plain text contains something that its HTML does not show.

        Returns None if the analysis is not done by `until` (`time.monotonic`).
        """
        key = _digest(text) + _digest(html)
        found = self._verdicts.find(key, "")
        if found is None:
            answer, is_final = self._ask(Comparison(without_surrogates(text), without_surrogates(html)), until)
            found = _VERDICTS.get(answer, "unknown")
            if is_final:
                self._verdicts.keep(key, "", found)
        return None if found == "unknown" else found == "differs"

    def _read_tags(self, key: bytes, html: str, form: ReadForm, tags: TagReader) -> VisibleContent:
        if tags is TAG_READER:
            return tags.extract(html, form)
        with self._tags:  # One at a time: this is pure Python, and other requests need the processor.
            return self._cache.find(key, _ANY) or tags.extract(html, form)

    def close(self) -> None:
        """End the child processes. Later requests get the text between the HTML tags."""
        self._queue.close()

    def _ask(self, request: Request, until: float) -> tuple[bytes, bool]:
        """Return the child's answer (empty if there is none), and whether to cache the outcome.

        Answers are cached. A missing answer is cached only if this body had enough time and the child ended because of
        it.
        """
        with self._queue.wait(min(until, time.monotonic() + min(MOST_WAIT, self._within / 2))) as child:
            left = until - time.monotonic()
            if child is None or left < LONG:
                return b"", False
            batch = Batch([request])
            guard = threading.Timer(left, child.kill)
            guard.name, guard.daemon = "html-reader-guard", True
            guard.start()
            try:
                child.ask(batch)
                batch.ended.wait()
            finally:
                guard.cancel()
            # A body that had only the rest of a request's time may succeed in the next request.
            had_time = left >= self._within / 2 - LONG
            return b"".join(batch.answers), bool(batch.answers) or (batch.is_cause and had_time)


class RequestReader:
    """Reads the bodies of one request within one time limit. Only one thread may use it.

    After the time limit, or after the first body that could not be analyzed, later bodies are not analyzed. For these
    it uses cached analyses, or the text between the HTML tags.
    """

    def __init__(self, readers: HtmlReaders, within: float, tags: TagReader) -> None:
        self._readers, self._within, self._tags = readers, within, tags
        self._until: float | None = None
        #: Whether a body could not be analyzed or compared.
        self.has_failed = False

    def extract(self, html: str, form: ReadForm) -> VisibleContent:
        """Return the visible content of HTML. `form`: the output format, or `beginning` for a one-line preview.

        If the analysis takes too long, return the text between the HTML tags.
        """
        seen = self._readers.read(html, form, self._deadline(), self._tags)
        self.has_failed |= not seen.is_analyzed
        return seen

    def differs(self, text: str, html: str) -> bool | None:
        """Return whether a message's plain text contains something that its HTML does not show.

        Returns None if the analysis takes too long.
        """
        differs = self._readers.compare(text, html, self._deadline())
        self.has_failed |= differs is None
        return differs

    def _deadline(self) -> float:
        if self._until is None:
            self._until = time.monotonic() + self._within
        return 0.0 if self.has_failed else self._until


class _ChildQueue:
    """Lends child processes to requests, so that hostile mail cannot occupy all threads that answer requests.

    Each child analyzes one body at a time. Up to `most_waiting` requests (half the threads) may be in analysis or wait
    for it, each for some seconds. Further requests wait only while children finish within `LONG` seconds, so a burst of
    ordinary mail is still analyzed. A request that may not wait is answered without an analysis.
    """

    def __init__(self, children: list[ParserChild], most_waiting: int) -> None:
        self._children = children
        self._free = children[: max(1, min(len(children), most_waiting))]
        self._most = max(1, most_waiting)
        self._here = 0
        self._since: dict[int, float] = {}
        self._changed = threading.Condition()

    @contextmanager
    def wait(self, until: float) -> Iterator[ParserChild | None]:
        """Wait for a free child process and yield it, for exclusive use until the block ends. Yields None if none was
        free in time.

        `until`: the latest time (`time.monotonic`). The wait ends earlier if too many requests wait already.
        """
        with self._changed:
            may_wait = self._here < self._most
            self._here += may_wait
            child = self._take_child(until, may_wait=may_wait)
        try:
            yield child
        finally:
            with self._changed:
                self._here -= may_wait
                if child is not None:
                    self._free.append(child)
                    del self._since[id(child)]
                    self._changed.notify()

    def _take_child(self, until: float, *, may_wait: bool) -> ParserChild | None:
        while not self._free:
            left = until - time.monotonic()
            if not may_wait:
                left = min(left, min(self._since.values()) + LONG - time.monotonic())
            if left <= 0:
                return None
            self._changed.wait(left)
        child = self._free.pop()
        self._since[id(child)] = time.monotonic()
        return child

    def close(self) -> None:
        for child in self._children:
            child.close()


class _Cache(Generic[T]):
    """A cache of the latest results, each kept for `_KEPT_FOR` seconds.

    It is limited to `_MOST_KEPT` results, and to `_MOST_CHARACTERS` characters in all of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[bytes, str], tuple[float, T, int]] = OrderedDict()
        self._characters = 0

    def find(self, key: bytes, form: str) -> T | None:
        with self._lock:
            until, found, _ = self._found.get((key, form), (0.0, None, 0))
            return found if time.monotonic() < until else None

    def keep(self, key: bytes, form: str, found: T, characters: int = 0) -> None:
        with self._lock:
            self._characters -= self._found.pop((key, form), (0.0, None, 0))[2]
            self._found[key, form] = time.monotonic() + _KEPT_FOR, found, characters
            self._characters += characters
            while len(self._found) > _MOST_KEPT or (self._characters > _MOST_CHARACTERS and len(self._found) > 1):
                self._characters -= self._found.popitem(last=False)[1][2]


def _decode(answer: bytes) -> VisibleContent | None:
    try:
        return decode_msgpack(answer, VisibleContent) if answer else None
    except msgspec.MsgspecError:
        return None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
