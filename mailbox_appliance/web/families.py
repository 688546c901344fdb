"""The metrics there are: every name, what it means, and its labels. `docs/monitoring.md` has the same table.

No label holds what somebody typed or what mail says: there are templates of routes, states, reasons, and ids of
mailboxes.
"""

from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.store.stats import MOST_MISSING

PREFIX = "mailbox_appliance_"


@dataclass(frozen=True)
class Family:
    """A metric: its name behind the prefix, as it is written (a counter's ends in `_total`), and what it means."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FAMILIES = (
    Family("build_info", "gauge", "Always 1; the label tells the release.", ("version",)),
    Family("start_time_seconds", "gauge", "When the appliance began to work; a restore in place begins anew."),
    Family("warnings", "gauge", "Warnings that `status` shows now: what an operator should see to."),
    Family(
        "http_requests_total",
        "counter",
        "Requests that were answered, by method, template of the route and status.",
        ("method", "route", "status"),
    ),
    Family(
        "http_request_duration_seconds",
        "histogram",
        "Seconds until the answer to a request was ready; sending it is not in them.",
        ("method", "route"),
    ),
    Family("http_requests_in_progress", "gauge", "Requests that are being answered now; this one is among them."),
    Family("http_requests_waiting", "gauge", "Requests that have come and wait for a worker."),
    Family("http_workers_busy", "gauge", "Workers that answer a request now."),
    Family("http_connections", "gauge", "Open connections, by listener: http or https.", ("listener",)),
    Family("tls_handshakes_failed_total", "counter", "TLS handshakes that failed or were not done in time."),
    Family("certificate_not_after_timestamp_seconds", "gauge", "When the certificate of the HTTPS listener expires."),
    Family(
        "login_failures_total",
        "counter",
        "Attempts to get in that were refused: wrong (password, code or link), suspended, throttled or busy.",
        ("reason",),
    ),
    Family("deliveries", "gauge", "Delivery operations that are queued, sending or uncertain now.", ("status",)),
    Family(
        "deliveries_last_step_timestamp_seconds",
        "gauge",
        "When the operation took its last step that is sending or uncertain now and has waited longest since.",
        ("status",),
    ),
    Family(
        "deliveries_settled_total",
        "counter",
        "Delivery operations that came to an end or into doubt: succeeded, failed, uncertain or withdrawn.",
        ("outcome",),
    ),
    Family("scheduled_next_due_timestamp_seconds", "gauge", "When the next scheduled send is due; absent: none waits."),
    Family("scheduled_held", "gauge", "1 while scheduled sends are held, else 0."),
    Family("mailboxes", "gauge", "Mailboxes, by status.", ("status",)),
    Family(
        "mailbox_last_sync_timestamp_seconds",
        "gauge",
        "When a mailbox was last in step with its server; absent: never yet.",
        ("mailbox",),
    ),
    Family("mailbox_messages", "gauge", "Messages in a mailbox's folders, as its server told last.", ("mailbox",)),
    Family(
        "mailbox_bodies_missing",
        "gauge",
        f"Messages whose text is still to be fetched and indexed; {MOST_MISSING}: that many or more.",
        ("mailbox",),
    ),
    Family("store_size_bytes", "gauge", "Bytes that the store and its log take."),
    Family("store_free_bytes", "gauge", "Bytes that are left on the store's disk."),
    Family(
        "backup_last_success_timestamp_seconds",
        "gauge",
        "When the newest of the backups that are there was made; absent: there is none.",
    ),
    Family("backups_total", "counter", "Backups that were made, and daily ones that failed.", ("result",)),
    Family("members", "gauge", "Members, by status: active or suspended.", ("status",)),
    Family("sessions", "gauge", "Sessions that are there; one that has expired goes with the next log-in."),
    Family("api_keys", "gauge", "API keys that are not revoked."),
    Family("threads", "gauge", "Threads of the process."),
)
