"""The suite itself: it passes however it is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
#: They tell a child by SIGINT and by SIGHUP, and fail if the child ignores it.
_TELLING = (
    "tests/cli/test_process.py::test_an_interrupt_ends_it_with_130",
    "tests/service/test_signals.py::test_closing_the_terminal_ends_it_unless_nohup_said_otherwise[at a terminal]",
)


@pytest.mark.skipif(sys.platform == "win32", reason="nothing ignores signals there")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_it_passes_where_the_signals_of_a_terminal_are_ignored(processes: str, tmp_path: Path) -> None:
    """As in the background of a script, or under nohup."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-n", processes, "-p", "no:cacheprovider")
    ended = subprocess.run(
        ("sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh", *pytest_, f"--basetemp={tmp_path / 'child'}", *_TELLING),
        cwd=_ROOT,
        env=inherited,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(_TELLING)} passed" in ended.stdout
