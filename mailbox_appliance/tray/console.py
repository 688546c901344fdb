"""Where the console is opened: signed in by a link that is good once, where there is a log-in; else at its door."""

from pathlib import Path

from mailbox_appliance.client.errors import NETWORK, Failure
from mailbox_appliance.client.http import ApiRequest
from mailbox_appliance.tray import presence
from mailbox_appliance.tray.watching import Watcher


def door(data_dir: Path, place: str = "") -> str:
    """The address of a page of the console, where whoever is not signed in is asked to. Raises Failure."""
    return f"{presence.url(data_dir)}/{place and '#' + place}"


def link(data_dir: Path, watcher: Watcher, place: str = "") -> str:
    """An address that shows a page of the console at once, within a minute; the door, where no log-in opens it.

    Raises Failure where nothing answers. To be opened at once and told nobody: it lets in whoever has it.
    """
    closed = door(data_dir, place)
    watcher.poll()  # which finds the log-in, where it is new
    try:
        answer = watcher.client().call(ApiRequest("POST", "/auth/console-links", timeout=10))
        return f"{answer['data']['url']}{place and '&to=' + place}"
    except Failure as failure:
        if failure.exit_code == NETWORK:
            raise
    except (KeyError, TypeError):
        pass
    return closed
