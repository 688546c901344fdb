"""Start at login on macOS: the property list, read by the parser that Python has of it."""

import plistlib
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.tray.autostart import LABEL, LaunchAgent

COMMAND = ["/Applications/Mailbox Appliance.app/Contents/MacOS/mailbox-appliance", "--data-dir", "/a <&> b", "tray"]

# fmt: off
#: What somebody changed in the file, and whether it starts then.
CHANGES: list[tuple[dict[str, Any], bool]] = [
    ({},                   True),
    ({"Disabled": True},   False),
    ({"Disabled": False},  True),
    ({"RunAtLoad": False}, False),
]
# fmt: on


@pytest.fixture
def agent(tmp_path: Path) -> LaunchAgent:
    """The agent of a user who has none."""
    return LaunchAgent(tmp_path)


def test_the_property_list_says_what_launchd_needs(agent: LaunchAgent, tmp_path: Path) -> None:
    assert agent.find() is None
    agent.write(COMMAND)
    file = tmp_path / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    assert (str(file), file.stat().st_mode & 0o777) == (agent.location, 0o644)
    assert plistlib.loads(file.read_bytes()) == {
        "Label": LABEL,
        "ProgramArguments": COMMAND,
        "RunAtLoad": True,
        "ProcessType": "Interactive",
        "LimitLoadToSessionType": "Aqua",
    }
    for _ in range(2):  # what is gone is gone
        agent.remove()
        assert agent.find() is None


@pytest.mark.parametrize(("change", "is_on"), CHANGES)
def test_what_was_switched_off_is_off_and_is_switched_on_again(
    change: dict[str, Any], is_on: bool, agent: LaunchAgent
) -> None:
    agent.write(COMMAND)
    file = Path(agent.location)
    file.write_bytes(plistlib.dumps(plistlib.loads(file.read_bytes()) | change, fmt=plistlib.FMT_BINARY))
    found = agent.find()
    assert found is not None
    assert (list(found.command), found.is_on) == (COMMAND, is_on)
    agent.write(COMMAND)
    found = agent.find()
    assert found is not None
    assert found.is_on


@pytest.mark.parametrize("content", [b"", b"nonsense", b"<plist><array/></plist>", plistlib.dumps({}), b"bplist00\xff"])
def test_a_damaged_file_starts_nothing(content: bytes, agent: LaunchAgent) -> None:
    agent.write(COMMAND)
    Path(agent.location).write_bytes(content)
    assert agent.find() is None
