"""Restoring through the API: what is refused and why, and what `service` is given (tests/service/test_service.py)."""

from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.errors import StoreAtWork
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.restore.restore import PreparedRestore
from tests.checked_client import CheckedClient

PATH = "/admin/restore"
FIRST, SECOND = "seven words that nobody guesses", "eight words that nobody ever guesses"
NO_ID = f"bak_{'0' * 26}"


class Served:
    """Takes over what is prepared, as who serves does, and does nothing with it."""

    def __init__(self, client: CheckedClient) -> None:
        self.client, self.appliance = client, client.appliance
        self.taken = list[tuple[PreparedRestore, Actor]]()
        self.appliance.start_restore = lambda prepared, actor: self.taken.append((prepared, actor))

    def back_up(self, **body: Any) -> Any:
        answer = self.client.ask("POST", "/admin/backups", body)
        assert answer.status == 201
        return answer.data

    def file_of(self, made: Any) -> Path:
        return self.appliance.folder / "backups" / str(made["fileName"])

    def failures(self) -> list[str]:
        """The backups of which the audit log says that their restore failed."""
        events = self.appliance.store.audit.list(None, 100)[0]
        return [
            one.target.id
            for one in events
            if one.action == "backup.restore" and one.outcome == "failure" and one.target
        ]

    @property
    def left(self) -> list[str]:
        """What lies in the data directory of a restore."""
        return [path.name for path in self.appliance.folder.iterdir() if path.name.startswith(".next")]


@pytest.fixture
def served(checked_client: CheckedClient) -> Served:
    return Served(checked_client)


def test_a_dry_run_tells_what_is_in_it_and_changes_nothing(served: Served) -> None:
    made = served.back_up()
    answer = served.client.ask("POST", PATH, {"backupId": made["id"], "dryRun": True})
    assert (answer.status, answer.data["members"], answer.data["createdAt"]) == (200, 1, made["createdAt"])
    assert (served.taken, served.left, served.failures()) == ([], [], [])
    assert served.appliance.exclusive_job.current is None


def test_what_was_unpacked_is_handed_over_and_nothing_long_begins_until_then(served: Served) -> None:
    made = served.back_up()
    answer = served.client.ask("POST", PATH, {"backupId": made["id"]})
    assert (answer.status, answer.data["members"]) == (202, 1)
    ((prepared, actor),) = served.taken
    assert (prepared.backup_id, actor.kind) == (made["id"], "session")
    assert (prepared.making / "mailbox.db").exists()
    for path, body in ((PATH, {"backupId": made["id"]}), ("/admin/backups", {})):
        again = served.client.ask("POST", path, body)
        assert (again.status, again.body["error"]["code"]) == (409, "conflict")
    assert served.appliance.exclusive_job.current is not None


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_wrong_with_a_backup(served: Served, dry_run: bool) -> None:
    secret, altered, cut = served.back_up(passphrase=FIRST), served.back_up(), served.back_up()
    content = bytearray(served.file_of(altered).read_bytes())
    content[-9] ^= 1
    served.file_of(altered).write_bytes(content)
    ids = [secret["id"], secret["id"], altered["id"], cut["id"]]
    found = []
    for number, backup_id in enumerate((*ids, NO_ID)):
        if backup_id == cut["id"]:
            served.file_of(cut).write_bytes(served.file_of(cut).read_bytes()[:-1000])
        body = {"backupId": backup_id, "dryRun": dry_run, **({"passphrase": SECOND} if number == 1 else {})}
        answer = served.client.ask("POST", PATH, body)
        found.append((answer.status, answer.body["error"]["code"]))
    codes = ("wrong_passphrase", "wrong_passphrase", "altered", "truncated")
    assert found == [*((400, f"backup_{code}") for code in codes), (404, "not_found")]
    assert (served.taken, served.left) == ([], [])
    assert served.failures() == ([] if dry_run else ids[::-1])
    assert served.appliance.exclusive_job.current is None


def test_a_configuration_that_cannot_be_used_here_is_told(served: Served) -> None:
    (served.appliance.folder / "config.toml").write_text("[remote]\nca_file = '/nowhere/ca.pem'\n")
    made = served.back_up()
    answer = served.client.ask("POST", PATH, {"backupId": made["id"]})
    assert (answer.status, answer.body["error"]["code"]) == (409, "conflict")
    assert "/nowhere/ca.pem" in answer.body["error"]["message"]
    assert (served.left, served.failures()) == ([], [made["id"]])


def test_while_something_long_is_done(served: Served) -> None:
    made = served.back_up()
    with served.appliance.exclusive_job.run("backup"):
        answer = served.client.ask("POST", PATH, {"backupId": made["id"], "dryRun": True})
    assert (answer.status, answer.body["error"]["code"]) == (409, "conflict")
    assert answer.body["error"]["message"].startswith(StoreAtWork(what="A backup").message[:20])


def test_where_nobody_serves_nothing_is_unpacked(served: Served) -> None:
    made = served.back_up()
    served.appliance.start_restore = None
    answer = served.client.ask("POST", PATH, {"backupId": made["id"]})
    assert (answer.status, answer.body["error"]["code"]) == (409, "conflict")
    assert served.left == []


@pytest.mark.parametrize(
    "body", [{}, {"backupId": ""}, {"backupId": NO_ID, "dryRun": "yes"}, {"backupId": NO_ID, "to": "x"}]
)
def test_what_cannot_be_a_request(served: Served, body: Any) -> None:
    answer = served.client.ask("POST", PATH, body)
    assert (answer.status, answer.body["error"]["code"]) == (400, "invalid_request")


def test_a_key_file_that_is_gone_for_the_moment_is_told(served: Served) -> None:
    """A stick that was pulled out, say: the key is in memory."""
    made, file = served.back_up(), served.appliance.store.key_file
    file.rename(file.with_name("pulled out"))
    answer = served.client.ask("POST", PATH, {"backupId": made["id"]})
    assert answer.refusal == (409, "conflict")
    assert file.name in answer.message
    assert (served.left, served.failures()) == ([], [made["id"]])
