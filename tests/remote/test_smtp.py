"""Submission, step by step, against a server that misbehaves at each of them."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.errors import RemoteFault, Reply
from mailbox_appliance.remote.smtp import SmtpConnection
from tests.remote.odd_server import Peer, odd_server
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import CLOSE, DROP, Action, Delay, Keep, Stall, Step

WIRE = b"Message-ID: <one@example.test>\r\nSubject: x\r\n\r\n.dotted\r\n..\r\n.\r\nend\r\n"


@contextmanager
def opened(
    port: int, *, username: str = "alice@example.test", timeout: float = 5, clock: Callable[[], float] = time.monotonic
) -> Iterator[SmtpConnection]:
    endpoint = Endpoint("127.0.0.1", port, "none", username, "secret")
    submission = SmtpConnection.open(endpoint, ca_file="", timeout=timeout, clock=clock)
    try:
        yield submission
    finally:
        submission.close()


def envelope(
    submission: SmtpConnection, *, size: int = len(WIRE), sender: str = "alice@example.test"
) -> Iterator[Reply]:
    """MAIL and one RCPT: their replies."""
    return submission.send_envelope(sender, ["bob@example.test"], size=size)


def enveloped(submission: SmtpConnection) -> SmtpConnection:
    assert list(envelope(submission)) == [Reply(250, "2.1.0"), Reply(250, "2.1.5")]
    return submission


def handed_over(submission: SmtpConnection) -> SmtpConnection:
    assert enveloped(submission).start_data() == Reply(354, None)
    submission.send_body(WIRE)
    return submission


def test_a_message_arrives_as_it_was(scripted_smtp: ScriptedSmtp) -> None:
    with opened(scripted_smtp.port) as submission:
        assert submission.extensions >= {"SIZE", "8BITMIME", "SMTPUTF8"}
        assert submission.max_size == 52428800
        handed_over(submission)
        scripted_smtp.reached("body")
        assert (scripted_smtp.count("dot"), scripted_smtp.messages) == (0, ())
        assert submission.send_final_dot(5) == Reply(250, "2.0.0")
        submission.quit()
    [message] = scripted_smtp.messages
    assert (message.source, message.sender) == (WIRE, "alice@example.test")
    assert message.recipients == ("bob@example.test",)
    assert message.parameters == (f"SIZE={len(WIRE)}",)
    assert scripted_smtp.count("quit") == 1


@pytest.mark.parametrize(
    ("wire", "received"),
    [
        (b"a: b\r\n\r\nno end", b"a: b\r\n\r\nno end\r\n"),
        (b".first\r\n", b".first\r\n"),
        (b"a: b\r\n\r\nbare\n.\nQUIT\nx\r\n", b"a: b\r\n\r\nbare\r\n.\r\nQUIT\r\nx\r\n"),  # a forged end
        (b"a: b\r\n\r\nbare\r.\rx\r\n", b"a: b\r\n\r\nbare\r\n.\r\nx\r\n"),
        (b"a: b\r\n\r\n" + b"." * 3 + b"\r\n" * 3, b"a: b\r\n\r\n...\r\n\r\n\r\n"),
    ],
)
def test_no_text_ends_a_message(scripted_smtp: ScriptedSmtp, wire: bytes, received: bytes) -> None:
    with opened(scripted_smtp.port) as submission:
        enveloped(submission).start_data()
        submission.send_body(wire)
        assert submission.send_final_dot(5).code == 250
    assert [message.source for message in scripted_smtp.messages] == [received]


@pytest.mark.parametrize(
    ("step", "says", "kind", "reply"),
    [
        ("connect", "421 4.3.2 busy", "refused", Reply(421, "4.3.2")),
        ("connect", "421 closing", "refused", Reply(421)),
        ("connect", "421 4.7.0 x Error: too many connections from 192.0.2.1", "throttled", Reply(421, "4.7.0")),
        ("connect", "421 4.7.28 unusual rate", "throttled", Reply(421, "4.7.28")),
        ("connect", "450 4.7.1 rate limit exceeded", "throttled", Reply(450, "4.7.1")),
        ("connect", "554 5.7.1 not you", "refused", Reply(554, "5.7.1")),
        ("connect", "hello there", "malformed", None),
        ("connect", "354 what", "refused", Reply(354)),
        ("connect", "220-one\r\n221 two", "malformed", None),
        ("connect", b"220 " + b"x" * 5000, "malformed", None),
        ("connect", b"220-x\r\n" * 100 + b"220 x\r\n", "malformed", None),
        ("connect", "999 no", "malformed", None),
        ("connect", "25", "malformed", None),
        ("connect", "\u06f2\u06f2\u06f0 digits", "malformed", None),
        ("connect", DROP, "disconnected", None),
        ("connect", CLOSE, "disconnected", None),
        ("connect", Stall(), "timeout", None),
        ("ehlo", "502 5.5.1 no", "refused", Reply(502, "5.5.1")),
        ("ehlo", "421 4.7.0 later", "refused", Reply(421, "4.7.0")),
        ("ehlo", DROP, "disconnected", None),
        ("auth", "535 5.7.8 wrong", "login_refused", Reply(535, "5.7.8")),
        ("auth", "534 5.7.9 too weak", "login_refused", Reply(534, "5.7.9")),
        ("auth", "535 5.7.139 off", "login_refused", Reply(535, "5.7.139")),
        ("auth", "454 4.7.0 later", "refused", Reply(454, "4.7.0")),
        ("auth", "421 4.7.0 later", "refused", Reply(421, "4.7.0")),
        ("auth", "454 4.7.0 Too many login attempts", "throttled", Reply(454, "4.7.0")),
        ("auth", "454 4.7.28 later", "throttled", Reply(454, "4.7.28")),
        ("auth", "451 4.3.0 later", "refused", Reply(451, "4.3.0")),
        ("auth", "250 well", "malformed", None),
        ("auth", Stall(), "timeout", None),
        ("auth", CLOSE, "disconnected", None),
    ],
)
def test_faults_before_the_envelope(
    scripted_smtp: ScriptedSmtp, step: Step, says: Action, kind: str, reply: Reply | None
) -> None:
    scripted_smtp.at(step, says)
    with pytest.raises(RemoteFault) as caught, opened(scripted_smtp.port, timeout=patience(says)):
        pass
    assert (caught.value.server, caught.value.kind, caught.value.reply) == ("smtp", kind, reply)
    assert "later" not in str(caught.value)


def patience(says: Action) -> float:
    """Seconds to wait for an answer: short where none will come."""
    return 0.2 if isinstance(says, Stall) else 10


STEPS: dict[Step, Callable[[SmtpConnection, float], Reply]] = {
    "mail": lambda s, _: next(envelope(s)),
    "rcpt": lambda s, _: list(envelope(s))[1],
    "data": lambda s, _: enveloped(s).start_data(),
    "dot": lambda s, seconds: handed_over(s).send_final_dot(seconds),
    "reply": lambda s, seconds: handed_over(s).send_final_dot(seconds),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("says", "outcome"),
    [
        ("550 5.1.1 no", Reply(550, "5.1.1")),
        ("451 later", Reply(451)),
        ("421 4.3.2 closing", Reply(421, "4.3.2")),
        ("250", Reply(250)),
        ("250-2.0.0 two\r\n250 2.0.0 lines", Reply(250, "2.0.0")),
        ("552 4.2.2 classes differ", Reply(552)),
        ("550 5.1.1x glued", Reply(550)),
        (DROP, "disconnected"),
        (CLOSE, "disconnected"),
        (Stall(), "timeout"),
        ("well", "malformed"),
        ("150 no such class", "malformed"),
        ("250 2.0.0 ok\r\nextra", None),
        ("250 2.0.0 ok\r\n250 2.0.0 and again", None),
    ],
)
def test_every_step_tells_what_the_server_said(
    scripted_smtp: ScriptedSmtp, step: Step, says: Action, outcome: Reply | str | None
) -> None:
    scripted_smtp.at(step, says)
    with opened(scripted_smtp.port, timeout=patience(says)) as submission:
        if outcome is None:  # what follows a reply unasked is not taken for the next one
            assert STEPS[step](submission, patience(says)) == Reply(250, "2.0.0")
            with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "malformed"):
                submission.reset()
        elif isinstance(outcome, Reply):
            assert STEPS[step](submission, patience(says)) == outcome
        else:
            with pytest.raises(RemoteFault, check=lambda fault: fault.kind == outcome):
                STEPS[step](submission, patience(says))
        submission.quit()


def test_a_dot_that_is_asked_for_more_is_malformed(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("reply", Keep("354 more"))
    with opened(scripted_smtp.port) as submission, pytest.raises(RemoteFault, check=lambda f: f.kind == "malformed"):
        handed_over(submission).send_final_dot(5)


def test_a_server_that_drips_does_not_hold_us() -> None:
    def part(peer: Peer) -> None:
        peer.connection.settimeout(0.05)
        for _ in range(200):
            peer.say(b"220-x\r\n" if peer.heard else b"2")
            try:
                if not peer.connection.recv(1):
                    return
            except TimeoutError:
                pass

    began = time.monotonic()
    slow = pytest.raises(RemoteFault, check=lambda f: f.kind == "timeout")
    with odd_server(part) as port, slow, opened(port, timeout=0.4):
        pass
    assert time.monotonic() - began < 8


def test_the_wait_for_the_reply_has_its_own_bound(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("reply", Stall())
    with opened(scripted_smtp.port, timeout=60) as submission:
        handed_over(submission)
        began = time.monotonic()
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "timeout"):
            submission.send_final_dot(0.2)
        assert 0.2 <= time.monotonic() - began < 30


def send_until_broken_off(submission: SmtpConnection) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:  # the reply comes when it comes; until then the server takes what we send
        submission.send_body(b"line\r\n")
        time.sleep(0.001)


def test_a_message_that_is_broken_off_early_brings_the_reply() -> None:
    def part(peer: Peer) -> None:
        peer.say("220 hi")
        peer.reply("250 me", "250 ok", "250 ok", "354 go", "552 5.3.4 too big")
        peer.until_gone()

    with odd_server(part) as port, opened(port, username="") as submission:
        assert [reply.code for reply in envelope(submission)] == [250, 250]
        submission.start_data()
        with pytest.raises(RemoteFault) as caught:
            send_until_broken_off(submission)
    assert (caught.value.kind, caught.value.reply) == ("refused", Reply(552, "5.3.4"))


def test_what_the_server_offers_is_used(scripted_smtp: ScriptedSmtp) -> None:
    with opened(scripted_smtp.port) as submission:
        for eight_bit in (False, True):
            list(
                submission.send_envelope(
                    "jürgen@x.test", ["bob@example.test"], size=3, smtputf8=True, eight_bit=eight_bit
                )
            )
            submission.start_data()
            submission.send_body(b"x\r\n")
            submission.send_final_dot(5)
        assert submission.accepted_count == 2
    parameters = [message.parameters for message in scripted_smtp.messages]
    assert parameters == [("SIZE=3", "SMTPUTF8"), ("SIZE=3", "BODY=8BITMIME", "SMTPUTF8")]


@pytest.mark.parametrize("needed", ["smtputf8", "eight_bit"])
def test_what_the_server_does_not_offer_is_not_asked_for(scripted_smtp: ScriptedSmtp, needed: str) -> None:
    scripted_smtp.extensions = ()
    with opened(scripted_smtp.port) as submission:
        assert submission.max_size is None
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            list(submission.send_envelope("a@example.test", ["b@example.test"], size=3, **{needed: True}))
        enveloped(submission)
    assert scripted_smtp.count("mail") == 1


def pipelining(peer: Peer, *replies: str) -> None:
    """A server that has the whole group before it says a word."""
    peer.say("220 hi")
    peer.hear()
    peer.say("250-me", "250 PIPELINING")
    heard = [peer.hear() for _ in replies]
    assert [each.split(":")[0] for each in heard] == ["MAIL FROM"] + ["RCPT TO"] * (len(replies) - 1)
    peer.say(*replies)
    peer.until_gone()


@pytest.mark.parametrize(
    "said", [("250 2.1.0 ok", "250 2.1.5 ok", "550 5.1.1 no"), ("553 no", "503 no", "503 no"), ("421 bye",) * 3]
)
def test_the_envelope_goes_out_together_where_the_server_takes_it_so(said: tuple[str, ...]) -> None:
    with odd_server(lambda peer: pipelining(peer, *said)) as port, opened(port, username="") as submission:
        replies = submission.send_envelope("a@example.test", ["b@example.test", "c@example.test"], size=3)
        assert [reply.code for reply in replies] == [int(each[:3]) for each in said]


def test_the_first_reply_may_have_less_time_than_the_others(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.at("rcpt", [Delay(0.5)])
    with opened(scripted_smtp.port) as submission:
        replies = submission.send_envelope("a@example.test", ["b@example.test"], size=3, first_within=0.2)
        assert [reply.code for reply in replies] == [250, 250]
        scripted_smtp.at("mail", [Stall()])
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "timeout"):
            list(submission.send_envelope("a@example.test", ["b@example.test"], size=3, first_within=0.2))
        assert not submission.is_ready()


def test_a_long_envelope_goes_out_in_groups(scripted_smtp: ScriptedSmtp) -> None:
    scripted_smtp.extensions = ("PIPELINING",)
    recipients = [f"r{number}@example.test" for number in range(500)]
    scripted_smtp.recipients["r321@example.test"] = "550 5.1.1 no"
    with opened(scripted_smtp.port) as submission:
        codes = [reply.code for reply in submission.send_envelope("a@example.test", recipients, size=3)]
        assert [index for index, code in enumerate(codes) if code != 250] == [322]
        assert submission.reset().code == 250


@pytest.mark.parametrize("address", ["a@b.test> SIZE=1", "a\r\nDATA", "a b@c.test", "<a@b.test", "a\0@b.test"])
def test_no_address_ends_a_command(scripted_smtp: ScriptedSmtp, address: str) -> None:
    with opened(scripted_smtp.port) as submission:
        with pytest.raises(ValueError, match="envelope address"):
            list(submission.send_envelope("alice@example.test", [address], size=1))
        assert submission.reset().code == 250
    assert scripted_smtp.count("mail") == 0


# --- one message after the other ---


def test_one_connection_takes_several_messages(scripted_smtp: ScriptedSmtp) -> None:
    with opened(scripted_smtp.port) as submission:
        for taken in range(3):
            assert (submission.is_ready(), submission.accepted_count) == (True, taken)
            handed_over(submission).send_final_dot(5)
    assert [message.source for message in scripted_smtp.messages] == [WIRE] * 3
    assert (scripted_smtp.count("connect"), scripted_smtp.count("auth")) == (1, 1)


@pytest.mark.parametrize(
    "says", ["250 2.0.0 ok\r\n421 4.4.2 idle", "250 2.0.0 ok\r\n250 2.0.0 again", "250 ok\r\n2", Keep("250 ok\r\n")]
)
def test_a_server_that_has_spoken_unasked_gets_no_further_message(scripted_smtp: ScriptedSmtp, says: Action) -> None:
    scripted_smtp.at("reply", says)
    with opened(scripted_smtp.port) as submission:
        assert handed_over(submission).send_final_dot(5).code == 250
        assert not eventually_ready(submission)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_server_that_has_gone_gets_no_further_message(is_reset: bool) -> None:
    def part(peer: Peer) -> None:
        take_one(peer)
        peer.reply("250 ok")
        if is_reset:
            peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with odd_server(part) as port, opened(port, username="") as submission:
        list(envelope(submission))
        submission.start_data()
        submission.send_body(b"x\r\n")
        assert submission.send_final_dot(5).code == 250
        assert not eventually_ready(submission)


def take_one(peer: Peer) -> None:
    """A server's part, up to the message without its dot."""
    peer.say("220 hi")
    peer.reply("250 me", "250 ok", "250 ok", "354 go")
    assert peer.hear() == "x"


def eventually_ready(submission: SmtpConnection) -> bool:
    """Whether it stays ready for a while; what the server does takes a moment to arrive."""
    end = time.monotonic() + 0.5
    while submission.is_ready():
        if time.monotonic() > end:
            return True
        time.sleep(0.005)
    return False


@pytest.mark.parametrize(
    ("says", "outcome"), [("250 2.0.0 not asked", Reply(250, "2.0.0")), ("552 5.3.4 no", Reply(552, "5.3.4"))]
)
def test_what_is_said_before_the_dot_is_no_answer_to_it(says: str, outcome: Reply) -> None:
    spoken = threading.Event()

    def part(peer: Peer) -> None:
        take_one(peer)
        spoken.wait(5)
        peer.say(says)
        peer.until_gone()

    with odd_server(part) as port, opened(port, username="") as submission:
        list(envelope(submission))
        submission.start_data()
        submission.send_body(b"x\r\n")
        spoken.set()
        with pytest.raises(RemoteFault) as caught:
            listen_until_broken_off(submission)
        assert (caught.value.kind, caught.value.reply) == ("refused", outcome)
        assert not submission.is_ready()


def listen_until_broken_off(submission: SmtpConnection) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        submission.require_silence()
        time.sleep(0.001)


# --- time ---


def test_the_reply_to_the_dot_may_take_nine_minutes(scripted_smtp: ScriptedSmtp, clock: FakeClock) -> None:
    scripted_smtp.at("reply", Stall())
    with opened(scripted_smtp.port, timeout=30, clock=clock.monotonic) as submission, ThreadPoolExecutor(1) as pool:
        handed_over(submission)
        waiting = pool.submit(submission.send_final_dot, 600)
        wait_until(lambda: scripted_smtp.held("reply") == 1, lambda: "no dot", 10)
        clock.advance(9 * 60)
        scripted_smtp.release()
        assert waiting.result(10) == Reply(250, "2.0.0")


def test_the_reply_to_the_dot_may_not_take_ten_minutes_and_a_byte(clock: FakeClock) -> None:
    is_there, goes_on = threading.Event(), threading.Event()

    def part(peer: Peer) -> None:
        take_one(peer)
        assert peer.hear() == "."
        is_there.set()
        goes_on.wait(10)
        peer.say(b"2")
        peer.until_gone()

    with (
        odd_server(part) as port,
        opened(port, username="", timeout=30, clock=clock.monotonic) as submission,
        ThreadPoolExecutor(1) as pool,
    ):
        list(envelope(submission))
        submission.start_data()
        submission.send_body(b"x\r\n")
        waiting = pool.submit(submission.send_final_dot, 600)
        assert is_there.wait(10)
        clock.advance(10 * 60)
        goes_on.set()
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "timeout"):
            waiting.result(10)


# --- goodbye ---


@pytest.mark.parametrize("says", [None, "250 what", "421 bye", "554 no", "well", CLOSE, DROP, Stall()])
def test_a_goodbye_never_fails(scripted_smtp: ScriptedSmtp, says: Action) -> None:
    scripted_smtp.at("quit", says)
    with opened(scripted_smtp.port) as submission:
        handed_over(submission).send_final_dot(5)
        began = time.monotonic()
        submission.quit(0.3)
        assert time.monotonic() - began < 1
    assert (scripted_smtp.count("quit"), len(scripted_smtp.messages)) == (1, 1)


def test_auth_login_where_plain_is_not_offered() -> None:
    def part(peer: Peer) -> None:
        peer.say("220 hi")
        peer.hear()
        peer.say("250-me", "250-AUTH=LOGIN", "250 AUTH CRAM-MD5 LOGIN")
        assert peer.hear() == "AUTH LOGIN"
        peer.say("334 VXNlcm5hbWU6")
        assert peer.hear() == "asO8cmdlbg=="  # jürgen
        peer.say("334 UGFzc3dvcmQ6")
        assert peer.hear() == "c2VjcmV0"
        peer.say("235 2.7.0 in")
        peer.until_gone()

    with odd_server(part) as port, opened(port, username="jürgen"):
        pass


@pytest.mark.parametrize("offered", ["AUTH XOAUTH2", "HELP"])
def test_no_way_to_log_in_with_a_password(offered: str) -> None:
    def part(peer: Peer) -> None:
        peer.say("220 hi")
        peer.reply(f"250-me\r\n250 {offered}")
        peer.until_gone()

    refused = pytest.raises(RemoteFault, check=lambda f: f.kind == "login_refused")
    with odd_server(part) as port, refused, opened(port):
        pass


def test_what_comes_before_tls_is_forgotten_and_starttls_is_not_optional() -> None:
    def part(peer: Peer) -> None:
        peer.say("220 hi")
        peer.reply("250 me")
        peer.until_gone()
        assert b"AUTH" not in b"".join(peer.heard)

    with odd_server(part) as port:
        endpoint = Endpoint("127.0.0.1", port, "starttls", "alice", "secret")
        with pytest.raises(RemoteFault, check=lambda f: f.kind == "tls" and "STARTTLS" in f.reason):
            SmtpConnection.open(endpoint, ca_file="", timeout=5)


@pytest.mark.parametrize(("security", "port"), [("tls", "smtps_port"), ("starttls", "submission_port")])
def test_real_postfix(mail_server: MailServer, security: str, port: str) -> None:
    user = mail_server.fresh_user()
    endpoint = Endpoint("localhost", getattr(mail_server, port), security, "alice@example.test", "secret")  # type: ignore[arg-type]
    submission = SmtpConnection.open(endpoint, ca_file=str(mail_server.ca_file), timeout=10)
    replies = list(submission.send_envelope("alice@example.test", [user, "nobody@example.test"], size=len(WIRE)))
    assert [reply.code for reply in replies] == [250, 250, 550]
    assert replies[2] == Reply(550, "5.1.1")
    assert submission.start_data().code == 354
    submission.send_body(WIRE)
    assert submission.send_final_dot(10).code == 250
    submission.quit()
    [message] = mail_server.wait_for_messages(user, 1)
    assert message.endswith(b"\r\n\r\n.dotted\r\n..\r\n.\r\nend\r\n")
