"""`audit verify` through the running appliance, or on files, where it names the altered row."""

import json
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.store.store import Store
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer
from tests.servers.running import RunningAppliance

LAST = "(SELECT max(number) FROM audit_events)"
BEFORE = f"(SELECT lower(hex(mac)) FROM audit_events WHERE number = {LAST} - 1)"
#: what somebody does to the files -> the row that is named; None: the last one
# fmt: off
MEDDLING: list[tuple[str, tuple[str, ...], int | None]] = [
    ("changed",           ("UPDATE audit_events SET outcome = 'failure' WHERE number = 2",), 2),
    ("dropped",           ("DELETE FROM audit_events WHERE number = 3",), 3),
    ("first dropped",     ("DELETE FROM audit_events WHERE number = 1",), 1),
    ("last dropped",      (f"DELETE FROM audit_events WHERE number = {LAST}",), None),
    ("last covered up",   (f"UPDATE meta SET value = {BEFORE} WHERE name = 'audit_head'",
                           f"UPDATE meta SET value = {LAST} - 1 WHERE name = 'audit_count'",
                           f"DELETE FROM audit_events WHERE number = {LAST}"), None),
    ("changed about",     ("UPDATE audit_events SET number = -1 WHERE number = 2",
                           "UPDATE audit_events SET number = 2 WHERE number = 3",
                           "UPDATE audit_events SET number = 3 WHERE number = -1"), 2),
]
# fmt: on


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped appliance whose audit log is intact."""
    process = RunningAppliance(tmp_path_factory.mktemp("finished") / "data").start()
    process.set_up()
    for _ in range(3):
        process.ask("PATCH", f"/admin/members/{process.ask('GET', '/me').data['member']['id']}", {"name": "Ada L."})
        process.ask("PATCH", f"/admin/members/{process.ask('GET', '/me').data['member']['id']}", {"name": "Ada"})
    line = CommandLine(tmp_path_factory.mktemp("line"), {"MAILBOX_APPLIANCE_TOKEN": process.token or ""}, SERVICES)
    outcome = line("audit", "verify", "--data-dir", str(process.folder))
    assert (outcome.code, outcome.data["ok"], outcome.data["count"]) == (0, True, 8)
    assert process.stop() == 0
    return process.folder


@pytest.fixture
def line(cli: CommandLine, finished: Path) -> CommandLine:
    """A command line on a copy of these files."""
    cli.services |= SERVICES
    for name in ("mailbox.db", "encryption.key"):
        (cli.data_dir / name).write_bytes((finished / name).read_bytes())
    return cli


def meddle(folder: Path, *statements: str) -> tuple[int, dict[int, str]]:
    """Change the log in the file as a holder of its key could; return the number of rows before and the rows now."""
    store = Store.open(folder)
    with store.database.transaction(durable=True):
        count = int(store.database.value(f"SELECT {LAST}"))
        for name in ("stay", "remain"):
            store.database.change(f"DROP TRIGGER audit_events_{name}")
        for statement in statements:
            store.database.change(statement)
    ids: dict[int, str] = dict(store.database.rows("SELECT number, id FROM audit_events"))
    store.close()
    return count, ids


def test_a_log_as_it_was_written(line: CommandLine) -> None:
    outcome = line("audit", "verify")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.data == {"ok": True, "count": 8, "firstBroken": None}
    assert line("audit", "verify", "--format", "table").out.endswith("The audit log is intact: 8 rows.\n")


@pytest.mark.parametrize(("statements", "number"), [case[1:] for case in MEDDLING], ids=[case[0] for case in MEDDLING])
def test_the_row_that_is_not_right_is_named(line: CommandLine, statements: tuple[str, ...], number: int | None) -> None:
    count, ids = meddle(line.data_dir, *statements)
    number = number or count
    outcome = line("audit", "verify")
    broken = outcome.data["firstBroken"]
    assert (outcome.code, outcome.data["ok"], broken["number"]) == (1, False, number)
    assert broken["id"] in (ids.get(number), None)
    shown = line("audit", "verify", "--format", "table")
    assert (shown.code, f"Row {number}" in shown.out) == (1, True)


def test_another_appliance_is_asked_and_its_verdict_is_the_exit_code(
    client_of: CommandLine, server: RecordingServer
) -> None:
    broken = {"number": 7, "id": "aud_7", "reason": "it was added"}
    server.data("GET", "/admin/audit-events/verify", {"ok": False, "count": 6, "firstBroken": broken})
    outcome = client_of("audit", "verify")
    assert (outcome.code, json.loads(outcome.out)["data"]["firstBroken"]) == (1, broken)
