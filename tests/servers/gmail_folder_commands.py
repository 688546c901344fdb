"""What Gmail tells of folders, and how it selects, makes, renames and removes them."""

import re
from collections.abc import Callable
from typing import NoReturn

from tests.servers.gmail_folders import Folder
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.gmail_view import View
from tests.servers.gmail_words import Word, name_of, texts_of, written_name

_FLAGS = "\\Answered \\Flagged \\Draft \\Deleted \\Seen $Forwarded $NotPhishing $Phishing"


class Refused(Exception):
    """NO, and why."""


class FolderCommands:
    """The commands of one connection that concern folders."""

    def __init__(self, box: GmailMailbox, say: Callable[..., None]) -> None:
        self.box, self._say = box, say
        self.view: View | None = None
        self._tag = ""

    # --- selecting ---

    def do_select(self, arguments: list[Word]) -> str:
        """SELECT."""
        return self._open(arguments, is_writable=True)

    def do_examine(self, arguments: list[Word]) -> str:
        """EXAMINE."""
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
        """STATUS."""
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
