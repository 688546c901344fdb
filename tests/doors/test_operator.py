"""The operator's secret: of one run, in a file that only its owner reads, and good for that run only."""

import json
from pathlib import Path

from tests.servers.running import RunningAppliance


def secret_of(process: RunningAppliance) -> str:
    file = process.folder / "run.json"
    assert file.stat().st_mode & 0o077 == 0
    return str(json.loads(file.read_bytes())["secret"])


def statuses(process: RunningAppliance, secret: str) -> list[int]:
    """What somebody is told who shows a secret, at what is the operator's and at what is not."""
    calls = ("GET /admin/backups", "GET /me", "GET /admin/settings", "GET /accounts")
    return [process.ask(*call.split(" "), token=secret).status for call in calls]


def test_the_secret_of_a_run_is_nothing_in_the_next(tmp_path: Path) -> None:
    process = RunningAppliance(tmp_path / "data").start()
    first = secret_of(process)
    assert statuses(process, first) == [200, 401, 401, 401]
    assert process.stop() == 0
    process.start()
    assert secret_of(process) != first
    assert statuses(process, first) == [401] * 4
    assert statuses(process, secret_of(process)) == [200, 401, 401, 401]
    assert process.stop() == 0
    log = (tmp_path / "data" / "logs" / "appliance.log").read_text()
    assert first not in log
