"""The certificate of HTTPS made and replaced, with a row in the audit log: for requests, the start, and commands.

The row is written when the new pair is on the disk and does not count yet. So a crash leaves a row without a change at
worst, never a change without a row; and where the change fails after all, another row says so.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import CertificateUnusable
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.tls.files import CertificateFiles, Recorded
from mailbox_appliance.tls.generate import generate_certificate, own_names
from mailbox_appliance.tls.inspect import fingerprint
from mailbox_appliance.tls.validate import validate_certificate

log = logging.getLogger(__name__)

_ACTS = ("certificate.make", "certificate.rotate", "certificate.import")


def ensure_certificate(appliance: Appliance, actor: Actor) -> bool:
    """Make a certificate where there is none at all; answers whether that was done. Raises CertificateUnusable.

    Where there was one before, that is logged: clients have pinned it.
    """
    files = CertificateFiles(appliance.folder)
    was_lost = is_lost(appliance)
    with _recording(appliance, actor, "certificate.make") as recorded:
        is_made = files.ensure(own_names(appliance.settings), appliance.clock.now(), recorded)
    if is_made and was_lost:
        log.warning("the files of the certificate were gone, so another one was made")
    return is_made


def is_lost(appliance: Appliance) -> bool:
    """Whether there is no certificate, but was one."""
    return not CertificateFiles(appliance.folder).any_exists() and appliance.store.audit.has_action(*_ACTS)


def rotate_certificate(appliance: Appliance, actor: Actor) -> None:
    """Make another certificate in place of the one that is there, whatever that is. Raises CertificateUnusable."""
    pair = generate_certificate(own_names(appliance.settings), appliance.clock.now())
    with _recording(appliance, actor, "certificate.rotate") as recorded:
        CertificateFiles(appliance.folder).replace(*pair, recorded)


def import_certificate(appliance: Appliance, actor: Actor, certificate: bytes, key: bytes) -> tuple[str, ...]:
    """Let a certificate of the operator's take the place of the one that is there; answers what may trouble clients.

    Raises Invalid for what cannot be one, and CertificateUnusable.
    """
    found = validate_certificate(certificate, key, appliance.clock.now())
    with _recording(appliance, actor, "certificate.import") as recorded:
        CertificateFiles(appliance.folder).replace(found.certificate, found.key, recorded)
    return found.warnings


@contextmanager
def _recording(appliance: Appliance, actor: Actor, action: str) -> Iterator[Recorded]:
    """Gives what writes the row; where the change fails after that, writes that it did."""
    written: list[str] = []
    record = partial(appliance.store.audit.record, actor, action)

    def recorded(certificate: bytes) -> None:
        target = fingerprint(certificate)
        with appliance.store.database.transaction(durable=True):
            record(("certificate", target))
        written.append(target)

    try:
        yield recorded
    except CertificateUnusable:
        for target in written:
            with appliance.store.database.transaction(durable=True):
                record(("certificate", target), "failure")
        raise
