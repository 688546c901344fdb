"""How far long work on the store of a running appliance is, for who waits for it at a terminal."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.render import look_up, one_line
from mailbox_appliance.cli.rows import Call
from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest, TellProgress

STORE = Call("GET", "/admin/store")
#: Seconds between two looks, and for one.
_EVERY, _WITHIN = 0.5, 5.0


@contextmanager
def watched(invocation: Invocation, client: ApiClient, text: str) -> Iterator[None]:
    """Show on a terminal what is waited for and, as soon as the appliance tells, how far that is."""
    with invocation.terminal.waiting(text) as tell:
        if not invocation.terminal.stderr.isatty():
            yield
            return
        is_over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(client, tell, is_over), name="watching", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join(_WITHIN)


def _watch(client: ApiClient, tell: TellProgress, is_over: threading.Event) -> None:
    while not is_over.wait(_EVERY):
        try:
            now = look_up(client.call(ApiRequest(STORE.method, STORE.path, timeout=_WITHIN)), "data.progress")
        except Failure:
            continue  # whoever waits is told by the answer what is wrong
        if isinstance(now, dict) and not is_over.is_set():
            tell(one_line(str(now.get("step") or now.get("work"))), int(now.get("done", 0)), int(now.get("total", 0)))
