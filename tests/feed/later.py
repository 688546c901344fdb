"""`mailbox-appliance serve`, by a process whose clock is ahead: by the seconds in the file `ahead` beside its data
directory, as they are when it starts.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mailbox_appliance.clock import SystemClock
from mailbox_appliance.service import main

ARGV = (sys.executable, "-m", "tests.feed.later")


def set_ahead(data: Path, seconds: float) -> None:
    """Let the next process on this data directory live so many seconds later."""
    data.with_name("ahead").write_text(str(seconds))


def _read_ahead(data: Path) -> timedelta:
    file = data.with_name("ahead")
    return timedelta(seconds=float(file.read_text())) if file.exists() else timedelta(0)


if __name__ == "__main__":
    _, option, folder, *rest = sys.argv
    assert (option, rest) == ("--data-dir", ["serve", "--port", "0", "--ready-json"])
    ahead = _read_ahead(Path(folder))
    SystemClock.now = lambda self: datetime.now(UTC) + ahead  # type: ignore[method-assign]
    sys.exit(main.serve(Path(folder), flags={"server.port": 0}, ready_json=True))
