"""Trying both logins of a mailbox before it is kept."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from mailbox_appliance.records import AccountCapabilities, Connection, ListedFolder
from mailbox_appliance.remote.calls import Calls
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
    """At least one of the two servers cannot be used in this way; IMAP's fault comes first.

    `checked`: what IMAP showed, where only SMTP cannot be used.
    """

    def __init__(self, faults: tuple[RemoteFault, ...], checked: Checked | None = None) -> None:
        super().__init__(", ".join(map(str, faults)))
        self.faults, self.checked = faults, checked


def check(
    connection: Connection, *, ca_file: str, timeout: float, calls: Calls | None = None, sends: bool = True
) -> Checked:
    """Log in to both servers at the same time, and leave. Nothing is changed there. Raises SignInFailed.

    `calls`: of whoever may give it up. `sends`: whether mail goes out by SMTP; else that is not asked.
    """
    calls = calls or Calls()

    def imap() -> Checked:
        with ImapMailbox.open(connection.imap, ca_file=ca_file, timeout=timeout) as mailbox:
            return Checked(mailbox.list_folders(), mailbox.capabilities)

    def smtp() -> None:
        if not sends:
            return
        Submission.open(connection.smtp, ca_file=ca_file, timeout=timeout).quit()

    try:
        begun = calls.begin("imap", imap), calls.begin("smtp", smtp)
    except RemoteFault as fault:
        raise SignInFailed((fault,)) from fault
    incoming, outgoing = _outcome(begun[0]), _outcome(begun[1])
    faults = tuple(fault for fault in (incoming, outgoing) if isinstance(fault, RemoteFault))
    if isinstance(incoming, RemoteFault):
        raise SignInFailed(faults)
    if faults:
        raise SignInFailed(faults, incoming)
    return incoming


def _outcome(call: "Future[T]") -> T | RemoteFault:
    try:
        return call.result()
    except RemoteFault as fault:
        return fault
