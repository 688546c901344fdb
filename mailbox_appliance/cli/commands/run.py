"""Commands that start programs: `serve`, `demo`, `mcp`, `tray` and `autostart`. Also `completion`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.context import PASSPHRASE_STDIN, Invocation, TellProgress, call_with_passphrase
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.client.errors import INPUT, NETWORK, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient, ApiRequest

SERVE_OPTIONS: tuple[click.Parameter, ...] = (
    option("--host", "HOST", "IP address for HTTP (default 127.0.0.1 and ::1)."),
    click.Option(["--port"], type=click.IntRange(0, 65535), help="Port for HTTP (default 8025); 0 picks a free one."),
    click.Option(
        ["--https-port"],
        type=click.IntRange(0, 65535),
        help="Port for HTTPS (default 8443); also enables HTTPS; 0 picks a free one.",
    ),
    option("--https-host", "HOST", "IP address for HTTPS (default: all addresses)."),
    flag("--ready-json", "Print one line of JSON when the appliance is ready."),
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

    def serve_with(passphrase: str | None, _: TellProgress) -> int:
        return int(start(folder, flags=flags, ready_json=ready_json, passphrase=passphrase, showing=showing))

    return call_with_passphrase(invocation, serve_with, from_stdin=passphrase_stdin)


serve = command("serve", _run_serve, "Run the appliance until it is stopped.", SERVE_OPTIONS)
demo = command(
    "demo",
    lambda invocation, port: int(invocation.service("demo")(port=port)),
    "Try the appliance with its own mail server and sample mail.\n\nAll data is deleted when the demo ends.",
    [
        click.Option(
            ["--port"], type=click.IntRange(0, 65535), default=0, help="Port of the appliance (default: a free one)."
        )
    ],
)
demo_servers = command(
    "demo-servers",
    lambda invocation, folder: invocation.service("demo_servers")(Path(folder)) or 0,
    "Run the demo's mail servers.",
    [click.Argument(["folder"])],
    hidden=True,
)


# --- `mcp`: tools for AI agents on stdin and stdout; a higher layer passes in the protocol session ---


_MCP_HELP = """Serve MCP tools to an AI agent on standard input and output.

The agent gets the tools that the session or API key permits. The appliance must be running, on this computer or at
--instance. It also serves these tools over HTTP at /mcp (Model Context Protocol).
"""
#: Seconds to wait for a response: a send may take 25, and calls to mail servers somewhat longer.
_ANSWER_SECONDS = 120.0


class _ApplianceConnection:
    """The connection of `mcp` to its appliance, whose address may change when it restarts."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._client: ApiClient | None = None

    def check(self) -> None:
        """Raise Failure if the appliance is not running or the token is not valid."""
        self._find_client().call(ApiRequest("GET", "/me", timeout=30))

    def post(self, body: bytes, headers: dict[str, str], advice: str) -> tuple[int, bytes]:
        """Send an MCP message and return the status and body of the response.

        `advice`: the next step, which the error message contains if no response arrives. In that case the body is an
        error object with the reason, and the status is:

        - -1 if the message was certainly not sent
        - 0 if the appliance may have processed it
        """
        request = ApiRequest(
            "POST", "/mcp", body=body, headers=headers, timeout=_ANSWER_SECONDS, base="", advice=advice
        )
        is_located = False
        try:
            client = self._find_client()
            is_located = True
            return client.exchange(request)
        except Failure as failure:
            if failure.exit_code == NETWORK:
                self._client = None
            status = -1 if failure.is_unsent or not is_located else 0
            return status, json.dumps({"error": failure.error}).encode()

    def _find_client(self) -> ApiClient:
        client = self._client or self._invocation.client()
        self._client = client
        return client


def _run_mcp(invocation: Invocation) -> int:
    appliance = _ApplianceConnection(invocation)
    appliance.check()
    return int(invocation.service("mcp_stdio")(appliance.post))


mcp = command("mcp", _run_mcp, _MCP_HELP)


# --- `tray`: the tray icon; a higher layer passes in its implementation ---


_TRAY_HELP = """Show a tray icon with a menu.

On macOS it is a menu bar icon. It shows the status of the appliance and starts the appliance if it is not running.
`Quit` in the menu stops both; Ctrl-C and the end of the desktop session stop only the icon. Most menu items need a
session: sign in with `mailbox-appliance login`. If the desktop shows no tray icons, the command reports that and ends.
"""


def _run_tray(invocation: Invocation, opens_console: bool, quits: bool) -> int:
    data_dir, environment = invocation.data_directory(), invocation.terminal.environment
    if invocation.instance is not None:
        raise wrong_usage(
            "The tray icon works only for an appliance on this computer. Use --data-dir.", "option:--instance"
        )
    if quits and opens_console:
        raise wrong_usage("--open and --quit cannot be combined.")
    if quits:
        return int(invocation.service("end_tray")(data_dir, environment=environment))
    show, config_dir = invocation.service("tray"), invocation.config_directory()
    return int(show(data_dir, config_dir, opens_console=opens_console, environment=environment))


tray = command(
    "tray",
    _run_tray,
    _TRAY_HELP,
    [
        flag("--open", "Also open the console once the appliance is ready.", name="opens_console"),
        flag("--quit", "Stop the running tray icon and the appliance.", name="quits"),
    ],
)


# --- `autostart`: whether the tray starts with this user's desktop session ---


_NO_HOME = "This user has no home directory to store the autostart entry in. Set HOME or XDG_CONFIG_HOME."


def _find_autostart(invocation: Invocation) -> Any:
    # A data directory that is not named is not stored: the default one is determined at each start.
    is_named = invocation.data_dir or invocation.variable("DATA_DIR")
    folder = invocation.data_directory() if is_named else None
    found = invocation.service("autostart")(invocation.terminal.environment, folder)
    if found is None:
        raise Failure("not_found", _NO_HOME, INPUT)
    return found


def _use_autostart(action: str | None = None) -> Callable[[Invocation], int]:
    """Return a command that does an action with the entry, `enable` or `disable`, if any, and shows the entry."""

    def act(invocation: Invocation) -> int:
        found = _find_autostart(invocation)
        if action is not None:
            getattr(found, action)()
        return _show_autostart_answer(invocation, found)

    return act


def _show_autostart_answer(invocation: Invocation, found: Any) -> int:
    data = {"enabled": found.is_enabled, "place": found.location, "command": found.command}
    answer: dict[str, Any] = {"data": data}
    if found.missing_program is not None:
        lost = found.missing_program
        answer["warnings"] = [f"The program {lost} no longer exists. Run `autostart enable` to use this one."]
    return output.show_answer(invocation, answer, remark=_autostart_remark)


def _autostart_remark(answer: Any) -> str:
    if answer["data"]["enabled"]:
        return "The tray icon and the appliance start when your desktop session starts.\n"
    return "Autostart is off. `command` is what `autostart enable` would start.\n"


_AUTOSTART_HELP = (
    "For desktop users; needs no administrator. On a computer without a desktop, run the appliance as a service: see"
    " docs/how-to/run-as-a-user-service.md."
)
autostart = group(
    "autostart",
    "Manage starting the tray icon at login: enable, disable, status.\n\nThe tray icon starts the appliance.",
    [
        command(
            "enable",
            _use_autostart("enable"),
            "Start the tray icon and the appliance with your desktop session.\n\n"
            f"{_AUTOSTART_HELP} There is one entry per user, for the data directory in --data-dir or the default.",
        ),
        command(
            "disable",
            _use_autostart("disable"),
            "Stop starting the tray icon at login.\n\nWhat is running now keeps running.",
        ),
        command(
            "status",
            _use_autostart(),
            "Show whether the tray icon starts at login.\n\n"
            "Also shows where the entry is stored and its command. An entry that was switched off in the desktop's"
            " settings counts as off.",
        ),
    ],
)


# --- `completion` ---


def _completion(invocation: Invocation, shell: str) -> int:
    from mailbox_appliance.cli.groups import SCRIPTS

    invocation.terminal.write(SCRIPTS[shell])
    return 0


_SHELL = click.Argument(["shell"], metavar="bash|zsh|fish", type=click.Choice(("bash", "zsh", "fish")))
completion = command(
    "completion",
    _completion,
    """Print a completion script for bash, zsh or fish.

To enable completion in the current shell:

\b
  bash  eval "$(mailbox-appliance completion bash)"
  zsh   eval "$(mailbox-appliance completion zsh)"
  fish  mailbox-appliance completion fish | source

To keep it, save the script as the file named in its first lines. `mailbox-appliance` must be in your PATH.""",
    [_SHELL],
)
