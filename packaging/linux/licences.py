"""The licenses of a bundle, ours and those of all its parts, as one text.

Each file in the bundle leads to its license: a Python package by its list of files, a system library by its Debian
package; all other files belong to Python itself.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

_TITLES = re.compile(r"(licen[cs]e|copying|notice|authors|copyright)", re.IGNORECASE)
_OURS = "mailbox-appliance"


@dataclass(frozen=True, order=True)
class Part:
    """A third-party part of a bundle, and its license texts."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def text(root: Path, sources: Iterable[Path], python: Path) -> str:
    """Return all licenses as one text, each under a heading."""
    parts = sorted(set(_parts([path.resolve() for path in sources], python)))
    blocks = [_OWN.format(names="".join(f"  {each.name} {each.version}: {each.licence}\n" for each in parts))]
    blocks += [_vendored(root)]
    blocks += [_block(f"{each.name} {each.version} ({each.licence})", each.texts) for each in parts]
    return "\n".join(blocks)


_OWN = """\
mailbox-appliance

Copyright (c) the authors of mailbox-appliance.
Licensed under the Apache License, Version 2.0; you may not use this program except in compliance with it. On Debian
systems its text is in /usr/share/common-licenses/Apache-2.0; it is also at https://www.apache.org/licenses/LICENSE-2.0

The program includes parts by others, which stay under their own licenses. Their unmodified sources, in the versions
below, are available: Python packages from the Python Package Index, by name and version, and Debian libraries from its
archive of all versions (snapshot). Among them, certifi is under the MPL and, on Windows and macOS, pystray under the
LGPL. You can use modified versions of both: name them in requirements-package.lock of the program's checkout, and build
it as described in packaging/README.md. Of PyInstaller only the boot loader is included, which its license allows under
any license of the program.

Their names, followed by their texts:

  files of the console (preact, htm, DOMPurify, Pico CSS)
  files of the API reference (Swagger UI)
{names}"""


def _parts(sources: list[Path], python: Path) -> Iterator[Part]:
    installed = _installed(python.parents[1].resolve())
    owners = _owners(installed)
    modules = Path(sysconfig.get_path("stdlib")).resolve()
    for source in sources:
        if source.is_relative_to(installed):
            owner = owners.get(source)
            if owner is not None and owner.name != _OURS:
                yield _of_distribution(owner)
        # Not sys.base_prefix: on Debian it is /usr, which also contains other libraries.
        elif source.is_relative_to(modules) or source.name.startswith("libpython") or _came_with_python(source):
            yield _of_python()
        elif ".so" in source.name:
            yield _of_library(source)


def _came_with_python(source: Path) -> bool:
    """Whether the file came with Python, which brings its libraries on Windows and macOS; its license covers them."""
    return sys.platform != "linux" and source.is_relative_to(Path(sys.base_prefix).resolve())


def _installed(environment: Path) -> Path:
    """Return the folder of an environment's packages, on Windows or another system."""
    on_windows = environment / "Lib" / "site-packages"
    return on_windows if on_windows.is_dir() else next(environment.glob("lib/python3*/site-packages"))


@cache
def _owners(installed: Path) -> dict[Path, Distribution]:
    return {
        Path(str(file.locate())): each
        for each in distributions(path=[str(installed)])
        for file in each.files or []
        if ".." not in file.parts
    }


def _of_distribution(found: Distribution) -> Part:
    described = found.metadata
    classified = [
        one.rpartition(" :: ")[2] for one in described.get_all("Classifier") or [] if one.startswith("License ::")
    ]
    # Some packages put the whole text in the field for the name.
    licence = described.get("License-Expression") or ", ".join(classified) or described.get("License") or "see below"
    texts = [
        Path(str(file.locate())).read_text("utf-8", "replace")
        for file in found.files or []
        if ".dist-info" in str(file) and _TITLES.search(file.name)
    ]
    return Part(found.name, found.version, licence.splitlines()[0][:80], tuple(texts))


def _of_python() -> Part:
    library = Path(sys.base_prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}")
    files = (library / "LICENSE.txt", Path(sys.base_prefix, "LICENSE.txt"))  # on Windows it is the latter
    version = ".".join(map(str, sys.version_info[:3]))
    return Part("Python", version, "PSF-2.0", tuple(file.read_text("utf-8") for file in files if file.exists())[:1])


def _of_library(file: Path) -> Part:
    """Return the license that Debian records for the package of a library."""
    package = _package_of(file) if shutil.which("dpkg") else None
    if package is None:
        return Part(file.name, "", "as this system came with it", ())
    name, version = package
    copyright_file = Path("/usr/share/doc", name, "copyright")
    texts = (copyright_file.read_text("utf-8", "replace"),) if copyright_file.exists() else ()
    return Part(name, version, "see below", texts)


def _package_of(file: Path) -> tuple[str, str] | None:
    # /lib is a link to /usr/lib; packages may list their files under either path.
    found = subprocess.run(["dpkg", "--search", file, Path("/", *file.parts[2:])], capture_output=True, text=True)
    name, colon, _ = found.stdout.partition(":")
    if not colon:
        return None
    asked = ["dpkg-query", "--show", "--showformat=${Version}\n", name]
    versions = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    return name, versions[0]


def _vendored(root: Path) -> str:
    web = root / "mailbox_appliance" / "web"
    folders = {"the console": web / "console" / "vendor" / "licences", "the API reference": web / "docs" / "licences"}
    return "\n".join(
        _block(f"files of {what}: {file.stem}", [file.read_text("utf-8")])
        for what, folder in folders.items()
        for file in sorted(folder.iterdir())
    )


def _block(title: str, texts: Iterable[str]) -> str:
    return "\n".join(["", "=" * 100, title, "=" * 100, *(each.strip("\n") for each in texts), ""])
