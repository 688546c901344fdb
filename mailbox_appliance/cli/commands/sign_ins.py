"""The options of `accounts add` and `accounts reconnect` for a provider's own sign-in."""

from typing import Any

import click

from mailbox_appliance.cli import show, signing_in
from mailbox_appliance.cli.inputs import given_options
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call, Given, filled, resolve_account, wanted_mailbox
from mailbox_appliance.cli.signing_in import Way
from mailbox_appliance.client.errors import wrong_usage

PROVIDERS = ("google", "outlook")
_WAYS = (
    click.Option(
        ["--paste"], is_flag=True, help="Open no browser: paste the address where a browser ended, on any computer."
    ),
    click.Option(["--device"], is_flag=True, help="Type a code on any device; outlook only."),
)
ADD_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(
        ["--provider"], metavar="|".join(PROVIDERS), help="Sign in at Google or Microsoft: no servers, no password."
    ),
    *_WAYS,
    click.Option(["--begin"], is_flag=True, help="Only begin: print the address to open; for scripts."),
    click.Option(["--finish"], is_flag=True, help="End it: the address of where the browser ended comes from stdin."),
)
AGAIN_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--sign-in"], is_flag=True, help="Google and Microsoft: sign in again, though it works."),
    *_WAYS,
)
SHOW = Call("GET", "/accounts/{accountId}")
#: What is asked besides.
CALLS = (signing_in.BEGIN, signing_in.FINISH)
_OF_A_SIGN_IN = ("provider", "paste", "device", "begin", "finish", "email", "display_name")
_AGAIN = ("sign_in", "paste", "device", "account", "mailbox")


def refuse_ways(given: Given) -> None:
    """Raises Failure where options of a sign-in are given without a provider."""
    for name in ("paste", "device", "begin", "finish"):
        if given.get(name):
            raise wrong_usage(f"--{name} goes with --provider.", f"option:--{name}")


def connect(invocation: Invocation, given: Given) -> int:
    """Connect a mailbox by the sign-in of `--provider`."""
    _refuse_beside(given, "--provider", _OF_A_SIGN_IN)
    provider, body = given["provider"], {"email": given["email"], "displayName": given["display_name"]}
    wanted = {name: value for name, value in body.items() if value is not None}
    if given["finish"]:
        _refuse_beside(given, "--finish", ("provider", "finish"))
        answer = signing_in.finish(invocation, provider)
    elif given["begin"]:
        _refuse_beside(given, "--begin", ("provider", "begin", "device", "email", "display_name"))
        answer = signing_in.begin(invocation, provider, {**wanted, "device": True} if given["device"] else wanted)
    else:
        answer = signing_in.sign_in(invocation, provider, _way(given, provider), wanted)
    show.show(invocation, answer)
    return 0


def to_sign_in_again(invocation: Invocation, given: Given) -> Any:
    """The mailbox that is to be signed in to at its provider; None where its servers are to be tried."""
    is_asked = any(given[name] for name in ("sign_in", "paste", "device"))
    if not is_asked and given_options(given, *_AGAIN):
        return None
    _refuse_beside(given, "--sign-in", _AGAIN)
    from mailbox_appliance.client.http import ApiRequest

    client = invocation.client()
    account_id = resolve_account(client, wanted_mailbox(given))
    account = client.call(ApiRequest(SHOW.method, filled(SHOW.path, {"accountId": account_id})))["data"]
    given["account"], given["mailbox"] = account_id, None
    if account["provider"] in PROVIDERS and (is_asked or account["status"] == "reauth_required"):
        return account
    if is_asked:
        raise wrong_usage("This mailbox is logged in to with a password: use --new-password.", "option:--sign-in")
    return None


def again(invocation: Invocation, given: Given, account: Any) -> int:
    """Have a mailbox regain its access by its provider's sign-in."""
    way = _way(given, account["provider"])
    answer = signing_in.sign_in(invocation, account["provider"], way, {"accountId": account["id"]})
    show.show(invocation, answer)
    return 0


def _way(given: Given, provider: str) -> Way:
    if provider not in PROVIDERS:
        raise wrong_usage(f"There is no provider {provider}; it is google or outlook.", "option:--provider")
    if given["paste"] and given["device"]:
        raise wrong_usage("--paste and --device do not go together.", "option:--device")
    if given["device"] and provider != "outlook":
        raise wrong_usage("Google gives no access to mail by a code; use --paste.", "option:--device")
    return "paste" if given["paste"] else "code" if given["device"] else "browser"


def _refuse_beside(given: Given, option: str, fitting: tuple[str, ...]) -> None:
    if others := given_options(given, *fitting):
        raise wrong_usage(f"{option} and {others[0]} do not go together.", f"option:{others[0]}")
