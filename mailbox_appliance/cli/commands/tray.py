"""The icon beside the clock; what shows it is handed in from above."""

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command

_HELP = """Show an icon beside the clock: how the appliance is, and a menu for what one does with it.

It starts the appliance where it does not run; `Quit` in its menu stops both, Ctrl-C and the end of the desktop only the
icon. For most of the menu, log in with `mailbox-appliance login`. Where no desktop shows icons it says so, and ends.
"""


def _tray(invocation: Invocation, opens_console: bool) -> int:
    show = invocation.service("tray")
    environment = invocation.terminal.environment
    folders = invocation.data_directory(), invocation.config_directory()
    return int(show(*folders, opens_console=opens_console, environment=environment))


tray = command(
    "tray",
    _tray,
    _HELP,
    [click.Option(["--open", "opens_console"], is_flag=True, help="Open the console as well, once it answers.")],
)
