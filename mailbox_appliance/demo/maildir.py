"""Mailboxes as Maildir++ folders on disk: what the sample is put into, SMTP delivers to, and IMAP serves."""

import os
import uuid
from datetime import datetime
from pathlib import Path

#: Folders of a new mailbox besides INBOX, by their IMAP paths.
FOLDERS = ("Sent", "Drafts", "Trash", "Archive", "Junk", "Projects", "Projects/Lighthouse")


def make_mailbox(home: Path) -> None:
    """Make an empty mailbox with its folders."""
    for path in ("INBOX", *FOLDERS):
        for part in ("tmp", "new", "cur"):
            (_folder_path(home, path) / part).mkdir(mode=0o700, parents=True)


def add_message(home: Path, path: str, content: bytes, flags: str = "", at: datetime | None = None) -> None:
    """Put a message into a folder, byte for byte.

    `flags` are Maildir's letters: S seen, F flagged, R answered, D draft; without any it is new. `at` is the time of
    its arrival (IMAP's INTERNALDATE), now if not given.
    """
    folder, name = _folder_path(home, path), uuid.uuid4().hex
    unfinished = folder / "tmp" / name
    unfinished.write_bytes(content)
    if at is not None:
        os.utime(unfinished, (at.timestamp(), at.timestamp()))
    unfinished.rename(folder / "cur" / f"{name}:2,{''.join(sorted(flags))}" if flags else folder / "new" / name)


def read_message(file: Path) -> bytes:
    """The bytes of a stored message as they travel: lines end with CR LF (RFC 5322 2.1)."""
    return file.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _folder_path(home: Path, path: str) -> Path:
    return home if path == "INBOX" else home / ("." + path.replace("/", "."))
