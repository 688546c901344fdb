"""How far a connection to a mail server got: it decides how exactly a failure may be explained.

For addresses near the appliance (this computer, private networks) the difference between a closed, a silent and a
talking port would make the appliance a port scanner for its members, in networks that they cannot reach themselves.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mailbox_appliance.remote.faults import SERVER_NAMES, RemoteFault

log = logging.getLogger(__name__)


@dataclass
class Contact:
    """One attempt to connect, filled in by the layers that make it.

    `greet_by`: the time, as `time.monotonic` counts it, by which a near server must show that it is a mail server.
    `is_near`: it has an address of this computer or of a network that is not public. `has_greeted`: it has answered as
    a mail server does (IMAP: a greeting; SMTP: a greeting and EHLO).
    """

    greet_by: float = math.inf
    is_near: bool = False
    has_greeted: bool = False

    @property
    def is_unproven(self) -> bool:
        """Whether a failure now would tell what a port near the appliance does."""
        return self.is_near and not self.has_greeted

    @property
    def deadline(self) -> float:
        """The time by which the attempt fails, whatever the timeouts of single answers are."""
        return self.greet_by if self.is_unproven else math.inf


@contextmanager
def showing(contact: Contact) -> Iterator[Contact]:
    """Mark the RemoteFault of an attempt with how far it got."""
    try:
        yield contact
    except RemoteFault as fault:
        fault.is_unproven = contact.is_unproven
        raise


def hide_cause(fault: RemoteFault) -> RemoteFault:
    """Return the one fault that stands for every near port without a mail server. Log the cause for the operator."""
    log.info("a near mail server cannot be used", extra={"server": fault.server, "fault": fault.name or fault.kind})
    reason = (
        f"No usable {SERVER_NAMES[fault.server]} server answered at this host and port. Check host, port, security and"
        " certificate. For private addresses only administrators see the exact cause: ask one to look into the log."
    )
    return RemoteFault(fault.server, "unreachable", reason)
