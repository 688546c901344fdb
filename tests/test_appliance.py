"""The parts are assembled once, and only a few requests wait for other servers at a time."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import ServersBusy, StoreInUse, StoreUnusable
from mailbox_appliance.settings import load
from tests.servers.fake_clock import FakeClock


def test_it_owns_its_directory_until_it_stops(tmp_path: Path, clock: FakeClock) -> None:
    first = Appliance(tmp_path, clock=clock)
    first.start()
    with pytest.raises(StoreInUse):
        Appliance(tmp_path)
    first.stop()
    with pytest.raises(StoreUnusable):
        first.store.members.has_any()
    second = Appliance(tmp_path)
    second.start()
    second.stop()


def test_its_parts_share_one_clock(tmp_path: Path, clock: FakeClock) -> None:
    made = Appliance(tmp_path, clock=clock)
    assert made.started_at == clock.monotonic()
    assert made.store.database.value("SELECT value FROM meta WHERE name = 'created_at'") == "2026-01-02T03:04:05.678Z"
    made.stop()


@pytest.mark.parametrize(("workers", "allowed", "places"), [(8, 1, 1), (8, 4, 4), (4, 4, 3), (2, 4, 1)])
def test_only_so_many_wait_for_other_servers(tmp_path: Path, workers: int, allowed: int, places: int) -> None:
    environment = {
        "MAILBOX_APPLIANCE_SERVER_WORKERS": str(workers),
        "MAILBOX_APPLIANCE_SERVER_WAITING_WORKERS": str(allowed),
    }
    made = Appliance(tmp_path, load(environment=environment))
    with ExitStack() as waiting:
        assert [waiting.enter_context(made.io_slot()) for _ in range(places)] == [True] * places
        with made.io_slot() as has_place:
            assert not has_place
        with pytest.raises(ServersBusy) as caught, made.require_io_slot():
            pytest.fail("it waits")
        assert caught.value.retry_after == 5
    with ExitStack() as asking:
        for _ in range(places):
            asking.enter_context(made.require_io_slot())
    with pytest.raises(ValueError), made.require_io_slot():
        raise ValueError
    with made.io_slot() as has_place:
        assert has_place
    made.stop()
