"""Mail servers whose certificates are of an authority of one's own: `remote.ca_file` holds for every connection."""

from pathlib import Path

from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until


def test_where_authorities_are_private(tmp_path: Path, mail_server: MailServer) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(mail_server.ca_file.read_bytes())
    desk = Desk(tmp_path / "data", remote__ca_file=str(ca_file), sending__answer_within=20)
    user = mail_server.fresh_user()
    login = {"host": "localhost", "username": user, "password": "secret"}
    body = {
        "email": user,
        "imap": login | {"security": "tls", "port": mail_server.imaps_port},
        "smtp": login | {"security": "starttls", "port": mail_server.submission_port},
    }
    try:
        # Every kind of connection: the check, sync, requests, a send, its copy, the check of a reconnect.
        account = desk.ask("POST", "/accounts", body).data["id"]
        wait_until(lambda: desk.account(account)["status"] == "ready", lambda: str(desk.account(account)), 10)
        assert desk.ask("POST", f"/accounts/{account}/drafts", a_message()).status == 201
        assert desk.send(account, a_message(to=user)).data["status"] == "succeeded"
        mail_server.wait_for_messages(user, 1, "Sent")
        change = {"smtp": {"security": "tls", "port": mail_server.smtps_port}}
        assert desk.ask("POST", f"/accounts/{account}/reconnect", change).status == 200
        wait_until(lambda: desk.account(account)["status"] == "ready", lambda: str(desk.account(account)), 10)
        # Lost while serving: no connection without it, and the file is named.
        ca_file.unlink()
        refused = desk.ask("POST", f"/accounts/{account}/reconnect", {})
        assert (refused.status, refused.code) == (503, "provider_unavailable")
        assert f"{ca_file}, the file of the setting remote.ca_file, cannot be read" in str(refused.body)
        ca_file.write_text("nothing")
        refused = desk.ask("POST", f"/accounts/{account}/reconnect", {})
        assert "contains no certificate" in str(refused.body)
        ca_file.write_bytes(mail_server.ca_file.read_bytes())
        assert desk.ask("POST", f"/accounts/{account}/reconnect", {}).status == 200
    finally:
        desk.close()
