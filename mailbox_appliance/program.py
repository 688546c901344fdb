"""This program as a child of itself, and other people's programs as its children.

Installed by pip it is a module of Python; as a bundle it is one file that is Python and program in one, which sets
LD_LIBRARY_PATH to libraries of its own: what we start of others must not load them.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: What a bundle sets for itself, and where it leaves what was there before (PyInstaller's run-time information).
_LIBRARIES, _ORIGINAL = "LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG"


def is_bundle() -> bool:
    """Whether this runs from a bundle and not from an installation of Python."""
    return bool(getattr(sys, "frozen", False))


def command(*arguments: str) -> list[str]:
    """The command line that runs this program with these arguments."""
    own = [sys.executable] if is_bundle() else [sys.executable, "-P", "-m", "mailbox_appliance"]
    return [*own, *arguments]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a child of ours finds this package, wherever it was started from."""
    if is_bundle():
        return dict(given)
    ours = str(Path(__file__).resolve().parents[1])
    paths = [ours, *filter(None, [given.get("PYTHONPATH")])]
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}


def environment_of_others(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that is not ours: without what a bundle needs for itself."""
    if not is_bundle():
        return dict(given)
    kept = {name: value for name, value in given.items() if name not in (_LIBRARIES, _ORIGINAL)}
    return kept | ({_LIBRARIES: given[_ORIGINAL]} if _ORIGINAL in given else {})
