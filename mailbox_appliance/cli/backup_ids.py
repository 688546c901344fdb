"""What the commands about backups share: how a backup is named, and how it is described."""

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
    """Whether this is the id of a backup in the data directory, and not the name of a file (`./bak_1` is one)."""
    return _ID.fullmatch(name) is not None


def resolve_backup_file(invocation: Invocation, name: str) -> Path:
    """The file that is named as a backup; one in `backups/` also by its name alone, as `backup list` has it.

    A Failure says why there is none: not there, not to be read, no file.
    """
    file = Path(name).expanduser().absolute()
    among_them = invocation.data_directory() / _FOLDER / name
    if Path(name).name == name and not os.path.lexists(file) and os.path.lexists(among_them):
        file = among_them
    shown = one_line(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}...")
    try:
        os.close(files.open_regular(file))
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "`backup list` has the ids of backups, which begin with bak_, and the names of their files."
        raise Failure("invalid_request", f"There is no file {shown}. {hint}", INPUT) from error
    except OSError as error:
        if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - never raise
            raise Failure("not_a_backup", f"{shown} is no backup: it is not even a regular file.", INPUT) from error
        raise Failure("invalid_request", f"{shown} cannot be read: {error.strerror}.", INPUT) from error
    return file


def summary_sentence(answer: Any) -> str:
    """A summary as a sentence."""
    told = answer["data"]
    if not told["ok"]:
        return "The files are as they were; no store opens with them.\n"
    counts = ", ".join(_count_text(told[f"{noun}s"], noun) for noun in ("member", "account", "message"))
    return f"It is whole, and holds {counts}.\n"


def _count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
