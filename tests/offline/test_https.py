"""HTTPS while no appliance is running: changes take effect at the next start and are in the audit log."""

from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.errors import CertificateUnusable, Conflict, Invalid, StoreUnusable
from mailbox_appliance.offline.store import call, https_fingerprint
from mailbox_appliance.store.store import Store
from mailbox_appliance.tls.files import CertificateFiles
from tests.tls.issued import FAR, NOW, issued

HERE = {"enabled": True, "host": "127.0.0.1", "port": 0}


def stored(data_dir: Path) -> tuple[dict[str, object], list[tuple[str, str, str]]]:
    """Return the stored settings and the rows of the audit log, oldest first."""
    store = Store.open(data_dir)
    try:
        events, _ = store.audit.list(None, 100)
        rows = [(str(one.action), str(one.outcome), str(one.actor.kind)) for one in reversed(events)]
        return store.stored_settings.get_all(), rows
    finally:
        store.close()


def test_a_fresh_directory_is_got_ready(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = https_fingerprint(data)
    shown, (warning,) = first["data"], first["warnings"]
    assert (f"created now in {data / 'tls'}" in warning, "holds no store yet" in warning) == (True, True)
    assert [path.name for path in data.iterdir()] == ["tls"]
    assert https_fingerprint(data) == {"data": shown}
    told = call(data, "update_https", HERE)
    assert told == {"data": {**HERE, "url": None, "certificate": shown}}
    assert call(data, "get_https") == told
    values, rows = stored(data)
    assert values == {"server.https": True, "server.https_host": "127.0.0.1", "server.https_port": 0}
    assert rows == [("settings.update", "success", "local")] * 3


def test_a_certificate_is_made_where_there_is_none(tmp_path: Path) -> None:
    made = call(tmp_path, "update_https", {"enabled": True})["data"]["certificate"]
    assert https_fingerprint(tmp_path)["data"] == made
    rotated = call(tmp_path, "rotate_certificate")
    assert rotated["data"]["certificate"]["fingerprint"] != made["fingerprint"]
    assert "sign in again" in rotated["warnings"][0]
    assert call(tmp_path, "update_https", {"enabled": False})["data"] == {**rotated["data"], "enabled": False}
    assert [row[0] for row in stored(tmp_path)[1]] == [
        *("certificate.make", "settings.update", "certificate.rotate", "settings.update"),
    ]


def test_another_one_for_a_store_is_told_as_made_now(tmp_path: Path) -> None:
    call(tmp_path, "update_https", {"enabled": True})
    for path in CertificateFiles(tmp_path).paths():
        path.unlink()
    (warning,) = https_fingerprint(tmp_path)["warnings"]
    assert ("created now" in warning, "pinned" in warning, "no store yet" in warning) == (True, True, False)
    assert https_fingerprint(tmp_path).keys() == {"data"}


def test_one_of_the_operators_own(tmp_path: Path) -> None:
    own = issued(since=NOW.replace(year=2020), until=FAR)
    given: dict[str, Any] = {"certificate": own.pem.decode(), "privateKey": own.key.decode()}
    assert call(tmp_path, "put_certificate", given)["data"]["certificate"]["names"] == (
        "localhost",
        "mail.example.org",
    )
    assert CertificateFiles(tmp_path).load() == (own.pem, own.key)
    with pytest.raises(Invalid, match="The two files are swapped"):
        call(tmp_path, "put_certificate", {"certificate": given["privateKey"], "privateKey": given["certificate"]})
    assert CertificateFiles(tmp_path).load() == (own.pem, own.key)
    assert stored(tmp_path)[1] == [("certificate.import", "success", "local")]


def test_nothing_is_made_to_show_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="there is no store"):
        call(tmp_path, "get_https")
    with pytest.raises(StoreUnusable, match="there is no store"):
        call(tmp_path, "update_https", {"enabled": False})
    assert list(tmp_path.iterdir()) == []


def test_what_rules_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILBOX_APPLIANCE_SERVER_HTTPS_PORT", "9443")
    with pytest.raises(Conflict, match=r"server\.https_port is set by MAILBOX_APPLIANCE_SERVER_HTTPS_PORT"):
        call(tmp_path, "update_https", HERE)
    assert call(tmp_path, "update_https", {"enabled": True})["data"]["port"] == 9443
    (tmp_path / "config.toml").write_text("[server]\nhttps = true\n")
    assert call(tmp_path, "update_https", {"enabled": False})["data"]["enabled"] is False
    assert call(tmp_path, "update_https", {"enabled": None})["data"]["enabled"] is True


def test_a_pair_that_does_not_fit_is_told(tmp_path: Path) -> None:
    call(tmp_path, "update_https", {"enabled": True})
    files = CertificateFiles(tmp_path)
    files.key.write_bytes(issued(key="p256/another").key)
    with pytest.raises(CertificateUnusable, match="is not the key"):
        https_fingerprint(tmp_path)
    told = call(tmp_path, "get_https")
    assert (told["data"]["certificate"], "is not the key" in told["warnings"][0]) == (None, True)
    files.key.unlink()
    with pytest.raises(CertificateUnusable, match=r"key\.pem is missing"):
        https_fingerprint(tmp_path)
    with pytest.raises(Conflict, match=r"key\.pem is missing"):
        call(tmp_path, "update_https", {"enabled": True, "port": 1})
    assert not files.key.exists()
    assert call(tmp_path, "rotate_certificate")["data"]["certificate"] is not None


def test_an_expired_one_is_told_of(tmp_path: Path) -> None:
    old = issued(since=NOW.replace(year=2020), until=NOW.replace(year=2021))
    CertificateFiles(tmp_path).replace(old.pem, old.key)
    assert "expired on 2021-06-15" in https_fingerprint(tmp_path)["warnings"][0]
    assert "expired on 2021-06-15" in call(tmp_path, "update_https", {"enabled": True})["warnings"][0]
