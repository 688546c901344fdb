"""A minimal Debian for installing packages: copies of this computer's essential packages, without Python.

It is created in a few seconds without a network, on a computer that runs Debian. Programs in it run under `env -i`,
each with its own mounts, which disappear when it ends, so nothing stays mounted.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STATUS, _INFO = Path("/var/lib/dpkg/status"), Path("/var/lib/dpkg/info")
#: What a package that is installed does not need to be there for.
_LEFT_OUT = re.compile(r"^/usr/share/(doc|doc-base|info|locale|lintian|man|zoneinfo)/|^/usr/lib/\w+-linux-gnu/gconv/")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class CannotMake(Exception):
    """The system cannot be created here; the text gives the reason."""


class MinimalSystem:
    """A file system with a few packages, and the programs that run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *words: str, user: str = "root", **variables: str) -> list[str]:
        """Return the command line that runs words in it as the started process, without variables of this
        environment.
        """
        environment = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **variables}
        given = [f"{name}={value}" for name, value in environment.items()]
        inside = shlex.join(["env", "-i", *given, "chroot", f"--userspec={user}", str(self.root)])
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        script = f'{mounts}; exec {inside} "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", *words]

    def run(
        self, *words: str, typed: str = "", check: bool = True, user: str = "root", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run words and return their outcome; raise AssertionError if they fail and `check` is set."""
        command = self.command(*words, user=user, **variables)
        done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=300, cwd="/")
        assert not check or done.returncode == 0, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def put(self, file: Path, folder: str = "root") -> str:
        """Copy a file into it; return its path there."""
        shutil.copy(file, self.root / folder)
        return f"/{folder}/{file.name}"

    def __truediv__(self, name: str) -> Path:
        return self.root / name

    def add(self, packages: Iterable[str]) -> None:
        """Install packages of this computer and their dependencies, by copying their files."""
        installed = _installed()
        wanted = _with_dependencies(packages, installed)
        there = set(re.findall(r"^Package: (\S+)$", (self / "var/lib/dpkg/status").read_text(), re.MULTILINE))
        for name in sorted(wanted - there):
            _copy_package(name, self.root)
            with (self / "var/lib/dpkg/status").open("a") as status:
                status.write(installed[name] + "\n\n")


def check_possible() -> None:
    """Raise CannotMake if such a system cannot be created or used here."""
    if os.geteuid() != 0:
        raise CannotMake("only root may change the root folder of a process")
    if missing := [each for each in ("dpkg-deb", "dpkg-query", "unshare", "chroot") if shutil.which(each) is None]:
        raise CannotMake(f"this is no Debian: {', '.join(missing)} is missing")
    tried = subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise CannotMake(f"mounts of one's own are not allowed here: {tried.stderr.strip()}")


def make(root: Path) -> MinimalSystem:
    """Copy the essential packages of this computer, and debconf, which asks questions during installations."""
    check_possible()
    system = MinimalSystem(root)
    for name in ("dev", "proc", "tmp", "root", "run", "var/tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for link in _LINKS:
        if Path("/", link).is_symlink():
            (root / link).symlink_to(os.readlink(Path("/", link)))
            (root / "usr" / link).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "var/lib/dpkg/info/format").write_text("1\n")
    essential = [name for name, told in _installed().items() if re.search(r"^Essential: yes$", told, re.MULTILINE)]
    system.add([*essential, "debconf", "passwd"])
    _add_accounts(root)
    return system


def _add_accounts(root: Path) -> None:
    """Add the users and groups that every Debian has."""
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/gshadow").write_text("")


def _installed() -> dict[str, str]:
    """Return dpkg's record of each package installed here."""
    blocks = _STATUS.read_text("utf-8").split("\n\n")
    return {
        found[1]: block
        for block in blocks
        if "\nStatus: install ok installed" in block and (found := re.match(r"Package: (\S+)", block))
    }


def _with_dependencies(packages: Iterable[str], installed: dict[str, str]) -> set[str]:
    wanted, waiting = set[str](), list(packages)
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        if name not in installed:
            raise CannotMake(f"{name} is not installed here")
        wanted.add(name)
        waiting += _needed(installed[name], installed)
    return wanted


def _needed(told: str, installed: dict[str, str]) -> list[str]:
    """Return, for each dependency, the first installed package that satisfies it, by name or by what it provides."""
    found = []
    for line in re.findall(r"^(?:Pre-)?Depends: (.+)$", told, re.MULTILINE):
        for need in line.split(","):
            names = [re.split(r"[ :(]", each.strip())[0] for each in need.split("|")]
            found += [name for name in names if name in installed][:1]
    return found


def _copy_package(name: str, root: Path) -> None:
    """Copy the files of a package, including links, and dpkg's record of it."""
    for kept in (*_INFO.glob(f"{name}.*"), *_INFO.glob(f"{name}:*.*")):
        shutil.copy2(kept, root / "var/lib/dpkg/info")
    listed = subprocess.run(["dpkg-query", "--listfiles", name], check=True, capture_output=True, text=True).stdout
    for path in map(Path, listed.splitlines()):
        if not _LEFT_OUT.search(str(path)) and os.path.lexists(path) and path != Path("/."):
            _copy_file(path, root)


def _copy_file(path: Path, root: Path) -> None:
    # By its real folder: /bin/sh is in /usr/bin, through a link that is there already.
    place = root / path.parent.resolve().relative_to("/") / path.name
    if path.is_dir() and not path.is_symlink():
        place.mkdir(parents=True, exist_ok=True)
    elif not os.path.lexists(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place, follow_symlinks=False)


def has_python(system: MinimalSystem) -> bool:
    """Whether it contains a Python."""
    names: Sequence[Path] = [*system.root.glob("usr/bin/python*"), *system.root.glob("usr/local/bin/python*")]
    return bool(names)
