"""Decides what the sending policies of a mailbox and an API key allow: pure rules, and the facts that they need.

Every message is checked when it is accepted, when a person approves it, and when a scheduled one is due. The stricter
of both policies holds in each field. A policy that cannot be read allows nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from mailbox_appliance.errors import Detail, PolicyDenied
from mailbox_appliance.mail.address import comparable_domain, domain_of, same_address, same_mailbox, to_strict_key
from mailbox_appliance.model.approvals import SendingPolicy
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.deliveries import Quota

if TYPE_CHECKING:
    from mailbox_appliance.store.store import Store

_WINDOWS = (("per_hour", "perHour", timedelta(hours=1)), ("per_day", "perDay", timedelta(days=1)))


@dataclass(frozen=True)
class Denial:
    """A rule that forbids a message. `recipient`: the address that it forbids; None if it is about all of them."""

    rule: str
    reason: str
    recipient: str | None = None


@dataclass(frozen=True)
class PolicyVerdict:
    """The verdict of one policy on a message: what it forbids, and why a person must approve it."""

    denials: tuple[Denial, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policies:
    """The policies that a message is subject to: of its mailbox, and of the API key that sends it (None: a session)."""

    mailbox: SendingPolicy
    key: SendingPolicy | None

    def quotas(self) -> tuple[Quota, ...]:
        """Return the limits on the number of messages."""
        return (*_quotas("account", self.mailbox), *(_quotas("credential", self.key) if self.key else ()))


def judge(
    policy: SendingPolicy,
    recipients: Sequence[str],
    own_domains: Collection[str],
    find_known: Callable[[Sequence[str]], Collection[str]],
) -> PolicyVerdict:
    """Return the verdict of a policy on a message to these envelope recipients.

    `own_domains`: the domains of the appliance's mailboxes, as `comparable_domain` returns them. `find_known`: returns
    those of some addresses that the mailbox has written to or received from; called only if a rule needs it.
    """
    denials = tuple(_denials(policy, recipients, own_domains))
    if denials or policy.approval == "never":
        return PolicyVerdict(denials)
    if policy.approval == "always":
        return PolicyVerdict((), (own_text("Every message needs an approval."),))
    known = find_known(recipients)
    new = [each for each in recipients if each not in known]
    return PolicyVerdict((), tuple(f"New recipient: {each}" for each in new))


def is_allowed(entry: str, address: str) -> bool:
    """Whether an entry of the allowed recipients, an address or a domain, surely names this address."""
    if "@" in entry:
        return same_address(entry, address)
    return not _relays(address) and comparable_domain(domain_of(address)) == comparable_domain(entry)


def is_blocked(entry: str, address: str) -> bool:
    """Whether an entry of the blocked recipients, an address or a domain, may name this address.

    A domain stands for its subdomains as well.
    """
    if "@" in entry:
        return same_mailbox(entry, address)
    named = comparable_domain(entry)
    domains = map(comparable_domain, (domain_of(address), *_relays(address)))
    return any(domain == named or domain.endswith(f".{named}") for domain in domains)


def _relays(address: str) -> tuple[str, ...]:
    """Return what a server may take for domains in a local part: it passes on `a%b.example@` and `b.example!a@`."""
    local = address.rpartition("@")[0].strip('"')
    return (*local.split("%")[1:], *local.split("!")[:-1])


def read_policies(store: "Store", account_id: str, credential_id: str) -> Policies:
    """Return the policies of a mailbox and of a credential. Raises PolicyDenied for one that cannot be read."""
    try:
        mailbox, key = store.sending_policies.read(account_id, credential_id)
    except (msgspec.DecodeError, ValueError) as error:
        reason = "the policy cannot be read. Set it again."
        raise PolicyDenied(reason=reason, details=(Detail("policy", reason),)) from error
    return Policies(mailbox or SendingPolicy(), key)


def check(
    store: "Store",
    policies: Policies,
    account_id: str,
    recipients: Sequence[str],
    pointers: Mapping[str, str] | None = None,
    known: Collection[str] | None = None,
) -> tuple[tuple[str, ...], bool]:
    """Return why a message needs an approval, and whether only the owner of the mailbox may give it.

    `recipients`: the envelope recipients. `pointers`: the places of recipients in the request, for errors. `known`: the
    result of `find_known`, in a transaction. Raises PolicyDenied if a policy forbids the message.
    """
    domains = {comparable_domain(domain_of(each)) for each in store.accounts.list_emails()}

    @cache
    def find() -> Collection[str]:
        return store.messages.find_correspondents(account_id, recipients) if known is None else known

    of_mailbox = judge(policies.mailbox, recipients, domains, lambda _: find())
    of_key = PolicyVerdict() if policies.key is None else judge(policies.key, recipients, domains, lambda _: find())
    if denials := (*of_mailbox.denials, *of_key.denials):
        places = pointers or {}
        raise PolicyDenied(
            reason=denials[0].reason,
            details=tuple(
                dict.fromkeys(Detail(places.get(one.recipient or "", one.rule), one.reason) for one in denials)
            ),
        )
    return tuple(dict.fromkeys((*of_mailbox.reasons, *of_key.reasons))), bool(of_mailbox.reasons)


def find_known(
    store: "Store", policies: Policies, account_id: str, recipients: Sequence[str]
) -> Collection[str] | None:
    """Return the recipients that the mailbox knows; None if no rule asks. This may take seconds, so call it before a
    transaction.
    """
    if "newRecipients" not in {policies.mailbox.approval, policies.key and policies.key.approval}:
        return None
    return store.messages.find_correspondents(account_id, recipients)


def looser_fields(before: SendingPolicy, after: SendingPolicy) -> tuple[str, ...]:
    """Return the fields, as in JSON, in which a policy allows more than it did."""
    found = {
        "approval": _STRICTNESS[after.approval] < _STRICTNESS[before.approval],
        "allowedRecipients": not _is_narrower(before.allowed_recipients, after.allowed_recipients),
        "blockedRecipients": not set(map(_canonical, before.blocked_recipients)).issubset(
            map(_canonical, after.blocked_recipients)
        ),
        "maxRecipients": _is_more(before.max_recipients, after.max_recipients),
        "perHour": _is_more(before.per_hour, after.per_hour),
        "perDay": _is_more(before.per_day, after.per_day),
        "internalOnly": before.internal_only and not after.internal_only,
    }
    return tuple(name for name, is_looser in found.items() if is_looser)


_STRICTNESS = {"never": 0, "newRecipients": 1, "always": 2}


def _is_more(before: int | None, after: int | None) -> bool:
    return before is not None and (after is None or after > before)


def _is_narrower(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> bool:
    if before is None:
        return True
    if after is None:
        return False
    domains = {comparable_domain(each) for each in before if "@" not in each}
    allowed = set(map(to_strict_key, before))
    return all(
        to_strict_key(each) in allowed or ("@" in each and comparable_domain(domain_of(each)) in domains)
        for each in after
    )


def _canonical(entry: str) -> str:
    local, at, domain = entry.strip().rpartition("@")
    return f"{local.casefold()}{at}{comparable_domain(domain)}"


def _quotas(of: str, policy: SendingPolicy) -> Iterator[Quota]:
    for name, field, window in _WINDOWS:
        most = getattr(policy, name)
        if most is not None:
            owner = "account" if of == "account" else "credential"
            yield Quota(owner, most, window, setting=f"`{field}` in its sending policy")  # type: ignore[arg-type]


def _denials(policy: SendingPolicy, recipients: Sequence[str], own_domains: Collection[str]) -> Iterator[Denial]:
    # The number of messages is limited when they are accepted; what is due later may meet a rule that allows none.
    for name, field, _ in _WINDOWS:
        if getattr(policy, name) == 0:
            yield Denial(field, f"`{field}` allows no messages.")
    if policy.max_recipients is not None and len(recipients) > policy.max_recipients:
        reason = f"a message may have at most {policy.max_recipients} recipients, and this one has {len(recipients)}."
        yield Denial("maxRecipients", reason)
    for each in recipients:
        if (rule := _why_denied(policy, each, own_domains)) is not None:
            yield Denial(rule, f"{_DENIED[rule].format(each)}", each)


_DENIED = {
    "blockedRecipients": "{} is a blocked recipient.",
    "allowedRecipients": "{} is not among the allowed recipients.",
    "internalOnly": "{} is outside the domains of this appliance's mailboxes.",
}


def _why_denied(policy: SendingPolicy, recipient: str, own_domains: Collection[str]) -> str | None:
    if any(is_blocked(entry, recipient) for entry in policy.blocked_recipients):
        return "blockedRecipients"
    allowed = policy.allowed_recipients
    if allowed is not None and not any(is_allowed(entry, recipient) for entry in allowed):
        return "allowedRecipients"
    is_own = comparable_domain(domain_of(recipient)) in own_domains and not _relays(recipient)
    if policy.internal_only and not is_own:
        return "internalOnly"
    return None
