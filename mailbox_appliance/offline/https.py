"""HTTPS settings while no appliance is running: enables or disables it for the next start, and manages its
certificate.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.offline.store import require_store, to_envelope, upgrade_warnings
from mailbox_appliance.operations import https
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.operation import LOCAL, Caller
from mailbox_appliance.store.database import failures_as_unusable
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.key import find_key_file, load_passphrase
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.generate import own_names
from mailbox_appliance.tls.inspect import certificate_warnings, read_facts

_OPERATOR = Caller(LOCAL, is_operator=True)


def status(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Return the HTTPS settings and certificate. `passphrase`: of the store's key.

    Raises StoreUnusable, also without a store.
    """
    require_store(data_dir)
    with _open_appliance(data_dir, passphrase) as appliance:
        return _envelope_of(appliance, https.get_https(appliance, _OPERATOR))


def change(data_dir: Path, given: Mapping[str, Any], passphrase: str | None = None) -> dict[str, Any]:
    """Enable or disable HTTPS for the next start. `given`: a request body as for PATCH /admin/https.

    Enabling creates a store if there is none; disabling does not. Raises StoreUnusable, Conflict, Invalid.
    """
    request = convert_body(dict(given), https.UpdateHttpsRequest)
    if not request.enabled:
        require_store(data_dir)
    with _open_appliance(data_dir, passphrase) as appliance:
        return _envelope_of(appliance, https.update_https(appliance, _OPERATOR, request))


def import_certificate(data_dir: Path, given: Mapping[str, Any], passphrase: str | None = None) -> dict[str, Any]:
    """Replace the certificate by the operator's own. `given`: a request body as for PUT /admin/https/certificate.

    A store is created if there is none, since its audit log records the change. Raises StoreUnusable, Conflict,
    Invalid.
    """
    request = convert_body(dict(given), https.SetCertificateRequest)
    with _open_appliance(data_dir, passphrase) as appliance:
        return _envelope_of(appliance, https.put_certificate(appliance, _OPERATOR, request))


def rotate_certificate(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Replace the certificate and its private key by new ones. Raises StoreUnusable, Conflict.

    A store is created if there is none, since its audit log records the change.
    """
    with _open_appliance(data_dir, passphrase) as appliance:
        return _envelope_of(appliance, https.rotate(appliance, _OPERATOR))


def fingerprint(data_dir: Path) -> dict[str, Any]:
    """Return the fingerprint of the certificate. If there is no certificate, create one and add a warning to the
    result.

    Neither the store nor its key is read, so this also works while an appliance is running. Raises CertificateUnusable,
    BadSetting.
    """
    files, now = CertificateFiles(data_dir), datetime.now(UTC)
    is_new = files.ensure(own_names(settings.load(data_dir / "config.toml")), now)
    found = read_facts(files)
    told = (_certificate_made_warning(data_dir, files),) if is_new else ()
    return to_envelope(found, (*told, *certificate_warnings(found, now)))


def _certificate_made_warning(data_dir: Path, files: CertificateFiles) -> str:
    """Return the warning that a certificate was created just now.

    It also names what may be wrong: the directory is perhaps mistyped, or clients may have pinned an earlier
    certificate.
    """
    made = f"This certificate was created now in {files.folder}, because none existed."
    if os.path.lexists(data_dir / DATABASE_FILE):
        return f"{made} Clients that pinned an earlier certificate refuse this one."
    return f"{made} The directory holds no store yet. If your appliance uses another one, name it with --data-dir."


@contextmanager
def _open_appliance(data_dir: Path, passphrase: str | None) -> Iterator[Appliance]:
    options, key_file = settings.load(data_dir / "config.toml"), find_key_file(data_dir, os.environ)
    passphrase = passphrase or load_passphrase(os.environ)
    with failures_as_unusable(data_dir):
        appliance = Appliance(data_dir, options, key_file=key_file, passphrase=passphrase)
        try:
            yield appliance
        finally:
            appliance.store.close()


def _envelope_of(appliance: Appliance, answer: OperationResult[Any]) -> dict[str, Any]:
    return to_envelope(answer.data, (*upgrade_warnings(appliance.store.upgraded), *answer.warnings))
