"""Scheduled sends: what waits for its time, and calling it back."""

import click

from mailbox_appliance.cli import deliveries
from mailbox_appliance.cli.rows import ACCOUNT, ALL_PAGES, Call, Row
from mailbox_appliance.cli.tree import group

_LIST = "/accounts/{accountId}/scheduled"
ROWS = (
    Row(
        "list",
        Call("GET", _LIST),
        "List what is to be sent later, the soonest first.\n\nAlso what is being sent just now, and what may have been "
        "delivered (uncertain).",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "sendAt", "status", "to", "subject"),
        remark=deliveries.remark,
    ),
    Row(
        "cancel",
        Call("DELETE", f"{_LIST}/{{scheduleId}}"),
        "Call a scheduled send back. The message is kept as a draft.",
        (click.Argument(["schedule_id"]), ACCOUNT),
        # The message is put among the drafts before the answer, if the mail server can be asked.
        timeout=180.0,
        waiting_for="Asking the mail server…",
    ),
)
RELEASE = Row(
    "release",
    Call("PATCH", "/admin/settings"),
    "Let scheduled sends go that a restore has held.\n\nThey wait where nobody knew what has been sent since the"
    " backup: look through `scheduled list` first, and cancel what has gone out. For administrators.",
    body=lambda _invocation, _given: {"sending.hold_scheduled": False},
    remark=lambda _answer: "Scheduled sends go out when their time comes.\n",
)
scheduled = group("scheduled", "Scheduled sends.", [row.command() for row in (*ROWS, RELEASE)])
