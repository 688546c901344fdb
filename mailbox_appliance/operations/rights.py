"""Who may ask for an operation: one declaration, checked in one order under every door.

host and HTTPS (403) -> who asks (401) -> session (403) -> reach (404) -> capability, role, owner (403)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, HttpsRequired, LocalOnly, SessionRequired
from mailbox_appliance.model.records import Account, Capability, Role
from mailbox_appliance.operations.caller import Caller, Origin, identify, is_operator

#: Raises NotFound or Denied where the caller may not do this to what a request's single values name: in a mailbox...
Allows = Callable[[Appliance, Caller, Account, Mapping[str, str]], None]
#: ... and elsewhere, such as to a member.
Permits = Callable[[Appliance, Caller, Mapping[str, str]], None]


class Access(Enum):
    """What a caller must come with."""

    ANYBODY = "anybody"
    LOCAL = "local"
    CREDENTIAL = "credential"
    SESSION = "session"


@dataclass(frozen=True)
class Rights:
    """What is asked of a caller.

    `needs`: one of these capabilities. `needs_of`: which of them a decoded body asks for. `role`: only members of this
    role. `owner`: only the mailbox's owner. `anywhere`: who holds this reaches every mailbox here, which must then not
    show any mail. `allows`, `permits`: where it depends on what the request names. `https`: remotely only by HTTPS.
    `https_of`: whether a decoded body asks for what is so guarded. `operator`: whoever holds the secret of this run may
    as well, on this computer; nothing else is asked of them.
    """

    access: Access = Access.CREDENTIAL
    needs: tuple[Capability, ...] = ()
    needs_of: Callable[[object], Capability | None] | None = None
    https_of: Callable[[object], bool] | None = None
    role: Role | None = None
    owner: bool = False
    any_mailbox_with: Capability | None = None
    check_account: Allows | None = None
    check_request: Permits | None = None
    https: bool = False
    operator: bool = False

    def identify(self, appliance: Appliance, origin: Origin, token: str | None) -> Caller:
        """The caller. Raises HttpsRequired, LocalOnly, Unauthenticated, MemberSuspended, SessionRequired."""
        if self.https and not origin.is_private:
            raise HttpsRequired
        if self.access is Access.LOCAL and not origin.is_local:
            raise LocalOnly(details=(Detail("role", "operator on this computer"),))
        if self.access in (Access.ANYBODY, Access.LOCAL):
            return Caller(origin)
        if self.operator and is_operator(appliance.operator_secret, token, origin):
            return Caller(origin, is_operator=True)
        caller = identify(appliance.store, token, origin)
        if self.access is Access.SESSION and caller.required_credential.kind != "session":
            raise SessionRequired
        return caller

    def get_account(self, appliance: Appliance, caller: Caller, account_id: str) -> Account:
        """The mailbox that a request names. Raises NotFound."""
        everywhere = self.any_mailbox_with is not None and self.any_mailbox_with in caller.capabilities
        return permissions.require_account(
            appliance.store, caller.required_credential, account_id, everywhere=everywhere
        )

    def check(
        self,
        appliance: Appliance,
        caller: Caller,
        account: Account | None,
        values: Mapping[str, str],
        body: Callable[[], object],
    ) -> None:
        """Raises Denied, HttpsRequired or NotFound unless the caller may; `body`: what can be read of it, else None."""
        if caller.is_operator:
            return
        if self.https_of is not None and not caller.origin.is_private and self.https_of(body()):
            raise HttpsRequired
        self.require_capability(caller, body)
        if self.role is not None:
            permissions.require_role(caller.member, self.role)
        if self.check_request is not None:
            self.check_request(appliance, caller, values)
        if account is not None:
            self._check_account(appliance, caller, account, values)

    def require_capability(self, caller: Caller, body: Callable[[], object]) -> None:
        """Raises Denied, naming the capability that is missing: the one that the body asks for, where it tells."""
        asked = None if self.needs_of is None else self.needs_of(body())
        permissions.require_capability(caller.capabilities, self.needs if asked is None else (asked,))

    def _check_account(self, appliance: Appliance, caller: Caller, account: Account, values: Mapping[str, str]) -> None:
        if self.owner:
            permissions.require_owner(account, caller.member.id)
        if self.check_account is not None:
            self.check_account(appliance, caller, account, values)
