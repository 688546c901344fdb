"""The sample mail of the demo: the messages in the folder `letters`, with dates relative to now.

Each file is a message whose Date is its age. Its directory is the mail folder, and its name holds the flags of Maildir:
`letters/Archive/contract.SF.eml` is seen and flagged.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from mailbox_appliance.demo import maildir

#: Addresses of the owner of the sample mailbox and of a colleague who has one too.
OWNER_EMAIL, COLLEAGUE_EMAIL = "demo@demo.test", "mira@demo.test"
_FOLDER = Path(__file__).with_name("letters")
_AGE = re.compile(rb"^Date: ([0-9.]+) hours ago", re.MULTILINE)


@dataclass(frozen=True)
class Letter:
    """A sample message and its mail folder. `flags`: letters of Maildir, such as S for seen."""

    folder: str
    flags: str
    #: The message, with its age in the place of its date.
    source: bytes

    def sent_at(self, now: datetime) -> datetime:
        """Return the date of the message. `now`: the time from which its age counts."""
        age = _AGE.search(self.source)
        assert age is not None  # noqa: S101 - a test reads each file
        return now.replace(microsecond=0) - timedelta(hours=float(age[1]))

    def content(self, now: datetime) -> bytes:
        """Return the message with its date. `now`: the time from which its age counts."""
        return _AGE.sub(f"Date: {format_datetime(self.sent_at(now))}".encode(), self.source, count=1)


def list_letters() -> list[Letter]:
    """Return all messages of the owner's mailbox."""
    return [
        Letter(
            file.parent.relative_to(_FOLDER).as_posix(),
            file.name.removesuffix(".eml").partition(".")[2],
            maildir.read_message(file),
        )
        for file in sorted(_FOLDER.rglob("*.eml"))
    ]


def fill_mailboxes(folder: Path, now: datetime | None = None) -> None:
    """Create two mailboxes in the folder: the owner's with all sample mail, and an empty one of a colleague.

    `now`: the time from which the age of messages counts, by default the current one.
    """
    now = now or datetime.now(UTC)
    for email in (OWNER_EMAIL, COLLEAGUE_EMAIL):
        maildir.make_mailbox(folder / email)
    for letter in list_letters():
        maildir.add_message(folder / OWNER_EMAIL, letter.folder, letter.content(now), letter.flags, letter.sent_at(now))
