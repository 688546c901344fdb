"""No answer is at odds with the OpenAPI description, whatever is asked. `scripts/check-api` asks much more."""

from collections.abc import Iterator

import pytest

from tests.web.api.examination import examine, operations
from tests.web.api.household import Household

EXAMPLES = 50


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Household]:
    made = Household(tmp_path_factory.mktemp("household") / "data")
    yield made
    made.close()


@pytest.mark.parametrize("operation_id", operations())
def test_every_answer_is_as_described(operation_id: str, household: Household) -> None:
    seen = examine(operation_id, household, EXAMPLES)
    assert seen.total() >= 1
