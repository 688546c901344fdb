"""Mailboxes whose provider was asked for access: trying that access at their servers, keeping it, and trying it again.

A mailbox that its owner has connected already is given the new access and stays what it is: its id, its mail, its
rights. Everything is asked again inside the transaction that saves: the servers take their time.
"""

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import (
    AccessRefused,
    AccountExists,
    Conflict,
    Detail,
    NotFound,
    Problem,
    ProviderThrottled,
    Unavailable,
)
from mailbox_appliance.events import AccountAdded, AccountReconnected
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.model.records import Account, Connection, OAuthLogin
from mailbox_appliance.operations.caller import Caller, require_still, require_still_owner
from mailbox_appliance.operations.license import require_room_for_account
from mailbox_appliance.remote.errors import RemoteFault, account_error_of
from mailbox_appliance.remote.login_check import LoginCheckResult, SignInFailed, check_logins
from mailbox_appliance.remote.oauth import IssuedTokens

#: As people know the providers.
NAMES = {"imap": "IMAP", "google": "Google", "outlook": "Microsoft"}
_NOT_LET_IN = (
    "{person} signed in, and is not let into {mailbox}. Sign in as that one; or, where it is a shared mailbox, have an"
    " administrator of the organisation give you full access to it, which takes up to an hour."
)
_RETRY_AFTER, _THROTTLED_RETRY_AFTER = 30, 60


def tried(appliance: Appliance, connection: Connection, login: OAuthLogin) -> tuple[LoginCheckResult, OAuthLogin]:
    """What the servers showed, and how the mailbox sends: by Microsoft Graph where its tenant has SMTP AUTH off.

    Raises what tells of the servers.
    """
    ca_file, timeout = appliance.settings.text("remote.ca_file"), appliance.settings.number("remote.timeout")
    try:
        sends = login.sends_via == "smtp"
        return check_logins(connection, ca_file=ca_file, timeout=timeout, calls=appliance.calls, sends=sends), login
    except SignInFailed as failed:
        names = [fault.name for fault in failed.faults]
        if login.provider == "outlook" and names == ["smtp_auth_disabled"] and failed.checked is not None:
            return failed.checked, replace(login, sends_via="graph")
        raise _problem_of(failed, login) from failed


def keep(
    appliance: Appliance,
    caller: Caller,
    login: OAuthLogin,
    checked: LoginCheckResult,
    issued: IssuedTokens,
    *,
    name: str | None,
    within: str | None,
) -> Account:
    """Connect a mailbox, or give one that is there its new access: `within` where it was named. Raises what forbids it.

    `issued`: the tokens that came with the login. `name`: what a new one is called.
    """
    known = _known(appliance, caller, login, within)
    if known is not None:
        # The same mailbox may be written in two ways; it keeps the one that it has.
        return _renew(appliance, caller, known.id, replace(login, email=known.email), checked, issued)
    store = appliance.store
    with store.database.transaction(durable=True):
        permissions.require_unlimited(require_still(store, caller))
        require_room_for_account(appliance)
        if store.accounts.exists(login.email, caller.member.id):  # two sign-ins at once
            raise AccountExists
        account_id = store.oauth_logins.add(caller.member.id, name, login)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.folders.replace(account_id, checked.folders)
        store.audit.record(caller.actor, "account.create", ("account", account_id))
    appliance.logins.keep_tokens(account_id, issued)
    appliance.events.publish(AccountAdded(account_id))
    appliance.sync.add(account_id)
    return store.accounts.get(account_id)


def try_again(appliance: Appliance, caller: Caller, account: Account) -> Account:
    """Try the access that a mailbox has, as when its trouble may be over. Raises what tells of it."""
    logins = appliance.logins
    logins.forget_tokens(account.id)
    try:
        token = logins.use_token(account.id, "mail", str)
    except RemoteFault as fault:
        raise told(fault) from fault
    login = logins.get_login(account.id)
    checked, now = tried(appliance, logins.connection(login, token), login)
    return with_graph(appliance, _renew(appliance, caller, account.id, now, checked))


def with_graph(appliance: Appliance, account: Account) -> Account:
    """The mailbox; where it can only be read, since nobody has agreed to Graph by which it sends, that is said of it.

    A sign-in by a code is for one resource at a time, and some leave out what they are asked for.
    """
    if account.provider == "imap" or appliance.logins.get_login(account.id).sends_via != "graph":
        return account
    try:
        appliance.logins.use_token(account.id, "graph", str)
    except RemoteFault as fault:
        if fault.name == "consent_required":
            return replace_fields(account, error=account_error_of(fault))
    return account


def told(fault: RemoteFault) -> Problem:
    """What to answer where a provider does not do its part: its no is nothing that waiting would mend."""
    if fault.kind == "login_refused" or (fault.kind == "refused" and fault.name != "server_down"):
        return AccessRefused(details=(Detail(fault.server, fault.reason),), reason=fault.reason)
    return problem_of(fault)


def _known(appliance: Appliance, caller: Caller, login: OAuthLogin, within: str | None) -> Account | None:
    """The mailbox that is there already. Raises NotFound where it is not any more, AccountExists."""
    store = appliance.store
    if within is not None:
        require_still_owner(store, caller, within)
        return store.accounts.get(within)
    found = store.accounts.find_own(login.email, caller.member.id)
    if found is not None and found.provider != login.provider:
        raise AccountExists
    return found


def _renew(
    appliance: Appliance,
    caller: Caller,
    account_id: str,
    login: OAuthLogin,
    checked: LoginCheckResult,
    issued: IssuedTokens | None = None,
) -> Account:
    """Keep the access of a mailbox that is there; it is followed anew at once, and what waited for it is sent."""
    appliance.sync.remove(account_id)  # what it still learns is by the access of before
    try:
        _save(appliance, caller, account_id, login, checked, is_new=issued is not None)
    except NotFound:  # removed meanwhile
        raise
    except BaseException:
        appliance.sync.add(account_id)
        raise
    if issued is not None:  # before anybody asks for a token
        appliance.logins.keep_tokens(account_id, issued)
    appliance.events.publish(AccountReconnected(account_id))
    appliance.sync.add(account_id)
    return appliance.store.accounts.get(account_id)


def _save(
    appliance: Appliance, caller: Caller, account_id: str, login: OAuthLogin, checked: LoginCheckResult, *, is_new: bool
) -> None:
    store = appliance.store
    with store.database.transaction(durable=True):
        require_still_owner(store, caller, account_id)
        if store.accounts.get(account_id).provider != login.provider:
            raise Conflict(reason="Somebody else has just reconnected this mailbox. Look at it, then repeat this.")
        if is_new:
            store.oauth_logins.set(account_id, login)
        else:
            store.oauth_logins.confirm(account_id, login.sends_via)
        store.accounts.set_capabilities(account_id, checked.capabilities)
        store.schedule.pull_forward_mailbox(account_id, appliance.clock.now())
        store.audit.record(caller.actor, "account.reconnect", ("account", account_id))


def _problem_of(failed: SignInFailed, login: OAuthLogin) -> Problem:
    """What to answer a sign-in with that the mailbox's servers do not take."""
    details = tuple(Detail(fault.server, fault.reason) for fault in failed.faults)
    reason, kinds = failed.faults[0].reason, {fault.kind for fault in failed.faults}
    if "throttled" in kinds:
        return ProviderThrottled(details=details, retry_after=_THROTTLED_RETRY_AFTER)
    if "login_refused" in kinds and login.is_shared:
        return AccessRefused(reason=_NOT_LET_IN.format(person=login.username, mailbox=login.email))
    if "login_refused" in kinds:
        return AccessRefused(details=details, reason=reason)
    return Unavailable(details=details, reason=reason, retry_after=_RETRY_AFTER)
