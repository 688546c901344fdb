"""A body as it is read. What is made of a large one is kept till the next: whoever reads it asks page after page."""

import hashlib
import threading
from collections.abc import Callable

from mailbox_appliance.mail.hidden import Hidden, of_html, visible_text
from mailbox_appliance.mail.two_forms import LONGEST_TEXT, says_other_things
from mailbox_appliance.records import BodyFormat, StoredBody

#: Characters from which on it is worth keeping: a hundredth of a second of work, or more.
_LARGE_HTML, _LARGE_TEXT = 50_000, 500_000

_lock = threading.Lock()
_kept: dict[tuple[bytes, str], tuple[str, Hidden]] = {}
_verdicts: dict[tuple[bytes, bytes], bool] = {}


def readable_html(html: str, form: BodyFormat) -> tuple[str, Hidden]:
    """What is seen of HTML, in a form, and what was left out."""
    return of_html(html, form) if len(html) < _LARGE_HTML else _once(html, form, lambda: of_html(html, form))


def readable_text(text: str) -> tuple[str, Hidden]:
    """What is seen of a text, and what was left out."""
    return visible_text(text) if len(text) < _LARGE_TEXT else _once(text, "", lambda: visible_text(text))


def _once(source: str, form: str, make: Callable[[], tuple[str, Hidden]]) -> tuple[str, Hidden]:
    key = _digest(source), form
    with _lock:
        found = _kept.get(key)
    if found is None:
        found = make()
        with _lock:
            _kept.clear()
            _kept[key] = found
    return found


def differs(body: StoredBody) -> bool:
    """Whether the plain text that is shown says other things than the HTML."""
    text, html = body.text, body.html
    if html is None or not text or not text.strip():
        return False
    if len(text) + len(html) < _LARGE_HTML:
        return _says_other_things(text, html)
    key = _digest(text), _digest(html)
    with _lock:
        found = _verdicts.get(key)
    if found is None:
        found = _says_other_things(text, html)
        with _lock:
            _verdicts.clear()
            _verdicts[key] = found
    return found


def _says_other_things(text: str, html: str) -> bool:
    return says_other_things(visible_text(text[:LONGEST_TEXT])[0], of_html(html, "text")[0])


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
