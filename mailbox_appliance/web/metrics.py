"""The metrics at `/metrics`: the table of metrics, their values, and the counters of requests.

Collecting them never waits long for a lock, and its cost does not grow with the amount of mail.
`docs/reference/metrics.md` is generated from the table.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Literal, get_args

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import Denied, Detail
from mailbox_appliance.events import BackupFailed, BackupFinished, DeliverySettled, SignInRejected
from mailbox_appliance.model.accounts import AccountStatus
from mailbox_appliance.operations.status import operator_warnings
from mailbox_appliance.store.backup.backups import is_in_future
from mailbox_appliance.store.stats import MOST_MISSING, StoreStats, collect_stats
from mailbox_appliance.system import crashes
from mailbox_appliance.version import __version__
from mailbox_appliance.web.http import Response, TrustedProxies, find_client_address, origin_of

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


# --- Access ---


def require_observer(appliance: Appliance, environ: Mapping[str, Any], proxies: TrustedProxies) -> None:
    """Raise Denied unless the request comes from this computer or from an address in the setting `metrics.allowed`.

    An untrusted proxy hides its clients, so a request through one is refused even if the proxy's address is allowed.
    """
    allowed = TrustedProxies(appliance.settings.names("metrics.allowed"))
    if not origin_of(environ, proxies).is_local and not allowed.trusts(find_client_address(environ, proxies)):
        reason = "metrics are available only on this computer and to the addresses in the setting `metrics.allowed`."
        raise Denied(reason=reason, details=(Detail("address", "this computer, or one in `metrics.allowed`"),))


# --- The values ---


#: Figures that the server reports, by name: those of `_SERVER_METRICS` that it knows.
ServerFigures = Callable[[], Mapping[str, float]]
#: The template of requests without a route.
UNKNOWN_ROUTE = "unknown"
#: Upper limits of the duration buckets, in seconds; one more bucket has no limit.
DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD = "other"
# The server's figures, and the metrics that they become, with their labels.
_SERVER_METRICS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("connections_http", "http_connections", ("http",)),
    ("connections_https", "http_connections", ("https",)),
    ("waiting_requests", "http_requests_waiting", ()),
    ("busy_workers", "http_workers_busy", ()),
    ("handshakes_failed", "tls_handshakes_failed_total", ()),
    ("certificate_not_after", "certificate_not_after_timestamp_seconds", ()),
)
# Each of these values is reported from the start, so that the first event shows as an increase.
_OUTCOMES = ("failed", "succeeded", "uncertain", "withdrawn")
_REASONS = ("busy", "suspended", "throttled", "wrong")


class Metrics:
    """Counts requests, and makes the page of all metrics. It outlives the appliance, which a restore can replace.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By route, method and status, which clients cannot choose freely: a count for each bucket, and the seconds.
        self._requests: defaultdict[tuple[str, str, int], list[float]] = defaultdict(
            lambda: [0] * (len(DURATION_BUCKETS) + 2)
        )

    def count_request(self, template: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request, which took `seconds`. `template`: method and path of its route, or
        UNKNOWN_ROUTE.
        """
        key = template.partition(" ")[2] or template, method if method in _METHODS else _OTHER_METHOD, status
        with self._lock:
            row = self._requests[key]
            row[bisect_left(DURATION_BUCKETS, seconds)] += 1
            row[-1] += seconds

    def requests(self) -> list[tuple[tuple[str, str, int], list[float]]]:
        """Return the requests so far, sorted by route, method and status: their number in each duration bucket, and
        the sum of their seconds.
        """
        with self._lock:
            return sorted((key, list(row)) for key, row in self._requests.items())

    def make_page(self, appliance: Appliance, in_progress: int, told: Mapping[str, float]) -> Response:
        """Return all metrics in Prometheus' text format.

        The Prometheus library is loaded with the first call, which saves some MiB of memory in an appliance without
        monitoring.

        `in_progress`: the number of requests in progress. `told`: numbers that the HTTP server reports, by name, such
        as `connections_https`.
        """
        from prometheus_client.exposition import choose_encoder

        page = _Page()
        self._add_requests(page)
        page.add("http_requests_in_progress", (), in_progress)
        for key, name, labels in _SERVER_METRICS:
            if key in told:
                page.add(name, labels, told[key])
        _add_appliance(page, appliance)
        _add_store(page, collect_stats(appliance.store.database))
        # The plainest format, whatever the client asks for, since all clients can read it.
        encode, media_type = choose_encoder("")
        return Response(200, encode(page), media_type=media_type)

    def _add_requests(self, page: "_Page") -> None:
        for (route, method), rows in groupby(self.requests(), lambda one: one[0][:2]):
            durations = [0.0] * (len(DURATION_BUCKETS) + 2)
            for (_, _, status), row in rows:
                page.add("http_requests_total", (method, route, str(status)), sum(row[:-1]))
                durations = [sum(pair) for pair in zip(durations, row, strict=True)]
            *within, seconds = durations
            bounds = (*(f"{bound:g}" for bound in DURATION_BUCKETS), "+Inf")
            buckets = list(zip(bounds, accumulate(within), strict=True))
            page.add("http_request_duration_seconds", (method, route), buckets, seconds)


class _Page:
    """The metrics of the table with their values, for Prometheus' library."""

    def __init__(self) -> None:
        from prometheus_client import core

        kinds: dict[str, Any] = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        self._metrics = {
            one.name: kinds[one.kind](METRIC_PREFIX + one.name, one.help, labels=one.labels) for one in METRIC_FAMILIES
        }

    def add(self, name: str, labels: tuple[str, ...], *values: Any) -> None:
        """Add a value of the metric `name`; for a histogram its buckets and the sum."""
        self._metrics[name].add_metric(labels, *values)

    def collect(self) -> "Iterator[Metric]":
        """Yield every metric that has a value, in the order of the table, then the metrics of the process."""
        from prometheus_client import PROCESS_COLLECTOR

        yield from (metric for metric in self._metrics.values() if metric.samples)
        yield from PROCESS_COLLECTOR.collect()


def _add_appliance(page: _Page, appliance: Appliance) -> None:
    clock, store, events = appliance.clock, appliance.store, appliance.events
    page.add("build_info", (__version__,), 1)
    page.add("start_time_seconds", (), clock.now().timestamp() - (clock.monotonic() - appliance.started_at))
    page.add("warnings", (), len(tuple(operator_warnings(appliance, crashes.find(appliance.folder)))))
    page.add("scheduled_held", (), appliance.settings.flag("sending.hold_scheduled"))
    page.add("store_size_bytes", (), store.size_bytes)
    page.add("store_free_bytes", (), store.free_bytes)
    page.add("threads", (), threading.active_count())
    for outcome in _OUTCOMES:
        page.add("deliveries_settled_total", (outcome,), events.count(DeliverySettled, outcome))
    for reason in _REASONS:
        page.add("login_failures_total", (reason,), events.count(SignInRejected, reason))
    page.add("backups_total", ("failed",), events.count(BackupFailed))
    page.add("backups_total", ("made",), events.count(BackupFinished))
    made = (from_timestamp(one.created_at) for one in store.backups.list())
    newest = next((moment for moment in made if not is_in_future(moment, clock.now())), None)
    if newest is not None:
        page.add("backup_last_success_timestamp_seconds", (), newest.timestamp())


def _add_store(page: _Page, found: StoreStats) -> None:
    mailboxes = dict.fromkeys(get_args(AccountStatus), 0)
    for one in found.mailboxes:
        mailboxes[one.status] = mailboxes.get(one.status, 0) + 1
        if one.last_sync_at is not None:
            page.add("mailbox_last_sync_timestamp_seconds", (one.id,), one.last_sync_at)
        page.add("mailbox_messages", (one.id,), one.messages)
        page.add("mailbox_bodies_missing", (one.id,), one.missing)
    by_status: dict[str, Mapping[str, float]] = {
        "mailboxes": mailboxes,
        "deliveries": {"queued": 0, "sending": 0, "uncertain": 0} | found.deliveries,
        "deliveries_last_step_timestamp_seconds": found.last_step,
        "members": {"active": 0, "suspended": 0} | found.members,
    }
    for name, counts in by_status.items():
        for status, count in counts.items():
            page.add(name, (status,), count)
    page.add("sessions", (), found.sessions)
    page.add("api_keys", (), found.api_keys)
    if found.next_due is not None:
        page.add("scheduled_next_due_timestamp_seconds", (), found.next_due)
