"""`backup restore --online` and `backup download`: by an administrator, on a running appliance."""

from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from tests.cli.conftest import CommandLine, Outcome
from tests.cli.recording_server import Canned, RecordingServer
from tests.servers.running import PASSWORD, RunningAppliance

EVENTS = "/admin/audit-events?limit=100"
SUMMARY = {
    "ok": True, "createdAt": "2026-01-01T00:00:00.000Z", "format": 5, "version": "0.11.0",
    "members": 1, "accounts": 2, "messages": 3,
}  # fmt: skip
AWAY = Canned(503, {"error": {"code": "provider_unavailable", "message": "m", "requestId": "r"}})


def row(number: int, outcome: str = "success", action: str = "backup.restore", backup: str = "bak_1") -> dict[str, Any]:
    return {"id": f"aud_{number}", "action": action, "outcome": outcome, "target": {"kind": "backup", "id": backup}}


def events(*rows: dict[str, Any]) -> Canned:
    return Canned(value={"data": {"items": list(rows), "nextCursor": None}})


def restore(cli: CommandLine, *options: str) -> Outcome:
    return cli("backup", "restore", "bak_1", "--online", "--yes", *options)


# fmt: off
#: the log after the restore -> exit code, and a part of the output
OUTCOMES: list[tuple[tuple[Canned, ...], int, str]] = [
    ((events(row(2), row(1, "failure")),),                             0, "The backup is restored, and"),
    ((events(row(1, "failure")), AWAY, events(row(2), row(1))),        0, "The backup is restored, and"),
    ((events(row(2, "failure"), row(1, "failure")),),                  1, ""),
    ((AWAY, Canned(403, {"error": {"code": "permission_denied"}})),    0, "has not reported the result yet"),
]
# fmt: on


@pytest.mark.parametrize(("after", "code", "told"), OUTCOMES)
def test_it_says_how_it_went(
    after: tuple[Canned, ...], code: int, told: str, client_of: CommandLine, server: RecordingServer
) -> None:
    others = (row(3, action="backup.create"), row(4, backup="bak_2"))
    server.answer("GET", EVENTS, events(*others, row(1, "failure")), *after)
    server.data("POST", "/admin/restore", SUMMARY, status=202)
    outcome = restore(client_of, "--format", "table")
    assert outcome.code == code
    assert told in outcome.out
    assert "holds 1 member, 2 mailboxes, 3 messages" in outcome.out or code == 1
    assert (code == 1) == ("The restore failed. The store was not changed." in outcome.err)
    assert server.asked[1].json == {"backupId": "bak_1", "dryRun": False}


def test_a_dry_run_only_asks_what_is_in_it(client_of: CommandLine, server: RecordingServer) -> None:
    server.data("POST", "/admin/restore", SUMMARY)
    given = {"MAILBOX_APPLIANCE_PASSPHRASE": "twelve geese fly"}
    outcome = client_of("backup", "restore", "bak_1", "--online", "--dry-run", environment=given)
    assert (outcome.code, outcome.data) == (0, SUMMARY)
    assert [asked.json for asked in server.asked] == [
        {"backupId": "bak_1", "dryRun": True, "passphrase": "twelve geese fly"}
    ]


def test_what_nobody_can_be_asked_is_not_done(client_of: CommandLine, server: RecordingServer) -> None:
    outcome = client_of("backup", "restore", "bak_1", "--online", stdin=b"y\n")
    assert (outcome.code, outcome.error["details"][0]["path"], server.asked) == (2, "option:--yes", [])


def test_who_is_no_administrator_is_told_that(client_of: CommandLine, server: RecordingServer) -> None:
    for method, target, path in (("GET", EVENTS, "capability"), ("POST", "/admin/restore", "role")):
        error = {"code": "permission_denied", "message": "m", "requestId": "r", "details": [{"path": path}]}
        server.answer(method, target, Canned(403, {"error": error}))
    outcome = restore(client_of)
    assert (outcome.code, outcome.error["details"][0]["path"]) == (4, "role")


def test_whoever_speaks_to_another_appliance_does_not_mean_the_files_here(client_of: CommandLine) -> None:
    outcome = client_of("backup", "restore", "bak_1")
    assert outcome.code == 2
    assert str(client_of.data_dir) in outcome.error["message"]
    # Named this way, the local files are meant, so the function for files is called.
    assert "restore_on_files" in client_of("--instance", "local", "backup", "restore", "bak_1").error["message"]


def test_an_appliance_is_restored_while_it_runs(cli: CommandLine, tmp_path: Path) -> None:
    cli.services |= SERVICES
    appliance = RunningAppliance(cli.data_dir).start()
    try:
        appliance.set_up()
        login = ("login", "--email", "ada@example.org", "--password-stdin")
        assert cli(*login, stdin=PASSWORD.encode()).code == 0
        kept = cli("backup", "create").data["id"]
        assert cli("backup", "download", kept, "--output", str(tmp_path)).error["code"] == "conflict"
        sealed = cli("backup", "create", "--passphrase-stdin", stdin=b"twelve geese fly\n").data
        saved = cli("backup", "download", sealed["id"], "--output", str(tmp_path)).data
        assert (saved["sizeBytes"], Path(saved["file"]).name) == (sealed["sizeBytes"], sealed["fileName"])
        assert cli("backup", "verify", saved["file"], "--passphrase-stdin", stdin=b"twelve geese fly\n").data["ok"]

        refused = cli("backup", "restore", kept)
        assert (refused.code, refused.error["code"]) == (1, "store_in_use")
        assert f"(pid {appliance.process and appliance.process.pid})" in refused.error["message"]
        assert refused.error["message"].endswith("Or restore while it runs, with --online.")
        assert cli("settings", "set", "remote.timeout", "7").data["remote.timeout"] == 7
        assert cli("backup", "restore", kept, "--online", "--dry-run").data["members"] == 1
        outcome = cli("backup", "restore", kept, "--online", "--yes", "--format", "table")
        assert (outcome.code, outcome.err) == (0, "")
        assert "The backup is restored, and the appliance is running again." in outcome.out
        assert cli("settings", "show").data["remote.timeout"] == 30
        assert cli("audit", "list", "--limit", "1").data["items"][0]["action"] == "backup.restore"
    finally:
        assert appliance.stop() == 0
