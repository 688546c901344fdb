"""The upgrade of a store of an older release: `store migrate`. It is done by `serve` as well."""

from typing import Any

import click

from mailbox_appliance.cli import passphrases, render, show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import INTERNAL

_DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Only tell what would be done; nothing is changed.")


def _migrate(invocation: Invocation, dry_run: bool, passphrase_stdin: bool) -> int:
    folder, act = invocation.data_directory(), invocation.service("survey_store" if dry_run else "upgrade_store")

    def opening(passphrase: str | None) -> Any:
        with invocation.terminal.progress_bar() as tell:
            return act(folder, passphrase, tell)

    answer = passphrases.opened(invocation, opening, from_stdin=passphrase_stdin)
    show.show(invocation, answer, (), render.record, _plan if dry_run else _done)
    return 0 if answer["data"].get("ready", True) else INTERNAL


def _done(answer: Any) -> str:
    told = answer["data"]
    if told["upgradedFrom"] is None:
        return f"The store has format {told['format']}, which is today's. Nothing was done.\n"
    return (
        f"The store was upgraded from format {told['upgradedFrom']} to {told['format']}. The old one lies in"
        f" backups/{told['backup']}.\n"
    )


def _plan(answer: Any) -> str:
    told = answer["data"]
    if told["format"] == told["upgradesTo"]:
        return f"The store has format {told['format']}, which is today's. There is nothing to do.\n"
    if told["problems"]:
        return "As it is, the upgrade would be refused, and nothing would be changed.\n"
    return f"The store would be upgraded from format {told['format']} to {told['upgradesTo']}.\n"


migrate = command(
    "migrate",
    _migrate,
    "Upgrade the store of an older release.\n\nThe old one is kept as a migration backup; `serve` does the same at its"
    " start. The appliance must not be running.",
    (_DRY_RUN, passphrases.PASSPHRASE_STDIN),
)
