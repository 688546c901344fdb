"""Other people's programs that do what we do: mbsync (isync) fetches, notmuch indexes and searches."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import LeftOut

_MBSYNC = """
FSync no
IMAPAccount a
Host 127.0.0.1
Port {port}
User {user}
Pass {password}
SSLType None
AuthMechs LOGIN
IMAPStore r
Account a
MaildirStore l
Path {folder}/
Inbox {folder}/INBOX
SubFolders Verbatim
Channel c
Far :r:
Near :l:
Patterns INBOX
Create Near
Sync Pull
CopyArrivalDate yes
SyncState *
"""

_OPERATOR = re.compile(r"\b(and|or|not|xor|near|adj)\b(?![:*])", re.IGNORECASE)


def need(*programs: str) -> None:
    """Raises LeftOut where one of them is not there."""
    if missing := [program for program in programs if shutil.which(program) is None]:
        raise LeftOut(f"{', '.join(missing)} not installed: run scripts/setup --bench")


def mbsync(folder: Path, port: int, user: str, password: str) -> float:
    """Fetch the INBOX into a Maildir `folder`/INBOX that is not there yet; the seconds that took."""
    folder.mkdir()
    file = folder.with_suffix(".rc")
    values = {"port": port, "user": user, "password": password, "folder": folder}
    file.write_text("\n".join(_parted(_MBSYNC.format(**values))))
    return _seconds(("mbsync", "-c", str(file), "-q", "c"))


def notmuch_new(folder: Path) -> float:
    """Index what lies below a folder for the first time; the seconds that took."""
    _write_configuration(folder)
    return _seconds(("notmuch", "new", "--quiet"), folder)


def notmuch_search(folder: Path, query: str) -> tuple[float, int]:
    """The newest 50 messages that a query finds: the seconds that took, from the start of the process, and how many."""
    command = ("notmuch", "search", "--output=messages", "--sort=newest-first", "--limit=50", as_words(query))
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment(folder))
    return time.perf_counter() - began, len(done.stdout.splitlines())


def as_words(query: str) -> str:
    """A query of notmuch in which its operators are the words that they are in mail. Phrases have none."""
    return query if '"' in query else _OPERATOR.sub(r'"\1"', query)


def notmuch_count(folder: Path, query: str) -> int:
    """How many messages a query finds."""
    command = ("notmuch", "count", query)
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=_environment(folder)).stdout)


def _write_configuration(folder: Path) -> None:
    text = (
        f"[database]\npath={folder}\n[user]\nname=Ada\nprimary_email=ada@example.test\n"
        "[new]\ntags=unread\n[search]\nexclude_tags=\n[maildir]\nsynchronize_flags=false\n"
    )
    (folder / ".notmuch-config").write_text(text)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "NOTMUCH_CONFIG": str(folder / ".notmuch-config")}


def _seconds(command: Sequence[str], folder: Path | None = None) -> float:
    environment = None if folder is None else _environment(folder)
    began = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return took


def _parted(text: str) -> list[str]:
    """mbsync wants an empty line before each section."""
    sections = ("IMAPAccount", "IMAPStore", "MaildirStore", "Channel")
    return [("\n" if line.startswith(sections) else "") + line for line in text.strip().splitlines()]
