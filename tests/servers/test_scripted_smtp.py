"""The scripted SMTP server does what it is told, seen by smtplib."""

import smtplib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from tests.servers.certificates import server_context
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import CLOSE, DROP, Action, Delay, Keep, Lose, Stall, Step

MESSAGE = b"Message-ID: <one@example.test>\r\nSubject: dots\r\n\r\n.\r\n..two\r\nend\r\n"
ALICE, BOB = "alice@example.test", "bob@example.test"


def send(server: ScriptedSmtp, *recipients: str, message: bytes = MESSAGE) -> str:
    """Send a message, and say how that ended: `ok`, or the reply code, or `lost` for a connection that broke."""
    try:
        with smtplib.SMTP(server.host, server.port, timeout=10) as client:
            client.login(ALICE, "secret")
            client.sendmail(ALICE, recipients or (BOB,), message)
    except smtplib.SMTPServerDisconnected:
        return "lost"
    except smtplib.SMTPRecipientsRefused as refused:
        return str(next(iter(refused.recipients.values()))[0])
    except smtplib.SMTPResponseException as refused:
        return str(refused.smtp_code)
    except OSError:
        return "lost"
    return "ok"


def test_keeps_a_message_byte_for_byte(scripted_smtp: ScriptedSmtp) -> None:
    assert send(scripted_smtp, BOB, "carol@example.test") == "ok"
    [kept] = scripted_smtp.messages
    assert (kept.sender, kept.recipients, kept.source) == (ALICE, (BOB, "carol@example.test"), MESSAGE)
    assert scripted_smtp.accepted("<one@example.test>") == 1
    assert scripted_smtp.accepted("two@example.test") == 0
    assert scripted_smtp.count("reply") == 1


@pytest.mark.parametrize(
    ("step", "action", "outcome", "kept"),
    [
        ("connect", "421 4.3.2 closing", "421", 0),
        ("connect", DROP, "lost", 0),
        ("ehlo", DROP, "lost", 0),
        ("auth", "535 5.7.8 no", "535", 0),
        ("auth", CLOSE, "lost", 0),
        ("mail", "451 4.3.0 later", "451", 0),
        ("mail", DROP, "lost", 0),
        ("rcpt", "550 5.1.1 no", "550", 0),
        ("rcpt", CLOSE, "lost", 0),
        ("data", "554 5.6.0 no", "554", 0),
        ("data", DROP, "lost", 0),
        ("body", DROP, "lost", 0),
        ("dot", DROP, "lost", 0),
        ("dot", "451 4.3.0 later", "451", 0),
        ("dot", Delay(0.01), "ok", 1),
        ("reply", "250 2.0.0 other words", "ok", 1),
        ("reply", "451 4.3.0 later", "451", 0),
        ("reply", "552 5.3.4 too big", "552", 0),
        ("reply", Keep(DROP), "lost", 1),
        ("reply", Keep("421 4.3.2 closing"), "421", 1),
        ("reply", Keep(b"2x0 what\r\n"), "-1", 1),
        ("reply", Lose(DROP), "lost", 0),
        ("reply", Lose("250 2.0.0 a lie"), "ok", 0),
        ("reply", CLOSE, "lost", 0),
        ("quit", DROP, "ok", 1),
    ],
)
def test_step(scripted_smtp: ScriptedSmtp, step: Step, action: Action, outcome: str, kept: int) -> None:
    scripted_smtp.at(step, action)
    assert (send(scripted_smtp), scripted_smtp.accepted("one@example.test")) == (outcome, kept)


def test_a_list_is_used_up(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("rcpt", ["451 4.7.1 greylisted"])
    assert [send(scripted_smtp), send(scripted_smtp)] == ["451", "ok"]


def test_refuses_one_recipient(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.recipients[BOB] = "550 5.1.1 no"
    send(scripted_smtp, BOB, "carol@example.test")
    assert scripted_smtp.messages[0].recipients == ("carol@example.test",)


def test_asks_for_the_right_login(scripted_smtp: ScriptedSmtp) -> None:
    with smtplib.SMTP(scripted_smtp.host, scripted_smtp.port, timeout=10) as client:
        assert client.docmd("MAIL", "FROM:<alice@example.test>")[0] == 530
        with pytest.raises(smtplib.SMTPAuthenticationError):
            client.login(ALICE, "wrong")


def test_holds_fifty_clients_until_released(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("dot", Stall())
    outcomes: list[str] = []
    clients = [threading.Thread(target=lambda: outcomes.append(send(scripted_smtp))) for _ in range(50)]
    for client in clients:
        client.start()
    scripted_smtp.reached("dot", 50)
    assert (scripted_smtp.connected, scripted_smtp.messages) == (50, ())
    scripted_smtp.release("dot")
    for client in clients:
        client.join(10)
    assert (outcomes, scripted_smtp.accepted("one@example.test")) == (["ok"] * 50, 50)


@pytest.mark.parametrize(
    ("action", "kept"), [(Keep(Stall()), 1), (Stall(), 1), (Stall(then=DROP), 0), (Lose(Stall()), 0)]
)
def test_keeps_before_it_stalls_at_the_reply(scripted_smtp: ScriptedSmtp, action: Action, kept: int) -> None:
    scripted_smtp.at("reply", action)
    client = threading.Thread(target=send, args=(scripted_smtp,))
    client.start()
    wait_until(lambda: scripted_smtp.held("reply") == 1, lambda: "nobody is held", timeout=10)
    assert scripted_smtp.accepted("one@example.test") == kept
    scripted_smtp.release()
    client.join(10)
    assert (client.is_alive(), scripted_smtp.accepted("one@example.test")) == (False, kept)


def test_says_which_step_was_not_reached(scripted_smtp: ScriptedSmtp) -> None:
    with pytest.raises(AssertionError, match="dot was reached 0 times"):
        scripted_smtp.reached("dot", timeout=0.01)


def test_a_drop_is_a_reset(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("ehlo", DROP)
    with socket.create_connection((scripted_smtp.host, scripted_smtp.port), timeout=10) as client:
        client.recv(100)
        client.sendall(b"EHLO x\r\n")
        with pytest.raises(ConnectionResetError):
            client.recv(100)


def test_starttls(tmp_path: Path) -> None:
    server = ScriptedSmtp(tls=server_context(tmp_path)).start()
    with smtplib.SMTP("localhost", server.port, timeout=10) as client:
        client.starttls(context=ssl.create_default_context(cafile=str(tmp_path / "ca.pem")))
        client.login(ALICE, "secret")
        client.sendmail(ALICE, BOB, MESSAGE)
    server.stop()
    assert server.accepted("one@example.test") == 1
