"""The Linux packages as built, in a minimal Debian: the short form of `scripts/test-packages`.

They are built once, from the packages of the test environment and with fast compression; the system is copied from this
computer. The tests depend on each other, in this order.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging import minimal_system, packages, stories
from tests.packaging.minimal_system import CannotMake, MinimalSystem
from tests.packaging.packages import NAME, ROOT, Installer, Packages
from tests.servers.dovecot import MailServer

MB = 1_000_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def system() -> Iterator[MinimalSystem]:
    """A minimal system without trusted CAs; users other than root can access it."""
    with tempfile.TemporaryDirectory(prefix="minimal-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield minimal_system.make(folder / "root")
        except CannotMake as reason:
            pytest.skip(str(reason))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, system: MinimalSystem) -> Packages:
    """The packages of this checkout; depends on `system`, so that nothing is built if nothing can be tested."""
    if missing := [name for name in ("objdump", "strip") if shutil.which(name) is None]:
        pytest.fail(f"{', '.join(missing)} is missing: run scripts/setup", pytrace=False)
    given = ("--quick", "--packages-of", sys.prefix, "--scratch", str(ROOT / "build" / "tests"))
    return packages.build(tmp_path_factory.mktemp("dist"), *given, python=sys.executable)


@pytest.fixture(scope="module")
def installer(system: MinimalSystem) -> Installer:
    """An installer for packages in the system."""
    return Installer(system)


def test_the_packages_are_whole_and_within_their_bounds(built: Packages) -> None:
    assert built.unpacked <= 60 * MB
    assert built.one_file.stat().st_size <= 30 * MB
    assert built.field("Depends").startswith("libc6 (>= 2.")
    assert ", zlib1g, " in built.field("Depends")  # the loader needs it before it looks into the bundle
    assert not [file for file in built.files() if file.endswith("dist-info/RECORD")]  # it differs with the folder
    sums = (built.folder / "SHA256SUMS").read_text().splitlines()
    made = sorted(file for file in built.folder.iterdir() if file.name.startswith(NAME))
    assert sums == [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in made]


def test_one_file_is_enough_where_nothing_is_installed(
    built: Packages, system: MinimalSystem, mail_server: MailServer
) -> None:
    stories.one_file_is_enough(built, system, mail_server)


def test_a_bundle_trusts_whom_it_brings(built: Packages, system: MinimalSystem, mail_server: MailServer) -> None:
    stories.a_bundle_trusts_whom_it_brings(built, system, mail_server)


def test_it_is_installed_used_and_upgraded_while_it_runs(
    built: Packages, installer: Installer, mail_server: MailServer, tmp_path: Path
) -> None:
    installer.system.add(["ca-certificates"])
    older = packages.relabelled(built.deb, "0.0.1", tmp_path)
    stories.it_is_used_and_upgraded_while_it_runs(installer, older, built.deb, mail_server)


def test_a_running_service_is_stopped_for_an_upgrade(built: Packages, installer: Installer) -> None:
    stories.a_running_service_is_stopped_for_an_upgrade(installer, built.deb)


def test_what_does_not_run_or_is_not_ours_is_left_alone(built: Packages, system: MinimalSystem) -> None:
    stories.what_does_not_run_or_is_not_ours_is_left_alone(system)


def test_it_keeps_secrets_in_the_keychain(built: Packages, system: MinimalSystem, tmp_path: Path) -> None:
    stories.it_keeps_secrets_in_the_keychain(system / "usr/lib" / NAME / NAME, tmp_path)


def test_removed_it_keeps_everything_and_purged_it_asks(built: Packages, installer: Installer) -> None:
    stories.removed_it_keeps_everything_and_purged_it_asks(installer, built.deb)
