"""A body as it is read, with warnings of what was left out, or could not be told."""

import hashlib
import threading
from html import escape

from mailbox_appliance.mail.html.analysis import UNANALYZED, UNANALYZED_PLAIN, UNCOMPARED, HiddenText, visible_text
from mailbox_appliance.mail.html.hidden_text import DIFFERENCE_WARNING
from mailbox_appliance.mail.parse import TEXT_TOO_LONG
from mailbox_appliance.model.records import BodyFormat, StoredBody
from mailbox_appliance.sync.html_readers import HtmlReaders

_LARGE_TEXT = 500_000  # characters from which on a text is kept till the next one: it is asked for page after page

_lock = threading.Lock()
_kept: dict[bytes, tuple[str, HiddenText]] = {}


def in_form(
    stored: StoredBody, form: BodyFormat, readers: HtmlReaders, *, visible_only: bool
) -> tuple[str, tuple[str, ...]]:
    """Return a body in the form that is wanted, made from another one if the message lacks it, and warnings.

    HTML that cannot be analyzed in time is replaced by the plain part, or by the text of its tags.
    """
    text, html = stored.text or "", stored.html
    if form == "html" and not visible_only:
        return html if html is not None else _as_html(text), ()
    has_text = bool(text.strip())
    left_out, warnings = HiddenText(), tuple[str, ...]()
    if html is not None and (form != "text" or not has_text):
        seen = readers.extract(html, form)
        if seen.is_analyzed:
            return seen.text, seen.hidden.warnings()
        warnings = (UNANALYZED_PLAIN if has_text else UNANALYZED,)
        if not (has_text or seen.is_whole):
            warnings += (TEXT_TOO_LONG,)
        text, left_out = (text, left_out) if has_text else (seen.text, seen.hidden)
    shown, hidden = readable_text(text)
    if form == "text" and html is not None and has_text:
        warnings = _compared(readers.differs(text, html))
    return _as_html(shown) if form == "html" else shown, (left_out + hidden).warnings() + warnings


def readable_text(text: str) -> tuple[str, HiddenText]:
    """Return what is seen of a text, and what was left out."""
    if len(text) < _LARGE_TEXT:
        return visible_text(text)
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    with _lock:
        found = _kept.get(key)
    if found is None:
        found = visible_text(text)
        with _lock:
            _kept.clear()
            _kept[key] = found
    return found


def _compared(differs: bool | None) -> tuple[str, ...]:
    return (UNCOMPARED,) if differs is None else (DIFFERENCE_WARNING,) if differs else ()


def _as_html(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>" if text else ""
