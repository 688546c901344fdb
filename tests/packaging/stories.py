"""Requirements on the packages, tested in the suite and by `scripts/test-packages`."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packaging import minimal_system, packages
from tests.packaging.minimal_system import MinimalSystem
from tests.packaging.newcomer import DATA, INSTALLED, Newcomer
from tests.packaging.packages import NAME, Installer, Packages
from tests.servers.dovecot import MailServer
from tests.servers.secret_service import SecretService


def one_file_is_enough(built: Packages, system: MinimalSystem, server: MailServer) -> float:
    """The portable program runs without an installation and trusts no unknown CA; returns the seconds of its start."""
    assert not minimal_system.has_python(system)
    assert not (system / "etc/ssl/certs").exists()
    program = Newcomer(system, system.put(built.one_file), user="root", data="/root/data")
    tray = program.try_to_say("tray")
    assert (tray.returncode, "mailbox-appliance serve" in tray.stderr) == (0, True), tray
    try:
        took = program.start()
        assert _is_left_by_tidiers(system / "tmp")
        program.set_up()
        refused = _connect_by_tls(program, server)
        assert refused.returncode != 0
        assert "not from a trusted CA" in refused.stderr, refused.stderr
        program.stop()
    finally:
        program.end()
    assert list((system / "tmp").iterdir()) == []
    return took


def _is_left_by_tidiers(folder: Path) -> bool:
    """Whether systemd-tmpfiles will never delete the unpacked files, because the folder is locked."""
    (unpacked,) = folder.iterdir()
    handle = os.open(unpacked, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def a_bundle_trusts_whom_it_brings(built: Packages, system: MinimalSystem, server: MailServer) -> None:
    """On a system without trusted CAs: the server's CA is added to the list in the bundle."""
    program = Newcomer(system, packages.unpack(system, built.deb), user="root", data="/root/other")
    with ((system / program.program[1:]).parent / "_internal/certifi/cacert.pem").open("ab") as brought:
        brought.write(Path(server.ca_file).read_bytes())
    try:
        program.start()
        program.set_up()
        connected = _connect_by_tls(program, server)
        assert connected.returncode == 0, connected.stderr
        program.stop()
    finally:
        program.end()


def _connect_by_tls(program: Newcomer, server: MailServer) -> "subprocess.CompletedProcess[str]":
    imap = ("--imap-host", "127.0.0.1", "--imap-port", str(server.imaps_port))
    smtp = ("--smtp-host", "127.0.0.1", "--smtp-port", str(server.smtps_port))
    words = ("accounts", "add", "--email", server.fresh_user(), *imap, *smtp, "--password-stdin")
    return program.try_to_say(*words, typed="secret\n")


def it_is_used_and_upgraded_while_it_runs(installer: Installer, older: Path, newer: Path, server: MailServer) -> None:
    """Run by the system's user: its data survives the upgrade, and the process keeps running until it is stopped."""
    installer.install(older)
    program = Newcomer(installer.system)
    try:
        program.start()
        program.set_up()
        email = server.fresh_user()
        program.connect(server, email)
        program.send_and_read(email, "Before")
        program.look_at_console()

        told = installer.install(newer)

        assert f"process {program.pid} still runs" in told, told
        assert "The program was replaced or removed while it ran" in program.try_to_say("status").stdout
        # It still finds modules that it had not needed before: its own, and not those of the next release.
        assert program.count_tools_by_http() > 10
        program.stop()
        program.start()
        program.read("Before")
        assert program.count_tools_by_stdio() > 10
        program.stop()
    finally:
        program.end()


_UNIT = f"{NAME}.service"
_PLAYED = """#!/bin/sh
# Plays systemd: writes down what it is asked, and answers what the test has it answer.
echo "$@" >>/run/asked
case "$1" in
    show) cat /run/runs ;;
    is-active) cat /run/state ;;
esac
"""


@contextmanager
def _systemd(system: MinimalSystem, *, runs: str, state: str) -> Iterator[Path]:
    """Simulate a running systemd with this unit; yield the file that records the requests."""
    running, systemctl = system / "run/systemd/system", system / "usr/local/bin/systemctl"
    running.mkdir(parents=True)
    systemctl.parent.mkdir(parents=True, exist_ok=True)
    systemctl.write_text(_PLAYED)
    systemctl.chmod(0o755)
    (system / "run/runs").write_text(f"{{ path={runs} ; argv[]={runs} serve ; ignore_errors=no }}\n")
    (system / "run/state").write_text(f"{state}\n")
    try:
        yield system / "run/asked"
    finally:
        for file in (systemctl, system / "run/runs", system / "run/state", system / "run/asked"):
            file.unlink(missing_ok=True)
        running.rmdir()


def a_running_service_is_stopped_for_an_upgrade(installer: Installer, package: Path) -> None:
    """And started after it, even if it was still starting; a program stands in for systemd."""
    with _systemd(installer.system, runs=INSTALLED, state="activating") as asked:
        assert "the service is stopped" in installer.install(package)
        words = [line.replace(f" {_UNIT}", "") for line in asked.read_text().splitlines()]
        assert [word for word in words if word in ("stop", "start")] == ["stop", "start"]
        assert words.index("stop") < words.index("daemon-reload") < words.index("start")


def what_does_not_run_or_is_not_ours_is_left_alone(system: MinimalSystem) -> None:
    """A unit of the same name may be the administrator's own and run another program."""
    before = f"/var/lib/dpkg/info/{NAME}.prerm"
    for runs, state in (("/usr/local/bin/mailbox-appliance", "active"), (INSTALLED, "inactive")):
        with _systemd(system, runs=runs, state=state) as asked:
            system.run(before, "upgrade", "9.9")
            assert " stop" not in f" {asked.read_text()}"
    with _systemd(system, runs="/usr/local/bin/mailbox-appliance", state="active") as asked:
        system.run(before, "remove")
        assert "stop" not in asked.read_text()
    assert not (system / f"run/{NAME}.was-running").exists()


def removed_it_keeps_everything_and_purged_it_asks(installer: Installer, package: Path) -> None:
    """The service's data is deleted only if the administrator confirms it, and users' data never."""
    system = installer.system
    home, data = system / "home/ada/.local/share/mailbox-appliance", system / DATA[1:]
    home.mkdir(parents=True)
    enabled, was_running = _enabled(system), system / f"run/{NAME}.was-running"
    was_running.touch()

    installer.remove()
    assert not (system / "usr/lib" / NAME).exists()
    assert not (system / "usr/bin" / NAME).is_symlink()
    assert (data / "mailbox.db").exists()
    assert enabled.is_symlink()
    assert not was_running.exists()
    assert "is kept" in installer.purge()
    assert (data / "mailbox.db").exists()
    assert not enabled.is_symlink()

    # A user created earlier, without a group of that name.
    system.run("userdel", NAME)
    system.run("useradd", "--no-create-home", "--home-dir", "/home/other", "--gid", "users", NAME)
    installer.install(package)
    assert system.run("getent", "group", NAME).stdout.startswith(NAME)
    installer.purge("true")
    assert not data.exists()
    assert system.run("getent", "passwd", NAME).stdout.split(":")[5] == "/home/other"
    assert home.exists()


def _enabled(system: MinimalSystem) -> Path:
    """Create the link that `systemctl enable` creates; return it."""
    link = system / f"etc/systemd/system/multi-user.target.wants/{_UNIT}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"/usr/lib/systemd/system/{_UNIT}")
    return link


def it_keeps_secrets_in_the_keychain(program: Path, folder: Path) -> None:
    """Runs the program of a bundle on this computer with its own keychain."""
    service = SecretService(folder)
    try:
        for question, answer in (
            ('{"act": "put", "name": "a", "secret": "s3cret"}', '{"found": null}'),
            ('{"act": "find", "name": "a"}', '{"found": "s3cret"}'),
        ):
            asked = [str(program), "ask-keychain"]
            done = subprocess.run(asked, input=question + "\n", capture_output=True, text=True, env=service.environment)
            assert done.stdout.strip() == answer, done.stderr
    finally:
        service.stop()
