"""Monitoring of a running appliance over HTTP and HTTPS, and what the documentation says about it."""

import http.client
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.log_events import EVENTS
from mailbox_appliance.web.app import App
from mailbox_appliance.web.metrics import METRIC_PREFIX
from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance
from tests.web.scraper import TOLD, Scraper, fill

ROOT = Path(__file__).parent.parent
ALERTS = (ROOT / "docs" / "how-to" / "alerts.md").read_text()


def ask(url: str, method: str, path: str, certificate: Path) -> tuple[int, str]:
    """Status and body; by HTTPS as Prometheus would: the certificate is the one that is trusted, for `localhost`."""
    address = urlsplit(url).netloc
    connection = http.client.HTTPConnection(address, timeout=30)
    if url.startswith("https"):
        raw = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), 30)
        context = ssl.create_default_context(cafile=str(certificate))
        connection.sock = context.wrap_socket(raw, server_hostname="localhost")
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def values(text: str) -> dict[str, float]:
    """What the page says, by name and labels."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix(METRIC_PREFIX): float(value) for name, _, value in lines}


def test_both_listeners_of_an_appliance_that_runs(tmp_path: Path) -> None:
    running = RunningAppliance(tmp_path / "data", arguments=("--https-port", "0", "--https-host", "127.0.0.1")).start()
    assert running.https is not None
    certificate = running.folder / "tls" / "cert.pem"
    try:
        for url in (running.url, running.https):
            assert ask(url, "GET", "/healthz", certificate) == (200, "ok\n")
            assert ask(url, "HEAD", "/healthz", certificate) == (200, "")
            assert ask(url, "HEAD", "/metrics", certificate) == (200, "")
            assert "build_info{version=" in ask(url, "GET", "/metrics", certificate)[1]
        address = urlsplit(running.https).hostname, urlsplit(running.https).port
        with socket.create_connection(address) as raw, suppress(ConnectionError):
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")  # no TLS
            raw.recv(4096)

        def told() -> dict[str, float]:
            return values(ask(running.url, "GET", "/metrics", certificate)[1])

        wait_until(lambda: told()["tls_handshakes_failed_total"] >= 1, lambda: str(told()), 10)
        found = told()
        assert found['http_connections{listener="http"}'] >= 1
        assert found["http_workers_busy"] >= 1
        assert found["http_requests_waiting"] == 0
        assert found["certificate_not_after_timestamp_seconds"] > found["start_time_seconds"] + 3000 * 86_400
        assert found["warnings"] == 0
        assert found['http_requests_total{method="GET",route="/healthz",status="200"}'] == 2
    finally:
        assert running.stop() == 0


@pytest.fixture
def busy(timed: Appliance) -> Scraper:
    """Of an appliance that has something of everything."""
    fill(timed)
    scraper = Scraper(App(timed))
    scraper.app.server_figures = lambda: TOLD
    scraper.ask("GET", "/healthz")
    return scraper


# --- what is written about it ---


def test_what_the_documentation_asks_for_is_there(busy: Scraper) -> None:
    """The rules for alerts: every metric in them, and every label that is asked for with a value."""
    samples = [sample for metric in busy.families().values() for sample in metric.samples]
    rules = "\n".join(re.findall(r"```yaml\n(.*?)```", ALERTS, re.DOTALL))
    asked = re.findall(rf"((?:{METRIC_PREFIX}|process_)\w+)(?:{{([^}}]*)}})?", rules)
    assert asked
    for name, selector in asked:
        known = [sample for sample in samples if sample.name == name]
        assert known, f"there is no {name}"
        for label, value in re.findall(r'(\w+)="([^"]*)"', selector):
            assert label in known[0].labels
            assert value.isdigit() or value in {sample.labels[label] for sample in known}, (
                f"{name} has no {label}={value}"
            )


def test_alerts_name_log_events_that_exist() -> None:
    cells = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|", ALERTS, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named
    assert named - set(EVENTS) == set()
