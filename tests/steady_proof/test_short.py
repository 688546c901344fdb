"""The soak of `scripts/prove-steady` in short: every activity is played, and answered as it should be."""

import signal
import threading
from pathlib import Path

import pytest

from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.steady_proof.load import ACTIVITIES, MIB, Load
from tests.steady_proof.proof import prove, sampled, staged
from tests.steady_proof.sampling import ALLOWED, judge

pytestmark = pytest.mark.slow

SEED = 20261123


def test_every_activity_is_answered(mail_server: MailServer, tmp_path: Path) -> None:
    with staged(mail_server, tmp_path / "data", SEED, largest=2 * MIB) as scene:
        sampler = sampled(scene, tmp_path / "samples.csv", every=0.1).start()
        load = Load(scene, SEED).start()
        try:
            assert load.has_played_all.wait(120), scene.ledger.shown()
            wait_until(lambda: len(sampler.samples) > 40, lambda: "there are no samples", 60)
        finally:
            load.stop()
            sampler.stop()
        assert not scene.ledger.failures
        played = {activity for activity, _ in scene.ledger.counts}
        assert played >= {activity.name for activity in ACTIVITIES} | {"mcp"}, scene.ledger.shown()
        # Seconds do not show whether anything grows, so the lines are only required to be there.
        assert {line.name for line in judge(sampler.samples) if line.peak > 0} >= set(ALLOWED) - {"children_rss"}


def _play_until_killed(mail_server: MailServer, folder: Path) -> None:
    with staged(mail_server, folder / "data", SEED, largest=MIB) as scene:
        assert scene.running.process is not None
        threading.Timer(2, scene.running.process.send_signal, (signal.SIGSEGV,)).start()
        assert not prove(scene, folder, minutes=5, rate=1, seed=SEED)


def test_a_service_that_dies_fails_the_proof(
    mail_server: MailServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match=r"it ended with -11: (?s:.*)Fatal Python error"):
        _play_until_killed(mail_server, tmp_path)
    assert "FAILS  answers" in capsys.readouterr().out
