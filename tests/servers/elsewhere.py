"""An appliance on a real listener that believes where a request says it comes from, as if by HTTPS.

`Peer: 203.0.113.5` in a request is its address. A program of its own: `RunningAppliance` starts it like `serve`.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer


class Elsewhere:
    """The application, asked from wherever a request says."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = environ.pop("HTTP_PEER", None)
        if peer is not None:
            environ |= {"REMOTE_ADDR": peer, "wsgi.url_scheme": "https"}
        return self._app(environ, start_response)


def serve(folder: Path) -> None:
    """Serve until SIGTERM, with everything that works beside."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    appliance = Appliance(folder)
    listeners = HttpServer(Elsewhere(App(appliance)), [("127.0.0.1", 0)])
    appliance.start()
    listeners.start()
    url = f"http://127.0.0.1:{listeners.addresses[0][1]}"
    sys.stdout.write(json.dumps({"event": "ready", "http": url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    stopping.wait()
    listeners.stop(5)
    appliance.stop()


if __name__ == "__main__":
    assert sys.argv[1] == "--data-dir"
    serve(Path(sys.argv[2]))
