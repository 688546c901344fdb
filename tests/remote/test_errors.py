"""What real servers say, word for word: the fault it is, and that its sentence names a fix and nothing of the reply."""

import errno
import re
import socket
import ssl
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from mailbox_appliance.remote.errors import (
    FAULTS,
    FaultKind,
    ServerName,
    fault_name_of_reply,
    fault_of_reply,
    lookup_fault,
    named_fault,
    socket_fault,
)
from mailbox_appliance.remote.imap.connection import fault_of_refusal
from mailbox_appliance.remote.net.connect import tls_fault


@dataclass(frozen=True)
class Said:
    """A reply of `replies.txt`, and the fault it is."""

    text: str
    server: ServerName
    name: str
    later: bool
    source: str


def read() -> list[Said]:
    lines = Path(__file__).with_name("replies.txt").read_text().splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    said = []
    for text, meaning in zip(lines[::2], lines[1::2], strict=True):
        words, source = meaning.split("  -- ")
        server, name, *later = words.split()
        said.append(Said(text.replace("\\n", "\n"), cast("ServerName", server), name, bool(later), source))
    return said


ALL = read()
#: What is no password's fault where there was none.
TOKENS: list[tuple[ServerName, str, str, str]] = [
    ("imap", '{"status":"400","schemes":"Bearer","scope":"https://mail.google.com/"}', "", "token_refused"),
    ("imap", "[AUTHENTICATIONFAILED] Invalid credentials (Failure)", "imap.gmail.com", "token_refused"),
    ("imap", "AUTHENTICATE failed.", "outlook.office365.com", "token_refused"),
    ("smtp", "535 5.7.3 Authentication unsuccessful [X.prod.outlook.com]", "smtp.office365.com", "token_refused"),
    ("smtp", "535 5.7.139 Authentication unsuccessful, basic authentication is disabled.", "", "smtp_auth_disabled"),
    ("smtp", "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled", "", "smtp_auth_disabled"),
    ("imap", "[UNAVAILABLE] Temporary authentication failure.", "", "server_down"),
]  # fmt: skip
#: What a provider says to every wrong password, and which it takes.
BY_HOST: list[tuple[ServerName, str, str, str]] = [
    ("imap", "[AUTHENTICATIONFAILED] LOGIN Invalid credentials", "imap.mail.yahoo.com", "app_password_required"),
    ("imap", "[AUTHENTICATIONFAILED] Invalid credentials (Failure)", "imap.gmail.com", "app_password_required"),
    ("smtp", "535 5.7.8 Username and Password not accepted.", "smtp.gmail.com", "app_password_required"),
    ("imap", "[AUTHENTICATIONFAILED] Authentication Failed", "imap.mail.me.com", "app_password_required"),
    ("imap", "Incorrect username or password.", "imap.fastmail.com.", "app_password_required"),
    ("smtp", "535 5.7.8 Error: authentication failed:", "smtp.mail.me.com", "app_password_required"),
    ("imap", "LOGIN failed.", "outlook.office365.com", "basic_auth_disabled"),
    ("imap", "LOGIN failed.", "mail.example.org", "wrong_password"),
    ("imap", "[AUTHENTICATIONFAILED] LOGIN Invalid credentials", "imap.notme.com", "wrong_password"),
]
UNKNOWN: list[tuple[ServerName, str, bool]] = [
    ("imap", "[NONEXISTENT] Unknown Mailbox: Wrong password", True),  # a folder's name says nothing of the login
    ("imap", "Mailbox doesn't exist: Too many login attempts", True),
    ("smtp", "550 5.1.1 <invalid.password@example.org>: Recipient address rejected", True),
    ("smtp", "250 2.0.0 OK", False),
    ("graph", "404 ErrorItemNotFound The specified object was not found in the store.", False),
    ("imap", "", False),
]
KINDS: dict[FaultKind, set[str]] = {
    # What may pass by itself must never be taken for a login that somebody has to mend.
    "throttled": {"too_many_connections", "too_many_logins", "rate_limited"},
    "refused": {"server_down", "oauth_app_refused", "quota_exceeded", "sending_limit", "mailbox_missing"},
    "login_refused": {
        "wrong_password",
        "app_password_required",
        "access_revoked",
        "access_expired",
        "consent_required",
    },
}


def test_there_are_enough_of_each_kind() -> None:
    assert len(ALL) >= 80
    counts = Counter(said.server for said in ALL)
    assert (counts["imap"] >= 20, counts["smtp"] >= 20, counts["oauth"] >= 20, counts["graph"] >= 5) == (True,) * 4
    assert all(said.source for said in ALL)


@pytest.mark.parametrize("said", ALL, ids=lambda said: said.text[:40])
def test_every_reply(said: Said) -> None:
    assert fault_name_of_reply(said.server, said.text, later=said.later) == said.name, said.source
    made = fault_of_reply(said.server, said.text, later=said.later)
    assert made is not None
    assert (made.name, made.server, made.kind) == (said.name, said.server, FAULTS[said.name].kind)


@pytest.mark.parametrize(("server", "text", "host", "name"), TOKENS)
def test_a_login_by_token(server: ServerName, text: str, host: str, name: str) -> None:
    assert fault_name_of_reply(server, text, host=host, by_token=True) == name


@pytest.mark.parametrize(("server", "text", "host", "name"), BY_HOST)
def test_what_a_provider_means(server: ServerName, text: str, host: str, name: str) -> None:
    assert fault_name_of_reply(server, text, host=host) == name


@pytest.mark.parametrize(("server", "text", "later"), UNKNOWN)
def test_what_tells_nothing(server: ServerName, text: str, later: bool) -> None:
    assert fault_name_of_reply(server, text, later=later) is None


def test_only_our_own_words_reach_anybody() -> None:
    for said in ALL:
        made = fault_of_reply(said.server, said.text, later=said.later)
        assert made is not None
        told = f"{made} {made.reason} {made.args}"
        numbers = set(re.findall(r"\d{3,}|https?:\S+|AADSTS\d+", said.text)) - {"465", "587", "993"}
        assert not [each for each in numbers if each in told]


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_a_sentence_and_a_fix(name: str) -> None:
    made = named_fault(name, "imap")
    sentences = re.findall(r"[^.]+[.]", made.reason)
    assert made.reason.endswith(".")
    assert "{" not in made.reason
    assert len(made.reason) < 300
    assert len(sentences) >= 2 or name in {"tls_too_old", "imap_disabled"}, made.reason


def test_every_fault_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "mailbox-faults.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(FAULTS)


def test_what_passes_by_itself_is_no_refused_login() -> None:
    for kind, names in KINDS.items():
        assert {FAULTS[name].kind for name in names} == {kind}


def test_a_reply_without_end_costs_nothing() -> None:
    for text in ("a " * 500_000, "535 5.7.139 " * 100_000, "invalid_grant " * 100_000, "too many " * 200_000):
        for server in ("imap", "smtp", "oauth", "graph"):
            fault_name_of_reply(server, text)


# --- where a connection ends before a reply ---


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


def handshake(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


IN_2026, IN_1970 = 1_795_000_000.0, 3600.0


@pytest.mark.parametrize(
    ("error", "now", "name"),
    [
        (verification(62), IN_2026, "certificate_name"),  # X509_V_ERR_HOSTNAME_MISMATCH
        (verification(64), IN_2026, "certificate_name"),  # X509_V_ERR_IP_ADDRESS_MISMATCH
        (verification(10), IN_2026, "certificate_expired"),  # X509_V_ERR_CERT_HAS_EXPIRED
        (verification(9), IN_2026, "certificate_not_yet_valid"),  # X509_V_ERR_CERT_NOT_YET_VALID
        (verification(9), IN_1970, "clock_skew"),  # a small computer without a clock of its own
        (verification(18), IN_2026, "certificate_untrusted"),  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
        (verification(20), IN_1970, "certificate_untrusted"),  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        (verification(0x800B010F), IN_2026, "certificate_name"),  # Windows
        (verification(-67602), IN_2026, "certificate_name"),  # macOS
        (verification(0x800B0101), IN_2026, "certificate_expired"),
        (verification(-67818), IN_2026, "certificate_expired"),
        (verification(-67819), IN_2026, "certificate_not_yet_valid"),
        (verification(0x800B0109), IN_2026, "certificate_untrusted"),
        (verification(-67843), IN_2026, "certificate_untrusted"),
        (handshake("WRONG_VERSION_NUMBER"), IN_2026, "wrong_port"),
        (handshake("TLSV1_ALERT_PROTOCOL_VERSION"), IN_2026, "tls_too_old"),
        (handshake("UNSUPPORTED_PROTOCOL"), IN_2026, "tls_too_old"),
    ],
)
def test_no_tls(error: ssl.SSLError, now: float, name: str) -> None:
    made = tls_fault("imap", error, lambda: now)
    assert (made.name, made.kind) == (name, "tls")


@pytest.mark.parametrize(
    ("error", "name", "kind"),
    [
        (TimeoutError(), "port_blocked", "timeout"),
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), "connection_refused", "unreachable"),
        (OSError(errno.EHOSTUNREACH, ""), "network_down", "unreachable"),
        (OSError(errno.ENETUNREACH, ""), "network_down", "unreachable"),
        (PermissionError(errno.EPERM, ""), "firewall", "unreachable"),
        (ConnectionResetError(errno.ECONNRESET, ""), None, "disconnected"),
    ],
)
def test_no_connection(error: OSError, name: str | None, kind: FaultKind) -> None:
    made = socket_fault("smtp", error)
    assert (made.name, made.kind) == (name, kind)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (socket.gaierror(socket.EAI_NONAME, ""), "host_unknown"),
        (socket.gaierror(socket.EAI_AGAIN, ""), "dns_down"),
        (UnicodeError(), "host_unknown"),
    ],
)
def test_no_address(error: Exception, name: str) -> None:
    assert lookup_fault("imap", error).name == name


@pytest.mark.parametrize(
    ("said", "by_token", "name", "code"),
    [
        ("b'[AUTHENTICATIONFAILED] Invalid credentials (Failure)'", False, "wrong_password", "AUTHENTICATIONFAILED"),
        ("b'LOGIN failed.'", False, "basic_auth_disabled", None),
        ("AUTHENTICATE failed.", True, "token_refused", None),
        ("[ALERT] Application-specific password required (Failure)", False, "app_password_required", "ALERT"),
        ("LOGIN not now", False, None, None),
    ],
)
def test_a_login_that_imap_refuses(said: str, by_token: bool, name: str | None, code: str | None) -> None:
    made = fault_of_refusal(Exception(said), "login_refused", "No.", host="outlook.office365.com", by_token=by_token)
    assert (made.name, made.kind, made.code) == (name, "login_refused", code)


def test_what_a_folder_is_called_tells_nothing() -> None:
    made = fault_of_refusal(Exception("[NONEXISTENT] Unknown Mailbox: Server unavailable"))
    assert (made.name, made.kind, made.code) == (None, "refused", "NONEXISTENT")
