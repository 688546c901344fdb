"""Choose the most urgent work of one mailbox on one connection, and do it one batch at a time.

    1. folders with changes or new messages: requested ones first, then the home folder, then the others
    2. the end of a round: every folder was checked, so messages that are still missing are deleted
    3. a new round when its time has come: the states of all folders (LIST with STATUS) are compared with those stored
    4. bodies that are not stored yet

The home folder is INBOX, or All Mail on a server with labels (Gmail). A message that disappears from a folder may have
moved to another one, so a round starts at once to find it. The message counts as deleted only after a complete round
that began after it disappeared, and in which every folder could be checked.
"""

import dataclasses
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.sync import FolderState, ListedFolder, MirroredFolder, SyncProgress
from mailbox_appliance.remote import errors
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.sync.backlog import Backlog
from mailbox_appliance.sync.context import SyncSession
from mailbox_appliance.sync.folder import FolderSync, HeaderBatch

# --- The folders of a mailbox: which are followed, and which is home ---
#
# The home folder is checked first and watched: INBOX. On a server with labels (X-GM-EXT-1) it is All Mail; there, only
# folders that hold messages are followed, since the others only show labels.


INBOX = "INBOX"


@dataclass(frozen=True)
class Listing:
    """The result of storing the server's list of folders.

    At Gmail, most folders only show the messages with one label; the messages are in All Mail. The number of a folder
    is its key in the store.

    - followed: folders that hold messages, in the order in which they are checked.
    - labels: the folders that only show a label; their numbers by path.
    - numbers: the numbers of all folders.
    - has_dropped: whether a folder that held messages is gone, or stored messages were detached from their folder.
    - has_dropped_label: whether a folder that showed a label is gone; its label may have been renamed.
    - new_labels: paths of folders that show a label and are new.
    - counted: the folders of `labels` whose message counts are compared: the inbox and those that people created.
    """

    followed: tuple[MirroredFolder, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()
    has_dropped: bool = False
    has_dropped_label: bool = False
    new_labels: frozenset[str] = frozenset()
    counted: Mapping[str, int] = field(default_factory=dict)


def find_home(listed: Sequence[ListedFolder], *, has_labels: bool) -> str:
    """Return the path of the home folder: INBOX, or All Mail on a server with labels (Gmail).

    Raises RemoteFault if it is not in the list.
    """
    if not any(folder.path == INBOX for folder in listed):
        # It always exists (RFC 9051 5.1), so a list without it does not prove that the other folders are gone.
        raise RemoteFault("imap", "malformed", "The IMAP server did not list INBOX. Try again later.")
    if not has_labels:
        return INBOX
    if (home := folder_roles.find_all_mail(listed)) is None:
        raise errors.named_fault("all_mail_hidden", "imap")
    return home


def update_folders(
    folders: Folders, account_id: str, listed: Sequence[ListedFolder], home: str, *, is_first: bool = False
) -> Listing:
    """Make the folders in the store equal to the listed ones. `home`: the path of the home folder.

    `is_first`: this is the first list on this connection.
    """
    before = folders.list(account_id)
    paths = {folder.path for folder in listed}
    has_dropped_label = any(folder.label is not None and folder.path not in paths for folder in before)
    if has_dropped_label:  # Stored first, so that a stop in between does not lose it.
        _require_label_compare(folders, before)
    stored = folders.replace(account_id, listed)
    if is_set_aside := is_first and folders.detach_unlabeled(account_id, home):
        stored = folders.list(account_id)
    followed = sorted((folder for folder in stored if folder.label is None), key=lambda each: _rank(each, home))
    left = {folder.number for folder in before if folder.label is None} - {folder.number for folder in followed}
    shown = {folder.path: folder.number for folder in stored if folder.label is not None}
    new = shown.keys() - {folder.path for folder in before if folder.label is not None} if before else frozenset()
    numbers = frozenset(folder.number for folder in stored)
    counted = {path: number for path, number in shown.items() if not _is_beside(path, home)}
    return Listing(
        tuple(followed), shown, numbers, bool(left) or is_set_aside, has_dropped_label, frozenset(new), counted
    )


def _require_label_compare(folders: Folders, mirrored: Sequence[MirroredFolder]) -> None:
    """Make the next check of each folder compare all labels: a server may not report a renamed label as a change."""
    for folder in mirrored:
        if folder.label is None and folder.state is not None:
            folders.set_state(folder.number, dataclasses.replace(folder.state, highestmodseq=None))


def _is_beside(path: str, home: str) -> bool:
    above, _, _ = home.rpartition("/")
    return bool(above) and path.startswith(f"{above}/")


def _rank(folder: MirroredFolder, home: str) -> tuple[int, str]:
    """Return the sort key for the order in which folders are checked: the home folder first, spam and trash last."""
    last = folder.role in ("spam", "trash")
    return (0 if folder.path == home else 2 if last else 1, folder.path)


# --- Label counts: the number of stored messages with a label, compared with the server's count, one folder a round ---
#
# No standard promises that every change of labels counts as a change of messages: a label may be renamed, or created
# again under its old name. If a count differs twice, all labels are compared. That is expensive, and some counts never
# match, for example if a server shows at most a thousand messages of a folder. So a folder that caused a comparison is
# not checked for a while.


_Counts = tuple[int, int]  # at the server, and in the store
_NEW: _Counts = (-1, -1)


class LabelCounts:
    """Finds label changes that the server did not report, on a server with labels (Gmail).

    It compares the number of messages in each folder that shows a label: on the server, and in the store.
    """

    def __init__(self, session: SyncSession) -> None:
        self._session = session
        self._order: deque[str] = deque()
        self._suspects: dict[str, _Counts] = {}

    def add_new(self, paths: Iterable[str]) -> None:
        """Put these new folders first among those that `check_next` checks.

        For a new folder, `check_next` returns True as soon as its count differs once; for others, after two checks.
        """
        for path in paths:
            self._suspects[path] = _NEW
            self._order.appendleft(path)

    def check_next(self, numbers: Mapping[str, int]) -> bool:
        """Compare the count of one more folder with the server's. Returns whether all labels must be compared.

        They must if the same difference is found twice in a folder. `numbers`: the number (key in the store) of each
        folder, by path. Raises RemoteFault.
        """
        path = self._pick_folder(numbers)
        counts = None if path is None else self._fetch_counts(path, numbers[path])
        if path is None or counts is None or counts[0] == counts[1]:
            self._suspects.pop(path or "", None)
            return False
        if self._suspects.pop(path, None) in (counts, _NEW):
            self._session.backoff.label_pauses.fail(path)
            return True
        self._suspects[path] = counts  # The count may have changed since the messages were read.
        self._order.appendleft(path)
        return False

    def _pick_folder(self, numbers: Mapping[str, int]) -> str | None:
        if not self._order:
            self._order.extend(sorted(numbers))
        while self._order:
            path = self._order.popleft()
            if path in numbers and not self._session.backoff.label_pauses.is_paused(path):
                return path
        return None

    def _fetch_counts(self, path: str, number: int) -> _Counts | None:
        try:
            return self._session.mailbox.get_folder_state(path).exists, self._session.store.folders.count_labeled(
                number
            )
        except RemoteFault as fault:
            if fault.kind != "refused":
                raise
            return None  # just dropped


# --- Steps ---


log = logging.getLogger(__name__)

#: A folder that was refused for this many seconds no longer delays other work.
LONGEST_REFUSAL = 3600.0
#: For so long a message may be in two folders while a server moves it.
MOVING_SECONDS = 0.2

#: The purpose of a round: to find all changes, or only to find messages that moved.
Round = Literal["everything", "arrivals"]


class StepResult(Enum):
    """Outcome of one `Follower.step`: a batch of work, the end of a check of all folders, or nothing left to do."""

    WORKED = "one batch of work is done"
    ROUND_ENDED = "a round has ended, and that is noted in the store"
    NOTHING = "nothing is left to do"


@dataclass
class _Round:
    """One check of all folders.

    - gone: messages that were missing from their folder before the check began.
    - is_complete: whether every folder could be opened.
    """

    gone: frozenset[int]
    is_complete: bool = True


class Follower:
    """Keeps the stored copy of one mailbox up to date over one connection. One thread at a time may use it."""

    def __init__(self, session: SyncSession) -> None:
        self.folders: dict[str, FolderSync] = {}
        #: Whether the server reports changes in the home folder; if not, each round checks it.
        self.can_idle = session.mailbox.capabilities.idle
        self._home = INBOX
        self._session = session
        session.has_gone = session.store.mailbox_writer.has_gone(session.account_id)
        self._backlog = Backlog(session)
        self._round: _Round | None = None
        self._round_due: Round | None = "everything"
        self._listed: tuple[ListedFolder, ...] = ()
        self._listing = Listing()
        self._label_counts = LabelCounts(session)
        self._must_list = True
        self._requested: set[str] = set()
        self._checked_labels: set[str] = set()

    def request(self, path: str | None) -> None:
        """Check this folder before other work. None: check all folders, and retry postponed messages."""
        session = self._session
        session.has_gone = session.has_gone or session.store.mailbox_writer.has_gone(session.account_id)
        if path is None:
            self._must_list, self._round_due = True, "everything"
            session.backoff.reset()
        elif folder := self._find_folder(path):
            folder.request()
        else:
            self._requested.add(path)

    def request_home(self) -> None:
        """Check the home folder (INBOX, or All Mail at Gmail) next, because the server reported a change in it."""
        if home := self.folders.get(self._home):
            home.is_due = home.is_urgent = True

    def request_round(self) -> None:
        """Request a new check of all folders. It starts after the work on known changes."""
        self._round_due = "everything"

    def step(self) -> StepResult:
        """Do one batch of the most urgent work, and return what was done. Raises RemoteFault."""
        self._backlog.collect()
        if self._requested:  # a folder that the appliance has just created
            self._list_folders("arrivals")
        elif (folder := self._pick_folder()) is not None:
            if not self._measure_speed(folder):
                self._process(folder)
        elif self._round is not None:
            self._backlog.finish()
            self._end_round(self._round)
            return StepResult.ROUND_ENDED
        elif self._round_due is not None:
            self._backlog.finish()
            self._begin_round(self._round_due)
        elif not self._fetch_bodies():
            return StepResult.NOTHING
        return StepResult.WORKED

    def close(self) -> None:
        """Wait until nothing is stored any more, before another connection looks into the store."""
        self._backlog.close()

    def check_inbox(self) -> None:
        """Find out, without fetching messages, whether the home folder (INBOX, or All Mail at Gmail) changed.

        If so, it is checked soon. Called during long work on other folders.
        """
        home = self.folders.get(self._home)
        if home is None or home.is_due:
            return
        if self._session.selected == self._home:
            home.is_due = self._session.mailbox.poll_idle()
        else:
            home.apply_status(self._session.mailbox.get_folder_state(self._home), thorough=False)

    def return_home(self) -> bool:
        """Return whether IDLE may start: the home folder is selected and has no known changes.

        If another folder is selected, the home folder is checked next.
        """
        home = self.folders.get(self._home)
        if home is not None and self._session.selected != self._home:
            home.is_due = True
        return home is None or not home.is_due

    @property
    def home_position(self) -> FolderState | None:
        """The state of the home folder (INBOX, or All Mail at Gmail) at its last check; None before the first."""
        found = self.folders.get(self._home)
        return found.position if found else None

    @property
    def progress(self) -> SyncProgress | None:
        """The progress of fetching messages or bodies; None if there is nothing to fetch."""
        counts = [folder.count_messages() for folder in self.folders.values()]
        total, left = sum(there for there, _ in counts), sum(left for _, left in counts)
        if left > 0:
            done = max(0, total - left)
            return SyncProgress(f"{done:,} of {total:,} messages", (done, total))
        return describe_bodies_left(self._backlog.remaining) if self._backlog.remaining else None

    # --- folders ---

    def _find_folder(self, path: str) -> FolderSync | None:
        """Return the followed folder that holds the messages shown at this path, or None if the path is unknown.

        At Gmail, a folder that shows a label holds no messages; they are in the home folder (All Mail).
        """
        return self.folders.get(self._home if path in self._listing.labels else path)

    def _pick_folder(self) -> FolderSync | None:
        busy = [folder for folder in self.folders.values() if folder.has_work]
        return next((folder for folder in busy if folder.is_urgent), busy[0] if busy else None)

    def _measure_speed(self, folder: FolderSync) -> bool:
        """Fetch bodies of the headers that are stored, if the speed of the server decides how to fetch this folder.

        Returns False if it does not, or if there are none.
        """
        if folder.is_due or self._session.is_quick is not None or not folder.may_take_whole:
            return False
        return bool(self._backlog.remaining) and self._backlog.has_small() and self._fetch_bodies()

    def _process(self, folder: FolderSync) -> None:
        try:
            if not folder.is_due and folder.takes_whole:
                self._backlog.fetch_new(folder)
            else:
                self._backlog.finish()
                self._catch_up(folder) if folder.is_due else self._fetch_new(folder)
        except RemoteFault as fault:
            self._handle_refusal(folder, fault)
        self._check_labels()

    def _fetch_new(self, folder: FolderSync) -> None:
        batch = folder.fetch_batch()
        if batch is None:
            return
        self._recognize_moves(folder, batch)
        if (added := folder.store_batch(batch)) > 0:
            self._backlog.add([folder], added)

    def _recognize_moves(self, folder: FolderSync, batch: HeaderBatch) -> None:
        """Remove messages from a batch that moved here. One that stays in another folder for a moment is a copy."""
        for is_last in (False, True):
            if batch.origins and self._catch_up_origins(batch.origins):
                folder.reattach(batch)
                folder.find_origins(batch)
            if is_last or not batch.origins:
                return
            # Seen in practice: a server that shows a message in both folders while it moves it.
            self._session.stop.wait(MOVING_SECONDS)

    def _check_labels(self) -> None:
        """Request a new folder list if a message has a label that no folder shows, such as one created just now."""
        unknown = self._session.labels - self._listing.labels.keys() - self._checked_labels
        if unknown:
            self._checked_labels |= unknown
            self._must_list, self._round_due = True, self._round_due or "arrivals"

    def _fetch_bodies(self) -> bool:
        try:
            return self._backlog.step()
        except RemoteFault as fault:
            if (folder := self._backlog.current_folder) is None:
                raise
            self._handle_refusal(folder, fault)
            return True

    def _catch_up(self, folder: FolderSync) -> bool:
        is_detached = folder.catch_up()
        if is_detached:
            self._session.has_gone = True
            self._round_due = self._round_due or "arrivals"
        return is_detached

    def _catch_up_origins(self, numbers: frozenset[int]) -> bool:
        """Check the folders with these numbers (keys in the store). Returns whether any message left them."""
        found = False
        for folder in [folder for folder in self.folders.values() if folder.folder.number in numbers]:
            try:
                found |= self._catch_up(folder)
            except RemoteFault as fault:
                self._handle_refusal(folder, fault)
                found |= self._confirm_dropped(folder)
        return found

    def _confirm_dropped(self, folder: FolderSync) -> bool:
        """List the folders again, and return whether this one no longer exists."""
        self._must_list = True
        self._list_folders("arrivals")
        return all(one is not folder for one in self.folders.values())

    def _handle_refusal(self, folder: FolderSync, fault: RemoteFault) -> None:
        """Stop checking a folder that was deleted or cannot be opened, until the next check of all folders.

        Raises `fault` if it is not a refusal, or if the folder is the home folder, without which sync cannot continue.
        """
        # Without the home folder there is nothing to follow.
        if fault.kind != "refused" or folder.folder.path == self._home:
            raise fault
        log.info("folder_refused", extra={"accountId": self._session.account_id, "folderId": folder.folder.id})
        self._backlog.remove(folder)
        folder.mark_refused()
        # A message moved to a folder that may never be opened counts as deleted.
        is_closed = fault.code == "NOPERM" and folder.folder.state is None
        if self._round is not None and not is_closed and folder.refusal_seconds < LONGEST_REFUSAL:
            self._round.is_complete = False

    # --- rounds ---

    def _begin_round(self, kind: Round) -> None:
        session = self._session
        gone = session.store.mailbox_writer.list_gone(session.account_id) if session.has_gone else frozenset()
        self._round_due = None
        self._list_folders(kind)
        self._round = _Round(gone)

    def _end_round(self, ended: _Round) -> None:
        session, self._round = self._session, None
        if self._listing.counted and self._label_counts.check_next(self._listing.counted):
            self._require_label_compare()
        if ended.is_complete and ended.gone:
            session.store.mailbox_writer.purge_gone(session.account_id, ended.gone)
        if session.has_gone and self._round_due is None:
            session.has_gone = session.store.mailbox_writer.has_gone(session.account_id)
        # Some messages were moved before their bodies came; others were postponed, and their pause is over.
        self._backlog.add(self.folders.values())
        session.store.accounts.mark_synced(session.account_id)

    def _require_label_compare(self) -> None:
        for folder in self.folders.values():
            folder.require_full_compare()

    def _list_folders(self, kind: Round) -> None:
        """List the folders with their states, and mark those that changed.

        `kind`: `everything` also finds changed flags that the states do not show; `arrivals` finds only moved messages.
        """
        listed, states = self._session.mailbox.list_folders_with_states()
        self._home = find_home(listed, has_labels=self._session.mailbox.has_labels)
        # Seen in practice: servers that list the same folders in another order each time.
        if set(listed) != set(self._listed) or self._must_list or self._is_stale():
            self._apply_listing(listed)
        for path, folder in self.folders.items():
            self._apply_status(folder, path, states, kind)
        for requested in filter(None, map(self._find_folder, self._requested)):
            requested.request()
        self._requested.clear()

    def _is_stale(self) -> bool:
        """Whether other code added or removed folders in the store since the last list."""
        return self._session.store.folders.list_numbers(self._session.account_id) != self._listing.numbers

    def _apply_status(self, folder: FolderSync, path: str, states: Mapping[str, FolderState], kind: Round) -> None:
        if path in states:
            folder.apply_status(states[path], thorough=kind == "everything")
        else:
            folder.is_due = True
        if path == self._home and self._session.selected == path:
            # STATUS of the selected folder may return its state at SELECT, and IDLE does not report labels.
            is_told = (self.can_idle and not self._session.mailbox.has_labels) or kind != "everything"
            folder.is_due = folder.is_due or not is_told or self._session.mailbox.poll_idle()

    def _apply_listing(self, listed: tuple[ListedFolder, ...]) -> None:
        session, is_first = self._session, not self._listed
        noted = update_folders(session.store.folders, session.account_id, listed, self._home, is_first=is_first)
        self._listed, self._listing, self._must_list = listed, noted, False
        # A path that was deleted and created again is another folder.
        kept = {one.folder.number: one for one in self.folders.values()}
        for number in kept.keys() - {folder.number for folder in noted.followed}:
            self._backlog.remove(kept[number])
        self.folders = {one.path: kept.get(one.number) or FolderSync(one, session) for one in noted.followed}
        self._label_counts.add_new(noted.new_labels)
        if noted.has_dropped_label:
            self._require_label_compare()
        if noted.has_dropped:
            # Deleted or renamed: the messages are gone from this folder and may be found in another.
            session.has_gone, self._round_due = True, self._round_due or "arrivals"
        if is_first:
            self._backlog.add(self.folders.values())


def describe_bodies_left(count: int) -> SyncProgress:
    """Return the progress to report if only bodies are missing. `count`: messages whose body is not stored yet."""
    return SyncProgress(f"{count:,} messages still without their text")
