"""What the commands about backups have in common: how one is named, and what is shown of it."""

import re
from typing import Any

_ID = re.compile(r"bak_[0-9a-z]+")


def is_id(name: str) -> bool:
    """Whether this is the id of a backup in the data directory, and not the name of a file (`./bak_1` is one)."""
    return _ID.fullmatch(name) is not None


def contents(answer: Any) -> str:
    """What a summary says, in a sentence."""
    told = answer["data"]
    counts = ", ".join(f"{told[name]:,} {name}" for name in ("members", "accounts", "messages"))
    return f"It is whole, and holds {counts}.\n"
