"""A send, a list, an arrival and a backup enter few files of the package, as `scripts/record-walks` records them."""

from collections.abc import Iterator

import pytest

from tests.house.walks import BOUNDS, prepare_walks
from tests.servers.dovecot import MailServer


@pytest.fixture(scope="module")
def walks(mail_server: MailServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    with prepare_walks(mail_server, tmp_path_factory.mktemp("walks") / "data") as prepared:
        yield prepared.all()


@pytest.mark.parametrize("walk", BOUNDS)
def test_a_walk_enters_few_files(walk: str, walks: dict[str, set[str]]) -> None:
    assert "web/app.py" in walks[walk] or walk == "arrival"
    assert len(walks[walk]) <= BOUNDS[walk], sorted(walks[walk])
