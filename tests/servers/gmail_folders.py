"""What a mailbox of Gmail consists of: messages with labels, and folders that show them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Place = Literal["all", "trash", "spam"]
INBOX, SENT, IMPORTANT, STARRED, DRAFT = "\\Inbox", "\\Sent", "\\Important", "\\Starred", "\\Draft"
#: Labels that are a flag as well.
FLAG_OF = {STARRED: "\\Flagged", DRAFT: "\\Draft"}
#: Labels that are Gmail's own to give and take (developers.google.com/workspace/gmail/api/guides/labels).
FIXED = frozenset({SENT, DRAFT})
LABEL_OF = {flag: label for label, flag in FLAG_OF.items()}
SYSTEM = {name.lower(): name for name in (INBOX, SENT, IMPORTANT, STARRED, DRAFT)} | {"\\drafts": DRAFT}


@dataclass(eq=False)
class Letter:
    """A message. `uids`: what it is called in each folder that shows it."""

    number: int
    thread: int
    source: bytes = field(repr=False)
    date: datetime
    kept_flags: set[str]
    labels: set[str]
    place: Place | None
    modseq: int = 0
    #: The mod-sequence when its flags last changed; labels are no flags.
    flagged_at: int = 0
    uids: "dict[Folder, int]" = field(default_factory=dict, repr=False)

    def flags(self) -> frozenset[str]:
        return frozenset(self.kept_flags | {FLAG_OF[label] for label in self.labels & FLAG_OF.keys()})


@dataclass(eq=False)
class Folder:
    """A folder, and the messages that it shows by their UID, ascending."""

    path: str
    attribute: str
    label: str | None
    place: Place
    uidvalidity: int
    uidnext: int = 1
    modseq: int = 1
    members: dict[int, Letter] = field(default_factory=dict, repr=False)
    #: "Show in IMAP", in Gmail's settings.
    is_shown: bool = True

    def shows(self, letter: Letter) -> bool:
        """Whether a message is in here."""
        return letter.place == self.place and (self.label is None or self.label in letter.labels)
