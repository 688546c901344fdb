"""The appliance serves with closed or full standard streams; output that cannot be written is dropped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.servers.mailboxes import wait_until


@pytest.mark.parametrize("how", ["2>&-", "<&- >&- 2>&-", "--ready-json >/dev/full 2>/dev/full"])
def test_it_serves_all_the_same_and_its_exit_code_tells(tmp_path: Path, how: str) -> None:
    command = f'exec "{sys.executable}" -m mailbox_appliance --data-dir "{tmp_path}" serve --port'
    process = subprocess.Popen(["/bin/sh", "-c", f"{command} 0 {how}"])
    run = tmp_path / "run.json"
    try:
        wait_until(lambda: run.exists() or process.poll() is not None, lambda: "it does not start", 15)
        assert process.poll() is None
        wait_until(lambda: bool(run.read_text()), lambda: "", 5)
        url = json.loads(run.read_text())["url"]
        with urlopen(f"{url}/healthz", timeout=10) as answer:
            assert answer.read() == b"ok\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    (tmp_path / "config.toml").write_text("[server")
    assert subprocess.run(["/bin/sh", "-c", f"{command} 0 {how}"], check=False, timeout=20).returncode == 2


def test_no_other_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    program = (
        "import os, sys; from mailbox_appliance.system import stdio; stdio.reopen_closed_streams();"
        f"handle = os.open('{tmp_path}/file', os.O_CREAT | os.O_WRONLY); print('lost'); sys.exit(40 + handle)"
    )
    done = subprocess.run(["/bin/sh", "-c", f'exec "{sys.executable}" -c "{program}" <&- >&- 2>&-'], check=False)
    assert done.returncode >= 43
    assert os.stat(tmp_path / "file").st_size == 0
