"""A real nginx in front of the appliance, on a port of loopback, from files of its own."""

import os
import re
import socket
import subprocess
from pathlib import Path

from tests.servers.mailboxes import wait_until

_AROUND = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


class Nginx:
    """nginx with the `server` block that a document shows, but for its addresses and certificate."""

    def __init__(self, folder: Path, server: str, *, backend: str) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        block = re.sub(r"listen [^;]+;", f"listen 127.0.0.1:{self.port};", server)
        block = re.sub(r"\n *ssl_[^;]+;", "", block)
        block, replaced = re.subn(r"proxy_pass http://[^;]+;", f"proxy_pass {backend};", block)
        assert replaced, "the block forwards to nobody"
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(_AROUND.format(folder=folder, user=user, server=block))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Nginx":
        """Start it and wait until it accepts connections."""
        path = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        command = ("nginx", "-c", str(self.folder / "nginx.conf"), "-p", str(self.folder), "-e", "stderr")
        self._process = subprocess.Popen(command, env=path, stderr=subprocess.DEVNULL)
        try:
            wait_until(self._accepts, lambda: "nginx accepts no connections", 10)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it, with its workers."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def exchange(self, request: bytes) -> bytes:
        """What it answers to these bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "error.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except ConnectionRefusedError:
            return False
        return True
