"""Logging in with an access token: for real at Dovecot and Postfix, and what else servers do with a refused one."""

import base64
import dataclasses
import json
import socket
from collections.abc import Callable

import pytest

from mailbox_appliance.model.accounts import Connection, Endpoint
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.login_check import SignInFailed, check_logins
from mailbox_appliance.remote.sasl import TokenLogin
from mailbox_appliance.remote.smtp import SmtpConnection
from tests.remote.odd_server import Peer, odd_server
from tests.servers.dovecot import MailServer

#: What ends the exchange after a refusal: nothing, or one character (RFC 7628 3.2.3).
ACKNOWLEDGED = [("XOAUTH2", ""), ("OAUTHBEARER", "AQ==")]
SAYS_NO = base64.b64encode(json.dumps({"status": "401", "schemes": "bearer", "scope": "mail"}).encode()).decode()


def endpoint(port: int, token: str = "a-token", user: str = "ada@example.test") -> Endpoint:
    return Endpoint("127.0.0.1", port, "none", user, "not-the-password", token)


def connection(server: MailServer, user: str, token: str) -> Connection:
    return Connection(
        user,
        Endpoint("localhost", server.imaps_port, "tls", user, "", token),
        Endpoint("localhost", server.submission_port, "starttls", user, "", token),
    )


# --- for real ---


# One token that goes with the command (RFC 4954 4), and one that is asked for.
@pytest.mark.parametrize(("mechanism", "length"), [("XOAUTH2", 40), ("OAUTHBEARER", 2400), ("XOAUTH2", 2400)])
def test_dovecot_and_postfix_take_a_token_and_refuse_another(
    mail_server: MailServer, monkeypatch: pytest.MonkeyPatch, mechanism: str, length: int
) -> None:
    user = mail_server.fresh_user()
    only(monkeypatch, mechanism)
    good = connection(mail_server, user, mail_server.tokens.give(user, length))
    checked = check_logins(good, ca_file=str(mail_server.ca_file), timeout=10)
    assert {folder.path for folder in checked.folders} >= {"INBOX", "Sent"}
    of_another = mail_server.tokens.give("bob@example.test", length)
    wrong = connection(mail_server, user, "x" * length if mechanism == "XOAUTH2" else of_another)
    with pytest.raises(SignInFailed) as caught:
        check_logins(wrong, ca_file=str(mail_server.ca_file), timeout=10)
    told = [(fault.server, fault.kind, fault.name) for fault in caught.value.faults]
    assert told == [("imap", "login_refused", "token_refused"), ("smtp", "login_refused", "token_refused")]


def only(monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """Let us see one mechanism alone of those that are offered."""
    whole = TokenLogin.__init__

    def narrow(self: TokenLogin, endpoint: Endpoint, offered: list[str], server: object) -> None:
        assert mechanism in offered
        whole(self, endpoint, {mechanism}, server)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenLogin, "__init__", narrow)


# --- what is said ---


def said(mechanism: str, user: str = "a=b,c@example.test") -> bytes:
    first = TokenLogin(endpoint(1, user=user), {mechanism, "PLAIN"}, "imap").next_response()
    assert first is not None
    return first


def test_what_is_said_is_as_the_documents_say() -> None:
    assert said("XOAUTH2") == b"user=a=b,c@example.test\x01auth=Bearer a-token\x01\x01"
    assert said("OAUTHBEARER") == b"n,a=a=3Db=2Cc@example.test,\x01auth=Bearer a-token\x01\x01"


def test_the_standard_one_is_taken_where_both_are_offered() -> None:
    assert TokenLogin(endpoint(1), {"XOAUTH2", "OAUTHBEARER"}, "smtp").mechanism == "OAUTHBEARER"


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "end\x01"])
def test_a_token_that_is_none_is_never_sent(token: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        TokenLogin(endpoint(1, token), {"XOAUTH2"}, "imap")
    assert caught.value.kind == "malformed"


# --- refusals ---


def imap_fault(capabilities: str, part: Callable[[Peer], object]) -> RemoteFault:
    def whole(peer: Peer) -> None:
        peer.say("* OK hello")
        peer.answer(f"* CAPABILITY IMAP4rev1 {capabilities}")
        part(peer)
        peer.until_gone()

    with odd_server(whole) as port, pytest.raises(RemoteFault) as caught:
        ImapMailbox.open(endpoint(port), ca_file="", timeout=5)
    return caught.value


def smtp_fault(mechanisms: str, part: Callable[[Peer], None]) -> RemoteFault:
    def whole(peer: Peer) -> None:
        peer.say("220 hello")
        assert peer.hear().startswith("ehlo")
        peer.say("250-hello", f"250 AUTH {mechanisms}")
        part(peer)
        peer.until_gone()

    with odd_server(whole) as port, pytest.raises(RemoteFault) as caught:
        SmtpConnection.open(endpoint(port), ca_file="", timeout=5)
    return caught.value


@pytest.mark.parametrize(("mechanism", "acknowledgement"), ACKNOWLEDGED)
def test_imap_hears_the_answer_that_comes_after_the_challenge(mechanism: str, acknowledgement: str) -> None:
    def part(peer: Peer) -> None:
        tag, _, command = peer.hear().partition(" ")
        assert command == f"AUTHENTICATE {mechanism}"
        peer.say("+ ")
        assert b"Bearer a-token" in base64.b64decode(peer.hear())
        peer.say(f"+ {SAYS_NO}")
        assert peer.hear() == acknowledgement
        peer.say(f"{tag} NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)")

    fault = imap_fault(f"AUTH=PLAIN AUTH={mechanism}", part)
    assert (fault.kind, fault.name) == ("login_refused", "token_refused")


@pytest.mark.parametrize(("mechanism", "acknowledgement"), ACKNOWLEDGED)
def test_smtp_hears_the_answer_that_comes_after_the_challenge(mechanism: str, acknowledgement: str) -> None:
    def part(peer: Peer) -> None:
        assert peer.hear().startswith(f"AUTH {mechanism} ")
        peer.say(f"334 {SAYS_NO}")
        assert peer.hear() == acknowledgement
        peer.say("535-5.7.8 Username and Password not accepted. For more information, go to", "535 5.7.8 there")

    fault = smtp_fault(f"LOGIN PLAIN {mechanism}", part)
    assert (fault.kind, fault.name) == ("login_refused", "token_refused")
    assert fault.reply is not None
    assert fault.reply.enhanced == "5.7.8"


def test_a_refusal_without_a_challenge_is_heard_too() -> None:
    """As Exchange Online refuses."""

    def imap(peer: Peer) -> None:
        tag = peer.hear().partition(" ")[0]
        peer.say("+ ")
        peer.hear()
        peer.say(f"{tag} NO AUTHENTICATE failed.")

    says = "535 5.7.3 Authentication unsuccessful [AM0PR01CA0001.eurprd01.prod.exchangelabs.com]"
    smtp = smtp_fault("LOGIN XOAUTH2", lambda peer: peer.reply(says))
    for fault in (imap_fault("AUTH=XOAUTH2 SASL-IR", imap), smtp):
        assert (fault.kind, fault.name) == ("login_refused", "token_refused")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("NO [UNAVAILABLE] Temporary failure", "refused"),
        ("NO [LIMIT] Too many simultaneous connections", "throttled"),
        ("NO [INUSE] locked", "throttled"),
    ],
)
def test_what_passes_is_no_refused_token(answer: str, kind: str) -> None:
    assert imap_fault("AUTH=XOAUTH2", lambda peer: peer.answer(status=answer)).kind == kind


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("454 4.7.0 Temporary authentication failure", "refused"),
        ("454 4.7.0 Cannot authenticate due to temporary system problem. Try again later.", "refused"),
        ("421 4.7.0 Try again later, closing connection.", "refused"),
        ("454 4.7.0 Authentication failed", "refused"),
        ("454 4.7.0 Too many login attempts, please try again later.", "throttled"),
    ],
)
def test_what_passes_is_no_refused_token_at_smtp_either(reply: str, kind: str) -> None:
    assert smtp_fault("XOAUTH2", lambda peer: peer.reply(reply)).kind == kind


def test_a_tenant_without_smtp_is_told_by_its_name() -> None:
    says = "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant. Visit us"
    fault = smtp_fault("LOGIN XOAUTH2", lambda peer: peer.reply(says))
    assert (fault.kind, fault.name) == ("login_refused", "smtp_auth_disabled")


def test_no_password_is_shown_where_no_token_is_taken() -> None:
    def nothing(_: Peer) -> None:
        """Nothing may come."""

    heard = list[bytes]()

    def smtp(peer: Peer) -> None:
        heard.append(peer.hear().encode())

    for fault in (imap_fault("AUTH=PLAIN", nothing), smtp_fault("PLAIN LOGIN", smtp)):
        assert fault.kind == "unsupported"
        assert "sign-in" in fault.reason
    assert heard == [b""]


def test_a_server_that_goes_on_asking_is_left() -> None:
    def imap(peer: Peer) -> None:
        peer.hear()
        for expected in ("dXNl", "", "*"):
            peer.say(f"+ {SAYS_NO}")
            assert peer.hear().startswith(expected)
        peer.say(f"+ {SAYS_NO}")

    def smtp(peer: Peer) -> None:
        peer.hear()
        for expected in ("", "*"):
            peer.say(f"334 {SAYS_NO}")
            assert peer.hear() == expected
        peer.say(f"334 {SAYS_NO}")

    assert imap_fault("AUTH=XOAUTH2", imap).kind == "malformed"
    assert smtp_fault("XOAUTH2", smtp).kind == "malformed"


def test_a_lost_connection_is_no_refused_token() -> None:
    def part(peer: Peer) -> None:
        peer.reply("+ ")
        peer.hear()
        peer.connection.shutdown(socket.SHUT_WR)

    assert imap_fault("AUTH=XOAUTH2", part).kind == "disconnected"


@pytest.mark.parametrize(
    ("user", "token"), [("ada\x01auth=Bearer b", "a-token"), ("ada", "a-token\x01"), ("ada", "a b")]
)
def test_what_would_break_out_of_the_answer_is_never_sent(user: str, token: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        TokenLogin(endpoint(1, token, user), frozenset({"XOAUTH2"}), "imap")
    assert (caught.value.kind, token in caught.value.reason) == ("malformed", False)


def test_neither_token_nor_challenge_shows_in_a_fault() -> None:
    fault = smtp_fault("XOAUTH2", lambda peer: peer.reply(f"334 {SAYS_NO}", "535 5.7.8 secret words of theirs"))
    shown = repr([fault, fault.reason, fault.reply, dataclasses.asdict(fault.reply) if fault.reply else None])
    assert "a-token" not in shown
    assert "theirs" not in shown
    assert "a-token" not in repr(endpoint(1))
