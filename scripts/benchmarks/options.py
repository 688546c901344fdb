"""What was asked for on the command line, for the measurements that heed it."""

import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Options:
    """`scale` multiplies how many messages there are; `cache`: where a large store lies between two runs."""

    scale: float = 1.0
    cache: Path = Path(tempfile.gettempdir()) / "mailbox-appliance-bench"

    def scaled(self, count: int, least: int = 100) -> int:
        """So many, in a run of this size."""
        return max(least, int(count * self.scale))


#: In force; set before anything is measured.
OPTIONS = Options()


class LeftOut(Exception):
    """What stands beside us is not installed here; the text says what."""
