"""Labels of a server with X-GM-EXT-1: their names, and which folder shows which label.

A message lies once in the folder of all mail, in spam, or in trash. Every other folder shows those that have a label.
Two labels are flags as well (`\\Draft`, `\\Flagged`), and are kept as these.
(developers.google.com/workspace/gmail/imap/imap-extensions, "Access to the Gmail labels")
"""

import unicodedata
from collections.abc import Iterable

from mailbox_appliance.model.records import ListedFolder

INBOX, SENT, IMPORTANT = "\\Inbox", "\\Sent", "\\Important"
#: Labels that are flags, by their name in lower case.
FLAGS = {"\\draft": "\\Draft", "\\drafts": "\\Draft", "\\starred": "\\Flagged"}
#: Labels of the system, by their name in lower case: no user can make, name, add or remove one as a label.
SYSTEM = {name.lower(): name for name in (INBOX, SENT, IMPORTANT, "\\Muted", "\\Trash", "\\Spam")}
_ALL = "\\all"
#: What people call those, and the folders that show them: no label of a user has such a name, whatever its case.
_TAKEN = frozenset({*FLAGS, *(name.lstrip("\\") for name in (*FLAGS, *SYSTEM)), "unread", "all mail", "chats"})
#: $Forwarded says what was done with a message (RFC 9051 2.3.2), and is kept as a flag.
_KEYWORD = "$forwarded"
_OWN_FOLDERS = ("[gmail]", "[google mail]")
MAX_NAME = 1000  # characters
_PROPER = frozenset({_ALL, "\\junk", "\\trash"})
_BY_ATTRIBUTE = {"\\sent": SENT, "\\drafts": "\\Draft", "\\flagged": "\\Flagged", "\\important": IMPORTANT}


def canonical(label: str) -> str:
    """A label as it is kept among the flags: one of the system in one spelling, that of a user as it is."""
    lowered = label.lower()
    return FLAGS.get(lowered) or SYSTEM.get(lowered) or label


def is_of_user(flag: str) -> bool:
    """Whether a flag that is kept is a label that people made, and see."""
    return not flag.startswith("\\")


def is_nameable(label: str) -> bool:
    """Whether people may call a label so, to add it to messages or to take it away."""
    lowered = label.strip().lower()
    is_own = lowered in _TAKEN or lowered == _KEYWORD or lowered.startswith(("\\", *_OWN_FOLDERS))
    return bool(lowered) and not is_own and len(label) <= MAX_NAME and not any(map(_is_control, label))


def _is_control(character: str) -> bool:
    # Joiners, soft hyphens and wide spaces belong to the words of many languages.
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def label_of(folder: ListedFolder) -> str | None:
    """The label that a folder of such a server shows; None for one in which messages lie."""
    if folder.attributes & _PROPER:
        return None
    if folder.path.upper() == "INBOX":
        return INBOX
    return next((label for name, label in _BY_ATTRIBUTE.items() if name in folder.attributes), folder.path)


def home_of(listed: Iterable[ListedFolder]) -> str | None:
    """The path of the folder in which all messages lie that are neither spam nor trash; None where it is hidden."""
    return next((folder.path for folder in listed if _ALL in folder.attributes), None)
