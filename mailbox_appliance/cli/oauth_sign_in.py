"""Sign-in at Google or Microsoft from a terminal, to connect a mailbox, in one of three ways.

    browser   a browser opens on this computer, and returns to a loopback port of this process
    paste     the user opens an address on any computer, and pastes the address of the last page into the terminal
    code      the user types a code into a page on any device (Microsoft)

A script cannot wait for the user, so it calls `begin_sign_in`, and `finish_sign_in` in a later command.

Nothing secret is printed: the addresses and the code work only for this sign-in and only with the user's session.
"""

from collections.abc import Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal

from mailbox_appliance.cli.command_table import Call
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.client.errors import NETWORK, Failure

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient

BEGIN_SIGN_IN = Call("POST", "/accounts/oauth/{provider}")
FINISH_SIGN_IN = Call("POST", "/accounts/oauth/{provider}/finish")
SignInWay = Literal["browser", "paste", "code"]
PROVIDER_NAMES = {"google": "Google", "outlook": "Microsoft"}
#: The longest wait in seconds. The appliance itself ends a sign-in after 10 minutes.
_LONGEST = 660.0
#: Seconds that testing the servers of a mailbox may take.
_PATIENCE = 180.0
_LEAST_INTERVAL = 1


def sign_in(invocation: Invocation, provider: str, way: SignInWay, body: Mapping[str, Any]) -> Any:
    """Let the user sign in at the provider, and connect the mailbox; return the API's response.

    `way`: browser, paste or code. Without a browser on this computer, paste replaces browser. `body`: the request that
    begins the sign-in. Raises Failure.
    """
    client = invocation.client()
    if way == "code":
        return _by_code(invocation, client, provider, body)
    if way == "browser" and _has_browser(invocation):
        return _by_browser(invocation, client, provider, body)
    begun = BEGIN_SIGN_IN.ask(client, dict(body), provider=provider)["data"]
    return _by_paste(invocation, client, provider, begun)


def begin_sign_in(invocation: Invocation, provider: str, body: Mapping[str, Any]) -> Any:
    """Begin a sign-in at the provider.

    The response has the address to open and a `state` that identifies the sign-in.
    """
    return BEGIN_SIGN_IN.ask(invocation.client(), dict(body), provider=provider)


def finish_sign_in(invocation: Invocation, provider: str) -> Any:
    """Finish a sign-in that `begin_sign_in` began; return the API's response.

    Reads one line from stdin: the address where the browser ended or, after a sign-in by code, the `state`.
    """
    terminal = invocation.terminal
    if terminal.stdin.isatty():
        terminal.write_error("Address of the page where the sign-in ended, or the state of a sign-in by code:")
    brought = terminal.secret_line("address")
    return _call_finish(
        invocation, invocation.client(), provider, {"redirectUrl" if "?" in brought else "state": brought}
    )


def _call_finish(invocation: Invocation, client: "ApiClient", provider: str, brought: Mapping[str, str]) -> Any:
    with invocation.terminal.waiting("Connecting the mailbox…"):
        return FINISH_SIGN_IN.ask(client, dict(brought), timeout=_PATIENCE, provider=provider)


def _by_browser(invocation: Invocation, client: "ApiClient", provider: str, body: Mapping[str, Any]) -> Any:
    from mailbox_appliance.cli.loopback import LoopbackListener

    with LoopbackListener() as loopback:
        begun = BEGIN_SIGN_IN.ask(client, {**body, "loopbackPort": loopback.port}, provider=provider)["data"]
        url = str(begun["authorizationUrl"])
        if not _redirects_to(url, loopback.port):
            return _by_paste(invocation, client, provider, begun)
        loopback.accept_only(str(begun["state"]))
        is_shown = invocation.service("show_in_browser")(url, invocation.terminal.environment)
        name = PROVIDER_NAMES[provider]
        result = f"The sign-in page of {name} has opened" if is_shown else f"Could not open the sign-in page of {name}"
        invocation.terminal.write_error(
            f"{result} in a browser. If you do not see it, open this address on this computer. To sign in on another "
            f"computer, use --paste.\n\n{url}\n"
        )
        with invocation.terminal.waiting("Waiting for the sign-in in the browser…"):
            address = loopback.wait(_LONGEST)
    if address is None:
        raise Failure("sign_in_expired", "The sign-in expired after 10 minutes. Start again.", NETWORK)
    return _call_finish(invocation, client, provider, {"redirectUrl": address})


def _redirects_to(url: str, port: int) -> bool:
    """Whether the sign-in ends at this loopback port, rather than at the public URL of the appliance."""
    from urllib.parse import parse_qs, urlsplit

    found = parse_qs(urlsplit(url).query).get("redirect_uri", [""])[0]
    try:
        return urlsplit(found).hostname in ("127.0.0.1", "localhost") and urlsplit(found).port == port
    except ValueError:
        return False


def _by_paste(invocation: Invocation, client: "ApiClient", provider: str, begun: Mapping[str, Any]) -> Any:
    terminal = invocation.terminal
    terminal.write_error(
        f"Open this page of {PROVIDER_NAMES[provider]} in a browser and sign in:\n\n{begun['authorizationUrl']}\n\n"
        "The sign-in ends at a page of the appliance, or at one that does not load. Copy that page's whole address."
    )
    address = terminal.line("Address of the page where the sign-in ended", "address")
    return _call_finish(invocation, client, provider, {"redirectUrl": address})


def _by_code(invocation: Invocation, client: "ApiClient", provider: str, body: Mapping[str, Any]) -> Any:
    begun = BEGIN_SIGN_IN.ask(client, {**body, "device": True}, provider=provider)["data"]
    terminal = invocation.terminal
    terminal.write_error(f"Open {begun['verificationUri']} on any device and enter this code: {begun['userCode']}")
    until = monotonic() + _LONGEST
    with terminal.waiting("Waiting for the sign-in…"):
        while monotonic() < until:
            sleep(max(_LEAST_INTERVAL, int(begun.get("interval", 5))))
            try:
                return FINISH_SIGN_IN.ask(client, {"state": begun["state"]}, timeout=_PATIENCE, provider=provider)
            except Failure as failure:
                if failure.code not in ("conflict", "provider_rate_limited"):
                    raise
    raise Failure("sign_in_expired", "The sign-in expired after 10 minutes. Start again.", NETWORK)


def _has_browser(invocation: Invocation) -> bool:
    """Whether this computer may have a browser: it has a desktop, or the environment names one."""
    import sys

    environment = invocation.terminal.environment
    shown_by = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    always = sys.platform in ("darwin", "win32") and "SSH_CONNECTION" not in environment
    return always or any(environment.get(name) for name in shown_by)
