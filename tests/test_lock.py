"""The lock files fit the project file: whoever changes the dependencies runs scripts/lock."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ALWAYS = PROJECT["dependencies"]


def locked(name: str) -> dict[str, set[str]]:
    """The versions in a lock file; there may be several, for different systems."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE):
        versions.setdefault(package, set()).add(version)
    return versions


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("requirements.lock", [*ALWAYS, *(each for extra in EXTRAS.values() for each in extra)]),
        ("requirements-demo.lock", [*ALWAYS, *EXTRAS["demo"], "hatchling", "editables"]),
    ],
)
def test_everything_is_locked_within_its_bounds(name: str, wanted: list[str]) -> None:
    versions = locked(name)
    for requirement in map(Requirement, wanted):
        package = re.sub(r"[._]", "-", requirement.name).lower()
        assert versions.get(package), f"{requirement} is not in {name}: run scripts/lock"
        assert all(requirement.specifier.contains(version) for version in versions[package]), (
            f"{requirement}: {versions}"
        )


def test_the_demo_has_the_same_versions() -> None:
    everything = locked("requirements.lock")
    assert {package: everything.get(package) for package in locked("requirements-demo.lock")} == locked(
        "requirements-demo.lock"
    )


def test_only_desktop_packages_have_libraries_of_icons() -> None:
    """Servers and containers install requirements-demo.lock, whose versions are those of every system."""
    icons = {"pillow", "pystray", "python-xlib", "pyobjc-core"}
    assert not icons & set(locked("requirements-demo.lock"))
    assert icons - {"python-xlib"} <= set(locked("requirements-package.lock"))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-demo.lock"])
def test_a_lock_names_no_place(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(r"https?:|file:|^-|@ |/\w+/", text, re.MULTILINE)
    for entry in re.split(r"\n(?=[a-z0-9])", text):
        assert "--hash=sha256:" in entry, entry
