"""The command `api-keys`: the caller's own keys and, with `--member` or `--all-members`, those of others."""

from dataclasses import replace
from typing import Any

import click

from mailbox_appliance.cli.command_table import Call, Given, Row, either, resolve_account, resolve_member
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, given_options, require_options
from mailbox_appliance.client.errors import wrong_usage

PROFILES = ("read-only", "read-write", "full")
MAIL = ("mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send")
ADMIN = ("admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit")

_KEY = click.Argument(["key_id"])
_ALL_MEMBERS = flag("--all-members", "List keys of all members. Administrators only.")
_ANYBODYS = flag("--all-members", "Revoke a key of any member. Administrators only.")
_RIGHTS: tuple[click.Parameter, ...] = (
    click.Option(["--profile"], type=click.Choice(PROFILES), help="Permission profile for mail."),
    option(
        "--supplemental",
        "CAPABILITY",
        f"Additional capability (repeatable): {', '.join(ADMIN)}. A key with admin.members can reset the password"
        " of any member who is not an administrator, and so read all their mail.",
        multiple=True,
        type=click.Choice(ADMIN),
    ),
    option(
        "--capability",
        "CAPABILITY",
        f"Capability, instead of a profile (repeatable): one of the above or {', '.join(MAIL)}.",
        multiple=True,
        type=click.Choice((*MAIL, *ADMIN)),
        name="capabilities",
    ),
    option(
        "--account",
        "ID|EMAIL",
        "Mailbox to limit the key to (repeatable). For mailboxes you do not have access to, give the ID.",
        multiple=True,
        name="accounts",
    ),
    flag("--no-accounts", "Give the key access to no mailbox."),
)
CREATE_OPTIONS: tuple[click.Parameter, ...] = (
    option("--name", "NAME", "Name of the key."),
    *_RIGHTS,
    option("--member", "ID|EMAIL", "Member who will own the key; it gets no mail permissions. Administrators only."),
    INPUT_OPTION,
)
UPDATE_OPTIONS: tuple[click.Parameter, ...] = (
    _KEY,
    *_RIGHTS,
    flag("--no-supplemental", "Remove all additional capabilities."),
    flag("--all-accounts", "Give the key access to every mailbox its owner has access to."),
    INPUT_OPTION,
)


def _new_key_body(invocation: Invocation, given: Given) -> Any:
    require_options(given, "name")
    if not given["profile"] and not given["capabilities"]:
        raise wrong_usage("Missing permissions: add --profile, or --capability (repeatable).", "option:--profile")
    return {"name": given["name"], **_permissions(invocation, given)}


def _owner_field(invocation: Invocation, given: Given) -> dict[str, Any]:
    return {"memberId": resolve_member(invocation.client(), given["member"])}


def _change_body(invocation: Invocation, given: Given) -> Any:
    if not given_options(given, "key_id"):
        raise wrong_usage("Nothing to change: add an option such as --profile read-only.", "option:--profile")
    return _permissions(invocation, given)


def _permissions(invocation: Invocation, given: Given) -> dict[str, Any]:
    _refuse_both(given, "accounts", "no_accounts", "all_accounts")
    _refuse_both(given, "supplemental", "no_supplemental")
    body: dict[str, Any] = {"permissionProfile": given["profile"]} if given["profile"] else {}
    if given["supplemental"] or given.get("no_supplemental"):
        body["supplementalCapabilities"] = list(given["supplemental"])
    if given["capabilities"]:
        body["customCapabilities"] = list(given["capabilities"])
    if given.get("all_accounts"):
        body["accounts"] = None
    elif given["accounts"] or given["no_accounts"]:
        # An ID is sent as it is, so a key that may not list mailboxes needs no client here.
        body["accounts"] = [
            resolve_account(invocation.client(), one) if "@" in one else one for one in given["accounts"]
        ]
    return body


def _refuse_both(given: Given, *names: str) -> None:
    """Raise Failure if more than one of the named options is given, since they contradict each other."""
    options = {"accounts": "--account"}
    both = [options.get(name, f"--{name.replace('_', '-')}") for name in names if given.get(name)]
    if len(both) > 1:
        raise wrong_usage(f"{both[0]} and {both[1]} cannot be combined.", f"option:{both[1]}")


_COLUMNS = ("id", "name", "permissionProfile", "capabilities", "accountIds", "lastUsedAt")
LIST = Row("list", Call("GET", "/me/api-keys"), "List your API keys.", (_ALL_MEMBERS,), _COLUMNS)
LIST_ALL = Row("list", Call("GET", "/admin/api-keys"), "", columns=("id", "memberId", *_COLUMNS[1:]))
CREATE = Row(
    "create",
    Call("POST", "/me/api-keys"),
    "Create an API key.\n\n"
    "Its token is shown only once. A key can never do more than its owner can at that time, and has access only to"
    " mailboxes its owner has access to.",
    CREATE_OPTIONS,
    remark=lambda _: "This token is shown only once. Save it now.\n",
    body=_new_key_body,
)
CREATE_OF = replace(CREATE, call=Call("POST", "/admin/api-keys"), more_body=_owner_field)
UPDATE = Row(
    "update",
    Call("PATCH", "/admin/api-keys/{keyId}"),
    "Change the permissions of an API key.\n\nOptions that are not given change nothing. Administrators only.",
    UPDATE_OPTIONS,
    body=_change_body,
)
REVOKE = Row(
    "revoke",
    Call("DELETE", "/me/api-keys/{keyId}"),
    "Revoke an API key.\n\nThe key stops working at once. With --all-members it can be any member's key.",
    (_KEY, _ANYBODYS),
)
REVOKE_ANY = Row("revoke", Call("DELETE", "/admin/api-keys/{keyId}"), "")


api_keys = group(
    "api-keys",
    "Manage API keys for programs and AI agents.",
    [
        either(LIST, LIST_ALL, "all_members"),
        either(CREATE, CREATE_OF, "member"),
        UPDATE.command(),
        either(REVOKE, REVOKE_ANY, "all_members"),
    ],
)
