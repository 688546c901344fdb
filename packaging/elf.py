"""Library search paths of ELF files: only the bundle, never folders of the build machine.

A Python that was built in a home folder searches for its libraries there, even on another computer.
"""

import struct
from pathlib import Path

_ORIGIN = b"$ORIGIN"
_LOAD, _DYNAMIC = 1, 2
_STRTAB, _RPATH, _RUNPATH = 5, 15, 29
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")


def without_foreign_paths(binaries: list[tuple[str, str, str]], folder: Path) -> list[tuple[str, str, str]]:
    """Return the binaries of a bundle (name, source, kind), with copies for those that search outside of it."""
    return [(name, _cleaned(Path(source), folder / name), kind) for name, source, kind in binaries]


def _cleaned(source: Path, copy: Path) -> str:
    content = source.read_bytes()
    place = _place_of_path(content)
    if place is None or not content[place:].startswith(b"/"):
        return str(source)
    end = content.index(b"\0", place)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content[:place] + _ORIGIN[: end - place].ljust(end - place, b"\0") + content[end:])
    copy.chmod(0o755)
    return str(copy)


def _place_of_path(content: bytes) -> int | None:
    """Return the position of the RUNPATH or RPATH text in the file; None if it has none."""
    if not content.startswith(b"\x7fELF\x02\x01"):  # 64-bit little-endian, the only kind that bundles support
        return None
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    headers = [_PROGRAM_HEADER.unpack_from(content, start + number * size) for number in range(count)]
    dynamic = next((each for each in headers if each[0] == _DYNAMIC), None)
    if dynamic is None:
        return None
    entries: dict[int, int] = dict(
        _ENTRY.iter_unpack(content[dynamic[2] : dynamic[2] + dynamic[5] // _ENTRY.size * _ENTRY.size])
    )
    path = entries.get(_RUNPATH, entries.get(_RPATH))
    if path is None:
        return None
    return _offset(headers, entries[_STRTAB]) + path


def _offset(headers: list[tuple[int, ...]], address: int) -> int:
    """Return the position in the file of the data that is loaded to this address."""
    for kind, _, offset, virtual, _, in_file, *_ in headers:
        if kind == _LOAD and virtual <= address < virtual + in_file:
            return offset + address - virtual
    raise ValueError("no part of the file is loaded to this address")
