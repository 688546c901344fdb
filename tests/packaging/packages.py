"""The packages of a build, and how they come into a minimal system and out of it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.packaging.minimal_system import MinimalSystem

ROOT = Path(__file__).resolve().parents[2]
NAME = "mailbox-appliance"


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

    @property
    def unpacked(self) -> int:
        """How many bytes the package for Debian takes on the disk, as it says."""
        return int(self.field("Installed-Size")) * 1024

    def files(self) -> list[str]:
        """What the package for Debian brings."""
        asked = ["dpkg-deb", "--contents", str(self.deb)]
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        return [line.split()[5] for line in told.splitlines()]

    def field(self, name: str) -> str:
        """A field of the package for Debian."""
        asked = ["dpkg-deb", "--field", str(self.deb), name]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def build(output: Path, *options: str, python: str = "python3") -> Packages:
    """Run `packaging/build`."""
    command = [python, str(ROOT / "packaging" / "build"), "--output", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True)
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


@dataclass(frozen=True)
class Installer:
    """Installs and removes, and answers no questions: by dpkg, or by apt, which fetches what is depended on."""

    system: MinimalSystem
    by_apt: bool = False

    def install(self, package: Path) -> str:
        """A package of this computer; what was said."""
        words = ("apt-get", "install", "--yes", "--no-install-recommends") if self.by_apt else ("dpkg", "--install")
        return self._done(*words, self.system.put(package))

    def remove(self) -> str:
        """The program, and nothing that it kept."""
        return self._done(*(("apt-get", "remove", "--yes") if self.by_apt else ("dpkg", "--remove")), NAME)

    def purge(self, answer: str = "") -> str:
        """With an answer to the question that is asked then, or none; what was said."""
        if answer:
            self.system.run("debconf-set-selections", typed=f"{NAME} {NAME}/delete-data boolean {answer}\n")
        return self._done(*(("apt-get", "purge", "--yes") if self.by_apt else ("dpkg", "--purge")), NAME)

    def _done(self, *words: str) -> str:
        done = self.system.run(*words, DEBIAN_FRONTEND="noninteractive")
        return done.stdout + done.stderr
