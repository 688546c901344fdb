"""What an answer or a fault of Microsoft Graph means, when a draft is made, filled and sent. Pure.

              2xx        400, 403, 413        401, 429    404, 408, 409, 412, 3xx...    5xx         lost, silent, odd
    draft     go on      refused, or login    nobody      nobody                        nobody      nobody
    attach    201 go on  refused              nobody      nobody                        nobody      nobody
    session   201 go on  refused              nobody      nobody                        nobody      nobody
    upload    201 go on  nobody; 413 refused  nobody      nobody                        nobody      nobody
    send      accepted   refused, or login    nobody      uncertain                     uncertain   uncertain; nobody
                                                                                                    where no connection
                                                                                                    was to be had

A draft goes nowhere, so until its sending is asked for nobody can have got the message. From then on an answer decides
that is given before anything is done: what was asked for does not fit, or may not be. That a draft is not there, or has
changed, may mean that it has just been sent, by a request of ours that something on the way has repeated, say.

Whose draft was just made may log in: a refusal of a file is about that file. The address of an upload has a token of
its own, which ends: what it is refused for says nothing of the login, nor of the file unless a code does.
"""

from typing import Literal

from mailbox_appliance.remote.faults import RemoteFault, Reply
from mailbox_appliance.remote.graph import Said, refusal
from mailbox_appliance.remote.replies import name_of
from mailbox_appliance.remote.trouble import trouble
from mailbox_appliance.sending.verdict import (
    Accepted,
    Cause,
    Continue,
    FailureCode,
    Refused,
    TemporaryFailure,
    Uncertain,
    Verdict,
    temporary_failure,
)

Step = Literal["draft", "attach", "session", "upload", "send"]

#: Codes of an answer (learn.microsoft.com/graph/errors; those of Exchange Web Services, ResponseCode), in lower case.
_SAYS: dict[str, FailureCode] = {
    "errorsendasdenied": "sender_rejected",
    "errorinvalidsendas": "sender_rejected",
    "errorinvalidrecipients": "recipient_rejected",
    "errorinvalidrecipientsubfilter": "recipient_rejected",
    "errormessagesizeexceeded": "message_too_large",
    "errorcontentlengthtoolarge": "message_too_large",
    "errorattachmentsizelimitexceeded": "message_too_large",
    "requestentitytoolarge": "message_too_large",
}
#: Of those that are told with 400, 403 or 507 and say nothing of the message: too many of them, or a full mailbox.
_FOR_NOW: dict[str, Cause] = {
    "errorexceededmessagelimit": "throttled",
    "submissionquotaexceeded": "throttled",
    "errorquotaexceeded": "unavailable",
}
_TAKEN_BACK = RemoteFault(
    "graph",
    "refused",
    "Microsoft Graph took back the access that it had just accepted. It is renewed for the next try.",
)
_BROKEN_OFF = RemoteFault(
    "graph",
    "refused",
    "Microsoft Graph broke off the upload of a file that it had agreed to. It is begun anew by the next try.",
)
_TOO_LARGE = (
    "It is larger, with its attachments, than what the Exchange of this mailbox takes: 35 MB, unless an administrator"
    " has changed that."
)
_NOT_SHARED = (
    "Microsoft Graph refuses a file of 3 MB or more for this mailbox. It takes none for a mailbox that is shared: send"
    " it from one's own, or in smaller files."
)


def judge(step: Step, said: Said) -> Verdict:
    """What an answer means."""
    if 200 <= said.status < 300:
        return _judge_success(step, said)
    if said.status == 429:
        return _judge_temporary("throttled", said)
    if step == "upload" and said.status != 413 and said.code.lower() not in _SAYS:
        return TemporaryFailure("unavailable", trouble(_BROKEN_OFF), "graph", said.retry_after)
    if said.status in (400, 403, 413):
        return _judge_refusal(step, said)
    if said.status == 401 and step == "send":  # the draft was taken with it a moment ago
        return TemporaryFailure("unavailable", trouble(_TAKEN_BACK), "graph")
    if said.status == 401 or step != "send":
        return _judge_temporary("unavailable", said)
    return Uncertain()


def _judge_success(step: Step, said: Said) -> Verdict:
    if step == "send":
        return Accepted(Reply(said.status))
    if step == "draft" or said.status == 201:
        return Continue()
    # Nobody looks at a draft before it is sent: a file is there where that was said in so many words.
    return TemporaryFailure("unavailable", trouble(_BROKEN_OFF), "graph", said.retry_after)


def judge_sending(fault: RemoteFault) -> Verdict:
    """What it means that no answer came to the request to send."""
    if fault.in_doubt:
        return Uncertain()
    return temporary_failure(fault)


def _judge_temporary(cause: Cause, said: Said) -> TemporaryFailure:
    return TemporaryFailure(cause, trouble(refusal(said)), "graph", said.retry_after)


def _judge_refusal(step: Step, said: Said) -> Verdict:
    code = said.code.lower()
    if code in _SAYS or said.status == 413:
        says = _SAYS.get(code, "message_too_large")
        return Refused(says, _reply(said), _TOO_LARGE if says == "message_too_large" else None)
    if code in _FOR_NOW:
        return _judge_temporary(_FOR_NOW[code], said)
    if said.status == 403:
        fault = refusal(said)
        if step == "session" and fault.name == "consent_required":
            # The documents' list of known issues, "attaching large files to messages with delegated permissions".
            return Refused("message_too_large", None, _NOT_SHARED)
        if fault.kind == "login_refused":
            if step in ("draft", "send"):
                return _judge_temporary("login", said)
            return Refused("message_rejected", _reply(said))
        if fault.name == "sending_blocked":
            return Refused("sender_rejected", _reply(said))
        return TemporaryFailure("unavailable")
    return Refused("message_rejected", _reply(said))


def _reply(said: Said) -> Reply:
    return Reply(said.status, name=name_of("graph", said.text))
