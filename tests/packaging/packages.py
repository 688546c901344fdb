"""The packages of a build, and how to install and remove them in a minimal system."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.minimal_system import MinimalSystem

ROOT = Path(__file__).resolve().parents[2]
NAME = "mailbox-appliance"


@dataclass(frozen=True)
class Packages:
    """The output folder of `packaging/build`."""

    folder: Path

    @property
    def deb(self) -> Path:
        """The Debian package."""
        return next(self.folder.glob("*.deb"))

    @property
    def one_file(self) -> Path:
        """The portable program."""
        return next(self.folder.glob(f"{NAME}-*-linux-*"))

    @property
    def unpacked(self) -> int:
        """The installed size of the Debian package in bytes, from its own field."""
        return int(self.field("Installed-Size")) * 1024

    def files(self) -> list[str]:
        """The files in the Debian package."""
        asked = ["dpkg-deb", "--contents", str(self.deb)]
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        return [line.split()[5] for line in told.splitlines()]

    def field(self, name: str) -> str:
        """Return a field of the Debian package."""
        asked = ["dpkg-deb", "--field", str(self.deb), name]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def build(output: Path, *options: str, python: str = "python3") -> Packages:
    """Run `packaging/build`."""
    command = [python, str(ROOT / "packaging" / "build"), "--output", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Packages(output)


def relabelled(package: Path, version: str, folder: Path) -> Path:
    """Return the same package under another version, for testing upgrades with dpkg."""
    tree, made = folder / "tree", folder / f"{NAME}_{version}.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made], check=True, capture_output=True)
    return made


def unpack(system: MinimalSystem, package: Path) -> str:
    """Unpack only the files of a package into a folder; return the path of the program."""
    system.run("dpkg-deb", "--extract", system.put(package), "/root/unpacked")
    return f"/root/unpacked/usr/lib/{NAME}/{NAME}"


@dataclass(frozen=True)
class Installer:
    """Installs and removes packages without questions: with dpkg, or with apt, which downloads dependencies."""

    system: MinimalSystem
    by_apt: bool = False

    def install(self, package: Path) -> str:
        """Install a package of this computer; return the output."""
        words = ("apt-get", "install", "--yes", "--no-install-recommends") if self.by_apt else ("dpkg", "--install")
        return self._done(*words, self.system.put(package))

    def remove(self) -> str:
        """Remove the program, keeping its data; return the output."""
        return self._done(*(("apt-get", "remove", "--yes") if self.by_apt else ("dpkg", "--remove")), NAME)

    def purge(self, answer: str = "") -> str:
        """Purge with an answer to the question about the data, or without one; return the output."""
        if answer:
            self.system.run("debconf-set-selections", typed=f"{NAME} {NAME}/delete-data boolean {answer}\n")
        return self._done(*(("apt-get", "purge", "--yes") if self.by_apt else ("dpkg", "--purge")), NAME)

    def _done(self, *words: str) -> str:
        done = self.system.run(*words, DEBIAN_FRONTEND="noninteractive")
        return done.stdout + done.stderr
