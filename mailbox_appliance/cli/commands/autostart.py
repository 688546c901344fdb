"""Start at login: whether the tray is started for this user, by the system that they log in to."""

from typing import Any

from mailbox_appliance.cli import render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command, group
from mailbox_appliance.client.errors import INPUT, Failure

_NO_HOME = "This user has no home directory in which start at login could be kept. Set HOME, or XDG_CONFIG_HOME."


def _autostart(invocation: Invocation) -> Any:
    # What is not named is not written down either: the usual directory is found anew at each login.
    is_named = invocation.data_dir or invocation.variable("DATA_DIR")
    folder = invocation.data_directory() if is_named else None
    found = invocation.service("autostart")(invocation.terminal.environment, folder)
    if found is None:
        raise Failure("not_found", _NO_HOME, INPUT)
    return found


def _enable(invocation: Invocation) -> int:
    found = _autostart(invocation)
    found.enable()
    return _tell(invocation, found)


def _disable(invocation: Invocation) -> int:
    found = _autostart(invocation)
    found.disable()
    return _tell(invocation, found)


def _status(invocation: Invocation) -> int:
    return _tell(invocation, _autostart(invocation))


def _tell(invocation: Invocation, found: Any) -> int:
    data = {"enabled": found.is_enabled, "place": found.place, "command": found.command}
    answer: dict[str, Any] = {"data": data}
    if found.lost is not None:
        answer["warnings"] = [f"There is no program {found.lost} any more. `autostart enable` names this one."]
    show.show(invocation, answer, (), render.record, _remark)
    return 0


def _remark(answer: Any) -> str:
    if answer["data"]["enabled"]:
        return "The icon beside the clock, and with it the appliance, start when you log in to this computer.\n"
    return "Nothing is started when you log in; the command is what would be.\n"


_DESKTOP = (
    "It is for who logs in to a desktop, without an administrator. A computer without one starts the appliance as a "
    "service: see docs/operating.md."
)
autostart = group(
    "autostart",
    "Start the icon beside the clock, and with it the appliance, when you log in to this computer.",
    [
        command(
            "enable",
            _enable,
            "Start the icon beside the clock, and with it the appliance, when you log in.\n\n"
            f"{_DESKTOP} With --data-dir it is for that directory; there is one for each user.",
        ),
        command("disable", _disable, "Start nothing at login. What runs goes on."),
        command(
            "status",
            _status,
            "Show whether the icon starts at login, where that is kept, and the command.\n\n"
            "What was switched off in a settings app of the desktop is off.",
        ),
    ],
)
