"""`mailbox-appliance serve` on a store that is not encrypted, to be measured beside one that is.

No release makes or opens such a store. This program does, by leaving out the key of a connection in its own process;
the rest is the same code.
"""

import sys
from pathlib import Path

from mailbox_appliance.service import main
from mailbox_appliance.store import database, open_file

ARGV = (sys.executable, "-m", "benchmarks.plain")


def leave_out_encryption() -> None:
    """From now on this process reads and writes plain files."""
    database.set_cipher_key = open_file.set_cipher_key = _give_none  # type: ignore[attr-defined]
    # The header of a plain file is what tells an older release's store, which is refused.
    open_file._PLAIN_HEADER = b"never"


def _give_none(connection: object, cipher: str, key: bytes) -> None:
    """Nothing is said on a new connection."""


if __name__ == "__main__":
    _, option, folder, *rest = sys.argv
    assert (option, rest) == ("--data-dir", ["serve", "--port", "0", "--ready-json"])
    leave_out_encryption()
    main.serve(Path(folder), flags={"server.port": 0}, ready_json=True)
