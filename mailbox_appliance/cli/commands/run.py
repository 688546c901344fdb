"""Commands that run something: `serve`, `demo`, `mcp`, `tray`, `autostart`; `completion` and `man`."""

import json
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.context import PASSPHRASE_STDIN, Invocation, call_with_passphrase
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.client.errors import INPUT, NETWORK, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient, ApiRequest

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


def _run_serve(
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

    return call_with_passphrase(invocation, serve_with, from_stdin=passphrase_stdin)


def _run_demo(invocation: Invocation, port: int) -> int:
    return int(invocation.service("demo")(port=port))


def _run_demo_servers(invocation: Invocation, folder: str) -> int:
    invocation.service("demo_servers")(Path(folder))
    return 0


serve = command("serve", _run_serve, "Run the appliance until it is told to stop.", SERVE_OPTIONS)
demo = command(
    "demo",
    _run_demo,
    "Try everything in one go: a mail server, a mailbox and an appliance that leave nothing behind.",
    [
        click.Option(
            ["--port"], type=click.IntRange(0, 65535), default=0, help="Port of the appliance (default: a free one)."
        )
    ],
)
demo_servers = command(
    "demo-servers", _run_demo_servers, "Be the demo's mail servers.", [click.Argument(["folder"])], hidden=True
)


# --- `mcp`: tools for AI agents on stdin and stdout; the protocol's session is passed in from above ---


_MCP_HELP = """Serve tools to an assistant (Model Context Protocol, on standard input and output).

They are those that the log-in or the API key may use. An appliance must run, here or where --instance says; it offers
the same tools at /mcp.
"""
#: Seconds without a response: a send may take 25, and calls to mail servers somewhat more.
_ANSWER_SECONDS = 120.0


class _ApplianceConnection:
    """The appliance that is asked; one that was not reached is looked for again, since it may have moved."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._client: ApiClient | None = None

    def check(self) -> None:
        """See that it runs, and that the token is good. Raises a Failure."""
        self._find_client().call(ApiRequest("GET", "/me", timeout=30))

    def post(self, body: bytes, headers: dict[str, str], advice: str) -> tuple[int, bytes]:
        """Status and body; without a response, 0 and an error object with the reason."""
        try:
            request = ApiRequest(
                "POST", "/mcp", body=body, headers=headers, timeout=_ANSWER_SECONDS, base="", advice=advice
            )
            return self._find_client().exchange(request)
        except Failure as failure:
            if failure.exit_code == NETWORK:
                self._client = None
            return 0, json.dumps({"error": failure.error}).encode()

    def _find_client(self) -> ApiClient:
        client = self._client or self._invocation.client()
        self._client = client
        return client


def _run_mcp(invocation: Invocation) -> int:
    appliance = _ApplianceConnection(invocation)
    appliance.check()
    return int(invocation.service("mcp_stdio")(appliance.post))


mcp = command("mcp", _run_mcp, _MCP_HELP)


# --- `tray`: the tray icon; what shows it is passed in from above ---


_TRAY_HELP = """Show an icon beside the clock: how the appliance is, and a menu for what one does with it.

It starts the appliance where it does not run; `Quit` in its menu stops both, Ctrl-C and the end of the desktop only the
icon. For most of the menu, log in with `mailbox-appliance login`. Where no desktop shows icons it says so, and ends.
"""


def _run_tray(invocation: Invocation, opens_console: bool, quits: bool) -> int:
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
    _run_tray,
    _TRAY_HELP,
    [
        click.Option(["--open", "opens_console"], is_flag=True, help="Open the console as well, once it answers."),
        click.Option(["--quit", "quits"], is_flag=True, help="End the icon that is there, and the appliance with it."),
    ],
)


# --- `autostart`: whether this user's system starts the tray at login ---


_NO_HOME = "This user has no home directory in which start at login could be kept. Set HOME, or XDG_CONFIG_HOME."


def _find_autostart(invocation: Invocation) -> Any:
    # An option that is left out is not stored: the usual directory is found again at each login.
    is_named = invocation.data_dir or invocation.variable("DATA_DIR")
    folder = invocation.data_directory() if is_named else None
    found = invocation.service("autostart")(invocation.terminal.environment, folder)
    if found is None:
        raise Failure("not_found", _NO_HOME, INPUT)
    return found


def _enable_autostart(invocation: Invocation) -> int:
    found = _find_autostart(invocation)
    found.enable()
    return _show_autostart_answer(invocation, found)


def _disable_autostart(invocation: Invocation) -> int:
    found = _find_autostart(invocation)
    found.disable()
    return _show_autostart_answer(invocation, found)


def _show_autostart(invocation: Invocation) -> int:
    return _show_autostart_answer(invocation, _find_autostart(invocation))


def _show_autostart_answer(invocation: Invocation, found: Any) -> int:
    data = {"enabled": found.is_enabled, "place": found.location, "command": found.command}
    answer: dict[str, Any] = {"data": data}
    if found.missing_program is not None:
        lost = found.missing_program
        answer["warnings"] = [f"There is no program {lost} any more. `autostart enable` names this one."]
    output.show_answer(invocation, answer, (), output.render_record, _autostart_remark)
    return 0


def _autostart_remark(answer: Any) -> str:
    if answer["data"]["enabled"]:
        return "The icon beside the clock, and with it the appliance, start when you log in to this computer.\n"
    return "Nothing is started when you log in; the command is what would be.\n"


_AUTOSTART_HELP = (
    "It is for who logs in to a desktop, without an administrator. A computer without one starts the appliance as a "
    "service: see docs/operating.md."
)
autostart = group(
    "autostart",
    "Start the icon beside the clock, and with it the appliance, when you log in to this computer.",
    [
        command(
            "enable",
            _enable_autostart,
            "Start the icon beside the clock, and with it the appliance, when you log in.\n\n"
            f"{_AUTOSTART_HELP} With --data-dir it is for that directory; there is one for each user.",
        ),
        command("disable", _disable_autostart, "Start nothing at login. What runs goes on."),
        command(
            "status",
            _show_autostart,
            "Show whether the icon starts at login, where that is kept, and the command.\n\n"
            "What was switched off in a settings app of the desktop is off.",
        ),
    ],
)


# --- `completion` and `man` ---


def _completion(invocation: Invocation, shell: str) -> int:
    from mailbox_appliance.cli.groups import SCRIPTS

    invocation.terminal.write(SCRIPTS[shell])
    return 0


def _man(invocation: Invocation) -> int:
    from mailbox_appliance.cli.groups import Root
    from mailbox_appliance.cli.man_page import render_man_page

    root = click.get_current_context().find_root().command
    assert isinstance(root, Root)  # noqa: S101 - `man` is in no other tree
    invocation.terminal.write(render_man_page(root))
    return 0


_SHELL = click.Argument(["shell"], metavar="bash|zsh|fish", type=click.Choice(("bash", "zsh", "fish")))
completion = command(
    "completion",
    _completion,
    """Print what makes bash, zsh or fish complete these commands.

Try it in the shell that you are in:

\b
  bash  eval "$(mailbox-appliance completion bash)"
  zsh   eval "$(mailbox-appliance completion zsh)"
  fish  mailbox-appliance completion fish | source

To keep it, write it to the file that its first lines name. The program must be found as mailbox-appliance.""",
    [_SHELL],
)
man = command(
    "man",
    _man,
    """Print the manual page, as roff.

To read it: mailbox-appliance man | man -l -""",
)
