"""Check an operator's certificate and key before they replace the current ones. Every problem has its own message.

Two files are checked. All certificates come from the first one. The key comes from the second one, which may have
several: it is the key that matches the first certificate. Both are written as plain PEM without anything else from the
files, so `cert.pem` never contains a key.

Ed25519 keys are rejected, because browsers do not accept them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from mailbox_appliance.errors import Invalid
from mailbox_appliance.tls.files import CERTIFICATES, pem_blocks
from mailbox_appliance.tls.inspect import is_issued_by, names_in

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

CERTIFICATE, KEY = "/certificate", "/privateKey"
_LEAST_RSA, _MOST_RSA = 2048, 8192
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_DAMAGED_KEY = "The private key is damaged."
#: The start of DER (X.690 8.1: a sequence whose length takes two bytes), and what follows in PKCS#12 (RFC 7292 4).
_DER, _PKCS_12 = b"\x30\x82", b"\x02\x01\x03"


@dataclass(frozen=True)
class ValidatedCertificate:
    """A checked certificate with its chain, and its key, as they will be written to disk.

    `warnings`: problems that clients may have with it, except for its expiry (see `certificate_warnings`).
    """

    certificate: bytes
    key: bytes
    warnings: tuple[str, ...]


def validate_certificate(certificate: bytes, key: bytes, now: datetime) -> ValidatedCertificate:
    """Check two files of an operator, and return the certificates from the first and the key from the second.

    Anything else in the files, such as text around the PEM blocks, is dropped. Raises Invalid if they cannot be served.
    """
    own_blocks, key_blocks = tuple(pem_blocks(certificate)), tuple(pem_blocks(key))
    chain = [body for label, body in own_blocks if label in CERTIFICATES]
    keys = [body for label, body in key_blocks if label.endswith(b"PRIVATE KEY")]
    if not chain:
        _refuse(CERTIFICATE, _no_certificate(certificate, own_blocks, key_blocks))
    if not keys:
        _refuse(KEY, _no_key(key, key_blocks))
    read, private = _read_chain(chain), [_read_key(one) for one in keys]
    _require_complete_chain(certificate, len(chain))
    own = _require_matching_key(read, private)
    _require_strength(own)
    _require_valid_now(read[0], now)
    _require_server_use(read[0])
    return ValidatedCertificate(_encode_chain(read), _encode_key(own), tuple(_warnings(read)))


# --- The content of the files ---


def _no_certificate(text: bytes, own: Sequence[tuple[bytes, bytes]], key: Sequence[tuple[bytes, bytes]]) -> str:
    labels = {label for label, _ in own}
    if any(label.endswith(b"PRIVATE KEY") for label in labels):
        if any(label in CERTIFICATES for label, _ in key):
            return "The two files are swapped. Give the certificate first, then its key."
        return "This is a private key without a certificate."
    if any(label.endswith(b"REQUEST") for label in labels):
        return (
            "This is a certificate signing request. Submit it to a CA, then import the certificate that the CA returns."
        )
    if labels & {b"PKCS7", b"CMS"}:
        return "This is PKCS#7. Convert it to PEM with `openssl pkcs7 -print_certs -in FILE -out cert.pem`."
    if b"TRUSTED CERTIFICATE" in labels:
        return (
            "This is OpenSSL's trusted format. Convert it to a plain certificate with `openssl x509 -in FILE -out"
            " cert.pem`."
        )
    return _no_pem(text, "certificate", "openssl x509 -inform der -in FILE -out cert.pem")


def _no_key(text: bytes, found: Sequence[tuple[bytes, bytes]]) -> str:
    labels = {label for label, _ in found}
    if any(label.endswith(b"PUBLIC KEY") for label in labels):
        return "This is a public key. Provide the private key that belongs to it."
    if labels & set(CERTIFICATES):
        return "This is a certificate. Provide the private key that belongs to it."
    return _no_pem(text, "private key", "openssl pkey -inform der -in FILE -out key.pem")


def _no_pem(text: bytes, what: str, command: str) -> str:
    if not text.strip():
        return "The file is empty."
    if text.startswith(_DER) and text[4:7] == _PKCS_12:
        return (
            "This is PKCS#12 (.p12, .pfx). Split it with `openssl pkcs12 -in FILE -nokeys -out cert.pem` and"
            " `openssl pkcs12 -in FILE -nocerts -nodes -out key.pem`."
        )
    if text[:1] == _DER[:1]:
        return f"This is DER. Convert it to PEM with `{command}`."
    if b"-----BEGIN" in text:
        return f"The {what} is incomplete or damaged between its BEGIN and END lines."
    return f"The file contains no {what}. It must be PEM: text with a line `-----BEGIN {what.upper()}-----`."


def _read_chain(blocks: Iterable[bytes]) -> "list[x509.Certificate]":
    from cryptography import x509

    found = []
    for number, block in enumerate(blocks, 1):
        try:
            found.append(x509.load_pem_x509_certificate(block))
            _ = found[-1].extensions
        except ValueError:
            _refuse(CERTIFICATE, f"Certificate {number} in the file is damaged.")
    return found


def _read_key(block: bytes) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    is_ssh = block.startswith(b"-----BEGIN OPENSSH")
    try:
        # The check for primes in an RSA key takes seconds, during which no other request is served.
        load = load_ssh_private_key if is_ssh else load_pem_private_key
        return load(block, None, unsafe_skip_rsa_key_validation=True)
    except TypeError:  # a passphrase is needed
        _refuse(
            KEY,
            "The key is protected by a passphrase, but the appliance must be able to start unattended. Remove"
            " the passphrase with `openssl pkey -in FILE -out key.pem`.",
        )
    except UnsupportedAlgorithm:
        _refuse(KEY, "The type of this key is not supported. Use EC P-256, or RSA with 2048 bits or more.")
    except ValueError:
        _refuse(KEY, _DAMAGED_KEY)


def _require_complete_chain(certificate: bytes, found: int) -> None:
    """Raise Invalid if the last certificate of a file is cut off. `found`: how many complete ones it has.

    Without this check, the chain would be imported without its end, and clients would not accept it.
    """
    begun = sum(certificate.count(b"-----BEGIN " + label + b"-----") for label in CERTIFICATES)
    if begun > found:
        _refuse(CERTIFICATE, f"Certificate {found + 1} in the file is incomplete: its END line is missing.")


# --- Whether the certificate can be served ---


def _require_matching_key(chain: "Sequence[x509.Certificate]", keys: "Sequence[PrivateKeyTypes]") -> "PrivateKeyTypes":
    """Return the key that belongs to the first certificate of the chain. Raises Invalid if none of the keys does."""
    public = [_public_bytes(certificate.public_key()) for certificate in chain]
    fitting = {public.index(one): key for key in keys if (one := _public_bytes(key.public_key())) in public}
    if not fitting:
        _refuse(KEY, "The private key belongs to another certificate.")
    if 0 not in fitting:
        place = min(fitting) + 1
        _refuse(
            CERTIFICATE,
            f"The certificate that belongs to the key is number {place} in the file. Put it first, then the"
            " certificate of its issuer, and so on.",
        )
    return fitting[0]


def _public_bytes(key: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return found


def _require_strength(key: "PrivateKeyTypes") -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    ask = "Use EC P-256, or RSA with 2048 bits or more."
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < _LEAST_RSA:
            _refuse(KEY, f"The RSA key has {key.key_size} bits, which is too short to be safe. {ask}")
        if key.key_size > _MOST_RSA:
            _refuse(KEY, f"The RSA key has {key.key_size} bits, which is more than browsers accept. {ask}")
        _require_signature(key)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        if key.curve.name not in _CURVES:
            _refuse(KEY, f"The key uses the curve {key.curve.name}, which clients do not accept. {ask}")
    else:  # TLS supports Ed25519, but browsers do not
        kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
        _refuse(KEY, f"The key is {kind}, which browsers do not accept. {ask}")


def _require_signature(key: "RSAPrivateKey") -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    how = PKCS1v15(), SHA256()
    try:
        key.public_key().verify(key.sign(b"", *how), b"", *how)
    except (ValueError, InvalidSignature):
        _refuse(KEY, _DAMAGED_KEY)


def _require_valid_now(own: "x509.Certificate", now: datetime) -> None:
    if now >= own.not_valid_after_utc:
        _refuse(CERTIFICATE, f"The certificate expired on {own.not_valid_after_utc:%Y-%m-%d}. Renew it first.")
    if now < own.not_valid_before_utc:
        since = f"{own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        _refuse(CERTIFICATE, f"The certificate is valid only from {since}. Import it then, or correct the clock.")


def _require_server_use(own: "x509.Certificate") -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    if _is_authority(own) and not is_issued_by(own, own):
        _refuse(CERTIFICATE, "This is the certificate of a CA. Import a certificate that the CA issued for a server.")
    uses = _extension(own, x509.ExtendedKeyUsage)
    if uses is not None and not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & {*uses}:
        _refuse(CERTIFICATE, "The certificate is not for servers: its extended key usages do not include serverAuth.")
    usage = _extension(own, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        _refuse(CERTIFICATE, "The certificate is not for TLS: its key usage does not include digitalSignature.")


def _is_authority(certificate: "x509.Certificate") -> bool:
    from cryptography import x509

    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def _extension(certificate: "x509.Certificate", kind: type) -> Any:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _warnings(chain: "Sequence[x509.Certificate]") -> Iterator[str]:
    own = chain[0]
    if not names_in(own):
        yield "The certificate contains no host name (subjectAltName), so browsers will not accept it."
    if _is_authority(own):
        yield (
            "The certificate is a CA certificate: anyone who obtains its key can issue certificates that its clients"
            " trust."
        )
    for number, (one, issuer) in enumerate(pairwise(chain), 1):
        if not is_issued_by(one, issuer):
            yield (
                f"Certificate {number + 1} in the file did not issue certificate {number}, so some clients will"
                " not accept the chain."
            )


def _encode_chain(chain: "Iterable[x509.Certificate]") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.public_bytes(Encoding.PEM) for one in chain)


def _encode_key(key: "PrivateKeyTypes") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _refuse(path: str, message: str) -> NoReturn:
    raise Invalid.at(path, message)
