"""What became of sends and rights by a restore, in plain words: a sentence each."""

from collections.abc import Iterator

from mailbox_appliance.store.restore.kinship import RELATION_TEXTS
from mailbox_appliance.store.restore.merge import MergeResult

_NOT_KNOWN = (
    "{why} So nobody knows what happened since the backup: API keys that were revoked, passwords that were changed and"
    " members who were removed since are as they were then; look through them. All sessions have ended."
)
_MAY_BE_OUT = ("may have gone out and is uncertain now", "may have gone out and are uncertain now")
_IN_TIME = ("waits for its time", "wait for their time")
_HELD = tuple(f"{waits} until you say `mailbox-appliance scheduled release`" for waits in ("waits", "wait"))
_ENDS = ("ends, since its mailbox is not in the backup", "end, since their mailboxes are not in the backup")
_GIVEN_BACK = tuple(
    f"{ends} as permission_revoked and {is_kept}: in the backup, whoever scheduled it has no right to the mailbox"
    for ends, is_kept in (("ends", "is kept as a draft"), ("end", "are kept as drafts"))
)
_NARROWED = ("may do less than in the backup", "may do less than in the backup")
_OTHER_LOG = (
    "The audit log of the store that is there does not go on from that of the backup: what it tells since is in the"
    " backup of what is replaced, and not in the log any more."
)


def told(carried: MergeResult, why: str) -> Iterator[str]:
    """What became of sends and rights; `why` nothing is known of what happened since, where that is so."""
    sends, rights = carried.sends, carried.rights
    if not carried.is_known:
        yield _NOT_KNOWN.format(why=why or f"The store that is there tells nothing: {carried.why}.")
    if carried.relation is not None and RELATION_TEXTS[carried.relation]:
        yield RELATION_TEXTS[carried.relation]
    yield from _counted(sends.uncertain, "send", *_MAY_BE_OUT)
    yield from _counted(sends.waiting, "scheduled send", *(_HELD if sends.are_held else _IN_TIME))
    yield from _counted(sends.ended, "scheduled send", *_ENDS)
    yield from _counted(sends.given_back, "scheduled send", *_GIVEN_BACK)
    whose = "" if carried.relation == "forked" else "of the backup "
    yield from _counted(rights.revoked, "API key", *_both(whose + "{} not good any more"))
    yield from _counted(rights.suspended, "member", *_both("of the backup {} suspended"))
    yield from _counted(rights.narrowed, "API key", *_NARROWED)
    if not carried.has_log:
        yield _OTHER_LOG


def _both(what: str) -> tuple[str, str]:
    return what.format("is"), what.format("are")


def _counted(count: int, noun: str, one: str, many: str) -> Iterator[str]:
    if count:
        yield f"1 {noun} {one}." if count == 1 else f"{count:,} {noun}s {many}."
