"""Operations on HTTPS: whether it is on, its address, and its certificate. For the operator and for administrators."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import CertificateUnusable, Conflict, HttpsNotOffered
from mailbox_appliance.model.base import Input, Wire
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.operations.operation import Access, Caller, operation
from mailbox_appliance.operations.settings import (
    change_settings,
    import_certificate,
    is_certificate_lost,
    require_valid_values,
    rotate_certificate,
)
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.inspect import Certificate, certificate_warnings, read_facts

#: Characters of a certificate with its chain, or of a key; real ones have a few thousand.
MAX_PEM_CHARACTERS = 64 * 1024
_PINNED_WARNING = (
    "The certificate has changed. Clients that pinned the previous one must sign in again:"
    " `mailbox-appliance login URL --fingerprint {}`."
)
_UNTRUSTED_WARNING = (
    "This computer does not trust the issuer of the certificate, and other clients may not either. Import the complete"
    " chain; a certificate from a private CA must be trusted by each client."
)

#: Each field of a change, and its setting.
_SETTINGS = {"enabled": "server.https", "port": "server.https_port", "host": "server.https_host"}
_UNLINKED_WARNING = (
    "The certificate files were links and are copies now. Renewals of the files that they pointed to no longer take"
    " effect."
)

Pem = Annotated[str, Meta(max_length=MAX_PEM_CHARACTERS)]


class HttpsStatus(Wire, frozen=True, kw_only=True):
    """The HTTPS settings, and where HTTPS listens.

    - enabled: Whether HTTPS is switched on.
    - port: Port that it listens on; 0 picks a free one.
    - url: Its address, as seen from the appliance's computer; null if it does not listen.
    - certificate: The certificate; null if there is none.
    """

    enabled: bool
    host: Annotated[str, Meta(description="IP address that it listens on; empty for all addresses.")]
    port: int
    url: str | None
    certificate: Certificate | None


class UpdateHttpsRequest(Input, frozen=True, kw_only=True):
    """Changes to the HTTPS settings. Omitted fields stay unchanged; null restores the value in config.toml.

    - enabled: Whether HTTPS is switched on.
    - port: Port to listen on; 0 picks a free one.
    - host: IP address to listen on, or `localhost`; empty for all addresses.
    """

    enabled: bool | UnsetType | None = UNSET
    port: Annotated[int, Meta(ge=0, le=65535)] | UnsetType | None = UNSET
    host: Annotated[str, Meta(max_length=255)] | UnsetType | None = UNSET


class SetCertificateRequest(Input, frozen=True, kw_only=True):
    """A certificate with its chain and key, in PEM."""

    certificate: Annotated[Pem, Meta(description="The server's certificate first, then its issuer's, and so on.")]
    private_key: Annotated[
        Pem,
        Meta(description="Private key without a passphrase: RSA with at least 2048 bits, or EC P-256, P-384 or P-521."),
    ]


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def get_https(appliance: Appliance, caller: Caller) -> OperationResult[HttpsStatus]:  # noqa: ARG001 - rights were checked
    """Get HTTPS status.

    Returns whether HTTPS is on, its address, and its certificate. `warnings` name what an operator should fix.
    """
    return _https_answer(appliance)


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def update_https(appliance: Appliance, caller: Caller, request: UpdateHttpsRequest) -> OperationResult[HttpsStatus]:
    """Change HTTPS settings.

    Opens, moves or closes the HTTPS listener at once. Requests on it, including this one, are still answered. A
    certificate is created if there is none.

    409 `conflict`: the change is impossible, for example because the port is in use. Nothing is changed.
    """
    given = {setting: getattr(request, field) for field, setting in _SETTINGS.items()}
    changes = {setting: value for setting, value in given.items() if value is not UNSET}
    require_valid_values(changes, {setting: field for field, setting in _SETTINGS.items()})
    with appliance.settings_lock:
        was_lost = is_certificate_lost(appliance)
        told = change_settings(appliance, caller, changes)
        if changes and appliance.https is not None and appliance.https.trouble is not None:
            appliance.https.apply()  # it was requested before and could not be done then
        answer = _https_answer(appliance)
    if was_lost and answer.data.certificate is not None:
        told = (*told, _PINNED_WARNING.format(answer.data.certificate.fingerprint))
    return OperationResult(answer.data, (*told, *answer.warnings))


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def put_certificate(
    appliance: Appliance, caller: Caller, request: SetCertificateRequest
) -> OperationResult[HttpsStatus]:
    """Import an HTTPS certificate.

    Replaces the certificate at once; open connections continue. The certificate is checked first (400).
    """
    # Each character becomes a byte, so that a text that is not PEM is reported as such.
    texts = (text.encode("latin-1", "replace") for text in (request.certificate, request.private_key))
    return _replace_certificate(appliance, lambda: import_certificate(appliance, caller.actor, *texts))


@operation(access=Access.SESSION, role="admin", https=True, operator=True)
def rotate(appliance: Appliance, caller: Caller) -> OperationResult[HttpsStatus]:
    """Create a new self-signed certificate.

    Replaces the certificate and its key at once. Clients that pinned the previous certificate refuse the new one until
    they sign in again with the new fingerprint.
    """

    def act() -> tuple[str, ...]:
        rotate_certificate(appliance, caller.actor)
        return ()

    return _replace_certificate(appliance, act)


def _replace_certificate(appliance: Appliance, act: Callable[[], tuple[str, ...]]) -> OperationResult[HttpsStatus]:
    with appliance.settings_lock:  # the caller is shown the certificate of their own change, not of a later one
        before, had_links = _fingerprint(appliance), CertificateFiles(appliance.folder).are_links()
        try:
            told = (*((_UNLINKED_WARNING,) if had_links else ()), *act())
        except CertificateUnusable as problem:  # the cause is the files, not the request
            raise Conflict(reason=problem.message) from problem
        if appliance.https is not None and appliance.settings.flag("server.https"):
            with suppress(HttpsNotOffered):  # the certificate is replaced anyway; the response warns
                appliance.https.apply()
        answer = _https_answer(appliance)
    found = answer.data.certificate
    if found is not None and before not in (None, found.fingerprint):
        told = (*told, _PINNED_WARNING.format(found.fingerprint))
    return OperationResult(answer.data, tuple(dict.fromkeys((*told, *answer.warnings))))


def _fingerprint(appliance: Appliance) -> str | None:
    try:
        return read_facts(CertificateFiles(appliance.folder)).fingerprint
    except CertificateUnusable:
        return None


def _https_answer(appliance: Appliance) -> OperationResult[HttpsStatus]:
    listener, settings = appliance.https, appliance.settings
    trouble = None if listener is None else listener.trouble
    certificate, warnings = _describe_certificate(appliance, is_reported=trouble is not None)
    answer = HttpsStatus(
        enabled=settings.flag("server.https"),
        host=settings.text("server.https_host"),
        port=settings.number("server.https_port"),
        url=None if listener is None else listener.url,
        certificate=certificate,
    )
    return OperationResult(answer, tuple(dict.fromkeys(filter(None, (trouble, *warnings)))))


def _describe_certificate(appliance: Appliance, *, is_reported: bool) -> tuple[Certificate | None, tuple[str, ...]]:
    """Return the certificate in the files, or the one in use, and warnings unless the fault `is_reported` already."""
    files, served = CertificateFiles(appliance.folder), None
    if appliance.https is not None and (seen := appliance.https.certificate) is not None:
        served = seen
    if not files.any_exists():
        return served, ()
    try:
        found = read_facts(files)
    except CertificateUnusable as problem:
        return served, () if is_reported else (problem.message,)
    untrusted = () if found.trusted or found.self_signed else (_UNTRUSTED_WARNING,)
    return found, (*certificate_warnings(found, appliance.clock.now()), *untrusted)
