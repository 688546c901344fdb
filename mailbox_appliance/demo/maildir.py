"""The demo's mailboxes as Maildir++ folders on disk.

The SMTP server delivers to them, and the IMAP server serves them.
"""

import os
import uuid
from datetime import datetime
from pathlib import Path

#: Folders of a new mailbox in addition to INBOX, by their IMAP paths.
FOLDERS = ("Sent", "Drafts", "Trash", "Archive", "Junk", "Projects", "Projects/Lighthouse")


def make_mailbox(home: Path) -> None:
    """Create an empty mailbox in the folder `home`, with the usual folders such as Sent and Drafts."""
    for path in ("INBOX", *FOLDERS):
        for part in ("tmp", "new", "cur"):
            (_folder_path(home, path) / part).mkdir(mode=0o700, parents=True)


def add_message(home: Path, path: str, content: bytes, flags: str = "", at: datetime | None = None) -> None:
    """Add a message to a folder, byte for byte. `home`: the folder of the mailbox. `path`: the mail folder, such as
    `INBOX`.

    `flags` are Maildir's letters: S seen, F flagged, R answered, D draft; without any the message is new. `at` is the
    time of its arrival (IMAP's INTERNALDATE), by default now.
    """
    folder, name = _folder_path(home, path), uuid.uuid4().hex
    unfinished = folder / "tmp" / name
    unfinished.write_bytes(content)
    if at is not None:
        os.utime(unfinished, (at.timestamp(), at.timestamp()))
    unfinished.rename(folder / "cur" / f"{name}:2,{''.join(sorted(flags))}" if flags else folder / "new" / name)


def read_message(file: Path) -> bytes:
    """Return a stored message with the line ends that mail protocols require, CR LF (RFC 5322 2.1)."""
    return file.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _folder_path(home: Path, path: str) -> Path:
    return home if path == "INBOX" else home / ("." + path.replace("/", "."))
