"""No response conflicts with the OpenAPI description, whatever the request. `scripts/check-api` makes many more
requests.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance.remote import login_check
from tests.web.api.examination import examine, operations
from tests.web.api.household import Household

EXAMPLES = 25
#: Fewer requests for slow operations: backups, and passphrases, whose hashing is slow on purpose.
FEWER = dict.fromkeys(("createBackup", "verifyBackup", "restoreBackup"), 8)


@pytest.fixture
def household(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    monkeypatch.setattr(login_check, "ANSWER_AFTER", 0.1)  # equal times for all refusals have their own tests
    made = Household(tmp_path / "household")
    yield made
    made.close()


@pytest.mark.parametrize("operation_id", operations())
def test_every_answer_is_as_described(operation_id: str, household: Household) -> None:
    assert examine(operation_id, household, FEWER.get(operation_id, EXAMPLES)).total()
