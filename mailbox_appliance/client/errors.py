"""Failures of a command: an error object in the API's form, and an exit code.

Exit codes: 0 success · 2 invalid input · 3 uncertain or partial · 4 access · 5 provider or network · 1 any other error
· 130 interrupted · 141 output closed
"""

import re
from collections.abc import Sequence
from typing import Any

INTERNAL, INPUT, UNCERTAIN, ACCESS, NETWORK, INTERRUPTED, OUTPUT_CLOSED = 1, 2, 3, 4, 5, 130, 141

_EXIT_CODE_BY_STATUS = {
    **dict.fromkeys((400, 404, 405, 409, 413, 415, 422), INPUT),
    **dict.fromkeys((401, 403), ACCESS),
    **dict.fromkeys((429, 502, 503), NETWORK),
}
#: Exit codes for error codes whose status or class is not specific enough.
_EXIT_CODE_BY_CODE = {"backup_wrong_passphrase": ACCESS}


def exit_code_for_status(status: int) -> int:
    """Return the exit code for the HTTP status of an error response; 1 for a status without a code of its own."""
    return _EXIT_CODE_BY_STATUS.get(status, INTERNAL)


class Failure(Exception):
    """The failure of a command: an error object in the API's form, and the exit code."""

    def __init__(
        self,
        code: str,
        message: str,
        exit_code: int,
        *,
        details: Sequence[tuple[str, str]] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.exit_code = code, message, exit_code
        self.details, self.request_id = tuple(details), request_id
        #: Whether the request was surely not sent, so that nothing was done.
        self.is_unsent = False

    @property
    def error(self) -> dict[str, Any]:
        """The error object, in the same form as in an API response. An error of the client gets a new request ID."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "requestId": self.request_id or _new_request_id(),
        }
        if self.details:
            error["details"] = [{"path": path, "message": message} for path, message in self.details]
        return error


def wrong_usage(message: str, path: str | None = None) -> Failure:
    """Return the failure for an invalid command line. `path`: the option at fault, as `option:--limit`."""
    return Failure("invalid_request", message, INPUT, details=((path, message),) if path else ())


def unreachable(message: str) -> Failure:
    """Return the failure `appliance_unreachable`, for an appliance that does not respond.

    The code `provider_unavailable` means something else: a mail server does not respond.
    """
    return Failure("appliance_unreachable", message, NETWORK)


def failure_from_answer(status: int, answer: object, retry_after: str | None = None) -> Failure:
    """Return the failure for an error response of the API.

    `retry_after`: the value of its Retry-After header, in seconds, which becomes part of the message.
    """
    error = answer.get("error") if isinstance(answer, dict) else None
    if 300 <= status < 400:
        moved = (
            f"The server redirects to another address ({status}). Redirects are not followed: use the appliance's own"
            " address."
        )
        return Failure("unexpected_answer", moved, INTERNAL)
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return Failure(
            "unexpected_answer",
            f"The server returned status {status} without an error object.",
            exit_code_for_status(status),
        )
    details = [
        (str(detail.get("path", "")), str(detail.get("message", "")))
        for detail in error.get("details") or ()
        if isinstance(detail, dict)
    ]
    message, request_id = str(error.get("message", "")), error.get("requestId")
    if status == 429 and retry_after is not None and re.fullmatch(r"[0-9]{1,9}", retry_after):
        message += f" Wait {int(retry_after)} s."
    return Failure(
        error["code"],
        message,
        _EXIT_CODE_BY_CODE.get(error["code"], exit_code_for_status(status)),
        details=details,
        request_id=str(request_id) if request_id else None,
    )


def failure_from_problem(problem: Exception) -> Failure | None:
    """Return the failure for an exception of the appliance's own code (`Problem`, `BadSetting`).

    None for any other exception.
    """
    from mailbox_appliance import errors, settings

    if isinstance(problem, settings.BadSetting):
        return Failure("invalid_request", str(problem), INPUT)
    if not isinstance(problem, errors.Problem):
        return None
    details = [(detail.path, detail.message) for detail in problem.details]
    exit_code = _EXIT_CODE_BY_CODE.get(problem.code, _exit_code_for_family(problem))
    return Failure(problem.code, problem.message, exit_code, details=details)


def _exit_code_for_family(problem: Exception) -> int:
    from mailbox_appliance import errors

    input_families = errors.Invalid, errors.NotFound, errors.Conflict, errors.TooLarge, errors.WrongMedia
    families: tuple[tuple[int, tuple[type[Exception], ...]], ...] = (
        (INPUT, (*input_families, errors.Unsupported)),
        (ACCESS, (errors.Unauthenticated, errors.Denied, errors.KeyUnusable)),
        (NETWORK, (errors.Throttled, errors.Unverified, errors.Unavailable)),
    )
    return next((code for code, family in families if isinstance(problem, family)), INTERNAL)


def _new_request_id() -> str:
    from mailbox_appliance.security.tokens import new_id

    return new_id("req")
