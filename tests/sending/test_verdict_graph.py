"""The verdicts for Microsoft Graph's responses: a failure only if nothing can have been sent, otherwise uncertain."""

import pytest

from mailbox_appliance.remote.errors import RemoteFault, Reply
from mailbox_appliance.remote.graph import GraphResponse
from mailbox_appliance.sending.graph import Step, judge, judge_sending
from mailbox_appliance.sending.verdict import Accepted, Continue, Refused, TemporaryFailure, Uncertain, Verdict

LATER, SLOWER, LOGIN, DOUBT = (
    TemporaryFailure("unavailable"),
    TemporaryFailure("throttled"),
    TemporaryFailure("login"),
    Uncertain(),
)
BEFORE: tuple[Step, ...] = ("draft", "attach", "session", "upload")

ANSWERS: list[tuple[Step, int, str, Verdict]] = [
    ("draft", 201, "", Continue()),
    ("draft", 400, "ErrorMimeContentInvalidBase64String", Refused("message_rejected", Reply(400))),
    ("draft", 400, "ErrorInvalidRecipients", Refused("recipient_rejected", Reply(400))),
    ("draft", 401, "InvalidAuthenticationToken", LATER),
    ("draft", 403, "ErrorAccessDenied", LOGIN),
    ("draft", 403, "", LOGIN),
    ("draft", 404, "MailboxNotEnabledForRESTAPI", LATER),
    ("draft", 409, "", LATER),
    ("draft", 413, "RequestEntityTooLarge", Refused("message_too_large", Reply(413))),
    ("draft", 413, "", Refused("message_too_large", Reply(413))),
    ("draft", 429, "ApplicationThrottled", SLOWER),
    ("draft", 400, "ErrorQuotaExceeded", LATER),
    ("draft", 403, "ErrorQuotaExceeded", LATER),
    ("draft", 302, "", LATER),
    ("draft", 500, "", LATER),
    ("draft", 503, "ServiceUnavailable", LATER),
    ("draft", 507, "ErrorQuotaExceeded", LATER),
    ("attach", 201, "", Continue()),
    ("attach", 400, "ErrorInvalidRequest", Refused("message_rejected", Reply(400))),
    ("attach", 400, "ErrorMessageSizeExceeded", Refused("message_too_large", Reply(400))),
    # the same login has just created the draft
    ("attach", 403, "ErrorAccessDenied", Refused("message_rejected", Reply(403))),
    ("attach", 413, "", Refused("message_too_large", Reply(413))),
    ("attach", 400, "ErrorQuotaExceeded", LATER),
    ("attach", 404, "ErrorItemNotFound", LATER),
    ("attach", 409, "", LATER),
    ("attach", 412, "ErrorIrresolvableConflict", LATER),
    ("attach", 429, "ApplicationThrottled", SLOWER),
    ("attach", 503, "ServiceUnavailable", LATER),
    ("session", 201, "", Continue()),
    ("session", 400, "ErrorAttachmentSizeLimitExceeded", Refused("message_too_large", Reply(400))),
    ("session", 403, "ErrorAccessDenied", Refused("message_too_large", None)),  # for a shared mailbox
    ("session", 403, "ErrorMessageSubmissionBlocked", Refused("sender_rejected", Reply(403))),
    ("session", 404, "ErrorItemNotFound", LATER),
    ("session", 429, "", SLOWER),
    ("session", 500, "", LATER),
    ("upload", 201, "", Continue()),
    ("upload", 400, "", LATER),
    ("upload", 400, "ErrorMessageSizeExceeded", Refused("message_too_large", Reply(400))),
    ("upload", 401, "InvalidAuthenticationToken", LATER),
    ("upload", 403, "ErrorAccessDenied", LATER),
    ("upload", 404, "ErrorItemNotFound", LATER),
    ("upload", 410, "", LATER),
    ("upload", 413, "", Refused("message_too_large", Reply(413))),
    ("upload", 416, "", LATER),
    ("upload", 302, "", LATER),
    ("upload", 429, "", SLOWER),
    ("upload", 503, "ServiceUnavailable", LATER),
    ("send", 202, "", Accepted(Reply(202))),
    ("send", 200, "", Accepted(Reply(200))),
    ("send", 204, "", Accepted(Reply(204))),
    ("send", 400, "ErrorInvalidRecipients", Refused("recipient_rejected", Reply(400))),
    ("send", 400, "ErrorMessageSizeExceeded", Refused("message_too_large", Reply(400))),
    ("send", 400, "ErrorInvalidRequest", Refused("message_rejected", Reply(400))),
    ("send", 401, "InvalidAuthenticationToken", LATER),
    ("send", 403, "ErrorSendAsDenied", Refused("sender_rejected", Reply(403))),
    ("send", 403, "ErrorMessageSubmissionBlocked", Refused("sender_rejected", Reply(403))),
    ("send", 403, "ErrorAccessDenied", LOGIN),
    ("send", 403, "ErrorExceededMessageLimit", SLOWER),
    ("send", 413, "", Refused("message_too_large", Reply(413))),
    ("send", 429, "TooManyRequests", SLOWER),
    # It may have been sent, by a request that a proxy in front of Graph has repeated.
    ("send", 404, "ErrorItemNotFound", DOUBT),
    ("send", 409, "ErrorIrresolvableConflict", DOUBT),
    ("send", 412, "ErrorIrresolvableConflict", DOUBT),
    ("send", 408, "", DOUBT),
    ("send", 423, "", DOUBT),
    ("send", 307, "", DOUBT),
    ("send", 500, "ErrorInternalServerError", DOUBT),
    ("send", 502, "", DOUBT),
    ("send", 503, "ServiceUnavailable", DOUBT),
    ("send", 504, "", DOUBT),
]


@pytest.mark.parametrize(("step", "status", "code", "expected"), ANSWERS)
def test_every_answer(step: Step, status: int, code: str, expected: Verdict) -> None:
    assert judge(step, GraphResponse(status, code)) == expected


def test_no_status_but_success_says_that_it_was_sent() -> None:
    for status in (*range(100, 200), *range(300, 600)):
        assert not isinstance(judge("send", GraphResponse(status)), Accepted | Continue)
        for step in BEFORE:
            assert not isinstance(judge(step, GraphResponse(status)), Accepted | Continue | Uncertain)


def test_nobody_is_sent_for_an_answer_about_a_file_to_a_login() -> None:
    for status in (400, 401, 403, 404, 410, 413, 416):
        for code in ("", "ErrorAccessDenied", "InvalidAuthenticationToken", "Authorization_RequestDenied"):
            for step in ("attach", "session", "upload"):
                assert judge(step, GraphResponse(status, code)) != LOGIN


def test_no_code_turns_doubt_into_a_word() -> None:
    for status in (404, 408, 409, 412, 500, 502, 503, 504):
        for code in ("ErrorSendAsDenied", "ErrorInvalidRecipients", "ErrorQuotaExceeded", "ErrorAccessDenied"):
            assert judge("send", GraphResponse(status, code)) == DOUBT


@pytest.mark.parametrize("kind", ["timeout", "disconnected", "malformed", "tls", "unreachable", "throttled"])
def test_a_request_that_may_have_come_leaves_doubt(kind: str) -> None:
    fault = RemoteFault("graph", kind, "")  # type: ignore[arg-type]  # it is one of them
    assert judge_sending(fault) == (SLOWER if kind == "throttled" else LATER)
    fault.in_doubt = True
    assert judge_sending(fault) == DOUBT
