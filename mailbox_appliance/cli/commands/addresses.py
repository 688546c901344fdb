"""`accounts addresses`: what a mailbox may send as."""

from mailbox_appliance.cli.rows import ACCOUNT, MAILBOX, Call, Row

ADDRESSES = Row(
    "addresses",
    Call("GET", "/accounts/{accountId}/sender-addresses"),
    "List the addresses that mail of a mailbox may be from.\n\nIts own is used where `--from` is not given.",
    (ACCOUNT, MAILBOX),
    columns=("email", "name", "isDefault"),
)
