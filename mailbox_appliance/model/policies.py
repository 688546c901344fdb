"""Sending policies: rules for what a mailbox or an API key sends, and what a person must approve first."""

from typing import Literal

from mailbox_appliance.model.base import Wire

ApprovalRule = Literal["never", "always", "newRecipients"]


class SendingPolicy(Wire, frozen=True, kw_only=True):
    """Rules for the messages of a mailbox or an API key. Of both, the stricter one holds in each field.

    - approval: Which messages a person must approve: none, all, or those with new recipients.
    - allowed_recipients: Addresses and domains that messages may go to; null for all, [] for nobody.
    - blocked_recipients: Addresses and domains that no message may go to.
    - max_recipients: Most recipients of a message; null for no rule.
    - per_hour: Most messages in an hour; null for no rule.
    - per_day: Most messages in a day; null for no rule.
    - internal_only: Whether messages may only go to the domains of the appliance's own mailboxes.
    """

    approval: ApprovalRule = "never"
    allowed_recipients: tuple[str, ...] | None = None
    blocked_recipients: tuple[str, ...] = ()
    max_recipients: int | None = None
    per_hour: int | None = None
    per_day: int | None = None
    internal_only: bool = False
