"""Mailboxes: connecting one, seeing which there are, and removing one."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import AccountExists, Detail, Invalid, ProviderThrottled, Unavailable
from mailbox_appliance.events import AccountAdded, AccountRemoved
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import Email, refuse_controls
from mailbox_appliance.records import Account, Capability, Connection, Deleted, Endpoint, Input, Security
from mailbox_appliance.remote.sign_in import Checked, SignInFailed, check

# Faults that the one who typed the settings can mend; the others lie with the server or the network.
_MENDABLE = {"login_refused": "username", "tls": "security", "forbidden_address": "host", "malformed": "port"}


class Server(Input, frozen=True, kw_only=True):
    """How one mail server is reached and logged in to."""

    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    security: Annotated[Security, Meta(description="`none` only for loopback and private addresses.")]
    username: Annotated[str, Meta(max_length=1024)]
    password: Annotated[str, Meta(max_length=16384)]


class NewAccount(Input, frozen=True, kw_only=True):
    """A mailbox reached by IMAP and SMTP."""

    email: Email
    display_name: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType | None = UNSET
    imap: Server
    smtp: Server


@operation(needs=Capability.MAIL_READ)
def list_accounts(appliance: Appliance, caller: Caller) -> tuple[Account, ...]:
    """The mailboxes that you reach."""
    return permissions.reachable(appliance.store, caller.found)


@operation(needs=Capability.MAIL_READ)
def get_account(appliance: Appliance, caller: Caller, account: Account) -> Account:  # noqa: ARG001 - reach was checked
    """One mailbox and how it is."""
    return account


@operation(access=Access.SESSION, asks_servers=True)
def add_account(appliance: Appliance, caller: Caller, request: NewAccount) -> Account:
    """Connect a mailbox. Both logins are tried before anything is saved."""
    _check_texts(request)
    store, member = appliance.store, caller.member
    if store.accounts.exists(request.email, member.id):
        raise AccountExists
    connection = Connection(request.email, _endpoint(request.imap), _endpoint(request.smtp))
    checked = _checked(appliance, connection)
    with store.database.transaction(durable=True):
        if store.accounts.exists(request.email, member.id):
            raise AccountExists
        account_id = store.accounts.add(member.id, request.display_name or None, connection)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.folders.replace(account_id, checked.folders)
        store.audit.record(caller.actor, "account.create", ("account", account_id))
    appliance.events.publish(AccountAdded(account_id))
    appliance.sync.add(account_id)
    return store.accounts.get(account_id)


@operation(access=Access.SESSION, owner=True)
def remove_account(appliance: Appliance, caller: Caller, account: Account) -> Deleted:
    """Remove a mailbox: its work stops, its secrets and its mirrored mail are forgotten. The server keeps its mail."""
    appliance.sync.remove(account.id)
    try:
        with appliance.store.database.transaction(durable=True):
            appliance.store.deliveries.forget_messages(account.id)
            appliance.store.accounts.remove(account.id)
            appliance.store.audit.record(caller.actor, "account.delete", ("account", account.id))
    except BaseException:
        appliance.sync.add(account.id)  # it is still there, so it must still be followed
        raise
    appliance.store.upkeep.wake()  # to delete its mail
    appliance.events.publish(AccountRemoved(account.id))
    return Deleted(id=account.id)


def _endpoint(server: Server) -> Endpoint:
    return Endpoint(server.host.strip(), server.port, server.security, server.username, server.password)


def _checked(appliance: Appliance, connection: Connection) -> Checked:
    settings = appliance.settings
    try:
        return check(connection, ca_file=settings.text("remote.ca_file"), timeout=settings.number("remote.timeout"))
    except SignInFailed as failed:
        mendable = [fault for fault in failed.faults if fault.kind in _MENDABLE]
        if mendable:
            details = tuple(Detail(f"/{f.server}/{_MENDABLE[f.kind]}", f.reason) for f in mendable)
            raise Invalid(details=details, reason=mendable[0].reason) from failed
        details = tuple(Detail(fault.server, fault.reason) for fault in failed.faults)
        if any(fault.kind == "throttled" for fault in failed.faults):
            raise ProviderThrottled(details=details, retry_after=60) from failed
        raise Unavailable(details=details, reason=failed.faults[0].reason, retry_after=30) from failed


def _check_texts(request: NewAccount) -> None:
    try:
        to_envelope_address(request.email)
    except ValueError as error:
        raise Invalid.at("/email", f"Nothing could be sent from this address: {error}.") from error
    refuse_controls("/displayName", request.display_name or "")
    for name, server in (("imap", request.imap), ("smtp", request.smtp)):
        for field, text in (("host", server.host), ("username", server.username), ("password", server.password)):
            refuse_controls(f"/{name}/{field}", text)
