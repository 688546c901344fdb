"""SEARCH as Gmail has it: X-GM-RAW, X-GM-MSGID, X-GM-THRID, X-GM-LABELS, and the usual keys; texts by whole words.

(developers.google.com/workspace/gmail/imap/imap-extensions; support.google.com/mail/answer/7190)
"""

import re
import shlex
from collections.abc import Callable
from datetime import datetime

from tests.servers.gmail_folders import Letter
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.gmail_threads import header_of, message_id_of
from tests.servers.gmail_view import View
from tests.servers.gmail_words import Unreadable, Word, chosen, name_of, text_of

Test = Callable[[Letter], bool]
_HAS_FLAG = {
    "SEEN": "\\Seen",
    "FLAGGED": "\\Flagged",
    "ANSWERED": "\\Answered",
    "DRAFT": "\\Draft",
    "DELETED": "\\Deleted",
}
_FIELDS = ("FROM", "TO", "CC", "BCC", "SUBJECT")
_PLACES = {"inbox": "\\Inbox", "sent": "\\Sent", "drafts": "\\Draft", "draft": "\\Draft", "starred": "\\Starred"}
_SET = re.compile(r"[\d:,*]+")


def matching(box: GmailMailbox, view: View, arguments: list[Word]) -> list[int]:
    """The UIDs of messages of the selected folder that match, ascending."""
    test = _Keys(view, list(arguments)).all()
    members = view.folder.members
    return [uid for uid in view.uids if uid in members and test(members[uid])]


class _Keys:
    """Reads search keys from left to right."""

    def __init__(self, view: View, rest: list[Word]) -> None:
        self._view, self._folder, self._rest = view, view.folder, rest

    def all(self) -> Test:
        """All keys up to the end."""
        tests = []
        while self._rest:
            tests.append(self._one())
        return lambda letter: all(test(letter) for test in tests)

    def _one(self) -> Test:
        word = self._rest.pop(0)
        if isinstance(word, list):
            return _Keys(self._view, list(word)).all()
        key = text_of(word).upper()
        if _SET.fullmatch(key):
            return self._among({self._view.uids[each - 1] for each in chosen(key, range(1, len(self._view.uids) + 1))})
        if key.removeprefix("UN") in _HAS_FLAG:
            return self._flagged(_HAS_FLAG[key.removeprefix("UN")], wanted=not key.startswith("UN"))
        act = getattr(self, f"_{key.lower().replace('-', '_')}", None)
        if act is not None:
            made: Test = act()
            return made
        if key in _FIELDS:
            return self._in_field(key, self._next())
        raise Unreadable

    def _next(self) -> str:
        return text_of(self._rest.pop(0))

    def _all(self) -> Test:
        return lambda _: True

    def _charset(self) -> Test:
        self._next()
        return self._all()

    def _not(self) -> Test:
        test = self._one()
        return lambda letter: not test(letter)

    def _or(self) -> Test:
        one, other = self._one(), self._one()
        return lambda letter: one(letter) or other(letter)

    def _uid(self) -> Test:
        return self._among(set(chosen(self._next(), self._view.uids)))

    def _among(self, uids: set[int]) -> Test:
        return lambda letter: letter.uids.get(self._folder) in uids

    def _flagged(self, flag: str, *, wanted: bool) -> Test:
        return lambda letter: (flag in letter.flags(self._folder)) is wanted

    def _keyword(self) -> Test:
        return self._flagged(self._next(), wanted=True)

    def _unkeyword(self) -> Test:
        return self._flagged(self._next(), wanted=False)

    def _modseq(self) -> Test:
        since = int(self._next())
        return lambda letter: letter.modseq >= since

    def _since(self) -> Test:
        day = _day(self._next())
        return lambda letter: letter.date.replace(tzinfo=None) >= day

    def _before(self) -> Test:
        day = _day(self._next())
        return lambda letter: letter.date.replace(tzinfo=None) < day

    def _larger(self) -> Test:
        size = int(self._next())
        return lambda letter: len(letter.source) > size

    def _smaller(self) -> Test:
        size = int(self._next())
        return lambda letter: len(letter.source) < size

    def _header(self) -> Test:
        name, text = self._next(), self._next()
        if name.lower() == "message-id":
            return lambda letter: message_id_of(letter.source) == text.strip("<> ")
        return self._in_field(name, text)

    def _in_field(self, name: str, text: str) -> Test:
        return lambda letter: has_words(str(header_of(letter.source).get(name, "")), text)

    def _text(self) -> Test:
        text = self._next()
        return lambda letter: has_words(letter.source.decode("utf-8", "replace"), text)

    _body = _text

    def _x_gm_msgid(self) -> Test:
        number = int(self._next())
        return lambda letter: letter.number == number

    def _x_gm_thrid(self) -> Test:
        number = int(self._next())
        return lambda letter: letter.thread == number

    def _x_gm_labels(self) -> Test:
        word = self._rest.pop(0)
        names = {name_of(each).lower() for each in (word if isinstance(word, list) else [word])}
        return lambda letter: names <= {label.lower() for label in letter.labels}

    def _x_gm_raw(self) -> Test:
        return raw(self._next())


def raw(query: str) -> Test:
    """A search as in Gmail's own search box; those operators that tests need."""
    tests = [_raw_one(each) for each in shlex.split(query)]
    return lambda letter: all(test(letter) for test in tests)


def _raw_one(term: str) -> Test:
    if term.startswith("-"):
        test = _raw_one(term[1:])
        return lambda letter: not test(letter)
    name, colon, value = term.partition(":")
    match name.lower() if colon else "":
        case "subject" | "from" | "to" | "cc":
            return lambda letter: has_words(str(header_of(letter.source).get(name, "")), value)
        case "rfc822msgid":
            return lambda letter: message_id_of(letter.source) == value.strip("<>")
        case "has":
            return lambda letter: b"content-disposition: attachment" in letter.source.lower()
        case "label":
            return lambda letter: value.lower() in {_dashed(label) for label in letter.labels}
        case "is":
            return lambda letter: _state(letter, value)
        case "in":
            return lambda letter: _lies_in(letter, value.lower())
    return lambda letter: has_words(letter.source.decode("utf-8", "replace"), term)


def _state(letter: Letter, value: str) -> bool:
    flags = letter.flags()
    states = {"unread": "\\Seen" not in flags, "read": "\\Seen" in flags, "starred": "\\Flagged" in flags}
    return states.get(value, False)


def _lies_in(letter: Letter, value: str) -> bool:
    if value in ("trash", "spam"):
        return letter.place == value
    if value == "anywhere":
        return True
    return letter.place == "all" and (value == "all" or _PLACES.get(value, value) in letter.labels)


def _dashed(label: str) -> str:
    """A label as a search names it: `work/2024` and `muy importante` are `work-2024` and `muy-importante`."""
    return re.sub(r"[ /]", "-", label.lower().removeprefix("\\"))


def has_words(text: str, wanted: str) -> bool:
    """Whether these words, one after the other, are in a text; never a part of a word."""
    return bool(re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text, re.I))


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%d-%b-%Y")  # noqa: DTZ007 - a day, without a zone (RFC 9051 6.4.4)
