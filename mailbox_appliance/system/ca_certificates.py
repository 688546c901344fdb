"""Finds the CAs to trust for outgoing TLS connections. The first of these lists that exists is used:

SSL_CERT_FILE, SSL_CERT_DIR   environment variables that replace the default file and the default folder of OpenSSL;
                              if only one is set, the other default is still used
the default places            the file and the folder that this build of OpenSSL knows (Windows: also its store)
places of other systems       for a bundle that runs on another system than it was built on
the package certifi           for a machine without any list; as old as the installation

A list that exists but is empty is used too: then no server is trusted.
"""

import os
import re
import ssl
from contextlib import suppress

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: Files in which systems keep their CAs.
CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Gentoo
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # the same, newer releases
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine, macOS
)
# Names of files in a CA folder (OpenSSL's `rehash`). They are read on demand and do not count in the statistics.
_BY_HASH = re.compile(r"[0-9a-f]{8}\.\d+")


def client_context() -> ssl.SSLContext:
    """Return a TLS context for connections to servers. Takes about 20 ms.

    It is that of ssl.create_default_context. If that trusts no CA, the list that this module finds is added.
    """
    made = ssl.create_default_context()
    if any(name in os.environ for name in _VARIABLES) or _has_authorities(made):
        return made
    with suppress(OSError):  # includes ssl.SSLError, for a file without a certificate
        made.load_verify_locations(_find_ca_file())
    return made


def _has_authorities(made: ssl.SSLContext) -> bool:
    if made.cert_store_stats()["x509"]:
        return True
    folder = ssl.get_default_verify_paths().capath
    with suppress(OSError):
        return folder is not None and any(_BY_HASH.fullmatch(each.name) for each in os.scandir(folder))
    return False


def _find_ca_file() -> str:
    if (found := next(filter(os.path.exists, CA_FILES), None)) is not None:
        return found
    import certifi

    return certifi.where()
