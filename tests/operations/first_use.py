"""The body of a send, read for the first time by 12 threads at once, in a fork for each try.

    python -m tests.operations.first_use FOLDER TRIES

An appliance is started and stopped before: it has prepared every type that threads decode. Prints how often a fork
ended in which way, as JSON: 0, or the number of a signal, negative. Without the preparation 10 to 30 in a hundred die
by SIGSEGV, since msgspec publishes its notes on a type before they are complete.
"""

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.operations import sending
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.operation import Operation
from mailbox_appliance.web.app import App

_THREADS, _TURN = 12, 2e-5  # seconds; 5 ms is usual
_RAW = {
    "body": {"text": "Hello"},
    "to": [{"email": "b@example.test"}],
    "subject": "s",
    "attachments": [{"filename": "a", "mimeType": "application/octet-stream", "content": "AAAA"}],
}


def main(folder: Path, tries: int) -> None:
    """Print how the forks ended."""
    appliance = Appliance(folder)
    App(appliance)
    appliance.start()
    appliance.stop()  # no thread is left that a fork would lose
    operation: Operation[Any, Any] = sending.send
    assert operation.body is not None
    ends = Counter(_fork(operation.body.type) for _ in range(tries))
    print(json.dumps(ends))


def _fork(kind: Any) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        sys.setswitchinterval(_TURN)
        _read_at_once(kind)
        code = 0
    finally:
        os._exit(code)


def _read_at_once(kind: Any) -> None:
    gate, read = threading.Barrier(_THREADS), list[object]()

    def use() -> None:
        gate.wait()
        read.append(convert_body(_RAW, kind))

    threads = [threading.Thread(target=use) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == _THREADS


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
