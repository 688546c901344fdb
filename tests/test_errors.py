"""Every error has a family, a stable code of the contract, and a message whose values can be filled in."""

import re
import string
from pathlib import Path
from typing import get_args

import pytest

from mailbox_appliance import errors
from mailbox_appliance.errors import Detail, Invalid, Problem, StoreUnusable, Throttled
from mailbox_appliance.mailbox import bulk
from mailbox_appliance.sending import verdict
from mailbox_appliance.web import http

FAMILIES = (
    errors.Invalid,
    errors.Unauthenticated,
    errors.Denied,
    errors.NotFound,
    errors.Conflict,
    errors.TooLarge,
    errors.WrongMedia,
    errors.Unsupported,
    errors.Throttled,
    errors.Unverified,
    errors.Unavailable,
    errors.StoreUnusable,
)
#: The codes that clients switch on, as the API promises them.
# fmt: off
CODES = {
    "invalid_json", "invalid_request", "message_too_large", "invalid_token", "unauthenticated",
    "invalid_credentials", "permission_denied", "session_required", "https_required", "member_suspended",
    "plan_denied", "host_not_allowed", "not_found", "idempotency_conflict", "conflict", "email_taken",
    "last_admin", "account_exists", "sync_required", "body_too_large", "unsupported_media_type",
    "unsupported_capability", "too_many_attempts", "provider_rate_limited", "internal_error",
    "license_unverified", "provider_unavailable", "method_not_allowed", "request_timeout",
    "headers_too_large", "not_a_backup", "backup_newer_format", "backup_truncated", "backup_altered",
    "backup_wrong_passphrase",
}
# fmt: on
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Problem)]


def fields(kind: type[Problem]) -> set[str]:
    """Return the names of the values in an error's message."""
    return {name for _, name, _, _ in string.Formatter().parse(kind.__doc__ or "") if name}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Problem], ids=lambda kind: kind.__name__)
def test_each_error(kind: type[Problem]) -> None:
    assert sum(issubclass(kind, family) for family in FAMILIES) == 1
    assert kind.code in CODES or issubclass(kind, StoreUnusable)
    values: dict[str, object] = dict.fromkeys(fields(kind), "VALUE")
    problem = kind(details=(), retry_after=None, **values)
    assert problem.message == str(problem)
    assert "{" not in problem.message
    assert problem.message.count("VALUE") >= len(fields(kind))
    assert "  " not in problem.message
    assert "\n" not in problem.message


def test_a_sentence_without_its_values_is_a_fault_of_ours() -> None:
    with pytest.raises(KeyError):
        errors.NotFound()


def test_a_value_is_not_taken_for_a_placeholder() -> None:
    assert errors.NotFound(what="{braces}").message.startswith("No {braces} with this ID exists")


def test_details_and_retry_after_travel_along() -> None:
    problem = Throttled(details=(Detail("header:X", "why"),), retry_after=7)
    assert (problem.details, problem.retry_after) == ((Detail("header:X", "why"),), 7)
    assert (Throttled().details, Throttled().retry_after) == ((), None)


def test_invalid_at_one_place() -> None:
    problem = Invalid.at("/to/0/email", "is no address")
    assert problem.details == (Detail("/to/0/email", "is no address"),)
    assert problem.message == "The request is not valid: is no address (/to/0/email)."


# --- the reference page of all codes ---

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")


def rows(heading: str) -> dict[str, str]:
    """The rows of the table below a heading: a code, and the next column."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))


def test_the_page_has_every_code_of_the_api_with_its_status() -> None:
    told = rows("API errors")
    assert set(told) == CODES
    for kind in KINDS:
        statuses = [str(number) for family, number in http._STATUS if issubclass(kind, family)]
        assert not statuses or statuses[0] in told[kind.code], kind.__name__


def test_the_page_has_every_reason_of_a_failed_delivery() -> None:
    source = "".join(
        (ROOT / "mailbox_appliance" / name).read_text() for name in ("sending/outcome.py", "sending/graph.py")
    )
    source += (ROOT / "mailbox_appliance/store/deliveries.py").read_text()
    told = rows("Why a delivery failed")
    assert set(get_args(verdict.FailureCode)) <= set(told)
    others = set(told) - set(get_args(verdict.FailureCode))
    assert {code for code in others if f'"{code}"' not in source} <= {"provider_unavailable"}


def test_the_page_has_every_reason_of_a_failed_action() -> None:
    told = rows("Why one message of a bulk action failed")
    assert set(told) - {"uncertainIds"} == set(get_args(bulk.FailureCode))


def test_the_page_has_every_code_of_the_command_line() -> None:
    told = rows("Errors of the command line")
    own = {kind.code for kind in KINDS if issubclass(kind, StoreUnusable)}
    for file in (ROOT / "mailbox_appliance").rglob("*.py"):
        if file.parts[-2] in {"client", "cli", "commands"}:
            own |= set(re.findall(r'Failure\(\s*"([a-z]+_[a-z_]+)"', file.read_text("utf-8")))
    assert own - CODES - set(told) == set()
    assert set(told) - own == {"cannot_listen", "certificate_unknown"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Problem], ids=lambda kind: kind.__name__)
def test_the_assurance_is_a_flag_and_not_part_of_a_text(kind: type[Problem]) -> None:
    """Callers that must not repeat it take `explanation`; no caller searches a message for it."""
    problem = kind(details=(), retry_after=None, **dict.fromkeys(fields(kind), "VALUE"))
    assert "othing was changed" not in problem.explanation
    assert ("Nothing was changed." in problem.message) is kind.changed_nothing
