"""Reading regular files, and refusing files that would block."""

import os
import socket
from pathlib import Path

import pytest

from mailbox_appliance.system import files


def test_a_regular_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert files.read_regular(tmp_path / "link", 100) == b"content"
    assert files.read_regular(tmp_path / "file", 4) == b"cont"
    with pytest.raises(FileNotFoundError):
        files.read_regular(tmp_path / "none", 4)


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "device"])
def test_anything_else_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))
    else:
        place.symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"place"):
        files.read_regular(place, 10)
