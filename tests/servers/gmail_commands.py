"""What Gmail does with messages when a logged-in client says so. `gmail_folder_commands` has what concerns folders."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from tests.servers import gmail_fetch
from tests.servers.gmail_folder_commands import FolderCommands, Refused
from tests.servers.gmail_folders import FIXED, Letter
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.gmail_threads import message_id_of
from tests.servers.gmail_view import View
from tests.servers.gmail_words import Unreadable, Word, chosen, name_of, number_set, text_of, texts_of

if TYPE_CHECKING:
    from tests.servers.gmail import Gmail

_BATCH = 100  # messages in one piece of a long answer
_DATE = re.compile(r" ?(\d{1,2})-(\w{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BY_UID = ("FETCH", "STORE", "SEARCH", "COPY", "MOVE", "EXPUNGE")
Say = Callable[..., None]

__all__ = ["Commands", "Refused"]


class Commands(FolderCommands):
    """The commands of one connection. Each answers what stands behind its OK, and has said what comes first."""

    def __init__(self, box: GmailMailbox, server: "Gmail", say: Say) -> None:
        super().__init__(box, say)
        self._server = server

    def news(self) -> list[str]:
        """What others changed in the selected folder."""
        return [] if self.view is None else self.view.news(with_labels=self._server.tells_labels)

    def carry_out(self, tag: str, verb: str, arguments: list[Word], *, by_uid: bool) -> str:
        """Carry a command out; what stands behind its OK. Raises Refused, and Unreadable."""
        act = getattr(self, f"do_{verb.lower().replace('-', '_')}", None)
        if act is None or by_uid is not (verb in _BY_UID):  # messages are named by UID alone
            raise Unreadable
        self._tag = tag
        told: str = act(arguments)
        return told or "Success"

    # --- reading ---

    def do_fetch(self, arguments: list[Word]) -> str:
        """FETCH; with CHANGEDSINCE those that changed since that mod-sequence (RFC 7162 3.1.4.1)."""
        view = self._selected()
        numbers, asked = text_of(arguments[0]), arguments[1]
        modifier = [each.upper() for each in texts_of(arguments[2])] if len(arguments) > 2 else []
        since = int(modifier[1]) if modifier[:1] == ["CHANGEDSINCE"] else None
        if "VANISHED" in modifier:
            raise Unreadable  # no QRESYNC
        is_modseq = since is not None or "MODSEQ" in map(str.upper, texts_of(asked))
        view.told_modseqs = view.told_modseqs or is_modseq
        items = gmail_fetch.items(asked, with_modseq=is_modseq)
        uids = self._uids(numbers)
        for start in range(0, len(uids), _BATCH):
            self._say(*self._fetched(view, uids[start : start + _BATCH], items, since))
        return ""

    def _fetched(self, view: View, uids: list[int], items: list[gmail_fetch.Item], since: int | None) -> list[bytes]:
        answers = []
        with self.box.lock:
            for uid in uids:
                letter = view.folder.members.get(uid)
                if letter is None or (since is not None and letter.modseq <= since):
                    continue
                answers.append(gmail_fetch.answer(view.number(uid), letter, view.folder, items))
        return answers

    def do_search(self, arguments: list[Word]) -> str:
        """SEARCH, with RETURN as ESEARCH (RFC 4731) where asked for."""
        view = self._selected()
        returned: list[str] | None = None
        if isinstance(arguments[0], bytes) and arguments[0].upper() == b"RETURN":
            returned = [each.upper() for each in texts_of(arguments[1])] or ["ALL"]
            arguments = arguments[2:]
        test, members = _test([text_of(each) for each in arguments]), view.folder.members
        with self.box.lock:
            found = [uid for uid in view.uids if uid in members and test(members[uid])]
        if returned is None:
            self._say(" ".join(["* SEARCH", *map(str, found)]))
        else:
            self._say(f'* ESEARCH (TAG "{self._tag}") UID{_esearch(returned, found)}')
        return "SEARCH completed (Success)"

    # --- changing ---

    def do_store(self, arguments: list[Word]) -> str:
        """STORE of FLAGS and of X-GM-LABELS."""
        view = self._writable()
        numbers, item, *values = arguments
        what = re.fullmatch(r"([+-]?)(FLAGS|X-GM-LABELS)(\.SILENT)?", text_of(item).upper())
        if not what:
            raise Unreadable
        given = [each for value in values for each in (value if isinstance(value, list) else [value])]
        for uid in self._uids(text_of(numbers)):
            with self.box.lock:
                letter = view.folder.members.get(uid)
                if letter is not None:
                    self._store(view, letter, what[1], what[2], given)
                    self._tell_stored(view, letter, uid, what[2], is_silent=bool(what[3]))
        return ""

    def _store(self, view: View, letter: Letter, sign: str, what: str, given: list[Word]) -> None:
        if what == "X-GM-LABELS":
            names = list(map(name_of, given))
            own = [view.folder.label] if view.folder.label else []  # is not shown, so it is not replaced
            add, remove = (names if sign == "+" else []), (names if sign == "-" else [])
            self.box.relabel(letter, add, remove, to=None if sign else names + own)
            return
        flags = {_spelled(text_of(each)) for each in given}
        before = letter.flags()
        after = before | flags if sign == "+" else before - flags if sign == "-" else frozenset(flags)
        self.box.reflag(letter, after - before, before - after)
        if "\\Deleted" in after:  # has it in this folder alone, and goes at once
            self.box.expunge(letter, view.folder)

    def _tell_stored(self, view: View, letter: Letter, uid: int, what: str, *, is_silent: bool) -> None:
        if letter.uids.get(view.folder) != uid:
            return
        view.own[letter] = letter.modseq
        told = [f"UID {uid}"]
        if not is_silent:
            tell = gmail_fetch.labels_told if what == "X-GM-LABELS" else gmail_fetch.flags_told
            told.append(tell(letter, view.folder))
        if view.told_modseqs:
            told.append(f"MODSEQ ({letter.modseq})")  # RFC 7162 3.1.3: also where it is silent
        if len(told) > 1:
            self._say(f"* {view.number(uid)} FETCH ({' '.join(told)})")

    def do_copy(self, arguments: list[Word]) -> str:
        """COPY adds the label of the other folder; into trash or spam it moves."""
        return self._carry(arguments, is_move=False)

    def do_move(self, arguments: list[Word]) -> str:
        """MOVE (RFC 6851) takes the label of this folder away as well. Out of all mail nothing is moved."""
        self._say(f"* OK {self._carry(arguments, is_move=True)}")
        return ""

    def _carry(self, arguments: list[Word], *, is_move: bool) -> str:
        view = self._writable()
        target = self._folder(arguments[1], "[TRYCREATE] Folder doesn't exist. (Failure)")
        if target.label in FIXED and target is not view.folder:
            raise Refused(f"NO [CANNOT] {target.path} is filled by Gmail. (Failure)")
        old, new = [], []
        with self.box.lock:
            for uid in self._uids(text_of(arguments[0])):
                if (letter := view.folder.members.get(uid)) is not None:
                    old.append(uid)
                    new.append(self.box.add_to(letter, target, view.folder if is_move else None))
        if not old:
            return "No messages copied. (Success)"
        return f"[COPYUID {target.uidvalidity} {number_set(old)} {number_set(new)}] (Success)"

    def do_expunge(self, _: list[Word]) -> str:
        """UID EXPUNGE (RFC 4315 2.1): nothing is left to be done."""
        self._writable()
        return ""

    def do_append(self, arguments: list[Word]) -> str:
        """APPEND: a new message, or the one with these very bytes in another folder as well."""
        target = self._folder(arguments[0], "[TRYCREATE] Folder doesn't exist. (Failure)")
        flags = [_spelled(each) for each in texts_of(arguments[1])] if isinstance(arguments[1], list) else []
        date = _moment(text_of(arguments[-2])) if len(arguments) - bool(isinstance(arguments[1], list)) > 2 else None
        source = arguments[-1]
        if not isinstance(source, bytes):
            raise Unreadable
        with self.box.lock:
            number = self.box.append(source, target, flags, date)
            uid = self.box.letters[number].uids[target]
        return f"[APPENDUID {target.uidvalidity} {uid}] (Success)"

    # --- numbers ---

    def _uids(self, numbers: str) -> list[int]:
        """The messages that a set names, as far as the client has been told of them."""
        return chosen(numbers, self._selected().uids)


def _test(keys: list[str]) -> Callable[[Letter], bool]:
    """What SEARCH looks for, as far as it is asked: ALL, HEADER Message-ID and X-GM-MSGID.

    (developers.google.com/workspace/gmail/imap/imap-extensions)
    """
    match [keys[0].upper(), *keys[1:]]:
        case ["ALL"]:
            return lambda _: True
        case ["HEADER", "Message-ID", text]:
            return lambda letter: message_id_of(letter.source) == text.strip("<> ")
        case ["X-GM-MSGID", number]:
            return lambda letter: letter.number == int(number)
    raise Unreadable


def _esearch(returned: list[str], found: list[int]) -> str:
    told = {"COUNT": str(len(found))}
    if found:
        told |= {"ALL": number_set(found), "MIN": str(min(found)), "MAX": str(max(found))}
    return "".join(f" {name} {told[name]}" for name in returned if name in told)


def _spelled(flag: str) -> str:
    """A flag of the system in one spelling."""
    return "\\" + flag[1:].capitalize() if flag.startswith("\\") else flag


def _moment(text: str) -> datetime | None:
    found = _DATE.fullmatch(text)
    if not found:
        return None
    day, month, year, hour, minute, second, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    zone = timezone(offset) if offset else UTC
    number = _MONTHS.index(month.lower()) + 1
    return datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=zone)
