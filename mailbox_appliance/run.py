"""Start in order, wait, stop in reverse: what `serve` does."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import FrameType

from mailbox_appliance import logs, oauth_environment
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.options import Value
from mailbox_appliance.records import Progress
from mailbox_appliance.serving import Opening, Service
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.failing import failures_as_unusable
from mailbox_appliance.store.files import DATABASE, write_private
from mailbox_appliance.store.key_place import passphrase_from, place_of_key
from mailbox_appliance.store.upgrade import Upgraded

log = logging.getLogger(__name__)

RUN_FILE = "run.json"


def serve(
    data_dir: Path,
    *,
    flags: Mapping[str, Value],
    ready_json: bool,
    passphrase: str | None = None,
    showing: Callable[[], AbstractContextManager[Progress]] | None = None,
    prepare: Callable[[Appliance], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C, then answer what is in flight, and end. Returns the exit code.

    `passphrase` of the store's key, where somebody typed it; else the environment's or systemd's. `showing` tells how
    far an upgrade is. `prepare` may subscribe to what happens, before anything does.
    Raises StoreUnusable, BadSetting, or CannotListen where the port is taken.
    """
    opening = Opening(
        data_dir,
        place_of_key(data_dir, os.environ),
        passphrase or passphrase_from(os.environ),
        flags,
        oauth_environment.read(os.environ),
        prepare,
    )
    opening.settle()
    options, has_lost_store = opening.options(), _has_key_only(data_dir)
    with showing() if showing is not None else nullcontext() as tell:
        appliance = opening.first(options, tell)
    try:
        with failures_as_unusable(data_dir):
            _configure_logs(data_dir, options)
        _log_upgrade(appliance.store.upgraded)
        if has_lost_store:
            log.warning("a new, empty store was made with the key that was there: the store it belonged to is gone")
        service = Service(opening, appliance)
    except BaseException:
        appliance.store.close()
        raise
    _stop_on_signals(service)
    try:
        with failures_as_unusable(data_dir):  # the set-up code, and where it is found
            service.start()
            _write_run_file(data_dir, service)
        _announce(service, ready_json=ready_json)
        service.serve()
    finally:
        with suppress(OSError):  # nobody believes it once the lock is let go
            (data_dir / RUN_FILE).unlink(missing_ok=True)
        service.close()
    return 0


def _configure_logs(data_dir: Path, options: Settings) -> None:
    logs.configure(
        data_dir / "logs",
        options.text("log.level"),
        max_bytes=options.number("log.max_bytes"),
        keep=options.number("log.keep"),
    )


def _has_key_only(data_dir: Path) -> bool:
    """Whether there is a key and no store, as when the store was moved away or lies on a disk that is not there."""
    has_key = os.path.exists(place_of_key(data_dir, os.environ))  # noqa: PTH110 - never raises
    return has_key and not os.path.lexists(data_dir / DATABASE)


def _log_upgrade(upgraded: Upgraded | None) -> None:
    """What opening the store did, which was before there was a log."""
    if upgraded is not None:
        log.info("the store was upgraded", extra={"from": upgraded.format, "backup": upgraded.backup})
        for warning in upgraded.warnings:
            log.warning("about the upgraded store: %s", warning)


def _write_run_file(data_dir: Path, service: Service) -> None:
    """Where the running instance is found; the secret is the local operator's, new at each start."""
    content = {"pid": os.getpid(), "url": service.url, "secret": service.secret}
    write_private(data_dir / RUN_FILE, json.dumps(content).encode())


def _announce(service: Service, *, ready_json: bool) -> None:
    url, code = service.url, service.setup_code
    if ready_json:
        sys.stdout.write(json.dumps({"event": "ready", "http": url, "https": None, "pid": os.getpid()}) + "\n")
    else:
        sys.stdout.write(f"mailbox-appliance answers at {url} (Ctrl-C stops it)\n")
    if code is not None:
        hint = f"It is not set up yet. Run `mailbox-appliance setup`, or use the set-up code {code}\n"
        (sys.stderr if ready_json else sys.stdout).write(hint)
    sys.stdout.flush()


def _stop_on_signals(service: Service) -> None:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        service.stop()

    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, stop)
