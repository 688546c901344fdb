"""The storm of `scripts/prove-events --storm` in small."""

from pathlib import Path

import pytest

from tests.console.house import House
from tests.feed.storm import SETTINGS, run
from tests.servers.dovecot import MailServer

pytestmark = pytest.mark.slow


def test_every_event_of_a_storm_is_expected(tmp_path: Path, mail_server: MailServer) -> None:
    house = House(tmp_path / "house", mail_server, environment=SETTINGS)
    try:
        assert run(house, 300)
    finally:
        house.stop()
