"""Child processes: this program, and those of others.

Installed by pip it is a module of Python. As a bundle (PyInstaller's) it is Python and program in one. That sets
LD_LIBRARY_PATH to libraries of its own: what we start of others must not load them. A bundle of one file is unpacked
at its start and removed at its end; its children use what is unpacked, unless they are told to unpack their own.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: What a bundle sets for itself, and where it leaves what was there before (PyInstaller's run-time information).
_LIBRARIES, _ORIGINAL = "LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG"
#: How it tells its children where it is unpacked, and how one is told to unpack its own.
BUNDLE_PREFIX, _DETACHED = "_PYI_", "PYINSTALLER_RESET_ENVIRONMENT"
#: How those of our variables end that hold a secret, as MAILBOX_APPLIANCE_TOKEN does; a link lets in who has it.
_SECRET_ENDINGS = ("TOKEN", "PASSPHRASE", "PASSWORD", "SECRET", "LINK")
#: For subprocess on Windows: a child of ours has no window, whatever there is of its parent's.
NO_WINDOW = 0x0800_0000 if sys.platform == "win32" else 0


def is_bundle() -> bool:
    """Whether this runs from a bundle and not from an installation of Python."""
    return bool(getattr(sys, "frozen", False))


def is_bundle_replaced() -> bool:
    """Whether the file of this bundle is another one by now, or none: its libraries then may be of that one, or gone.

    Told where there is a /proc. Modules are found all the same (packaging/launch.py).
    """
    try:
        return is_bundle() and Path("/proc/self/exe").readlink().name.endswith(" (deleted)")
    except OSError:
        return False


def own_command(*arguments: str) -> list[str]:
    """The command line that runs this program with these arguments."""
    own = [_bundled_program(sys.executable)] if is_bundle() else [sys.executable, "-P", "-m", "mailbox_appliance"]
    return [*own, *arguments]


def _bundled_program(executable: str) -> str:
    """The program of a bundle. On Windows the tray is one of its own, without a console: children are the other one."""
    other = Path(executable).with_name(Path(executable).name.replace("-tray.exe", ".exe"))
    return str(other) if other.is_file() else executable


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a child of ours finds this package, wherever it was started from."""
    if is_bundle():  # it finds its libraries anew, and so knows what was there before
        return _without_bundle_libraries(given)
    ours = str(Path(__file__).resolve().parents[2])
    paths = [ours, *filter(None, [given.get("PYTHONPATH")])]
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}


def detached_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The same for a child that goes on when this process has ended."""
    return child_environment(given) | ({_DETACHED: "1"} if is_bundle() else {})


def foreign_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that is not ours: without our secrets, and what a bundle needs for itself."""
    kept = {name: value for name, value in given.items() if not _is_secret_variable(name)}
    if not is_bundle():
        return kept
    return {
        name: value for name, value in _without_bundle_libraries(kept).items() if not name.startswith(BUNDLE_PREFIX)
    }


def _is_secret_variable(variable: str) -> bool:
    return variable.startswith("MAILBOX_APPLIANCE_") and variable.endswith(_SECRET_ENDINGS)


def _without_bundle_libraries(given: Mapping[str, str]) -> dict[str, str]:
    """With LD_LIBRARY_PATH as it was before the bundle set its own."""
    kept = {name: value for name, value in given.items() if name not in (_LIBRARIES, _ORIGINAL)}
    return kept | ({_LIBRARIES: given[_ORIGINAL]} if _ORIGINAL in given else {})
