"""Reading regular files, and refusing files that would block."""

import os
import socket
import subprocess
import sys
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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(("hard", "raised"), [(600, 600), (9000, 8192)])
def test_more_files_may_be_open_than_usual(hard: int, raised: int) -> None:
    program = f"""
import resource
from mailbox_appliance.system import files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))
files.raise_open_files_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == ({raised}, {hard})
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
