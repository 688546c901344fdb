"""The daily backup, with a clock that the test moves, in a real data directory."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.events import BackupFailed, BackupFinished, Event
from mailbox_appliance.model.backups import Backup
from mailbox_appliance.settings import Value
from mailbox_appliance.store.changes import ChangeFilter
from tests.servers.fake_clock import FakeClock

HOUR, DAY = 3600, 86_400


def opened(folder: Path, clock: FakeClock, **flags: Value) -> Appliance:
    """Return an appliance that is set up, with its workers stopped."""
    made = Appliance(folder, settings.load(None, {}, {f"backup.{name}": value for name, value in flags.items()}), clock)
    if not made.store.members.has_any():
        with made.store.database.transaction():
            made.store.members.add(name="Ada", email="ada@example.org", role="admin", password_hash=None)
    return made


@pytest.fixture
def appliance(tmp_path: Path, clock: FakeClock) -> Iterator[Appliance]:
    made = opened(tmp_path / "data", clock, keep_daily=3, keep_weekly=2)
    yield made
    made.stop()


def told(appliance: Appliance) -> list[Event]:
    """Return a list that collects the events about backups from now on."""
    heard: list[Event] = []
    appliance.events.subscribe(BackupFinished, heard.append)
    appliance.events.subscribe(BackupFailed, heard.append)
    return heard


def journal(appliance: Appliance) -> list[tuple[str | None, str]]:
    """Return the type and subject of each event about a backup."""
    seen = ChangeFilter(frozenset({"backup.finished", "backup.failed"}), frozenset(), "")
    return [(one.type, one.subject) for one in appliance.store.changes.read(0, seen, 100)[0]]


def backups(appliance: Appliance) -> tuple[Backup, ...]:
    return appliance.store.backups.list()


def test_once_a_day_and_after_a_restart(appliance: Appliance, clock: FakeClock, tmp_path: Path) -> None:
    heard = told(appliance)
    for seconds, made in ((0, 1), (60, 1), (DAY - 61, 1), (1, 2)):
        clock.advance(seconds)
        appliance.daily_backup.run_once()
        assert (seconds, len(backups(appliance))) == (seconds, made)
    assert {(one.reason, one.verified) for one in backups(appliance)} == {("daily", True)}
    assert heard == [BackupFinished(one.id) for one in reversed(backups(appliance))]
    assert journal(appliance) == [("backup.finished", one.id) for one in reversed(backups(appliance))]
    events, _ = appliance.store.audit.list(None, 2)
    assert [(e.action, e.actor.kind, e.target.id) for e in events if e.target] == [
        ("backup.create", "system", one.id) for one in backups(appliance)
    ]
    appliance.stop()
    again = opened(tmp_path / "data", clock)
    again.daily_backup.run_once()
    assert len(backups(again)) == 2
    again.stop()


def test_one_that_somebody_makes_is_not_the_daily_one(appliance: Appliance) -> None:
    appliance.store.backups.create("manual")
    appliance.daily_backup.run_once()
    assert sorted(one.reason for one in backups(appliance)) == ["daily", "manual"]


def test_the_old_ones_go_and_others_stay(appliance: Appliance, clock: FakeClock) -> None:
    manual = appliance.store.backups.create("manual")
    for _ in range(12):
        appliance.daily_backup.run_once()
        clock.advance(DAY)
    days = [one.created_at[:10] for one in backups(appliance)]
    # From Friday, the 2nd, to Tuesday, the 13th: three days, one of which is the newest of this week; and last Sunday.
    assert days == ["2026-01-13", "2026-01-12", "2026-01-11", "2026-01-02"]
    assert backups(appliance)[-1] == manual


def test_an_hour_after_a_failure(appliance: Appliance, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    heard, folder = told(appliance), appliance.folder / "backups"
    folder.write_text("no folder")
    for seconds, failed in ((0, 1), (60, 1), (HOUR - 61, 1), (1, 2)):
        clock.advance(seconds)
        appliance.daily_backup.run_once()
        assert (seconds, len(heard)) == (seconds, failed)
        said = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(said) == failed
    warning = appliance.daily_backup.warning()
    assert warning is not None
    assert warning.startswith("The daily backup failed. The appliance tries again every hour. The backup was not made")
    assert str(appliance.folder) not in warning
    folder.unlink()
    clock.advance(HOUR)
    appliance.daily_backup.run_once()
    assert appliance.daily_backup.warning() is None
    assert isinstance(heard[-1], BackupFinished)
    kinds, subjects = zip(*journal(appliance), strict=True)
    assert kinds == ("backup.failed", "backup.failed", "backup.finished")
    assert f"{subjects[0]}" in warning


def test_a_clock_that_was_wrong(appliance: Appliance, clock: FakeClock) -> None:
    appliance.daily_backup.run_once()
    right = clock.now()
    for wrong in (timedelta(days=400), timedelta(days=-400)):
        clock.set_wall(right + wrong)
        appliance.daily_backup.run_once()
        clock.advance(60)
        appliance.daily_backup.run_once()
    clock.set_wall(right + timedelta(days=1))
    appliance.daily_backup.run_once()
    # A year ahead, on two right days, and a year behind.
    assert [one.created_at[:4] for one in backups(appliance)] == ["2027", "2026", "2026", "2024"]
    assert appliance.daily_backup.warning() is None


def test_what_is_too_old_is_told(appliance: Appliance, clock: FakeClock) -> None:
    appliance.daily_backup.run_once()
    with appliance.exclusive_job.run("store_check"):
        overdue = "The newest daily backup is 3 days old. Check the log of the appliance for the cause."
        for days, warning in ((2, None), (1, overdue)):
            clock.advance(days * DAY)
            appliance.daily_backup.run_once()
            assert (days, appliance.daily_backup.warning()) == (days, warning)
    appliance.daily_backup.run_once()
    assert (len(backups(appliance)), appliance.daily_backup.warning()) == (2, None)


def test_who_wants_none_has_none(tmp_path: Path, clock: FakeClock) -> None:
    made = opened(tmp_path / "data", clock, daily=False)
    made.daily_backup.run_once()
    clock.advance(10 * DAY)
    made.daily_backup.run_once()
    assert (backups(made), made.daily_backup.warning()) == ((), None)
    made.stop()


def test_before_anybody_is_there_nothing_is_kept(timed: Appliance) -> None:
    timed.daily_backup.run_once()
    assert backups(timed) == ()


def test_a_file_that_is_no_backup_hides_nothing(appliance: Appliance) -> None:
    appliance.daily_backup.run_once()
    (appliance.folder / "backups" / "20260101T000000Z-daily.mbxbackup").write_bytes(b"something else")
    appliance.daily_backup.run_once()
    assert len(backups(appliance)) == 1
    assert [one.name for one in appliance.store.backups.list_unlisted()] == ["20260101T000000Z-daily.mbxbackup"]


def test_stopping_gives_up_what_is_being_made(appliance: Appliance) -> None:
    appliance.daily_backup.stop(0)
    heard = told(appliance)
    appliance.daily_backup.run_once()
    assert (backups(appliance), heard) == ((), [])
    assert list(appliance.folder.glob("backups/*")) == []
