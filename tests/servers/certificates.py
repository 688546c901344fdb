"""A certificate authority of one's own and a server certificate of it, for `localhost` and the loopback addresses."""

import shutil
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_SERVER = """\
subjectAltName=DNS:localhost,DNS:mail.localhost,IP:127.0.0.1,IP:::1{names}
extendedKeyUsage=serverAuth
basicConstraints=CA:FALSE
authorityKeyIdentifier=keyid
subjectKeyIdentifier=hash
"""


def make_certificates(folder: Path, names: Sequence[str] = (), authority: Path | None = None) -> None:
    """Write `ca.pem`, `server.pem` and `server.key` into the folder.

    `names`: for which the certificate is besides. `authority`: the folder of another one, whose authority this has too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "extensions").write_text(_SERVER.format(names="".join(f",DNS:{name}" for name in names)))
    if authority is None:
        options = ("-subj", "/CN=Test mail CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        _openssl(folder, "req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", *options)
    else:
        for name in ("ca.key", "ca.pem"):
            shutil.copy(authority / name, folder)
    _openssl(folder, "req", *_KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    _openssl(folder, "x509", "-req", "-in", "server.csr", *signed_by, "-days", "30", "-out", "server.pem")


def server_context(folder: Path) -> ssl.SSLContext:
    """For a server with the certificate of the folder, which is made where it is not there."""
    if not (folder / "server.pem").exists():
        make_certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


def any_certificate() -> ssl.SSLContext:
    """For a client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(("openssl", *arguments), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
