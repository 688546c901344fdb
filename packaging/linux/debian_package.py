"""The .deb: the one-folder bundle and its system files (units, icons, manual page), packed by dpkg-deb."""

import gzip
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from linux import debian_changelog
from linux.debian_changelog import debian_version

NAME = "mailbox-appliance"
_HERE = Path(__file__).resolve().parent
_SCRIPTS = ("postinst", "prerm", "postrm")
_BUNDLE = Path("usr", "lib", NAME)
#: Libraries that a bundle takes from the system, all in libc6.
_LEFT_OUT = {
    *("libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
}
#: Libraries that the loader needs before it reads the bundle -> their packages.
_OF_LOADER = {"libz.so.1": "zlib1g"}
_COMPLETIONS = {
    "bash": f"usr/share/bash-completion/completions/{NAME}",
    "zsh": f"usr/share/zsh/vendor-completions/_{NAME}",
    "fish": f"usr/share/fish/vendor_completions.d/{NAME}.fish",
}
#: Files of this folder -> their place in the package.
_FILES = {
    f"{NAME}.service": f"usr/lib/systemd/system/{NAME}.service",
    f"{NAME}.user.service": f"usr/lib/systemd/user/{NAME}.service",
    "sysusers.conf": f"usr/lib/sysusers.d/{NAME}.conf",
    f"{NAME}.desktop": f"usr/share/applications/{NAME}.desktop",
    f"{NAME}.metainfo.xml": f"usr/share/metainfo/{NAME}.metainfo.xml",
    "debian/lintian-overrides": f"usr/share/lintian/overrides/{NAME}",
}


class CannotBuild(Exception):
    """A missing requirement of the package; the text names the next step."""


@dataclass(frozen=True)
class Contents:
    """The contents of the package: checkout, bundle, folder with icons, manual page, and license texts."""

    root: Path
    bundle: Path
    icons: Path
    manual: bytes
    licences: str
    version: str
    architecture: str


def make(contents: Contents, scratch: Path, output: Path, *, quick: bool) -> Path:
    """Lay out the files below `scratch` and pack them; return the package. `quick` compresses less."""
    if shutil.which("dpkg-deb") is None:
        raise CannotBuild("dpkg-deb is missing: build the .deb on Debian or a derivative.")
    tree = scratch / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(contents.bundle, tree / _BUNDLE)
    _link_program(tree)
    _add_files(contents, tree)
    _add_printed(tree)
    _set_modes(tree)
    _add_control(contents, tree)
    target = output / f"{NAME}_{contents.version}_{contents.architecture}.deb"
    compression = ["-Zgzip", "-z1"] if quick else ["-Zxz"]
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", *compression, "--build", tree, target],
        check=True,
        capture_output=True,
        text=True,
    )
    return target


def _link_program(tree: Path) -> None:
    (tree / "usr" / "bin").mkdir()
    (tree / "usr" / "bin" / NAME).symlink_to(f"../lib/{NAME}/{NAME}")


def _add_files(contents: Contents, tree: Path) -> None:
    for source, place in _FILES.items():
        _write(tree / place, (_HERE / source).read_bytes())
    shutil.copytree(contents.icons / "hicolor", tree / "usr" / "share" / "icons" / "hicolor")
    documents = tree / "usr" / "share" / "doc" / NAME
    _write(documents / "copyright", contents.licences.encode())
    written = debian_changelog.written(
        (contents.root / "CHANGELOG.md").read_text("utf-8"), contents.version, _released()
    )
    _write(documents / "changelog.gz", _zipped(written.encode()))
    _write(tree / f"usr/share/man/man1/{NAME}.1.gz", _zipped(contents.manual))


def _released() -> int:
    return int(os.environ["SOURCE_DATE_EPOCH"])


def _add_printed(tree: Path) -> None:
    """Add the shell completions, which the program prints."""
    for shell, place in _COMPLETIONS.items():
        _write(tree / place, _said(tree, "completion", shell))


def _said(tree: Path, *words: str) -> bytes:
    # An environment that keeps details of this computer out of the output.
    environment = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run([tree / _BUNDLE / NAME, *words], check=True, capture_output=True, env=environment).stdout


def _set_modes(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path == tree / _BUNDLE / NAME else 0o644)


def _add_control(contents: Contents, tree: Path) -> None:
    files = sorted(path for path in (tree / "usr").rglob("*") if path.is_file() and not path.is_symlink())
    kibibytes = sum(-(-path.stat().st_size // 1024) for path in files) + sum(1 for _ in tree.rglob("*/"))
    control = (_HERE / "debian" / "control").read_text("utf-8")
    values = {
        "version": debian_version(contents.version),
        "architecture": contents.architecture,
        "libraries": _libraries(tree / _BUNDLE),
        "installed_size": str(kibibytes),
    }
    for name, value in values.items():
        control = control.replace(f"@{name}@", value)
    folder = tree / "DEBIAN"
    _write(folder / "control", control.encode())
    _write(folder / "templates", (_HERE / "debian" / "templates").read_bytes())
    for script in _SCRIPTS:
        _write(folder / script, (_HERE / "debian" / script).read_bytes(), 0o755)
    summed = subprocess.run(
        ["md5sum", *(path.relative_to(tree) for path in files)], check=True, capture_output=True, cwd=tree
    )
    _write(folder / "md5sums", summed.stdout)
    folder.chmod(0o755)


def _libraries(bundle: Path) -> str:
    """Return the packages that the bundle depends on, with the oldest glibc that has all symbols it uses."""
    needed, newest = set[str](), (0, 0)
    for file in _binaries(bundle):
        told, asked = _told_of(file)
        needed |= asked
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", told)
        newest = max([newest, *((int(major), int(minor)) for major, minor in versions)])
    _, of_loader = _told_of(bundle / NAME)
    brought = {path.name for path in bundle.rglob("*") if path.is_file()}
    if unknown := (needed - brought - _LEFT_OUT) | (of_loader - set(_OF_LOADER) - _LEFT_OUT):
        raise CannotBuild(f"The bundle needs {', '.join(sorted(unknown))}, which no known package contains.")
    packages = [_OF_LOADER[name] for name in sorted(of_loader & set(_OF_LOADER))]
    return ", ".join([f"libc6 (>= {newest[0]}.{newest[1]})", *packages])


def _told_of(file: Path) -> tuple[str, set[str]]:
    """Return objdump's output for a file, and the libraries that the file needs."""
    told = subprocess.run(["objdump", "-p", file], check=True, capture_output=True, text=True).stdout
    return told, set(re.findall(r"^ +NEEDED +(\S+)$", told, re.MULTILINE))


def _binaries(bundle: Path) -> list[Path]:
    found = []
    for path in bundle.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def _write(file: Path, content: bytes, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)


def _zipped(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)
