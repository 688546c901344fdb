"""The version is in one place and in the README, and all packages take it from there."""

import re
import tomllib

from mailbox_appliance.version import __version__
from tests.packaging.unit_files import ROOT


def test_only_one_file_names_the_version() -> None:
    files = [ROOT / "pyproject.toml", *(ROOT / "packaging").rglob("*")]
    files += [file for file in (ROOT / "scripts").rglob("*") if file.suffix != ".pyc"]
    texts = {file: file.read_text("utf-8", "replace") for file in files if file.is_file()}
    assert [file.name for file, text in texts.items() if __version__ in text] == []
    assert f'"{__version__}"' in (ROOT / "mailbox_appliance" / "version.py").read_text()


def test_the_readme_names_this_version() -> None:
    named = re.findall(r"\bVersion (\S+)", (ROOT / "README.md").read_text("utf-8"))
    assert named == [__version__]


def test_it_is_one_that_all_packages_can_write_down() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", __version__)  # Windows requires numbers, Debian its own sort order


def test_the_project_takes_it_from_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "mailbox_appliance/version.py"
