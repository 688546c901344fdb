"""HTTPS switched on and off, moved, and its certificate shown, imported and rotated, while real listeners serve."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.settings import Value
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.inspect import fingerprint
from tests.checked_client import CheckedClient
from tests.operations.listened import is_open, presented, served
from tests.tls.issued import authority, between, issued
from tests.tls.mounts import mounted

PATH, SETTINGS = "/admin/https", "/admin/settings"
CERTIFICATE, ROTATE = f"{PATH}/certificate", f"{PATH}/rotate"
NOW = datetime.now(UTC)
OFF = {"enabled": False, "host": "", "port": 8443, "url": None, "certificate": None}
HERE = {"host": "127.0.0.1", "port": 0}


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[CheckedClient]:
    """The administrator of an appliance that listens."""
    with served(tmp_path / "data") as client:
        yield client


def files_of(client: CheckedClient) -> CertificateFiles:
    return CertificateFiles(client.appliance.folder)


def audited(client: CheckedClient) -> list[tuple[str, str, str]]:
    """What the log tells of HTTPS, the oldest first: action, target, outcome."""
    events = client.ask("GET", "/admin/audit-events?limit=100").data["items"]
    told = [(event["action"], (event["target"] or {}).get("id", ""), event["outcome"]) for event in reversed(events)]
    return [one for one in told if one[0].startswith(("certificate.", "settings."))]


def pem(pair: Any) -> dict[str, str]:
    return {"certificate": pair.pem.decode(), "privateKey": pair.key.decode()}


# --- on and off -------------------------------------------------------------------------------------------------------


def test_on_moved_and_off(ada: CheckedClient) -> None:
    assert ada.ask("GET", PATH).data == OFF
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    shown = on["certificate"]
    assert presented(on["url"]) == shown["fingerprint"]
    assert (on["enabled"], on["host"], shown["selfSigned"], shown["trusted"]) == (True, "127.0.0.1", True, False)
    assert {"localhost", "127.0.0.1", "::1"} <= {*shown["names"]}
    moved = ada.ask("PATCH", PATH, {"host": "127.0.0.2"}).data
    assert urlsplit(moved["url"]).hostname == "127.0.0.2"
    assert (presented(moved["url"]), is_open(on["url"])) == (shown["fingerprint"], False)
    off = ada.ask("PATCH", PATH, {"enabled": False}).data
    assert off == {**moved, "enabled": False, "url": None}
    assert not is_open(moved["url"])
    assert ada.ask("PATCH", PATH, dict.fromkeys(("enabled", "host", "port"))).data == {**OFF, "certificate": shown}
    names = ["server.https", "server.https_port", "server.https_host", "server.https_host", "server.https"]
    assert audited(ada) == [
        ("certificate.make", shown["fingerprint"], "success"),
        *(("settings.update", name, "success") for name in names),
        *(("settings.update", f"server.https{one}", "success") for one in ("", "_port", "_host")),
    ]


def test_the_general_way_to_settings_does_the_same(ada: CheckedClient) -> None:
    changed = {"server.https": True, "server.https_port": 0, "server.https_host": "127.0.0.1"}
    assert ada.ask("PATCH", SETTINGS, changed).data["server.https"] is True
    told = ada.ask("GET", PATH)
    assert presented(told.data["url"]) == told.data["certificate"]["fingerprint"]
    assert [action for action, _, _ in audited(ada)].count("certificate.make") == 1


@pytest.mark.parametrize("host", ["mail.example.org", "127.0.0.1 10.1.1.1", "224.0.0.1", "255.255.255.255"])
def test_where_one_cannot_listen_is_no_host(ada: CheckedClient, host: str) -> None:
    refused = ada.ask("PATCH", PATH, {"enabled": True, "host": host, "port": 0})
    assert refused.refusal == (400, "invalid_request")
    assert "an IP address of this computer" in refused.message
    assert ada.appliance.store.stored_settings.get_all() == {}


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
def test_what_cannot_be_done_is_as_it_was(ada: CheckedClient, host: str) -> None:
    """A port that is taken, an address of another computer."""
    stored = ada.appliance.store.stored_settings
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = {"enabled": True, "host": host, "port": taken.getsockname()[1]}
        refused = ada.ask("PATCH", PATH, asked)
        assert refused.refusal == (409, "conflict")
        assert refused.message.startswith("HTTPS cannot be enabled: ")
        told = ada.ask("GET", PATH)
        assert (told.data | {"certificate": None}, told.warnings, stored.get_all()) == (OFF, [], {})
        by_settings = {{"enabled": "server.https"}.get(name, f"server.https_{name}"): asked[name] for name in asked}
        assert ada.ask("PATCH", SETTINGS, {"log.requests": False, **by_settings}).refusal == (409, "conflict")
        assert (stored.get_all(), ada.appliance.settings.flag("log.requests")) == ({}, True)
    failed = [target for action, target, outcome in audited(ada) if outcome == "failure"]
    assert sorted(failed) == sorted([*by_settings, *by_settings, "log.requests"])
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for change in ({"port": taken.getsockname()[1]}, {"host": "192.0.2.7"}):
            assert ada.ask("PATCH", PATH, change).refusal == (409, "conflict")
            assert ada.ask("GET", PATH).data == on
            assert presented(on["url"]) == on["certificate"]["fingerprint"]


def test_what_is_wrong_with_a_request(ada: CheckedClient) -> None:
    for body, place in (
        ({"port": 65536}, "/port"),
        ({"port": "8443"}, "/port"),
        ({"enabled": 1}, "/enabled"),
        ({"host": "a" * 256}, "/host"),
        ({"on": True}, "/on"),
    ):
        refused = ada.ask("PATCH", PATH, body)
        assert (refused.refusal, refused.places) == ((400, "invalid_request"), [place])
    assert audited(ada) == []


def test_what_rules_is_told(tmp_path: Path) -> None:
    flags: dict[str, Value] = {"server.https": True, "server.https_host": "127.0.0.1", "server.https_port": 0}
    with served(tmp_path / "data", flags) as ada:
        refused = ada.ask("PATCH", PATH, {"enabled": False})
        assert refused.refusal == (409, "conflict")
        assert refused.message == "server.https is set by the command line, which takes precedence; change it there."
        told = ada.ask("GET", PATH).data
        assert presented(told["url"]) == told["certificate"]["fingerprint"]


# --- the certificate --------------------------------------------------------------------------------------------------


def test_rotated_while_it_is_used(ada: CheckedClient) -> None:
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    rotated = ada.ask("POST", ROTATE)
    new = rotated.data["certificate"]["fingerprint"]
    assert new != on["certificate"]["fingerprint"]
    assert rotated.data == {**on, "certificate": rotated.data["certificate"]}
    (warning,) = rotated.warnings
    assert f"--fingerprint {new}" in warning
    assert presented(on["url"]) == new
    assert audited(ada)[-1] == ("certificate.rotate", new, "success")


def test_imported_while_it_is_used(ada: CheckedClient) -> None:
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    own = issued(between(), since=NOW - timedelta(days=1), until=NOW + timedelta(days=90))
    given = {"certificate": "mine:\n" + (own.pem + between().pem).decode(), "privateKey": own.key.decode()}
    imported = ada.ask("PUT", CERTIFICATE, given)
    shown = imported.data["certificate"]
    assert (shown["fingerprint"], shown["selfSigned"], shown["trusted"]) == (fingerprint(own.pem), False, False)
    assert presented(on["url"]) == shown["fingerprint"]
    pinned, untrusted = imported.warnings
    assert ("sign in again" in pinned, "does not trust" in untrusted) == (True, True)
    assert audited(ada)[-1] == ("certificate.import", shown["fingerprint"], "success")
    assert files_of(ada).load() == (own.pem + between().pem, own.key)
    again = ada.ask("PUT", CERTIFICATE, given)
    assert again.warnings == [untrusted], "the same again is no news to those who pinned it"


def test_imported_before_it_is_used(ada: CheckedClient) -> None:
    soon = issued(since=NOW - timedelta(days=1), until=NOW + timedelta(days=3))
    imported = ada.ask("PUT", CERTIFICATE, pem(soon))
    assert imported.data == {**OFF, "certificate": imported.data["certificate"]}
    assert "expires on" in imported.warnings[0]
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    assert presented(on["url"]) == fingerprint(soon.pem)
    assert audited(ada)[0][0] == "certificate.import"


def test_what_is_no_certificate_changes_nothing(ada: CheckedClient) -> None:
    own = issued(since=NOW - timedelta(days=1), until=NOW + timedelta(days=90))
    ada.ask("PUT", CERTIFICATE, pem(own))
    before, rows = files_of(ada).load(), audited(ada)
    for body, place in (
        ({"certificate": own.key.decode(), "privateKey": own.pem.decode()}, "/certificate"),
        ({"certificate": own.der.decode("latin-1"), "privateKey": own.key.decode()}, "/certificate"),
        ({"certificate": own.pem.decode(), "privateKey": authority().key.decode()}, "/privateKey"),
        ({"certificate": "\N{SNOWMAN}", "privateKey": "\N{SNOWMAN}"}, "/certificate"),
        ({"certificate": own.pem.decode()}, "/privateKey"),
        ({"certificate": "a" * 65537, "privateKey": "b"}, "/certificate"),
    ):
        refused = ada.ask("PUT", CERTIFICATE, body)
        assert (refused.refusal, refused.places) == ((400, "invalid_request"), [place])
        assert "PRIVATE KEY-----\nM" not in refused.message
    assert (files_of(ada).load(), audited(ada)) == (before, rows)


def test_a_pair_that_does_not_fit_is_told_and_never_made_anew_by_itself(ada: CheckedClient) -> None:
    on = ada.ask("PATCH", PATH, {"enabled": True, **HERE}).data
    files_of(ada).key.write_bytes(authority().key)
    assert presented(on["url"]) == on["certificate"]["fingerprint"]
    assert ada.ask("PATCH", PATH, {"enabled": False}).data["enabled"] is False
    refused = ada.ask("PATCH", PATH, {"enabled": True})
    assert (refused.refusal, "key.pem is not the key" in refused.message) == ((409, "conflict"), True)
    rotated = ada.ask("POST", ROTATE)
    on = ada.ask("PATCH", PATH, {"enabled": True}).data
    assert presented(on["url"]) == rotated.data["certificate"]["fingerprint"]
    assert ada.ask("GET", PATH).warnings == []


def test_files_that_cannot_be_written_are_told_and_recorded_where_a_row_stood(ada: CheckedClient) -> None:
    ada.ask("POST", ROTATE)
    before, rows = files_of(ada).load(), audited(ada)
    files = files_of(ada)
    key = files.key.read_bytes()
    files.key.unlink()
    files.key.mkdir()
    refused = ada.ask("POST", ROTATE)
    assert refused.refusal == (409, "conflict")
    assert "The certificate could not be written" in refused.message
    assert "move it away" in refused.message
    files.key.rmdir()
    files.key.write_bytes(key)
    assert (files.load(), audited(ada)) == (before, rows)


def test_a_change_that_fails_after_its_row_has_a_second_one(ada: CheckedClient) -> None:
    """A file that is a mount cannot be replaced, which is seen last of all."""
    ada.ask("POST", ROTATE)
    key, given = files_of(ada).key, ada.appliance.folder / "given"
    given.write_bytes(key.read_bytes())
    with mounted("--bind", str(given), str(key)):
        before = files_of(ada).load()
        assert ada.ask("POST", ROTATE).refusal == (409, "conflict")
        assert files_of(ada).load() == before
    (_, first, done), (_, second, failed) = audited(ada)[-2:]
    assert (first, done, failed) == (second, "success", "failure")
