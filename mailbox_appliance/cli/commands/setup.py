"""The first administrator: through the running appliance, or on the files when none runs."""

import time
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli.commands.login import DEVICE_NAME, PASSWORD_STDIN, PASSWORD_VARIABLE, device, keep
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INPUT, INTERNAL, Failure
from mailbox_appliance.client.instances import local_key

SETUP = Call("POST", "/setup")
#: Seconds between two looks, and how long an appliance that starts is waited for.
_EVERY, _PATIENCE = 0.1, 15.0
OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--name"], required=True, metavar="NAME", help="The name of the administrator."),
    click.Option(["--email"], required=True, metavar="ADDRESS", help="The address to log in with."),
    PASSWORD_STDIN,
    DEVICE_NAME,
)


def _setup(invocation: Invocation, name: str, email: str, password_stdin: bool, device_name: str | None) -> int:
    password = invocation.terminal.secret("New password", PASSWORD_VARIABLE, from_stdin=password_stdin, twice=True)
    folder, device_name = invocation.data_directory(), device(device_name)
    body = {"name": name, "email": email, "password": password, "deviceName": device_name}
    running = local.find_running(folder)
    if running is None:
        set_up = invocation.service("setup_on_files")
        try:
            return keep(
                invocation,
                local_key(folder),
                set_up(folder, name=name, email=email, password=password, device_name=device_name),
            )
        except Exception as problem:
            if getattr(problem, "code", None) != "store_in_use":
                raise
            running = _awaited(invocation, folder, problem)
    return keep(invocation, local_key(folder), _through(running, folder, body))


def _awaited(invocation: Invocation, folder: Path, problem: Exception) -> local.RunningAppliance:
    """The appliance that holds the data directory and is only starting, as soon as it says where it listens.

    Raises Failure where it does not within some seconds.
    """
    until = time.monotonic() + _PATIENCE
    with invocation.terminal.waiting("The appliance is starting…"):
        while time.monotonic() < until:
            if running := local.find_running(folder):
                return running
            time.sleep(_EVERY)
    message = (
        f"{problem} Or it is an appliance that is still starting, or does not answer: then repeat this in a while."
    )
    raise Failure("store_in_use", message, INTERNAL) from problem


def _through(running: local.RunningAppliance, folder: Path, body: dict[str, str]) -> Any:
    from mailbox_appliance.client.http import ApiClient, ApiRequest

    code = local.find_setup_code(folder)
    if code is None:
        raise Failure("conflict", f"The appliance is set up already: {folder} holds no set-up code. Log in.", INPUT)
    return ApiClient(running.url).call(ApiRequest(SETUP.method, SETUP.path, body={"setupCode": code, **body}))


setup = command("setup", _setup, "Create the first administrator, and log in.", OPTIONS)
