"""PyInstaller spec files for other systems, run with stand-ins that only record their arguments."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.packaging.unit_files import ROOT


class Made:
    """A call in a spec file: a part of PyInstaller and its arguments."""

    def __init__(self, kind: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.kind, self.given, self.named = kind, given, named
        if kind == "Analysis":
            scripts = [Path(script).stem for script in given[0]]
            first = str(_file_of("PyInstaller").with_name("hooks") / "rthooks" / "pyi_rth_inspect.py")
            self.scripts = [("pyi_rth_inspect", first, "PYSOURCE")]
            self.scripts += [(name, f"{name}.py", "PYSOURCE") for name in scripts]
            self.pure = [("pystray", str(_file_of("pystray")), "PYMODULE")]
            self.binaries, self.datas = [], []  # type: list[Any], list[Any]


def _file_of(package: str) -> Path:
    found = find_spec(package)
    assert found is not None, package
    assert found.origin is not None, package
    return Path(found.origin)


class Recorded(ModuleType):
    """A module in which everything can be called and records its arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: SimpleNamespace(kind=name, given=given, named=named)


def run_spec(file: Path, monkeypatch: pytest.MonkeyPatch, work: Path) -> list[Made]:
    """Run a spec file; return all recorded calls in order. Files it writes go to `work`."""
    made: list[Made] = []

    def part(kind: str) -> Any:
        def make(*given: Any, **named: Any) -> Made:
            made.append(Made(kind, given, named))
            return made[-1]

        return make

    monkeypatch.setattr(sys, "path", [str(ROOT / "packaging"), *sys.path])
    # It reads resources of Windows with a library that is there only.
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.win32.versioninfo", Recorded("versioninfo"))
    from PyInstaller.utils import win32 as of_windows

    monkeypatch.setattr(of_windows, "versioninfo", Recorded("versioninfo"), raising=False)
    parts = {kind: part(kind) for kind in ("Analysis", "PYZ", "EXE", "COLLECT", "BUNDLE")}
    named = {"SPECPATH": str(file.parent), "workpath": str(work)}
    exec(compile(file.read_text(), str(file), "exec"), {**named, **parts})
    return made


def of_kind(made: list[Made], kind: str) -> list[Made]:
    """Return the recorded calls of this kind."""
    return [each for each in made if each.kind == kind]


def begins(program: Made) -> list[str]:
    """Return the scripts that a program starts with."""
    return [script[0] for script in program.given[1]]
