"""What is to hold for the packages wherever they are tried: in the test suite, and by `scripts/test-packages`."""

import subprocess
from pathlib import Path

from tests.packaging import minimal_system, packages, trust
from tests.packaging.minimal_system import MinimalSystem
from tests.packaging.newcomer import DATA, Newcomer
from tests.packaging.packages import NAME, Installer, Packages
from tests.servers.dovecot import MailServer
from tests.servers.secret_service import SecretService


def one_file_is_enough(built: Packages, system: MinimalSystem, server: MailServer) -> float:
    """It runs where nothing is installed, and trusts no server that nobody vouches for; the seconds of its start."""
    assert not minimal_system.has_python(system)
    assert not (system / "etc/ssl/certs").exists()
    program = Newcomer(system, system.put(built.one_file), user="root", data="/root/data")
    tray = program.try_to_say("tray")
    assert (tray.returncode, "mailbox-appliance serve" in tray.stderr) == (0, True), tray
    try:
        took = program.start()
        program.set_up()
        trust.prove_refusal(program, server, server.fresh_user())
        program.stop()
    finally:
        program.end()
    assert list((system / "tmp").iterdir()) == []
    return took


def a_bundle_trusts_whom_it_brings(built: Packages, system: MinimalSystem, server: MailServer) -> None:
    """Where the system trusts nobody."""
    program = Newcomer(system, packages.unpack(system, built.deb), user="root", data="/root/other")
    try:
        trust.prove_list(program, server, server.fresh_user())
    finally:
        program.end()


def it_is_used_and_upgraded_while_it_runs(installer: Installer, older: Path, newer: Path, server: MailServer) -> None:
    """By the system's user; what it kept is there after the upgrade, and the process goes on until it is ended."""
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
        # What it had not needed so far, it still finds: its own, and not that of the release after it.
        assert program.count_tools_by_http() > 10
        program.stop()
        program.start()
        program.read("Before")
        assert program.count_tools_by_stdio() > 10
        program.stop()
    finally:
        program.end()


def a_running_service_is_stopped_for_an_upgrade(installer: Installer, package: Path) -> None:
    """And started after it; where systemd runs, which is played here by a program that writes down what it is asked."""
    system = installer.system
    running, asked = system / "run/systemd/system", system / "run/asked"
    systemctl = system / "usr/local/bin/systemctl"
    running.mkdir(parents=True)
    systemctl.parent.mkdir(parents=True, exist_ok=True)
    systemctl.write_text('#!/bin/sh\necho "$@" >>/run/asked\n')
    systemctl.chmod(0o755)
    try:
        installer.install(package)
        words = [line.replace(f" {NAME}.service", "") for line in asked.read_text().splitlines()]
        assert [word for word in words if word != "daemon-reload"] == ["--quiet is-active", "stop", "start"]
        assert words.index("daemon-reload") < words.index("start")
    finally:
        running.rmdir()
        systemctl.unlink()


def removed_it_keeps_everything_and_purged_it_asks(installer: Installer, package: Path) -> None:
    """What the service kept goes by a word of the administrator alone, what users keep by none."""
    system = installer.system
    home, data = system / "home/ada/.local/share/mailbox-appliance", system / DATA[1:]
    home.mkdir(parents=True)

    installer.remove()
    assert not (system / "usr/lib" / NAME).exists()
    assert not (system / "usr/bin" / NAME).is_symlink()
    assert (data / "mailbox.db").exists()
    assert "stay" in installer.purge()
    assert (data / "mailbox.db").exists()
    assert _has_user(system)

    installer.install(package)
    installer.purge("true")
    assert not data.exists()
    assert not _has_user(system)
    assert home.exists()


def it_keeps_secrets_in_the_keychain(program: Path, folder: Path) -> None:
    """The program of a bundle, run on this computer beside a keychain of its own."""
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


def _has_user(system: MinimalSystem) -> bool:
    return system.run("getent", "passwd", NAME, check=False).returncode == 0
