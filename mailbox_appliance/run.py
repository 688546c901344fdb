"""Start in order, wait, stop in reverse: what `serve` does."""

import gc
import json
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from mailbox_appliance import licensing, logs, oauth_environment, settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.remote.tls import require_ca_file
from mailbox_appliance.settings import Settings, Value
from mailbox_appliance.store.files import write_private
from mailbox_appliance.store.key_place import passphrase_from, place_of_key
from mailbox_appliance.store.store import DATABASE
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server import Listeners

log = logging.getLogger(__name__)

RUN_FILE = "run.json"
_STOP_WITHIN = 8.0


def serve(
    data_dir: Path,
    *,
    flags: Mapping[str, Value],
    ready_json: bool,
    passphrase: str | None = None,
    prepare: Callable[[Appliance], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C, then answer what is in flight, and end. Returns the exit code.

    `passphrase` of the store's key, where somebody typed it; else the environment's or systemd's. `prepare` may
    subscribe to what happens, before anything does.
    Raises StoreUnusable, BadSetting, or CannotListen where the port is taken.
    """
    options = settings.load(data_dir / "config.toml", flags=flags)
    require_ca_file(options.text("remote.ca_file"))
    has_lost_store = _has_key_only(data_dir)
    licensing.issuer_key(options), licensing.verify_url(options)  # which refuse what cannot be used
    given = oauth_environment.read(os.environ)
    place, passphrase = place_of_key(data_dir, os.environ), passphrase or passphrase_from(os.environ)
    appliance = Appliance(data_dir, options, key_file=place, passphrase=passphrase, oauth_apps=given)
    try:
        logs.configure(
            data_dir / "logs",
            options.text("log.level"),
            max_bytes=options.number("log.max_bytes"),
            keep=options.number("log.keep"),
        )
        if has_lost_store:
            log.warning("a new, empty store was made with the key that was there: the store it belonged to is gone")
        listeners = _listeners(appliance)
    except BaseException:
        appliance.store.close()
        raise
    stopping = _stop_on_signals()
    try:
        if prepare is not None:
            prepare(appliance)
        url = appliance.local_url = _url(listeners)
        appliance.start()
        listeners.start()
        secret = appliance.operator_secret = secrets.token_urlsafe(32)
        _write_run_file(data_dir, url, secret)
        _announce(appliance, url, ready_json=ready_json)
        _keep_out_of_the_way()
        stopping.wait()
    finally:
        (data_dir / RUN_FILE).unlink(missing_ok=True)
        # Requests that wait for a send are released first; then everybody gets an answer.
        appliance.release()
        listeners.stop(_STOP_WITHIN)
        appliance.stop()
    return 0


def _has_key_only(data_dir: Path) -> bool:
    """Whether there is a key and no store, as when the store was moved away or lies on a disk that is not there."""
    return place_of_key(data_dir, os.environ).exists() and not os.path.lexists(data_dir / DATABASE)


def _listeners(appliance: Appliance) -> Listeners:
    options = appliance.settings
    host, port = options.text("server.host"), options.number("server.port")
    hosts = (host,) if host else ("127.0.0.1", "::1")
    return Listeners(
        App(appliance, _allowed_hosts(options)),
        [(one, port) for one in hosts],
        workers=options.number("server.workers"),
        request_timeout=options.number("server.request_timeout"),
        per_peer=options.number("server.connections_per_peer"),
        per_local_peer=options.number("server.connections_per_local_peer"),
    )


def _allowed_hosts(options: Settings) -> tuple[str, ...]:
    host = options.text("server.host")
    bound = f"[{host}]" if ":" in host else host
    public = urlsplit(options.text("server.public_url")).netloc
    return (*options.names("server.allowed_hosts"), bound, public)


def _url(listeners: Listeners) -> str:
    host, port = listeners.addresses[0]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_run_file(data_dir: Path, url: str, secret: str) -> None:
    """Where the running instance is found; the secret is the local operator's, new at each start."""
    content = {"pid": os.getpid(), "url": url, "secret": secret}
    write_private(data_dir / RUN_FILE, json.dumps(content).encode())


def _announce(appliance: Appliance, url: str, *, ready_json: bool) -> None:
    code = _setup_code(appliance)
    if ready_json:
        sys.stdout.write(json.dumps({"event": "ready", "http": url, "https": None, "pid": os.getpid()}) + "\n")
    else:
        sys.stdout.write(f"mailbox-appliance answers at {url} (Ctrl-C stops it)\n")
    if code is not None:
        hint = f"It is not set up yet. Run `mailbox-appliance setup`, or use the set-up code {code}\n"
        (sys.stderr if ready_json else sys.stdout).write(hint)
    sys.stdout.flush()


def _setup_code(appliance: Appliance) -> str | None:
    """The code that set-up asks for, kept in a file that only the owner reads; None where set-up is done."""
    file = appliance.folder / SETUP_CODE
    if appliance.store.members.any():
        file.unlink(missing_ok=True)
        return None
    code = "-".join(secrets.token_hex(3) for _ in range(4))
    write_private(file, code.encode() + b"\n")
    return code


def _keep_out_of_the_way() -> None:
    """What stays for good is not looked through for garbage any more, and the rest not after every few objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _stop_on_signals() -> threading.Event:
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        stopping.set()

    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, stop)
    return stopping
