"""What went wrong, as a tool tells it: the API's error object as text."""

from typing import Any

from mailbox_appliance.errors import Detail, Problem, StoreUnusable
from mailbox_appliance.mcp_server.bounds import LARGEST_FAILURE, as_json, shortened
from mailbox_appliance.mcp_server.cutting import as_unicode

OURS = "Something went wrong here. The log has it under this request id."
_LONGEST_MESSAGE, _LONGEST_DETAIL, _MOST_DETAILS, _LONGEST_ID = 1_000, 300, 50, 100


def is_ours(problem: Problem) -> bool:
    """Whether it is a fault of ours, not the caller's."""
    return problem.code == Problem.code or isinstance(problem, StoreUnusable)


def text_of(problem: Problem, request_id: str, ours: str = OURS) -> str:
    """At most 4,000 characters; `ours`: what is said of a fault of ours. When to try again, which REST says in a header
    field, stands in the message.
    """
    is_fault = is_ours(problem)
    code, message = (Problem.code, ours) if is_fault else (problem.code, problem.message)
    if problem.retry_after is not None and not is_fault:
        message = f"{shortened(message, _LONGEST_MESSAGE)} Wait {problem.retry_after} seconds."
    details = [] if is_fault else [_detail(one) for one in problem.details[:_MOST_DETAILS]]
    error = {"code": code, "message": _short(message, _LONGEST_MESSAGE + 50), "requestId": request_id[:_LONGEST_ID]}
    text = _json(error, details)
    while details and len(text) > LARGEST_FAILURE:
        details.pop()
        text = _json(error, details)
    return text


def _json(error: dict[str, str], details: list[dict[str, str]]) -> str:
    whole: dict[str, Any] = error | ({"details": details} if details else {})
    return as_json({"error": whole})


def _detail(detail: Detail) -> dict[str, str]:
    return {"path": _short(detail.path, _LONGEST_DETAIL), "message": _short(detail.message, _LONGEST_DETAIL)}


def _short(text: str, most: int) -> str:
    """On one line, and without what is not seen: it may echo what the caller sent."""
    return shortened("".join(c if c.isprintable() else " " for c in as_unicode(text[: 2 * most])), most)
