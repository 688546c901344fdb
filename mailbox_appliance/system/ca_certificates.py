"""Finds the CAs to trust for outgoing TLS connections.

SSL_CERT_FILE, SSL_CERT_DIR   environment variables that replace the default file and the default folder of OpenSSL;
                              if only one is set, the other default is still used

Without them, Windows and macOS verify certificates themselves, by the CAs in their own store (the package truststore).
Elsewhere, the first of these lists that exists is used. A list that exists but is empty is used too: then no server is
trusted.

the default places            the file and the folder that this build of OpenSSL knows
places of other systems       for a bundle that runs on another system than it was built on
the package certifi           for a machine without any list; as old as the installation
"""

import os
import re
import ssl
import sys
from contextlib import suppress

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: Files in which systems keep their CAs.
CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Gentoo
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # the same, newer releases
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Alpine
)
# Names of files in a CA folder (OpenSSL's `rehash`). They are read on demand and do not count in the statistics.
_BY_HASH = re.compile(r"[0-9a-f]{8}\.\d+")
#: Verification errors of Windows (winerror.h) and macOS (SecBase.h) -> those of OpenSSL.
_OPENSSL_CODES = {
    0x800B0101: 10,  # CERT_E_EXPIRED, also before the first day
    0x800B0109: 19,  # CERT_E_UNTRUSTEDROOT
    0x800B010A: 20,  # CERT_E_CHAINING
    0x800B010F: 62,  # CERT_E_CN_NO_MATCH
    -67602: 62,  # errSecHostNameMismatch
    -67818: 10,  # errSecCertificateExpired
    -67819: 9,  # errSecCertificateNotValidYet
    -67843: 20,  # errSecNotTrusted
}


def client_context() -> ssl.SSLContext:
    """Return a TLS context for connections to servers. Takes about 20 ms, except on Windows and macOS.

    On Windows and macOS, connections with the same context make their handshakes one after the other.
    """
    is_named = any(name in os.environ for name in _VARIABLES)
    if (sys.platform == "win32" or sys.platform == "darwin") and not is_named:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made = ssl.create_default_context()
    if is_named or _has_authorities(made):
        return made
    with suppress(OSError):  # includes ssl.SSLError, for a file without a certificate
        made.load_verify_locations(_find_ca_file())
    return made


def verification_error(error: ssl.SSLCertVerificationError) -> int:
    """Return OpenSSL's number for the reason why a certificate was refused (`openssl verify`)."""
    return _OPENSSL_CODES.get(error.verify_code, error.verify_code)


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
