"""Who is asking, how the appliance is, and the log-ins of the caller."""

import click

from mailbox_appliance.cli.rows import Call, Row
from mailbox_appliance.cli.tree import group

WHOAMI = Row("whoami", Call("GET", "/me"), "Show who is logged in, and what they may do.")
STATUS = Row("status", Call("GET", "/status"), "Show how the appliance and its mailboxes are.")
OPENAPI = Row("openapi", Call("GET", "/openapi.json"), "Print the description of the API (OpenAPI 3.1).")
SESSIONS = (
    Row(
        "list",
        Call("GET", "/me/sessions"),
        "List where you are logged in.",
        columns=("id", "deviceName", "createdAt", "lastUsedAt", "expiresAt", "current"),
    ),
    Row(
        "revoke",
        Call("DELETE", "/me/sessions/{sessionId}"),
        "End a log-in; ending the current one is a logout.",
        (click.Argument(["session_id"]),),
    ),
)
ROWS = (WHOAMI, STATUS, OPENAPI, *SESSIONS)

whoami, status, openapi = WHOAMI.command(), STATUS.command(), OPENAPI.command()
sessions = group("sessions", "Log-ins of yours.", [row.command() for row in SESSIONS])
