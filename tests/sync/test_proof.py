"""The proofs of `scripts/prove-mirror` in small."""

from collections.abc import Callable

import pytest

from tests.servers.dovecot import MailServer
from tests.sync import gmail_proof
from tests.sync.proof import PROOFS, Size

pytestmark = pytest.mark.slow

SMALL_GMAIL = Size(messages=120, changes=240, cuts=2, kills=2, patience=60)
SMALL = Size(messages=300, changes=200, cuts=3, kills=3, patience=60)


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
def test_the_mirror_equals_the_server(mail_server: MailServer, proof: Callable[[MailServer, Size], str]) -> None:
    assert proof(mail_server, SMALL)


@pytest.mark.parametrize("proof", gmail_proof.PROOFS, ids=lambda proof: proof.__name__)
def test_the_mirror_equals_gmail(proof: Callable[[Size], str]) -> None:
    assert proof(SMALL_GMAIL)
