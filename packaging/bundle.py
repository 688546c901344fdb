"""The bundle by PyInstaller: one folder, one file, and where what is in them came from."""

import importlib.util
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class CannotBuild(Exception):
    """Something that a build needs is not here; the text says what to do."""


@dataclass(frozen=True)
class Parts:
    """What was made; None where it was not asked for. `sources`: every file that went in, where it was found."""

    folder: Path | None
    file: Path | None
    sources: tuple[Path, ...]


def check_tools() -> None:
    """Raise CannotBuild where something of the system is missing: before minutes are spent on what it would end."""
    if missing := [name for name in ("objdump", "strip", "ldd") if shutil.which(name) is None]:
        raise CannotBuild(f"{', '.join(missing)} is missing; on Debian: apt-get install binutils libc-bin")
    if importlib.util.find_spec("ensurepip") is None:
        raise CannotBuild("this Python cannot make environments; on Debian: apt-get install python3-venv libpython3.11")


def make(root: Path, scratch: Path, python: Path, *, folder: bool, one_file: bool) -> Parts:
    """Run PyInstaller on what is installed in the environment of this Python."""
    made, work = scratch / "bundle", scratch / "pyinstaller"
    shutil.rmtree(made, ignore_errors=True)
    told = ("--noconfirm", "--log-level", "ERROR", "--distpath", str(made), "--workpath", str(work))
    subprocess.run(
        [str(python), "-m", "PyInstaller", *told, str(root / "packaging" / "mailbox-appliance.spec")],
        check=True,
        env=_environment(scratch, folder=folder, one_file=one_file),
        capture_output=True,
        text=True,
    )
    sources = json.loads((work / "mailbox-appliance" / "sources.json").read_text())
    return Parts(
        made / "mailbox-appliance" if folder else None,
        made / "mailbox-appliance-one-file" if one_file else None,
        tuple(map(Path, sources)),
    )


def _environment(scratch: Path, *, folder: bool, one_file: bool) -> dict[str, str]:
    forms = ["folder"] * folder + ["file"] * one_file
    return {
        "PATH": os.environ["PATH"],
        "SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"],
        "MAILBOX_APPLIANCE_FORMS": ",".join(forms),
        "PYINSTALLER_CONFIG_DIR": str(scratch / "pyinstaller-cache"),
        # Sets are written in the order of their hashes.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        # pystray would look for a display when PyInstaller asks it for its modules.
        "PYSTRAY_BACKEND": "dummy",
        "LC_ALL": "C.UTF-8",
    }
