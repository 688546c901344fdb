"""The floor of serving: an application of one line on the server class of the product, as a process of its own."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mailbox_appliance.web.server.server import HttpServer

_BODY = b'{"data":"hello"}'


def app(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Say hello."""
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(_BODY)))])
    return (_BODY,)


@contextmanager
def bare_server() -> Iterator[str]:
    """The URL of the bare application, served by another process."""
    command = [sys.executable, "-m", "benchmarks.bare"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # as the product does
    listeners = HttpServer(app, [("127.0.0.1", 0)])
    listeners.start()
    print(f"http://127.0.0.1:{listeners.addresses[0][1]}", flush=True)
    sys.stdin.read()  # ends when whoever started this has ended
