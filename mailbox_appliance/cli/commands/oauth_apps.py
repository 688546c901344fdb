"""The OAuth applications by which members connect Google and Outlook mailboxes."""

from typing import Any

import click

from mailbox_appliance.cli.inputs import INPUT_OPTION, needed, whole_body
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call, Given, Row
from mailbox_appliance.cli.tree import group
from mailbox_appliance.client.errors import wrong_usage

SECRET_VARIABLE = "MAILBOX_APPLIANCE_CLIENT_SECRET"  # noqa: S105 - a name
_PROVIDERS = ("google", "outlook")
_METAVAR = "|".join(_PROVIDERS)
PROVIDER = click.Argument(["provider"], metavar=_METAVAR)
SET_OPTIONS: tuple[click.Parameter, ...] = (
    PROVIDER,
    click.Option(["--client-id"], metavar="ID", help="The id that the provider gave the application."),
    click.Option(["--client-secret-stdin"], is_flag=True, help="Read the client secret from the first line of stdin."),
    click.Option(["--keep-client-secret"], is_flag=True, help="Keep the saved one, where the id stays the same."),
    click.Option(["--public-client"], is_flag=True, help="It keeps no secret; a saved one of Google stays."),
    click.Option(["--tenant-id"], metavar="ID", help="Outlook only: the tenant that members belong to."),
    INPUT_OPTION,
)


def application(invocation: Invocation, given: Given) -> Any:
    """The body of PUT /admin/oauth-apps/{provider}."""
    if (whole := whole_body(invocation.terminal, given, "provider")) is not None:
        return whole
    needed(given, "client_id")
    chosen = [name for name in ("client_secret_stdin", "keep_client_secret", "public_client") if given[name]]
    if len(chosen) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise wrong_usage(f"{options} do not go together.", f"option:--{chosen[0].replace('_', '-')}")
    body: dict[str, Any] = {"clientId": given["client_id"]}
    if given["tenant_id"] is not None:
        body["tenantId"] = given["tenant_id"]
    if given["public_client"]:
        return {**body, "publicClient": True}
    if given["keep_client_secret"]:
        return body
    if given["provider"] not in _PROVIDERS:  # before anybody types a secret for nothing
        raise wrong_usage(f"There is no provider {given['provider']}; it is google or outlook.", f"argument:{_METAVAR}")
    secret = invocation.terminal.secret(
        "Client secret", SECRET_VARIABLE, from_stdin=given["client_secret_stdin"], what="client secret"
    )
    return {**body, "clientSecret": secret}


ROWS = (
    Row("show", Call("GET", "/admin/oauth-apps"), "Show the applications in force, without their secrets."),
    Row(
        "set",
        Call("PUT", "/admin/oauth-apps/{provider}"),
        "Save the application of a provider in place of the one before.\n\n"
        f"Its secret is asked for, or read from stdin or {SECRET_VARIABLE}.",
        SET_OPTIONS,
        body=application,
    ),
    Row("remove", Call("DELETE", "/admin/oauth-apps/{provider}"), "Forget the application of a provider.", (PROVIDER,)),
)
oauth_apps = group("oauth-apps", "OAuth applications for Google and Outlook.", [row.command() for row in ROWS])
