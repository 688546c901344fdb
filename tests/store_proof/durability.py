"""Whether what a rename brings into force is on the disk before it: read off the system calls of a run without a fault.

A power failure cannot be played here. What it may undo is what was not synced; so nothing that a rename gives its name
may be unsynced then, and each rename is synced itself before the end.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.store_proof.children import Step

_OPENED = re.compile(r"^\d+<([^>]*)>")
_NAMES = re.compile(r'"([^"]*)"')
_WRITING = frozenset(("write", "pwrite64", "ftruncate", "sendfile", "copy_file_range"))
#: What is made anew from the log whenever it is missing, and what says nothing that has to last.
_FLEETING = ("-shm", "/lock", "/run.json", "/setup-code", "-journal")


def unsynced(steps: Sequence[Step], folder: Path) -> list[str]:
    """What a power failure could undo or mix up; nothing, where all is well."""
    dirty: set[str] = set()  # files and folders with changes that are not on the disk
    gone: dict[str, str] = {}  # databases whose log was removed -> the folder, until that is synced
    told: list[str] = []
    for step in steps:
        if step.call in ("fsync", "fdatasync"):
            synced = _opened(step)
            dirty.discard(synced)
            gone = {name: parent for name, parent in gone.items() if parent != synced}
        elif step.call in _WRITING:
            dirty.add(_target(step))
        elif step.call in ("rename", "renameat", "renameat2"):
            old, new = _NAMES.findall(step.text)[:2]
            told += _at_rename(old, new, dirty)
            told += [f"the log of {new} may still be there when another file becomes it"] if new in gone else []
            dirty = {new + name.removeprefix(old) if name.startswith(old) else name for name in dirty}
            dirty.add(str(Path(new).parent))
        elif step.call == "unlink":
            (name,) = _NAMES.findall(step.text)
            dirty.discard(name)
            if name.endswith("-wal"):  # beside another database it would be taken for that one's
                gone[name.removesuffix("-wal")] = str(Path(name).parent)
    return told + ([f"the names in {folder} are not synced"] if str(folder) in dirty else [])


def _opened(step: Step) -> str:
    found = _OPENED.match(step.text)
    return found[1] if found else ""


def _target(step: Step) -> str:
    if step.call == "copy_file_range":
        return re.findall(r"\d+<([^>]*)>", step.text)[-1]
    return _opened(step)


def _at_rename(old: str, new: str, dirty: set[str]) -> list[str]:
    below = [name for name in sorted(dirty) if name == old or name.startswith(f"{old}/")]
    return [f"{name} is not synced when it becomes {new}" for name in below if not name.endswith(_FLEETING)]
