"""An application called by WSGI for `/metrics`: the text, its values, and an appliance with some content."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from mailbox_appliance.web.metrics import METRIC_PREFIX
from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_member, letter

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: A mark that occurs only in texts from clients and mail servers.
MARK = "xyzzy"
TOLD = {
    "connections_http": 3,
    "connections_https": 5,
    "handshakes_failed": 2,
    "waiting_requests": 1,
    "busy_workers": 4,
    "certificate_not_after": 2_000_000_000,
}


class Scraper:
    """Calls an application by WSGI, with any method and headers."""

    def __init__(self, app: App) -> None:
        self.app = app

    def ask(self, method: str, path: str, peer: str = "127.0.0.1", **fields: str) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and body. `X_Forwarded_For=...` becomes a header field."""
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "QUERY_STRING": f"{MARK}={MARK}"}
        environ |= {"PATH_INFO": path, "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": peer}
        environ |= {"wsgi.url_scheme": "http", "HTTP_HOST": "127.0.0.1:8025"}
        environ |= {f"HTTP_{name.upper()}": value for name, value in fields.items()}
        began: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self.app(environ, lambda status, headers: began.append((status, headers))))
        ((status, headers),) = began
        return int(status[:3]), dict(headers), body.decode()

    def text(self) -> str:
        """Return the page."""
        status, headers, text = self.ask("GET", "/metrics")
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return text

    def families(self) -> dict[str, "Metric"]:
        """Return the metrics by their names in the table."""
        from prometheus_client.parser import (
            text_string_to_metric_families,
        )  # the library is not loaded before it is used

        found = {}
        for metric in text_string_to_metric_families(self.text()):
            name = metric.name.removeprefix(METRIC_PREFIX)
            found[name + "_total" if metric.type == "counter" else name] = metric
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """Return one value; None if it does not exist."""
        for sample in (sample for metric in self.families().values() for sample in metric.samples):
            if sample.name == METRIC_PREFIX + name and sample.labels == labels:
                return float(sample.value)
        return None


def fill(appliance: Appliance) -> None:
    """Store one of every kind of object, with MARK in every text that comes from outside."""
    ada = CheckedClient(appliance).set_up()
    mailbox = FilledMailbox(appliance, ada.member["id"], f"{MARK}@example.org")
    mailbox.deliver(letter(MARK, MARK), folder="Projects/Ärger & Co")
    add_member(appliance, MARK)
    assert ada.ask("POST", "/admin/backups", {}).status == 201
    columns = (
        "id, account_id, credential_id, member_id, request_hash, kind, status, phase, envelope, message_id_header,"
        " result_id, result_thread_id, created_at, updated_at, next_attempt_at"
    )
    at = "2026-01-01T00:00:00.000Z"
    with appliance.store.database.transaction():
        for status in ("queued", "sending", "uncertain"):
            values = (
                status,
                mailbox.id,
                "c",
                "m",
                "h",
                "scheduled",
                status,
                "x",
                "{}",
                MARK,
                "r",
                "t",
                at,
                at,
                1_900_000,
            )
            appliance.store.database.change(
                f"INSERT INTO delivery_operations ({columns}) VALUES ({'?, ' * 14}?)", values
            )
        appliance.store.database.change("UPDATE accounts SET last_sync_at = ?, status = 'ready'", (at,))
        appliance.store.database.change("UPDATE folders SET name = ?", (MARK,))
