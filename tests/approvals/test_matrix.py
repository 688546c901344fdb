"""A short form of `scripts/prove-approvals`: some rules of the matrix, and some rounds with kill -9."""

from pathlib import Path

import pytest

from tests.approvals import killed, matrix
from tests.approvals.conftest import Desk
from tests.servers.dovecot import MailServer

pytestmark = pytest.mark.slow


def test_nothing_passes_that_the_table_forbids(desk: Desk) -> None:
    counted = matrix.prove(desk, matrix.SHORT)
    assert set(counted) == {"sent", "waits", "refused"}


def test_nothing_goes_out_unapproved_and_no_approval_is_lost_whatever_dies(
    mail_server: MailServer, tmp_path: Path
) -> None:
    outcomes = killed.prove(mail_server, tmp_path / "data", range(9), 20261127)
    assert min(outcomes[outcome] for outcome in ("succeeded", "failed", "left")) > 0
