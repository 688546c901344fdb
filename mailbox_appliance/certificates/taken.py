"""The certificate that HTTPS is offered with, as it was when it was taken from its files."""

import logging
import ssl
from dataclasses import dataclass
from datetime import datetime

from mailbox_appliance.certificates import making, reading
from mailbox_appliance.certificates.files import CertificateFiles
from mailbox_appliance.certificates.reading import CertificateFacts
from mailbox_appliance.certificates.tls import is_trusted, server_context
from mailbox_appliance.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taken:
    """`state`: of the files, so that it can be told whether they are others since."""

    context: ssl.SSLContext
    facts: CertificateFacts
    state: tuple[object, ...]


def take(files: CertificateFiles, settings: Settings, now: datetime, before: Taken | None = None) -> Taken:
    """The certificate that is there now, made where there is none; `before`, the one in use, where it is still that.

    None is made in the place of one in use: its files may be missing for a moment only. Raises CertificateUnusable.
    """
    if before is None and files.ensure(making.names_for(settings), now):
        log.info("a certificate was made for HTTPS")
    state = files.state()
    if before is not None and before.state == state:
        return before
    context = server_context(files)
    certificate, _ = files.load()
    facts = reading.facts_of(certificate, trusted=is_trusted(context))
    log.info("a certificate is taken for HTTPS", extra={"fingerprint": facts.fingerprint})
    return Taken(context, facts, state)
