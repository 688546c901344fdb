"""A short run of `scripts/prove-delivery`."""

from pathlib import Path

import pytest

from tests.sending.proof import prove
from tests.servers.dovecot import MailServer

pytestmark = pytest.mark.slow

ROUNDS, SEED = 20, 20261121


def test_every_key_hands_over_at_most_once_whatever_dies(mail_server: MailServer, tmp_path: Path) -> None:
    outcomes = prove(mail_server, tmp_path / "data", range(ROUNDS), SEED)
    assert min(outcomes[status] for status in ("succeeded", "failed", "uncertain")) > 0
