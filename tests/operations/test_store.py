"""The store as a whole through the API: how it is, and whether it is whole."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.checked_client import CheckedClient

STORE, CHECK = "/admin/store", "/admin/store/check"
QUICK = ["pages", "references", "schema", "key"]
FULL = [*QUICK, "counts", "search", "audit"]


@pytest.fixture
def ada(checked_client: CheckedClient) -> CheckedClient:
    """An administrator."""
    return checked_client


def test_how_the_store_is(ada: CheckedClient) -> None:
    answer = ada.ask("GET", STORE)
    told, folder = answer.data, ada.appliance.folder
    assert told["sizeBytes"] > 0
    assert told["freeBytes"] > 0
    assert told | {"sizeBytes": 0, "freeBytes": 0} == {
        "path": str(folder),
        "format": 5,
        "sizeBytes": 0,
        "freeBytes": 0,
        "lowSpace": False,
        "key": {"file": str(folder / "encryption.key"), "slots": ["file"], "problem": None},
        "lastBackup": None,
        "pid": os.getpid(),
        "migration": None,
        "problem": None,
    }
    assert answer.warnings == []


def test_the_newest_backup_is_told(ada: CheckedClient) -> None:
    for _ in range(2):
        made = ada.ask("POST", "/admin/backups").data
    assert ada.ask("GET", STORE).data["lastBackup"] == {"id": made["id"], "at": made["createdAt"], "reason": "manual"}


def test_little_room_is_told(ada: CheckedClient) -> None:
    ada.ask("PATCH", "/admin/settings", {"store.low_space_mib": 1 << 40})
    answer = ada.ask("GET", STORE)
    assert answer.data["lowSpace"] is True
    assert "almost full" in answer.warnings[0]


def test_a_key_file_that_will_not_open_it_is_told(ada: CheckedClient) -> None:
    file = ada.appliance.folder / "encryption.key"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"5", b"6", 1))
    key = ada.ask("GET", STORE).data["key"]
    assert (key["slots"], "damaged" in key["problem"]) == ([], True)
    file.unlink()
    assert "cannot be read" in ada.ask("GET", STORE).data["key"]["problem"]
    assert [one["code"] for one in ada.ask("POST", CHECK).data["problems"]] == ["key_missing"]
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("body", "checked"), [(None, QUICK), ({}, QUICK), ({"full": False}, QUICK), ({"full": True}, FULL)]
)
def test_a_store_that_is_whole(ada: CheckedClient, body: object, checked: list[str]) -> None:
    full = checked == FULL
    assert ada.ask("POST", CHECK, body).data == {
        "ok": True,
        "full": full,
        "format": 5,
        "checked": checked,
        "problems": [],
    }


def test_what_is_wrong_is_told(ada: CheckedClient) -> None:
    database = ada.appliance.store.database
    with database.transaction():
        database.change("DROP INDEX messages_thread")
    answer = ada.ask("POST", CHECK, {"full": True}).data
    assert answer["ok"] is False
    assert answer["problems"] == [{"code": "schema_differs", "message": "The index messages_thread is missing."}]


@pytest.mark.parametrize("body", [{"full": 1}, {"full": None}, {"deep": True}, []])
def test_what_cannot_be_asked(ada: CheckedClient, body: object) -> None:
    assert ada.ask("POST", CHECK, body).refusal == (400, "invalid_request")


def test_one_long_thing_at_a_time(ada: CheckedClient) -> None:
    with ada.appliance.exclusive_job.run("backup"):
        answer = ada.ask("POST", CHECK)
    assert answer.refusal == (409, "conflict")
    assert answer.message.startswith("A backup is already running")
    assert ada.ask("POST", CHECK).data["ok"] is True


def test_while_one_checks_the_others_are_told_to_wait_and_nobody_else_is(ada: CheckedClient) -> None:
    with ThreadPoolExecutor(6) as callers:
        answers = list(callers.map(lambda _: ada.ask("POST", CHECK, {"full": True}).status, range(12)))
        assert set(answers) <= {200, 409, 429}
        assert 200 in answers
    assert ada.ask("POST", CHECK).status == 200


def test_where_all_places_are_taken_it_is_to_be_tried_again(ada: CheckedClient) -> None:
    held = [ada.appliance.io_slot() for _ in range(4)]
    assert all(place.__enter__() for place in held)
    assert ada.ask("POST", CHECK).refusal == (429, "too_many_attempts")
    for place in held:
        place.__exit__(None, None, None)


def test_the_operator_may_without_a_log_in(ada: CheckedClient) -> None:
    secret = ada.appliance.operator_secret = "the secret of this run, which nobody guesses"
    assert ada.ask("GET", STORE, token=secret).status == 200
    assert ada.ask("POST", CHECK, token=secret).status == 200
    assert ada.ask("GET", STORE, token=secret, peer="192.0.2.7", secure=True, host="example.org").status in (401, 403)
