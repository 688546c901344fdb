"""Operations on sending policies: of a mailbox, by its owner; of an API key, by its member and by administrators."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail, Invalid
from mailbox_appliance.mail.address import comparable_domain, to_envelope_address
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.approvals import ApprovalRule, SendingPolicy
from mailbox_appliance.model.base import Input
from mailbox_appliance.model.members import Capability
from mailbox_appliance.operations.operation import (
    Access,
    Caller,
    KeyId,
    operation,
    recheck_caller,
    recheck_owner,
    require_key_exists,
)
from mailbox_appliance.policies import looser_fields
from mailbox_appliance.store.store import Store

_Entries = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=254)], ...], Meta(max_length=1000)]
_Number = Annotated[int, Meta(ge=0, le=1_000_000)]


class SetSendingPolicyRequest(Input, frozen=True, kw_only=True):
    """A sending policy, which replaces the present one as a whole. An omitted field means no rule.

    - approval: Which messages a person must approve: none, all, or those with new recipients. New is an address to
      which the mailbox has neither written, nor received mail from, not counting spam.
    - allowed_recipients: Addresses and domains that messages may go to; null for all, [] for nobody.
    - blocked_recipients: Addresses and domains that no message may go to; a domain includes its subdomains.
    - max_recipients: Most recipients of a message; null for no rule.
    - per_hour: Most messages in an hour; null for no rule.
    - per_day: Most messages in a day; null for no rule.
    - internal_only: Whether messages may only go to the domains of the appliance's own mailboxes.
    """

    approval: ApprovalRule = "never"
    allowed_recipients: _Entries | None = None
    blocked_recipients: _Entries = ()
    max_recipients: _Number | None = None
    per_hour: _Number | None = None
    per_day: _Number | None = None
    internal_only: bool = False


@operation(access=Access.SESSION, owner=True)
def get_account_policy(appliance: Appliance, caller: Caller, account: Account) -> SendingPolicy:  # noqa: ARG001
    """Get a mailbox's sending policy.

    It holds for every message from this mailbox, also for those that you send. Without one, no field has a rule.
    """
    return _read(lambda: appliance.store.sending_policies.find_of_account(account.id))


@operation(access=Access.SESSION, owner=True)
def set_account_policy(
    appliance: Appliance, caller: Caller, account: Account, request: SetSendingPolicyRequest
) -> SendingPolicy:
    """Set a mailbox's sending policy.

    Replaces it as a whole. It holds for every message from this mailbox, also for scheduled ones and those that wait
    for an approval. Of this policy and that of the API key that sends, the stricter one holds in each field.
    """
    store, policy = appliance.store, to_policy(request)
    with store.database.transaction(durable=True):
        recheck_owner(store, caller, account.id)
        store.sending_policies.set_of_account(account.id, policy)
        store.audit.record(caller.actor, "account.policy", ("account", account.id))
    return policy


@operation(access=Access.SESSION)
def get_own_key_policy(appliance: Appliance, caller: Caller, key_id: KeyId) -> SendingPolicy:
    """Get an API key's sending policy.

    The key must be yours. Without a policy, no field has a rule.
    """
    appliance.store.api_keys.get(key_id, caller.member.id)
    return _read(lambda: appliance.store.sending_policies.find_of_key(key_id))


@operation(access=Access.SESSION)
def set_own_key_policy(
    appliance: Appliance, caller: Caller, key_id: KeyId, request: SetSendingPolicyRequest
) -> SendingPolicy:
    """Set an API key's sending policy.

    The key must be yours. Replaces its policy as a whole.
    """
    store, policy = appliance.store, to_policy(request)
    with store.database.transaction(durable=True):
        recheck_caller(store, caller)
        key = store.api_keys.get(key_id, caller.member.id)
        _set_of_key(store, caller, key.id, key.member_id, policy)
    return policy


@operation(needs=Capability.ADMIN_API_KEYS, https=True, check_request=require_key_exists)
def get_key_policy(appliance: Appliance, caller: Caller, key_id: KeyId) -> SendingPolicy:  # noqa: ARG001
    """Get any key's sending policy.

    Without a policy, no field has a rule.
    """
    return _read(lambda: appliance.store.sending_policies.find_of_key(key_id))


@operation(needs=Capability.ADMIN_API_KEYS, https=True, check_request=require_key_exists)
def set_key_policy(
    appliance: Appliance, caller: Caller, key_id: KeyId, request: SetSendingPolicyRequest
) -> SendingPolicy:
    """Tighten any key's sending policy.

    Replaces it as a whole, but no field may allow more than before (403). Only the key's member can loosen a field.
    """
    store, policy = appliance.store, to_policy(request)
    with store.database.transaction(durable=True):
        recheck_caller(store, caller, Capability.ADMIN_API_KEYS)
        key = store.api_keys.get(key_id)
        before = _read(lambda: store.sending_policies.find_of_key(key_id))
        if looser := looser_fields(before, policy):
            reason = "only the key's member can let it send more than before."
            raise Denied(reason=reason, details=tuple(Detail(f"/{name}", reason) for name in looser))
        _set_of_key(store, caller, key.id, key.member_id, policy)
    return policy


def _set_of_key(store: Store, caller: Caller, key_id: str, member_id: str, policy: SendingPolicy) -> None:
    store.sending_policies.set_of_key(key_id, policy)
    store.audit.record(caller.actor, "api_key.policy", ("api_key", key_id), about=member_id)


def _read(find: Callable[[], SendingPolicy | None]) -> SendingPolicy:
    """Return a policy. One that cannot be read allows nobody, and is shown so."""
    try:
        return find() or SendingPolicy()
    except msgspec.DecodeError:
        return SendingPolicy(approval="always", allowed_recipients=())


def to_policy(given: SetSendingPolicyRequest) -> SendingPolicy:
    """Return the policy that a request sets. Raises Invalid for an entry that is neither an address nor a domain."""
    return SendingPolicy(
        approval=given.approval,
        allowed_recipients=_read_entries("allowedRecipients", given.allowed_recipients),
        blocked_recipients=_read_entries("blockedRecipients", given.blocked_recipients) or (),
        max_recipients=given.max_recipients,
        per_hour=given.per_hour,
        per_day=given.per_day,
        internal_only=given.internal_only,
    )


def _read_entries(name: str, entries: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if entries is None:
        return None
    for index, entry in enumerate(entries):
        try:
            to_envelope_address(entry if "@" in entry else f"postmaster@{entry}")
        except ValueError as error:
            reason = f"This is neither an address nor a domain: {error}. Use ann@example.org or example.org."
            raise Invalid.at(f"/{name}/{index}", reason) from error
    return tuple(dict.fromkeys(entry if "@" in entry else comparable_domain(entry) for entry in entries))
