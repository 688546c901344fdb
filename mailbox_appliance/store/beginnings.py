"""Beginnings of words, as the index can find them quickly.

The index holds the beginnings of four characters (`prefix='4'` in formats/format_5.py). A shorter one is all those of
four that begin with it, and a longer one is the words themselves:

    `in`  ->  `in` or `inbo*` or `info*` or ...        `invo`  ->  `invo*`        `invoic`  ->  `invoice` or `invoices`

FTS5 by itself would read everything that stands under any of these words before it answers: at a million messages up
to half a second, where this takes some milliseconds.
"""

from collections.abc import Sequence
from contextlib import suppress

import apsw

from mailbox_appliance.mail.words import Beginning
from mailbox_appliance.store.database import Database

INDEXED = 4
#: As many alternatives as are quicker than reading everything.
_MOST_WORDS, _MOST_BEGINNINGS = 300, 2000
_NEXT = "SELECT term FROM message_words WHERE term >= ? LIMIT 1"


class Beginnings:
    """Looks up in the index which words begin so."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def expand(self, typed: str) -> Sequence[Beginning] | None:
        """What stands for the beginning of a word; None where FTS5 does best by itself."""
        start = self._fold(typed)
        if start is None or len(start) == INDEXED:
            return None
        most = _MOST_WORDS if len(start) > INDEXED else _MOST_BEGINNINGS
        found: list[Beginning] = []
        at: str | None = start
        while at is not None and (word := self._database.value(_NEXT, (at,))) is not None and word.startswith(start):
            if len(found) == most:
                return None
            is_word = len(start) > INDEXED or len(word) < INDEXED
            found.append(Beginning(word, is_whole=True) if is_word else Beginning(word[:INDEXED], is_whole=False))
            at = f"{word}\0" if is_word else _after(word[:INDEXED])
        return found or None

    def _fold(self, typed: str) -> str | None:
        """As the index writes it: without case and diacritics. None where the index sees not one word."""
        with suppress(apsw.Error, UnicodeEncodeError):
            words = self._database.tokenize(typed)
            return words[0] if len(words) == 1 else None
        return None


def _after(start: str) -> str | None:
    """The first text, by code points, that comes after everything that begins so."""
    for at in range(len(start) - 1, -1, -1):
        following = ord(start[at]) + 1
        if following <= 0x10FFFF:
            # The surrogates are no characters of a text.
            return start[:at] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
    return None
