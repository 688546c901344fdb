"""Backups through the API: who gets what, what is refused, and what is written down of it."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import SystemClock
from mailbox_appliance.model.backups import Backup
from mailbox_appliance.operations.backups import FileChunks, backup_page
from mailbox_appliance.store.backup.container import SectionSource
from mailbox_appliance.store.backup.files import stage_backup
from mailbox_appliance.store.key import FileSlot
from tests.checked_client import CheckedClient

PATH = "/admin/backups"
PASSPHRASE = {"passphrase": "seven words that nobody guesses"}
NO_ID = f"bak_{'0' * 26}"


@pytest.fixture
def ada(checked_client: CheckedClient) -> CheckedClient:
    """An administrator."""
    return checked_client


def make(client: CheckedClient, body: Any = None) -> Any:
    answer = client.ask("POST", PATH, body)
    assert answer.status == 201
    return answer.data


def acts(appliance: Appliance, noun: str = "backup") -> list[tuple[str, str | None, str | None]]:
    """What was done to backups: action, whom by, to which; the first first."""
    events = appliance.store.audit.list(None, 100)[0]
    found = [one for one in events if one.action.startswith(f"{noun}.")]
    return [(one.action, one.actor.kind, one.target.id if one.target else None) for one in reversed(found)]


def file_of(client: CheckedClient, made: Any) -> Path:
    return client.appliance.folder / "backups" / str(made["fileName"])


def test_made_listed_verified_and_audited(ada: CheckedClient) -> None:
    assert ada.ask("GET", PATH).data == {"items": [], "nextCursor": None}
    answer = ada.ask("POST", PATH, {})
    made = answer.data
    assert (made["reason"], made["format"], made["verified"]) == ("manual", 5, True)
    assert made["passphraseProtected"] is False
    assert made["sizeBytes"] == file_of(ada, made).stat().st_size
    assert answer.warnings[0].startswith("Anyone who has this file can open it")
    assert ada.ask("GET", PATH).data["items"] == [made]
    summary = ada.ask("POST", f"{PATH}/{made['id']}/verify").data
    assert summary == {
        "ok": True,
        "createdAt": made["createdAt"],
        "format": 5,
        "version": made["version"],
        "members": 1,
        "accounts": 0,
        "messages": 0,
    }
    assert acts(ada.appliance) == [("backup.create", "session", made["id"])]


def test_what_lies_beside_them_is_told_of_and_hinders_nothing(ada: CheckedClient) -> None:
    made = make(ada)
    file = file_of(ada, made)
    for name in (b"\xff.mbxbackup", b"zz\x1b[2J copy.mbxbackup"):
        shutil.copy(os.fsencode(file), os.fsencode(file.parent) + b"/" + name)
    answer = ada.ask("GET", PATH)
    assert [one["fileName"] for one in answer.data["items"]] == [made["fileName"]]
    unnamed, copy = answer.warnings
    assert unnamed.startswith("\\xff.mbxbackup in the backup folder has a name that is not UTF-8")
    assert copy == (f"zz\\x1b[2J copy.mbxbackup in the backup folder is a copy of {made['fileName']}, which is listed.")


def test_what_was_replaced_and_does_not_open_is_no_altered_backup(ada: CheckedClient) -> None:
    store = ada.appliance.store
    sources = [SectionSource("mailbox.db", b"as it lay there, damaged")]
    with stage_backup(
        store.folder, "pre-restore", sources, store.key, (FileSlot(store.key.master),), 5, SystemClock()
    ) as b:
        backup_id, _ = b.manifest.id, b.publish()
    answer = ada.ask("POST", f"{PATH}/{backup_id}/verify", {})
    assert answer.refusal == (409, "conflict")
    assert "is intact and keeps the files that a restore replaced" in answer.message
    assert ada.ask("POST", "/admin/restore", {"backupId": backup_id, "dryRun": True}).refusal == (409, "conflict")
    assert [one["verified"] for one in ada.ask("GET", PATH).data["items"]] == [False]


def test_a_file_that_was_overwritten_is_told_as_no_backup(ada: CheckedClient) -> None:
    made = make(ada)
    file_of(ada, made).write_text("hello")
    assert ada.ask("POST", f"{PATH}/{made['id']}/verify", {}).refusal == (400, "not_a_backup")
    assert ada.ask("GET", f"{PATH}/{made['id']}").refusal == (400, "not_a_backup")
    restore = {"backupId": made["id"], "dryRun": True}
    assert ada.ask("POST", "/admin/restore", restore).refusal == (400, "not_a_backup")
    assert ada.ask("GET", PATH).data["items"] == []


def test_with_a_passphrase_it_opens_with_nothing_else(ada: CheckedClient) -> None:
    answer = ada.ask("POST", PATH, PASSPHRASE)
    made = answer.data
    assert (made["passphraseProtected"], answer.warnings) == (True, [])
    verify = f"{PATH}/{made['id']}/verify"
    assert ada.ask("POST", verify, PASSPHRASE).data["ok"] is True
    for wrong in (None, {}, {"passphrase": None}, {"passphrase": "another one altogether"}):
        assert ada.ask("POST", verify, wrong).refusal == (400, "backup_wrong_passphrase")


#: body -> where it is wrong
WRONG: list[tuple[Any, str]] = [
    ({"passphrase": "elevenchars"}, "/passphrase"),
    ({"passphrase": ""}, "/passphrase"),
    ({"passphrase": "x" * 1025}, "/passphrase"),
    ({"passphrase": 123456789012}, "/passphrase"),
    ({"passphrase": "multi line\npass phrase"}, "/passphrase"),
    ({"passphrase": "a tab is one, too\t"}, "/passphrase"),
    ({"passphrase": "so is a nul \0 in it"}, "/passphrase"),
    ({"passPhrase": "twelve chars"}, "/passPhrase"),
    ([], ""),
]


@pytest.mark.parametrize(("body", "place"), WRONG)
def test_what_cannot_be_a_passphrase(ada: CheckedClient, body: Any, place: str) -> None:
    answer = ada.ask("POST", PATH, body)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])
    assert ada.ask("GET", PATH).data["items"] == []


def test_one_that_is_not_there(ada: CheckedClient) -> None:
    for name in (NO_ID, "bak_1", "a.mbxbackup", "%2e%2e"):
        assert ada.ask("GET", f"{PATH}/{name}").refusal == (404, "not_found")
        assert ada.ask("POST", f"{PATH}/{name}/verify", {}).refusal == (404, "not_found")


# --- saved elsewhere --------------------------------------------------------------------------------------------------


def test_a_file_comes_as_it_is_and_is_audited(ada: CheckedClient) -> None:
    made = make(ada, PASSPHRASE)
    answer = ada.ask("GET", f"{PATH}/{made['id']}")
    assert answer.status == 200
    assert answer.content == file_of(ada, made).read_bytes()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{made["fileName"]}"'
    assert answer.headers["content-length"] == str(made["sizeBytes"])
    assert acts(ada.appliance)[1:] == [("backup.download", "session", made["id"])]


def test_one_that_anybody_could_open_stays_here(ada: CheckedClient) -> None:
    made = make(ada)
    answer = ada.ask("GET", f"{PATH}/{made['id']}")
    assert answer.refusal == (409, "conflict")
    assert "passphrase" in answer.message
    assert [action for action, _, _ in acts(ada.appliance)] == ["backup.create"]


def test_a_file_that_is_read_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "a"
    content = os.urandom(300_000)
    file.write_bytes(content)
    reading = FileChunks(file.open("rb"))
    file.unlink()
    assert (reading.size, b"".join(reading)) == (300_000, content)
    assert next(reading, None) is None
    reading.close()


def test_nothing_is_left_open_of_a_file_that_nobody_reads(tmp_path: Path) -> None:
    file = (tmp_path / "a").open("wb+")
    FileChunks(file).close()
    assert file.closed


# --- what is wrong with one -------------------------------------------------------------------------------------------


def _longer(content: bytes) -> bytes:
    return content + b"x"


def _shorter(content: bytes) -> bytes:
    return content[:-1]


def _changed(content: bytes) -> bytes:
    return content[:-1] + bytes((content[-1] ^ 1,))


@pytest.mark.parametrize(
    ("damage", "code"),
    [(_shorter, "backup_truncated"), (_longer, "backup_altered"), (_changed, "backup_altered")],
)
def test_a_damaged_one_says_what_is_wrong(ada: CheckedClient, damage: Any, code: str) -> None:
    made = make(ada)
    file_of(ada, made).write_bytes(damage(file_of(ada, made).read_bytes()))
    answer = ada.ask("POST", f"{PATH}/{made['id']}/verify")
    # One whose manifest contradicts its size may not be known as that backup any more.
    assert answer.refusal == (400, code)
    assert str(ada.appliance.folder) not in answer.message


# --- one at a time, and nobody waits for it ---------------------------------------------------------------------------


def test_one_long_thing_at_a_time(ada: CheckedClient) -> None:
    made = make(ada)
    with ada.appliance.exclusive_job.run("store_check"):
        for path in (PATH, f"{PATH}/{made['id']}/verify"):
            answer = ada.ask("POST", path)
            assert answer.refusal == (409, "conflict")
            assert answer.message.startswith("A check of the store is already running")
        assert ada.ask("GET", PATH).data["items"] == [made]
        assert "progress" in ada.ask("GET", "/status").data["store"]
    assert ada.ask("POST", f"{PATH}/{made['id']}/verify").status == 200


def test_long_work_leaves_workers_to_those_who_read(ada: CheckedClient) -> None:
    appliance = ada.appliance
    with ExitStack() as taken:
        for _ in range(appliance.settings.number("server.waiting_workers")):
            assert taken.enter_context(appliance.io_slot())
        answer = ada.ask("POST", PATH)
        assert (answer.refusal, answer.headers["retry-after"]) == ((429, "too_many_attempts"), "5")
        assert appliance.exclusive_job.current is None
    assert ada.ask("POST", PATH).status == 201


# --- the list ---------------------------------------------------------------------------------------------------------


def test_pages_are_newest_first_and_each_backup_stands_on_one(ada: CheckedClient) -> None:
    made = [make(ada)["id"] for _ in range(3)]
    first = ada.ask("GET", f"{PATH}?limit=2").data
    assert [one["id"] for one in first["items"]] == [made[2], made[1]]
    newer = make(ada)["id"]
    second = ada.ask("GET", f"{PATH}?limit=2&cursor={first['nextCursor']}").data
    assert ([one["id"] for one in second["items"]], second["nextCursor"]) == ([made[0]], None)
    assert ada.ask("GET", f"{PATH}?limit=1").data["items"][0]["id"] == newer
    assert ada.ask("GET", f"{PATH}?cursor=abc").refusal == (400, "invalid_request")


def test_those_of_one_moment_and_of_no_moment_are_all_listed() -> None:
    def backup(number: int, at: str) -> Backup:
        return Backup(
            id=f"bak_{number:026}",
            file_name="a",
            created_at=at,
            reason="daily",
            format=5,
            version="0",
            size_bytes=1,
            passphrase_protected=False,
            verified=True,
        )

    moments = ["2026-01-02T00:00:00.000Z", "2026-99-99T00:00:00.000Z"]
    backups = tuple(backup(number, moments[number % 2]) for number in range(6))
    seen: list[Backup] = []
    cursor = None
    while len(seen) < 9:
        page = backup_page(backups, 2, cursor)
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(one.id for one in seen) == [one.id for one in backups]
    assert [one.created_at for one in seen] == sorted((one.created_at for one in seen), key=moments.index)


# --- the operator -----------------------------------------------------------------------------------------------------


@pytest.fixture
def operator(ada: CheckedClient) -> CheckedClient:
    """Who may read `run.json`."""
    secret = ada.appliance.operator_secret = "the secret of this run, which nobody guesses"
    client = CheckedClient(ada.appliance)
    client.token = secret
    return client


def test_the_operator_makes_lists_and_verifies_and_takes_nothing_away(operator: CheckedClient) -> None:
    made = make(operator)
    assert operator.ask("GET", PATH).data["items"] == [made]
    assert operator.ask("POST", f"{PATH}/{made['id']}/verify").data["members"] == 1
    assert acts(operator.appliance) == [("backup.create", "local", made["id"])]
    assert operator.ask("GET", f"{PATH}/{made['id']}").refusal == (401, "unauthenticated")
    for call in ("GET /me", "GET /status", "GET /accounts", "GET /admin/members", "GET /admin/audit-events"):
        assert operator.ask(*call.split(" ")).refusal == (401, "unauthenticated")


def test_only_the_whole_secret_is_the_operators(operator: CheckedClient) -> None:
    for wrong in (operator.token[:-1], operator.token + "x", operator.token.upper(), "ü", "None", ""):
        assert operator.ask("GET", PATH, token=wrong).refusal == (401, "unauthenticated")


def test_where_nobody_serves_there_is_no_operator(operator: CheckedClient) -> None:
    operator.appliance.operator_secret = None
    for token in (operator.token, "None", ""):
        assert operator.ask("GET", PATH, token=token).refusal == (401, "unauthenticated")
