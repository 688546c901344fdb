"""What makes the whole suite take less time, and changes nothing about any test.

Whoever starts tests may have told Python to write no bytecode. Then each of the hundreds of processes that tests start
would compile the whole program anew, which takes longer than all that they do; so it is compiled once, before.
"""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_IMPORT_EVERYTHING = """
import importlib, pkgutil, mailbox_appliance
for module in pkgutil.walk_packages(mailbox_appliance.__path__, "mailbox_appliance."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
#: The files that take longest, the longest first: one that is begun last leaves all processes but one idle.
LONGEST = (
    "packaging/test_packages.py",
    "test_bench_quick.py",
    "sync/test_html_child.py",
    "console/test_connecting.py",
    "sync/test_proof.py",
    "web/api/test_api.py",
    "console/test_compose.py",
    "serving_proof/test_short.py",
    "tray/test_run.py",
    "sending/test_proof.py",
    "store_proof/test_short.py",
    "sending/test_kill.py",
    "service/test_signals.py",
    "sending/test_kill_graph.py",
    "console/test_sign_in.py",
    "service/test_service.py",
    "service/test_main.py",
    "console/test_mailboxes.py",
    "sending/test_graph_files.py",
    "console/test_settings.py",
    "threads_proof/test_short.py",
    "demo/test_run.py",
    "sync/test_parse_child.py",
    "console/test_system.py",
    "console/test_backups.py",
    "sync/test_signed_in.py",
    "operations/test_accounts.py",
    "test_suite.py",
    "store_proof/test_damage.py",
    "console/test_deliveries.py",
    "doors/test_matrix.py",
    "cli/test_key.py",
    "mcp_server/test_clients.py",
    "console/test_hostile_mail.py",
    "console/test_keys.py",
    "cli/test_golden.py",
    "sync/test_parsers.py",
    "store_proof/test_directories.py",
    "console/test_members.py",
    "remote/test_login_check.py",
    "console/test_mail_list.py",
    "test_full_run.py",
    "console/test_message.py",
    "steady_proof/test_short.py",
    "system/test_keychain_of_a_desktop.py",
    "cli/test_end_to_end.py",
)


def pytest_configure() -> None:
    """Keep what is compiled, whatever the environment says."""
    sys.dont_write_bytecode = False


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before several processes share the files: compile everything, and leave the order to us."""
    if session.config.pluginmanager.hasplugin("dsession"):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([sys.executable, "-c", _IMPORT_EVERYTHING], cwd=_ROOT, env=environment, check=True)
        session.config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: nothing of it is garbage, and nobody need look at it again for any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the files, the longest come first, and then those with the most tests."""
    if not hasattr(config, "workerinput"):
        return
    places = {_ROOT / "tests" / name: number for number, name in enumerate(LONGEST)}
    missing = [str(path) for path in places if not path.is_file()]
    assert not missing, f"no such files: {missing}"
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (places.get(item.path, len(places)), -counts[item.path]))
