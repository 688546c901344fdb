"""Every error has a family, a stable code of the contract, and a sentence that can be filled."""

import string

import pytest

from mailbox_appliance import errors
from mailbox_appliance.errors import Detail, Invalid, Problem, StoreUnusable, Throttled

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
    """The values that the sentence of an error wants."""
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
