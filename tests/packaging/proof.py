"""Test the Linux packages: built as for a release, twice, and tried in a newly installed Debian.

`scripts/test-packages`; requires root, a Debian mirror and, the first time, an index of Python packages.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.packaging import minimal_system, packages, stories
from tests.packaging.minimal_system import CannotMake, MinimalSystem
from tests.packaging.newcomer import INSTALLED, Newcomer
from tests.packaging.packages import NAME, ROOT, Installer, Packages
from tests.servers.dovecot import CannotStart, MailServer

MB = 1_000_000
_OLDER = "0.0.1"
#: What a newcomer may have to wait for. The best of some tries: it depends on what else the machine does.
_START, _HELP, _TIMES = 0.6, 0.3, 5


def main() -> int:
    """Run all tests; return 0 if they pass."""
    parser = argparse.ArgumentParser(prog="scripts/test-packages", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the packages there, and take those that are there"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            _prove(stack, options.keep)
    except (CannotMake, CannotStart) as reason:
        print(f"test-packages: {reason}", file=sys.stderr)
        return 1
    except AssertionError as error:
        print(f"\ntest-packages: FAILED {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; nothing is left running or mounted.", file=sys.stderr)
        return 130
    return 0


def _prove(stack: ExitStack, keep: Path | None) -> None:
    _require()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="packages-", dir="/tmp")))
    folder.chmod(0o711)
    with _told("two builds"):
        newer = _built(keep or folder / "dist", "newer")
        older = _built(keep or folder / "dist", "older", "--version", _OLDER, "--forms", "deb")
    with _told("lintian"):
        _look_through(newer.deb)
    _tell_sizes(newer)
    (folder / "mail").mkdir(mode=0o711)
    server = MailServer().start(folder / "mail")
    stack.callback(server.stop)
    _try_in_a_new_debian(folder, older, newer, server)
    _try_one_file(folder, newer, server)
    with _told("keychain"):
        program = packages.unpack(_installed_system(folder / "keychain", "essential"), newer.deb)
        (folder / "secrets").mkdir()
        stories.it_keeps_secrets_in_the_keychain(folder / "keychain" / program[1:], folder / "secrets")


def _try_in_a_new_debian(folder: Path, older: Packages, newer: Packages, server: MailServer) -> None:
    with _told("a new Debian"):
        system = _installed_system(folder / "debian", "minbase")
        assert not minimal_system.has_python(system)
        system.run("apt-get", "update")
    installer = Installer(system, by_apt=True)
    with _told("installed by apt, used, upgraded while it runs"):
        stories.it_is_used_and_upgraded_while_it_runs(installer, older.deb, newer.deb, server)
        version = system.run(INSTALLED, "--version").stdout.split()[-1]
        assert version == newer.field("Version"), version
        assert system.run("dpkg", "--verify", NAME).stdout == ""
    _tell_times(system)
    with _told("the demo"):
        _try_demo(system)
    with _told("a running service is stopped for an upgrade"):
        stories.a_running_service_is_stopped_for_an_upgrade(Installer(system), newer.deb)
        stories.what_does_not_run_or_is_not_ours_is_left_alone(system)
    with _told("removed and purged, with either answer"):
        stories.removed_it_keeps_everything_and_purged_it_asks(installer, newer.deb)


def _try_one_file(folder: Path, newer: Packages, server: MailServer) -> None:
    with _told("one file in a system without apt and certificates"):
        system = _installed_system(folder / "bare", "essential")
        stories.one_file_is_enough(newer, system, server)
        stories.a_bundle_trusts_whom_it_brings(newer, system, server)


def _try_demo(system: MinimalSystem) -> None:
    """Start the demo, and check that Ctrl-C leaves nothing behind."""
    with subprocess.Popen(system.command(INSTALLED, "demo"), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("Ctrl-C stops"):
                demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
    assert list((system / "tmp").iterdir()) == []


def _tell_sizes(built: Packages) -> None:
    packed, file = built.deb.stat().st_size, built.one_file.stat().st_size
    print(f"unpacked {built.unpacked / MB:.1f} MB, .deb {packed / MB:.1f} MB, one file {file / MB:.1f} MB")
    assert built.unpacked <= 60 * MB
    assert packed <= 25 * MB


def _tell_times(system: MinimalSystem) -> None:
    """Print the seconds from start to first response, on new data directories, and those of the help."""
    starts = []
    for number in range(_TIMES):
        program = Newcomer(system, user="root", data=f"/root/{number}")
        try:
            starts.append(program.start())
        finally:
            program.end()
    helps = [_seconds(system, "--help") for _ in range(_TIMES)]
    for name, found, bound in (("first 200", starts, _START), ("--help", helps, _HELP)):
        each = ", ".join(f"{one:.2f}" for one in found)
        verdict = "holds" if min(found) <= bound else "MISSED; on a quiet machine `scripts/bench package` tells more"
        print(f"{name}: {each} s (the best is to be at most {bound} s: {verdict})")


def _seconds(system: MinimalSystem, *words: str) -> float:
    began = time.perf_counter()
    system.run(INSTALLED, *words)
    return time.perf_counter() - began


def _built(folder: Path, name: str, *options: str) -> Packages:
    if not list((folder / name).glob("*.deb")):
        packages.build(folder / name, *options, python=sys.executable)
    return Packages(folder / name)


def _look_through(package: Path) -> None:
    done = subprocess.run(["lintian", "--fail-on", "error,warning", package], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def _installed_system(root: Path, variant: str) -> MinimalSystem:
    """Install a new Debian of this computer's release; downloads are kept in build/."""
    fetched = ROOT / "build" / f"{_codename()}-{variant}.tar"
    if not fetched.exists():
        fetched.parent.mkdir(exist_ok=True)
        part = fetched.with_suffix(".part.tar")
        command = ["mmdebstrap", f"--variant={variant}", _codename(), str(part)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        part.rename(fetched)
    root.mkdir()
    subprocess.run(["tar", "--extract", "--file", fetched, "--directory", root], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    return MinimalSystem(root)


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("VERSION_CODENAME="))


def _require() -> None:
    minimal_system.check_possible()
    if missing := [name for name in ("mmdebstrap", "lintian", "objdump") if shutil.which(name) is None]:
        raise CannotMake(f"{', '.join(missing)} is missing: run scripts/setup --packages")


@contextmanager
def _told(name: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"{name} ... ", end="", flush=True)
    yield
    print(f"{time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
