"""Functions shared by the commands about backups: recognize a backup's ID, find its file, and describe it."""

import os
import re
from pathlib import Path
from typing import Any

from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.output import one_line
from mailbox_appliance.client.errors import INPUT, Failure
from mailbox_appliance.system import files

_LONGEST_SHOWN = 200
_FOLDER = "backups"
_ID = re.compile(r"bak_[0-9a-z]+")


def is_backup_id(name: str) -> bool:
    """Whether the text is the ID of a backup in the data directory (`bak_1`) rather than a file name (`./bak_1`)."""
    return _ID.fullmatch(name) is not None


def resolve_backup_file(invocation: Invocation, name: str) -> Path:
    """Return the path of a backup file. `name`: a path, or the bare name of a file in `backups/`, as `backup list`
    shows it.

    Raises Failure if the file is missing, unreadable or not a regular file.
    """
    file = Path(name).expanduser().absolute()
    among_them = invocation.data_directory() / _FOLDER / name
    if Path(name).name == name and not os.path.lexists(file) and os.path.lexists(among_them):
        file = among_them
    shown = one_line(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}...")
    try:
        os.close(files.open_regular(file))
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "`backup list` shows the IDs of backups, which start with bak_, and their file names."
        raise Failure("invalid_request", f"No file {shown} exists. {hint}", INPUT) from error
    except OSError as error:
        if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - never raise
            raise Failure("not_a_backup", f"{shown} is not a backup: it is not a regular file.", INPUT) from error
        raise Failure("invalid_request", f"{shown} cannot be read: {error.strerror}.", INPUT) from error
    return file


def summary_sentence(answer: Any) -> str:
    """Return a sentence about a verified backup: whether it is usable, and the members, mailboxes and messages in
    it.
    """
    told = answer["data"]
    if not told["ok"]:
        return "The files match the backup, but they are not a usable store.\n"
    nouns = {"member": "members", "account": "mailboxes", "message": "messages"}
    counts = ", ".join(_count_text(told[f"{noun}s"], noun, plural) for noun, plural in nouns.items())
    return f"The backup is intact and holds {counts}.\n"


def _count_text(count: int, noun: str, plural: str) -> str:
    one = "mailbox" if noun == "account" else noun
    return f"{count:,} {one if count == 1 else plural}"
