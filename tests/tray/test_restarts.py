"""What counts as a crash of the service, and when it is started again."""

import signal

import pytest

from mailbox_appliance.tray.service import MAX_RESTARTS, RESTART_WINDOW, RestartLimit, has_crashed
from tests.servers.fake_clock import FakeClock

# fmt: off
CODES = [
    (0,                 False),
    (1,                 False),
    (4,                 False),
    (-signal.SIGTERM,   False),
    (-signal.SIGINT,    False),
    (-signal.SIGHUP,    False),
    (-signal.SIGSEGV,   True),
    (-signal.SIGABRT,   True),
    (-signal.SIGKILL,   True),
]
ON_WINDOWS = [
    (0,                 False),
    (1,                 False),
    (0xC000_013A,       False),
    (0xC000_0005,       True),
    (0xC000_0409,       True),
]
# fmt: on


@pytest.mark.parametrize(("code", "crashed"), CODES)
def test_a_signal_that_stops_nothing_is_a_crash(code: int, crashed: bool) -> None:
    assert has_crashed(code) is crashed


@pytest.mark.parametrize(("code", "crashed"), ON_WINDOWS)
def test_on_windows_a_fault_is_a_crash(code: int, crashed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert has_crashed(code) is crashed


def test_each_restart_comes_later_and_there_are_few(clock: FakeClock) -> None:
    restarts = RestartLimit(clock)
    assert [restarts.next_delay() for _ in range(MAX_RESTARTS + 2)] == [0.0, 5.0, 30.0, 30.0, 30.0, None, None]
    clock.advance(RESTART_WINDOW)
    assert restarts.next_delay() == 0.0
    clock.advance(RESTART_WINDOW / 2)
    assert restarts.next_delay() == 5.0
    clock.advance(RESTART_WINDOW / 2)
    assert restarts.next_delay() == 5.0, "the first one is long past"
