"""The contents of a bundle on every system: modules that no import names, files, and exclusions."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Packages that find their plug-ins at run time, by their metadata or by the name of an entry point group.
METADATA, PLUG_INS = ("keyring", "opentelemetry-api"), ("pysasl.mechanism",)

_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}

#: Modules that PyInstaller would find but a bundle does not need.
EXCLUDED = (
    # Another GUI toolkit, development tools, and Python's tests.
    *("tkinter", "_tkinter", "turtle", "idlelib", "lib2to3", "test", "unittest", "doctest", "pdb", "pydoc_data"),
    *("ensurepip", "pip", "setuptools", "distutils", "venv", "pytest", "hypothesis", "numpy", "IPython", "rich"),
    # Unused parts of libraries: a server, models of an earlier release, plug-ins of type checkers.
    *("uvicorn", "mcp.cli", "pydantic.v1", "pydantic.mypy"),
    # A bundle with this module would load it at every start.
    "multiprocessing",
    # Line editing and databases under the GPL, which are not used.
    *("readline", "_gdbm", "_dbm", "_curses", "_curses_panel"),
)

#: Pillow draws the icons of packages; the tray icon needs it on Windows and macOS only.
EXCLUDED_ON_LINUX = ("PIL",)
TRAY: dict[str, tuple[str, ...]] = {
    "linux": (),
    "win32": ("pystray._base", "pystray._win32"),
    "darwin": ("pystray._base", "pystray._darwin"),
}


def analysis(platform: str) -> dict[str, Any]:
    """Return the arguments of PyInstaller's Analysis, except the script."""
    from PyInstaller.utils.hooks import collect_entry_point, copy_metadata

    described = [each for name in METADATA for each in copy_metadata(name)]
    plug_ins = [collect_entry_point(name) for name in PLUG_INS]
    # `optimize`: keep docstrings, which are texts of tools and commands, and asserts, which guard types.
    return {
        "datas": [*files(), *described, *(each for found, _ in plug_ins for each in found)],
        "hiddenimports": [*modules(platform), *(each for _, found in plug_ins for each in found)],
        "excludes": excluded(platform),
        "optimize": 0,
    }


def modules(platform: str) -> list[str]:
    """Return the modules that are imported only by name: all of our own, and the tray icon's for this platform."""
    own = [".".join(path.with_suffix("").parts) for path in _own_files() if path.suffix == ".py"]
    return [*(name.removesuffix(".__init__") for name in own), *TRAY[platform]]


def excluded(platform: str) -> list[str]:
    """Return the modules to exclude on this platform."""
    return [*EXCLUDED, *(EXCLUDED_ON_LINUX if platform == "linux" else ())]


def files() -> list[tuple[str, str]]:
    """Return each of our files that is not a module, with its folder in the bundle."""
    root = _root()
    found = [path for path in _own_files() if path.suffix not in (".py", ".typed")]
    return [(str(root.parent / path), str(path.parent)) for path in found]


def sources(found: Any) -> list[str]:
    """Return the paths of all files that PyInstaller's Analysis found, from which their licenses are found."""
    return sorted({source for _, source, _ in [*found.scripts, *found.pure, *found.binaries, *found.datas]})


def licences(found: Any, checkout: Path, work: Path) -> tuple[str, str, str]:
    """Write the licenses of all parts to a file and return it as an entry of the bundle."""
    from linux import licences as of_others

    file = work / "THIRD-PARTY.txt"
    text = of_others.text(checkout, map(Path, sources(found)), Path(sys.executable))
    file.write_text(text, "utf-8")
    return file.name, str(file), "DATA"


def without_lists_of_files(datas: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Remove files in which an installer records details of this computer or the folder of the build."""
    return [each for each in datas if not (".dist-info" in each[0] and Path(each[0]).name in _OF_INSTALLERS)]


def _root() -> Path:
    """Return the folder of the installed package."""
    found = importlib.util.find_spec("mailbox_appliance")
    assert found is not None  # it has just been installed
    assert found.origin is not None  # a regular package, not a namespace
    return Path(found.origin).parent


def _own_files() -> Iterator[Path]:
    root = _root()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root.parent)
