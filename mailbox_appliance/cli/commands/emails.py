"""Messages: finding and reading them, sending them and what became of it, changing many at once."""

from mailbox_appliance.cli.commands import actions, reading, searching, sending
from mailbox_appliance.cli.tree import group

_REST = (row.command() for row in (*sending.ROWS, *actions.ROWS))
emails = group("emails", "Messages.", [*(row.command() for row in searching.ROWS), reading.GET, *_REST])
