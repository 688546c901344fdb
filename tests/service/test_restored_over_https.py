"""A restore of a backup from before HTTPS was enabled, requested over HTTPS, keeps the same address and certificate."""

import hashlib
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.mailboxes import wait_until
from tests.servers.running import RunningAppliance


def fingerprint(url: str) -> str:
    """Return the fingerprint of the certificate at this address."""
    parts = urlsplit(url)
    shown = ssl.get_server_certificate((parts.hostname or "", parts.port or 0))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()


def test_a_restore_leaves_https_as_it_is(tmp_path: Path) -> None:
    process = RunningAppliance(tmp_path / "data").start()
    try:
        process.set_up()
        backup = process.ask("POST", "/admin/backups", {}).data["id"]
        enabled = process.ask("PATCH", "/admin/https", {"enabled": True, "port": 0, "host": "127.0.0.1"})
        assert enabled.status == 200, enabled
        url, pin = enabled.data["url"], fingerprint(enabled.data["url"])
        assert enabled.data["certificate"]["fingerprint"] == f"sha256:{pin}"
        assert process.ask("POST", "/admin/restore", {"backupId": backup}).status == 202

        def is_restored() -> bool:
            answer = process.ask("GET", "/admin/audit-events?limit=1")
            return answer.status == 200 and answer.data["items"][0]["action"] == "backup.restore"

        wait_until(is_restored, lambda: json.dumps(process.ask("GET", "/admin/audit-events").body), 30)
        after = process.ask("GET", "/admin/https").data
        assert (after["enabled"], after["url"], fingerprint(url)) == (True, url, pin)
    finally:
        process.stop()
