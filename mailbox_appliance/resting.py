"""An appliance comes to rest: it works no more and its files are closed, while the directory stays ours."""

import threading
from concurrent.futures import Future

from mailbox_appliance.appliance import Appliance

# Seconds for what is under way: sends, of which longer ones become uncertain; and whoever still reads.
_REST_WITHIN, _CLOSE_WITHIN = 20.0, 30.0


def begin_to_rest(appliance: Appliance) -> Future[bool]:
    """Stop an appliance and close its files, in a thread of its own, so that who waits may have to do something else.

    The result: whether the files are closed. Else somebody still has one open.
    """
    resting = Future[bool]()

    def rest() -> None:
        try:
            appliance.stop_workers(_REST_WITHIN)
            resting.set_result(appliance.store.close_files(_CLOSE_WITHIN))
        except BaseException as failure:  # noqa: BLE001 - who waits is told
            resting.set_exception(failure)

    threading.Thread(target=rest, name="resting", daemon=True).start()
    return resting
