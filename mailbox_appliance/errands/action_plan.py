"""What a bulk action means for each message, decided before anything is done. Pure: values in, values out."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.model.records import (
    ActionResult,
    FailedAction,
    FolderRole,
    FolderState,
    LocatedMessage,
    MessageIdentity,
    MirroredFolder,
)

Action = Literal[
    "markRead",
    "markUnread",
    "star",
    "unstar",
    "archive",
    "trash",
    "untrash",
    "delete",
    "move",
    "addLabels",
    "removeLabels",
]
Code = Literal[
    "not_found",
    "identity_changed",
    "folder_not_found",
    "label_invalid",
    "unsupported_capability",
    "provider_rejected",
    "provider_unavailable",
]

_FLAGS: dict[Action, tuple[frozenset[str], frozenset[str]]] = {  # RFC 9051 2.3.2: what is added, what is removed
    "markRead": (frozenset({"\\Seen"}), frozenset()),
    "markUnread": (frozenset(), frozenset({"\\Seen"})),
    "star": (frozenset({"\\Flagged"}), frozenset()),
    "unstar": (frozenset(), frozenset({"\\Flagged"})),
}
#: RFC 9051 9, flag-keyword: an atom. It has no backslash, so no system flag is one.
_KEYWORD = re.compile(r"[!#$&'+,\-./0-9:;<=>?@A-Z\[^_`a-z|}~]+")
_ANY_KEYWORD = "\\*"


@dataclass(frozen=True)
class Wanted:
    """A bulk action on messages, each named once. `target`: where a move goes, None where there is no such folder."""

    action: Action
    message_ids: tuple[str, ...]
    target: MirroredFolder | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagEdit:
    """Flags and keywords to add to messages and to take from them; their case does not count (RFC 9051 2.3.2)."""

    add: frozenset[str]
    remove: frozenset[str]

    def apply_to(self, flags: frozenset[str]) -> frozenset[str]:
        """The flags afterwards."""
        removed, there = _lower(self.remove), _lower(flags)
        kept = {flag for flag in flags if flag.lower() not in removed}
        return frozenset(kept.union(flag for flag in self.add if flag.lower() not in there))


@dataclass
class Outcomes:
    """What became of each message; what is said first of one counts."""

    wanted: Wanted
    _marks: dict[str, Code | Literal["succeeded", "uncertain"]] = field(default_factory=dict)

    def mark_succeeded(self, message_ids: Iterable[str]) -> None:
        """It is so now, at the server and here."""
        self._mark(message_ids, "succeeded")

    def mark_failed(self, message_ids: Iterable[str], code: Code) -> None:
        """Nothing was done to them."""
        self._mark(message_ids, code)

    def mark_uncertain(self, message_ids: Iterable[str]) -> None:
        """The server was told, and its answer never came."""
        self._mark(message_ids, "uncertain")

    @property
    def has_success(self) -> bool:
        """Whether anything has succeeded."""
        return "succeeded" in self._marks.values()

    def result(self) -> ActionResult:
        """All of it, in the order of the request."""
        said = [(message_id, self._marks[message_id]) for message_id in self.wanted.message_ids]
        return ActionResult(
            action=self.wanted.action,
            succeeded_ids=tuple(message_id for message_id, word in said if word == "succeeded"),
            failed=tuple(
                FailedAction(message_id=message_id, code=word)
                for message_id, word in said
                if word not in ("succeeded", "uncertain")
            ),
            uncertain_ids=tuple(message_id for message_id, word in said if word == "uncertain"),
        )

    def _mark(self, message_ids: Iterable[str], word: Code | Literal["succeeded", "uncertain"]) -> None:
        for message_id in message_ids:
            self._marks.setdefault(message_id, word)


def flag_edit(wanted: Wanted) -> FlagEdit | None:
    """What an action does to flags; None for those that move or delete."""
    if wanted.action == "addLabels":
        return FlagEdit(frozenset(wanted.labels), frozenset())
    if wanted.action == "removeLabels":
        return FlagEdit(frozenset(), frozenset(wanted.labels))
    edit = _FLAGS.get(wanted.action)
    return None if edit is None else FlagEdit(*edit)


def hopeless(wanted: Wanted) -> Code | None:
    """Why the action can be done to no message at all, as far as one sees without asking."""
    if wanted.action == "move" and wanted.target is None:
        return "folder_not_found"
    # $Forwarded says what was done with a message (RFC 9051 2.3.2), and is shown to nobody as a label.
    if not all(_KEYWORD.fullmatch(label) and label.lower() != "$forwarded" for label in wanted.labels):
        return "label_invalid"
    return None


def refused_labels(labels: Iterable[str], permanent: frozenset[str]) -> Code | None:
    """Why a folder with these PERMANENTFLAGS (RFC 9051 7.1) cannot keep the labels; None where it can."""
    keywords = _lower(flag for flag in permanent if not flag.startswith("\\"))
    if _ANY_KEYWORD in permanent or _lower(labels) <= keywords:
        return None
    return "label_invalid" if keywords else "unsupported_capability"


def as_written(edit: FlagEdit, permanent: frozenset[str]) -> FlagEdit:
    """The edit with its labels as the folder writes them: a keyword is there once, whatever its case."""
    written = {flag.lower(): flag for flag in permanent}
    return FlagEdit(
        *(frozenset(written.get(flag.lower(), flag) for flag in flags) for flags in (edit.add, edit.remove))
    )


def destination(action: Action, message: LocatedMessage) -> FolderRole | None:
    """The role of the folder that an action takes a message to; None for `move`, and where it stays."""
    if action in ("archive", "trash"):
        return "archive" if action == "archive" else "trash"
    if action == "untrash" and message.folder.role == "trash":
        return "drafts" if "\\draft" in _lower(message.flags) else "inbox"
    return None


def stays(wanted: Wanted, message: LocatedMessage) -> bool:
    """Whether a message lies already where the action would take it.

    One whose UID is not known may lie elsewhere by now: the mirror has it here until it is seen.
    """
    if message.uid is None:
        return False
    if wanted.action == "move":
        return wanted.target is not None and message.folder.number == wanted.target.number
    if wanted.action == "untrash":
        return message.folder.role != "trash"
    return wanted.action in ("archive", "trash") and message.folder.role == wanted.action


Group = tuple[MirroredFolder, FolderRole | None, tuple[LocatedMessage, ...]]


def groups(wanted: Wanted, messages: Iterable[LocatedMessage]) -> tuple[Group, ...]:
    """The messages by the folder they lie in and the role of the one they go to: one command each."""
    found: dict[tuple[int, FolderRole | None], list[LocatedMessage]] = {}
    for message in messages:
        found.setdefault((message.folder.number, destination(wanted.action, message)), []).append(message)
    return tuple((each[0].folder, role, tuple(each)) for (_, role), each in found.items())


def identity(message: LocatedMessage, state: FolderState, sighting: MessageIdentity | None) -> Code | None:
    """Why what lies under a message's UID now is not that message; None where it is."""
    known = message.folder.state
    if known is not None and known.uidvalidity != state.uidvalidity:  # RFC 9051 2.3.1.1
        return "identity_changed"
    if sighting is None:
        return "not_found"
    return None if is_same(message, sighting, certain=known is not None) else "identity_changed"


def is_same(message: LocatedMessage, sighting: MessageIdentity, *, certain: bool) -> bool:
    """Whether this is the message. `certain`: UID and UIDVALIDITY agree, so that its date need not.

    Where the provider has an id for it, that decides.
    """
    if message.provider_id is not None and sighting.provider_id is not None:
        return message.provider_id == sighting.provider_id
    agrees = (message.message_id, message.size) == (sighting.message_id, sighting.size)
    # RFC 9051 2.3.3: the server keeps seconds, while what we put there has been noted here more exactly.
    return agrees and (certain or int(message.internal_date.timestamp()) == int(sighting.internal_date.timestamp()))


def pick(
    message: LocatedMessage, sightings: Mapping[int, MessageIdentity], taken: Collection[int | None]
) -> int | None:
    """The UID of a message whose UID is not known, among what was found by its Message-ID; the newest of several.

    Of one that is gone the date must agree as well; of what we put there the server may have noted another.
    """
    is_ours = not message.gone
    fitting = [s.uid for s in sightings.values() if s.uid not in taken and is_same(message, s, certain=is_ours)]
    return max(fitting, default=None)


def ids(messages: Sequence[LocatedMessage]) -> tuple[str, ...]:
    """Their ids."""
    return tuple(message.id for message in messages)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
