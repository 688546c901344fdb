"""Both logins are checked, and each failure is told."""

import dataclasses
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mailbox_appliance.model.accounts import Connection, Endpoint, Security
from mailbox_appliance.remote.login_check import ANSWER_AFTER, SignInFailed, check_logins
from tests.servers.certificates import server_context
from tests.servers.dovecot import MailServer
from tests.servers.listener import Listener


def connection(server: MailServer, user: str) -> Connection:
    return Connection(
        user,
        Endpoint("localhost", server.imaps_port, "tls", user, "secret"),
        Endpoint("localhost", server.submission_port, "starttls", user, "secret"),
    )


def test_both_are_fine(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    checked = check_logins(connection(mail_server, user), ca_file=str(mail_server.ca_file), timeout=10)
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
        check_logins(wrong, ca_file=str(mail_server.ca_file), timeout=10)
    assert [(fault.server, fault.kind) for fault in caught.value.faults] == faults
    assert "secret" not in str(caught.value)


def stranger(first: bytes = b"", each: bytes = b"", context: ssl.SSLContext | None = None) -> Listener:
    """A program at a loopback port that is no mail server: it says `first`, then `each` to every line; or hangs up."""

    def talk(connection: socket.socket) -> None:
        if first or each:
            connection.sendall(first)
            while connection.recv(1000):
                connection.sendall(each)

    return Listener(talk, "stranger", context)


@contextmanager
def strangers(folder: Path) -> Iterator[dict[str, tuple[int, Security]]]:
    """Ports of loopback where no mail server is, by what is there; and how they are asked."""
    with ExitStack() as opened:
        silent = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            closed = int(listener.getsockname()[1])
        made = {
            "hangs up": stranger(),
            "ssh": stranger(b"SSH-2.0-OpenSSH_9.6\r\n", b"no\r\n"),
            "ftp": stranger(b"220 ready\r\n", b"500 what?\r\n"),
            "too many": stranger(b"421 Too many connections\r\n", b"421 no\r\n"),
            "web": stranger(b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        }
        web = stranger(b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", server_context(folder))
        for each in (*made.values(), web):
            opened.enter_context(each)
        ports: dict[str, tuple[int, Security]] = {name: (each.port, "none") for name, each in made.items()}
        ports |= {"closed": (closed, "none"), "silent": (int(silent.getsockname()[1]), "none")}
        ports |= {"https": (web.port, "tls"), "plain, asked by TLS": (made["ssh"].port, "tls")}
        ports |= {"silent, asked by TLS": (int(silent.getsockname()[1]), "tls")}
        ports |= {"ftp, asked by STARTTLS": (made["ftp"].port, "starttls")}
        yield ports


def faults_at(port: int, security: Security, *, hides_cause: bool) -> tuple[list[tuple[object, ...]], float]:
    """The faults of both servers at one port, and after how many seconds they came."""
    endpoint = Endpoint("127.0.0.1", port, security, "eve", "secret")
    began = time.monotonic()
    with pytest.raises(SignInFailed) as caught:
        check_logins(Connection("eve@example.org", endpoint, endpoint), ca_file="", timeout=30, hides_cause=hides_cause)
    took = time.monotonic() - began
    return [(fault.server, fault.kind, fault.name, fault.reason) for fault in caught.value.faults], took


def test_near_ports_without_a_mail_server_are_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with strangers(tmp_path) as ports, ThreadPoolExecutor(len(ports)) as pool:
        asked = {name: pool.submit(faults_at, *where, hides_cause=True) for name, where in ports.items()}
        told = {name: outcome.result() for name, outcome in asked.items()}
    answers = {name: faults for name, (faults, _) in told.items()}
    assert [fault[:3] for fault in answers["closed"]] == [("imap", "unreachable", None), ("smtp", "unreachable", None)]
    assert {name for name, faults in answers.items() if faults != answers["closed"]} == set()
    # None is earlier than the others, and none waits for the timeout.
    assert {name for name, (_, took) in told.items() if not ANSWER_AFTER <= took < 25} == set()
    # The operator's log has the cause, without the address.
    logged = {(vars(one)["server"], vars(one)["fault"]) for one in caplog.records if "fault" in vars(one)}
    assert {("imap", "connection_refused"), ("smtp", "malformed"), ("imap", "timeout")} <= logged
    assert "127.0.0.1" not in caplog.text


def test_an_administrator_sees_the_cause_at_once(tmp_path: Path) -> None:
    with strangers(tmp_path) as ports:
        told = {name: faults_at(*ports[name], hides_cause=False) for name in ("closed", "ssh", "https", "ftp")}
    names = {name: [fault[1:3] for fault in faults] for name, (faults, _) in told.items()}
    assert names["closed"] == [("unreachable", "connection_refused")] * 2
    assert names["ssh"] == [("malformed", None)] * 2
    assert names["https"] == [("tls", "certificate_untrusted")] * 2
    assert names["ftp"][1] == ("refused", None)


def test_what_a_real_mail_server_refuses_is_told_to_everybody(mail_server: MailServer) -> None:
    right = connection(mail_server, mail_server.fresh_user())
    ca_file = str(mail_server.ca_file)
    assert check_logins(right, ca_file=ca_file, timeout=10, hides_cause=True).folders
    wrong = Connection(
        right.email,
        dataclasses.replace(right.imap, password="wrong"),
        dataclasses.replace(right.smtp, password="wrong"),
    )
    with pytest.raises(SignInFailed) as caught:
        check_logins(wrong, ca_file=ca_file, timeout=10, hides_cause=True)
    assert [fault.kind for fault in caught.value.faults] == ["login_refused", "login_refused"]
    # A certificate is looked at after STARTTLS, so a mail server it is.
    unknown = dataclasses.replace(right.smtp, host="127.0.0.1")
    with pytest.raises(SignInFailed) as caught:
        check_logins(Connection(right.email, right.imap, unknown), ca_file="", timeout=10, hides_cause=True)
    assert [(fault.server, fault.kind) for fault in caught.value.faults] == [("imap", "unreachable"), ("smtp", "tls")]
