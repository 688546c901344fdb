"""The icon beside the clock; what shows it is handed in from above."""

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import wrong_usage

_HELP = """Show an icon beside the clock: how the appliance is, and a menu for what one does with it.

It starts the appliance where it does not run; `Quit` in its menu stops both, Ctrl-C and the end of the desktop only the
icon. For most of the menu, log in with `mailbox-appliance login`. Where no desktop shows icons it says so, and ends.
"""


def _tray(invocation: Invocation, opens_console: bool, quits: bool) -> int:
    data_dir, environment = invocation.data_directory(), invocation.terminal.environment
    if invocation.instance is not None:
        raise wrong_usage(
            "The icon is for an appliance of this computer: name it with --data-dir.", "option:--instance"
        )
    if quits and opens_console:
        raise wrong_usage("--open and --quit do not go together.")
    if quits:
        return int(invocation.service("end_tray")(data_dir, environment=environment))
    show, config_dir = invocation.service("tray"), invocation.config_directory()
    return int(show(data_dir, config_dir, opens_console=opens_console, environment=environment))


tray = command(
    "tray",
    _tray,
    _HELP,
    [
        click.Option(["--open", "opens_console"], is_flag=True, help="Open the console as well, once it answers."),
        click.Option(["--quit", "quits"], is_flag=True, help="End the icon that is there, and the appliance with it."),
    ],
)
