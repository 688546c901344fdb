"""Commands that open a store by themselves: all report an upgrade; some need no valid configuration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.offline import keys, store
from tests.stores.opening import copied

Command = Callable[[Path], dict[str, Any]]
COMMANDS: dict[str, Command] = {
    "backup create": lambda folder: store.call(folder, "create_backup"),
    "audit verify": lambda folder: store.call(folder, "verify_audit"),
    "key use-file": keys.use_file,
    "store compact": store.compact,
    "store rekey": store.rekey,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied(3, tmp_path / "data")[0]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_tells_of_the_upgrade(folder: Path, command: Command) -> None:
    first, second, *_ = command(folder)["warnings"]
    (kept,) = [file.name for file in (folder / "backups").glob("*-migration.mbxbackup")]
    assert first == f"The store was upgraded from format 3 to 5. The previous store is kept in backups/{kept}."
    assert "The email address of the member mem_4 differs from that of mem_3 only in spelling" in second
    assert not [one for one in command(folder).get("warnings", ()) if "upgraded" in one]


def test_what_the_upgrade_itself_answers(folder: Path) -> None:
    foreseen, answer = store.dry_run_upgrade(folder), store.upgrade(folder)
    assert len(answer["warnings"]) == 1
    assert answer["warnings"] == foreseen["warnings"]


@pytest.mark.parametrize("name", ["create_backup", "verify_audit"])
@pytest.mark.parametrize("content", ["[server", "[server]\nnonsense = 1\n"])
def test_a_backup_and_the_audit_log_need_no_valid_configuration(tmp_path: Path, name: str, content: str) -> None:
    with store.open_store(tmp_path):
        (tmp_path / "config.toml").write_text(content)
    assert store.call(tmp_path, name)["data"]
