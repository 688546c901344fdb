"""Whom commands speak to that know the data directory: another appliance, the one that runs on it, or nobody.

Who may read the data directory is its operator. `run.json` in it says so to the appliance that runs there: no log-in is
needed for what concerns the store.
"""

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.client import local
from mailbox_appliance.client.http import ApiClient
from mailbox_appliance.client.instances import LOCAL

#: Seconds that long work may take at a running appliance.
LONG = 12 * 3600.0


def names_another(invocation: Invocation) -> bool:
    """Whether another appliance is meant than that of the data directory: it is asked as any client asks."""
    return (invocation.requested_instance() or invocation.instances().current) != LOCAL


def operator_client(invocation: Invocation) -> ApiClient | None:
    """Another appliance by one's log-in, or that of the data directory as its operator; None where none runs."""
    if names_another(invocation):
        return invocation.client()
    running = local.find_running(invocation.data_directory())
    return ApiClient(running.url, running.secret) if running else None
