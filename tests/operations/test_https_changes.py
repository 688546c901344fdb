"""Changes of HTTPS that fail, meet each other, or shut out who makes them; and links that lead to it."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import HttpsNotOffered
from mailbox_appliance.operations.operation import LOCAL, Caller
from mailbox_appliance.operations.settings import change_settings
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.inspect import Certificate, fingerprint
from tests.checked_client import CheckedClient
from tests.operations.listened import is_open, presented, served
from tests.tls.issued import authority

PATH, SETTINGS = "/admin/https", "/admin/settings"
HERE = {"host": "127.0.0.1", "port": 0}
OPERATOR = Caller(LOCAL, is_operator=True)


@dataclass
class Listener:
    """Does with each change what a test says; `asked`: where HTTPS was to be each time."""

    act: Callable[[str], None]
    appliance: Appliance
    asked: list[tuple[str, int]] = field(default_factory=list)
    url: str | None = None
    trouble: str | None = None
    certificate: Certificate | None = None

    def apply(self) -> None:
        host = self.appliance.settings.text("server.https_host")
        self.asked.append((host, self.appliance.settings.number("server.https_port")))
        self.act(host)


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[CheckedClient]:
    """The administrator of an appliance that listens."""
    with served(tmp_path / "data") as client:
        yield client


def outcomes(appliance: Appliance) -> list[tuple[str, str]]:
    events, _ = appliance.store.audit.list(None, 20)
    return [
        (event.target.id, event.outcome)
        for event in reversed(events)
        if event.action == "settings.update" and event.target
    ]


# --- what fails, and what comes meanwhile -----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [HttpsNotOffered(reason="So."), OSError(24, "Too many open files"), ValueError("?")])
def test_whatever_goes_wrong_puts_the_settings_back(appliance: Appliance, fault: Exception) -> None:
    def fail(host: str) -> None:
        if host:
            raise fault

    appliance.https = Listener(fail, appliance)
    change_settings(appliance, OPERATOR, {"log.requests": False})
    before = appliance.store.stored_settings.get_all()
    with pytest.raises(type(fault)) as caught:
        change_settings(appliance, OPERATOR, {"server.https_host": "192.0.2.7", "log.requests": True})
    assert caught.value is fault
    assert appliance.store.stored_settings.get_all() == before
    assert (appliance.settings.text("server.https_host"), appliance.settings.flag("log.requests")) == ("", False)
    assert appliance.https.asked == [("192.0.2.7", 8443), ("", 8443)]
    told = outcomes(appliance)
    assert sorted(told[-2:]) == [("log.requests", "failure"), ("server.https_host", "failure")]


def test_what_cannot_even_be_put_back_is_what_counts(appliance: Appliance, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that is full refuses the row of the log as well: what is stored and what is in force are still one."""

    def fail(_host: str) -> None:
        appliance.store.database.change(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON audit_events BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        raise OSError(28, "No space left on device")

    appliance.https = Listener(fail, appliance)
    with pytest.raises(OSError, match="No space left"):
        change_settings(appliance, OPERATOR, {"server.https_host": "192.0.2.7"})
    assert appliance.store.stored_settings.find("server.https_host") == "192.0.2.7"
    assert appliance.settings.text("server.https_host") == "192.0.2.7"
    assert "settings_rollback_failed" in caplog.text


def test_changes_are_one_at_a_time(appliance: Appliance) -> None:
    """From storing to putting back: else the second would be undone with the first, or take its place."""
    begun, go_on = threading.Event(), threading.Event()

    def fail_once(host: str) -> None:
        if host == "192.0.2.7":
            begun.set()
            assert go_on.wait(10)
            raise HttpsNotOffered(reason="So.")

    appliance.https = listener = Listener(fail_once, appliance)
    refused: list[Exception] = []

    def first() -> None:
        with pytest.raises(HttpsNotOffered) as caught:
            change_settings(appliance, OPERATOR, {"server.https_host": "192.0.2.7"})
        refused.append(caught.value)

    changers = [threading.Thread(target=first)]
    changers[0].start()
    assert begun.wait(10)
    changers.append(threading.Thread(target=change_settings, args=(appliance, OPERATOR, {"server.https_port": 9443})))
    changers.append(threading.Thread(target=appliance.apply_configuration, args=(settings.load(None, {}),)))
    for changer in changers[1:]:
        changer.start()
        changer.join(0.1)
        assert changer.is_alive()
    go_on.set()
    for changer in changers:
        changer.join(10)
    assert len(refused) == 1
    assert listener.asked == [("192.0.2.7", 8443), ("", 8443), ("", 9443)]
    assert appliance.store.stored_settings.get_all() == {"server.https_port": 9443}


def test_what_was_refused_is_tried_again_when_it_is_asked_for_again(ada: CheckedClient) -> None:
    """After a reload or a restore it is asked for and not offered so; the same change opens it once it can be."""
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with ada.appliance.store.database.transaction():
            ada.appliance.store.stored_settings.put("server.https_port", port)
        with pytest.raises(HttpsNotOffered):
            ada.appliance.apply_stored_settings()
        assert is_open(on["url"])
        assert ada.ask("PATCH", PATH, {"port": port}).refusal == (409, "conflict")
    moved = ada.ask("PATCH", PATH, {"port": port})
    assert (urlsplit(moved.data["url"]).port, moved.warnings) == (port, [])
    assert presented(moved.data["url"]) == on["certificate"]["fingerprint"]


def test_an_address_that_is_none_is_refused_also_while_it_is_off(ada: CheckedClient) -> None:
    for host in ("nonsense", "127.0.0.1 192.0.2.7", "224.0.0.1"):
        for body, path, place in (
            ({"host": host}, PATH, "/host"),
            ({"server.https_host": host}, SETTINGS, "/server.https_host"),
        ):
            refused = ada.ask("PATCH", path, body)
            assert (refused.refusal, refused.places) == ((400, "invalid_request"), [place])
    assert ada.appliance.store.stored_settings.get_all() == {}


def test_a_setting_that_waits_for_a_start_is_told_from_one_that_is_not_there(ada: CheckedClient) -> None:
    refused = ada.ask("PATCH", SETTINGS, {"server.port": 1})
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/server.port"])
    for word in ("restart the appliance", "config.toml", "MAILBOX_APPLIANCE_SERVER_PORT"):
        assert word in refused.message
    refused = ada.ask("PATCH", SETTINGS, {"server.prot": 1})
    assert "unknown field `server.prot`" in refused.message


# --- which certificate ------------------------------------------------------------------------------------------------


def test_while_the_files_do_not_fit_the_one_that_is_served_is_shown(ada: CheckedClient) -> None:
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    files = CertificateFiles(ada.appliance.folder)
    files.key.write_bytes(authority().key)
    told = ada.ask("GET", PATH)
    assert told.data == on
    assert len(told.warnings) == 1
    assert "key.pem is not the key" in told.warnings[0]
    ada.ask("PATCH", PATH, {"enabled": False})
    told = ada.ask("GET", PATH)
    assert told.data["certificate"] is None
    assert "key.pem is not the key" in told.warnings[0]


def test_what_openssl_takes_and_nobody_else_does_is_a_conflict(ada: CheckedClient) -> None:
    ada.ask("POST", f"{PATH}/rotate")
    files = CertificateFiles(ada.appliance.folder)
    plain = files.certificate.read_bytes()
    der, version = ssl.PEM_cert_to_DER_cert(plain.decode()), bytes.fromhex("a003020102")
    files.certificate.write_text(ssl.DER_cert_to_PEM_cert(der.replace(version, bytes.fromhex("a003020107"))))
    refused = ada.ask("PATCH", PATH, {"enabled": True, **HERE})
    assert (refused.refusal, "cert.pem: it cannot be read" in refused.message) == ((409, "conflict"), True)
    assert ada.appliance.store.stored_settings.get_all() == {}
    files.certificate.write_bytes(plain.replace(b"CERTIFICATE", b"X509 CERTIFICATE"))
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE})
    assert (on.data["certificate"]["fingerprint"], on.warnings) == (fingerprint(plain), [])
    assert presented(on.data["url"]) == fingerprint(plain)


def test_one_that_is_made_since_both_files_are_gone_is_told(
    ada: CheckedClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not the first use, so clients have pinned another one."""
    caplog.set_level("WARNING")
    first = ada.ask("PATCH", PATH, {"enabled": True, **HERE})
    assert (first.warnings, caplog.messages) == ([], [])
    ada.ask("PATCH", PATH, {"enabled": False})
    for file in CertificateFiles(ada.appliance.folder).paths():
        file.unlink()
    again = ada.ask("PATCH", PATH, {"enabled": True})
    (warning,) = again.warnings
    assert f"--fingerprint {again.data['certificate']['fingerprint']}" in warning
    assert caplog.messages == ["certificate_recreated"]


@pytest.mark.parametrize("way", ["import", "rotate"])
def test_links_that_are_replaced_are_told(ada: CheckedClient, tmp_path: Path, way: str) -> None:
    ada.ask("POST", f"{PATH}/rotate")
    files = CertificateFiles(ada.appliance.folder)
    for file in (files.certificate, files.key):
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)
    certificate, key = files.load()
    if way == "import":
        body = {"certificate": certificate.decode(), "privateKey": key.decode()}
        warnings = ada.ask("PUT", f"{PATH}/certificate", body).warnings
    else:
        warnings = ada.ask("POST", f"{PATH}/rotate").warnings
    assert "were links" in warnings[0]
    assert str(tmp_path) not in warnings[0]
    assert "were links" not in "".join(ada.ask("POST", f"{PATH}/rotate").warnings)


# --- who is shut out, and where links lead ----------------------------------------------------------------------------

OFF, ONLY_HERE = "HTTPS is off", "HTTPS now listens only on this computer"
FROM_ELSEWHERE: dict[str, Any] = {"peer": "192.0.2.9", "secure": True}
SHUT_OUT: list[tuple[str, dict[str, object], str]] = [
    (PATH, {"enabled": False}, OFF),
    (SETTINGS, {"server.https": None}, OFF),
    (PATH, {"host": "127.0.0.1"}, ONLY_HERE),
    (PATH, {"host": "localhost"}, ONLY_HERE),
    (SETTINGS, {"server.https_host": "::1"}, ONLY_HERE),
    (PATH, {"enabled": True}, ""),
    (SETTINGS, {"log.requests": False}, ""),
]


def test_who_shuts_themselves_out_is_told(appliance: Appliance) -> None:
    ada = CheckedClient(appliance).set_up()
    for path, body, told in SHUT_OUT:
        for source, is_told in ((FROM_ELSEWHERE, bool(told)), ({}, False)):
            change_settings(
                appliance, OPERATOR, {"server.https": True, "server.https_host": None, "log.requests": True}
            )
            warnings = ada.ask("PATCH", path, body, **source).warnings
            assert len(warnings) == is_told
            assert told in "".join(warnings) or not is_told
            assert ada.ask("PATCH", path, body, **source).warnings == [], "nothing changes by it"


LINKS = [
    ("", None, "http://127.0.0.1:8025", "http://127.0.0.1:8025"),
    ("", "192.0.2.7", "https://192.0.2.7:9443", "http://127.0.0.1:8025"),
    ("https://mail.example.org/box/", "192.0.2.7", "https://mail.example.org/box", "https://mail.example.org/box"),
]


@pytest.mark.parametrize(("public_url", "host", "elsewhere", "here"), LINKS)
def test_where_links_lead(tmp_path: Path, public_url: str, host: str | None, elsewhere: str, here: str) -> None:
    """An invitation is for somebody else; a console link is for the browser of who asks."""
    made = Appliance(tmp_path, settings.load(None, {}, {"server.public_url": public_url}))
    try:
        ada = CheckedClient(made).set_up()
        listener = Listener(lambda _host: None, made)
        made.https = listener
        if host is not None:
            listener.url = "https://127.0.0.1:9443"
            change_settings(made, OPERATOR, {"server.https": True, "server.https_host": host, "server.https_port": 0})
        links = (
            ada.ask("POST", "/auth/console-links", **FROM_ELSEWHERE).data["url"],
            ada.ask("POST", "/auth/console-links").data["url"],
            ada.ask("POST", "/admin/members", {"name": "Bob", "email": "bob@example.org", "role": "member"}).data[
                "invitation"
            ]["url"],
        )
        assert [link.partition("/#")[0] for link in links] == [elsewhere, here, elsewhere]
    finally:
        made.stop()


def test_each_of_several_rotations_tells_of_its_own(ada: CheckedClient) -> None:
    ada.ask("PATCH", PATH, {"enabled": True, **HERE})
    with ThreadPoolExecutor(4) as at_once:
        told = list(
            at_once.map(lambda _: ada.ask("POST", f"{PATH}/rotate").data["certificate"]["fingerprint"], range(8))
        )
    assert len({*told}) == 8
