"""Trusted certificates if the CA list is in another place or missing, tested with a real server."""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import certifi
import pytest
import truststore

from mailbox_appliance.system import ca_certificates
from tests.cli.authority import issue

ROOT = issue(authority=True)
#: Where this build of OpenSSL looks: `cert.pem` and `certs` are here.
USUAL = Path(ssl.get_default_verify_paths().openssl_cafile).parent
ASK = """
import socket, ssl, sys
from mailbox_appliance.system import ca_certificates
made = ca_certificates.client_context()
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as plain:
        with made.wrap_socket(plain, server_hostname="localhost"):
            print("trusted", made.cert_store_stats()["x509"])
except ssl.SSLCertVerificationError:
    print("refused", made.cert_store_stats()["x509"])
"""
_CERTIFIS = Path(certifi.where()).read_text("ascii").count("-----BEGIN CERTIFICATE-----")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with a certificate from ROOT."""
    context = issue(ROOT).context(tmp_path_factory.mktemp("server"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, context), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError):  # it is closed
        while True:
            plain, _ = listener.accept()
            plain.settimeout(10)
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as secured:
                secured.recv(1)


@pytest.fixture
def elsewhere(tmp_path: Path) -> list[str]:
    """The beginning of a command that sees a machine without /etc and without OpenSSL's files."""
    command = ["unshare", "--mount", *(() if os.getuid() == 0 else ("--map-root-user",))]
    if subprocess.run([*command, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no other machine can be shown here: that takes mount namespaces")
    hidden = ["/etc", *([] if USUAL.is_relative_to("/etc") else [str(USUAL)])]
    hide = "; ".join(f"mount -t tmpfs none {folder}" for folder in hidden)
    put = 'if [ -n "$1" ]; then mkdir -p "$(dirname "$1")"; printf %s "$2" >"$1"; fi; shift 2'
    return [*command, "/bin/sh", "-c", f'set -e; {hide}; {put}; exec "$@"', "sh"]


def ask(elsewhere: list[str], port: int, place: str = "", **environment: str) -> str:
    """Return whether a child on that machine, with ROOT in this place, trusts the server, and how many CAs it knows."""
    command = [*elsewhere, place, ROOT.pem.decode(), sys.executable, "-c", ASK, str(port)]
    asked = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.strip()


@pytest.mark.parametrize("place", [str(USUAL / "cert.pem"), *ca_certificates.CA_FILES])
def test_the_authorities_of_this_and_other_systems_are_found(elsewhere: list[str], port: int, place: str) -> None:
    assert ask(elsewhere, port, place) == "trusted 1"


@pytest.fixture(scope="module")
def hashed() -> str:
    """Return the place of ROOT in the usual folder, where OpenSSL finds it on demand."""
    command = ["openssl", "x509", "-noout", "-hash"]
    name = subprocess.run(command, input=ROOT.pem, capture_output=True, check=True).stdout.decode().strip()
    return str(USUAL / "certs" / f"{name}.0")


def test_a_folder_of_authorities_is_one_too(elsewhere: list[str], port: int, hashed: str) -> None:
    assert ask(elsewhere, port, hashed) == "trusted 1"


def test_a_bare_machine_believes_those_that_came_with_us(elsewhere: list[str], port: int) -> None:
    assert ask(elsewhere, port) == f"refused {_CERTIFIS}"
    assert _CERTIFIS > 100


def test_what_the_environment_names_takes_the_place_of_the_usual(
    elsewhere: list[str], port: int, hashed: str, tmp_path: Path
) -> None:
    named, empty = tmp_path / "root.pem", tmp_path / "empty.pem"
    named.write_bytes(ROOT.pem)
    empty.touch()
    assert ask(elsewhere, port, SSL_CERT_FILE=str(named)) == "trusted 1"
    assert ask(elsewhere, port, ca_certificates.CA_FILES[1], SSL_CERT_FILE=str(empty)) == "refused 0"
    assert ask(elsewhere, port, ca_certificates.CA_FILES[1], SSL_CERT_DIR=str(tmp_path)) == "refused 0"
    # Each its own: the folder counts beside a file that is named, unless another is named as well.
    assert ask(elsewhere, port, hashed, SSL_CERT_FILE=str(empty)) == "trusted 1"
    assert ask(elsewhere, port, hashed, SSL_CERT_FILE=str(empty), SSL_CERT_DIR=str(tmp_path)) == "refused 0"


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_windows_and_macos_verify_by_their_own_store(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Here the library reads OpenSSL's lists, and the rest of it is as there."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    for trusts in (False, True):
        made = ca_certificates.client_context()
        assert isinstance(made, truststore.SSLContext)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if trusts:  # as `remote.ca_file` adds it
            (tmp_path / "root.pem").write_bytes(ROOT.pem)
            made.load_verify_locations(tmp_path / "root.pem")
        refused = nullcontext() if trusts else pytest.raises(ssl.SSLCertVerificationError, match="unable to get")
        with socket.create_connection(("127.0.0.1", port), 10) as plain, refused:
            made.wrap_socket(plain, server_hostname="localhost").close()
    monkeypatch.setattr(ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.pem"))
    assert not isinstance(ca_certificates.client_context(), truststore.SSLContext)


@pytest.mark.parametrize("content", [b"", b"no certificate\n"], ids=["emptied", "spoilt"])
def test_a_list_without_an_authority_trusts_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Tested in this process with ssl's CAs replaced, since the system's cannot be removed."""
    (tmp_path / "list.pem").write_bytes(content)
    (tmp_path / "root.pem").write_bytes(ROOT.pem)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.setattr(ca_certificates, "_has_authorities", lambda made: False)
    places = [str(tmp_path / name) for name in ("absent.pem", "list.pem", "root.pem")]
    for count, index in ((0, 1), (1, 2)):
        monkeypatch.setattr(ca_certificates, "CA_FILES", (places[0], places[index]))
        assert ca_certificates.client_context().cert_store_stats()["x509"] == count
