"""An internet of one's own: public addresses at the loopback device of a network namespace, a DNS server that the
system asks there, and a web server for all names by TLS at port 443.

Tests that need it run again inside (`in_an_internet`), since nobody may listen at such addresses outside.
"""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.certificates import make_certificates, server_context
from tests.servers.names import Names, NameServer

#: Set inside.
IS_INSIDE = "TEST_IN_AN_INTERNET_OF_ITS_OWN"
RESOLVER, WEB, WEB_6 = "9.9.9.53", "9.9.9.80", "2620:fe::80"
#: Where nothing may ever be connected to from here, and something would answer.
TRAPS = ("10.0.0.5", "169.254.169.254", "100.100.100.200", "fd00::5", "64:ff9b::7f00:1", "64:ff9b::a00:5")
_NAMESPACE = """
ip link set lo up || exit 1
for address in {four}; do ip address add $address/32 dev lo || exit 1; done
for address in {six}; do ip address add $address/128 dev lo nodad || exit 1; done
mount --bind "$0" /etc/resolv.conf || exit 1
exec "$@"
"""


def is_inside() -> bool:
    """Whether this process lives in it."""
    return IS_INSIDE in os.environ


def run_inside(file: str, folder: Path) -> None:
    """Run the tests of a file again, inside."""
    # As little as the tests need: they have no fixtures of others.
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", f"--basetemp={folder / 'own'}"]
    environment = {**os.environ, IS_INSIDE: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as resolv:
        resolv.write(f"nameserver {RESOLVER}\n")
        resolv.flush()
        command = [*_unshare(), "sh", "-c", _script(), resolv.name, sys.executable, "-m", "pytest", *options, file]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
    assert " skipped" not in run.stdout


def _unshare() -> list[str]:
    return ["unshare", "--net", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",))]


def _script() -> str:
    addresses = (RESOLVER, WEB, WEB_6, *TRAPS)
    four = " ".join(one for one in addresses if ":" not in one)
    return _NAMESPACE.format(four=four, six=" ".join(one for one in addresses if ":" in one))


@dataclass
class Web:
    """What lies at which address of the web: `host/path` without the query; and who came for it."""

    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    #: `host/path?query` of every request, and at which address it came in.
    asked: list[str] = field(default_factory=list)
    met_at: set[str] = field(default_factory=set)
    #: Hosts whose certificate is for another name, and those that accept and say nothing.
    misnamed: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)

    def put(self, place: str, content: bytes, status: int = 200, **headers: str) -> None:
        self.pages[place] = (status, headers, content)


@dataclass
class Internet:
    names: Names
    web: Web
    ca_file: str


@contextmanager
def internet(folder: Path, hosts: Sequence[str]) -> Iterator[Internet]:
    """DNS and the web, for hosts with certificates. Inside alone."""
    make_certificates(folder / "right", names=hosts)
    make_certificates(folder / "other", authority=folder / "right")
    names, web = Names(), Web()
    server = _server(web, folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="web", daemon=True)
    thread.start()
    try:
        with NameServer(names, RESOLVER, 53):
            yield Internet(names, web, str(folder / "right" / "ca.pem"))
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET6

    def __init__(self, web: Web, context: ssl.SSLContext) -> None:
        self.web, self.context, self.stopping = web, context, threading.Event()
        super().__init__(("::", 443), _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.web.met_at.add(str(request.getsockname()[0]).removeprefix("::ffff:"))
        try:
            with self.context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except OSError:  # who came has gone
            pass

    def handle_error(self, request: Any, client_address: Any) -> None: ...


def _server(web: Web, folder: Path) -> _Server:
    contexts = {kind: server_context(folder / kind) for kind in ("right", "other")}

    def choose(sock: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        sock.context = contexts["other" if name in web.misnamed else "right"]

    contexts["right"].sni_callback = choose
    return _Server(web, contexts["right"])


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        web, host = self.server.web, self.headers["Host"]
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        web.asked.append(host + self.path)
        if host in web.silent:
            self.server.stopping.wait()
            return
        status, headers, content = web.pages.get(host + self.path.partition("?")[0], (404, {}, b"<html>Nothing"))
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET  # noqa: N815 - as the base calls it

    def log_message(self, *_: object) -> None: ...
