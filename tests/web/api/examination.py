"""Compares the HTTP interface with its description: for each operation, valid and invalid requests.

No response may be an internal error (500), have a status or a header that the operation does not list, or violate its
schema. Requests that do not match their description are refused; an unsupported method is 405 and lists the supported
ones. All checks of tests/checked_client.py apply here as well.

`scripts/check-api` makes many requests, the test suite few. They depend only on the seed.
"""

import argparse
import json
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode, Response
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Err
from schemathesis.generation.drivers import CoverageGenerator
from schemathesis.generation.feedback import NO_FEEDBACK
from schemathesis.generation.overrides import Override
from schemathesis.specs.openapi import checks

from mailbox_appliance.web.openapi import describe
from tests.checked_client import HOST, Answer, check
from tests.web.api.filling import Filling
from tests.web.api.household import Household
from tests.web.api.outage import no_network

Operation = APIOperation[Any, Any, Any, Any]
Request = Case[Any]

EXAMPLES = 1000
_CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
]
#: Addresses to which providers send a browser: they add parameters, which must be ignored (RFC 6749 4.1.2).
_OPEN = {"handleOAuthCallback"}
#: The caller: usually one with all permissions, so that requests are checked completely.
_ASKING = ("admin",) * 14 + ("key",) * 4 + ("member", "nobody")


@cache
def operations() -> dict[str, Operation]:
    """Return the described operations by operation ID."""
    schema = schemathesis.openapi.from_dict(json.loads(describe()))
    # Otherwise half of the deliberate errors would be a missing token; authentication has its own tests.
    schema.config.generation.with_security_parameters = False
    # An object without access is 404 before any other error.
    allowed = schema.config.checks.missing_required_header
    allowed.expected_statuses = [*(allowed.expected_statuses or ()), "404"]
    found = [result.ok() for result in schema.get_all_operations() if not isinstance(result, Err)]
    return {operation.definition.raw["operationId"]: operation for operation in found}


def examine(operation_id: str, household: Household, examples: int, seed: int | None = None) -> Counter[int]:
    """Request one operation in many ways; return how often each status occurred. Raises AssertionError with what is
    wrong.

    Without a seed the requests are the same each time.
    """
    operation = operations()[operation_id]
    seen: Counter[int] = Counter()
    filling = Filling(household, operation_id, Random(f"{operation_id} {seed}"))
    with no_network():
        for case in (*_at_the_bounds(operation), *_generated(operation, examples, seed)):
            seen[_ask(case, household, filling)] += 1
    return seen


def _at_the_bounds(operation: Operation) -> Iterator[Request]:
    """Yield every value at a limit of its schema and just beyond it, one by one; and unsupported methods."""
    config = operation.schema.config.generation_for(operation=operation, phase="coverage")
    yield from CoverageGenerator(
        operation=operation,
        generation_modes=list(GenerationMode),
        generation_config=config,
        auth_storage=None,
        override=Override(),
        feedback=NO_FEEDBACK,
        hooks=None,
    )


def _generated(operation: Operation, examples: int, seed: int | None) -> list[Request]:
    """Return random requests, half of them valid.

    They are only collected here: a response depends on the requests before it, so Hypothesis could not reduce a failure
    by repeating one.
    """
    found: list[Request] = []
    bounds = hypothesis.settings(
        max_examples=examples,
        derandomize=seed is None,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])
    collect = bounds(hypothesis.given(case=cases)(lambda case: found.append(case)))
    (collect if seed is None else hypothesis.seed(seed)(collect))()
    return found


def _ask(case: Request, household: Household, filling: Filling) -> int:
    filling.fill(case)
    asking = filling.random.choice(_ASKING)
    if asking != "nobody":
        case.headers["Authorization"] = f"Bearer {household.token(asking)}"
    response = case.call(app=household.app, base_url=f"http://{HOST}", environ_overrides={"REMOTE_ADDR": "127.0.0.1"})
    answer = _answer(response)
    try:
        assert answer.status != 500, "a fault of ours"
        case.validate_response(response, checks=_CHECKS)
        path, _, query = str(response.request.url).removeprefix(f"http://{HOST}").partition("?")
        check(answer, str(response.request.method), path)
        _check_strictness(case, parse_qs(query, keep_blank_values=True), answer)
    except (AssertionError, FailureGroup) as fault:
        raise AssertionError(f"{_faults(fault)}\n\n{_told(response)}") from None
    filling.cursor = _next_page(answer) or filling.cursor
    return answer.status


def _faults(fault: AssertionError | FailureGroup) -> str:
    """Return what is wrong; for a bare assertion, its source."""
    if isinstance(fault, FailureGroup):
        return "\n".join(map(str, fault.exceptions))
    return str(fault) or str(traceback.extract_tb(fault.__traceback__)[-1].line)


def _check_strictness(case: Request, sent: Iterable[str], answer: Answer) -> None:
    """Check that unknown names are refused, and that a 405 lists the supported methods."""
    described = {parameter.name for parameter in case.operation.query}
    is_open = case.operation.definition.raw["operationId"] in _OPEN
    unknown = set() if is_open else set(sent) - described
    assert not unknown or answer.status >= 400, f"unknown parameters are taken: {sorted(unknown)}"
    if answer.status == 405:
        methods = {method.upper() for method in case.operation.schema[case.operation.path]}
        # And those of another template that matches the path: `actions` could be the ID of a message.
        allowed = set(answer.headers["allow"].split(", "))
        assert allowed >= methods | ({"HEAD"} if "GET" in methods else set()), f"Allow tells {sorted(allowed)}"
        assert case.method not in allowed, f"{case.method} is in Allow and refused"


def _answer(response: Response) -> Answer:
    headers = {name: ", ".join(values) for name, values in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def _next_page(answer: Answer) -> str | None:
    if answer.status >= 300 or "json" not in answer.headers["content-type"]:
        return None
    data = answer.data
    return data.get("nextCursor") if isinstance(data, dict) else None


def _told(response: Response) -> str:
    """Return the request and its response as text for people."""
    request = response.request
    asked = f"{request.method} {request.url}\n{dict(request.headers)}\n{request.body!r}"
    return f"{asked}\n\n{response.status_code} {_answer(response).headers}\n{response.content[:2000]!r}"


def main(arguments: Sequence[str]) -> int:
    """Examine all operations, or one, and print the findings; return the exit status."""
    parser = argparse.ArgumentParser(prog="check-api", description="Holds the HTTP API against its description.")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="generated requests for each operation")
    parser.add_argument("--seed", type=int, help="makes the same requests as an earlier run")
    parser.add_argument("--operation", choices=sorted(operations()), metavar="NAME", help="this one alone")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began, total, faults = time.monotonic(), 0, 0
    for operation_id in [given.operation] if given.operation else operations():
        started = time.monotonic()
        try:
            seen = _examine_apart(operation_id, given.examples, seed)
        except AssertionError as fault:
            faults += 1
            print(f"{operation_id}: {fault}\n", flush=True)
            continue
        total += seen.total()
        statuses = ", ".join(f"{count} x {status}" for status, count in sorted(seen.items()))
        print(f"{operation_id}: {statuses}, {time.monotonic() - started:.1f} s", flush=True)
    print(f"{total} requests in {time.monotonic() - began:.0f} s; operations with faults: {faults}")
    return 1 if faults else 0


def _examine_apart(operation_id: str, examples: int, seed: int) -> Counter[int]:
    """Examine an operation with an appliance of its own, so that changes by other operations play no part."""
    with tempfile.TemporaryDirectory(prefix="check-api-") as name:
        household = Household(Path(name) / "data")
        try:
            return examine(operation_id, household, examples, seed)
        finally:
            household.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
