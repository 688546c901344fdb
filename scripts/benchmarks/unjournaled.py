"""`mailbox-appliance serve` without the triggers that write the journal, to be measured beside one that has them.

No release is built so. This program leaves the triggers out of the schema; the rest is the same code.
"""

import re
import sys

from mailbox_appliance.store import schema
from mailbox_appliance.store.formats import format_5

ARGV = (sys.executable, "-m", "benchmarks.unjournaled")
_TRIGGER = re.compile(r"^CREATE TRIGGER changes_of_\w+ .*?\bEND;$", re.MULTILINE | re.DOTALL)


def leave_out_journal() -> None:
    """From now on this process creates stores without those triggers."""
    format_5.SCHEMA = _TRIGGER.sub("", format_5.SCHEMA)
    for name in [name for name in schema.TRIGGERS if name.startswith("changes_of_")]:
        del schema.TRIGGERS[name]


if __name__ == "__main__":
    leave_out_journal()
    from mailbox_appliance.__main__ import main

    main()
