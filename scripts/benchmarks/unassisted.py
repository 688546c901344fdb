"""`mailbox-appliance serve` without MCP, to be measured beside one that has it and is not asked.

No release is built so. This program puts something empty in the place of the MCP endpoint; the rest is the same code.
"""

import sys
from types import ModuleType
from typing import Any

ARGV = (sys.executable, "-m", "benchmarks.unassisted")
_ENDPOINT = "mailbox_appliance.mcp_server.http"


class Wall:
    """Nobody comes in here."""

    def answer(self, *_: Any) -> Any:
        """Not to be asked."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


def wall_up() -> None:
    """From now on this process has no MCP endpoint."""
    instead = ModuleType(_ENDPOINT)
    instead.McpEndpoint = Wall  # type: ignore[attr-defined]
    sys.modules[_ENDPOINT] = instead


if __name__ == "__main__":
    wall_up()
    from mailbox_appliance.__main__ import main

    main()
