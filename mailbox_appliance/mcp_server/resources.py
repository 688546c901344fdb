"""Resources: the latest changes in a mailbox, or in all mailboxes, for AI agents that subscribe to them.

`mailbox://changes` has the changes in all mailboxes of the caller, `mailbox://accounts/{accountId}/changes` those in
one. Reading a resource returns the text that the tool list_changes has.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailbox_appliance.errors import Denied
from mailbox_appliance.mcp_server.read_tools import show_latest_changes
from mailbox_appliance.mcp_server.tool import CallContext
from mailbox_appliance.operations import accounts
from mailbox_appliance.operations.operation import Request

#: The changes in all mailboxes.
ALL_CHANGES = "mailbox://changes"
MEDIA_TYPE = "text/plain"
_OF_MAILBOX = re.compile(r"mailbox://accounts/([A-Za-z0-9_]{1,100})/changes")


class UnknownResource(Exception):
    """No resource has this URI."""


@dataclass(frozen=True)
class Resource:
    """A resource as lists show it. `title` names the mailbox."""

    uri: str
    name: str
    title: str
    description: str


def changes_uri(account_id: str) -> str:
    """Return the URI of the changes in a mailbox."""
    return f"mailbox://accounts/{account_id}/changes"


def mailbox_of(uri: str) -> str | None:
    """Return the ID of the mailbox that a URI names; None for all mailboxes. Raises UnknownResource."""
    if uri == ALL_CHANGES:
        return None
    found = _OF_MAILBOX.fullmatch(uri)
    if found is None:
        raise UnknownResource
    return found[1]


def list_resources(asked: CallContext) -> Iterator[Resource]:
    """Yield the resources that the caller can read; nothing without `mail.read`."""
    try:
        found = accounts.list_accounts.call(asked.appliance, asked.origin, asked.token, Request()).data
    except Denied:
        return
    yield Resource(ALL_CHANGES, "changes", "Changes", "The latest changes in all mailboxes that you can access.")
    for account in found:
        name = f"changes-{account.id}"
        yield Resource(changes_uri(account.id), name, f"Changes: {account.email}", "The latest changes in a mailbox.")


def read_resource(asked: CallContext, uri: str) -> str:
    """Return the text of a resource. Raises UnknownResource, and Problem, such as NotFound and Denied."""
    return show_latest_changes(asked, mailbox_of(uri)).text
