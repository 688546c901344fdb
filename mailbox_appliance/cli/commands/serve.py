"""Commands that run the appliance itself; what does it is handed in from above."""

from pathlib import Path

import click

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.passphrases import PASSPHRASE_STDIN, opened
from mailbox_appliance.cli.tree import command

SERVE_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--host"], metavar="HOST", help="Address to listen on (default 127.0.0.1 and ::1)."),
    click.Option(["--port"], type=click.IntRange(0, 65535), help="Port (default 8025); 0 picks a free one."),
    click.Option(
        ["--https-port"], type=click.IntRange(0, 65535), help="Offer HTTPS, at this port (default 8443); 0: a free one."
    ),
    click.Option(["--https-host"], metavar="HOST", help="Address of HTTPS (default: all of this computer)."),
    click.Option(["--ready-json"], is_flag=True, help="Print one line of JSON when it answers."),
    PASSPHRASE_STDIN,
)


def _serve(
    invocation: Invocation,
    host: str | None,
    port: int | None,
    https_port: int | None,
    https_host: str | None,
    ready_json: bool,
    passphrase_stdin: bool,
) -> int:
    given = {"server.host": host, "server.port": port, "server.https_port": https_port, "server.https_host": https_host}
    flags: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if https_port is not None:
        flags["server.https"] = True
    folder, start, showing = (
        invocation.data_directory(),
        invocation.service("serve"),
        invocation.terminal.progress_steps,
    )

    def serve_with(passphrase: str | None) -> int:
        return int(start(folder, flags=flags, ready_json=ready_json, passphrase=passphrase, showing=showing))

    return opened(invocation, serve_with, from_stdin=passphrase_stdin)


def _demo(invocation: Invocation, port: int) -> int:
    return int(invocation.service("demo")(port=port))


def _demo_servers(invocation: Invocation, folder: str) -> int:
    invocation.service("demo_servers")(Path(folder))
    return 0


serve = command("serve", _serve, "Run the appliance until it is told to stop.", SERVE_OPTIONS)
demo = command(
    "demo",
    _demo,
    "Try everything in one go: a mail server, a mailbox and an appliance that leave nothing behind.",
    [
        click.Option(
            ["--port"], type=click.IntRange(0, 65535), default=0, help="Port of the appliance (default: a free one)."
        )
    ],
)
demo_servers = command(
    "demo-servers", _demo_servers, "Be the demo's mail servers.", [click.Argument(["folder"])], hidden=True
)
