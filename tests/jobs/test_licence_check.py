"""The daily confirmation of a license, with a clock that the test moves, at a real HTTP server."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Unverified
from mailbox_appliance.operations.licence import current_license, require_verified_license
from mailbox_appliance.security import licence
from mailbox_appliance.security.licence import STORED_AS, InstalledLicence
from mailbox_appliance.settings import Value
from tests.servers.fake_clock import FakeClock
from tests.servers.issuer import PAYLOAD, PUBLIC_KEY, Issuer, sign
from tests.servers.mailboxes import wait_until

HOUR, DAY = 3600, 86_400


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as started:
        yield started


def licensed(folder: Path, clock: FakeClock, issuer: Issuer, **payload: object) -> Appliance:
    """Return an appliance with a license that was never confirmed, with its workers stopped."""
    flags: dict[str, Value] = {
        "license.issuer_public_key": PUBLIC_KEY,
        "license.verify_url": issuer.url,
        "remote.timeout": 5,
    }
    made = Appliance(folder, settings.load(None, {}, flags), clock)
    put(made, InstalledLicence(sign({**PAYLOAD, **payload})))
    return made


def put(appliance: Appliance, installed: InstalledLicence) -> None:
    with appliance.store.database.transaction(durable=True):
        appliance.store.stored_settings.put(STORED_AS, msgspec.to_builtins(installed))


def stored(appliance: Appliance) -> InstalledLicence | None:
    return licence.load_installed(appliance.store.stored_settings.find(STORED_AS))


@pytest.fixture
def appliance(tmp_path: Path, clock: FakeClock, issuer: Issuer) -> Iterator[Appliance]:
    made = licensed(tmp_path / "data", clock, issuer)
    yield made
    made.stop()


def test_once_a_day(appliance: Appliance, clock: FakeClock, issuer: Issuer) -> None:
    for seconds, asked in ((0, 1), (60, 1), (DAY - 61, 1), (1, 2), (DAY, 3)):
        clock.advance(seconds)
        appliance.licence_check.run_once()
        assert (seconds, len(issuer.asked)) == (seconds, asked)
    assert current_license(appliance).status == "valid"


def test_a_week_of_failures_and_the_way_back(appliance: Appliance, clock: FakeClock, issuer: Issuer) -> None:
    issuer.answer = (500, b"")
    appliance.licence_check.run_once()
    for hour in range(1, 24 * 7):
        clock.advance(HOUR)
        issuer.says(valid=False) if hour % 2 else None
        appliance.licence_check.run_once()
        assert current_license(appliance).status == "valid"
        require_verified_license(appliance)
    clock.advance(HOUR)
    assert (current_license(appliance).status, len(issuer.asked)) == ("unverified", 24 * 7)
    with pytest.raises(Unverified):
        require_verified_license(appliance)
    issuer.says(valid=True)
    appliance.licence_check.run_once()
    assert current_license(appliance).status == "valid"
    require_verified_license(appliance)


def test_one_good_answer_begins_the_week_anew(appliance: Appliance, clock: FakeClock, issuer: Issuer) -> None:
    for _ in range(3):
        issuer.says(valid=False)
        appliance.licence_check.run_once()
        clock.advance(6 * DAY)
        issuer.says(valid=True)
        appliance.licence_check.run_once()
        clock.advance(DAY)
        assert current_license(appliance).status == "valid"


def test_a_start_changes_nothing(tmp_path: Path, clock: FakeClock, issuer: Issuer) -> None:
    issuer.says(valid=False)
    folder = tmp_path / "again"
    first = licensed(folder, clock, issuer)
    first.licence_check.run_once()
    first.stop()
    clock.advance(7 * DAY)
    second = Appliance(folder, first.settings, clock)
    assert current_license(second).status == "unverified"
    second.stop()


def test_what_nobody_asks_about(tmp_path: Path, clock: FakeClock, issuer: Issuer) -> None:
    made = licensed(tmp_path / "expired", clock, issuer, expiresAt="2026-01-01T00:00:00Z")
    made.licence_check.run_once()
    put(made, InstalledLicence("not.ours.atall"))
    made.licence_check.run_once()
    with made.store.database.transaction(durable=True):
        made.store.stored_settings.remove(STORED_AS)
    made.licence_check.run_once()
    assert issuer.asked == []
    made.stop()


def test_a_licence_that_took_its_place_meanwhile_stays(appliance: Appliance, issuer: Issuer) -> None:
    new = InstalledLicence(sign({"plan": "new"}))
    issuer.says(valid=False)
    # No transaction is open during the request: otherwise this one would wait forever.
    issuer.before = lambda: put(appliance, new)
    appliance.licence_check.run_once()
    assert stored(appliance) == new


def test_the_thread_asks_and_stops(tmp_path: Path, clock: FakeClock, issuer: Issuer) -> None:
    made = licensed(tmp_path / "threads", clock, issuer)
    made.licence_check.start()
    wait_until(lambda: stored(made) != InstalledLicence(sign()), lambda: "nobody asked", 10)
    assert [one.name for one in threading.enumerate()].count("licence") == 1
    made.licence_check.stop(5)
    assert "licence" not in [one.name for one in threading.enumerate()]
    made.stop()


def test_an_issuer_that_does_not_answer_holds_up_no_end(
    tmp_path: Path, clock: FakeClock, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    issuer.before = lambda: answers.wait(60)
    made = licensed(tmp_path / "held", clock, issuer)
    made.licence_check.start()
    wait_until(lambda: bool(issuer.asked), lambda: "nobody asked", 10)
    began = time.monotonic()
    made.stop(0.2)
    assert time.monotonic() - began < 30
    answers.set()  # now it comes, and the store is closed
    wait_until(lambda: "licence" not in [one.name for one in threading.enumerate()], lambda: "it goes on", 10)
    assert caplog.text == ""
    again = Appliance(tmp_path / "held", made.settings, clock)
    assert stored(again) == InstalledLicence(sign())
    again.stop()


def test_there_is_no_thread_where_nobody_is_asked(tmp_path: Path) -> None:
    made = Appliance(tmp_path / "none")
    made.licence_check.start()
    assert "licence" not in [one.name for one in threading.enumerate()]
    made.stop()
