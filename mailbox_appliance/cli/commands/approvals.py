"""The commands `approvals` and `policy`: messages that wait for a person, and the rules that let them wait."""

from dataclasses import replace
from typing import Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import ALL_PAGES, Call, Given, Row, either, execute, fill_path, resolve_account
from mailbox_appliance.cli.commands.emails import SAVE_OPTIONS
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, read_whole_body
from mailbox_appliance.client.errors import INTERRUPTED, Failure, wrong_usage

# --- Approvals ---


_ID = click.Argument(["approval_id"])
_SHOWN = ("id", "status", "accountId", "requestedBy", "reasons", "from", "to", "cc", "bcc", "subject", "attachments")
_TIMES = ("sendAt", "createdAt", "expiresAt", "decidedAt", "decidedBy", "digest")


def _render_approval(value: Any) -> str:
    """Return an approval as text for reading: its facts, then the text of the message."""
    facts = output.render_record({name: value[name] for name in (*_SHOWN, *_TIMES) if value.get(name)})
    text = value.get("bodyText")
    return facts if text is None else f"{facts}\n{output.plain_text(text).rstrip()}\n"


_STATUSES = ("pending", "approved", "rejected", "expired")
LIST = Row(
    "list",
    Call("GET", "/approvals"),
    "List approvals, newest first.\n\nYou see those of your mailboxes, and those that your own API keys asked for.",
    (
        click.Option(["--status"], type=click.Choice(_STATUSES), help="Only approvals with this status."),
        flag("--mine", "List what this session or API key asked for; API keys can list only these."),
        *ALL_PAGES,
    ),
    ("id", "status", "createdAt", "requestedBy.name", "to", "subject"),
)
LIST_MINE = Row(
    "list", Call("GET", "/me/approvals"), "", columns=("id", "status", "createdAt", "expiresAt", "to", "reasons")
)
SHOW = Row(
    "show",
    Call("GET", "/approvals/{approvalId}"),
    "Show a message that waits, as its recipients will see it.\n\n`digest` names exactly the bytes that are sent;"
    " --raw saves them.",
    (
        _ID,
        flag("--raw", "Save the message as it is sent (with --output and --force)."),
        option("--attachment", "ID", "Save an attachment (with --output and --force)."),
        *SAVE_OPTIONS,
    ),
    view=_render_approval,
)
APPROVE = Row(
    "approve",
    Call("POST", "/approvals/{approvalId}/approve"),
    "Approve a message.\n\nShows sender, recipients and text, and asks. With --digest, from `approvals show`, it"
    " approves without asking. Exactly that message is sent.",
    (
        _ID,
        option("--digest", "DIGEST", "Digest of the message that you have read; nothing is asked."),
        flag("--yes", "Approve what is shown without asking."),
    ),
    view=_render_approval,
)
RAW = Call("GET", "/approvals/{approvalId}/raw")
ATTACHMENT = Call("GET", "/approvals/{approvalId}/attachments/{attachmentId}")
REJECT = Row(
    "reject",
    Call("POST", "/approvals/{approvalId}/reject"),
    "Reject a message.\n\nIt is never sent; its delivery ends as failed.",
    (_ID, option("--reason", "TEXT", "Why; the requester sees it.")),
    body=lambda _, given: {} if given["reason"] is None else {"reason": given["reason"]},
    view=_render_approval,
)


def _show(invocation: Invocation, **given: Any) -> int:
    target, force = given.pop("output"), given.pop("force")
    is_raw, attachment_id = given.pop("raw"), given.pop("attachment")
    if is_raw and attachment_id is not None:
        raise wrong_usage("--raw and --attachment cannot be combined.", "option:--raw")
    if not is_raw and attachment_id is None:
        if target is not None or force:
            message = "--output and --force require --raw or --attachment."
            raise wrong_usage(message, "option:--output" if target else "option:--force")
        return execute(SHOW, invocation, given)
    from mailbox_appliance.cli.files import save_download

    values = {"approvalId": given["approval_id"]}
    path = fill_path(RAW.path, values)
    otherwise = f"{given['approval_id']}.eml"
    if attachment_id is not None:
        path, otherwise = fill_path(ATTACHMENT.path, values | {"attachmentId": attachment_id}), attachment_id
    return save_download(invocation, invocation.client(), path, target, force=force, otherwise=otherwise)


def _approve(invocation: Invocation, **given: Any) -> int:
    digest = given["digest"]
    if digest is None:
        digest = _ask_digest(invocation, given["approval_id"], yes=given["yes"])
    elif given["yes"]:
        raise wrong_usage("--digest and --yes cannot be combined.", "option:--yes")
    return execute(
        replace(APPROVE, body=lambda *_: {"digest": digest}), invocation, {"approval_id": given["approval_id"]}
    )


def _ask_digest(invocation: Invocation, approval_id: str, *, yes: bool) -> str:
    """Show a message on stderr, ask whether to send it, and return its digest. Raises Failure if it is not wanted."""
    terminal = invocation.terminal
    if not yes and not terminal.stdin.isatty():
        message = "Confirm with --digest DIGEST of the message that you have read, or with --yes."
        raise wrong_usage(message, "option:--digest")
    answer = SHOW.call.ask(invocation.client(), approvalId=approval_id)
    terminal.write_error(_render_approval(answer["data"]))
    for warning in answer.get("warnings", ()):
        terminal.write_error(f"Warning: {output.one_line(str(warning))}")
    if not yes and not terminal.confirm("Send exactly this message?"):
        raise Failure("interrupted", "Nothing was approved.", INTERRUPTED)
    return str(answer["data"]["digest"])


approvals = group(
    "approvals",
    "Manage messages that wait for a person: list, show, approve, reject.",
    [
        either(LIST, LIST_MINE, "mine"),
        command("show", _show, SHOW.help, SHOW.parameters),
        command("approve", _approve, APPROVE.help, APPROVE.parameters),
        REJECT.command(),
    ],
)


# --- Sending policies ---


_POLICY = "sending-policy"
GET_POLICY, SET_POLICY = (Call(verb, f"/accounts/{{accountId}}/{_POLICY}") for verb in ("GET", "PUT"))
GET_OWN, SET_OWN = (Call(verb, f"/me/api-keys/{{keyId}}/{_POLICY}") for verb in ("GET", "PUT"))
GET_ANY, SET_ANY = (Call(verb, f"/admin/api-keys/{{keyId}}/{_POLICY}") for verb in ("GET", "PUT"))
_NO_LIMIT = "none"
_WHOSE: tuple[click.Parameter, ...] = (
    option("--account", "ID|EMAIL", "Mailbox that the policy is for; the default if you have access to only one."),
    option("--key", "KEY-ID", "API key that the policy is for, instead of a mailbox."),
    flag("--all-members", "With --key: a key of any member, which can only be tightened. Administrators only."),
)
_RULES: tuple[click.Parameter, ...] = (
    click.Option(
        ["--approval"],
        type=click.Choice(("never", "always", "newRecipients")),
        help="Messages that a person must approve first.",
    ),
    option("--allow", "ADDRESS|DOMAIN", "Recipient to allow (repeatable); no other is allowed.", multiple=True),
    flag("--allow-nobody", "Allow no recipient."),
    flag("--allow-everybody", "Allow every recipient that no other rule forbids."),
    option("--block", "ADDRESS|DOMAIN", "Recipient to block (repeatable); replaces the list.", multiple=True),
    flag("--block-nobody", "Remove all blocked recipients."),
    *(
        option(name, "N|none", f"Most {what}; `{_NO_LIMIT}` for no limit.")
        for name, what in (
            ("--max-recipients", "recipients of a message"),
            ("--per-hour", "messages in an hour"),
            ("--per-day", "messages in a day"),
        )
    ),
    click.Option(
        ["--internal-only/--not-internal-only"],
        default=None,
        help="Whether messages may only go to domains of the appliance's mailboxes.",
    ),
)
_NUMBERS = {"max_recipients": "maxRecipients", "per_hour": "perHour", "per_day": "perDay"}


def _show_policy(invocation: Invocation, **given: Any) -> int:
    get, _, values = _find_calls(invocation, given)
    return output.show_answer(invocation, get.ask(invocation.client(), **values), view=_render_policy)


def _set_policy(invocation: Invocation, **given: Any) -> int:
    """Change the given fields of the present policy, since PUT replaces it as a whole."""
    body: Any = None
    if given["input_"] is not None:
        body = read_whole_body(invocation.terminal, given, "account", "key", "all_members")
    changes = _changes(given)
    get, put, values = _find_calls(invocation, given)
    client = invocation.client()
    if body is None:
        body = get.ask(client, **values)["data"] | changes
    return output.show_answer(invocation, put.ask(client, body, **values), view=_render_policy)


def _find_calls(invocation: Invocation, given: Given) -> tuple[Call, Call, dict[str, Any]]:
    """Return the calls that read and set the wanted policy, and the values of their path."""
    if given["key"] is not None and given["account"] is not None:
        raise wrong_usage("--account and --key cannot be combined.", "option:--key")
    if given["key"] is not None:
        get, put = (GET_ANY, SET_ANY) if given["all_members"] else (GET_OWN, SET_OWN)
        return get, put, {"keyId": given["key"]}
    if given["all_members"]:
        raise wrong_usage("--all-members requires --key.", "option:--all-members")
    return GET_POLICY, SET_POLICY, {"accountId": resolve_account(invocation.client(), given["account"])}


def _changes(given: Given) -> dict[str, Any]:
    """Return the fields of the policy that the options change."""
    for names in (("allow", "allow_nobody", "allow_everybody"), ("block", "block_nobody")):
        if len(both := [f"--{name.replace('_', '-')}" for name in names if given[name]]) > 1:
            raise wrong_usage(f"{both[0]} and {both[1]} cannot be combined.", f"option:{both[1]}")
    found: dict[str, Any] = {}
    if given["approval"] is not None:
        found["approval"] = given["approval"]
    if given["allow"] or given["allow_nobody"]:
        found["allowedRecipients"] = list(given["allow"])
    if given["allow_everybody"]:
        found["allowedRecipients"] = None
    if given["block"] or given["block_nobody"]:
        found["blockedRecipients"] = list(given["block"])
    for name, field in _NUMBERS.items():
        if given[name] is not None:
            found[field] = _parse_limit(given[name], f"--{name.replace('_', '-')}")
    if given["internal_only"] is not None:
        found["internalOnly"] = given["internal_only"]
    if not found and given["input_"] is None:
        raise wrong_usage("Nothing to change: add an option such as --approval always.", "option:--approval")
    return found


def _parse_limit(text: str, name: str) -> int | None:
    if text == _NO_LIMIT:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        raise wrong_usage(f"{name} must be a whole number or `{_NO_LIMIT}` (got {text!r}).", f"option:{name}")
    return int(text)


def _render_policy(value: Any) -> str:
    """Return a policy as text. In an allow list, null and the empty list have opposite meanings."""
    allowed = value["allowedRecipients"]
    words = {None: "everybody", (): "nobody"}.get(allowed if allowed is None else tuple(allowed))
    limits = {field: _NO_LIMIT if value[field] is None else value[field] for field in _NUMBERS.values()}
    return output.render_record({**value, **limits, "allowedRecipients": allowed if words is None else words})


policy = group(
    "policy",
    "Manage sending policies: show, set.",
    [
        command(
            "show",
            _show_policy,
            "Show the sending policy of a mailbox or an API key.",
            _WHOSE,
        ),
        command(
            "set",
            _set_policy,
            "Change the sending policy of a mailbox or an API key.\n\nOptions that are not given change nothing. Of the"
            " policies of mailbox and key, the stricter one holds in each field.",
            (*_WHOSE, *_RULES, INPUT_OPTION),
        ),
    ],
)
