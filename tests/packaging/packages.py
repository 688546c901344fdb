"""The packages of a build, and what is done to the .deb in a minimal system."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.minimal_system import MinimalSystem
from tests.packaging.newcomer import DATA

ROOT = Path(__file__).resolve().parents[2]
NAME = "mailbox-appliance"
#: Nobody is asked; a question that has no answer yet gets the usual one.
_SILENT = "noninteractive"


@dataclass(frozen=True)
class Packages:
    """What `packaging/build` has put into a folder."""

    folder: Path

    @property
    def deb(self) -> Path:
        """The package for Debian."""
        return next(self.folder.glob("*.deb"))

    @property
    def one_file(self) -> Path:
        """The program that runs from wherever it lies."""
        return next(self.folder.glob(f"{NAME}-*-linux-*"))

    def field(self, name: str) -> str:
        """A field of the package."""
        asked = ["dpkg-deb", "--field", str(self.deb), name]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def build(output: Path, *options: str, python: str = "python3") -> Packages:
    """Run `packaging/build`."""
    done = subprocess.run(
        [python, ROOT / "packaging" / "build", "--output", output, *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Packages(output)


def relabelled(package: Path, version: str, folder: Path) -> Path:
    """The same package under another version: for what dpkg does between two of them."""
    tree, made = folder / "tree", folder / f"{NAME}_{version}.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made], check=True, capture_output=True)
    return made


def unpack(system: MinimalSystem, package: Path) -> str:
    """Nothing but the files of a package, in a folder of their own; the program there."""
    system.run("dpkg-deb", "--extract", system.put(package), "/root/unpacked")
    return f"/root/unpacked/usr/lib/{NAME}/{NAME}"


def install(system: MinimalSystem, package: Path) -> str:
    """By dpkg, whatever it depends on is there; what was said."""
    done = system.run("dpkg", "--install", system.put(package), DEBIAN_FRONTEND=_SILENT)
    return done.stdout + done.stderr


def remove(system: MinimalSystem) -> None:
    """The program goes, what it kept stays."""
    system.run("dpkg", "--remove", NAME, DEBIAN_FRONTEND=_SILENT)
    assert not (system / "usr/lib" / NAME).exists()
    assert not (system / "usr/bin" / NAME).is_symlink()
    assert (system / DATA[1:] / "mailbox.db").exists()


def purge(system: MinimalSystem, answer: str = "") -> str:
    """With an answer to the question that is asked then, or none; what was said."""
    if answer:
        system.run("debconf-set-selections", typed=f"{NAME} {NAME}/delete-data boolean {answer}\n")
    done = system.run("dpkg", "--purge", NAME, DEBIAN_FRONTEND=_SILENT)
    return done.stdout + done.stderr


def has_user(system: MinimalSystem) -> bool:
    """Whether the system service's user is there."""
    return system.run("getent", "passwd", NAME, check=False).returncode == 0
