"""systemd accepts the units, and the appliance works within the restrictions of the system unit."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.unit_files import ROOT, SYSTEM, USER, Unit, allowed_calls, read_unit
from tests.servers.desk import a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD, wait_until
from tests.servers.running import RunningAppliance

#: The exposure that systemd computes for the system unit, times 10, from 0 to 100; below 30 is good.
_EXPOSURE = 12
#: Allowed, but reported.
_WATCHED = {"socket", "execve"}
_CONFINED = Path(__file__).with_name("confined.py")


def analyze(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `systemd-analyze`, which needs no running systemd."""
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def installed(file: Path, folder: Path) -> Path:
    """Write a unit as on a computer with the program, with another program in its place."""
    unit = folder / "mailbox-appliance.service"
    unit.write_text(file.read_text().replace("/usr/bin/mailbox-appliance", sys.executable))
    return unit


@pytest.mark.parametrize(("file", "manager"), [(SYSTEM, "--system"), (USER, "--user")], ids=["system", "user"])
def test_systemd_takes_the_units(file: Path, manager: str, tmp_path: Path) -> None:
    finished = analyze("verify", manager, "--man=no", str(installed(file, tmp_path)), XDG_RUNTIME_DIR=str(tmp_path))
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")


@pytest.mark.parametrize("file", [SYSTEM, USER], ids=["system", "user"])
def test_a_crash_is_followed_by_a_start_however_often(file: Path) -> None:
    service = read_unit(file.read_text())["Service"]
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == ["2 4"], "exit codes alone: no signal is left out"
    # systemd gives up after 5 starts within 10 seconds (systemd.unit(5), StartLimitIntervalSec=): this never does.
    assert int(service["RestartSec"][0]) * 5 > 10


def test_little_is_exposed(tmp_path: Path) -> None:
    unit = str(installed(SYSTEM, tmp_path))
    told = analyze("security", "--offline=true", f"--threshold={_EXPOSURE}", unit)
    assert told.returncode == 0, told.stdout
    assert f"level for mailbox-appliance.service: {_EXPOSURE / 10} OK" in told.stdout
    assert analyze("security", "--offline=true", f"--threshold={_EXPOSURE - 1}", unit).returncode != 0


def test_the_documentation_installs_the_system_unit() -> None:
    page = (ROOT / "docs" / "how-to" / "install-linux.md").read_text()
    (change,) = re.findall(r"^sed '(.*)' packaging/linux/mailbox-appliance.service >", page, re.MULTILINE)
    unit = subprocess.run(("sed", change, SYSTEM), check=True, capture_output=True, text=True).stdout
    assert unit.replace("/usr/local/bin/", "/usr/bin/") == SYSTEM.read_text()
    assert "ExecStart=/usr/local/bin/mailbox-appliance " in unit
    assert "ln -s /opt/mailbox-appliance/bin/mailbox-appliance /usr/local/bin/mailbox-appliance" in page


def test_the_users_unit_takes_away_what_it_can() -> None:
    system, user = (read_unit(file.read_text())["Service"] for file in (SYSTEM, USER))
    # A user's service manager cannot restrict users, mounts and devices on every kernel.
    beyond = r"User|Group|StateDirectory|Capabilit|Ambient|Protect|Private|RemoveIPC|LimitNOFILE"
    assert {name for name in system if name not in user and not re.match(beyond, name)} == set()
    same = set(user) - {"ExecStart"}
    assert {name: user[name] for name in same} == {name: system[name] for name in same}
    assert user["ExecStart"] == ["/usr/bin/mailbox-appliance serve"]


# --- the real program with what the unit leaves it --------------------------------------------------------------------


@pytest.fixture(scope="module")
def unit() -> Unit:
    return read_unit(SYSTEM.read_text())


@pytest.fixture(scope="module")
def closable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip if this process cannot restrict a disk: it is not root, or a container without privileges."""
    argv = [sys.executable, str(_CONFINED), str(tmp_path_factory.mktemp("any")), "--", "true"]
    finished = subprocess.run(argv, capture_output=True, text=True)
    if finished.returncode != 0:
        pytest.skip(finished.stderr.strip())


@pytest.fixture
def confined(
    tmp_path: Path, unit: Unit, closable: None, mail_server: MailServer
) -> Iterator[tuple[RunningAppliance, Path]]:
    """The appliance in the sandbox, where it can write only its state, and a file with the calls that the filter would
    refuse.
    """
    state, told = tmp_path / "state", tmp_path / "told"
    state.mkdir()
    told.mkdir()
    (state / "config.toml").write_text(f'[remote]\nca_file = "{mail_server.ca_file}"\n')
    # strace runs beside it (-D), so that signals reach the appliance. `?` allows calls that a processor lacks.
    filtered = ",".join(f"?{call}" for call in sorted(allowed_calls(unit) - _WATCHED))
    tracer = ["strace", "-D", "-f", "--seccomp-bpf", "-o", str(told / "calls"), "-e", f"trace=!{filtered}"]
    program = [sys.executable, "-m", "mailbox_appliance"]
    argv = [sys.executable, str(_CONFINED), str(state), str(told), "--", *tracer, *program]
    appliance = RunningAppliance(state, argv=argv).start()
    yield appliance, told / "calls"
    appliance.stop()


def test_it_does_its_work_so_confined(
    confined: tuple[RunningAppliance, Path], mail_server: MailServer, unit: Unit
) -> None:
    appliance, calls = confined
    assert appliance.process is not None
    assert Path(f"/proc/{appliance.process.pid}/mounts").read_text().splitlines()[0].split()[3].startswith("ro,")
    work(appliance, mail_server)
    assert appliance.ask("PATCH", "/admin/https", {"enabled": True, "port": 0}).status == 200
    assert appliance.stop() == 0
    traced = re.findall(r"^\d+ +(\w+)\((.*)", calls.read_text(), re.M)
    families = {given.split(",")[0] for call, given in traced if call == "socket"}
    assert {"AF_INET"} <= families <= set(unit["Service"]["RestrictAddressFamilies"][0].split())
    # The program and its parsing process.
    assert len([given for call, given in traced if call == "execve"]) >= 2
    # SQLite sets an owner only on files of root.
    assert {call for call, given in traced if not (call == "fchown" and ", 0, 0" in given)} <= _WATCHED


def work(appliance: RunningAppliance, mail_server: MailServer) -> None:
    """Connect a mailbox, send to it, read the message, and create a backup."""
    user = mail_server.fresh_user()
    mail_server.seed(user, {"INBOX": 60})
    appliance.set_up()
    server = {"host": "localhost", "security": "tls", "username": user, "password": PASSWORD}
    imap, smtp = server | {"port": mail_server.imaps_port}, server | {"port": mail_server.smtps_port}
    connected = appliance.ask("POST", "/accounts", {"email": user, "imap": imap, "smtp": smtp})
    assert connected.status == 201, connected
    account = connected.data["id"]
    message = a_message(user, subject="Confined")
    sent = appliance.ask("POST", f"/accounts/{account}/send", message, Idempotency_Key="confined")
    assert (sent.status, sent.data["status"]) == (200, "succeeded")
    inbox = f"/accounts/{account}/messages?q=subject:Confined"
    wait_until(lambda: bool(appliance.ask("GET", inbox).data["items"]), lambda: "the message does not come", 20)
    backup = appliance.ask("POST", "/admin/backups", {})
    assert backup.status == 201, backup
    assert appliance.ask("POST", f"/admin/backups/{backup.data['id']}/verify", {}).data["ok"]


def test_nothing_else_can_be_written_so_confined(tmp_path: Path, closable: None) -> None:
    (tmp_path / "state").mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    argv = [sys.executable, str(_CONFINED), str(tmp_path / "state"), "--", shell, "-c"]
    script = f"touch {tmp_path}/state/here && touch {tmp_path}/beside"
    finished = subprocess.run([*argv, script], capture_output=True, text=True)
    assert "Read-only file system" in finished.stderr
    assert [file.name for file in tmp_path.rglob("*")] == ["state", "here"]
