"""`mailbox-appliance serve`, by a process that kills itself where the file `die-at` in its data directory says.

The file holds a phase (`accepted`, `connecting`, `envelope`, `data`, `dot`: after its commit, before its act) or a
status (`succeeded`, `failed`, `uncertain`, `withdrawn`: after its commit, before anybody is told). It is used up first.
"""

import os
import signal
import sys
from pathlib import Path

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.events import DeliveryPhaseEntered, DeliverySettled
from mailbox_appliance.service import main

ORDER = "die-at"


def prepare(appliance: Appliance) -> None:
    order = appliance.folder / ORDER

    def reach(moment: str) -> None:
        if order.exists() and order.read_text() == moment:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    appliance.events.subscribe(DeliveryPhaseEntered, lambda event: reach(event.phase))
    appliance.events.subscribe(DeliverySettled, lambda event: reach(event.status))


if __name__ == "__main__":
    _, option, folder, *rest = sys.argv
    assert (option, rest) == ("--data-dir", ["serve", "--port", "0", "--ready-json"])
    main.serve(Path(folder), flags={"server.port": 0}, ready_json=True, prepare=prepare)
