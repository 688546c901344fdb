"""A short round of `scripts/prove-webhooks`."""

from pathlib import Path

import pytest

from tests.feed.webhook_proof import Size, prove
from tests.servers.dovecot import MailServer

pytestmark = pytest.mark.slow

#: On a machine that runs other tests, a p95 of few events means little. Targets that hold others up take seconds.
_NOISE = 0.5


def test_every_event_arrives_in_order_whatever_targets_do(mail_server: MailServer, tmp_path: Path) -> None:
    delays = prove(mail_server, tmp_path / "round", 20261121, Size(letters=16, hanging=12, kills=2))
    assert delays.crowded < max(2 * delays.calm, _NOISE)
