"""What the servers of tests have in common that answer HTTP."""

from http.server import BaseHTTPRequestHandler


class TolerantHandler(BaseHTTPRequestHandler):
    """Whoever asks may go at any time, and nothing is written to the console."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass

    def log_message(self, *_: object) -> None: ...
