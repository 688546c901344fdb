"""`store migrate`: dry run, upgrade, and the report about a store that is already upgraded."""

import shutil

import pytest

from mailbox_appliance.__main__ import SERVICES
from tests.cli.conftest import CommandLine
from tests.stores.opening import FORMATS, copied


@pytest.fixture(params=FORMATS)
def line(request: pytest.FixtureRequest, cli: CommandLine) -> CommandLine:
    """A command line on the store of an older release."""
    cli.services |= SERVICES
    shutil.rmtree(cli.data_dir)
    copied(request.param, cli.data_dir)
    return cli


def test_it_is_told_what_would_be_done(line: CommandLine) -> None:
    outcome = line("store", "migrate", "--dry-run")
    assert (outcome.code, outcome.data["upgradesTo"], outcome.data["ready"]) == (0, 5, True)
    table = line("--format", "table", "store", "migrate", "--dry-run")
    assert f"would be upgraded from format {outcome.data['format']} to 5." in table.out
    (line.data_dir / "encryption.key").write_text("x")
    refused = line("store", "migrate", "--dry-run")
    assert (refused.code, refused.data["ready"], len(refused.data["problems"])) == (1, False, 1)
    assert "would be refused" in line("--format", "table", "store", "migrate", "--dry-run").out
    assert line("store", "migrate").code == 4


def test_it_is_done_once(line: CommandLine) -> None:
    done = line("store", "migrate")
    assert (done.code, done.data["format"]) == (0, 5)
    assert (line.data_dir / "backups" / done.data["backup"]).exists()
    again = line("--format", "table", "store", "migrate")
    assert (again.code, "Nothing was changed." in again.out) == (0, True)
    assert "No upgrade is needed." in line("--format", "table", "store", "migrate", "--dry-run").out
