"""Python's build configuration, without the folders of the machine that built it."""

import importlib
import sysconfig
from pathlib import Path

#: Values to keep in any case: TZPATH, the folders of time zones on every Unix, is needed by `zoneinfo`.
_OF_EVERY_COMPUTER = {"TZPATH"}


def put_into(folder: Path) -> str:
    """Write the values as the module that `sysconfig` reads, to replace Python's own in a bundle; return the folder."""
    name: str = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    found = importlib.import_module(name).build_time_vars
    kept = {key: value for key, value in found.items() if key in _OF_EVERY_COMPUTER or "/" not in str(value)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(f"build_time_vars = {kept!r}\n")
    return str(folder)
