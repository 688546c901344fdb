"""A clean environment for building bundles: exactly the locked packages, and this checkout as a wheel.

PyInstaller includes everything it can import, so there must be no development packages.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

LOCK = "requirements-package.lock"
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_PINNED = re.compile(r"^([a-z0-9-]+)==([^ ]+)(?: ; (.*?))? \\$", re.MULTILINE)
#: Files and folders that the wheel is built from.
_SOURCES = ("mailbox_appliance", "pyproject.toml", "README.md", "LICENSE")
_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")


class CannotBuild(Exception):
    """A missing requirement of the build; the text names the next step."""


def version_of(root: Path) -> str:
    """Return the version of a checkout."""
    found = _VERSION.search((root / "mailbox_appliance" / "version.py").read_text("utf-8"))
    if found is None:
        raise CannotBuild("mailbox_appliance/version.py has no version.")
    return found[1]


def make(root: Path, scratch: Path, version: str, *, packages_of: Path | None = None) -> Path:
    """Create or update the environment below `scratch`; return the path of its Python."""
    folder = scratch / "environment"
    wanted = _stamp(root, packages_of)
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        python = _empty(folder, with_pip=packages_of is None)
        _fill(root, python, packages_of)
        stamp.write_text(wanted)
    python = folder / "bin" / "python"
    _put_ours(_wheel(root, scratch, python, version), python)
    return python


def _stamp(root: Path, packages_of: Path | None) -> str:
    lock = hashlib.sha256((root / LOCK).read_bytes()).hexdigest()
    return f"{lock} {sys.version} {sys.base_prefix} {packages_of}"


def _empty(folder: Path, *, with_pip: bool) -> Path:
    options = [] if with_pip else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", *options, folder], check=True, capture_output=True, text=True)
    return folder / "bin" / "python"


def _fill(root: Path, python: Path, packages_of: Path | None) -> None:
    if packages_of is not None:
        _take_over(root, packages_of, python)
    else:
        wheels_only = ("--only-binary", ":all:", "--require-hashes", "--requirement")
        subprocess.run([python, *_PIP, *wheels_only, root / LOCK], check=True, capture_output=True, text=True)


def _take_over(root: Path, packages_of: Path, python: Path) -> None:
    """Link the locked packages from another environment, which must have the same versions."""
    target = _site_packages(python.parents[1])
    there = {_normal(each.name): each for each in distributions(path=[str(_site_packages(packages_of))])}
    for name, version in _locked(root):
        if name not in there or there[name].version != version:
            raise CannotBuild(f"{packages_of} lacks {name} {version}. Run scripts/setup.")
        for source, place in _files(there[name], target):
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(source, place)


def _locked(root: Path) -> Iterator[tuple[str, str]]:
    """Yield names and versions of the locked packages for this system."""
    from packaging.markers import Marker  # installed in the test environment; a plain build does not need it

    for name, version, marker in _PINNED.findall((root / LOCK).read_text()):
        if not marker or Marker(marker).evaluate():
            yield name, version


def _files(distribution: Distribution, target: Path) -> Iterator[tuple[Path, Path]]:
    for file in distribution.files or []:
        # Programs (../../../bin) are not used, and compiled modules are created again.
        if ".." not in file.parts and file.suffix != ".pyc":
            yield Path(str(file.locate())), target / file


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError:  # another file system
        shutil.copy2(source, place)


def _site_packages(folder: Path) -> Path:
    return next(folder.glob("lib/python3*/site-packages"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _wheel(root: Path, scratch: Path, python: Path, version: str) -> Path:
    """Build a wheel of the checkout under this version; return its path."""
    sources, wheels = scratch / "sources", scratch / "wheel"
    for folder in (sources, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    sources.mkdir(parents=True)
    for name in _SOURCES:
        _copy(root / name, sources / name)
    if version != version_of(sources):
        (sources / "mailbox_appliance" / "version.py").write_text(f'"""Of a test."""\n\n__version__ = "{version}"\n')
    command = [str(python), "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(command, check=True, cwd=sources, capture_output=True, text=True)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _put_ours(wheel: Path, python: Path) -> None:
    """Unpack the wheel into the environment. It is pure Python, and its programs are not used."""
    target = _site_packages(python.parents[1])
    for old in (*target.glob("mailbox_appliance-*.dist-info"), target / "mailbox_appliance"):
        shutil.rmtree(old, ignore_errors=True)
    shutil.unpack_archive(wheel, target, "zip")
