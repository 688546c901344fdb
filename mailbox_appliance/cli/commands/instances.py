"""The appliances that this user logged in to."""

from typing import Any

import click

from mailbox_appliance.cli import show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command, complete_instances, group
from mailbox_appliance.client.instances import LOCAL, find_local, local_key

_COLUMNS = ("name", "url", "current", "loggedIn", "fingerprint")


def _rows(invocation: Invocation) -> list[dict[str, Any]]:
    instances, tokens = invocation.instances(), invocation.tokens()
    folder, current = invocation.data_directory(), instances.current
    here = find_local(folder)
    found: list[tuple[str, str | None, str, str | None]] = [
        (LOCAL, here.url if here else None, local_key(folder), None)
    ]
    found += [(one.name, one.url, one.key, one.fingerprint) for one in instances.list()]
    return [
        {"name": name, "url": url, "fingerprint": pin, "current": name == current, "loggedIn": tokens.has(key)}
        for name, url, key, pin in found
    ]


def _list(invocation: Invocation) -> int:
    show.show(invocation, {"data": _rows(invocation)}, _COLUMNS)
    return 0


def _use(invocation: Invocation, name: str) -> int:
    invocation.instances().use(name)
    show.show(invocation, {"data": next(row for row in _rows(invocation) if row["current"])})
    return 0


def _remove(invocation: Invocation, name: str) -> int:
    removed = invocation.instances().remove(name)
    invocation.tokens().remove(removed.key)
    show.show(invocation, {"data": {"id": name, "deleted": True}})
    return 0


_NAME = click.Argument(["name"], shell_complete=complete_instances)
instances = group(
    "instances",
    "Appliances that you logged in to; `local` is the one of the data directory.",
    [
        command("list", _list, "List the appliances you know, and which is in use."),
        command("use", _use, "Speak to this one from now on.", [_NAME]),
        command("remove", _remove, "Forget one, and its token. To end the log-in itself, log out first.", [_NAME]),
    ],
)
