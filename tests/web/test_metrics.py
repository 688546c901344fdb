"""`/metrics` and `/healthz`: who may read them, their content, and what they never contain."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import process_time

import pytest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.events import BackupFailed, SignInRejected
from mailbox_appliance.web.app import App
from mailbox_appliance.web.metrics import DURATION_BUCKETS, METRIC_FAMILIES, METRIC_PREFIX, UNKNOWN_ROUTE, Metrics
from tests.checked_client import CheckedClient
from tests.operations.filled import add_member
from tests.operations.log_ins import LOGIN, WRONG, log_in
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import DROP, Keep
from tests.web.scraper import MARK, TOLD, Scraper, fill

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def scraper(timed: Appliance) -> Scraper:
    """Return a scraper of an appliance whose workers are stopped."""
    return Scraper(App(timed))


@pytest.fixture
def busy(timed: Appliance, scraper: Scraper) -> Scraper:
    """Return a scraper of an appliance with one of every kind of object."""
    fill(timed)
    scraper.app.server_figures = lambda: TOLD
    scraper.ask("GET", "/healthz")
    return scraper


# --- content ---


def test_every_metric_is_there_as_the_table_has_it(busy: Scraper) -> None:
    found = busy.families()
    for family in METRIC_FAMILIES:
        metric = found.pop(family.name)
        assert (metric.type, metric.documentation) == (family.kind, family.help)
        labels = {name for sample in metric.samples for name in sample.labels if name != "le"}
        assert labels == set(family.labels), family.name
    assert all(name.startswith("process_") for name in found), "this stands in no table"
    assert found.keys() >= {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"}


def test_a_backup_that_a_wrong_clock_made_is_not_the_newest(busy: Scraper, timed: Appliance, clock: FakeClock) -> None:
    made = clock.now()
    clock.advance(30 * 86_400)
    timed.store.backups.create("manual")
    assert busy.value("backup_last_success_timestamp_seconds") == pytest.approx(clock.now().timestamp(), abs=1)
    clock.set_wall(made)
    timed.store.backups.create("manual")
    assert busy.value("backup_last_success_timestamp_seconds") == pytest.approx(made.timestamp(), abs=1)


def test_the_values(busy: Scraper, timed: Appliance, clock: FakeClock) -> None:
    (mailbox,) = timed.store.accounts.list_ids()
    timed.events.publish(BackupFailed("The disk is full."))
    clock.advance(60)
    values = {
        "start_time_seconds": clock.now().timestamp() - 60,
        "mailbox_last_sync_timestamp_seconds": 1_767_225_600.0,
        "scheduled_next_due_timestamp_seconds": 1_900.0,
        "certificate_not_after_timestamp_seconds": 2_000_000_000.0,
        "backup_last_success_timestamp_seconds": clock.now().timestamp() - 60,
        "store_size_bytes": float(timed.store.size_bytes),
        "http_requests_in_progress": 1.0,
        "http_requests_waiting": 1.0,
        "sessions": 1.0,
        "warnings": 0.0,
    }
    labeled = {"mailbox_last_sync_timestamp_seconds": {"mailbox": mailbox}}
    assert {name: busy.value(name, **labeled.get(name, {})) for name in values} == pytest.approx(values, abs=0.01)
    assert busy.value("http_connections", listener="https") == 5
    assert busy.value("mailboxes", status="ready") == 1
    assert busy.value("mailboxes", status="error") == 0
    assert busy.value("deliveries", status="uncertain") == 1
    assert [busy.value("backups_total", result=result) for result in ("made", "failed")] == [1, 1]
    assert busy.value("members", status="active") == 2


def test_what_nobody_tells_is_left_out(scraper: Scraper) -> None:
    text = scraper.text()
    for name in ("http_connections", "tls_handshakes", "certificate", "backup_last", "scheduled_next", "mailbox_"):
        assert f"{METRIC_PREFIX}{name}" not in text.replace(f"{METRIC_PREFIX}mailboxes", "")


def test_requests_and_how_long_they_took(scraper: Scraper) -> None:
    for _ in range(3):
        scraper.ask("GET", "/api/v1/me")
    scraper.ask("HEAD", "/healthz")
    labels = {"method": "GET", "route": "/api/v1/me"}
    assert scraper.value("http_requests_total", **labels, status="401") == 3
    assert scraper.value("http_request_duration_seconds_count", **labels) == 3
    assert scraper.value("http_request_duration_seconds_bucket", **labels, le="+Inf") == 3
    taken = scraper.value("http_request_duration_seconds_sum", **labels)
    assert taken is not None
    assert 0 < taken < 3
    bounds = [sample for sample in scraper.families()["http_request_duration_seconds"].samples if "le" in sample.labels]
    counts = [sample.value for sample in bounds if sample.labels["route"] == "/api/v1/me"]
    assert counts == sorted(counts)
    assert scraper.value("http_requests_total", method="HEAD", route="/healthz", status="200") == 1


def test_attempts_to_get_in(timed: Appliance) -> None:
    ada = CheckedClient(timed).set_up()
    bob = add_member(timed, "bob")
    for _ in range(6):
        log_in(ada, WRONG)
    log_in(ada, LOGIN)
    assert ada.ask("PATCH", f"/admin/members/{bob}", {"status": "suspended"}).status == 200
    log_in(ada, LOGIN | {"email": timed.store.members.get(bob).email})
    counted = {reason: timed.events.count(SignInRejected, reason) for reason in ("throttled", "wrong", "suspended")}
    assert counted.pop("throttled") == 2
    assert sum(counted.values()) == 6


def test_deliveries_that_end(desk: Desk, mail_server: MailServer, scripted_smtp: ScriptedSmtp) -> None:
    scraper = Scraper(App(desk.appliance))
    user = scripted_smtp.user = mail_server.fresh_user()
    account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    before = {outcome: settled(scraper, outcome) for outcome in ("succeeded", "uncertain", "failed")}
    assert desk.send(account, a_message()).data["status"] == "succeeded"
    scripted_smtp.at("reply", Keep(DROP))
    assert desk.send(account, a_message()).data["status"] == "uncertain"
    after = {outcome: settled(scraper, outcome) - count for outcome, count in before.items()}
    assert after == {"succeeded": 1, "uncertain": 1, "failed": 0}
    assert scraper.value("deliveries", status="uncertain") == 1
    assert scraper.value("deliveries_last_step_timestamp_seconds", status="uncertain") is not None
    synced = scraper.value("mailbox_last_sync_timestamp_seconds", mailbox=account)
    assert synced is not None
    assert abs(synced - desk.appliance.clock.now().timestamp()) < 60


def settled(scraper: Scraper, outcome: str) -> float:
    return scraper.value("deliveries_settled_total", outcome=outcome) or 0


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Yield an appliance whose workers run."""
    made = Desk(tmp_path_factory.mktemp("desk") / "data", sending__answer_within=20, sending__dot_timeout=2)
    yield made
    made.close()


# --- what it never contains ---


def test_nothing_that_somebody_said_is_in_it(busy: Scraper, timed: Appliance) -> None:
    """No text of a client, an administrator or a mail server occurs, and the size of the page does not depend on such
    texts.
    """
    (mailbox,) = timed.store.accounts.list_ids()

    def say(number: int) -> None:
        mark = f"{MARK}{number}"
        hostile = (
            f"/{mark}",
            f'/api/v1/accounts/{mark}"}}\n',
            f"/api/v1/accounts/{mailbox}/messages/{mark}",
            "/\0",
            "/é",
        )
        for path in hostile:
            for method in ("GET", "BREW", mark, "HEAD", 'G"'):
                busy.ask(method, path, X_Forwarded_For=mark, User_Agent=mark, Referer=mark)
        busy.ask("GET", "/metrics", Host=f"{mark}.example")
        busy.ask("GET", "/metrics", peer=mark)
        busy.ask("GET", "/metrics", Authorization=f"Bearer {mark}")

    say(0)
    text = busy.text()
    for number in range(1, 20):
        say(number)
    again = busy.text()
    assert len(again.splitlines()) == len(text.splitlines())
    assert MARK not in again
    assert "BREW" not in again
    assert not re.search(r"@|example|127\.0\.0\.1|[^\x20-\x7e\n]", again)
    assert busy.value("http_requests_total", method="other", route="unknown", status="405") is not None


# --- access ---

WHO: tuple[tuple[str, dict[str, str], int], ...] = (
    ("127.0.0.1", {}, 200),
    ("::1", {}, 200),
    ("192.0.2.9", {}, 200),
    ("2001:db8::9", {}, 200),
    ("::ffff:192.0.2.9", {}, 200),
    ("192.0.3.9", {}, 403),
    ("nonsense", {}, 403),
    ("", {}, 403),
    # Through a trusted proxy: the client's address decides, and without one access is refused.
    ("10.0.0.1", {"X_Forwarded_For": "192.0.2.9"}, 200),
    ("10.0.0.1", {"X_Forwarded_For": "192.0.2.9, 198.51.100.1"}, 403),
    ("10.0.0.1", {"X_Forwarded_For": "127.0.0.1"}, 403),
    ("10.0.0.1", {"X_Forwarded_For": ""}, 403),
    ("10.0.0.1", {"Forwarded": "for=192.0.2.9"}, 403),
    # Through an untrusted proxy, whether it is local or at an allowed address.
    ("127.0.0.1", {"X_Forwarded_For": "192.0.2.9"}, 403),
    ("192.0.2.9", {"X_Forwarded_For": "192.0.2.9"}, 403),
    ("192.0.2.9", {"Via": "1.1 proxy"}, 403),
)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_may_read_it(tmp_path: Path, method: str) -> None:
    given = {"server.trusted_proxies": ("10.0.0.1",), "metrics.allowed": ("192.0.2.0/24", "2001:db8::/32")}
    made = Appliance(tmp_path / "data", settings.load(None, {}, given))
    scraper = Scraper(App(made))
    asked = [(peer, fields, scraper.ask(method, "/metrics", peer, **fields)) for peer, fields, _ in WHO]
    made.stop()
    assert [(peer, fields, status) for peer, fields, (status, _, _) in asked] == list(WHO)
    for _, _, (status, headers, text) in asked:
        assert (text == "") == (method == "HEAD")
        assert (headers["Content-Type"] == CONTENT_TYPE_PLAIN_0_0_4) == (status == 200)
        if status == 403 and method == "GET":
            error = json.loads(text)["error"]
            assert (error["code"], error["details"][0]["path"]) == ("permission_denied", "address")
            assert "metrics.allowed" in error["message"]


# --- timing ---


def test_while_a_restore_restarts_it_both_say_so_and_the_counters_of_requests_go_on(
    scraper: Scraper, timed: Appliance, tmp_path: Path
) -> None:
    scraper.ask("GET", "/api/v1/me")
    scraper.app.handle.pause(1)
    for path in ("/healthz", "/metrics"):
        for method in ("GET", "HEAD"):
            status, headers, _ = scraper.ask(method, path)
            assert (status, int(headers["Retry-After"]) > 0) == (503, True)
    other = Appliance(tmp_path / "other")
    scraper.app.handle.resume(other)
    assert scraper.ask("GET", "/healthz")[0] == 200
    assert scraper.value("http_requests_total", method="GET", route="/api/v1/me", status="401") == 1
    assert scraper.value("http_requests_total", method="GET", route="unknown", status="503") == 2
    other.stop()


def test_it_waits_for_nobody_who_writes(scraper: Scraper, timed: Appliance) -> None:
    scraper.text()
    holds, done = threading.Event(), threading.Event()

    def write() -> None:
        with timed.store.database.transaction():
            timed.store.database.change("INSERT INTO meta VALUES ('x', 'y')")
            holds.set()
            done.wait(30)

    writer = threading.Thread(target=write)
    writer.start()
    holds.wait(10)
    reader = threading.Thread(target=scraper.text)
    reader.start()
    reader.join(10)
    waited = reader.is_alive()
    done.set()
    writer.join()
    assert not waited


def test_the_library_is_loaded_by_the_first_request_for_it(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
import mailbox_appliance.service.main
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from tests.web.scraper import Scraper
scraper = Scraper(App(Appliance(Path({str(tmp_path / "data")!r}))))
scraper.ask("GET", "/healthz"), scraper.ask("GET", "/api/v1/me"), scraper.ask("GET", "/metrics", peer="192.0.2.1")
print("prometheus_client" in sys.modules)
print(scraper.ask("GET", "/metrics")[0], "prometheus_client" in sys.modules)
"""
    ran = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.stdout.split() == ["False", "200", "True"], ran.stderr


# --- Request counters: by known labels, in a limited number of rows, and none is lost ---


def test_requests_count_by_route_method_and_status_within_bounds() -> None:
    metrics = Metrics()
    for seconds in (0.0, 0.005, 0.006, 60.0):
        metrics.count_request("GET /api/v1/me", "GET", 200, seconds)
    metrics.count_request("GET /api/v1/me", "HEAD", 401, 0.2)
    metrics.count_request(UNKNOWN_ROUTE, "GET", 404, 0.2)
    assert metrics.requests() == [
        (("/api/v1/me", "GET", 200), [2, 1, 0, 0, 0, 0, 1, 60.011]),
        (("/api/v1/me", "HEAD", 401), [0, 0, 0, 1, 0, 0, 0, 0.2]),
        (("unknown", "GET", 404), [0, 0, 0, 1, 0, 0, 0, 0.2]),
    ]
    assert sorted(DURATION_BUCKETS) == list(DURATION_BUCKETS)


def test_nothing_is_lost_and_it_costs_microseconds() -> None:
    metrics = Metrics()

    def count(_: int) -> None:
        for _ in range(5000):
            metrics.count_request("GET /api/v1/me", "GET", 200, 0.001)

    started = process_time()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(4)))
    took = process_time() - started
    ((_, row),) = metrics.requests()
    assert sum(row[:-1]) == 20_000
    assert took / 20_000 < 50e-6  # about 1 us; this detects only gross mistakes, on a computer that does other work too
