"""The verdict for every reply and every fault, at every step: one line a case."""

from typing import get_args

import pytest

from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.remote.errors import FaultKind, RemoteFault, Reply
from mailbox_appliance.remote.smtp import reply_of
from mailbox_appliance.sending.verdict import (
    Accepted,
    Continue,
    Refused,
    Step,
    TemporaryFailure,
    Uncertain,
    Verdict,
    judge_fault,
    judge_reply,
)

BEFORE_DOT: tuple[Step, ...] = ("mail", "rcpt", "data")
LATER, SLOWER, LOGIN, UNCERTAIN, GO = (
    TemporaryFailure("unavailable"),
    TemporaryFailure("throttled"),
    TemporaryFailure("login"),
    Uncertain(),
    Continue(),
)

REPLIES: list[tuple[Step, str, Verdict | str]] = [
    # the expected replies
    ("mail", "250 2.1.0", GO),
    ("rcpt", "250 2.1.5", GO),
    ("rcpt", "251", GO),  # will forward
    ("rcpt", "252", GO),
    ("data", "354", GO),
    ("dot", "250 2.0.0", "accepted"),
    ("dot", "200", "accepted"),
    ("dot", "252", "accepted"),
    # replies that make no sense: before the dot nobody has the message, after it the outcome is unknown
    ("mail", "354", LATER),
    ("rcpt", "354", LATER),
    ("data", "250", LATER),
    ("dot", "354", UNCERTAIN),
    ("dot", "334", UNCERTAIN),
    # temporary refusals
    ("mail", "451 4.3.0", LATER),
    ("rcpt", "450 4.2.0", LATER),  # greylisting
    ("data", "451", LATER),
    ("dot", "451 4.3.0", LATER),
    ("dot", "452 4.3.1", LATER),
    ("dot", "454", LATER),
    # the connection closes, which is not about the message once the dot is out
    ("mail", "421 4.3.2", LATER),
    ("rcpt", "421", LATER),
    ("data", "421 4.4.2", LATER),
    ("dot", "421", UNCERTAIN),
    ("dot", "421 4.3.2", UNCERTAIN),
    # slow down
    ("mail", "450 4.4.5", SLOWER),
    ("mail", "450 4.7.28", SLOWER),
    ("rcpt", "451 4.7.500", SLOWER),
    ("dot", "452 4.4.5", SLOWER),
    ("mail", "450 4.7.1", LATER),
    # a login is required
    ("mail", "530 5.7.0", LOGIN),
    ("rcpt", "530", LOGIN),
    ("data", "530 5.7.57", LOGIN),
    ("mail", "535 5.7.8", LOGIN),
    ("mail", "534 5.7.9", LOGIN),  # the mechanism is too weak
    ("mail", "538 5.7.11", LOGIN),  # this mechanism requires encryption
    ("data", "538", LOGIN),
    ("dot", "530 5.7.0", "message_rejected"),
    ("dot", "535", "message_rejected"),
    ("dot", "534", "message_rejected"),
    ("dot", "538", "message_rejected"),
    ("mail", "454 4.7.0", LATER),  # RFC 4954 6: logins cannot be checked now
    ("mail", "432 4.7.12", LATER),  # a password transition is needed
    # permanent refusals
    ("mail", "550 5.7.1", "sender_rejected"),
    ("mail", "553", "sender_rejected"),
    ("mail", "501 5.5.4", "sender_rejected"),
    ("rcpt", "550 5.1.1", "recipient_rejected"),
    ("rcpt", "551", "recipient_rejected"),
    ("rcpt", "554 5.7.1", "recipient_rejected"),
    ("data", "554 5.5.1", "message_rejected"),
    ("data", "503", "message_rejected"),
    ("dot", "554 5.7.1", "message_rejected"),
    ("dot", "550", "message_rejected"),
    ("dot", "571", "message_rejected"),
    ("mail", "550", "sender_rejected"),
    ("mail", "550 5.1.1", "sender_rejected"),  # only the sender was named so far
    ("mail", "555 5.5.4", "sender_rejected"),  # unknown parameters
    ("rcpt", "550", "recipient_rejected"),
    ("rcpt", "550 5.7.1", "recipient_rejected"),
    ("rcpt", "550 5.7.509", "recipient_rejected"),
    ("rcpt", "553 5.1.3", "recipient_rejected"),
    ("rcpt", "556 5.1.10", "recipient_rejected"),  # RFC 7504 and 7505: the domain accepts no mail
    ("rcpt", "521", "recipient_rejected"),
    ("rcpt", "550 5.2.1", "recipient_rejected"),
    ("dot", "550 5.7.1", "message_rejected"),
    ("dot", "554 5.6.0", "message_rejected"),
    ("dot", "500", "message_rejected"),
    ("dot", "599 5.9.9", "message_rejected"),
    # content (RFC 3463 3.7), and what RFC 6152 and 6531 add to it
    ("mail", "554 5.6.3", "message_rejected"),  # 8-bit content would have to be converted
    ("dot", "554 5.6.1", "message_rejected"),
    ("rcpt", "550 5.6.2", "message_rejected"),
    ("mail", "550 5.6.7", "sender_rejected"),  # an address in UTF-8, where none is allowed
    ("mail", "553 5.6.7", "sender_rejected"),
    ("rcpt", "550 5.6.7", "recipient_rejected"),
    ("rcpt", "553 5.6.7", "recipient_rejected"),
    ("data", "554 5.6.7", "recipient_rejected"),
    ("dot", "554 5.6.7", "recipient_rejected"),
    ("rcpt", "550 5.6.9", "recipient_rejected"),  # a recipient's server does not support UTF-8 header fields
    ("dot", "554 5.6.9", "recipient_rejected"),
    # refusals of sender or recipient may come late
    ("rcpt", "553 5.7.1", "sender_rejected"),  # Postfix: the login does not own the sender
    ("dot", "550 5.7.60", "sender_rejected"),
    ("dot", "554 5.2.252", "sender_rejected"),
    ("rcpt", "553 5.1.8", "sender_rejected"),
    ("rcpt", "550 5.1.7", "sender_rejected"),
    ("dot", "550 5.1.8", "sender_rejected"),
    ("dot", "550 5.1.1", "recipient_rejected"),
    ("data", "550 5.1.2", "recipient_rejected"),
    # too large
    ("mail", "552", "message_too_large"),
    ("mail", "552 5.3.4", "message_too_large"),
    ("data", "552", "message_too_large"),
    ("dot", "552", "message_too_large"),
    ("dot", "552 5.3.4", "message_too_large"),
    ("dot", "552 5.2.3", "message_too_large"),
    ("rcpt", "552 5.3.4", "message_too_large"),
    ("dot", "554 5.3.4", "message_too_large"),
    ("mail", "523 5.3.4", "message_too_large"),
    ("mail", "554 5.2.3", "message_too_large"),
    ("data", "554 5.3.4", "message_too_large"),
    ("dot", "452 4.3.4", LATER),
    ("rcpt", "552 5.5.3", LATER),  # RFC 5321 4.5.3.1.10: too many recipients, for which 452 is the right code
    ("rcpt", "452 4.5.3", LATER),
    ("rcpt", "552", "recipient_rejected"),  # the mailbox is full
    ("rcpt", "552 5.2.2", "recipient_rejected"),
    ("dot", "552 5.2.2", "message_rejected"),
    ("dot", "552 5.7.0", "message_rejected"),  # a file of a forbidden kind, at Google
]


@pytest.mark.parametrize(("step", "said", "expected"), REPLIES, ids=[f"{step} {said}" for step, said, _ in REPLIES])
def test_a_reply(step: Step, said: str, expected: Verdict | str) -> None:
    code, _, enhanced = said.partition(" ")
    reply = Reply(int(code), enhanced or None)
    match expected:
        case "accepted":
            assert judge_reply(step, reply) == Accepted(reply)
        case str():
            assert judge_reply(step, reply) == Refused(expected, reply)  # type: ignore[arg-type]  # mypy cannot narrow
        case _:
            assert judge_reply(step, reply) == expected


@pytest.mark.parametrize("step", [*BEFORE_DOT, "dot"])
def test_no_reply_breaks_the_rules(step: Step) -> None:
    for code in range(200, 600):
        verdict = judge_reply(step, Reply(code))
        assert isinstance(verdict, Accepted) == (step == "dot" and code < 300), code
        assert isinstance(verdict, Uncertain) == (step == "dot" and (300 <= code < 400 or code == 421)), code
        assert isinstance(verdict, Refused) == (code >= 500 and (step == "dot" or code not in (530, 534, 535, 538))), (
            code
        )


KINDS: dict[FaultKind, Verdict] = {
    "unreachable": LATER,
    "tls": LATER,
    "timeout": LATER,
    "disconnected": LATER,
    "login_refused": LOGIN,
    "refused": LATER,
    "throttled": SLOWER,
    "forbidden_address": LATER,
    "malformed": LATER,
    "unsupported": LATER,
}


@pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.CONNECTING, Phase.ENVELOPE, Phase.DATA, Phase.DOT])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault(phase: Phase, kind: FaultKind) -> None:
    verdict = judge_fault(phase, RemoteFault("smtp", kind, "-"))
    assert verdict == (UNCERTAIN if phase is Phase.DOT else KINDS[kind])


@pytest.mark.parametrize(
    ("phase", "said", "expected"),
    [
        (Phase.CONNECTING, Reply(554, "5.7.1"), LATER),  # refused at the greeting, which is not about the message
        (Phase.DATA, Reply(552, "5.3.4"), Refused("message_too_large", Reply(552, "5.3.4"))),
        (Phase.DATA, Reply(554), Refused("message_rejected", Reply(554))),
        (Phase.DATA, Reply(451), LATER),
        (Phase.DATA, Reply(421), LATER),
        (Phase.DATA, Reply(250), LATER),  # without its dot a message is not complete
        (Phase.DATA, Reply(530, "5.7.0"), LOGIN),
        (Phase.DATA, Reply(354), LATER),
        (Phase.ENVELOPE, Reply(554), LATER),
        (Phase.DOT, Reply(554), UNCERTAIN),
        (Phase.DOT, Reply(250), UNCERTAIN),
    ],
)
def test_a_fault_with_a_reply(phase: Phase, said: Reply, expected: Verdict) -> None:
    assert judge_fault(phase, RemoteFault("smtp", "refused", "-", said)) == expected


@pytest.mark.parametrize("kind", get_args(FaultKind))
def test_every_fault_is_in_the_table(kind: FaultKind) -> None:
    assert kind in KINDS


# --- the text of a reply, if its code is less specific ---


@pytest.mark.parametrize(
    ("step", "code", "text", "expected"),
    [
        ("rcpt", 550, b"5.7.1 <eve@example.test>: Sender address rejected: not owned by user ada", "sender_rejected"),
        ("dot", 554, b"5.2.252 SendAsDenied; ada not allowed to send as eve", "sender_rejected"),
        ("dot", 550, b"5.1.8 Access denied, bad outbound sender AS(42004)", "sender_rejected"),
        ("mail", 451, b"4.7.0 rate limit exceeded", SLOWER),
        ("rcpt", 450, b"4.2.1 too many connections", SLOWER),
        ("rcpt", 550, b"5.1.1 <wrong.password@example.test>: user unknown", "recipient_rejected"),
        ("dot", 550, b"5.4.5 Daily user sending limit exceeded.", "message_rejected"),
    ],
)
def test_words_that_say_more_than_their_code(step: Step, code: int, text: bytes, expected: Verdict | str) -> None:
    verdict = judge_reply(step, reply_of(code, text))
    assert (verdict.code if isinstance(verdict, Refused) else verdict) == expected


def test_no_words_turn_doubt_into_something_else() -> None:
    for text in (b"4.7.0 rate limit", b"5.7.60 not allowed to send as", b"2.0.0 too many connections"):
        assert judge_reply("dot", reply_of(421, text)) == Uncertain()
        assert judge_reply("dot", reply_of(250, text)) == Accepted(Reply(250, "2.0.0" if text[:1] == b"2" else None))
