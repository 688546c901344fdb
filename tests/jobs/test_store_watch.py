"""Low disk space is logged once when it begins and once when it ends."""

import logging
import threading
from pathlib import Path

import pytest

from mailbox_appliance import settings
from mailbox_appliance.jobs.daily_backup import DiskSpaceWatch
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.files import MIB
from mailbox_appliance.store.store import Store
from tests.servers.mailboxes import wait_until


def low(mib: int) -> Settings:
    return settings.load(None, {}, {"store.low_space_mib": mib})


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mailbox_appliance.jobs.daily_backup")
    return caplog


def test_what_begins_and_ends_is_told_once(store: Store, told: pytest.LogCaptureFixture) -> None:
    options = settings.load(None, {}, {})
    watch = DiskSpaceWatch(store, options)
    for most in (0, 1 << 40, 1 << 40, 0, 0):
        options.use_stored({"store.low_space_mib": most})
        watch.run_once()
    assert [record.levelname for record in told.records] == ["WARNING", "INFO"]
    assert "almost full" in vars(told.records[0])["why"]
    assert told.messages[1] == "disk_space_recovered"


def test_at_the_bound_it_is_not_told_over_and_over(store: Store, told: pytest.LogCaptureFixture) -> None:
    options = settings.load(None, {}, {})
    watch = DiskSpaceWatch(store, options)
    free = store.free_bytes // MIB
    for most in (free * 2, free - free // 50, free * 2, free - free // 50):
        options.use_stored({"store.low_space_mib": most})
        watch.run_once()
    assert [record.levelname for record in told.records] == ["WARNING"]


def test_a_backup_that_will_not_fit_is_told_as_well(
    store: Store, told: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with (store.folder / "mailbox.db-wal").open("r+b") as sparse:
        size = sparse.seek(0, 2)
        sparse.truncate(1 << 43)  # uses no space itself
        DiskSpaceWatch(store, low(0)).run_once()
        sparse.truncate(size)
    assert "will not fit" in vars(told.records[0])["why"]


def test_it_looks_by_itself_and_ends_when_told(store: Store, told: pytest.LogCaptureFixture) -> None:
    watch = DiskSpaceWatch(store, low(1 << 40))
    watch.start()
    wait_until(lambda: bool(told.messages), lambda: "nothing was told", 10)
    watch.stop(10)
    assert not any(thread.name == "store-watch" for thread in threading.enumerate())
