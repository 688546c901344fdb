"""What a mail server's fault means for the request that met it."""

from math import ceil

from mailbox_appliance.errors import Detail, Problem, ProviderThrottled, Unavailable, Unsupported
from mailbox_appliance.remote.faults import RemoteFault

#: Seconds after which another try may succeed.
_RETRY_AFTER, _THROTTLED_RETRY_AFTER = 30, 60


def problem_of(fault: RemoteFault) -> Problem:
    """The problem to answer a request with that cannot be done without the server."""
    details = (Detail(fault.server, fault.reason),)
    if fault.kind == "unsupported":
        return Unsupported(details=details, reason=fault.reason)
    if fault.kind == "throttled":
        return ProviderThrottled(details=details, retry_after=seconds_of(fault, _THROTTLED_RETRY_AFTER))
    return Unavailable(details=details, reason=fault.reason, retry_after=seconds_of(fault, _RETRY_AFTER))


def seconds_of(fault: RemoteFault, usual: int) -> int:
    """For how long to wait: as the server says, else as is usual."""
    return usual if fault.retry_after is None else max(1, ceil(fault.retry_after))
