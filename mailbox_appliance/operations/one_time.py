"""Tokens that are good once, as those who come with one see it: whom it is for, and how it is used up."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import InvalidToken, MemberSuspended
from mailbox_appliance.model.records import Member
from mailbox_appliance.operations.attempts import Attempt
from mailbox_appliance.security.tokens import hash_token
from mailbox_appliance.store.credentials import TokenKind

# Longer than any that there is, so that a wrong one is told as such.
Token = Annotated[str, Meta(min_length=1, max_length=4096)]


@dataclass(frozen=True)
class Use:
    """What a token is for: its kind, the act in the audit log, and what a person calls it."""

    kind: TokenKind
    action: str
    what: str


def look_up(appliance: Appliance, attempt: Attempt, use: Use, token: str) -> Member:
    """The member whom a token is for, which stays good. What is wrong counts as a failure.

    Raises InvalidToken, and MemberSuspended for the right token of a suspended member.
    """
    member_id = appliance.store.one_time_tokens.find(use.kind, hash_token(token))
    if member_id is None:
        attempt.record_failure(use.action)
        raise InvalidToken(what=use.what)
    member = appliance.store.members.get(member_id)
    if member.status == "suspended":
        attempt.record_failure(use.action, ("member", member_id), "denied")
        raise MemberSuspended
    return member


def use_up(appliance: Appliance, use: Use, token: str) -> Member:
    """The member whom a token is for; it is never good again. Inside a transaction.

    Raises InvalidToken or MemberSuspended where that came about since it was looked up.
    """
    member_id = appliance.store.one_time_tokens.redeem(use.kind, hash_token(token))
    if member_id is None:
        raise InvalidToken(what=use.what)
    member = appliance.store.members.get(member_id)
    if member.status == "suspended":
        raise MemberSuspended
    return member
