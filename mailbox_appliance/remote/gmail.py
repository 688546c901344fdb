"""Labels over IMAP, where a server has X-GM-EXT-1: how they are asked for, told, and written. Pure.

A FETCH answer of such a server, and what is kept of it:

    * 7 FETCH (X-GM-THRID 1 X-GM-MSGID 2 X-GM-LABELS ("\\\\Inbox" "a b" &AOk-) UID 5 FLAGS (\\Seen $Phishing))
    -> \\Seen \\Inbox `a b` é            other keywords than `$Forwarded` would be taken for labels, and are left out

(developers.google.com/workspace/gmail/imap/imap-extensions: the ids are 64-bit numbers, which never change; a label is
an ASTRING in modified UTF-7. Seen in practice: labels of the system come quoted, while the page has them as atoms.)
"""

import dataclasses
import functools
from collections.abc import Collection, Iterable

from imapclient import imap_utf7

from mailbox_appliance.mail import labels
from mailbox_appliance.model.records import ListedFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_lexer import Reader, Value
from mailbox_appliance.remote.imap_values import folder_path, quoted

#: The capability by which a server says that it has labels.
EXTENSION = "X-GM-EXT-1"
#: What FETCH is asked for besides flags, and what tells a message and its thread for good.
LABELS, IDENTITY = "X-GM-LABELS", "X-GM-MSGID X-GM-THRID"

MAX_LABELS = 1000  # of one message
_CACHED = 512  # bytes of labels, at most, whose set is kept
_FLAGS = ("\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft", "$Forwarded")
_KEPT = {flag.lower(): flag for flag in _FLAGS}


def label_set(written: bytes) -> frozenset[str]:
    """The labels of a list as it was written, without one that we have no way to name. Raises ValueError."""
    # In a mailbox of 100,000 messages a few hundred sets come again and again.
    return _cached_labels(written) if len(written) <= _CACHED else _labels(written)


def _labels(written: bytes) -> frozenset[str]:
    return read_labels(Reader([written], 0).read_value())


_cached_labels = functools.lru_cache(maxsize=4096)(_labels)


def read_labels(told: Value) -> frozenset[str]:
    """As `label_set`, of a list that was read already."""
    if not isinstance(told, list):
        raise ValueError("labels are no list")
    found = sorted({labels.canonical(name) for name in map(folder_path, told) if name is not None}, key=_rank)
    return frozenset(found[:MAX_LABELS])


def _rank(label: str) -> tuple[bool, str]:
    """Those of the system first: they say where a message is shown."""
    return labels.is_of_user(label), label


@functools.lru_cache(maxsize=4096)
def kept(flags: frozenset[str], told: frozenset[str]) -> frozenset[str]:
    """The flags and labels that are kept of a message."""
    return told.union(_KEPT[flag.lower()] for flag in flags if flag.lower() in _KEPT)


def labels_in(flags: Iterable[str]) -> frozenset[str]:
    """The labels among what is kept of a message, or is to be changed in it; the rest are flags."""
    return frozenset(flag for flag in flags if flag.lower() not in _KEPT)


def label_list(names: Collection[str]) -> str:
    """Labels as a list. Raises RemoteFault (`unsupported`) for one of the system that there is not."""
    return f"({' '.join(map(_written, sorted(names)))})"


def _written(label: str) -> str:
    if labels.is_of_user(label):
        return quoted(imap_utf7.encode(label).decode("ascii"))
    if label.lower() not in labels.SYSTEM:
        reason = "A label must not begin with a backslash: that is how the server writes its own. Choose another name."
        raise RemoteFault("imap", "unsupported", reason)
    return label


def with_label(folder: ListedFolder) -> ListedFolder:
    """A folder with the label that it shows, if it shows one."""
    return dataclasses.replace(folder, label=labels.label_of(folder))
