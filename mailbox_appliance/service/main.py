"""The command `serve`: starts the parts of the service in order, waits, and stops them in reverse order."""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mailbox_appliance import logs, settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.oauth import environment
from mailbox_appliance.service import signals as service_signals
from mailbox_appliance.service.bootstrap import Bootstrap
from mailbox_appliance.service.service import SHUTDOWN_SECONDS, Service
from mailbox_appliance.service.shutdown import ShutdownWatchdog
from mailbox_appliance.service.signals import SignalHandler
from mailbox_appliance.settings import Settings, Value
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import DATABASE_FILE, RUN_FILE, write_private
from mailbox_appliance.store.key import find_key_file, load_passphrase
from mailbox_appliance.system import crashes, files, stdio
from mailbox_appliance.version import __version__

if TYPE_CHECKING:
    from mailbox_appliance.store.upgrade.upgrade import UpgradeResult

log = logging.getLogger(__name__)


def serve(
    data_dir: Path,
    *,
    flags: Mapping[str, Value],
    ready_json: bool,
    passphrase: str | None = None,
    showing: Callable[[], AbstractContextManager[Progress]] | None = None,
    prepare: Callable[[Appliance], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C, then finish requests in progress and end within 10 seconds. Returns the exit code.

    - `flags`: settings from the command line.
    - `ready_json`: print the address as JSON.
    - `passphrase`: of the store's key, if the user typed it; by default that of the environment or systemd.
    - `showing`: returns a context manager that displays the progress of an upgrade.
    - `prepare`: called with the appliance before it starts, so that it can subscribe to events.

    Raises StoreUnusable, BadSetting, or CannotListen if the port is in use.
    """
    files.tune_memory()
    files.raise_open_files_limit()
    watchdog = ShutdownWatchdog()
    signals = SignalHandler(watchdog.arm)
    try:
        bootstrap = Bootstrap(
            data_dir,
            find_key_file(data_dir, os.environ),
            passphrase or load_passphrase(os.environ),
            flags,
            environment.read_apps(os.environ),
            prepare,
        )
        _run_service(_open_service(bootstrap, showing), signals, watchdog, ready_json=ready_json)
    except BaseException:
        # Stopped before it served: the next start finishes or discards interrupted work, whatever error came of it.
        if not signals.is_stopping or signals.has_target:
            raise
    finally:
        watchdog.cancel()
        stdio.flush_quietly(sys.stdout)
        stdio.flush_quietly(sys.stderr)
    return 0


def _run_service(service: Service, signals: SignalHandler, watchdog: ShutdownWatchdog, *, ready_json: bool) -> None:
    data_dir = service.data_dir
    try:
        signals.forward_to(service)
        with failures_as_unusable(data_dir):  # errors with the setup code or the run file
            service.start()
            _write_run_file(data_dir, service)
        _log_start(service)
        _announce(service, ready_json=ready_json)
        service_signals.notify_ready()
        service.serve()
    finally:
        watchdog.arm()
        service_signals.notify_stopping()
        with suppress(OSError):  # the file is invalid anyway once the lock is released
            (data_dir / RUN_FILE).unlink(missing_ok=True)
        _print_pending_work(service)
        service.close()


def _open_service(bootstrap: Bootstrap, showing: Callable[[], AbstractContextManager[Progress]] | None) -> Service:
    """`showing`: displays the progress of an upgrade."""
    bootstrap.finish_pending_restore()
    data_dir, options = bootstrap.data_dir, bootstrap.load_settings()
    has_lost_store = _has_key_without_store(data_dir)
    with showing() if showing is not None else nullcontext() as tell:
        appliance = bootstrap.open(options, service_signals.extend_start_timeout(tell))
    try:
        with failures_as_unusable(data_dir):
            _configure_logs(data_dir, options)
        _watch_for_crashes(data_dir)
        _log_upgrade(appliance.store.upgraded)
        for name, nearest in settings.unknown_variables():
            log.warning("unknown_environment_setting", extra={"variable": name, "nearest": nearest})
        if has_lost_store:
            log.warning("store_created_with_old_key")
        return Service(bootstrap, appliance)
    except BaseException:
        appliance.store.close()
        raise


def _configure_logs(data_dir: Path, options: Settings) -> None:
    logs.configure(
        data_dir / "logs",
        options.text("log.level"),
        max_bytes=options.number("log.max_bytes"),
        keep=options.number("log.keep"),
    )


def _watch_for_crashes(data_dir: Path) -> None:
    """Log a crash of the previous run, and prepare a trace file. Failures do not prevent serving."""
    try:
        crash = crashes.record(data_dir)
        crashes.watch(data_dir)
    except OSError as error:
        log.warning("crash_trace_unavailable", extra={"why": error.strerror})
        return
    if crash is not None:
        facts = {"signal": crash.signal, "crashedAt": crash.at, "trace": crash.file}
        log.error("service_crashed", extra=facts | {"why": "A fatal signal ended the previous run. Report the trace."})


def _has_key_without_store(data_dir: Path) -> bool:
    """For example because the store was moved away or its disk is not mounted."""
    has_key = os.path.exists(find_key_file(data_dir, os.environ))  # noqa: PTH110 - never raises
    return has_key and not os.path.lexists(data_dir / DATABASE_FILE)


def _log_upgrade(upgraded: "UpgradeResult | None") -> None:
    """The log was not yet configured when the store was opened."""
    if upgraded is not None:
        log.info("store_upgraded", extra={"from": upgraded.format, "backup": upgraded.backup})
        for warning in upgraded.warnings:
            log.warning("store_upgrade_warning", extra={"why": warning})


def _write_run_file(data_dir: Path, service: Service) -> None:
    """Write `run.json`: the address of this instance, and the local operator's secret, which is new at each start."""
    content = {"pid": os.getpid(), "url": service.listening.local_url, "secret": service.secret}
    write_private(data_dir / RUN_FILE, json.dumps(content).encode())


def _log_start(service: Service) -> None:
    listening = service.listening
    ports = {"http_port": _port_of(listening.http_url), "https_port": _port_of(listening.url)}
    log.info("service_started", extra={"release": __version__, "pid": os.getpid(), **ports})


def _port_of(url: str | None) -> int | None:
    return None if url is None else urlsplit(url).port


def _announce(service: Service, *, ready_json: bool) -> None:
    listening, code = service.listening, service.setup_code
    if ready_json:
        ready = {"event": "ready", "http": listening.http_url, "https": listening.url, "pid": os.getpid()}
        stdio.write_quietly(sys.stdout, json.dumps(ready) + "\n")
    else:
        stdio.write_quietly(sys.stdout, f"mailbox-appliance is running at {listening.http_url} (Ctrl-C stops it)\n")
        if listening.url is not None:
            pin = "" if listening.pin is None else f" (certificate fingerprint {listening.pin})"
            stdio.write_quietly(sys.stdout, f"HTTPS: {listening.url}{pin}\n")
    if code is not None:
        way = "Open it in a browser, or run `mailbox-appliance setup`."
        hint = f"The appliance is not set up yet. {way} Setup code: {code}\n"
        stdio.write_quietly(sys.stderr if ready_json else sys.stdout, hint)


def _print_pending_work(service: Service) -> None:
    """Print on a terminal which work the shutdown waits for, so that Ctrl-C does not seem to be ignored."""
    if sys.stderr.isatty() and (under_way := service.pending_work):
        stdio.write_quietly(
            sys.stderr, f"\nStopping: waiting for {under_way} (at most {SHUTDOWN_SECONDS:.0f} seconds).\n"
        )
