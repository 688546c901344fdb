"""What `/metrics` tells, as numbers: gathered where each of them is known.

Nothing here waits for a lock that anybody holds for long, and nothing goes through what there is much of.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple, get_args

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.metrics import COUNTED_OUTCOMES, Counters
from mailbox_appliance.model.records import AccountStatus
from mailbox_appliance.operations.status import warnings
from mailbox_appliance.store.backup.backups import is_in_future
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER
from mailbox_appliance.store.stats import StoreStats, collect_stats
from mailbox_appliance.system import crashes
from mailbox_appliance.version import __version__
from mailbox_appliance.web.tally import BOUNDS, Tallied, Tally

#: What whoever listens tells, by name: of `_TOLD` those that it knows.
Figures = Callable[[], Mapping[str, float]]

_NONE: Mapping[str, str] = {}
# What whoever listens tells, and the metrics that it becomes.
_TOLD = (
    ("connections_http", "http_connections", {"listener": "http"}),
    ("connections_https", "http_connections", {"listener": "https"}),
    ("waiting_requests", "http_requests_waiting", _NONE),
    ("busy_workers", "http_workers_busy", _NONE),
    ("handshakes_failed", "tls_handshakes_failed_total", _NONE),
    ("certificate_not_after", "certificate_not_after_timestamp_seconds", _NONE),
)
# Each of these is told from the beginning, so that the first one of them is seen as one more.
_SETTLED = ("deliveries_settled", "outcome", sorted(COUNTED_OUTCOMES))
_REFUSED = ("login_failures", "reason", ("busy", "suspended", "throttled", "wrong"))
_BACKUPS = ("backups", "result", ("failed", "made"))


class Value(NamedTuple):
    """A value of a metric. `suffix`: what a histogram's sample has behind its name."""

    name: str
    number: float
    labels: Mapping[str, str] = _NONE
    suffix: str = ""


class Measured:
    """Gathers them. One for all the time that is served, while the appliance may become another one."""

    def __init__(self, tally: Tally) -> None:
        self._request_counter = tally
        self._newest_backup: tuple[tuple[object, ...], float | None] = (), None

    def collect_values(self, appliance: Appliance, in_progress: int, told: Mapping[str, float]) -> Iterator[Value]:
        """All values as they are now. `in_progress`: requests; `told`: by whoever listens, what it knows of it."""
        yield Value("build_info", 1, {"version": __version__})
        yield from _requests(self._request_counter)
        yield Value("http_requests_in_progress", in_progress)
        yield from (Value(name, told[key], labels) for key, name, labels in _TOLD if key in told)
        yield from _of_appliance(appliance)
        yield from _of_store(collect_stats(appliance.store.database))
        if (newest := self._newest_backup_time(appliance)) is not None:
            yield Value("backup_last_success_timestamp_seconds", newest)
        yield Value("threads", threading.active_count())

    def _newest_backup_time(self, appliance: Appliance) -> float | None:
        """When the newest backup was made. The files are looked into only where there are others than before."""
        folder = appliance.folder / BACKUPS_FOLDER
        try:
            state = folder, folder.stat().st_mtime_ns
        except OSError:
            return None
        known, newest = self._newest_backup
        if known != state:
            now = appliance.clock.now()
            made = (from_timestamp(one.created_at) for one in appliance.store.backups.list())
            newest = max((moment.timestamp() for moment in made if not is_in_future(moment, now)), default=None)
            self._newest_backup = state, newest
        return newest


def _requests(tally: Tally) -> Iterator[Value]:
    for (route, method), rows in groupby(tally.snapshot(), attrgetter("route", "method")):
        labels = {"method": method, "route": route}
        found = list(rows)
        for one in found:
            yield Value("http_requests_total", one.count, labels | {"status": str(one.status)})
        yield from _durations(labels, found)


def _durations(labels: Mapping[str, str], rows: Iterable[Tallied]) -> Iterator[Value]:
    name, found = "http_request_duration_seconds", list(rows)
    counts = accumulate(map(sum, zip(*(one.within for one in found), strict=True)))
    for bound, count in zip((*(f"{bound:g}" for bound in BOUNDS), "+Inf"), counts, strict=True):
        yield Value(name, count, {**labels, "le": bound}, "_bucket")
    yield Value(name, sum(one.seconds for one in found), labels, "_sum")
    yield Value(name, sum(one.count for one in found), labels, "_count")


def _of_appliance(appliance: Appliance) -> Iterator[Value]:
    clock, store, meters = appliance.clock, appliance.store, appliance.counters
    yield Value("start_time_seconds", clock.now().timestamp() - (clock.monotonic() - appliance.started_at))
    yield Value("warnings", len(tuple(warnings(appliance, crashes.find(appliance.folder)))))
    yield Value("scheduled_held", appliance.settings.flag("sending.hold_scheduled"))
    yield Value("store_size_bytes", store.size_bytes)
    yield Value("store_free_bytes", store.free_bytes)
    for name, label, known in (_SETTLED, _REFUSED, _BACKUPS):
        yield from _counted(meters, name, label, known)


def _counted(meters: Counters, name: str, label: str, known: Iterable[str]) -> Iterator[Value]:
    counts = dict.fromkeys(known, 0) | {labels[0][1]: count for labels, count in meters.values(name).items()}
    yield from (Value(f"{name}_total", count, {label: value}) for value, count in counts.items())


def _of_store(found: StoreStats) -> Iterator[Value]:
    mailboxes = dict.fromkeys(get_args(AccountStatus), 0)
    for one in found.mailboxes:
        mailboxes[one.status] = mailboxes.get(one.status, 0) + 1
        labels = {"mailbox": one.id}
        if one.last_sync_at is not None:
            yield Value("mailbox_last_sync_timestamp_seconds", one.last_sync_at, labels)
        yield Value("mailbox_messages", one.messages, labels)
        yield Value("mailbox_bodies_missing", one.missing, labels)
    yield from _by_status("mailboxes", mailboxes)
    yield from _by_status("deliveries", dict.fromkeys(("queued", "sending", "uncertain"), 0) | found.deliveries)
    yield from _by_status("deliveries_last_step_timestamp_seconds", found.last_step)
    yield from _by_status("members", dict.fromkeys(("active", "suspended"), 0) | found.members)
    yield Value("sessions", found.sessions)
    yield Value("api_keys", found.api_keys)
    if found.next_due is not None:
        yield Value("scheduled_next_due_timestamp_seconds", found.next_due)


def _by_status(name: str, counts: Mapping[str, float]) -> Iterator[Value]:
    yield from (Value(name, count, {"status": status}) for status, count in counts.items())
