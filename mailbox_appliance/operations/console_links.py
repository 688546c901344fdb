"""Links from a program that is logged in, such as the tray, into the console in a browser.

A link depends on the session that asked for it and ends with it. The session that it gives ends 90 days after the
password was typed.
"""

from datetime import timedelta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import InvalidToken
from mailbox_appliance.model.records import Input, Wire
from mailbox_appliance.operations.attempts import PER_ADDRESS, attempted, by_address
from mailbox_appliance.operations.caller import Caller, require_still
from mailbox_appliance.operations.one_time import Token, Use, look_up, use_up
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.sessions import LoggedIn, begin_session
from mailbox_appliance.security.tokens import hash_token, new_token

_LIVES_FOR = timedelta(seconds=60)
_DEVICE = "Console"
_LINK = Use("console_link", "console_link.redeem", "link into the console")


class ConsoleLink(Wire, frozen=True, kw_only=True):
    """An address that opens the console as you, once, until it expires. It is shown this once."""

    url: str
    expires_at: str


class RedeemedLink(Input, frozen=True, kw_only=True):
    """The token of a link into the console."""

    token: Token


@operation(access=Access.SESSION, https=True, tag="console_links")
def create_console_link(appliance: Appliance, caller: Caller) -> ConsoleLink:
    """Make a link that opens the console as you: once, within a minute, and while your session lives."""
    store, token = appliance.store, new_token("mbxc")
    with store.database.transaction(durable=True):
        require_still(store, caller)
        member_id, session_id = caller.member.id, caller.required_credential.id
        expires_at = store.one_time_tokens.issue(
            "console_link", member_id, hash_token(token), _LIVES_FOR, session_id=session_id
        )
        store.audit.record(caller.actor, "console_link.create", ("member", member_id))
    # No server is sent what stands behind the `#` (RFC 3986 3.5), and no log has it.
    base = appliance.url_for(is_local=caller.origin.is_local)
    return ConsoleLink(url=f"{base}/#console={token}", expires_at=expires_at)


@operation(access=Access.ANYBODY, https=True, tag="console_links")
def redeem_console_link(appliance: Appliance, caller: Caller, request: RedeemedLink) -> LoggedIn:
    """Log in with the token of a link into the console."""
    with attempted(appliance, caller, {by_address(caller.origin): PER_ADDRESS}) as attempt:
        look_up(appliance, attempt, _LINK, request.token)
        with appliance.store.database.transaction(durable=True):
            member = use_up(appliance, _LINK, request.token)
            return _begin(appliance, caller, member.id, _logged_in_at(appliance, request.token))


def _begin(appliance: Appliance, caller: Caller, member_id: str, logged_in_at: str) -> LoggedIn:
    """A session that ends no later than the one it came of may live."""
    address = caller.origin.client_address
    return begin_session(appliance, member_id, _DEVICE, address, by=_LINK.action, logged_in_at=logged_in_at)


def _logged_in_at(appliance: Appliance, token: str) -> str:
    session_id = appliance.store.one_time_tokens.find_session_id(hash_token(token))
    found = None if session_id is None else appliance.store.credentials.find_login_time(session_id)
    if found is None:
        raise InvalidToken(what=_LINK.what)
    return found
