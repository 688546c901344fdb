"""The certificate that HTTPS is offered with, as it was when it was taken from its files."""

import logging
import ssl
from dataclasses import dataclass

from mailbox_appliance.certificates.files import CertificateFiles
from mailbox_appliance.certificates.reading import CertificateFacts, with_facts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taken:
    """`state`: of the files, so that it can be told whether they are others since."""

    context: ssl.SSLContext
    facts: CertificateFacts
    state: tuple[object, ...]


def take(files: CertificateFiles, before: Taken | None = None) -> Taken:
    """The certificate that is there now; `before`, where it is still that. Raises CertificateUnusable."""
    state = files.state()
    if before is not None and before.state == state:
        return before
    context, facts = with_facts(files)
    log.info("a certificate is taken for HTTPS", extra={"fingerprint": facts.fingerprint})
    return Taken(context, facts, state)
