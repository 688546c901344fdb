"""Try to sign in to the IMAP and the SMTP server of a mailbox, before its settings are saved."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from mailbox_appliance.model.accounts import AccountCapabilities, Connection
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.remote.errors import Contact, RemoteFault, hide_cause
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.remote.smtp import SmtpConnection

T = TypeVar("T")

#: Seconds for the greeting of a near server, if the cause of a failure is hidden.
GREET_WITHIN = 5.0
#: Seconds after which such a failure is reported: the same for a closed, a silent and a wrong port.
ANSWER_AFTER = 5.5


@dataclass(frozen=True)
class LoginCheckResult:
    """The folders and capabilities that the IMAP server reported during a successful check."""

    folders: tuple[ListedFolder, ...]
    capabilities: AccountCapabilities


class SignInFailed(Exception):
    """The sign-in to the IMAP server, the SMTP server, or both failed.

    - faults: one fault for each server that failed; that of IMAP comes first.
    - checked: the result of the IMAP server, if only SMTP failed; otherwise None.
    """

    def __init__(self, faults: tuple[RemoteFault, ...], checked: LoginCheckResult | None = None) -> None:
        super().__init__(", ".join(map(str, faults)))
        self.faults, self.checked = faults, checked


def check_logins(
    connection: Connection,
    *,
    ca_file: str,
    timeout: float,
    calls: RemoteCalls | None = None,
    sends: bool = True,
    hides_cause: bool = False,
) -> LoginCheckResult:
    """Sign in to the IMAP and the SMTP server at the same time, and disconnect. Nothing is changed there.

    - calls: lets another thread abandon the check.
    - sends: whether the mailbox sends over SMTP; if not, SMTP is not checked.
    - hides_cause: hide why a server on this computer or in a private network failed (`errors.hide_cause`). Such a
      failure is reported ANSWER_AFTER seconds after the start, so that its time reveals nothing either.

    Raises SignInFailed.
    """
    calls = calls or RemoteCalls()

    def imap(contact: Contact) -> LoginCheckResult:
        with ImapMailbox.open(connection.imap, ca_file=ca_file, timeout=timeout, contact=contact) as mailbox:
            return LoginCheckResult(mailbox.list_folders(), mailbox.capabilities)

    def smtp(contact: Contact) -> None:
        if sends:
            SmtpConnection.open(connection.smtp, ca_file=ca_file, timeout=timeout, contact=contact).quit()

    try:
        begun = (
            calls.start("imap", _as_attempt(imap, hides_cause=hides_cause)),
            calls.start("smtp", _as_attempt(smtp, hides_cause=hides_cause)),
        )
    except RemoteFault as fault:
        raise SignInFailed((fault,)) from fault
    incoming, outgoing = _result_or_fault(begun[0]), _result_or_fault(begun[1])
    faults = tuple(fault for fault in (incoming, outgoing) if isinstance(fault, RemoteFault))
    if isinstance(incoming, RemoteFault):
        raise SignInFailed(faults)
    if faults:
        raise SignInFailed(faults, incoming)
    return incoming


def _as_attempt(act: Callable[[Contact], T], *, hides_cause: bool) -> Callable[[], T]:
    def attempt() -> T:
        began = time.monotonic()
        try:
            return act(Contact(began + GREET_WITHIN if hides_cause else math.inf))
        except RemoteFault as fault:
            if not (hides_cause and fault.is_unproven):
                raise
            time.sleep(max(0.0, began + ANSWER_AFTER - time.monotonic()))
            raise hide_cause(fault) from fault

    return attempt


def _result_or_fault(call: "Future[T]") -> T | RemoteFault:
    try:
        return call.result()
    except RemoteFault as fault:
        return fault
