"""Change the messages of a mailbox: append, flag, move and remove them.

Some changes take several commands. If one of these fails after an earlier one succeeded, the RemoteFault is `in_doubt`:
a part of the change was made.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.mail import threads
from mailbox_appliance.mail.parse import header_message_id
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.sync import FolderState, MessageIdentity
from mailbox_appliance.remote.errors import RemoteFault, Unmovable
from mailbox_appliance.remote.imap import reading, values
from mailbox_appliance.remote.imap.folders import Selection
from mailbox_appliance.remote.imap.values import (
    EPOCH,
    FetchedItems,
    appended_uid,
    copied_uids,
    encode_folder_path,
    is_flag,
    uid_sets,
)
from mailbox_appliance.remote.imap.wire import ImapWire, Pieces

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COPYUID = re.compile(rb"\* OK \[COPYUID ", re.I)
_GONE = re.compile(rb"\* (?:\d+ EXPUNGE|VANISHED)\b", re.I)


def append_message(
    wire: ImapWire, path: str, source: Content, flags: Collection[str], at: datetime, uidvalidity: int | None = None
) -> int | None:
    """Append a message to a folder (RFC 9051 6.3.12), as `ImapMailbox.append`. Labels among the flags are ignored."""
    flags = frozenset(flags) - values.labels_in(flags) if wire.has_labels else flags
    zone = at.strftime("%z")[:5] or "+0000"
    date = f"{at.day:2d}-{_MONTHS[at.month - 1]}-{at.year:04d} {at:%H:%M:%S} {zone}"
    command = f'APPEND {encode_folder_path(path)} {_format_flags(flags)} "{date}" '
    return appended_uid(wire.run_command(command, literal=source, changes=True), uidvalidity)


def store_flags(
    selection: Selection, path: str, uids: Collection[int], add: Collection[str], remove: Collection[str]
) -> None:
    """Add and remove flags of messages in a folder. On a server with labels (Gmail), labels too. Raises RemoteFault."""
    change = _label_change if selection.wire.has_labels else _flag_change
    changes = [one for sign, flags in (("+", add), ("-", remove)) if flags for one in change(sign, flags)]
    selection.require_writable(path, uids)
    _run_commands(selection.wire, [f"UID STORE {numbers} {change}" for change in changes for numbers in uid_sets(uids)])


def _flag_change(sign: str, flags: Collection[str]) -> list[str]:
    return [f"{sign}FLAGS.SILENT {_format_flags(flags)}"]


def _label_change(sign: str, names: Collection[str]) -> list[str]:
    """Return the items of STORE that add or remove these flags and labels: one for the labels, one for the flags.

    `sign`: `+` to add, `-` to remove.
    """
    labels = values.labels_in(names)
    flags = frozenset(names) - labels
    changes = [f"{sign}{values.LABELS_ITEM}.SILENT {values.format_labels(labels)}"] if labels else []
    return changes + (_flag_change(sign, flags) if flags else [])


def expunge_messages(selection: Selection, words: Collection[str], path: str, uids: Collection[int]) -> None:
    """Delete messages permanently (RFC 4315 2.1), as `ImapMailbox.expunge`. `words`: the capabilities."""
    selection.require_writable(path, uids)
    if "UIDPLUS" in words:
        _run_commands(selection.wire, [command for numbers in uid_sets(uids) for command in _removal_commands(numbers)])
    else:
        _expunge_without_uidplus(selection.wire, frozenset(uids), ())


def move_messages(
    selection: Selection,
    words: Collection[str],
    path: str,
    uids: Collection[int],
    target: str,
    uidvalidity: int | None = None,
) -> Mapping[int, int | None]:
    """Move messages, as `ImapMailbox.move`. `words`: the server's capabilities."""
    selection.require_writable(path, uids)
    if not {"MOVE", "UIDPLUS"} & set(words):
        copying = [f"UID COPY {numbers} {encode_folder_path(target)}" for numbers in uid_sets(uids)]
        _expunge_without_uidplus(selection.wire, frozenset(uids), copying)
        return {}
    one = _move_uid_set if "MOVE" in words else _copy_and_expunge
    moved: dict[int, int | None] = {}
    for done, numbers in enumerate(uid_sets(uids)):
        try:
            moved |= one(selection.wire, numbers, _Move(frozenset(uids), encode_folder_path(target), uidvalidity))
        except RemoteFault as fault:
            fault.in_doubt = fault.in_doubt or done > 0
            raise
    return moved


def identify_messages(
    selection: Selection, path: str, uids: Sequence[int]
) -> tuple[FolderState, Mapping[int, MessageIdentity]]:
    """Select a folder for changes and identify messages in it, as `ImapMailbox.identify`."""
    state = selection.select(path).state
    items = reading.message_items(selection.wire, "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]")
    told = reading.fetch_items(selection.wire, uids, items)
    selection.shown_uids = frozenset(told)
    return state, {uid: _to_sighting(uid, one) for uid, one in told.items()}


def _to_sighting(uid: int, told: FetchedItems) -> MessageIdentity:
    message_id = header_message_id(told.section or b"")
    canonical = threads.canonical_message_id(message_id) if message_id else None
    size, date = told.size or 0, told.internal_date or EPOCH
    return MessageIdentity(uid, told.kept_flags, canonical, size, date, told.provider_id, told.provider_thread_id)


@dataclass(frozen=True)
class _Move:
    """A move: the messages, the encoded path of the target, and the known UIDVALIDITY of the target."""

    uids: frozenset[int]
    target: str
    uidvalidity: int | None

    def new_uids(self, text: bytes) -> dict[int, int | None]:
        """Return the new UIDs by old UID from the COPYUID code in a response (`values.copied_uids`)."""
        return copied_uids(text, self.uids, self.uidvalidity)


def _move_uid_set(wire: ImapWire, numbers: str, what: _Move) -> dict[int, int | None]:
    """Run UID MOVE (RFC 6851). Returns the new UIDs by old UID, which the server reports before its reply."""
    moved: dict[int, int | None] = {}
    is_begun = False

    def hear(pieces: Pieces) -> bool:
        nonlocal is_begun
        is_answer = bool(_COPYUID.match(pieces[0]))
        moved.update(what.new_uids(pieces[0]) if is_answer else {})
        is_begun = is_begun or is_answer or bool(_GONE.match(pieces[0]))
        return is_answer

    try:
        moved |= what.new_uids(wire.run_command(f"UID MOVE {numbers} {what.target}", hear, changes=True))
    except RemoteFault as fault:
        fault.in_doubt = fault.in_doubt or is_begun  # RFC 6851 3.3: a NO after some messages were moved
        raise
    return moved


def _copy_and_expunge(wire: ImapWire, numbers: str, what: _Move) -> dict[int, int | None]:
    moved = what.new_uids(wire.run_command(f"UID COPY {numbers} {what.target}", changes=True))
    # A message that was not copied is not removed; a server without a report (RFC 4315 3) copied all that exist.
    removing = [
        command for copied in (uid_sets(moved) if moved else [numbers]) for command in _removal_commands(copied)
    ]
    try:
        _run_commands(wire, removing)
    except RemoteFault as fault:
        fault.in_doubt = True
        raise
    return moved


def _removal_commands(numbers: str) -> tuple[str, str]:
    return f"UID STORE {numbers} +FLAGS.SILENT (\\Deleted)", f"UID EXPUNGE {numbers}"


def _expunge_without_uidplus(wire: ImapWire, uids: frozenset[int], first: Sequence[str]) -> None:
    """Remove messages on a server without UIDPLUS, whose EXPUNGE removes every message that is marked as deleted.

    `first`: commands to run before. Raises Unmovable if another message is marked as deleted. That is checked before
    the first command, and again just before EXPUNGE.
    """
    marked = _search_deleted(wire)
    if marked - uids:
        raise Unmovable
    _run_commands(wire, [*first, *(f"UID STORE {numbers} +FLAGS.SILENT (\\Deleted)" for numbers in uid_sets(uids))])
    try:
        if _search_deleted(wire) - uids:
            _run_commands(
                wire, [f"UID STORE {numbers} -FLAGS.SILENT (\\Deleted)" for numbers in uid_sets(uids - marked)]
            )
            raise Unmovable
        wire.run_command("EXPUNGE", changes=True)
    except RemoteFault as fault:
        fault.in_doubt = fault.in_doubt or bool(first) or fault.kind != "unsupported"
        raise


def _search_deleted(wire: ImapWire) -> frozenset[int]:
    """Return the UIDs of the messages in the selected folder that are marked as deleted."""
    found: set[int] = set()

    def hear(pieces: Pieces) -> bool:
        is_answer = pieces[0][:8].upper() == b"* SEARCH"
        found.update(int(word) for word in pieces[0][8:].split() if is_answer and word.isdigit())
        return is_answer

    wire.run_command("UID SEARCH DELETED", hear)
    return frozenset(found)


def _run_commands(wire: ImapWire, commands: Sequence[str]) -> None:
    for done, command in enumerate(commands):
        try:
            wire.run_command(command, changes=True)
        except RemoteFault as fault:
            fault.in_doubt = fault.in_doubt or done > 0
            raise


def _format_flags(flags: Collection[str]) -> str:
    """Return flags as an IMAP list. Raises RemoteFault (`unsupported`) for a character that IMAP does not allow."""
    if not all(map(is_flag, flags)):
        reason = "A flag or label contains characters that IMAP does not allow. Use only letters, digits and - _ ."
        raise RemoteFault("imap", "unsupported", reason)
    return f"({' '.join(sorted(flags))})"
