"""Who besides its owner reaches a mailbox: `accounts access`. What is not named stays as it is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import show
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, whole_body
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.members import resolve_member
from mailbox_appliance.cli.rows import (
    ACCOUNT,
    MAILBOX,
    Call,
    Given,
    Row,
    execute,
    filled,
    resolve_account,
    wanted_mailbox,
)
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient

ACCESS = Row(
    "access",
    Call("PUT", "/accounts/{accountId}/access"),
    "Say who besides you reaches a mailbox of yours.\n\n"
    "What is not named stays. Administrators can take access to any mailbox away, and give none.",
    (
        ACCOUNT,
        MAILBOX,
        click.Option(["--share-with-all/--not-with-all"], default=None, help="Every member, whoever joins later, too."),
        click.Option(["--grant"], multiple=True, metavar="ID|EMAIL", help="A member who reaches it (repeatable)."),
        click.Option(["--revoke"], multiple=True, metavar="ID|EMAIL", help="One who no longer does (repeatable)."),
        INPUT_OPTION,
    ),
)
OWN = Call("GET", "/accounts/{accountId}")
EVERY = Call("GET", "/admin/accounts")
WHO = Call("GET", "/me")


def command_of() -> click.Command:
    """The command."""
    return command(ACCESS.name, _act, ACCESS.help, ACCESS.parameters)


def _act(invocation: Invocation, **given: Any) -> int:
    if given["input_"] is not None and given["share_with_all"] is not None:
        raise wrong_usage("--input holds the whole body; it does not go with --share-with-all.", "option:--input")
    if given["share_with_all"] is None and not given_options(given, "account", "mailbox", "share_with_all"):
        raise wrong_usage("Say what is to change, such as --grant ID.", "option:--grant")
    if twice := set(given["grant"]) & set(given["revoke"]):
        raise wrong_usage(f"{min(twice)} is both given access and deprived of it.", "option:--revoke")
    # What is given whole replaces what there is; it is read before anybody is asked.
    body: Any = whole_body(invocation.terminal, given, "account", "mailbox", "share_with_all")
    client = invocation.client()
    account_id = resolve_account(client, wanted_mailbox(given))
    if body is None:
        body = _changed(client, _settings(client, account_id), given)
    return execute(replace(ACCESS, body=lambda *_: body), invocation, {"account": account_id})


def _changed(client: "ApiClient", account: dict[str, Any], given: Given) -> dict[str, Any]:
    """The whole body, since PUT replaces what there is."""
    granted, revoked = _members(client, given["grant"]), _members(client, given["revoke"])
    kept = [one for one in account["grantedMemberIds"] if one not in revoked]
    with_all = given["share_with_all"]
    return {
        "sharedWithAll": account["sharedWithAll"] if with_all is None else with_all,
        "memberIds": kept + [one for one in granted if one not in kept],
    }


def _members(client: "ApiClient", wanted: Sequence[str]) -> list[str]:
    return [resolve_member(client, one) for one in wanted]


def _settings(client: "ApiClient", account_id: str) -> dict[str, Any]:
    """The mailbox as it is, also where one does not reach it but may look after everybody's."""
    from mailbox_appliance.client.http import ApiRequest

    try:
        found: dict[str, Any] = client.call(ApiRequest(OWN.method, filled(OWN.path, {"accountId": account_id})))["data"]
        return found
    except Failure as failure:
        credential = client.call(ApiRequest(WHO.method, WHO.path))["data"]["credential"]
        scope = credential["accountIds"]
        if "admin.accounts" not in credential["capabilities"] or (scope is not None and account_id not in scope):
            raise
        every = show.items_of(client.call(ApiRequest(EVERY.method, EVERY.path))) or []
        for one in every:
            if one["id"] == account_id:
                return dict(one)
        raise failure from None
