"""Starts child processes: this program, and foreign programs such as a browser. Prepares their environment.

Installed by pip, this program is a Python module. As a PyInstaller bundle it contains Python. A bundle sets
LD_LIBRARY_PATH to its own libraries, which other programs must not load. A one-file bundle is unpacked when it starts
and removed when it ends; its children use the unpacked files unless a variable makes them unpack their own.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: The variable that a bundle sets, and the one in which it keeps the previous value (PyInstaller's run-time
#: information).
_LIBRARIES, _ORIGINAL = "LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG"
#: The prefix of variables that tell children where a bundle is unpacked, and the variable that makes a child unpack its
#: own.
BUNDLE_PREFIX, _DETACHED = "_PYI_", "PYINSTALLER_RESET_ENVIRONMENT"
#: Endings of our variables that hold a secret, such as MAILBOX_APPLIANCE_TOKEN. A link is one: it signs in anyone who
#: has it.
_SECRET_ENDINGS = ("TOKEN", "PASSPHRASE", "PASSWORD", "SECRET", "LINK")
#: For subprocess on Windows: a child process has no window, even if its parent has none.
NO_WINDOW = 0x0800_0000 if sys.platform == "win32" else 0


def is_bundle() -> bool:
    """Whether this process runs from a PyInstaller bundle, not from an installation of Python."""
    return bool(getattr(sys, "frozen", False))


def is_bundle_replaced() -> bool:
    """Whether the file of this bundle was replaced or deleted, so that its libraries may be missing or of another
    release.

    Detected only on systems with /proc. Python modules can still be imported in any case (packaging/launch.py).
    """
    try:
        return is_bundle() and Path("/proc/self/exe").readlink().name.endswith(" (deleted)")
    except OSError:
        return False


def own_command(*arguments: str) -> list[str]:
    """Return the command line that runs this program with these arguments."""
    own = [_bundled_program(sys.executable)] if is_bundle() else [sys.executable, "-P", "-m", "mailbox_appliance"]
    return [*own, *arguments]


def _bundled_program(executable: str) -> str:
    """Return the program with which a bundle starts itself as a child process. `executable`: the program that runs now.

    On Windows these differ for the tray, which is a separate program without a console.
    """
    other = Path(executable).with_name(Path(executable).name.replace("-tray.exe", ".exe"))
    return str(other) if other.is_file() else executable


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process that runs this program. `given`: the environment to start from."""
    if is_bundle():  # the child sets its libraries again and needs the previous value
        return _without_bundle_libraries(given)
    ours = str(Path(__file__).resolve().parents[2])
    paths = [ours, *filter(None, [given.get("PYTHONPATH")])]
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}


def detached_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process that runs this program and outlives this process."""
    return child_environment(given) | ({_DETACHED: "1"} if is_bundle() else {})


def foreign_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a foreign program: without the appliance's secrets and the variables of a bundle."""
    kept = {name: value for name, value in given.items() if not _is_secret_variable(name)}
    if not is_bundle():
        return kept
    return {
        name: value for name, value in _without_bundle_libraries(kept).items() if not name.startswith(BUNDLE_PREFIX)
    }


def _is_secret_variable(variable: str) -> bool:
    return variable.startswith("MAILBOX_APPLIANCE_") and variable.endswith(_SECRET_ENDINGS)


def _without_bundle_libraries(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the value that LD_LIBRARY_PATH had before the bundle changed it."""
    kept = {name: value for name, value in given.items() if name not in (_LIBRARIES, _ORIGINAL)}
    return kept | ({_LIBRARIES: given[_ORIGINAL]} if _ORIGINAL in given else {})
