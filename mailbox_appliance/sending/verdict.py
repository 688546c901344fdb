"""The meaning of a reply or a fault at each phase of sending. Pure: values in, a verdict out.

The rows are phases of sending, the columns are replies. The "dot" is the line that ends the message.

                     2xx/354    4xx                      5xx        lost, silent, malformed, too long
    connecting       continue   nobody                   nobody     nobody
    envelope, data   continue   nobody                   refused    nobody
    dot              accepted   nobody; 421: uncertain   refused    uncertain
    QUIT             the earlier verdict stands, whatever the reply is

"Continue" is `Continue`; "nobody" is `TemporaryFailure`: nobody received the message, and it may be tried again. A
reply that demands or refuses a login (530, 534, 535, 538) before the dot also means "nobody", with the cause `login`:
the user must sign in to the mailbox again.

Until the final dot nobody can have received the message (RFC 5321 4.1.1.4). After the dot only the reply decides, and a
server that disconnects without one may have accepted it (RFC 5321 6.1, RFC 1047). A 421 after the dot is about the
connection, not about the message, so the outcome stays unknown.

On a connection kept from an earlier message, a 421, a reply that makes no sense, or a lost connection concerns only the
connection. If the server has not asked for the message yet, the connection is closed and a new one is opened. Every
other reply counts as on a new connection. A connection is kept only if the message was accepted.
"""

from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.model.accounts import AccountError
from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.remote.errors import FaultKind, RemoteFault, Reply, ServerName, account_error_of

FailureCode = Literal["sender_rejected", "recipient_rejected", "message_rejected", "message_too_large"]
Step = Literal["mail", "rcpt", "data", "dot"]
Cause = Literal["unavailable", "throttled", "login", "smtputf8", "internal"]


@dataclass(frozen=True)
class Continue:
    """Verdict: the server agreed, and the next step of sending follows."""


@dataclass(frozen=True)
class Accepted:
    """Verdict: the server has accepted responsibility for the message."""

    reply: Reply


@dataclass(frozen=True)
class Refused:
    """Verdict: the server refused the message permanently, and nobody received it.

    `reply`: the server's reply, or None if the appliance found the reason. `why`: a sentence for an unspecific code.
    """

    code: FailureCode
    reply: Reply | None
    why: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TemporaryFailure:
    """Verdict: nobody received the message, and another attempt may succeed.

    `error`: the problem of the mailbox, if any; `server`: the server that reported it; `wait`: the seconds that the
    server asked for, if any.
    """

    cause: Cause
    error: AccountError | None = field(default=None, compare=False)
    server: ServerName = field(default="smtp", compare=False)
    wait: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Uncertain:
    """Verdict: the message may have been accepted, and the connection cannot show whether it was."""


@dataclass(frozen=True)
class Removed:
    """Verdict: the mailbox was removed or the operation has ended, before the final dot was sent."""


Verdict = Continue | Accepted | Refused | TemporaryFailure | Uncertain | Removed

# RFC 4954 4 and 6: authentication required, mechanism too weak, credentials wrong, encryption required.
_NO_LOGIN = (530, 534, 535, 538)
_REFUSAL: dict[Step, FailureCode] = {
    "mail": "sender_rejected",
    "rcpt": "recipient_rejected",
    "data": "message_rejected",
    "dot": "message_rejected",
}
#: Enhanced codes (RFC 3463, RFC 5248) that are more specific than the step at which they come. Seen in practice:
#: Postfix judges the sender only at RCPT, others judge sender and recipients only at the dot.
_SAYS: dict[str, FailureCode] = {
    "5.1.7": "sender_rejected",  # bad syntax
    "5.1.8": "sender_rejected",  # bad system
    "5.2.252": "sender_rejected",  # Microsoft: SendAsDenied
    "5.7.60": "sender_rejected",  # Microsoft: no right to send as this sender
    "5.1.1": "recipient_rejected",
    "5.1.2": "recipient_rejected",
    "5.1.3": "recipient_rejected",
    "5.1.6": "recipient_rejected",
    "5.6.9": "recipient_rejected",  # RFC 6531: a recipient's server does not support UTF-8 header fields
    "5.6.1": "message_rejected",  # media not supported
    "5.6.2": "message_rejected",  # conversion prohibited
    "5.6.3": "message_rejected",  # conversion required and not supported (RFC 6152: 8-bit content)
    "5.2.3": "message_too_large",  # for the recipient
    "5.3.4": "message_too_large",  # for the server (RFC 1870 6.1)
}

#: Names of faults (`remote.errors.FAULTS`) that are more specific than the code of the reply.
_SLOWER = frozenset({"rate_limited", "too_many_connections", "sending_limit"})
_ABOUT_SENDERS = frozenset({"sender_not_allowed", "sending_blocked"})


def judge_reply(step: Step, reply: Reply) -> Verdict:
    """Return the verdict for a reply to MAIL, RCPT, DATA or the final dot."""
    family = reply.code // 100
    if step == "dot" and reply.code == 421:
        return Uncertain()
    if family == 4:
        return TemporaryFailure("throttled" if _is_throttling(reply) or reply.name in _SLOWER else "unavailable")
    if reply.code in _NO_LOGIN and step != "dot":  # not about the message
        return TemporaryFailure("login")
    if step == "rcpt" and reply.code == 552 and reply.enhanced == "5.5.3":
        # RFC 5321 4.5.3.1.10: too many recipients, reported with the code of RFC 821.
        return TemporaryFailure("unavailable")
    if family == 5:
        return Refused(_refusal(step, reply), reply)
    if step == "dot":
        return Accepted(reply) if family == 2 else Uncertain()
    if family == (3 if step == "data" else 2):
        return Continue()
    return TemporaryFailure("unavailable")  # a reply that makes no sense here; the dot was not sent


def is_about_connection(step: Step, reply: Reply) -> bool:
    """Whether a reply to MAIL, RCPT or DATA concerns only the connection.

    That is a 421, by which the server closes the connection, or a reply that does not fit the step.
    """
    return reply.code == 421 or reply.code // 100 not in (4, 5, 3 if step == "data" else 2)


def judge_fault(phase: Phase, fault: RemoteFault) -> Verdict:
    """Return the verdict for an error other than a reply: a lost connection, a timeout, or a refused login.

    `phase`: the phase of sending in which the error occurred.
    """
    if phase is Phase.DOT:
        return Uncertain()
    if phase is Phase.DATA and fault.reply is not None and fault.reply.code >= 500:  # the server aborted the message
        return judge_reply("data", fault.reply)
    return temporary_failure(fault)


def temporary_failure(fault: RemoteFault) -> TemporaryFailure:
    """Return the verdict for an error before the final dot, after which nobody can have received the message."""
    causes: dict[FaultKind, Cause] = {"login_refused": "login", "throttled": "throttled"}
    return TemporaryFailure(
        causes.get(fault.kind, "unavailable"), account_error_of(fault), fault.server, fault.retry_after
    )


def _is_throttling(reply: Reply) -> bool:
    # RFC 3463 3.5: X.4.5, congestion. Seen in practice: 4.7.28 (Google) and 4.7.500 (Microsoft) mean "slow down".
    return reply.code in (450, 451, 452, 454) and (reply.enhanced or "").startswith(("4.4.5", "4.7.28", "4.7.500"))


def _refusal(step: Step, reply: Reply) -> FailureCode:
    enhanced = reply.enhanced
    if reply.name in _ABOUT_SENDERS:  # whatever its code
        return "sender_rejected"
    if enhanced is None and reply.code == 552 and step != "rcpt":  # RFC 1870 6.1; at RCPT it is a full mailbox
        return "message_too_large"
    if step == "rcpt" and reply.code == 553 and enhanced == "5.7.1":
        return "sender_rejected"  # seen in practice: Postfix, if the login does not own the sender
    if step in ("data", "dot") and enhanced == "5.6.7":  # RFC 6531 3.5: an address in UTF-8, at MAIL the sender's
        return "recipient_rejected"
    code = _SAYS.get(enhanced or "", _REFUSAL[step])
    # At MAIL only the sender has been named so far.
    return "sender_rejected" if step == "mail" and code == "recipient_rejected" else code
