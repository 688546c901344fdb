"""`audit verify` through the running appliance, or on files, where it names the altered row."""

import json

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.offline.store import setup_on_files
from mailbox_appliance.store.store import Store
from tests.cli.conftest import CommandLine
from tests.cli.recording_server import RecordingServer
from tests.servers.running import PASSWORD


def test_the_row_that_is_not_right_is_named(cli: CommandLine) -> None:
    cli.services |= SERVICES
    setup_on_files(cli.data_dir, name="Ada", email="ada@example.org", password=PASSWORD, device_name="d")
    outcome = cli("audit", "verify")
    assert (outcome.code, outcome.err, outcome.data["ok"], outcome.data["firstBroken"]) == (0, "", True, None)
    rows = outcome.data["count"]
    assert cli("audit", "verify", "--format", "table").out.endswith(f"The audit log is intact: {rows} rows.\n")

    store = Store.open(cli.data_dir)
    with store.database.transaction(durable=True):
        store.database.change("DROP TRIGGER audit_events_stay")
        store.database.change("UPDATE audit_events SET outcome = 'failure' WHERE number = 1")
    store.close()
    outcome = cli("audit", "verify")
    assert (outcome.code, outcome.data["ok"], outcome.data["firstBroken"]["number"]) == (1, False, 1)
    shown = cli("audit", "verify", "--format", "table")
    assert (shown.code, "Row 1 (aud_" in shown.out) == (1, True)


def test_another_appliance_is_asked_and_its_verdict_is_the_exit_code(
    client_of: CommandLine, server: RecordingServer
) -> None:
    broken = {"number": 7, "id": "aud_7", "reason": "it was added"}
    server.data("GET", "/admin/audit-events/verify", {"ok": False, "count": 6, "firstBroken": broken})
    outcome = client_of("audit", "verify")
    assert (outcome.code, json.loads(outcome.out)["data"]["firstBroken"]) == (1, broken)
