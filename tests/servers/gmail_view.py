"""The folder that a client has selected: what it was told of, and what it is to be told."""

from bisect import bisect_left

from tests.servers.gmail_folders import Folder, Letter
from tests.servers.gmail_mailbox import GmailMailbox


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
