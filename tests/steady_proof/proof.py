"""Proves that the service holds for hours; see `scripts/prove-steady`."""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance
from tests.steady_proof.load import MIB, Load, Scene, keep_logs
from tests.steady_proof.sampling import Sample, Sampler, judge

SECURE = ("--https-port", "0", "--https-host", "127.0.0.1")
_EVERY, _LINE, _FEWEST_SAMPLES = 10.0, 60.0, 60  # seconds between samples, and between lines
_LARGEST = 25 * MIB


@contextmanager
def staged(mail: MailServer, folder: Path, seed: int, largest: int) -> Iterator[Scene]:
    """A service over HTTP and HTTPS with two mailboxes. Raises AssertionError if it does not end with 0 afterwards."""
    running = RunningAppliance(folder, arguments=SECURE).start()
    try:
        running.set_up()
        yield Scene.of(running, mail, seed, largest)
        code = running.stop()
        assert code == 0, f"it ended with {code}: {running.said()}{running.threads()}"
    finally:
        if running.is_alive:
            running.kill()


def sampled(scene: Scene, file: Path, every: float) -> Sampler:
    """Samples of the service of this scene, not started yet."""
    process = scene.running.process
    assert process is not None
    return Sampler(process.pid, scene.running.folder / "mailbox.db", file, scene.ledger.totals, every)


def _minute(now: Sample, before: Sample) -> str:
    passed = now.at - before.at
    return (
        f"{now.at / 60:4.0f} min: {now.rss:.0f} + {now.children_rss:.0f} MiB, {now.threads} threads, {now.files} files,"
        f" store {now.store:.0f} MiB, {100 * (now.cpu - before.cpu) / passed:.0f} % of a core,"
        f" {(now.requests - before.requests) / passed:.1f} requests a second, {now.refused} refused,"
        f" {now.failed} failed"
    )


def prove(scene: Scene, folder: Path, minutes: float, rate: float, seed: int) -> bool:
    """Play the load and print the verdict; returns whether all lines of it hold."""
    every = min(_EVERY, minutes * 60 / _FEWEST_SAMPLES)
    sampler = sampled(scene, folder / "samples.csv", every).start()
    load = Load(scene, seed, rate).start()
    try:
        _watch(scene, sampler, minutes)
    except KeyboardInterrupt:
        print("interrupted: the verdict is on what has been", flush=True)
    finally:
        load.stop()
        sampler.stop()
        keep_logs(scene.running, folder)
    return _verdict(scene, sampler)


def _watch(scene: Scene, sampler: Sampler, minutes: float) -> None:
    """Print a line a minute until the time is over, or the service has ended."""
    began, told = time.monotonic(), 0
    while (passed := time.monotonic() - began) < minutes * 60 and scene.running.is_alive:
        time.sleep(min(1.0, minutes * 60 - passed))
        samples = sampler.samples
        if len(samples) > told + 1 and samples[-1].at - samples[told].at >= _LINE:
            print(_minute(samples[-1], samples[told]), flush=True)
            told = len(samples) - 1


def _verdict(scene: Scene, sampler: Sampler) -> bool:
    requests, refused, failed = scene.ledger.totals()
    print(f"\n{scene.ledger.shown()}\n")
    for failure in scene.ledger.failures:
        print(f"  {failure}")
    print(
        f"{'FAILS' if failed else 'holds'}  answers: {requests} requests, {refused} refused by design, {failed} failed"
    )
    try:
        lines = judge(sampler.samples)
    except ValueError as error:
        print(f"FAILS  growth: {error}")
        return False
    for line in lines:
        print(line)
    return not failed and all(line.holds for line in lines)


def main() -> int:
    """The command line of `scripts/prove-steady`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-steady", description="Prove that the service holds for hours.")
    parser.add_argument("minutes", nargs="?", type=float, default=120, help="how long (default 120)")
    parser.add_argument("--folder", type=Path, help="where the samples and logs go (default: a new temporary folder)")
    parser.add_argument("--rate", type=float, default=1.0, help="a factor on the load (default 1)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeat this one")
    options = parser.parse_args()
    folder: Path = options.folder or Path(tempfile.mkdtemp(prefix="steady-"))
    folder.mkdir(parents=True, exist_ok=True)
    # A run in the background is ended by SIGTERM; its servers and its service have to end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"seed {options.seed}, samples in {folder / 'samples.csv'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="prove-", dir="/tmp") as name:
        scratch = Path(name)
        scratch.chmod(0o711)
        mail = MailServer().start(scratch)
        try:
            with staged(mail, scratch / "data", options.seed, _LARGEST) as scene:
                holds = prove(scene, folder, options.minutes, options.rate, options.seed)
        except AssertionError as error:
            print(f"FAILS  the service: {error}")
            holds = False
        finally:
            mail.stop()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
