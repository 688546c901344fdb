"""What Gmail does with messages and folders when a logged-in client says so."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NoReturn

from imapclient import imap_utf7

from tests.servers.gmail_mailbox import FIXED, Folder, GmailMailbox, Letter, message_id_of

if TYPE_CHECKING:
    from tests.servers.gmail import Gmail


# --- commands as words, and words as IMAP writes them (RFC 9051 4, RFC 3501 5.1.3) ---


#: An atom, a string or a literal; or a list of words.
Word = bytes | list["Word"]

#: An atom may hold a list in brackets: BODY.PEEK[HEADER.FIELDS (DATE FROM)]<0.1000>.
_WORD = re.compile(rb' *(?:([()])|"((?:[^"\\]|\\.)*)"|([^\s()"\[\]]*\[[^\]]*\][^\s()"]*|[^\s()"]+))', re.S)
_ESCAPED = re.compile(rb"\\(.)", re.S)
_ATOM = re.compile(r"[A-Za-z0-9._/&+,-]+")
_LITERAL = re.compile(rb"~?\{\d+\+?\}$")


class Unreadable(Exception):
    """Not a command."""


def words(pieces: Sequence[bytes]) -> list[Word]:
    """The words of a command: text, literal, text, ..."""
    whole: list[Word] = []
    nested = [whole]
    for index, piece in enumerate(pieces):
        if index % 2:
            nested[-1].append(piece)
            continue
        text = _LITERAL.sub(b"", piece) if index + 1 < len(pieces) else piece
        position = 0
        while text[position:].strip(b" "):
            found = _WORD.match(text, position)
            if not found:
                raise Unreadable
            position = found.end()
            _take(nested, found)
    if len(nested) != 1:
        raise Unreadable
    return whole


def _take(nested: list[list[Word]], found: re.Match[bytes]) -> None:
    if found[1] == b"(":
        inner: list[Word] = []
        nested[-1].append(inner)
        nested.append(inner)
    elif found[1]:
        nested.pop()
        if not nested:
            raise Unreadable
    else:
        nested[-1].append(found[3] if found[2] is None else _ESCAPED.sub(rb"\1", found[2]))


def text_of(word: Word) -> str:
    """A word that is no list, as text."""
    if isinstance(word, list):
        raise Unreadable
    return word.decode("utf-8", "replace")


def texts_of(word: Word) -> list[str]:
    """The words of a list; one that stands alone is a list too."""
    return [text_of(each) for each in (word if isinstance(word, list) else [word])]


def name_of(word: Word) -> str:
    """A folder or label, from modified UTF-7."""
    if isinstance(word, list):
        raise Unreadable
    return str(imap_utf7.decode(word))


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written_name(path: str) -> str:
    """A folder's path: a quoted string in modified UTF-7."""
    return quoted(imap_utf7.encode(path).decode("ascii"))


def written_label(label: str) -> str:
    """A label as Gmail writes it: `foo`, `"Muy Importante"`, `"\\\\Inbox"`."""
    text = imap_utf7.encode(label).decode("ascii")
    return text if _ATOM.fullmatch(text) else quoted(text)


def chosen(text: str, there: Sequence[int]) -> list[int]:
    """Those numbers, of ascending ones, that a sequence set names: `1:3,7,*`."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [(there[-1] if there else 0) if end == "*" else _number(end) for end in part.split(":")]
        if len(ends) > 2:
            raise Unreadable
        found.update(there[bisect_left(there, min(ends)) : bisect_right(there, max(ends))])
    return sorted(found)


def _number(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise Unreadable
    return int(text)


def number_set(numbers: Iterable[int]) -> str:
    """Numbers as a sequence set, in their order where that is not ascending (COPYUID, RFC 4315 3)."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}:{last}" for first, last in parts)


# --- the folder that a client has selected: what it was told of, and what it is to be told ---


class View:
    """The messages as a client counts them."""

    def __init__(self, box: GmailMailbox, folder: Folder, *, is_writable: bool) -> None:
        with box.lock:
            self.box, self.folder, self.is_writable = box, folder, is_writable
            self.uids = list(folder.members)
            self.told_modseqs = False
            self._known = {letter: uid for uid, letter in folder.members.items()}
            self._told = len(box.changes)
            #: Messages whose state this client has just been told, or set, and the mod-sequence that it had then.
            self.own: dict[Letter, int] = {}

    def number(self, uid: int) -> int:
        """The sequence number of a message that the client knows."""
        return bisect_left(self.uids, uid) + 1

    def news(self, *, with_labels: bool) -> list[str]:
        """What is to be told of changes since the last time.

        Of a change of labels alone nothing is told unless asked for: it is no change of this folder.
        (github.com/mscdex/node-imap/issues/588: in all mail, IDLE is silent about what is archived.)
        """
        with self.box.lock:
            if self._told == len(self.box.changes):
                return []
            since = self.box.changes[self._told].modseq if self._told else 0
            changed = dict.fromkeys(self.box.changes[self._told :])
            self._told = len(self.box.changes)
            lines = self._gone(changed)
            lines += self._arrived(changed)
            lines += self._changed(changed, with_labels=with_labels, since=since)
            self.own.clear()
            return lines

    def _gone(self, changed: dict[Letter, None]) -> list[str]:
        lines = []
        for letter in changed:
            known = self._known.get(letter)
            if known is not None and letter.uids.get(self.folder) != known:
                number = self.number(known)
                del self.uids[number - 1], self._known[letter]
                lines.append(f"* {number} EXPUNGE")
        return lines

    def _arrived(self, changed: dict[Letter, None]) -> list[str]:
        new = {uid: each for each in changed if each not in self._known and (uid := each.uids.get(self.folder))}
        for uid in sorted(new):
            self.uids.append(uid)
            self._known[new[uid]] = uid
            self.own[new[uid]] = new[uid].modseq
        return [f"* {len(self.uids)} EXISTS"] if new else []

    def _changed(self, changed: dict[Letter, None], *, with_labels: bool, since: int) -> list[str]:
        lines = []
        for letter in changed:
            uid = self._known.get(letter)
            if uid is None or self.own.get(letter) == letter.modseq:
                continue
            if with_labels or letter.flagged_at >= since:
                flags = " ".join(sorted(letter.flags()))
                modseq = f" MODSEQ ({letter.modseq})" if self.told_modseqs else ""
                lines.append(f"* {self.number(uid)} FETCH (UID {uid} FLAGS ({flags}){modseq})")
        return lines


# --- FETCH, with X-GM-MSGID, X-GM-THRID and X-GM-LABELS ---


_BODY = re.compile(r"BODY\.PEEK\[([^\]]*)\](?:<(\d+)\.(\d+)>)?", re.I)
_SECTION = re.compile(r"(\d+(?:\.\d+)*)?(HEADER\.FIELDS \(([^)]*)\)|HEADER)?", re.I)
_FIELD = re.compile(rb"[^\r\n]+(?:\r?\n[ \t][^\r\n]*)*\r?\n")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: In this order, whatever was asked for first; sections come last (seen in transcripts of real connections).
_FIRST = (
    "X-GM-THRID",
    "X-GM-MSGID",
    "X-GM-LABELS",
    "UID",
    "RFC822.SIZE",
    "MODSEQ",
    "INTERNALDATE",
    "FLAGS",
)
#: What one item gives of a message in a folder.
Item = Callable[[Letter, Folder], bytes]


def _items(asked: Word, *, with_modseq: bool) -> list[Item]:
    """What gives the answer, one function an item."""
    names = texts_of(asked)
    upper = {name.upper() for name in names}
    if "UID" not in upper:
        names.insert(0, "UID")
    if with_modseq and "MODSEQ" not in upper:
        names.append("MODSEQ")
    names.sort(key=lambda name: _FIRST.index(name.upper()) if name.upper() in _FIRST else len(_FIRST))
    return [_item(name) for name in names]


def _answer(number: int, letter: Letter, folder: Folder, wanted: list[Item]) -> bytes:
    return b"* %d FETCH (%b)\r\n" % (number, b" ".join(item(letter, folder) for item in wanted))


def _labels_told(letter: Letter, folder: Folder) -> str:
    """X-GM-LABELS, without the label of the folder that is selected.

    (github.com/dlech/gmailbuttons/issues/10)
    """
    shown = sorted(letter.labels - {folder.label})
    return f"X-GM-LABELS ({' '.join(map(written_label, shown))})"


def _flags_told(letter: Letter, _: Folder) -> str:
    return f"FLAGS ({' '.join(sorted(letter.flags()))})"


def _item(name: str) -> Item:
    plain: dict[str, Item] = {
        "UID": lambda letter, folder: b"UID %d" % letter.uids[folder],
        "FLAGS": lambda letter, folder: _flags_told(letter, folder).encode(),
        "MODSEQ": lambda letter, _: b"MODSEQ (%d)" % letter.modseq,
        "INTERNALDATE": lambda letter, _: b'INTERNALDATE "%b"' % _written_date(letter.date).encode(),
        "RFC822.SIZE": lambda letter, _: b"RFC822.SIZE %d" % len(letter.source),
        "X-GM-MSGID": lambda letter, _: b"X-GM-MSGID %d" % letter.number,
        "X-GM-THRID": lambda letter, _: b"X-GM-THRID %d" % letter.thread,
        "X-GM-LABELS": lambda letter, folder: _labels_told(letter, folder).encode(),
        "BODYSTRUCTURE": lambda letter, _: b"BODYSTRUCTURE " + bytes(_loaded(letter.source).get_body_structure()),
    }
    if name.upper() in plain:
        return plain[name.upper()]
    if found := _BODY.fullmatch(name):
        return _section_item(found)
    raise Unreadable


def _section_item(found: re.Match[str]) -> Item:
    section, start, count = found.groups()
    if not _SECTION.fullmatch(section):
        raise Unreadable
    label = f"BODY[{section}]" + ("" if start is None else f"<{start}>")

    def item(letter: Letter, _: Folder) -> bytes:
        data = _section(letter.source, section)
        return _literal(label, data if start is None else data[int(start) : int(start) + int(count)])

    return item


def _literal(label: str, data: bytes) -> bytes:
    return b"%b {%d}\r\n%b" % (label.encode(), len(data), data)


def _header_bytes(source: bytes) -> bytes:
    """The header fields with the empty line behind them."""
    head, end, _ = source.partition(b"\r\n\r\n")
    return head + end


def _section(source: bytes, section: str) -> bytes:
    found = _SECTION.fullmatch(section)
    assert found is not None
    part, what, fields = found.groups()
    if part:
        return bytes(_loaded(source).get_body([int(number) for number in part.split(".")]))
    if fields is not None:
        wanted = {name.encode() for name in fields.upper().split()}
        lines = (each[0] for each in _FIELD.finditer(_header_bytes(source)))
        return b"".join(each for each in lines if each.partition(b":")[0].strip().upper() in wanted) + b"\r\n"
    return _header_bytes(source) if what else source


def _loaded(source: bytes):  # type: ignore[no-untyped-def]
    # Another reader than ours and than imapclient's, imported where it is needed: it takes a moment.
    from pymap.message import BaseLoadedMessage
    from pymap.mime import MessageContent
    from pymap.parsing.specials import FetchRequirement

    return BaseLoadedMessage(None, FetchRequirement.CONTENT, MessageContent.parse(source))  # type: ignore[arg-type]


def _written_date(at: datetime) -> str:
    return f"{at.day:02d}-{_MONTHS[at.month - 1]}-{at.year:04d} {at:%H:%M:%S} {at:%z}"


# --- commands ---


_FLAGS = "\\Answered \\Flagged \\Draft \\Deleted \\Seen $Forwarded $NotPhishing $Phishing"


class Refused(Exception):
    """NO, and why."""


def _refuse(text: str) -> NoReturn:
    raise Refused(text)


def _pattern(text: str) -> re.Pattern[str]:
    parts = {"*": ".*", "%": "[^/]*"}
    return re.compile("".join(parts.get(sign) or re.escape(sign) for sign in text), re.I | re.S)


def _status_items(arguments: list[Word]) -> list[str]:
    if len(arguments) < 2 or not isinstance(arguments[1], list):
        return []
    options = arguments[1]
    names = [each.upper() if isinstance(each, bytes) else each for each in options]
    return [each.upper() for each in texts_of(options[names.index(b"STATUS") + 1])] if b"STATUS" in names else []


def _status(folder: Folder, items: list[str]) -> str:
    told = {
        "MESSAGES": len(folder.members),
        "RECENT": 0,
        "UIDNEXT": folder.uidnext,
        "UIDVALIDITY": folder.uidvalidity,
        "UNSEEN": sum("\\Seen" not in each.kept_flags for each in folder.members.values()) if "UNSEEN" in items else 0,
        "HIGHESTMODSEQ": folder.modseq,
    }
    return (
        f"* STATUS {written_name(folder.path)} ({' '.join(f'{item} {told[item]}' for item in items if item in told)})"
    )


_BATCH = 100  # messages in one piece of a long answer
_DATE = re.compile(r" ?(\d{1,2})-(\w{3})-(\d{4}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_BY_UID = ("FETCH", "STORE", "SEARCH", "COPY", "MOVE", "EXPUNGE")


class Commands:
    """The commands of one connection. Each answers what stands behind its OK, and has said what comes first."""

    def __init__(self, box: GmailMailbox, server: "Gmail", say: Callable[..., None]) -> None:
        self.box, self._server, self._say = box, server, say
        self.view: View | None = None
        self._tag = ""

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
        items = _items(asked, with_modseq=is_modseq)
        uids = self._uids(numbers)
        for start in range(0, len(uids), _BATCH):
            self._say(*self._fetched(view, uids[start : start + _BATCH], items, since))
        return ""

    def _fetched(self, view: View, uids: list[int], items: list[Item], since: int | None) -> list[bytes]:
        answers = []
        with self.box.lock:
            for uid in uids:
                letter = view.folder.members.get(uid)
                if letter is None or (since is not None and letter.modseq <= since):
                    continue
                answers.append(_answer(view.number(uid), letter, view.folder, items))
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
            tell = _labels_told if what == "X-GM-LABELS" else _flags_told
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

    # --- selecting ---

    def do_select(self, arguments: list[Word]) -> str:
        return self._open(arguments, is_writable=True)

    def do_examine(self, arguments: list[Word]) -> str:
        return self._open(arguments, is_writable=False)

    def _open(self, arguments: list[Word], *, is_writable: bool) -> str:
        self.view = None
        name = name_of(arguments[0])
        folder = self._folder(arguments[0], f"[NONEXISTENT] Unknown Mailbox: {name} (Failure)")
        with self.box.lock:
            self.view = View(self.box, folder, is_writable=is_writable)
            self.view.told_modseqs = len(arguments) > 1 and "CONDSTORE" in map(str.upper, texts_of(arguments[1]))
            self._say(
                f"* FLAGS ({_FLAGS})",
                f"* OK [PERMANENTFLAGS ({_FLAGS} \\*)] Flags permitted.",
                f"* OK [UIDVALIDITY {folder.uidvalidity}] UIDs valid.",
                f"* {len(folder.members)} EXISTS",
                "* 0 RECENT",
                f"* OK [UIDNEXT {folder.uidnext}] Predicted next UID.",
                f"* OK [HIGHESTMODSEQ {folder.modseq}]",
            )
        return f"[READ-{'WRITE' if is_writable else 'ONLY'}] {name} selected. (Success)"

    # --- telling ---

    def do_namespace(self, _: list[Word]) -> str:
        """NAMESPACE (RFC 2342)."""
        self._say('* NAMESPACE (("" "/")) NIL NIL')
        return ""

    def do_list(self, arguments: list[Word]) -> str:
        """LIST (RFC 9051 6.3.9), with the attributes of special folders in any case, and RETURN (STATUS ...)."""
        only_special = isinstance(arguments[0], list) and bool(arguments.pop(0))
        pattern = _pattern(name_of(arguments[0]) + name_of(arguments[1]))
        status = _status_items(arguments[2:])
        with self.box.lock:
            for path, folder in self._listed():
                if pattern.fullmatch(path) and not (only_special and not (folder and folder.attribute)):
                    self._say(f'* LIST ({" ".join(self._attributes(path, folder))}) "/" {written_name(path)}')
                    if status and folder is not None:
                        self._say(_status(folder, status))
        return ""

    def do_status(self, arguments: list[Word]) -> str:
        folder = self._folder(arguments[0], f"[NONEXISTENT] Unknown Mailbox: {name_of(arguments[0])} (Failure)")
        with self.box.lock:
            self._say(_status(folder, [each.upper() for each in texts_of(arguments[1])]))
        return ""

    def _listed(self) -> list[tuple[str, Folder | None]]:
        """All folders, and the steps to them that are none themselves."""
        shown = {path: folder for path, folder in self.box.folders.items() if folder.is_shown}
        steps = {path[:index] for path in shown for index, sign in enumerate(path) if sign == "/"}
        found: dict[str, Folder | None] = {**dict.fromkeys(steps), **shown}
        return sorted(found.items(), key=lambda each: (each[0] != "INBOX", each[0]))

    def _attributes(self, path: str, folder: Folder | None) -> list[str]:
        has_children = any(each.startswith(path + "/") for each, one in self.box.folders.items() if one.is_shown)
        words = ["\\HasChildren" if has_children else "\\HasNoChildren"]
        words += ["\\Noselect"] if folder is None else [folder.attribute] if folder.attribute else []
        return sorted(words)

    # --- what others need ---

    def _folder(self, word: Word, refusal: str) -> Folder:
        name = name_of(word)
        folder = self.box.folders.get("INBOX" if name.upper() == "INBOX" else name)
        if folder is None or not folder.is_shown:
            raise Refused(f"NO {refusal}")
        return folder

    def _selected(self) -> View:
        return self.view or _refuse("BAD No folder selected")

    def _writable(self) -> View:
        view = self._selected()
        return view if view.is_writable else _refuse("NO [READ-ONLY] Folder is read-only (Failure)")

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
    number = _MONTHS.index(month.capitalize()) + 1
    return datetime(int(year), number, int(day), int(hour), int(minute), int(second), tzinfo=zone)
