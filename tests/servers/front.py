"""A real reverse proxy in front of the appliance: what all of them have, and the settings that a document shows."""

import os
import re
import socket
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.certificates import any_certificate
from tests.servers.mailboxes import wait_until

_DOCS = Path(__file__).parent.parent.parent / "docs"


def blocks(language: str) -> list[str]:
    """Every block of this language in the documents."""
    texts = [file.read_text("utf-8") for file in sorted(_DOCS.rglob("*.md"))]
    return [str(block) for text in texts for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def documented(language: str) -> str:
    """The one block of this language in the documents."""
    (block,) = blocks(language)
    return block


def free_port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Front:
    """A proxy that answers by HTTPS at `port` of loopback, as `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.port = folder, name, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        """What starts it, in the foreground."""
        raise NotImplementedError

    def start(self) -> "Front":
        """Start it and wait until it answers by TLS."""
        home = {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        environment = {**os.environ, **home, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        with (self.folder / "front.log").open("wb") as told:
            self._process = subprocess.Popen(self.command(), env=environment, stdout=told, stderr=told)
        try:
            wait_until(self._answers, lambda: f"it does not answer: {self._told()}", 15)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it, with its workers."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def exchange(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """What it answers by HTTPS to these bytes, until it closes the connection; asked from this address."""
        with self._connect(source) as connection:
            connection.sendall(request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer

    def _connect(self, source: str) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(source, 0))
        try:
            return any_certificate().wrap_socket(plain, server_hostname=self.name)
        except BaseException:
            plain.close()
            raise

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._told()
        try:
            self._connect("127.0.0.1").close()
        except (ConnectionError, ssl.SSLError):
            return False
        return True

    def _told(self) -> str:
        return (self.folder / "front.log").read_text("utf-8", "replace")[-2000:]
