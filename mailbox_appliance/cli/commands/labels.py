"""Labels of messages."""

from mailbox_appliance.cli.rows import ACCOUNT, Call, Row
from mailbox_appliance.cli.tree import group

ROWS = (
    Row(
        "list",
        Call("GET", "/accounts/{accountId}/labels"),
        "List the labels that messages of a mailbox have.",
        (ACCOUNT,),
        columns=("id", "name"),
    ),
)
labels = group("labels", "Labels of messages.", [row.command() for row in ROWS])
