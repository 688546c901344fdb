"""Copies of the stores of past formats, with their secrets, to be opened."""

import json
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FORMATS = (3, 4)


def copied(number: int, target: Path) -> tuple[Path, dict[str, Any]]:
    """A store of this format in a directory of its own, and its plain secrets."""
    shutil.copytree(HERE / f"format{number}", target)
    for file in target.iterdir():
        file.chmod(0o600)
    return target, json.loads((HERE / f"format{number}.json").read_text("utf-8"))
