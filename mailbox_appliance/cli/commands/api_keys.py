"""API keys: one's own, and with `--member` or `--all-members` those of others."""

from typing import Any

import click

from mailbox_appliance.cli.command_table import Call, Given, Row, execute, resolve_account
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.cli.inputs import (
    INPUT_OPTION,
    given_options,
    read_object,
    read_whole_body,
    require_options,
    resolve_member,
)
from mailbox_appliance.client.errors import wrong_usage

PROFILES = ("read-only", "read-write", "full")
MAIL = ("mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send")
ADMIN = ("admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit")

_KEY = click.Argument(["key_id"])
_ALL_MEMBERS = click.Option(["--all-members"], is_flag=True, help="Of every member; for administrators.")
_ANYBODYS = click.Option(
    ["--all-members"], is_flag=True, help="Also a key of another member, whosever it is; for administrators."
)
_RIGHTS: tuple[click.Parameter, ...] = (
    click.Option(["--profile"], type=click.Choice(PROFILES), help="What it may do with mail."),
    click.Option(
        ["--supplemental"],
        multiple=True,
        type=click.Choice(ADMIN),
        metavar="CAPABILITY",
        help=f"What it may do besides (repeatable): {', '.join(ADMIN)}. With admin.members it can reset the password of"
        " any member who is not an administrator, and so read all their mail.",
    ),
    click.Option(
        ["--capability", "capabilities"],
        multiple=True,
        type=click.Choice((*MAIL, *ADMIN)),
        metavar="CAPABILITY",
        help=f"Exactly this instead of a profile (repeatable): also {', '.join(MAIL)}.",
    ),
    click.Option(
        ["--account", "accounts"],
        multiple=True,
        metavar="ID|EMAIL",
        help="Limit it to this mailbox (repeatable). Of mailboxes that you do not reach give the id.",
    ),
    click.Option(["--no-accounts"], is_flag=True, help="It reaches no mailbox."),
)
CREATE_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--name"], metavar="NAME", help="What the key is called."),
    *_RIGHTS,
    click.Option(
        ["--member"], metavar="ID|EMAIL", help="Whose key it is; for administrators. Others' keys get no mail rights."
    ),
    INPUT_OPTION,
)
UPDATE_OPTIONS: tuple[click.Parameter, ...] = (
    _KEY,
    *_RIGHTS,
    click.Option(["--no-supplemental"], is_flag=True, help="It may do nothing besides its profile."),
    click.Option(["--all-accounts"], is_flag=True, help="It reaches every mailbox that its owner reaches."),
    INPUT_OPTION,
)


def _shown_once(_answer: Any) -> str:
    return "This token is shown only once. Keep it now: nobody can show it again.\n"


def _new_key_body(invocation: Invocation, given: Given) -> Any:
    """The body of POST .../api-keys."""
    if (whole := read_whole_body(invocation.terminal, given, "member")) is not None:
        return whole
    require_options(given, "name")
    if not given["profile"] and not given["capabilities"]:
        raise wrong_usage("Say what it may do: --profile, or --capability once or more.", "option:--profile")
    return {"name": given["name"], **_permissions(invocation, given)}


def _new_member_key_body(invocation: Invocation, given: Given) -> Any:
    """The same for a member."""
    body = _new_key_body(invocation, given)
    if isinstance(body, bytes):
        body = read_object(body, given["input_"])
    return {**body, "memberId": resolve_member(invocation.client(), given["member"])}


def _change_body(invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /admin/api-keys/{keyId}: what was given."""
    if (whole := read_whole_body(invocation.terminal, given, "key_id")) is not None:
        return whole
    if not given_options(given, "key_id"):
        raise wrong_usage("Say what is to change, such as --profile read-only.", "option:--profile")
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
        body["accounts"] = [_resolve_accounts(invocation, one) for one in given["accounts"]]
    return body


def _refuse_both(given: Given, *names: str) -> None:
    """Raises Failure for two options that contradict each other."""
    options = {"accounts": "--account"}
    both = [options.get(name, f"--{name.replace('_', '-')}") for name in names if given.get(name)]
    if len(both) > 1:
        raise wrong_usage(f"{both[0]} and {both[1]} do not go together.", f"option:{both[1]}")


def _resolve_accounts(invocation: Invocation, wanted: str) -> str:
    return resolve_account(invocation.client(), wanted) if "@" in wanted else wanted


_COLUMNS = ("id", "name", "permissionProfile", "capabilities", "accountIds", "lastUsedAt")
LIST = Row("list", Call("GET", "/me/api-keys"), "List your API keys.", (_ALL_MEMBERS,), _COLUMNS)
LIST_ALL = Row("list", Call("GET", "/admin/api-keys"), "", columns=("id", "memberId", *_COLUMNS[1:]))
CREATE = Row(
    "create",
    Call("POST", "/me/api-keys"),
    "Make an API key. Its token is shown only once.\n\n"
    "It may never do more than its owner may at that time, and reaches no mailbox that its owner does not reach.",
    CREATE_OPTIONS,
    remark=_shown_once,
    body=_new_key_body,
)
CREATE_OF = Row("create", Call("POST", "/admin/api-keys"), "", remark=_shown_once, body=_new_member_key_body)
UPDATE = Row(
    "update",
    Call("PATCH", "/admin/api-keys/{keyId}"),
    "Change what an API key may do; for administrators.\n\nWhat is not given stays.",
    UPDATE_OPTIONS,
    body=_change_body,
)
REVOKE = Row(
    "revoke",
    Call("DELETE", "/me/api-keys/{keyId}"),
    "Revoke an API key of yours: nothing can be asked with it any more.\n\n"
    "With --all-members it may be a key of anybody's.",
    (_KEY, _ANYBODYS),
)
REVOKE_ANY = Row("revoke", Call("DELETE", "/admin/api-keys/{keyId}"), "")
API_KEY_ROWS = (LIST, LIST_ALL, CREATE, CREATE_OF, UPDATE, REVOKE, REVOKE_ANY)


def _own_or_all(own: Row, others: Row) -> click.Command:
    """The command of a row that makes another call if it concerns other members."""

    def act(invocation: Invocation, **given: Any) -> int:
        is_about_others = given.pop("all_members", False) or given.get("member") is not None
        return execute(others if is_about_others else own, invocation, given)

    return command(own.name, act, own.help, own.parameters)


api_keys = group(
    "api-keys",
    "API keys.",
    [
        _own_or_all(LIST, LIST_ALL),
        _own_or_all(CREATE, CREATE_OF),
        UPDATE.command(),
        _own_or_all(REVOKE, REVOKE_ANY),
    ],
)
