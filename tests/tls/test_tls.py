"""The parameters of TLS, and whether this computer trusts the certificate."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mailbox_appliance.errors import CertificateUnusable
from mailbox_appliance.tls.files import CertificateFiles, is_trusted, server_context
from tests.servers.certificates import any_certificate
from tests.tls.issued import FAR, Issued, authority, between, issued

PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    """Return a certificate of the intermediate CA, with its chain, valid now."""
    found, own = CertificateFiles(tmp_path / "data"), served()
    found.replace(own.pem + between().pem, own.key)
    return found


def served() -> Issued:
    return issued(between(), since=PAST, until=FAR)


def shaken_hands(context: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Return the client side after a handshake in memory. Raises SSLError of either side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)]
    waiting = list(sides)
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return sides[0]


def asking(**given: object) -> ssl.SSLContext:
    client = any_certificate()
    for name, value in given.items():
        setattr(client, name, value)
    return client


def test_versions_ciphers_and_protocol(files: CertificateFiles) -> None:
    context = server_context(files)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client = asking(maximum_version=version, minimum_version=version)
        client.set_alpn_protocols(["h2", "http/1.1"])
        found = shaken_hands(context, client)
        cipher = found.cipher()
        assert cipher is not None
        assert (found.version(), found.selected_alpn_protocol()) == (version.name.replace("_", "."), "http/1.1")
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]
        assert found.compression() is None
    old = asking(maximum_version=ssl.TLSVersion.TLSv1_2)
    old.set_ciphers("ECDHE-ECDSA-AES128-SHA256:AES128-SHA")
    with pytest.raises(ssl.SSLError):
        shaken_hands(context, old)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert not [one["name"] for one in context.get_ciphers() if not one["aead"]]


def test_who_is_trusted(files: CertificateFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL reads the trusted CAs of this computer from the place that the environment names."""
    assert not is_trusted(server_context(files))
    (tmp_path / "authorities.pem").write_bytes(authority().pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities.pem"))
    assert is_trusted(server_context(files))
    own = served()
    files.replace(own.pem, own.key)
    assert not is_trusted(server_context(files)), "its chain is not complete"
    expired = issued(between(), since=PAST, until=datetime(2021, 1, 1, tzinfo=UTC))
    files.replace(expired.pem + between().pem, expired.key)
    assert not is_trusted(server_context(files))
    alone = issued(since=PAST, until=FAR)
    files.replace(alone.pem, alone.key)
    assert not is_trusted(server_context(files))
    (tmp_path / "authorities.pem").write_bytes(alone.pem)
    assert is_trusted(server_context(files)), "whoever signed it, this computer was told to trust it"


#: Files that may be put into tls/ by hand, and the message for each.
SPOILT: list[tuple[Callable[[Issued], tuple[bytes, bytes]], str]] = [
    (lambda own: (own.pem, authority().key), r"key\.pem is not the key of the certificate in cert\.pem"),
    (lambda own: (own.pem, own.locked_key()), r"key\.pem is protected by a passphrase"),
    (lambda own: (own.pem, b""), r"are not a PEM certificate and its key for TLS \(not PEM, or damaged\)"),
    (lambda own: (b"", own.key), r"are not a PEM certificate and its key for TLS \(not PEM, or damaged\)"),
    (lambda own: (own.der, own.key), "are not a PEM certificate and its key"),
    (lambda own: (own.key, own.pem), "are not a PEM certificate and its key"),
    (lambda own: (own.pem[:200], own.key), "are not a PEM certificate and its key"),
]


@pytest.mark.parametrize(("make", "told"), SPOILT)
def test_what_does_not_fit_is_told(
    files: CertificateFiles, make: Callable[[Issued], tuple[bytes, bytes]], told: str
) -> None:
    certificate, key = make(served())
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(key)
    with pytest.raises(CertificateUnusable, match=f"{told}.*https import.*https rotate"):
        server_context(files)


def test_an_expired_one_is_taken(files: CertificateFiles) -> None:
    """Clients that pinned it do not check the date, and the rest of the appliance keeps working."""
    expired = issued(since=PAST, until=datetime(2021, 1, 1, tzinfo=UTC))
    files.replace(expired.pem, expired.key)
    shaken_hands(server_context(files), asking())
