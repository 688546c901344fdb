"""pystray, taken in so that nothing is looked for that would show an icon: that is decided by `hosts`."""

import os
import sys
from typing import Any


def base() -> Any:
    """The module `pystray._base`, on which every backend stands, ours too.

    On Linux the import of pystray fails where no X server answers, unless a backend is named in the environment.
    """
    before = os.environ.get("PYSTRAY_BACKEND")
    if sys.platform.startswith("linux"):
        os.environ["PYSTRAY_BACKEND"] = "dummy"
    try:
        from pystray import _base
    finally:
        if before is None:
            os.environ.pop("PYSTRAY_BACKEND", None)
        else:
            os.environ["PYSTRAY_BACKEND"] = before
    return _base
