"""Whether a service that ended has crashed, and when it is started again."""

import signal
import sys

from mailbox_appliance.clock import Clock

#: Seconds before the first, the second and each later restart.
_DELAYS = (0.0, 5.0, 30.0)
#: So many restarts within so many seconds; a service that crashes more often is left alone.
MOST, WITHIN = 5, 600.0
#: What ends a service on purpose, as for systemd's `Restart=on-failure`; SIGHUP comes from a terminal that is gone.
_ON_PURPOSE = frozenset(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
#: Exit codes of Windows from here on name a fault; Ctrl-C is the one that is none.
_FIRST_FAULT, _CTRL_C = 0xC000_0000, 0xC000_013A


def has_crashed(code: int) -> bool:
    """Whether a process with this return code (of `subprocess`) was ended by a signal that nobody sends to stop it."""
    if sys.platform == "win32":
        return code >= _FIRST_FAULT and code != _CTRL_C
    else:
        return code < 0 and -code not in _ON_PURPOSE


class Restarts:
    """Counts the restarts of one tray's service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: list[float] = []

    def next_delay(self) -> float | None:
        """Seconds until the restart that is due after a crash now; None if there were too many lately."""
        now = self._clock.monotonic()
        self._began = [at for at in self._began if now - at < WITHIN]
        if len(self._began) >= MOST:
            return None
        delay = _DELAYS[min(len(self._began), len(_DELAYS) - 1)]
        self._began.append(now)
        return delay
