"""Logging in and out. The token is kept for the next commands; it is not shown on a terminal."""

from typing import Any

import click

from mailbox_appliance.cli import show
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import INTERNAL, Failure, wrong_usage
from mailbox_appliance.client.http import ApiClient, ApiRequest
from mailbox_appliance.client.instances import REMOTE, Instance, instance_at_url
from mailbox_appliance.client.tls import ServerAddress

LOGIN, LOGOUT = Call("POST", "/auth/login"), Call("POST", "/auth/logout")
PASSWORD_VARIABLE = "MAILBOX_APPLIANCE_PASSWORD"  # noqa: S105 - a name
PASSWORD_STDIN = click.Option(
    ["--password-stdin"], is_flag=True, help="Read the password from the first line of stdin."
)
DEVICE_NAME = click.Option(
    ["--device-name"], metavar="NAME", help="What the log-in is called (default: this computer)."
)
FINGERPRINT = click.Option(
    ["--fingerprint"], metavar="sha256:HEX", help="The certificate that `https fingerprint` prints there."
)
OPTIONS: tuple[click.Parameter, ...] = (
    click.Argument(["url"], required=False),
    click.Option(["--email"], metavar="ADDRESS", help="Your address (asked for at a terminal)."),
    PASSWORD_STDIN,
    DEVICE_NAME,
    FINGERPRINT,
)


def device(name: str | None) -> str:
    """The name of the log-in: as given, or this computer's."""
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
    instance = meant(invocation, url, fingerprint)
    # Where it goes is said before it is typed: without a URL it is whatever appliance is in use.
    email = email or invocation.terminal.line(f"Your address for {instance.url}", "address")
    password = invocation.terminal.secret(f"Password for {instance.url}", PASSWORD_VARIABLE, from_stdin=password_stdin)
    return let_in(
        invocation, instance, LOGIN, {"email": email, "password": password, "deviceName": device(device_name)}
    )


def let_in(invocation: Invocation, instance: Instance, call: Call, body: dict[str, str]) -> int:
    """Ask for a log-in, remember where, keep its token for the next commands, and show the answer.

    A log-in whose token this one replaces goes on: a script may have taken that token from the answer and hold both.
    """
    answer = ApiClient(instance.url, fingerprint=instance.fingerprint).call(
        ApiRequest(call.method, call.path, body=body)
    )
    if instance.key.startswith(REMOTE):
        invocation.instances().add(instance.url, instance.fingerprint)
    return keep(invocation, instance.key, answer)


def meant(invocation: Invocation, url: str | None, fingerprint: str | None) -> Instance:
    """The appliance that somebody wants to get in to, here or at a URL.

    Raises Failure where a password would go there unprotected, or the fingerprint makes no sense.
    """
    from mailbox_appliance.client.tls import parse_fingerprint

    pin = parse_fingerprint(fingerprint) if fingerprint is not None else None
    if url is not None:
        instance = instance_at_url(invocation.instances(), url, invocation.data_directory())
    else:
        instance = invocation.resolve_instance()
    if pin and not ServerAddress.parse(instance.url).secure:
        raise wrong_usage("A fingerprint belongs to an https address.", "option:--fingerprint")
    instance.require_protected()
    return Instance(instance.name, instance.url, instance.key, pin or instance.fingerprint)


def keep(invocation: Invocation, key: str, answer: Any) -> int:
    """Keep the token of a login for the next commands, and show the answer."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("token"), str):
        raise Failure("unexpected_answer", "The server gave no token.", INTERNAL)
    invocation.tokens().put(key, data["token"])
    if invocation.terminal.stdout.isatty() or invocation.format == "table":
        # What stands in a window stays in its scroll-back. A script that reads the output gets the whole answer.
        answer = {**answer, "data": {name: value for name, value in data.items() if name != "token"}}
    show.show(invocation, answer)
    return 0


def _logout(invocation: Invocation) -> int:
    client, key = invocation.client(), invocation.resolve_instance().key
    from_environment = invocation.variable("TOKEN") is not None
    try:
        answer = client.call(ApiRequest(LOGOUT.method, LOGOUT.path))
    except Failure as failure:
        if failure.code != "unauthenticated" or from_environment:
            raise
        answer = {"data": None}  # The log-in has ended already; what is left is to forget its token.
    if not from_environment:
        invocation.tokens().remove(key)
    show.show(invocation, answer)
    return 0


def _ask_keychain(invocation: Invocation) -> int:
    from mailbox_appliance.system import keyring

    invocation.terminal.write(keyring.answer_question(invocation.terminal.stdin.readline()).decode())
    return 0


login = command("login", _login, "Log in, here or at a URL, and keep the token for the next commands.", OPTIONS)
logout = command("logout", _logout, "End the log-in and forget its token.")
ask_keychain = command("ask-keychain", _ask_keychain, "Ask the keychain what the standard input says.", hidden=True)
