"""What goes into a bundle, on every system: modules that no import names, files, and what stays out."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Packages that look for plug-ins while they run (and find their own): by their description, or by the name of a group.
METADATA, PLUG_INS = ("keyring", "opentelemetry-api"), ("pysasl.mechanism",)

_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}

#: Modules that would be found, and that nobody needs in a bundle.
EXCLUDED = (
    # Windows of another toolkit, development, and the tests of Python.
    *("tkinter", "_tkinter", "turtle", "idlelib", "lib2to3", "test", "unittest", "doctest", "pdb", "pydoc_data"),
    *("ensurepip", "pip", "setuptools", "distutils", "venv", "pytest", "hypothesis", "numpy", "IPython", "rich"),
    # Parts of libraries that are for others: a server of their own, models of an earlier release, plug-ins of checkers.
    *("uvicorn", "mcp.cli", "pydantic.v1", "pydantic.mypy"),
    # Whoever has it in a bundle loads it at every start, whatever is asked for.
    "multiprocessing",
    # Line editing and databases under the GPL, which nothing here uses.
    *("readline", "_gdbm", "_dbm", "_curses", "_curses_panel"),
)

#: The icon has a way of its own on Linux; GTK would make the bundle three times as large.
EXCLUDED_ON_LINUX = ("PIL", "Xlib", "gi", "pystray._xorg", "pystray._gtk", "pystray._appindicator")
TRAY = {
    "linux": ("pystray._base", "pystray._dummy"),
    "win32": ("pystray._base", "pystray._win32"),
    "darwin": ("pystray._base", "pystray._darwin"),
}


def analysis(platform: str) -> dict[str, Any]:
    """The arguments of PyInstaller's Analysis, besides the script."""
    from PyInstaller.utils.hooks import collect_entry_point, copy_metadata

    described = [each for name in METADATA for each in copy_metadata(name)]
    plug_ins = [collect_entry_point(name) for name in PLUG_INS]
    # Docstrings stay (`optimize`): they are the help of commands and the descriptions of tools. Asserts guard types.
    return {
        "datas": [*files(), *described, *(each for found, _ in plug_ins for each in found)],
        "hiddenimports": [*modules(platform), *(each for _, found in plug_ins for each in found)],
        "excludes": excluded(platform),
        "optimize": 0,
    }


def modules(platform: str) -> list[str]:
    """What is imported by name only: all of ours, and what shows the icon on this platform."""
    own = [".".join(path.with_suffix("").parts) for path in _own_files() if path.suffix == ".py"]
    return [*(name.removesuffix(".__init__") for name in own), *TRAY[platform]]


def excluded(platform: str) -> list[str]:
    """What stays out on this platform."""
    return [*EXCLUDED, *(EXCLUDED_ON_LINUX if platform == "linux" else ())]


def files() -> list[tuple[str, str]]:
    """Each file of ours that is no module, and the folder it lies in inside the bundle."""
    root = _root()
    found = [path for path in _own_files() if path.suffix not in (".py", ".typed")]
    return [(str(root.parent / path), str(path.parent)) for path in found]


def sources(found: Any) -> list[str]:
    """Where everything that PyInstaller's Analysis found lies here: for whose licences are told."""
    return sorted({source for _, source, _ in [*found.scripts, *found.pure, *found.binaries, *found.datas]})


def licences(found: Any, checkout: Path, work: Path) -> tuple[str, str, str]:
    """The licences of others for what was found, as one more file of the bundle."""
    from linux import licences as of_others

    file = work / "THIRD-PARTY.txt"
    text = of_others.text(checkout, map(Path, sources(found)), Path(sys.executable))
    file.write_text(text, "utf-8")
    return file.name, str(file), "DATA"


def without_lists_of_files(datas: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without what an installer writes of the computer it ran on, and what differs with the folder that it was."""
    return [each for each in datas if not (".dist-info" in each[0] and Path(each[0]).name in _OF_INSTALLERS)]


def _root() -> Path:
    """Where the package lies that is installed."""
    found = importlib.util.find_spec("mailbox_appliance")
    assert found is not None  # it has just been installed
    assert found.origin is not None  # it is no namespace
    return Path(found.origin).parent


def _own_files() -> Iterator[Path]:
    root = _root()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root.parent)
