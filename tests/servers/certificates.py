"""A certificate authority of one's own and a server certificate of it, for `localhost` and the loopback addresses."""

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_SERVER = """\
subjectAltName=DNS:localhost,DNS:mail.localhost,IP:127.0.0.1,IP:::1
extendedKeyUsage=serverAuth
basicConstraints=CA:FALSE
authorityKeyIdentifier=keyid
subjectKeyIdentifier=hash
"""


def make_certificates(folder: Path) -> None:
    """Write `ca.pem`, `server.pem` and `server.key` into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "extensions").write_text(_SERVER)
    authority = ("-subj", "/CN=Test mail CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _openssl(folder, "req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", *authority)
    _openssl(folder, "req", *_KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    _openssl(folder, "x509", "-req", "-in", "server.csr", *signed_by, "-days", "30", "-out", "server.pem")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(("openssl", *arguments), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
