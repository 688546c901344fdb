"""What is told of a mailbox whose server, or provider, did not play its part."""

from msgspec import UNSET

from mailbox_appliance.model.records import AccountError
from mailbox_appliance.remote.faults import FaultKind, RemoteFault

#: The code of an account's error; every other kind is `provider_unavailable`.
_CODES: dict[FaultKind, str] = {"login_refused": "authentication_failed", "throttled": "provider_rate_limited"}


def trouble(fault: RemoteFault) -> AccountError:
    """The error of a mailbox: the fault's own sentence, with its fix, and its name where it has one."""
    code = _CODES.get(fault.kind, "provider_unavailable")
    return AccountError(code=code, message=fault.reason, fault=fault.name or UNSET)
