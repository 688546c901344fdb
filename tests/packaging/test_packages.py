"""The packages of Linux as they are built, in a minimal Debian: the short form of `scripts/test-packages`.

Built once, from what is installed for these tests and with quick compression; the system is copied from this computer.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging import minimal_system, packages, trust
from tests.packaging.minimal_system import CannotMake, MinimalSystem
from tests.packaging.newcomer import DATA, Newcomer
from tests.packaging.packages import NAME, ROOT, Packages
from tests.servers.dovecot import MailServer
from tests.servers.secret_service import SecretService

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def system() -> Iterator[MinimalSystem]:
    """Without authorities for certificates; the mail servers' users and ours can go into it."""
    with tempfile.TemporaryDirectory(prefix="minimal-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield minimal_system.make(folder / "root")
        except CannotMake as reason:
            pytest.skip(str(reason))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, system: MinimalSystem) -> Packages:
    """Of this checkout; after `system`, so that nothing is built where nothing could be tried."""
    if missing := [name for name in ("objdump", "strip") if shutil.which(name) is None]:
        pytest.fail(f"{', '.join(missing)} is missing: run scripts/setup", pytrace=False)
    given = ("--quick", "--packages-of", sys.prefix, "--scratch", str(ROOT / "build" / "tests"))
    return packages.build(tmp_path_factory.mktemp("dist"), *given, python=sys.executable)


@pytest.fixture(scope="module")
def newcomer(system: MinimalSystem) -> Iterator[Newcomer]:
    """Somebody who installs the package, and uses it as the system service would."""
    made = Newcomer(system)
    yield made
    made.end()


@pytest.mark.slow
def test_the_packages_are_whole_and_within_their_bounds(built: Packages) -> None:
    assert packages_unpacked(built) <= 60 * MIB
    assert built.one_file.stat().st_size <= 30 * MIB
    assert built.field("Depends").startswith("libc6 (>= 2.")
    sums = (built.folder / "SHA256SUMS").read_text().splitlines()
    made = sorted(file for file in built.folder.iterdir() if file.name.startswith(NAME))
    assert sums == [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in made]


def packages_unpacked(built: Packages) -> int:
    """How many bytes the package takes on the disk, as it says."""
    return int(built.field("Installed-Size")) * 1024


@pytest.mark.slow
def test_one_file_is_enough_where_nobody_is_trusted_and_nothing_is_installed(
    built: Packages, system: MinimalSystem, mail_server: MailServer
) -> None:
    assert not minimal_system.has_python(system)
    assert not (system / "etc/ssl/certs").exists()
    program = Newcomer(system, system.put(built.one_file), user="root", data="/root/data")
    tray = program.try_to_say("tray")
    assert (tray.returncode, "mailbox-appliance serve" in tray.stderr) == (0, True), tray
    try:
        program.start()
        program.set_up()
        trust.prove_refusal(program, mail_server, mail_server.fresh_user())
        program.stop()
    finally:
        program.end()
    assert list((system / "tmp").iterdir()) == []


@pytest.mark.slow
def test_a_bundle_trusts_whom_it_brings_where_the_system_trusts_nobody(
    built: Packages, system: MinimalSystem, mail_server: MailServer
) -> None:
    program = Newcomer(system, packages.unpack(system, built.deb), user="root", data="/root/other")
    try:
        trust.prove_list(program, mail_server, mail_server.fresh_user())
    finally:
        program.end()


@pytest.mark.slow
def test_it_is_installed_used_and_upgraded_while_it_runs(
    built: Packages, system: MinimalSystem, newcomer: Newcomer, mail_server: MailServer, tmp_path: Path
) -> None:
    system.add(["ca-certificates"])
    packages.install(system, packages.relabelled(built.deb, "0.0.1", tmp_path))
    newcomer.start()
    newcomer.set_up()
    email = mail_server.fresh_user()
    newcomer.connect(mail_server, email)
    newcomer.send_and_read(email, "Before")
    newcomer.look_at_console()

    told = packages.install(system, built.deb)

    assert f"process {newcomer.running.process.pid if newcomer.running.process else 0} still runs" in told
    # What it had not needed so far, it still finds: its own, and not that of the release after it.
    assert newcomer.count_tools_by_http() > 10
    newcomer.stop()
    newcomer.start()
    newcomer.read("Before")
    assert newcomer.count_tools_by_stdio() > 10
    newcomer.stop()


@pytest.mark.slow
def test_it_keeps_its_secrets_in_the_keychain(built: Packages, system: MinimalSystem, tmp_path: Path) -> None:
    program = system / "usr/lib" / NAME / NAME
    service = SecretService(tmp_path)
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


@pytest.mark.slow
def test_removed_it_keeps_everything_and_purged_it_asks(built: Packages, system: MinimalSystem) -> None:
    kept = system / "home/ada/.local/share/mailbox-appliance/mailbox.db"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"of a user")

    packages.remove(system)
    told = packages.purge(system)
    assert "stay" in told
    assert (system / DATA[1:] / "mailbox.db").exists()
    assert packages.has_user(system)

    packages.install(system, built.deb)
    packages.purge(system, "true")
    assert not (system / DATA[1:]).exists()
    assert not packages.has_user(system)
    assert kept.exists()
