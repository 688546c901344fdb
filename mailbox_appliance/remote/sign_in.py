"""Trying both logins of a mailbox before it is kept."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from mailbox_appliance.records import AccountCapabilities, Connection, ListedFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox
from mailbox_appliance.remote.smtp import Submission

T = TypeVar("T")


@dataclass(frozen=True)
class Checked:
    """What the servers of a mailbox showed."""

    folders: tuple[ListedFolder, ...]
    capabilities: AccountCapabilities


class SignInFailed(Exception):
    """At least one of the two servers cannot be used in this way; IMAP's fault comes first."""

    def __init__(self, faults: tuple[RemoteFault, ...]) -> None:
        super().__init__(", ".join(map(str, faults)))
        self.faults = faults


def check(connection: Connection, *, ca_file: str, timeout: float) -> Checked:
    """Log in to both servers at the same time, and leave. Nothing is changed there. Raises SignInFailed."""

    def imap() -> Checked:
        with ImapMailbox.open(connection.imap, ca_file=ca_file, timeout=timeout) as mailbox:
            return Checked(mailbox.list_folders(), mailbox.capabilities)

    def smtp() -> None:
        Submission.open(connection.smtp, ca_file=ca_file, timeout=timeout).quit()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sign-in") as other:
        waiting = other.submit(_outcome, smtp)
        incoming = _outcome(imap)
        outgoing = waiting.result()
    faults = tuple(fault for fault in (incoming, outgoing) if isinstance(fault, RemoteFault))
    if isinstance(incoming, RemoteFault) or faults:
        raise SignInFailed(faults)
    return incoming


def _outcome(task: Callable[[], T]) -> T | RemoteFault:
    try:
        return task()
    except RemoteFault as fault:
        return fault
