"""Every error has a family, a stable code of the contract, and a message whose values can be filled in."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from mailbox_appliance import errors
from mailbox_appliance.errors import Detail, Invalid, Problem, StoreUnusable, Throttled
from mailbox_appliance.mailbox import bulk
from mailbox_appliance.sending import verdict
from mailbox_appliance.web import http
from mailbox_appliance.web.server.server import CannotListen

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
    "backup_wrong_passphrase", "policy_denied",
}
# fmt: on
#: What the tray icon alone reports: to its log, and `stopped` (by the user) to nobody.
TRAY_CODES = {"not_started", "crashed", "stopped"}
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
    assert problem.message == "The request is not valid: /to/0/email: is no address"


# --- the reference pages of all codes ---

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
COMMAND_PAGE = (ROOT / "docs" / "reference" / "command-line-errors.md").read_text("utf-8")


def rows(heading: str, page: str = PAGE) -> dict[str, str]:
    """The rows of the table below a heading: a code, and the next column."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
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
    source += (ROOT / "mailbox_appliance/store/approvals.py").read_text()
    told = rows("Why a delivery failed")
    assert set(get_args(verdict.FailureCode)) <= set(told)
    others = set(told) - set(get_args(verdict.FailureCode))
    assert {code for code in others if f'"{code}"' not in source} <= {"provider_unavailable"}


def test_the_page_has_every_reason_of_a_failed_action() -> None:
    told = rows("Why one message of a bulk action failed")
    assert set(told) - {"uncertainIds"} == set(get_args(bulk.FailureCode))


def test_the_page_has_every_code_of_the_command_line() -> None:
    told = rows("Codes", COMMAND_PAGE)
    own = {kind.code for kind in KINDS if issubclass(kind, StoreUnusable)} | {CannotListen.code}
    for folder in ("client", "cli", "tray", "system"):
        for file in (ROOT / "mailbox_appliance" / folder).rglob("*.py"):
            own |= set(failure_codes(ast.parse(file.read_text("utf-8"))))
    assert set(told) == own - CODES - TRAY_CODES
    assert all(f"`{code}`" in COMMAND_PAGE for code in TRAY_CODES - {"stopped"})


def failure_codes(module: ast.Module) -> Iterator[str]:
    """The codes of the failures that a module raises: as literals, by names, by tables of codes and by classes."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        for target, value in assignments(node):
            values.setdefault(target, []).append(value)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Failure":
            yield from literals(node.args[0], values)
        elif isinstance(node, ast.ClassDef):
            named = [value for inner in node.body for target, value in assignments(inner) if target == "code"]
            yield from (code for value in named for code in literals(value, values))


def assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement sets, with their values; of a tuple of names the first, which gets the first value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = getattr(node, "value", None)
    for target in targets:
        first = target.elts[0] if isinstance(target, ast.Tuple) else target
        if isinstance(first, ast.Name) and value is not None:
            yield first.id, value


def literals(node: ast.expr, values: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The texts that an expression can have: of a tuple its first element, of a table each of its values."""
    inner: list[ast.expr] = []
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name):
            inner = values.get(name, [])
        case ast.Tuple(elts=[first, *_]):
            inner = [first]
        case ast.BoolOp(values=several) | ast.Dict(values=several):
            inner = several
        case ast.IfExp(body=one, orelse=other):
            inner = [one, other]
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_, *default]):
            inner = [table, *default]
    for one in inner:
        yield from literals(one, values)


def test_codes_are_found_in_every_form() -> None:
    source = """
TABLE = {1: (NAME, "..."), 2: ("of_table", "...")}
NAME = "by_name"
class Own(Failure):
    code = "of_class"
def fail(given):
    code, what = TABLE.get(given, ("by_default", "..."))
    if given:
        raise Failure(given or "literal", what, 1)
    raise Failure(code, "text", 1)
"""
    wanted = {"by_name", "of_table", "by_default", "of_class", "literal"}
    assert set(failure_codes(ast.parse(source))) == wanted


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Problem], ids=lambda kind: kind.__name__)
def test_the_assurance_is_a_flag_and_not_part_of_a_text(kind: type[Problem]) -> None:
    """Callers that must not repeat it take `explanation`; no caller searches a message for it."""
    problem = kind(details=(), retry_after=None, **dict.fromkeys(fields(kind), "VALUE"))
    assert "othing was changed" not in problem.explanation
    assert ("Nothing was changed." in problem.message) is kind.changed_nothing
