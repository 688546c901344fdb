"""Operations on mailboxes: find their servers, connect, rename, share, reconnect, remove.

Administrators see the settings of every mailbox, and never its mail.
"""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import (
    AccountExists,
    Conflict,
    Denied,
    Detail,
    HttpsRequired,
    Invalid,
    NotFound,
    ProviderThrottled,
    Unavailable,
    Unsupported,
)
from mailbox_appliance.events import AccountAdded, AccountReconnected, AccountRemoved
from mailbox_appliance.mail.address import to_envelope_address
from mailbox_appliance.model.accounts import Account, Connection, Endpoint, Security
from mailbox_appliance.model.base import Deletion, Input, Wire
from mailbox_appliance.model.members import Capability
from mailbox_appliance.operations.licence import require_room_for_account
from mailbox_appliance.operations.members import get_named_member, require_named_members
from mailbox_appliance.operations.message_input import Email, Id, Name, refuse_control_characters
from mailbox_appliance.operations.oauth import require_unlimited, retry_login
from mailbox_appliance.operations.operation import Access, Caller, operation, recheck_caller, recheck_owner
from mailbox_appliance.remote.discovery import discovery
from mailbox_appliance.remote.discovery.autoconfig import DiscoveryCandidate, Source
from mailbox_appliance.remote.login_check import LoginCheckResult, SignInFailed, check_logins
from mailbox_appliance.settings import BY_NAME, Settings

# Errors that the person who typed the settings can fix; others are due to the server or the network.
_FIELD_OF_FAULT = {"login_refused": "username", "tls": "security", "forbidden_address": "host", "malformed": "port"}

_Host = Annotated[str, Meta(min_length=1, max_length=255)]
_Port = Annotated[int, Meta(ge=1, le=65535)]
_Security = Annotated[
    Security, Meta(description="`tls` from the start, `starttls`, or `none` (only for loopback and private addresses).")
]
_Username = Annotated[str, Meta(max_length=1024)]
_Password = Annotated[str, Meta(max_length=16384)]


class MailServer(Input, frozen=True, kw_only=True):
    """Connection settings of one mail server.

    - host: Host name or address.
    - port: Port.
    - username: User name.
    - password: Password, or app password.
    """

    host: _Host
    port: _Port
    security: _Security
    username: _Username
    password: _Password


class AddAccountRequest(Input, frozen=True, kw_only=True):
    """A mailbox to connect over IMAP and SMTP.

    - email: Email address of the mailbox.
    - display_name: Display name, used as the sender's name.
    - imap: The IMAP server, for reading.
    - smtp: The SMTP server, for sending.
    """

    email: Email
    display_name: Name | UnsetType | None = UNSET
    imap: MailServer
    smtp: MailServer


class UpdateAccountRequest(Input, frozen=True, kw_only=True):
    """Changes to a mailbox. Omitted fields stay unchanged.

    - display_name: New display name; null removes it.
    """

    display_name: Name | UnsetType | None = UNSET


class MailServerChange(Input, frozen=True, kw_only=True):
    """Changes to the connection settings of one mail server. Omitted fields stay unchanged.

    - host: New host name or address.
    - port: New port.
    - username: New user name.
    - password: New password.
    """

    host: _Host | UnsetType = UNSET
    port: _Port | UnsetType = UNSET
    security: _Security | UnsetType = UNSET
    username: _Username | UnsetType = UNSET
    password: _Password | UnsetType = UNSET


class ReconnectAccountRequest(Input, frozen=True, kw_only=True):
    """Changes to the connection settings of a mailbox. If empty, the stored settings are tried again.

    - imap: Changes to the IMAP server.
    - smtp: Changes to the SMTP server.
    """

    imap: MailServerChange = MailServerChange()
    smtp: MailServerChange = MailServerChange()


@operation(needs=Capability.MAIL_READ)
def list_accounts(appliance: Appliance, caller: Caller) -> tuple[Account, ...]:
    """List mailboxes.

    Returns the mailboxes that you have access to.
    """
    return permissions.reachable_accounts(appliance.store, caller.required_credential)


@operation(needs=Capability.MAIL_READ)
def get_account(appliance: Appliance, caller: Caller, account: Account) -> Account:  # noqa: ARG001 - reach was checked
    """Get a mailbox.

    Returns its settings and status, without its passwords.
    """
    return account


@operation(access=Access.SESSION, asks_servers=True)
def add_account(appliance: Appliance, caller: Caller, request: AddAccountRequest) -> Account:
    """Connect a mailbox.

    Signs in to both servers, IMAP and SMTP, before anything is saved. For Google and Microsoft mailboxes, use `POST
    /accounts/oauth/{provider}` instead.
    """
    return connect_account(appliance, caller, caller.member.id, request)


def connect_account(
    appliance: Appliance, caller: Caller, owner_id: str, request: AddAccountRequest, *needed: Capability
) -> Account:
    """Connect a mailbox for an existing member, and return it.

    While the servers reply, permissions may change. So before saving, the caller's `needed` capabilities and the
    owner's status are checked again. Raises Invalid for wrong settings or passwords, Unavailable for a server that does
    not respond, AccountExists, and errors of these checks.
    """
    _check_name(request)
    store = appliance.store
    require_room_for_account(appliance)
    if store.accounts.exists(request.email, owner_id):
        raise AccountExists
    connection = Connection(request.email, _to_endpoint(request.imap), _to_endpoint(request.smtp))
    checked = _check_connection(appliance, caller, connection)
    with store.database.transaction(durable=True):
        permissions.require_unlimited(recheck_caller(store, caller, *needed))
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
def update_account(appliance: Appliance, caller: Caller, account: Account, request: UpdateAccountRequest) -> Account:
    """Rename a mailbox.

    Changes the display name; null removes it. It is the sender's name of messages from the mailbox's own address.
    """
    name = request.display_name
    if name is UNSET or name == account.display_name:
        return account
    refuse_control_characters("/displayName", name)
    store = appliance.store
    with store.database.transaction(durable=True):
        store.accounts.rename(account.id, name)
        store.audit.record(caller.actor, "account.update", ("account", account.id))
        return store.accounts.get(account.id)


@operation(access=Access.SESSION, owner=True, asks_servers=True)
def reconnect_account(
    appliance: Appliance, caller: Caller, account: Account, request: ReconnectAccountRequest
) -> Account:
    """Reconnect a mailbox.

    Changes the connection settings, or tries the stored ones again if the body is empty. Both servers are tested before
    anything is saved. Afterwards the mailbox syncs at once, and sends that waited for a valid sign-in are retried.
    Messages keep their IDs if the new server has them too.

    A stored password is kept if none is given, but is never sent to a different host or over an unprotected connection
    (400). For a Google or Microsoft mailbox the body must be empty: its stored access is tried again.
    """
    if account.provider != "imap":
        if request != ReconnectAccountRequest():
            raise Unsupported(reason="it has no server settings of its own. Sign in at its provider again instead.")
        return retry_login(appliance, caller, account)
    _check_security(request.imap, request.smtp)
    before = appliance.store.accounts.get_connection(account.id)
    _require_safe_passwords(before, request)
    after = Connection(before.email, _merge_change(before.imap, request.imap), _merge_change(before.smtp, request.smtp))
    checked = _check_connection(appliance, caller, after)
    appliance.sync.remove(account.id)  # what it is still reading comes from the previous server
    try:
        _save_connection(appliance, caller, account.id, before, after, checked)
    except NotFound:  # it was removed in the meantime
        raise
    except BaseException:
        appliance.sync.add(account.id)
        raise
    appliance.events.publish(AccountReconnected(account.id))
    appliance.sync.add(account.id)
    return appliance.store.accounts.get(account.id)


@operation(access=Access.SESSION, owner=True)
def remove_account(appliance: Appliance, caller: Caller, account: Account) -> Deletion:
    """Remove a mailbox.

    Stops its work and deletes its passwords and the local copy of its mail. The mail on the server is not touched.
    """
    appliance.sync.remove(account.id)
    try:
        with appliance.store.database.transaction(durable=True):
            recheck_owner(appliance.store, caller, account.id)
            appliance.store.deliveries.end_mailbox_deliveries(account.id)
            appliance.store.accounts.remove(account.id)
            appliance.store.audit.record(caller.actor, "account.delete", ("account", account.id))
    except BaseException:
        appliance.sync.add(account.id)  # it is still there, so it must still be followed
        raise
    appliance.store.cleaner.wake()  # to delete its mail
    appliance.events.publish(AccountRemoved(account.id))
    return Deletion(id=account.id)


def _require_owner_for_new(appliance: Appliance, owner_id: str) -> None:
    """Call inside the transaction that saves."""
    try:
        is_active = appliance.store.members.get(owner_id).status == "active"
    except NotFound:
        is_active = False
    if not is_active:
        raise Conflict(reason="The future owner is suspended or no longer a member.")


def _save_connection(
    appliance: Appliance,
    caller: Caller,
    account_id: str,
    before: Connection,
    after: Connection,
    checked: LoginCheckResult,
) -> None:
    store = appliance.store
    with store.database.transaction(durable=True):
        recheck_owner(store, caller, account_id)
        if store.accounts.get_connection(account_id) != before:
            raise Conflict(reason="Another request has just reconnected this mailbox. Check it, then try again.")
        store.accounts.set_connection(account_id, after)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        if _mailbox_identity(before.imap) != _mailbox_identity(after.imap):
            store.folders.forget_positions(account_id)
        store.schedule.pull_forward_mailbox(account_id, appliance.clock.now())
        store.audit.record(caller.actor, "account.reconnect", ("account", account_id))


def _require_safe_passwords(before: Connection, request: ReconnectAccountRequest) -> None:
    """A stored password is never sent to a different host or over an unprotected connection."""
    servers = {"imap": (before.imap, request.imap), "smtp": (before.smtp, request.smtp)}
    for name, (known, change) in servers.items():
        if not isinstance(change, MailServerChange) or change.password is not UNSET:
            continue
        is_elsewhere = change.host is not UNSET and change.host.strip().lower() != known.host.lower()
        if is_elsewhere or (change.security == "none" and known.security != "none"):
            reason = "Enter the password too: the stored one is only for the previous server settings."
            raise Invalid.at(f"/{name}/password", reason)


def _mailbox_identity(imap: Endpoint) -> tuple[str, int, str]:
    """If these values change, the stored message numbers (UIDs) may belong to other messages."""
    return imap.host.lower(), imap.port, imap.username


def _to_endpoint(server: MailServer) -> Endpoint:
    return Endpoint(server.host.strip(), server.port, server.security, server.username, server.password)


def _merge_change(before: Endpoint, change: MailServerChange) -> Endpoint:
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    present = {name: getattr(before, name) for name in ("host", "port", "security", "username", "password")}
    merged = present | given
    return Endpoint(**(merged | {"host": merged["host"].strip()}))


def _check_connection(appliance: Appliance, caller: Caller, connection: Connection) -> LoginCheckResult:
    settings = appliance.settings
    # Members choose host and port: exact answers would show them what listens in networks that they cannot reach.
    hides_cause = caller.kind != "session" or caller.member.role != "admin"
    try:
        ca_file, timeout = settings.text("remote.ca_file"), settings.number("remote.timeout")
        return check_logins(
            connection, ca_file=ca_file, timeout=timeout, calls=appliance.calls, hides_cause=hides_cause
        )
    except SignInFailed as failed:
        mendable = [fault for fault in failed.faults if fault.kind in _FIELD_OF_FAULT]
        if mendable:
            details = tuple(Detail(f"/{f.server}/{_FIELD_OF_FAULT[f.kind]}", f.reason) for f in mendable)
            raise Invalid(details=details, reason=mendable[0].reason) from failed
        details = tuple(Detail(fault.server, fault.reason) for fault in failed.faults)
        if any(fault.kind == "throttled" for fault in failed.faults):
            raise ProviderThrottled(details=details, retry_after=60) from failed
        raise Unavailable(details=details, reason=failed.faults[0].reason, retry_after=30) from failed


def _check_name(request: AddAccountRequest) -> None:
    try:
        to_envelope_address(request.email)
    except ValueError as error:
        raise Invalid.at("/email", f"Mail cannot be sent from this address: {error}.") from error
    refuse_control_characters("/displayName", request.display_name or "")
    _check_security(request.imap, request.smtp)


def _check_security(imap: MailServer | MailServerChange, smtp: MailServer | MailServerChange) -> None:
    for name, server in (("imap", imap), ("smtp", smtp)):
        for field, text in (("host", server.host), ("username", server.username), ("password", server.password)):
            refuse_control_characters(f"/{name}/{field}", text or "")


# --- Every mailbox, for administrators ---


class AddMemberAccountRequest(AddAccountRequest, frozen=True, kw_only=True):
    """A mailbox to connect over IMAP and SMTP, and its future owner.

    - owner_member_id: ID of the member who will own it.
    """

    owner_member_id: Id


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True)
def list_every_account(appliance: Appliance, caller: Caller) -> tuple[Account, ...]:
    """List all mailboxes.

    Returns the mailboxes of all members, oldest first; an API key with `accountIds` gets only those. It shows settings,
    never mail.
    """
    scope = caller.required_credential.account_ids
    return tuple(each for each in appliance.store.accounts.list_all() if scope is None or each.id in scope)


@operation(needs=Capability.ADMIN_ACCOUNTS, https=True, check_request=require_unlimited, asks_servers=True)
def add_account_of_member(appliance: Appliance, caller: Caller, request: AddMemberAccountRequest) -> Account:
    """Connect a mailbox for a member.

    The member becomes its owner. Signs in to both servers before anything is saved. An API key that is limited to
    certain mailboxes (`accountIds`) cannot do this.
    """
    owner = get_named_member(appliance.store, request.owner_member_id, "/ownerMemberId")
    if owner.status != "active":
        raise Conflict(reason="This member is suspended. Reactivate the member first.")
    return connect_account(appliance, caller, owner.id, request, Capability.ADMIN_ACCOUNTS)


# --- Access: who can use a mailbox, apart from its owner ---
#
#     the owner, in a session ............ grants and removes
#     holders of admin.accounts ......... removes only, also when all members had access; remotely only over HTTPS
#     those who were granted access ...... nothing
#
# A change takes effect with everybody's next request, under every credential, and for their scheduled messages.
#
# The caller's relation to the mailbox is known only once the mailbox is found, so 404 comes before `https_required`.


_MAX_SHARED_WITH = 1000


class SetAccessRequest(Input, frozen=True, kw_only=True):
    """The complete list of members with access, apart from the owner. Members who are not in it lose access."""

    shared_with_all: Annotated[bool, Meta(description="Whether all members, including future ones, have access.")]
    member_ids: Annotated[
        tuple[Id, ...],
        Meta(max_length=_MAX_SHARED_WITH, description="IDs of the members who have access. The owner is ignored."),
    ]


def _require_may_change_access(appliance: Appliance, caller: Caller, account: Account, values: object) -> None:  # noqa: ARG001 - as `AccountCheck`
    """Raise Denied unless the caller owns the mailbox, in a session, or has `admin.accounts` (remotely over HTTPS)."""
    if _acts_as_owner(caller, account):
        return
    if caller.kind == "session" and Capability.ADMIN_ACCOUNTS not in caller.capabilities:
        permissions.require_owner(account, caller.member.id)
    permissions.require_capability(caller.capabilities, (Capability.ADMIN_ACCOUNTS,))
    if not caller.origin.is_private:
        raise HttpsRequired


@operation(any_mailbox_with=Capability.ADMIN_ACCOUNTS, check_account=_require_may_change_access)
def set_access(appliance: Appliance, caller: Caller, account: Account, request: SetAccessRequest) -> Account:
    """Set who can access a mailbox.

    Replaces the whole list of members with access, apart from the owner. Takes effect with everybody's next request.

    The owner can grant and remove access, in a session. An administrator, or an API key with `admin.accounts`, can only
    remove it; the owner sees that in their audit events.
    """
    store = appliance.store
    with store.database.transaction(durable=True):
        now = store.accounts.get(account.id)  # another request may have changed it
        wanted = frozenset(request.member_ids) - {now.owner_member_id}
        if not _acts_as_owner(caller, now):
            _refuse_new_access(now, request.shared_with_all, wanted)
        if (request.shared_with_all, wanted) == (now.shared_with_all, frozenset(now.granted_member_ids)):
            return now
        known = {now.owner_member_id, *now.granted_member_ids}
        places = ((f"/memberIds/{place}", each) for place, each in enumerate(request.member_ids) if each not in known)
        require_named_members(store, places)
        store.accounts.set_access(now.id, shared_with_all=request.shared_with_all, member_ids=wanted)
        about = None if now.owner_member_id == caller.member.id else now.owner_member_id
        store.audit.record(caller.actor, "account.access", ("account", now.id), about=about)
        return store.accounts.get(now.id)


def _acts_as_owner(caller: Caller, account: Account) -> bool:
    return caller.kind == "session" and account.owner_member_id == caller.member.id


def _refuse_new_access(now: Account, shared_with_all: bool, wanted: frozenset[str]) -> None:
    """Raise Denied if anybody would gain access. Access for some instead of for all takes some away."""
    if now.shared_with_all and not shared_with_all:
        return
    if shared_with_all is not now.shared_with_all or wanted - set(now.granted_member_ids):
        reason = "only the owner of the mailbox can grant access, in a session; administrators can only remove it."
        raise Denied(reason=reason, details=(Detail("owner", now.owner_member_id),))


# --- Discovery: the servers of a mailbox, found from its address before it is connected ---


_DIRECTORY_SETTING = "remote.autoconfig_directory"


class DiscoverServersRequest(Input, frozen=True, kw_only=True):
    """The mailbox whose servers are to be found.

    - email: Its email address.
    """

    email: Email


class DiscoverySourceResult(Wire, frozen=True, kw_only=True):
    """The result of asking one source for the servers of a mailbox.

    - found: Whether it named a server.
    - outcome: The result, in a sentence.
    """

    source: Source
    found: bool
    outcome: str


class DiscoveryResult(Wire, frozen=True, kw_only=True):
    """The settings that were found for a mailbox, and the result of each source.

    - email: The email address that was looked up.
    - candidates: The settings to connect it with, the most likely first.
    - sources: The result of each source.
    """

    email: str
    candidates: tuple[DiscoveryCandidate, ...]
    sources: tuple[DiscoverySourceResult, ...]


@operation(access=Access.SESSION, asks_servers=True)
def discover(appliance: Appliance, caller: Caller, request: DiscoverServersRequest) -> DiscoveryResult:  # noqa: ARG001 - for every session
    """Find a mailbox's servers.

    Looks up the IMAP and SMTP servers for an email address. No mail server is contacted and nothing is saved.
    """
    found = discovery.discover(request.email, _discovery_options(appliance, appliance.settings))
    said = (
        DiscoverySourceResult(source=one.source, found=one.servers is not None, outcome=one.message)
        for one in found.results
    )
    return DiscoveryResult(email=request.email, candidates=found.candidates, sources=tuple(said))


def _discovery_options(appliance: Appliance, settings: Settings) -> discovery.DiscoveryOptions:
    directory = settings.text(_DIRECTORY_SETTING)
    return discovery.DiscoveryOptions(
        appliance.calls,
        settings.text("remote.resolver"),
        directory.rstrip("/") + "/" if directory else "",
        directory != BY_NAME[_DIRECTORY_SETTING].default,
        settings.text("remote.ca_file"),
    )
