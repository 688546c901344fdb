"""Commands that start and end sessions: `login`, `logout`, `instances`, `setup`, `enroll`, `reset-password`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import Call
from mailbox_appliance.cli.context import ENVIRONMENT_PREFIX, PASSWORD_VARIABLE, Invocation
from mailbox_appliance.cli.groups import command, complete_instances, flag, group, option
from mailbox_appliance.client import local
from mailbox_appliance.client.address import ServerAddress
from mailbox_appliance.client.errors import INPUT, INTERNAL, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient
from mailbox_appliance.client.instances import LOCAL, REMOTE, Instance, find_local, instance_at_url, local_key

LOGIN, LOGOUT = Call("POST", "/auth/login"), Call("POST", "/auth/logout")
PASSWORD_STDIN = flag("--password-stdin", "Read the password from the first line of stdin.")
DEVICE_NAME = option("--device-name", "NAME", "Name of the session (default: name of this computer).")
FINGERPRINT = option(
    "--fingerprint", "sha256:HEX", "Fingerprint of the server's certificate, from `https fingerprint`."
)
LOGIN_OPTIONS: tuple[click.Parameter, ...] = (
    click.Argument(["url"], required=False),
    option("--email", "ADDRESS", "Your email address (default: prompt)."),
    PASSWORD_STDIN,
    DEVICE_NAME,
    FINGERPRINT,
)


def device_name_or_host(name: str | None) -> str:
    """Return the name of a new session: `name` if given, else this computer's host name."""
    import socket

    return name if name is not None else socket.gethostname()[:200] or "computer"


def _login(
    invocation: Invocation,
    url: str | None,
    email: str | None,
    password_stdin: bool,
    device_name: str | None,
    fingerprint: str | None,
) -> int:
    if email is None and (password_stdin or not invocation.terminal.stdin.isatty()):
        raise wrong_usage("Missing option '--email'.", "option:--email")
    instance = find_instance(invocation, url, fingerprint)
    # Show the target before the password is typed: without a URL it is the appliance in use.
    email = email or invocation.terminal.line(f"Your email address for {instance.url}", "address")
    password = invocation.terminal.secret(f"Password for {instance.url}", PASSWORD_VARIABLE, from_stdin=password_stdin)
    body = {"email": email, "password": password, "deviceName": device_name_or_host(device_name)}
    return log_in(invocation, instance, LOGIN, body)


def log_in(invocation: Invocation, instance: Instance, call: Call, body: dict[str, str]) -> int:
    """Sign in to an appliance, store the token for later commands, print the response, and return the exit code.

    A remote appliance becomes the one that later commands use. An earlier session on it stays valid, since a script may
    have read its token.
    """
    answer = call.ask(ApiClient(instance.url, fingerprint=instance.fingerprint), body)
    if instance.key.startswith(REMOTE):
        invocation.instances().add(instance.url, instance.fingerprint)
    return keep_token(invocation, instance.key, answer)


def find_instance(invocation: Invocation, url: str | None, fingerprint: str | None) -> Instance:
    """Return the appliance to sign in to: the one at `url`, or without it the one that commands use now.

    Raises Failure if the password would be sent unencrypted to another computer, or the fingerprint is invalid.
    """
    from mailbox_appliance.client.tls import parse_fingerprint

    pin = parse_fingerprint(fingerprint) if fingerprint is not None else None
    if url is not None:
        instance = instance_at_url(invocation.instances(), url, invocation.data_directory())
    else:
        instance = invocation.resolve_instance()
    if pin and not ServerAddress.parse(instance.url).secure:
        raise wrong_usage("--fingerprint requires an https URL.", "option:--fingerprint")
    instance.require_protected()
    return Instance(instance.name, instance.url, instance.key, pin or instance.fingerprint)


def keep_token(invocation: Invocation, key: str, answer: Any) -> int:
    """Store the token of a new session for later commands, print the response, and return the exit code.

    `key`: the key of the appliance in the token store.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("token"), str):
        raise Failure("unexpected_answer", "The server did not return a token.", INTERNAL)
    invocation.tokens().put(key, data["token"])
    if invocation.terminal.stdout.isatty() or invocation.format == "table":
        # A terminal keeps its output in the scrollback, so the token is left out. A script gets the whole response.
        answer = {**answer, "data": {name: value for name, value in data.items() if name != "token"}}
    return output.show_answer(invocation, answer)


def _logout(invocation: Invocation) -> int:
    client, key = invocation.client(), invocation.resolve_instance().key
    from_environment = invocation.variable("TOKEN") is not None
    try:
        answer = LOGOUT.ask(client)
    except Failure as failure:
        if failure.code != "unauthenticated" or from_environment:
            raise
        answer = {"data": None}  # The session has already ended; only its stored token is left to delete.
    if not from_environment:
        invocation.tokens().remove(key)
    return output.show_answer(invocation, answer)


def _ask_keychain(invocation: Invocation) -> int:
    from mailbox_appliance.system import keyring

    invocation.terminal.write(keyring.answer_question(invocation.terminal.stdin.readline()).decode())
    return 0


login = command(
    "login",
    _login,
    "Sign in and store the token for later commands.\n\nWithout URL you sign in to the appliance in use, initially the"
    " one on this computer.",
    LOGIN_OPTIONS,
)
logout = command("logout", _logout, "Sign out and delete the stored token.")
ask_keychain = command("ask-keychain", _ask_keychain, "Answer a keychain request from the standard input.", hidden=True)


# --- Instances: the appliances that this user signed in to ---


_INSTANCE_COLUMNS = ("name", "url", "current", "loggedIn", "fingerprint")


def _instance_rows(invocation: Invocation) -> list[dict[str, Any]]:
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


def _use_instance(invocation: Invocation, name: str) -> int:
    invocation.instances().use(name)
    return output.show_answer(invocation, {"data": next(row for row in _instance_rows(invocation) if row["current"])})


def _remove_instance(invocation: Invocation, name: str) -> int:
    removed = invocation.instances().remove(name)
    invocation.tokens().remove(removed.key)
    return output.show_answer(invocation, {"data": {"id": name, "deleted": True}})


_NAME = click.Argument(["name"], shell_complete=complete_instances)
instances = group(
    "instances",
    "Manage the appliances you signed in to: list, use, remove.\n\n`local` is the appliance of the data directory.",
    [
        command(
            "list",
            lambda invocation: output.show_answer(invocation, {"data": _instance_rows(invocation)}, _INSTANCE_COLUMNS),
            "List the appliances you signed in to and the one in use.",
        ),
        command("use", _use_instance, "Use this appliance in later commands.", [_NAME]),
        command(
            "remove",
            _remove_instance,
            "Remove an appliance from the list and delete its token.\n\nThe session itself stays valid: sign out first"
            " to end it.",
            [_NAME],
        ),
    ],
)


# --- `setup`: the first administrator, through the running appliance, or on the files if none is running ---


POST_SETUP = Call("POST", "/setup")
#: Seconds between two polls, and the longest wait for an appliance that is starting.
_EVERY, _PATIENCE = 0.1, 15.0
SETUP_OPTIONS: tuple[click.Parameter, ...] = (
    option("--name", "NAME", "Name of the administrator.", required=True),
    option("--email", "ADDRESS", "Email address to sign in with.", required=True),
    PASSWORD_STDIN,
    DEVICE_NAME,
)


def _setup(invocation: Invocation, name: str, email: str, password_stdin: bool, device_name: str | None) -> int:
    password = invocation.terminal.secret("New password", PASSWORD_VARIABLE, from_stdin=password_stdin, twice=True)
    folder, device_name = invocation.data_directory(), device_name_or_host(device_name)
    body = {"name": name, "email": email, "password": password, "deviceName": device_name}
    running = local.find_running(folder)
    if running is None:
        set_up = invocation.service("setup_on_files")
        try:
            answer = set_up(folder, name=name, email=email, password=password, device_name=device_name)
            return keep_token(invocation, local_key(folder), answer)
        except Exception as problem:
            if getattr(problem, "code", None) != "store_in_use":
                raise
            running = _wait_for_appliance(invocation, folder, problem)
    code = local.find_setup_code(folder)
    if code is None:
        message = f"The appliance is already set up: {folder} holds no setup code. Run `mailbox-appliance login`."
        raise Failure("conflict", message, INPUT)
    answer = POST_SETUP.ask(ApiClient(running.url), {"setupCode": code, **body})
    return keep_token(invocation, local_key(folder), answer)


def _wait_for_appliance(invocation: Invocation, folder: Path, problem: Exception) -> local.RunningAppliance:
    """Wait until the appliance that is starting has published its address. Raises Failure after some seconds."""
    until = time.monotonic() + _PATIENCE
    with invocation.terminal.waiting("The appliance is starting…"):
        while time.monotonic() < until:
            if running := local.find_running(folder):
                return running
            time.sleep(_EVERY)
    message = f"{problem} If an appliance is still starting or does not respond, try again in a moment."
    raise Failure("store_in_use", message, INTERNAL) from problem


setup = command(
    "setup",
    _setup,
    "Create the first administrator and sign in.\n\nWorks once, with a running or a stopped appliance.",
    SETUP_OPTIONS,
)


# --- `enroll` and `reset-password`: accepting a link from an administrator ---
#
# The link is a secret: it comes from a prompt, stdin or the environment, and never from an argument.

ENROLL = Call("POST", "/auth/enroll")
RESET = Call("POST", "/auth/password-reset")
_LINK_VARIABLE = ENVIRONMENT_PREFIX + "LINK"
#: The path of a link before its token, and the token's prefix -> the command that accepts it.
_COMMAND_BY_PREFIX = {"enroll": "enroll", "reset": "reset-password", "mbxi": "enroll", "mbxr": "reset-password"}
ENROLMENT_OPTIONS: tuple[click.Parameter, ...] = (
    click.Argument(["url"], required=False),
    flag("--link-stdin", "Read the link from the first line of stdin."),
    flag("--password-stdin", "Read the new password from the next line of stdin."),
    DEVICE_NAME,
    FINGERPRINT,
)


def _redeem_command(name: str, call: Call) -> Callable[..., int]:
    def act(
        invocation: Invocation,
        url: str | None,
        link_stdin: bool,
        password_stdin: bool,
        device_name: str | None,
        fingerprint: str | None,
    ) -> int:
        if url is not None and "#" in url:
            told = "The link is a secret and must not be an argument. Leave it out; the command prompts for it."
            raise wrong_usage(told)
        named = url or invocation.instance
        instance = find_instance(invocation, url, fingerprint) if named else None  # report errors in these first
        link = invocation.terminal.secret("Link", _LINK_VARIABLE, from_stdin=link_stdin, what="link")
        base, token = split_link(link, name)
        if instance is None:
            instance = find_instance(invocation, base, fingerprint)
        password = invocation.terminal.secret("New password", PASSWORD_VARIABLE, from_stdin=password_stdin, twice=True)
        body = {"token": token, "password": password, "deviceName": device_name_or_host(device_name)}
        return log_in(invocation, instance, call, body)

    return act


def split_link(link: str, name: str) -> tuple[str | None, str]:
    """Return the address and the token of an invitation or reset link; the address is None if only a token was given.

    `name`: the command that reads the link. Raises Failure if the link is for another command.
    """
    address, is_link, fragment = link.strip().partition("#")
    kind, _, token = fragment.partition("=") if is_link else ("", "", address)
    takes_it = _COMMAND_BY_PREFIX.get(kind) or _COMMAND_BY_PREFIX.get(token[:4]) or name
    if takes_it != name:
        raise wrong_usage(f"This link is for `mailbox-appliance {takes_it}`.", "option:--link-stdin")
    from mailbox_appliance.client.address import ServerAddress

    return (ServerAddress.parse(address).url if is_link else None), token


_REDEEM_HELP = (
    "\n\nThe link, or only its token, comes from a prompt, stdin or MAILBOX_APPLIANCE_LINK. The link contains the"
    " appliance's address; URL overrides it. If the password is rejected, the link remains valid."
)
enroll = command(
    "enroll",
    _redeem_command("enroll", ENROLL),
    f"Accept an invitation: set a password and sign in.{_REDEEM_HELP}",
    ENROLMENT_OPTIONS,
)
reset_password = command(
    "reset-password",
    _redeem_command("reset-password", RESET),
    f"Set a new password with a reset link and sign in.\n\nAll your other sessions end.{_REDEEM_HELP}",
    ENROLMENT_OPTIONS,
)
