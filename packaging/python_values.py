"""What Python tells of how it was built, without the folders of the computer that built it."""

import importlib
import sysconfig
from pathlib import Path

#: Where time zones are on every Unix, which `zoneinfo` asks for.
_OF_EVERY_COMPUTER = {"TZPATH"}


def put_into(folder: Path) -> str:
    """Write it as the module that `sysconfig` reads, for a bundle to take in the place of Python's own; the folder."""
    name: str = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    found = importlib.import_module(name).build_time_vars
    kept = {key: value for key, value in found.items() if key in _OF_EVERY_COMPUTER or "/" not in str(value)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(f"build_time_vars = {kept!r}\n")
    return str(folder)
