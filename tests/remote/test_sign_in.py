"""Both logins are checked, and each failure is told."""

import dataclasses

import pytest

from mailbox_appliance.records import Connection, Endpoint
from mailbox_appliance.remote.sign_in import SignInFailed, check
from tests.servers.dovecot import MailServer


def connection(server: MailServer, user: str) -> Connection:
    return Connection(
        user,
        Endpoint("localhost", server.imaps_port, "tls", user, "secret"),
        Endpoint("localhost", server.submission_port, "starttls", user, "secret"),
    )


def test_both_are_fine(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    checked = check(connection(mail_server, user), ca_file=str(mail_server.ca_file), timeout=10)
    assert {folder.path for folder in checked.folders} >= {"INBOX", "Sent"}
    assert checked.capabilities.idle
    assert mail_server.messages(user) == []


@pytest.mark.parametrize(
    ("imap_password", "smtp_password", "faults"),
    [
        ("wrong", "secret", [("imap", "login_refused")]),
        ("secret", "wrong", [("smtp", "login_refused")]),
        ("wrong", "wrong", [("imap", "login_refused"), ("smtp", "login_refused")]),
    ],
)
def test_every_fault_is_told(
    mail_server: MailServer, imap_password: str, smtp_password: str, faults: list[tuple[str, str]]
) -> None:
    right = connection(mail_server, "alice@example.test")
    wrong = Connection(
        right.email,
        dataclasses.replace(right.imap, password=imap_password),
        dataclasses.replace(right.smtp, password=smtp_password),
    )
    with pytest.raises(SignInFailed) as caught:
        check(wrong, ca_file=str(mail_server.ca_file), timeout=10)
    assert [(fault.server, fault.kind) for fault in caught.value.faults] == faults
    assert "secret" not in str(caught.value)
