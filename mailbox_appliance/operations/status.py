"""Operations that report the version and health of the appliance, its store and mailboxes, and the numbers of the
charts.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.model.accounts import Account, AccountStatus
from mailbox_appliance.model.backups import BackupTrouble
from mailbox_appliance.model.base import Count, OwnText, Timestamp, Wire, own_text
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.sync import SyncProgress
from mailbox_appliance.operations.operation import Access, Caller, operation
from mailbox_appliance.store import files
from mailbox_appliance.store.exclusive_job import ExclusiveJob, JobKind
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.formats import format_5
from mailbox_appliance.system import crashes, processes
from mailbox_appliance.system.crashes import Crash
from mailbox_appliance.version import __version__


class ServerInfo(Wire, frozen=True, kw_only=True):
    """Name and version of the server.

    - name: Always `mailbox-appliance`.
    - version: Version of the appliance.
    - api_version: Version of the API.
    - setup_required: Whether the first administrator still has to be created.
    """

    name: str
    version: str
    api_version: str
    setup_required: bool


class StoreProgress(Wire, frozen=True, kw_only=True):
    """A maintenance task that is running.

    - kind: The kind of task, for programs.
    - work: The task in words, for people.
    - step: Its current step.
    - done: Units of this step that are done; 0 if they are not counted.
    - total: Units of this step; 0 if they are not counted.
    """

    kind: JobKind
    work: str
    step: str
    done: Count
    total: Count


class StoreStatus(Wire, frozen=True, kw_only=True):
    """The store and its disk.

    - format: Format of the store.
    - size_bytes: Size of the store, in bytes.
    - free_bytes: Free space on its disk, in bytes.
    - progress: The maintenance task that is running; absent if there is none.
    """

    format: int
    size_bytes: int
    free_bytes: int
    progress: StoreProgress | UnsetType = UNSET


HELD_WARNING = own_text(
    "Scheduled messages are on hold until an administrator releases them: `scheduled release`, or PATCH /admin/settings"
    " with `sending.hold_scheduled` false. A message that is overdue by more than 24 hours ends as `expired`."
)
UNFIT_CONFIG_WARNING = own_text(
    "config.toml is invalid, and the next start would fail. The log has the reason. Fix it, then reload"
    " (`systemctl reload`, or SIGHUP)."
)

Trace = Annotated[str, Meta(description="The `file` of `lastCrash` in `GET /status`.")]
SUPERSEDED_WARNING = own_text(
    "The program was replaced or removed while it ran, for example by an upgrade. Restart the appliance: parts of the"
    " program may be missing."
)


class MessageCount(Wire, frozen=True, kw_only=True):
    """The messages fetched so far.

    - done: Messages fetched.
    - total: Messages to fetch in total.
    """

    done: Count
    total: Count


class AccountProgress(Wire, frozen=True, kw_only=True):
    """The sync status of a mailbox.

    - id: Mailbox ID.
    - status: Status of the mailbox.
    - last_sync_at: When it was last fully synced; null before the first sync is complete.
    - progress: What a running sync is doing, for people; null if nothing is left to do.
    - progress_count: The numbers of `progress`; left out unless messages are counted.
    """

    id: str
    status: AccountStatus
    last_sync_at: Timestamp | None
    progress: str | None
    progress_count: MessageCount | UnsetType = UNSET


class DeliveryCounts(Wire, frozen=True, kw_only=True):
    """The number of deliveries that are not finished.

    - queued: Waiting, scheduled ones included.
    - sending: Being sent.
    - uncertain: Outcome unknown.
    """

    queued: int
    sending: int
    uncertain: int


class Status(Wire, frozen=True, kw_only=True):
    """The status of the appliance and of the mailboxes that you have access to.

    - version: Version of the appliance.
    - uptime_seconds: Seconds since it started.
    - store: The store and its disk.
    - accounts: The mailboxes that you have access to.
    - deliveries: Their deliveries that are not finished.
    - last_crash: The last crash; only for administrators, until one of them dismisses it.
    - daily_backup: Left out unless the last daily backup `failed` or is `overdue`.
    - disabled_webhooks: How many of your webhooks were disabled because they failed; only for sessions, and left out if
      none was.
    - pending_approvals: How many messages wait for an approval that you can give; only for sessions, and left out if
      none does.
    """

    version: str
    uptime_seconds: int
    store: StoreStatus
    accounts: tuple[AccountProgress, ...]
    deliveries: DeliveryCounts
    last_crash: Crash | UnsetType = UNSET
    daily_backup: BackupTrouble | UnsetType = UNSET
    disabled_webhooks: Count | UnsetType = UNSET
    pending_approvals: Count | UnsetType = UNSET


@operation(access=Access.ANYBODY)
def get_about(appliance: Appliance, caller: Caller) -> ServerInfo:  # noqa: ARG001
    """Get server information.

    Returns name and version, and whether the first administrator still has to be created. Needs no credential.
    """
    required = not appliance.store.members.has_any()
    return ServerInfo(name="mailbox-appliance", version=__version__, api_version="v1", setup_required=required)


@operation(needs=Capability.MAIL_READ)
def get_status(appliance: Appliance, caller: Caller) -> OperationResult[Status]:
    """Get the appliance's status.

    Returns version, uptime and the store's size, and the state of the mailboxes and deliveries that you have access to.
    A session of an administrator also gets `lastCrash` after a crash, until an administrator dismisses it.

    `warnings` name conditions that an operator should fix:

    - low disk space, and failed backups
    - HTTPS that is enabled but does not listen, and a certificate that cannot be used
    - scheduled messages on hold
    - an invalid config.toml, or changes in it that need a restart
    - a program file that was replaced while the program ran
    - for an administrator's session, a crash
    - for a session, webhooks of yours that were disabled because they failed; for an administrator's, also those of
      other members
    """
    store = appliance.store
    is_administrator = caller.kind == "session" and caller.member.role == "admin"
    crash = crashes.find(appliance.folder) if is_administrator else None
    accounts = permissions.reachable_accounts(store, caller.required_credential)
    own, others = _count_disabled_webhooks(appliance, caller)
    status = Status(
        version=__version__,
        uptime_seconds=int(appliance.clock.monotonic() - appliance.started_at),
        store=_store_status(appliance),
        accounts=tuple(_account_progress(account, appliance.sync.progress(account.id)) for account in accounts),
        deliveries=DeliveryCounts(**store.delivery_lists.count_open({a.id for a in accounts})),
        last_crash=UNSET if crash is None else crash,
        daily_backup=appliance.daily_backup.trouble or UNSET,
        disabled_webhooks=own or UNSET,
        pending_approvals=_count_pending_approvals(appliance, caller) or UNSET,
    )
    warnings = (*operator_warnings(appliance, crash), *_webhook_warnings(own, others if is_administrator else 0))
    return OperationResult(status, warnings)


@operation(access=Access.SESSION, role="admin", https=True)
def dismiss_crash(appliance: Appliance, caller: Caller, trace: Trace) -> None:  # noqa: ARG001 - rights were checked
    """Dismiss a crash report.

    The crash is no longer shown to any administrator. Its trace stays in the log folder. Idempotent: nothing changes if
    the crash is already dismissed, or is not the last one.
    """
    crashes.dismiss(appliance.folder, trace)


def _account_progress(account: Account, progress: SyncProgress | None) -> AccountProgress:
    count = None if progress is None else progress.count
    return AccountProgress(
        id=account.id,
        status=account.status,
        last_sync_at=account.last_sync_at,
        progress=None if progress is None else progress.text,
        progress_count=UNSET if count is None else MessageCount(done=count[0], total=count[1]),
    )


def operator_warnings(appliance: Appliance, crash: Crash | None) -> Iterator[str]:
    """Yield warnings for the operator, one sentence each. They name no files, since every member may read them.

    `crash`: the last crash, if the caller may see it.
    """
    low = appliance.settings.number("store.low_space_mib")
    trouble = None if appliance.https is None else appliance.https.trouble
    found = (
        files.low_room_warning(appliance.store.folder / DATABASE_FILE, low),
        appliance.daily_backup.warning(),
        trouble,
    )
    yield from (one if isinstance(one, OwnText) else one.replace(f"{appliance.folder}/", "") for one in found if one)
    if processes.is_bundle_replaced():
        yield SUPERSEDED_WARNING
    if appliance.settings.is_file_invalid:
        yield UNFIT_CONFIG_WARNING
    if waiting := appliance.settings.waiting:
        yield f"Changes of {', '.join(waiting)} in config.toml take effect at the next start."
    if appliance.settings.flag("sending.hold_scheduled"):
        yield HELD_WARNING
    if crash is not None:
        yield crashes.warning(crash)


def _count_pending_approvals(appliance: Appliance, caller: Caller) -> int:
    return appliance.store.approvals.count_pending(caller.member.id) if caller.kind == "session" else 0


def _count_disabled_webhooks(appliance: Appliance, caller: Caller) -> tuple[int, int]:
    """Return how many webhooks were disabled because they failed: the caller's own, and those of other members."""
    if caller.kind != "session":
        return 0, 0
    hooks = [one for one in appliance.store.webhooks.list() if one.shown.status == "disabled" and one.failures > 0]
    own = sum(one.member_id == caller.member.id for one in hooks)
    return own, len(hooks) - own


def _webhook_warnings(own: int, others: int) -> Iterator[str]:
    if own:
        yield own_text(
            "Webhooks of yours that were disabled: {count}. Their addresses failed for three days or refused all"
            " events, or a restore disabled them. Open Webhooks in the console, or run"
            " `mailbox-appliance webhooks list`.",
            count=own,
        )
    if others:
        yield own_text(
            "Webhooks of other members that were disabled: {count}. Their addresses failed for three days or refused"
            " all events, or a restore disabled them. The audit log names their owners, who can enable them again.",
            count=others,
        )


def _store_status(appliance: Appliance) -> StoreStatus:
    store = appliance.store
    return StoreStatus(
        format=format_5.NUMBER,
        size_bytes=store.size_bytes,
        free_bytes=store.free_bytes,
        progress=store_progress(appliance.exclusive_job),
    )


def store_progress(long_work: ExclusiveJob) -> StoreProgress | UnsetType:
    """Return the progress of the maintenance task that is running; UNSET if there is none."""
    now = long_work.current
    if now is None:
        return UNSET
    return StoreProgress(kind=now.kind, work=now.work, step=now.step, done=now.done, total=now.total)


# --- The numbers of the charts: how much was sent and how much arrived over the last hours ---


Hours = Annotated[int, msgspec.Meta(ge=1, le=168, description="Length of the period, in hours, up to one week.")]
#: Up to so many hours -> the seconds of a step; beyond the last, six hours.
_STEPS = ((6, 300), (48, 3600))
_MAX_STEP = 21_600


class DeliveryHistoryStep(Wire, frozen=True, kw_only=True):
    """Deliveries that were accepted in one step of time, by their current status.

    - at: Beginning of the step.
    - succeeded: Accepted by the mail server.
    - failed: Not sent.
    - uncertain: Outcome unknown.
    - other: Queued or being sent.
    """

    at: Timestamp
    succeeded: Count
    failed: Count
    uncertain: Count
    other: Count


class ArrivalHistoryStep(Wire, frozen=True, kw_only=True):
    """Messages received in one step of time.

    - at: Beginning of the step.
    - messages: Number of messages.
    """

    at: Timestamp
    messages: Count


class History(Wire, frozen=True, kw_only=True):
    """Counts of deliveries and received messages over time.

    - from_: Beginning of the first step.
    - to: End of the last step.
    - step_seconds: Length of a step, in seconds.
    - deliveries: Deliveries, by step.
    - arrived: Received messages, by step.
    """

    from_: Timestamp = msgspec.field(name="from")
    to: Timestamp
    step_seconds: int
    deliveries: tuple[DeliveryHistoryStep, ...]
    arrived: tuple[ArrivalHistoryStep, ...]


@operation(needs=Capability.MAIL_READ)
def get_history(appliance: Appliance, caller: Caller, hours: Hours = 24) -> History:
    """Get delivery and arrival history.

    Counts deliveries and received messages of the mailboxes that you have access to, over the last hours.

    Deliveries are those that you see in lists of deliveries. Messages count at the time the mail server received them,
    for as long as they exist; sent mail and drafts do not count. A step is 5 minutes long (up to 6 hours back), one
    hour (up to 48), or 6 hours. The last step is not over yet.
    """
    step = next((seconds for most, seconds in _STEPS if hours <= most), _MAX_STEP)
    since, until = _whole_steps(appliance.clock.now(), hours * 3600, step)
    accounts = json.dumps([a.id for a in permissions.reachable_accounts(appliance.store, caller.required_credential)])
    sent = appliance.store.history.count_deliveries(accounts, caller.member.id, since, step)
    came = appliance.store.history.count_arrivals(accounts, since, until, step)
    times = [
        to_timestamp(since + timedelta(seconds=step * n)) for n in range(int((until - since).total_seconds()) // step)
    ]
    return History(
        from_=times[0],
        to=to_timestamp(until),
        step_seconds=step,
        deliveries=tuple(_to_step_counts(at, sent.get(index, {})) for index, at in enumerate(times)),
        arrived=tuple(ArrivalHistoryStep(at=at, messages=came.get(index, 0)) for index, at in enumerate(times)),
    )


def _whole_steps(now: datetime, seconds: int, step: int) -> tuple[datetime, datetime]:
    """Return a period of at least `seconds` in steps aligned to UTC. The last step contains `now`."""
    end = int(now.timestamp()) // step * step + step
    length = -(-seconds // step) * step
    return datetime.fromtimestamp(end - length, UTC), datetime.fromtimestamp(end, UTC)


def _to_step_counts(at: str, found: Mapping[str, int]) -> DeliveryHistoryStep:
    other = found.get("queued", 0) + found.get("sending", 0)
    return DeliveryHistoryStep(
        at=at,
        succeeded=found.get("succeeded", 0),
        failed=found.get("failed", 0),
        uncertain=found.get("uncertain", 0),
        other=other,
    )
