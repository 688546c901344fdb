"""The release notes are the release's part of the changelog."""

import subprocess
import sys

from mailbox_appliance.version import __version__
from tests.packaging.unit_files import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def release_notes(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = (sys.executable, str(ROOT / "packaging" / "release-notes"))
    return subprocess.run([*program, *arguments], capture_output=True, text=True)


def test_the_part_of_this_release_is_printed() -> None:
    finished = release_notes(__version__)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("### Upgrade notes\n")
    assert "\n## " not in finished.stdout
    assert f"\n\n{finished.stdout}" in CHANGELOG.rstrip() + "\n"
    assert CHANGELOG.partition(f"\n## {__version__}")[2].partition("\n")[2].startswith(f"\n{finished.stdout[:200]}")


def test_what_the_changelog_does_not_know_is_refused() -> None:
    finished = release_notes("9.9.9")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("CHANGELOG.md has no release 9.9.9; it has ")
    assert __version__ in finished.stderr


def test_one_release_is_asked_for() -> None:
    assert [release_notes(*given).returncode for given in ((), ("a", "b"))] == [2, 2]
