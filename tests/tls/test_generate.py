"""The self-signed certificate: its content, and its names."""

import socket
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from mailbox_appliance import settings
from mailbox_appliance.tls.generate import generate_certificate, own_names
from mailbox_appliance.tls.inspect import names_in
from mailbox_appliance.tls.validate import validate_certificate
from tests.tls.issued import NOW

ALWAYS = ("localhost", "127.0.0.1", "::1")


def test_what_it_says() -> None:
    names = (*ALWAYS, "mail.example.org")
    certificate, key = generate_certificate(names, NOW)
    found = x509.load_pem_x509_certificate(certificate)
    assert found.not_valid_before_utc == NOW - timedelta(days=1)
    assert found.not_valid_after_utc == NOW + timedelta(days=3650)
    assert names_in(found) == names
    private = load_pem_private_key(key, None)
    assert isinstance(private, EllipticCurvePrivateKey)
    assert private.curve.name == "secp256r1"
    assert value_of(found, x509.ExtendedKeyUsage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not value_of(found, x509.BasicConstraints).ca
    assert validate_certificate(certificate, key, NOW).warnings == ()
    assert generate_certificate(names, NOW)[1] != key


def value_of(certificate: x509.Certificate, kind: Any) -> Any:
    value = certificate.extensions.get_extension_for_class(kind).value
    return list(value) if kind is x509.ExtendedKeyUsage else value


@pytest.mark.parametrize(
    ("url", "host", "more"),
    [
        ("", "", ()),
        ("https://mail.example.org:8443/x", "192.0.2.7", ("mail.example.org", "192.0.2.7")),
        ("https://B\u00fccher.example.", "::", ("xn--bcher-kva.example",)),
        ("https://[2001:db8::1]:1", "fe80::1%eth0", ("2001:db8::1", "fe80::1")),
        ("https://LOCALHOST", "0.0.0.0", ()),
        ("no url", "", ()),
        ("https://[", "", ()),
        ("https://a..b", "", ()),
        ("https://" + "a" * 64, "", ()),
        ("https://" + ".".join(["a" * 60] * 5), "", ()),
    ],
)
def test_for_which_names(url: str, host: str, more: tuple[str, ...]) -> None:
    given = {"MAILBOX_APPLIANCE_SERVER_PUBLIC_URL": url, "MAILBOX_APPLIANCE_SERVER_HTTPS_HOST": host}
    names = own_names(settings.load(None, given))
    assert names == tuple(dict.fromkeys((*ALWAYS, socket.gethostname().lower(), *more)))
    assert names_in(x509.load_pem_x509_certificate(generate_certificate(names, NOW)[0])) == names


def test_a_long_name_fits() -> None:
    name = ".".join(["a" * 50] * 4)
    assert names_in(x509.load_pem_x509_certificate(generate_certificate((name,), NOW)[0])) == (name,)
