"""What of a message's body is searched: its text, or that of its HTML, in the words that the full-text index has."""

import re

from msgspec import structs

from mailbox_appliance.mail import invisible
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.mail.words import for_index
from mailbox_appliance.model.records import ParsedMessage

_LONGEST = 1_000_000  # characters
# Nobody looks for a piece of base64, a key or a tracking link; each would be a word of its own.
_JUNK = re.compile(r"[0-9A-Za-z+/=_-]{65,}")
_HAS_LONG_WORD = re.compile(r"(?:\S{0,64}+\s++)*+\S{65}")  # says it three times as fast as `search` would


def words_of(parsed: ParsedMessage, reader: HtmlReader = TAGS) -> str:
    """Return the body as the index takes it."""
    if parsed.searched is not None:
        return parsed.searched
    text = parsed.text
    if text is None and parsed.html:
        text = reader.extract(parsed.html, "text").text
    text = invisible.without((text or "")[:_LONGEST])[0]
    return for_index(_JUNK.sub(" ", text) if _HAS_LONG_WORD.match(text) else text)


def with_words(parsed: ParsedMessage, reader: HtmlReader = TAGS) -> ParsedMessage:
    """Return the message with `searched` made: that takes long, above all of HTML, so it is done beforehand."""
    return parsed if parsed.searched is not None else structs.replace(parsed, searched=words_of(parsed, reader))
