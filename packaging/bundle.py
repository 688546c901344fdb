"""The PyInstaller bundle: one folder, one file, and the sources of their contents."""

import importlib.util
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class CannotBuild(Exception):
    """A missing requirement of the build; the text names the next step."""


@dataclass(frozen=True)
class Parts:
    """The built parts, None for those not requested. `sources`: the paths of all files that went into them."""

    folder: Path | None
    file: Path | None
    sources: tuple[Path, ...]


def check_tools() -> None:
    """Raise CannotBuild if a system tool is missing, before a build that would fail after minutes."""
    if missing := [name for name in ("objdump", "strip", "ldd") if shutil.which(name) is None]:
        raise CannotBuild(f"{', '.join(missing)} is missing; on Debian: apt-get install binutils libc-bin")
    if importlib.util.find_spec("ensurepip") is None:
        raise CannotBuild("this Python cannot make environments; on Debian: apt-get install python3-venv libpython3.11")


def make(root: Path, scratch: Path, python: Path, *, folder: bool, one_file: bool) -> Parts:
    """Run PyInstaller in the environment of this Python; return the built parts."""
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
        # Makes the order of sets reproducible.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }
