"""A short round of `scripts/prove-webhooks`."""

from pathlib import Path

import pytest

from tests.feed.webhook_proof import Size, prove
from tests.servers.dovecot import MailServer

pytestmark = pytest.mark.slow


def test_every_event_arrives_in_order_whatever_targets_do(mail_server: MailServer, tmp_path: Path) -> None:
    prove(mail_server, tmp_path / "round", 20261121, Size(measured=16, letters=16, hanging=12, kills=2))
