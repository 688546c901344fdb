"""Messages: finding and reading them, sending them and what became of it, changing many at once."""

from mailbox_appliance.cli.commands import actions, reading, searching, sending
from mailbox_appliance.cli.tree import group

_LISTS = (row.command() for row in searching.ROWS)
emails = group("emails", "Messages.", [*_LISTS, reading.GET, *sending.COMMANDS, *actions.COMMANDS])
