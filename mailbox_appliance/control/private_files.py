"""Small JSON files that only their owner may read, replaced whole: a reader sees the old one or the new one."""

import json
import os
from pathlib import Path
from typing import Any

from mailbox_appliance.control.failures import INTERNAL, Failure
from mailbox_appliance.system import ownership
from mailbox_appliance.system.files import replace_file

_LARGEST = 1024 * 1024


def read(file: Path) -> dict[str, Any]:
    """The object in the file; an empty one where there is no file. A damaged file is a Failure that names it."""
    try:
        with file.open("rb") as stream:
            value = json.loads(stream.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _damaged(file) from error
    if not isinstance(value, dict):
        raise _damaged(file)
    return value


def write(file: Path, value: dict[str, Any]) -> None:
    """Replace the file, readable by its owner alone (0600; folders that are made here 0700)."""
    ownership.make_folder(file.parent)
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # made with 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=2)
            stream.flush()
            os.fsync(stream.fileno())
        replace_file(Path(name), file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _damaged(file: Path) -> Failure:
    return Failure("local_file_damaged", f"{file} is damaged. Mend it, or delete it and log in again.", INTERNAL)
