"""An appliance in this process whose listeners are open, asked in process; and what the one for HTTPS shows."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.service.listeners import ServiceListeners
from mailbox_appliance.settings import Value
from mailbox_appliance.tls.inspect import fingerprint
from mailbox_appliance.web.app import App
from tests.checked_client import CheckedClient


@contextmanager
def served(folder: Path, flags: dict[str, Value] | None = None) -> Iterator[CheckedClient]:
    """An appliance whose listeners are open, and its administrator."""
    options = settings.load(folder / "config.toml", {}, {"server.port": 0, **(flags or {})})
    appliance = Appliance(folder, options)
    listening = ServiceListeners(App(appliance), appliance)
    appliance.https = listening
    listening.start()
    try:
        yield CheckedClient(appliance).set_up()
    finally:
        listening.stop(0)
        appliance.stop()


def presented(url: str) -> str:
    """The fingerprint of the certificate that a listener shows."""
    at = urlsplit(url)
    assert at.port is not None
    return fingerprint(ssl.get_server_certificate((at.hostname or "", at.port), timeout=5).encode())


def is_open(url: str) -> bool:
    """Whether something listens there."""
    at = urlsplit(url)
    try:
        socket.create_connection((at.hostname or "", at.port or 0), 5).close()
    except OSError:
        return False
    return True
