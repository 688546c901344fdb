"""HTTPS opens, moves and closes while requests are served; a failure changes nothing and is reported."""

import http.client
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import Clock
from mailbox_appliance.errors import CertificateUnusable, HttpsNotOffered
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.net.connect import open_connection
from mailbox_appliance.service.listeners import ServiceListeners
from mailbox_appliance.settings import Value
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.tls import generate, inspect
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import CannotListen
from tests.servers.certificates import any_certificate
from tests.servers.desk import ADMIN
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.own_address import own_addresses
from tests.tls.issued import issued

_NOW = datetime.now(UTC)
#: An address of this computer that is not loopback.
OWN = next(address for address in own_addresses() if ":" not in address)


class House:
    """A listening appliance in this process."""

    def __init__(self, appliance: Appliance, token: str = "") -> None:
        self.appliance, self.token = appliance, token
        self.files = CertificateFiles(appliance.folder)
        self.app = App(appliance)

    def listen(self) -> "House":
        """Open the listeners and serve."""
        self.listening = ServiceListeners(self.app, self.appliance)
        self.appliance.https = self.listening
        self.listening.start()
        return self

    def set(self, **values: object) -> None:
        """Store settings and apply them."""
        with self.appliance.store.database.transaction(durable=True):
            for name, value in values.items():
                self.appliance.store.stored_settings.put(f"server.{name}", value)
        self.appliance.apply_stored_settings()

    @property
    def port(self) -> int:
        """The HTTPS port."""
        assert self.listening.url is not None
        return int(self.listening.url.rpartition(":")[2])

    def connection(self, port: int | None = None, host: str = "127.0.0.1") -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(host, port or self.port, timeout=10, context=any_certificate())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep a connection open while the block runs, and check that it still answers afterwards."""
        connection = self.connection()
        for is_first in (True, False):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n", "it was not closed meanwhile"
            if is_first:
                yield
        connection.close()

    def seen(self) -> str:
        """Return the certificate fingerprint that a new connection gets."""
        connection = self.connection()
        connection.connect()
        shown = connection.sock.getpeercert(binary_form=True)
        connection.close()
        assert isinstance(shown, bytes)
        return inspect.fingerprint(ssl.DER_cert_to_PEM_cert(shown).encode())

    def headers(self, url: str | None) -> dict[str, str]:
        """Return the header fields of a response."""
        assert url is not None
        place = urlsplit(url)
        connection = self.connection() if place.scheme == "https" else http.client.HTTPConnection(place.netloc)
        connection.request("GET", "/api/v1/")
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.status == 200
        return dict(response.headers)

    def close(self) -> None:
        """Stop listening and reset the settings."""
        self.appliance.https = None
        with suppress(AttributeError):
            self.listening.stop(5)
        shutil.rmtree(self.files.folder, ignore_errors=True)
        with self.appliance.store.database.transaction():
            for name in ("https", "https_port", "https_host", "hsts_days"):
                self.appliance.store.stored_settings.remove(f"server.{name}")
        self.appliance.apply_stored_settings()


def appliance_with(folder: Path, clock: Clock | None = None, **flags: Value) -> Appliance:
    """Return an appliance that will listen at a free port of 127.0.0.1."""
    given: dict[str, Value] = {"server.host": "127.0.0.1", "server.port": 0}
    given |= {name.replace("__", "."): value for name, value in flags.items()}
    return Appliance(folder, settings.load(None, {}, given), clock)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Appliance, str]]:
    """An appliance that is set up, and its administrator's token."""
    appliance = appliance_with(tmp_path_factory.mktemp("house"))
    yield appliance, add_first_admin(appliance, convert_body(ADMIN, CreateFirstAdminRequest), Actor("local")).token
    appliance.stop()


@pytest.fixture
def house(settled: tuple[Appliance, str]) -> Iterator[House]:
    """An appliance that listens only over HTTP."""
    made = House(*settled).listen()
    yield made
    made.close()


@contextmanager
def house_with(folder: Path, clock: Clock | None = None, **flags: Value) -> Iterator[House]:
    """An appliance with its own settings that does not listen yet."""
    appliance = appliance_with(folder, clock, **flags)
    made = House(appliance)
    try:
        yield made
    finally:
        made.close()
        appliance.stop()


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield int(server.getsockname()[1])


def is_open(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


# --- on, off, elsewhere -----------------------------------------------------------------------------------------------


def test_it_is_off_until_it_is_turned_on_and_then_off_again(house: House) -> None:
    assert [house.listening.url, house.listening.trouble] == [None, None]
    assert not house.files.any_exists()
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    port = house.port
    assert house.headers(house.listening.url)["Content-Type"].startswith("application/json")
    assert house.seen() == house.listening.pin
    house.set(https=False)
    assert [house.listening.url, house.listening.pin] == [None, None]
    assert not is_open(port)
    assert house.headers(house.listening.http_url)


def test_no_mailbox_is_connected_to_where_it_listens(house: House) -> None:
    def kind(host: str, port: int) -> str:
        try:
            open_connection(host, port, "tls", 5, server="imap").close()
        except RemoteFault as fault:
            return fault.kind
        return "connected"

    house.set(https=True, https_port=0)
    http_port, https_port = int(house.listening.http_url.rpartition(":")[2]), house.port
    for host in ("127.0.0.1", "localhost", "127.0.0.2", "127.1", "::1", OWN):
        for port in (http_port, https_port):
            assert kind(host, port) == "forbidden_address", (host, port)
    house.set(https=False)
    assert kind("127.0.0.1", https_port) == "unreachable"
    with socket.create_server(("127.0.0.1", https_port)):
        assert kind("127.0.0.1", https_port) == "connected"
    assert kind("127.0.0.1", http_port) == "forbidden_address"


def test_it_is_offered_at_all_addresses_of_this_computer(house: House) -> None:
    house.set(https=True, https_port=0)
    assert house.listening.url == f"https://127.0.0.1:{house.port}"
    for host in (OWN, "127.0.0.1", "::1"):
        connection = house.connection(host=host)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()


@pytest.mark.parametrize("change", [{"https": False}, {"https_port": 0}, {"https_host": "127.0.0.1"}])
def test_the_request_that_closes_or_moves_it_is_answered_by_it(house: House, change: dict[str, object]) -> None:
    with taken_port() as port:
        pass
    house.set(https=True, https_port=port, https_host="127.0.0.2" if "https_host" in change else "127.0.0.1")
    host = "127.0.0.2" if "https_host" in change else "127.0.0.1"
    connection = house.connection(port, host)
    body = json.dumps({f"server.{name}": value for name, value in change.items()})
    headers = {"Authorization": f"Bearer {house.token}", "Content-Type": "application/json"}
    connection.request("PATCH", "/api/v1/admin/settings", body, headers)
    response = connection.getresponse()
    assert (response.status, set(json.loads(response.read()))) == (200, {"data"})
    connection.close()
    assert not is_open(port, host)
    if "https" not in change:
        assert house.headers(house.listening.url)


def test_what_is_under_way_on_a_listener_that_moves_is_answered(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    before = house.port
    connection = house.connection()
    connection.putrequest("POST", "/api/v1/auth/login")
    body = json.dumps({name: ADMIN[name] for name in ("email", "password", "deviceName")}).encode()
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:10])
    assert house.headers(house.listening.url)  # so that its head has been read by now
    with taken_port() as port:
        pass
    house.set(https_port=port)
    assert (house.port, is_open(before)) == (port, False)
    connection.send(body[10:])
    assert connection.getresponse().status == 200
    connection.close()


def test_moving_to_where_it_is_changes_nothing(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    with house.kept():
        house.set(https_port=house.port)
        house.set(hsts_days=3)


@pytest.mark.parametrize("is_on", [False, True])
@pytest.mark.parametrize("wrong", ["port", "host", "files"])
def test_what_cannot_be_done_leaves_all_as_it_was(house: House, is_on: bool, wrong: str) -> None:
    house.set(https=is_on, https_port=0, https_host="127.0.0.1")
    url = house.listening.url
    with taken_port() as port, house.kept() if is_on else nullcontext():
        change: dict[str, object] = {"https": True}
        if wrong == "port":
            change["https_port"] = port
        elif wrong == "host":  # at the same port, where it is on
            change |= {"https_host": "192.0.2.1", "https_port": house.port if is_on else 0}
        else:
            house.files.folder.mkdir(exist_ok=True)
            key = house.files.key.read_bytes() if is_on else b""
            house.files.key.write_text("no key")
            change["hsts_days"] = 3
        with pytest.raises(HttpsNotOffered) as caught:
            house.set(**change)
    assert {"port": str(port), "host": "192.0.2.1", "files": "cert.pem"}[wrong] in caught.value.message
    assert str(house.appliance.folder) not in caught.value.message
    assert house.listening.url == url
    assert url is None or house.headers(url)
    told = house.listening.trouble
    assert told is not None
    assert told.startswith("HTTPS still uses" if is_on and wrong == "files" else "HTTPS is not running")
    if wrong == "files":
        house.files.key.write_bytes(key)
        house.listening.refresh_certificate()
    house.set(https=is_on, https_port=0, https_host="127.0.0.1")
    assert house.listening.trouble is None


def test_from_one_address_to_all_at_the_same_port_and_back(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    port = house.port
    for host, reached in (("", True), (OWN, True), ("localhost", False), ("127.0.0.1", False)):
        house.set(https_host=host, https_port=port)
        assert (house.port, is_open(port, OWN)) == (port, reached)
        assert house.listening.trouble is None


def test_a_fault_of_ours_is_told_and_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with house_with(tmp_path) as house:
        house.listen()
        # Makes it impossible to record changes of the certificate.
        house.appliance.store.database.change("ALTER TABLE audit_events RENAME TO lost")
        house.appliance.settings.use_stored({"server.https": True, "server.https_port": 0})
        with pytest.raises(HttpsNotOffered, match="Internal error"):
            house.listening.apply()
        assert "Internal error" in (house.listening.trouble or "")
        assert "https_update_failed" in caplog.text
        house.listening.reload()
        assert house.listening.url is None
        house.appliance.store.database.change("ALTER TABLE lost RENAME TO audit_events")
        house.listening.refresh_certificate()


def loops() -> list[str]:
    """Return the threads of listeners."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("web-1"))


def test_several_change_it_at_once(house: House) -> None:
    by_http = loops()
    house.set(https=True, https_port=0, https_host="127.0.0.1")

    def move(host: str) -> None:
        for _ in range(5):
            house.listening.reload()  # without a request to any other server
            house.set(https_host=host)
            house.listening.refresh_certificate()

    movers = [threading.Thread(target=move, args=(f"127.0.0.{number}",)) for number in range(1, 5)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    house.set(https_host="127.0.0.1")
    assert house.headers(house.listening.url)
    assert house.listening.trouble is None
    left = sorted([*by_http, f"web-127.0.0.1-{house.port}"])
    wait_until(lambda: loops() == left, lambda: f"{loops()} {left}", 10)


# --- the certificate --------------------------------------------------------------------------------------------------


def test_files_that_are_replaced_are_taken_within_a_look_and_open_connections_go_on(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    with house.kept():
        first = house.seen()
        house.listening.refresh_certificate()
        assert house.seen() == first
        house.files.replace(*generate.generate_certificate(["localhost"], _NOW))
        house.listening.refresh_certificate()
        assert house.seen() == house.listening.pin != first


def test_a_renewal_that_is_half_done_waits_for_its_other_half(house: House) -> None:
    """Certbot and other tools write one file after the other."""
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    first = house.seen()
    certificate, key = generate.generate_certificate(["localhost"], _NOW)
    house.files.certificate.write_bytes(certificate)
    for _ in range(2):
        house.listening.refresh_certificate()
        assert (house.seen(), house.listening.pin) == (first, first)
        assert "key.pem is not the key of the certificate" in (house.listening.trouble or "")
    house.files.key.unlink()
    house.listening.refresh_certificate()
    assert "is missing" in (house.listening.trouble or "")
    house.files.certificate.unlink()
    house.listening.refresh_certificate()
    assert not house.files.any_exists(), "none is made in its place"
    house.files.certificate.write_bytes(certificate)
    house.files.key.write_bytes(key)
    house.listening.refresh_certificate()
    assert house.listening.trouble is None
    assert house.seen() == inspect.fingerprint(certificate)


def test_where_a_link_leads_is_logged_and_told_to_nobody(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    house.files.key.unlink()
    house.files.key.symlink_to("/nowhere/privkey.pem")
    house.listening.refresh_certificate()
    assert "tls/key.pem is a link to a file that does not exist" in (house.listening.trouble or "")
    assert "/nowhere" not in (house.listening.trouble or "")
    assert [one.where for one in caplog.records if one.message == "https_unchanged"] == ["/nowhere/privkey.pem"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("days", "told"), [(-1, "expired on"), (13, "expires on"), (15, None)])
def test_a_certificate_that_ends_soon_is_told(house: House, days: int, told: str | None) -> None:
    made = issued(since=_NOW - timedelta(days=30), until=_NOW + timedelta(days=days))
    house.files.folder.mkdir()
    house.files.replace(made.pem, made.key)
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    trouble = house.listening.trouble
    assert (trouble is None) if told is None else told in (trouble or "")
    figures = house.app.server_figures
    assert figures is not None
    assert figures()["certificate_not_after"] == pytest.approx((_NOW + timedelta(days=days)).timestamp(), abs=2)


def test_browsers_are_told_to_keep_to_https_by_a_certificate_that_is_trusted(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    assert "Strict-Transport-Security" not in house.headers(house.listening.url)
    authority = issued(since=_NOW - timedelta(days=1), until=_NOW + timedelta(days=90), ca=True)
    own = issued(authority, since=_NOW - timedelta(days=1), until=_NOW + timedelta(days=90))
    (tmp_path / "trusted.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    house.files.replace(own.pem, own.key)
    house.listening.refresh_certificate()
    assert house.headers(house.listening.url)["Strict-Transport-Security"] == f"max-age={365 * 86_400}"
    assert "Strict-Transport-Security" not in house.headers(house.listening.http_url)
    assert house.listening.pin is None
    house.set(hsts_days=2)
    assert house.headers(house.listening.url)["Strict-Transport-Security"] == "max-age=172800"
    house.set(hsts_days=0)
    assert "Strict-Transport-Security" not in house.headers(house.listening.url)


# --- at the start, and after a restore --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["port", "host", "files"])
def test_what_is_asked_for_and_cannot_be_offered_keeps_it_from_starting(tmp_path: Path, wrong: str) -> None:
    with taken_port() as taken, taken_port() as port:
        pass
    with socket.create_server(("0.0.0.0", taken)):
        flags: dict[str, Value] = {"server__port": port, "server__https": True, "server__https_port": 0}
        if wrong == "port":
            flags["server__https_port"] = taken
        if wrong == "host":
            flags["server__https_host"] = "192.0.2.1"
        if wrong == "files":
            (tmp_path / "tls").mkdir(parents=True)
            (tmp_path / "tls" / "cert.pem").write_text("nothing")
        kinds = {"port": CannotListen, "host": CannotListen, "files": CertificateUnusable}
        with house_with(tmp_path, None, **flags) as house, pytest.raises(kinds[wrong]) as caught:
            house.listen()
        expected = {"port": "--https-port", "host": "--https-host", "files": "key.pem is missing"}
        assert expected[wrong] in caught.value.message
        assert not is_open(port), "nothing is left open"


def test_after_a_restore_what_cannot_be_offered_is_told_and_the_service_goes_on(house: House, tmp_path: Path) -> None:
    with taken_port() as port:
        restored = appliance_with(tmp_path, server__https=True, server__https_port=port)
        house.listening.switch_to(restored)
        assert str(port) in (house.listening.trouble or "")
        assert house.headers(house.listening.http_url)
    house.listening.reload()
    assert (house.listening.trouble, house.port) == (None, port)
    made = [event.action for event in restored.store.audit.list(None, 3)[0]]
    assert made == ["certificate.make"]
    house.listening.switch_to(house.appliance)
    assert (house.listening.url, house.listening.trouble) == (None, None)
    restored.stop()


def test_what_could_not_be_offered_is_tried_again_and_told_once(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A remote user could not retry it."""
    with house_with(tmp_path, clock) as house:
        house.listen()
        with taken_port() as port:
            house.appliance.settings.use_stored({"server.https": True, "server.https_port": port})
            house.listening.reload()
            for _ in range(3):
                house.listening.refresh_certificate()
                clock.advance(10)
                house.listening.refresh_certificate()
            assert caplog.messages.count("https_unchanged") == 1
            assert str(port) in (house.listening.trouble or "")
        house.listening.refresh_certificate()
        assert house.listening.url is None, "not each second"
        clock.advance(10)
        house.listening.refresh_certificate()
        assert (house.listening.trouble, house.port) == (None, port)
        (house.files.key).write_text("no key")
        for _ in range(3):
            house.listening.refresh_certificate()
        assert caplog.messages.count("https_unchanged") == 2


def test_on_its_way_to_a_port_that_is_taken_it_never_stops_answering(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    port, over, refused = house.port, threading.Event(), list[int]()

    def connect() -> None:
        while not over.is_set():
            refused.append(int(not is_open(port)))

    connecting = threading.Thread(target=connect)
    connecting.start()
    with taken_port() as taken:
        for change in ({"https_port": taken}, {"https_port": port, "https_host": "192.0.2.1"}):
            with pytest.raises(HttpsNotOffered):
                house.set(**change)
            house.set(https_port=port, https_host="127.0.0.1")
    wait_until(lambda: len(refused) > 20, lambda: "nobody connects", 10)
    over.set()
    connecting.join()
    assert not any(refused)


def test_other_proxies_are_trusted_after_a_restore(tmp_path: Path) -> None:
    with house_with(tmp_path / "one", server__trusted_proxies=("192.0.2.7",)) as house:
        house.listen()
        assert house.app.proxies.trusts("192.0.2.7")
        restored = appliance_with(tmp_path / "other", server__trusted_proxies=("192.0.2.8",))
        house.listening.switch_to(restored)
        assert [house.app.proxies.trusts(f"192.0.2.{one}") for one in (7, 8)] == [False, True]
        restored.stop()


# --- where this computer reaches it -----------------------------------------------------------------------------------


def test_bound_to_another_address_it_is_reached_as_this_computer_too(tmp_path: Path) -> None:
    with house_with(tmp_path, server__host=OWN) as house:
        house.listen()
        port = urlsplit(house.listening.http_url).port
        assert house.listening.http_url == f"http://{OWN}:{port}"
        assert house.listening.local_url == f"http://127.0.0.1:{port}"
        assert house.headers(house.listening.local_url)
        assert is_open(port or 0, "::1")


def test_where_the_loopback_addresses_are_taken_the_other_one_is_served_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with (
            socket.create_server(("::1", port), family=socket.AF_INET6),
            house_with(tmp_path, server__host=OWN, server__port=port) as house,
        ):
            house.listen()
            assert house.listening.local_url == house.listening.http_url
            assert "loopback_unavailable" in caplog.messages
            assert house.headers(house.listening.http_url)


@pytest.mark.parametrize(("host", "local"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("", "127.0.0.1")])
def test_bound_to_all_addresses_it_is_reached_by_loopback(tmp_path: Path, host: str, local: str) -> None:
    with house_with(tmp_path, server__host=host) as house:
        house.listen()
        assert house.listening.http_url == house.listening.local_url, "what is told answers"
        assert urlsplit(house.listening.local_url).netloc.rpartition(":")[0] == local
        assert house.headers(house.listening.local_url)


def test_it_says_what_is_under_way(house: House) -> None:
    house.set(https=True, https_port=0, https_host="127.0.0.1")
    assert house.listening.wait_until_idle(0)
    connection = house.connection()
    connection.putrequest("POST", "/api/v1/auth/login")
    connection.putheader("Content-Length", "10")
    connection.endheaders(b"12345")
    wait_until(lambda: not house.listening.wait_until_idle(0), lambda: "it has not come", 5)
    figures: Callable[[], Any] | None = house.app.server_figures
    assert figures is not None
    assert figures()["connections_https"] == 1
    connection.close()
    wait_until(lambda: house.listening.wait_until_idle(0), lambda: "it has not gone", 5)
