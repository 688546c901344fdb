"""What this appliance is and how it is doing."""

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.records import AccountStatus, Capability, Timestamp, Wire
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.version import __version__


class About(Wire, frozen=True, kw_only=True):
    """What answers here."""

    name: str
    version: str
    api_version: str
    setup_required: bool


class StoreStatus(Wire, frozen=True, kw_only=True):
    """The store: its format, its size, and the room that is left on its disk."""

    format: int
    size_bytes: int
    free_bytes: int


class AccountProgress(Wire, frozen=True, kw_only=True):
    """How the mirror of a mailbox is."""

    id: str
    status: AccountStatus
    last_sync_at: Timestamp | None
    progress: str | None


class DeliveryCounts(Wire, frozen=True, kw_only=True):
    """How many operations are not over."""

    queued: int
    sending: int
    uncertain: int


class Status(Wire, frozen=True, kw_only=True):
    """How the appliance is doing; of the mailboxes those that you reach."""

    version: str
    uptime_seconds: int
    store: StoreStatus
    accounts: tuple[AccountProgress, ...]
    deliveries: DeliveryCounts


@operation(access=Access.ANYBODY)
def get_about(appliance: Appliance, caller: Caller) -> About:  # noqa: ARG001
    """Name and version of what answers here, and whether it still has to be set up."""
    required = not appliance.store.members.any()
    return About(name="mailbox-appliance", version=__version__, api_version="v1", setup_required=required)


@operation(needs=Capability.MAIL_READ)
def get_status(appliance: Appliance, caller: Caller) -> Status:
    """Version, running time, store, and the state of your mailboxes and deliveries."""
    store = appliance.store
    accounts = permissions.reachable(store, caller.found)
    return Status(
        version=__version__,
        uptime_seconds=int(appliance.clock.monotonic() - appliance.started_at),
        store=StoreStatus(format=format_5.NUMBER, size_bytes=store.size_bytes, free_bytes=store.free_bytes),
        accounts=tuple(
            AccountProgress(
                id=a.id, status=a.status, last_sync_at=a.last_sync_at, progress=appliance.sync.progress(a.id)
            )
            for a in accounts
        ),
        deliveries=DeliveryCounts(**store.delivery_lists.counts({a.id for a in accounts})),
    )
