"""The metrics at `/metrics`: the table of metrics, their values, and the counters of requests.

Collecting them never waits long for a lock, and its cost does not grow with the amount of mail.
`docs/reference/metrics.md` is generated from the table.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.metrics import COUNTED_OUTCOMES, Counters
from mailbox_appliance.model.accounts import AccountStatus
from mailbox_appliance.operations.status import operator_warnings
from mailbox_appliance.store.backup.backups import is_in_future
from mailbox_appliance.store.backup.files import BACKUPS_FOLDER
from mailbox_appliance.store.stats import MOST_MISSING, StoreStats, collect_stats
from mailbox_appliance.system import crashes
from mailbox_appliance.version import __version__
from mailbox_appliance.web.http import Response

if TYPE_CHECKING:
    from prometheus_client import Metric

# --- The table: every name, its meaning, and its labels ---
#
# No label contains input or content of mail: only templates of routes, states, reasons, and mailbox IDs.


METRIC_PREFIX = "mailbox_appliance_"


@dataclass(frozen=True)
class MetricFamily:
    """One row of the table of metrics.

    - name: The name without the common prefix. The name of a counter ends in `_total`.
    - kind: The Prometheus type.
    - help: The help text.
    - labels: The names of its labels.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


METRIC_FAMILIES = (
    MetricFamily("build_info", "gauge", "Always 1; the label holds the release.", ("version",)),
    MetricFamily(
        "start_time_seconds", "gauge", "Time when the appliance started; a restore in place counts as a new start."
    ),
    MetricFamily("warnings", "gauge", "Warnings that `status` shows now and that need an operator's attention."),
    MetricFamily(
        "http_requests_total",
        "counter",
        "Answered requests, by method, route template and status.",
        ("method", "route", "status"),
    ),
    MetricFamily(
        "http_request_duration_seconds",
        "histogram",
        "Seconds until the response to a request was ready, without the time to send it.",
        ("method", "route"),
    ),
    MetricFamily("http_requests_in_progress", "gauge", "Requests in progress, including this one."),
    MetricFamily("http_requests_waiting", "gauge", "Requests that wait for a worker."),
    MetricFamily("http_workers_busy", "gauge", "Workers that are answering a request."),
    MetricFamily("http_connections", "gauge", "Open connections, by listener: http or https.", ("listener",)),
    MetricFamily("tls_handshakes_failed_total", "counter", "TLS handshakes that failed or timed out."),
    MetricFamily(
        "certificate_not_after_timestamp_seconds", "gauge", "Time when the certificate of the HTTPS listener expires."
    ),
    MetricFamily(
        "login_failures_total",
        "counter",
        "Rejected sign-in attempts, by reason: wrong (password, code or link), suspended, throttled or busy.",
        ("reason",),
    ),
    MetricFamily(
        "deliveries", "gauge", "Delivery operations that are queued, sending or uncertain now, by status.", ("status",)
    ),
    MetricFamily(
        "deliveries_last_step_timestamp_seconds",
        "gauge",
        "Time of the last step of the operation that has been sending or uncertain for longest, by status.",
        ("status",),
    ),
    MetricFamily(
        "deliveries_settled_total",
        "counter",
        "Delivery operations that ended or became uncertain, by outcome: succeeded, failed, uncertain or withdrawn.",
        ("outcome",),
    ),
    MetricFamily(
        "scheduled_next_due_timestamp_seconds",
        "gauge",
        "Time when the next scheduled message is due; absent if none is scheduled.",
    ),
    MetricFamily("scheduled_held", "gauge", "1 while scheduled messages are on hold, otherwise 0."),
    MetricFamily("mailboxes", "gauge", "Mailboxes, by status.", ("status",)),
    MetricFamily(
        "mailbox_last_sync_timestamp_seconds",
        "gauge",
        "Time of the last successful sync of a mailbox; absent if none.",
        ("mailbox",),
    ),
    MetricFamily(
        "mailbox_messages", "gauge", "Messages in the folders of a mailbox, as its server last reported.", ("mailbox",)
    ),
    MetricFamily(
        "mailbox_bodies_missing",
        "gauge",
        f"Messages whose body is not fetched and indexed yet; {MOST_MISSING} means that many or more.",
        ("mailbox",),
    ),
    MetricFamily("store_size_bytes", "gauge", "Bytes that the store and its write-ahead log occupy."),
    MetricFamily("store_free_bytes", "gauge", "Free bytes on the disk of the store."),
    MetricFamily(
        "backup_last_success_timestamp_seconds",
        "gauge",
        "Time when the newest existing backup was made; absent if there is none.",
    ),
    MetricFamily(
        "backups_total", "counter", "Backups that were made, and daily backups that failed, by result.", ("result",)
    ),
    MetricFamily("members", "gauge", "Members, by status: active or suspended.", ("status",)),
    MetricFamily("sessions", "gauge", "Stored sessions; expired ones are deleted at the next sign-in."),
    MetricFamily("api_keys", "gauge", "API keys that are not revoked."),
    MetricFamily("threads", "gauge", "Threads in the process."),
)


# --- Request counters: number and duration, at the cost of a microsecond each ---
#
# Clients cannot choose labels freely: requests are counted by the template of their route, by one of the known methods,
# and by status. Requests without a route share one template.


#: The template of requests without a route.
UNKNOWN_ROUTE = "unknown"
#: Upper limits of the duration buckets, in seconds; one more bucket has no limit.
DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD = "other"


@dataclass(frozen=True)
class RequestCounts:
    """Counts of requests with the same route, method and status, for a histogram of durations.

    `within`: the requests in each duration bucket. `seconds`: the sum of their durations.
    """

    route: str
    method: str
    status: int
    within: tuple[int, ...]
    seconds: float

    @property
    def count(self) -> int:
        """The number of requests in all buckets."""
        return sum(self.within)


class RequestCounter:
    """Counts requests by route, method, status and duration. A restore, which replaces the appliance, does not reset
    it.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By template, method and status: a count for each bucket, then the seconds.
        self._rows: dict[tuple[str, str, int], tuple[list[int], list[float]]] = {}

    def count(self, template: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request, which took `seconds`. `template`: method and path of its route, or
        UNKNOWN_ROUTE.
        """
        key = template, method if method in _METHODS else _OTHER_METHOD, status
        place = bisect_left(DURATION_BUCKETS, seconds)
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = [0] * (len(DURATION_BUCKETS) + 1), [0.0]
            within, total = row
            within[place] += 1
            total[0] += seconds

    def snapshot(self) -> Iterable[RequestCounts]:
        """Yield the counts so far, sorted by route, method and status."""
        with self._lock:
            rows = [(key, tuple(within), total[0]) for key, (within, total) in self._rows.items()]
        for (template, method, status), within, seconds in sorted(rows):
            yield RequestCounts(template.partition(" ")[2] or template, method, status, within, seconds)


# --- The values, collected from the parts that know them ---


#: Figures that the server reports, by name: those of `_SERVER_METRICS` that it knows.
ServerFigures = Callable[[], Mapping[str, float]]

_NO_LABELS: Mapping[str, str] = {}
# The server's figures, and the metrics that they become.
_SERVER_METRICS = (
    ("connections_http", "http_connections", {"listener": "http"}),
    ("connections_https", "http_connections", {"listener": "https"}),
    ("waiting_requests", "http_requests_waiting", _NO_LABELS),
    ("busy_workers", "http_workers_busy", _NO_LABELS),
    ("handshakes_failed", "tls_handshakes_failed_total", _NO_LABELS),
    ("certificate_not_after", "certificate_not_after_timestamp_seconds", _NO_LABELS),
)
# Each of these values is reported from the start, so that the first event shows as an increase.
_DELIVERY_COUNTER = ("deliveries_settled", "outcome", sorted(COUNTED_OUTCOMES))
_LOGIN_COUNTER = ("login_failures", "reason", ("busy", "suspended", "throttled", "wrong"))
_BACKUP_COUNTER = ("backups", "result", ("failed", "made"))


class MetricValue(NamedTuple):
    """One value of a metric. `suffix`: the ending of its name in a histogram, such as `_bucket`."""

    name: str
    number: float
    labels: Mapping[str, str] = _NO_LABELS
    suffix: str = ""


class MetricsSource:
    """Collects the values of all metrics. It outlives the appliance, which a restore can replace."""

    def __init__(self, tally: RequestCounter) -> None:
        self._request_counter = tally
        self._newest_backup: tuple[tuple[object, ...], float | None] = (), None

    def collect_values(
        self, appliance: Appliance, in_progress: int, told: Mapping[str, float]
    ) -> Iterator[MetricValue]:
        """Yield all current values. `in_progress`: the number of requests in progress. `told`: numbers that the HTTP
        server reports, by name, such as `connections_https`.
        """
        yield MetricValue("build_info", 1, {"version": __version__})
        yield from _request_values(self._request_counter)
        yield MetricValue("http_requests_in_progress", in_progress)
        yield from (MetricValue(name, told[key], labels) for key, name, labels in _SERVER_METRICS if key in told)
        yield from _appliance_values(appliance)
        yield from _store_values(collect_stats(appliance.store.database))
        if (newest := self._newest_backup_time(appliance)) is not None:
            yield MetricValue("backup_last_success_timestamp_seconds", newest)
        yield MetricValue("threads", threading.active_count())

    def _newest_backup_time(self, appliance: Appliance) -> float | None:
        """Return when the newest backup was made, in seconds since 1970; None if there is none.

        The backup files are read again only after their folder has changed.
        """
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


def _request_values(tally: RequestCounter) -> Iterator[MetricValue]:
    for (route, method), rows in groupby(tally.snapshot(), attrgetter("route", "method")):
        labels = {"method": method, "route": route}
        found = list(rows)
        for one in found:
            yield MetricValue("http_requests_total", one.count, labels | {"status": str(one.status)})
        yield from _duration_values(labels, found)


def _duration_values(labels: Mapping[str, str], rows: Iterable[RequestCounts]) -> Iterator[MetricValue]:
    name, found = "http_request_duration_seconds", list(rows)
    counts = accumulate(map(sum, zip(*(one.within for one in found), strict=True)))
    for bound, count in zip((*(f"{bound:g}" for bound in DURATION_BUCKETS), "+Inf"), counts, strict=True):
        yield MetricValue(name, count, {**labels, "le": bound}, "_bucket")
    yield MetricValue(name, sum(one.seconds for one in found), labels, "_sum")
    yield MetricValue(name, sum(one.count for one in found), labels, "_count")


def _appliance_values(appliance: Appliance) -> Iterator[MetricValue]:
    clock, store, meters = appliance.clock, appliance.store, appliance.counters
    yield MetricValue("start_time_seconds", clock.now().timestamp() - (clock.monotonic() - appliance.started_at))
    yield MetricValue("warnings", len(tuple(operator_warnings(appliance, crashes.find(appliance.folder)))))
    yield MetricValue("scheduled_held", appliance.settings.flag("sending.hold_scheduled"))
    yield MetricValue("store_size_bytes", store.size_bytes)
    yield MetricValue("store_free_bytes", store.free_bytes)
    for name, label, known in (_DELIVERY_COUNTER, _LOGIN_COUNTER, _BACKUP_COUNTER):
        yield from _counter_values(meters, name, label, known)


def _counter_values(meters: Counters, name: str, label: str, known: Iterable[str]) -> Iterator[MetricValue]:
    counts = dict.fromkeys(known, 0) | {labels[0][1]: count for labels, count in meters.values(name).items()}
    yield from (MetricValue(f"{name}_total", count, {label: value}) for value, count in counts.items())


def _store_values(found: StoreStats) -> Iterator[MetricValue]:
    mailboxes = dict.fromkeys(get_args(AccountStatus), 0)
    for one in found.mailboxes:
        mailboxes[one.status] = mailboxes.get(one.status, 0) + 1
        labels = {"mailbox": one.id}
        if one.last_sync_at is not None:
            yield MetricValue("mailbox_last_sync_timestamp_seconds", one.last_sync_at, labels)
        yield MetricValue("mailbox_messages", one.messages, labels)
        yield MetricValue("mailbox_bodies_missing", one.missing, labels)
    yield from _status_values("mailboxes", mailboxes)
    yield from _status_values("deliveries", dict.fromkeys(("queued", "sending", "uncertain"), 0) | found.deliveries)
    yield from _status_values("deliveries_last_step_timestamp_seconds", found.last_step)
    yield from _status_values("members", dict.fromkeys(("active", "suspended"), 0) | found.members)
    yield MetricValue("sessions", found.sessions)
    yield MetricValue("api_keys", found.api_keys)
    if found.next_due is not None:
        yield MetricValue("scheduled_next_due_timestamp_seconds", found.next_due)


def _status_values(name: str, counts: Mapping[str, float]) -> Iterator[MetricValue]:
    yield from (MetricValue(name, count, {"status": status}) for status, count in counts.items())


# --- The page: Prometheus' text format ---

_COUNTER_SUFFIX = "_total"  # which the library adds to a counter's name


def metrics_page(values: Iterable[MetricValue]) -> Response:
    """Return the metrics in Prometheus' text format.

    The Prometheus library is loaded with the first call, which saves some MiB of memory in an appliance without
    monitoring.
    """
    from prometheus_client.exposition import choose_encoder

    # The plainest format, whatever the client asks for, since all clients can read it.
    encode, media_type = choose_encoder("")
    return Response(200, encode(_MetricsPage(values)), media_type=media_type)


class _MetricsPage:
    """Passes values to Prometheus' library: the given values, and those that the library itself measures of the
    process.
    """

    def __init__(self, values: Iterable[MetricValue]) -> None:
        self._values: defaultdict[str, list[MetricValue]] = defaultdict(list)
        for value in values:
            self._values[value.name].append(value)

    def collect(self) -> "Iterator[Metric]":
        """Yield every metric that has a value, in the order of the table, then the metrics of the process."""
        from prometheus_client import PROCESS_COLLECTOR

        yield from (
            _to_metric(family, self._values[family.name]) for family in METRIC_FAMILIES if self._values[family.name]
        )
        yield from PROCESS_COLLECTOR.collect()


def _to_metric(family: MetricFamily, values: Iterable[MetricValue]) -> "Metric":
    from prometheus_client import Metric

    name = METRIC_PREFIX + family.name
    metric = Metric(name.removesuffix(_COUNTER_SUFFIX), family.help, family.kind)
    for value in values:
        metric.add_sample(name + value.suffix, dict(value.labels), value.number)
    return metric
