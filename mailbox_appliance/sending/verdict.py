"""What a reply or a fault at each phase of a hand-over means. Pure: values in, a verdict out.

                     2xx/354    4xx        5xx                      connection lost, silence, no sense
    connecting       go on      nobody     nobody (535: sign in)    nobody
    envelope, data   go on      nobody     refused                  nobody
    dot              accepted   nobody     refused                  uncertain
                                421: uncertain

Until the final dot nobody can have got the message (RFC 5321 4.1.1.4); from the dot on only the reply tells, and a
server that goes away without one may have taken it (RFC 5321 6.1, RFC 1047). A 421 after the dot tells of the channel,
not of the message, so it decides nothing.
"""

from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.records import Phase
from mailbox_appliance.remote.faults import RemoteFault, Reply

FailureCode = Literal["sender_rejected", "recipient_rejected", "message_rejected", "message_too_large"]
Step = Literal["mail", "rcpt", "data", "dot"]
Cause = Literal["unavailable", "throttled", "login", "smtputf8", "internal"]


@dataclass(frozen=True)
class GoOn:
    """The server agrees; take the next step."""


@dataclass(frozen=True)
class Accepted:
    """The server has taken responsibility for the message."""

    reply: Reply


@dataclass(frozen=True)
class Refused:
    """The server said no for good; nobody got the message."""

    code: FailureCode
    reply: Reply | None


@dataclass(frozen=True)
class Nobody:
    """Nobody got the message, and another try may succeed."""

    cause: Cause


@dataclass(frozen=True)
class Uncertain:
    """The message may have been taken; nothing more can be learnt from this connection."""


@dataclass(frozen=True)
class Removed:
    """The mailbox is gone, or the operation is over; the dot was not sent."""


Verdict = GoOn | Accepted | Refused | Nobody | Uncertain | Removed

_PHASE: dict[Step, Phase] = {"mail": Phase.ENVELOPE, "rcpt": Phase.ENVELOPE, "data": Phase.DATA, "dot": Phase.DOT}
_REFUSAL: dict[Step, FailureCode] = {
    "mail": "sender_rejected",
    "rcpt": "recipient_rejected",
    "data": "message_rejected",
    "dot": "message_rejected",
}


def judge_reply(step: Step, reply: Reply) -> Verdict:
    """What a reply to MAIL, RCPT, DATA or the final dot means."""
    family = reply.code // 100
    if step == "dot" and reply.code == 421:
        return Uncertain()
    if family == 4:
        return Nobody("throttled" if _is_throttling(reply) else "unavailable")
    if reply.code in (530, 535) and step != "dot":  # RFC 4954 6: log in first; says nothing about the message
        return Nobody("login")
    if family == 5:
        return Refused(_refusal(step, reply), reply)
    if step == "dot":
        return Accepted(reply) if family == 2 else Uncertain()
    if family == (3 if step == "data" else 2):
        return GoOn()
    return Nobody("unavailable")  # a reply that makes no sense here; the dot was not sent


def judge_fault(phase: Phase, fault: RemoteFault) -> Verdict:
    """What it means that no reply came, or no login was to be had."""
    if phase is Phase.DOT:
        return Uncertain()
    if phase is Phase.DATA and fault.reply is not None and fault.reply.code >= 500:  # it broke the message off
        return judge_reply("data", fault.reply)
    if fault.kind == "login_refused":
        return Nobody("login")
    return Nobody("throttled" if fault.kind == "throttled" else "unavailable")


def _is_throttling(reply: Reply) -> bool:
    # RFC 3463 3.5: X.4.5, congestion. Seen in practice: 4.7.28 (Google) and 4.7.500 (Microsoft) mean "slow down".
    return reply.code in (450, 451, 452, 454) and (reply.enhanced or "").startswith(("4.4.5", "4.7.28", "4.7.500"))


def _refusal(step: Step, reply: Reply) -> FailureCode:
    enhanced = reply.enhanced or ""
    # RFC 1870 6.1: 552 to MAIL, DATA or the dot; RFC 3463 3.3 and 3.4: more than the mailbox or the system takes.
    if enhanced in ("5.2.3", "5.3.4") or (reply.code == 552 and step != "rcpt" and not enhanced):
        return "message_too_large"
    # RFC 3463 3.2. Seen in practice: Postfix judges the sender only at RCPT, others the recipients only at the dot.
    if enhanced in ("5.1.7", "5.1.8"):
        return "sender_rejected"
    if enhanced in ("5.1.1", "5.1.2", "5.1.3", "5.1.6") and step in ("data", "dot"):
        return "recipient_rejected"
    return _REFUSAL[step]
