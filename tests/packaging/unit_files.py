"""systemd unit files, and the restrictions in them."""

import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYSTEM = ROOT / "packaging" / "linux" / "mailbox-appliance.service"
USER = ROOT / "packaging" / "linux" / "mailbox-appliance.user.service"

#: Of each section its settings, and of each setting its values, in order.
Unit = dict[str, dict[str, list[str]]]


def read_unit(text: str) -> Unit:
    """Parse a unit file, without comments."""
    unit: Unit = {}
    for line in text.splitlines():
        if line.startswith("["):
            section = unit.setdefault(line.strip("[]"), defaultdict(list))
        elif line and line[0] not in "#;":
            name, _, value = line.partition("=")
            section[name].append(value)
    return unit


def allowed_calls(unit: Unit) -> set[str]:
    """Return the system calls that a unit's filter allows: an allow list, minus a deny list."""
    allowed: set[str] = set()
    sets = _sets()
    for line in unit["Service"]["SystemCallFilter"]:
        named = {call for word in line.lstrip("~").split() for call in _expanded(word, sets)}
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def _sets() -> dict[str, list[str]]:
    """Return the sets of system calls that this systemd knows."""
    told = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    sets: dict[str, list[str]] = {}
    for line in told.splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.lstrip().startswith("#"):
            members.append(line.strip())
        elif line.startswith("#"):  # the calls that are in no set
            members = []
    return sets


def _expanded(word: str, sets: dict[str, list[str]]) -> set[str]:
    if not word.startswith("@"):
        return {word}
    return {call for member in sets[word] for call in _expanded(member, sets)}
