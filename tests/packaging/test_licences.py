"""The license file covers all parts of a bundle, whichever Python built it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.unit_files import ROOT

#: Debian's own Python lies below /usr, as do the libraries of all others.
DEBIAN = Path("/usr/bin/python3")
_ASK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from linux import licences
for part in sorted(set(licences._parts([Path(each).resolve() for each in sys.argv[3:]], Path(sys.argv[2])))):
    print(part.name, bool(part.texts))
"""


def parts(python: Path, *sources: Path) -> list[str]:
    given = (ROOT / "packaging", Path(sys.prefix, "bin", "python"), *sources)
    return subprocess.run(
        [str(python), "-c", _ASK, *map(str, given)], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_libraries_are_not_taken_for_parts_of_python() -> None:
    if not DEBIAN.exists() or shutil.which("dpkg") is None:
        pytest.skip("only Debian has a Python whose home is /usr")
    library = next(Path("/usr/lib").glob("*-linux-gnu/libz.so.1"))
    asked = [str(DEBIAN), "-c", "import os; print(os.__file__)"]
    module = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    assert parts(DEBIAN, module, library) == ["Python True", "zlib1g True"]


def test_packages_of_python_are_told_by_their_own_names() -> None:
    import certifi

    assert parts(Path(sys.executable), Path(certifi.__file__), Path(subprocess.__file__)) == [
        "Python True",
        "certifi True",
    ]


def test_notices_name_pystray_only_for_systems_whose_packages_include_it() -> None:
    asked = "import sys; sys.path.insert(0, sys.argv[1]); from linux import licences; print(licences._OWN)"
    command = [sys.executable, "-c", asked, str(ROOT / "packaging")]
    words = " ".join(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert "certifi is under the MPL and, on Windows and macOS, pystray under the LGPL" in words
