"""Mailboxes: connecting one, seeing which there are, naming, reconnecting and removing one."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import (
    AccountExists,
    Conflict,
    Detail,
    Invalid,
    NotFound,
    ProviderThrottled,
    Unavailable,
    Unsupported,
)
from mailbox_appliance.events import AccountAdded, AccountReconnected, AccountRemoved
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.records import Account, Capability, Connection, Deleted, Endpoint, Input, Security
from mailbox_appliance.operations.caller import Caller, require_still, require_still_owner
from mailbox_appliance.operations.license import require_room_for_account
from mailbox_appliance.operations.oauth_mailboxes import try_again
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import Email, Name, refuse_controls
from mailbox_appliance.remote.login_check import LoginCheckResult, SignInFailed, check_logins

# Faults that the one who typed the settings can mend; the others lie with the server or the network.
_MENDABLE = {"login_refused": "username", "tls": "security", "forbidden_address": "host", "malformed": "port"}

_Host = Annotated[str, Meta(min_length=1, max_length=255)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
_Security = Annotated[Security, Meta(description="`none` only for loopback and private addresses.")]
_Username = Annotated[str, Meta(max_length=1024)]
_Password = Annotated[str, Meta(max_length=16384)]


class Server(Input, frozen=True, kw_only=True):
    """How one mail server is reached and logged in to."""

    host: _Host
    port: _Port
    security: _Security
    username: _Username
    password: _Password


class NewAccount(Input, frozen=True, kw_only=True):
    """A mailbox reached by IMAP and SMTP."""

    email: Email
    display_name: Name | UnsetType | None = UNSET
    imap: Server
    smtp: Server


class AccountChange(Input, frozen=True, kw_only=True):
    """What is to be changed of a mailbox; what is left out stays, null leaves it without a name."""

    display_name: Name | UnsetType | None = UNSET


class ServerChange(Input, frozen=True, kw_only=True):
    """What is to be changed of how one mail server is reached; what is left out stays."""

    host: _Host | UnsetType = UNSET
    port: _Port | UnsetType = UNSET
    security: _Security | UnsetType = UNSET
    username: _Username | UnsetType = UNSET
    password: _Password | UnsetType = UNSET


class Reconnection(Input, frozen=True, kw_only=True):
    """What is to be changed of how a mailbox is reached. Empty: the present logins are tried again."""

    imap: ServerChange = ServerChange()
    smtp: ServerChange = ServerChange()


@operation(needs=Capability.MAIL_READ)
def list_accounts(appliance: Appliance, caller: Caller) -> tuple[Account, ...]:
    """The mailboxes that you reach."""
    return permissions.reachable_accounts(appliance.store, caller.required_credential)


@operation(needs=Capability.MAIL_READ)
def get_account(appliance: Appliance, caller: Caller, account: Account) -> Account:  # noqa: ARG001 - reach was checked
    """One mailbox and how it is."""
    return account


@operation(access=Access.SESSION, asks_servers=True)
def add_account(appliance: Appliance, caller: Caller, request: NewAccount) -> Account:
    """Connect a mailbox. Both logins are tried before anything is saved."""
    return connect(appliance, caller, caller.member.id, request)


def connect(appliance: Appliance, caller: Caller, owner_id: str, request: NewAccount, *needed: Capability) -> Account:
    """Connect a mailbox of a member, who is there. Raises what tells of the settings, the servers, or a second one.

    Much may change while the servers are asked: whether the caller still may (`needed`), and the owner still can.
    """
    _check_texts(request)
    store = appliance.store
    require_room_for_account(appliance)
    if store.accounts.exists(request.email, owner_id):
        raise AccountExists
    connection = Connection(request.email, _endpoint(request.imap), _endpoint(request.smtp))
    checked = _checked(appliance, caller, connection)
    with store.database.transaction(durable=True):
        permissions.require_unlimited(require_still(store, caller, *needed))
        require_room_for_account(appliance)
        _require_owner_for_new(appliance, owner_id)
        if store.accounts.exists(request.email, owner_id):
            raise AccountExists
        account_id = store.accounts.add(owner_id, request.display_name or None, connection)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.folders.replace(account_id, checked.folders)
        about = None if owner_id == caller.member.id else owner_id
        store.audit.record(caller.actor, "account.create", ("account", account_id), about=about)
    appliance.events.publish(AccountAdded(account_id))
    appliance.sync.add(account_id)
    return store.accounts.get(account_id)


@operation(access=Access.SESSION, owner=True)
def update_account(appliance: Appliance, caller: Caller, account: Account, request: AccountChange) -> Account:
    """Change what a mailbox is called."""
    name = request.display_name
    if name is UNSET or name == account.display_name:
        return account
    refuse_controls("/displayName", name)
    store = appliance.store
    with store.database.transaction(durable=True):
        store.accounts.rename(account.id, name)
        store.audit.record(caller.actor, "account.update", ("account", account.id))
        return store.accounts.get(account.id)


@operation(access=Access.SESSION, owner=True, asks_servers=True)
def reconnect_account(appliance: Appliance, caller: Caller, account: Account, request: Reconnection) -> Account:
    """Change how a mailbox's servers are reached, or try the present logins again: both, before anything is saved.

    A stored password stays where none is given, but goes to no other host and nowhere unprotected (400). Then the
    mailbox is followed anew at once, and what waited since a login failed is tried again. Messages keep their ids where
    the new server has them too. A mailbox of Google or Outlook has no servers to change: its present access is tried.
    """
    if account.provider != "imap":
        if request != Reconnection():
            raise Unsupported(reason="its provider is asked for access; sign in there again instead.")
        return try_again(appliance, caller, account)
    _check_servers(request.imap, request.smtp)
    before = appliance.store.accounts.get_connection(account.id)
    _keep_passwords(before, request)
    after = Connection(before.email, _merged(before.imap, request.imap), _merged(before.smtp, request.smtp))
    checked = _checked(appliance, caller, after)
    appliance.sync.remove(account.id)  # what it still learns is of the server of before
    try:
        _save(appliance, caller, account.id, before, after, checked)
    except NotFound:  # removed meanwhile
        raise
    except BaseException:
        appliance.sync.add(account.id)
        raise
    appliance.events.publish(AccountReconnected(account.id))
    appliance.sync.add(account.id)
    return appliance.store.accounts.get(account.id)


@operation(access=Access.SESSION, owner=True)
def remove_account(appliance: Appliance, caller: Caller, account: Account) -> Deleted:
    """Remove a mailbox: its work stops, its secrets and its mirrored mail are forgotten. The server keeps its mail."""
    appliance.sync.remove(account.id)
    try:
        with appliance.store.database.transaction(durable=True):
            require_still_owner(appliance.store, caller, account.id)
            appliance.store.deliveries.end_mailbox_deliveries(account.id)
            appliance.store.accounts.remove(account.id)
            appliance.store.audit.record(caller.actor, "account.delete", ("account", account.id))
    except BaseException:
        appliance.sync.add(account.id)  # it is still there, so it must still be followed
        raise
    appliance.store.cleaner.wake()  # to delete its mail
    appliance.events.publish(AccountRemoved(account.id))
    return Deleted(id=account.id)


def _require_owner_for_new(appliance: Appliance, owner_id: str) -> None:
    """Raises Conflict where the owner-to-be was suspended, or deleted, while the servers were asked."""
    try:
        is_active = appliance.store.members.get(owner_id).status == "active"
    except NotFound:
        is_active = False
    if not is_active:
        raise Conflict(reason="The owner-to-be is suspended, or no member any more.")


def _save(
    appliance: Appliance,
    caller: Caller,
    account_id: str,
    before: Connection,
    after: Connection,
    checked: LoginCheckResult,
) -> None:
    store = appliance.store
    with store.database.transaction(durable=True):
        require_still_owner(store, caller, account_id)
        if store.accounts.get_connection(account_id) != before:
            raise Conflict(reason="Somebody else has just reconnected this mailbox. Look at it, then repeat this.")
        store.accounts.set_connection(account_id, after)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        if _mailbox_of(before.imap) != _mailbox_of(after.imap):
            store.folders.forget_positions(account_id)
        store.schedule.pull_forward_mailbox(account_id, appliance.clock.now())
        store.audit.record(caller.actor, "account.reconnect", ("account", account_id))


def _keep_passwords(before: Connection, request: Reconnection) -> None:
    """Raises Invalid where a stored password would be shown to another host than it was given for, or unprotected."""
    servers = {"imap": (before.imap, request.imap), "smtp": (before.smtp, request.smtp)}
    for name, (known, change) in servers.items():
        if not isinstance(change, ServerChange) or change.password is not UNSET:
            continue
        is_elsewhere = change.host is not UNSET and change.host.strip().lower() != known.host.lower()
        if is_elsewhere or (change.security == "none" and known.security != "none"):
            reason = "Give the password as well: the stored one was given for the server as it was."
            raise Invalid.at(f"/{name}/password", reason)


def _mailbox_of(imap: Endpoint) -> tuple[str, int, str]:
    """What may be another mailbox where it differs: UIDs are not to be trusted then."""
    return imap.host.lower(), imap.port, imap.username


def _endpoint(server: Server) -> Endpoint:
    return Endpoint(server.host.strip(), server.port, server.security, server.username, server.password)


def _merged(before: Endpoint, change: ServerChange) -> Endpoint:
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    present = {name: getattr(before, name) for name in ("host", "port", "security", "username", "password")}
    merged = present | given
    return Endpoint(**(merged | {"host": merged["host"].strip()}))


def _checked(appliance: Appliance, caller: Caller, connection: Connection) -> LoginCheckResult:
    settings = appliance.settings
    # Members choose host and port: exact answers would show them what listens in networks that they cannot reach.
    hides_cause = caller.kind != "session" or caller.member.role != "admin"
    try:
        ca_file, timeout = settings.text("remote.ca_file"), settings.number("remote.timeout")
        return check_logins(
            connection, ca_file=ca_file, timeout=timeout, calls=appliance.calls, hides_cause=hides_cause
        )
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
    _check_servers(request.imap, request.smtp)


def _check_servers(imap: Server | ServerChange, smtp: Server | ServerChange) -> None:
    for name, server in (("imap", imap), ("smtp", smtp)):
        for field, text in (("host", server.host), ("username", server.username), ("password", server.password)):
            refuse_controls(f"/{name}/{field}", text or "")
