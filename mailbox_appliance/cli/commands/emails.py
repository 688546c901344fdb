"""The commands `emails`, `threads`, `attachments` and `uploads`: list, read and change messages, and upload files."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.command_table import (
    ACCOUNT,
    ALL_PAGES,
    PAGES,
    Call,
    Given,
    Row,
    execute,
    fill_path,
    resolve_account,
    wanted_mailbox,
)
from mailbox_appliance.cli.commands import sending
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import MIB, ListedMessage, read_input, read_messages
from mailbox_appliance.client.errors import UNCERTAIN, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient

# --- Actions on many messages: commands of `emails` ---


#: The most messages in one request.
MAX_PER_REQUEST = 100
#: The fields of a response that hold the result of each message.
_OUTCOMES = ("succeededIds", "failed", "uncertainIds")
MESSAGES = click.Argument(["message_ids"], metavar="MESSAGE-ID...", nargs=-1)
INPUT = option(
    "--input",
    "FILE|-",
    "File or stdin with the messages: one ID per line, or the output of `emails list` or `search`.",
    name="input_",
)
_ACTIONS_HELP = (
    "\n\nThe output has a result for each message. Exit code 3 means that some messages failed or are uncertain. More"
    f" than {MAX_PER_REQUEST} messages are sent as several requests of {MAX_PER_REQUEST}."
)
_Body = Callable[[Given], dict[str, Any]]
_Done = tuple[str, Any]  # the ID of a mailbox, and the response of a request there


def actions_exit(answer: Any) -> int:
    """Return the exit code for an action on messages: 3 if it failed or is uncertain for any message, else 0."""
    parts = (output.look_up(answer, f"data.{name}") for name in ("failed", "uncertainIds"))
    return UNCERTAIN if any(parts) else 0


def _label_body(given: Given) -> dict[str, Any]:
    if bool(given["add"]) == bool(given["remove"]):
        raise wrong_usage("Use either --add or --remove; both can be repeated.", "option:--add")
    action, labels = ("addLabels", given["add"]) if given["add"] else ("removeLabels", given["remove"])
    return {"action": action, "labels": list(labels)}


def _simple_body(action: str) -> _Body:
    return lambda _given: {"action": action}


ACTIONS = Call("POST", "/accounts/{accountId}/messages/actions")
_ACTION_TABLE = (
    ("read", "Mark messages as read.", _simple_body("markRead"), ()),
    ("unread", "Mark messages as unread.", _simple_body("markUnread"), ()),
    ("star", "Star messages.", _simple_body("star"), ()),
    ("unstar", "Remove the star from messages.", _simple_body("unstar"), ()),
    ("archive", "Move messages to the archive.", _simple_body("archive"), ()),
    ("trash", "Move messages to the trash.", _simple_body("trash"), ()),
    ("untrash", "Restore messages from the trash.", _simple_body("untrash"), ()),
    ("delete", "Delete messages permanently.", _simple_body("delete"), ()),
    (
        "move",
        "Move messages to another folder.",
        lambda given: {"action": "move", "folder": given["folder"]},
        (option("--folder", "ID|ROLE|NAME", "Target folder.", required=True),),
    ),
    (
        "label",
        "Add labels to messages or remove labels.",
        _label_body,
        (
            option("--add", "LABEL", "Label to add (repeatable).", multiple=True),
            option("--remove", "LABEL", "Label to remove (repeatable).", multiple=True),
        ),
    ),
)


def _action_command(name: str, text: str, body: _Body, options: tuple[click.Parameter, ...]) -> click.Command:
    def act(invocation: Invocation, message_ids: tuple[str, ...], input_: str | None, **given: Any) -> int:
        asked = body(given)  # errors in the options are reported before anything is read
        return _perform_action(invocation, asked, read_messages(invocation.terminal, message_ids, input_), given)

    return command(name, act, text + _ACTIONS_HELP, (MESSAGES, *options, INPUT, ACCOUNT))


def _perform_action(invocation: Invocation, body: dict[str, Any], messages: list[ListedMessage], given: Given) -> int:
    if not messages:
        return output.show_answer(invocation, {"data": {"action": body["action"], **{name: [] for name in _OUTCOMES}}})
    client = invocation.client()
    done: list[_Done] = []
    parts = [
        (account_id, ids[begin : begin + MAX_PER_REQUEST])
        for account_id, ids in _by_mailbox(client, messages, wanted_mailbox(given)).items()
        for begin in range(0, len(ids), MAX_PER_REQUEST)
    ]
    try:
        for count, (account_id, ids) in enumerate(parts):
            so_far = f"{count * MAX_PER_REQUEST} of {len(messages)} so far…"
            with invocation.terminal.waiting(so_far if len(parts) > 1 else "Contacting the mail server…"):
                answer = ACTIONS.ask(client, body | {"messageIds": ids}, timeout=180.0, accountId=account_id)
            done.append((account_id, answer))
    finally:
        # If a later request fails, the results of the earlier ones are still shown.
        if done:
            output.show_answer(invocation, merge_answers(done), remark=lambda _: undo_remark(done))
    return actions_exit(merge_answers(done))


def _by_mailbox(client: "ApiClient", messages: list[ListedMessage], wanted: str | None) -> dict[str, list[str]]:
    """Return the message IDs by mailbox: `wanted`, else that of each entry, else the only one."""
    silent = any(one.account_id is None for one in messages)
    named = resolve_account(client, wanted) if silent or wanted is not None else None
    found: dict[str, list[str]] = {}
    for one in messages:
        if wanted is not None and one.account_id not in (None, named):
            text = f"{one.message_id} is in mailbox {one.account_id}, not in {wanted}. Nothing was changed."
            raise wrong_usage(f"{text} Omit --account to use each message's own mailbox.", "option:--account")
        found.setdefault(str(one.account_id or named), []).append(one.message_id)
    return found


def merge_answers(done: list[_Done]) -> Any:
    """Merge the responses of several requests into one, with every message's result and each different warning once.

    `undo` is a list then, of tokens with their mailboxes.
    """
    if len(done) == 1:
        return done[0][1]
    answers = [answer for _, answer in done]
    parts = [answer["data"] for answer in answers]
    told: dict[str, Any] = {"data": {name: _concatenate(name, parts) for name in parts[0]}}
    if offers := [answer["undo"] | {"accountId": account_id} for account_id, answer in done if "undo" in answer]:
        told["undo"] = offers
    warnings = [one for answer in answers for one in answer.get("warnings", ())]
    return told | ({"warnings": list(dict.fromkeys(warnings))} if warnings else {})


def _concatenate(name: str, parts: list[Any]) -> Any:
    first = parts[0][name]
    return [one for part in parts for one in part.get(name, ())] if isinstance(first, list) else first


def undo_remark(done: list[_Done]) -> str:
    """Return the commands that undo an action, one line for each request that can be undone."""
    undo = "Undo: mailbox-appliance emails undo"
    tokens = [(answer["undo"]["token"], account_id) for account_id, answer in done if "undo" in answer]
    return "".join(f"{undo} {token} --account {account_id}\n" for token, account_id in tokens)


def _undo(invocation: Invocation, token: str, account: str | None) -> int:
    client = invocation.client()
    account_id = resolve_account(client, account)
    with invocation.terminal.waiting("Contacting the mail server…"):
        answer = UNDO.ask(client, {"token": token}, timeout=180.0, accountId=account_id)
    output.show_answer(invocation, answer)
    return actions_exit(answer)


UNDO = Call("POST", "/accounts/{accountId}/messages/actions/undo")
_UNDO_HELP = """Undo an action on messages.

Restores the flags, labels and folder of each message that was not changed since. The command of the action shows the
token, which is valid once, for 24 hours. A permanent deletion cannot be undone.

The output has a result for each message; `changed` means that the message was changed since. Exit code 3 means that
some messages failed or are uncertain."""
ACTION_COMMANDS = (
    *(_action_command(*one) for one in _ACTION_TABLE),
    command("undo", _undo, _UNDO_HELP, (click.Argument(["token"]), ACCOUNT)),
)


# --- Lists of messages and search: commands of `emails` ---


FILTERS: tuple[click.Parameter, ...] = (
    option("--folder", "ID|ROLE|NAME", "Folder to list."),
    option("--text", "TEXT", "Words that must all occur; results show where they match."),
    click.Option(["--unread/--read"], default=None, help="Only unread messages, or only read ones."),
    click.Option(["--starred/--unstarred"], default=None, help="Only starred messages, or only others."),
    click.Option(
        ["--has-attachment/--no-attachment"], default=None, help="Only messages with attachments, or only without."
    ),
    option("--from", "WORDS", "Words in the sender's name or address.", name="from_"),
    option("--to", "WORDS", "Words in a recipient's name or address."),
    option("--subject", "WORDS", "Words in the subject."),
    option("--after", "DATE", "Earliest date, such as 2026-01-31 or 2026-01-31T12:00:00Z (UTC)."),
    option("--before", "DATE", "Date that messages must be earlier than, in the same forms."),
)
_LIST_COLUMNS = ("id", "date", "from", "subject", "folder.name", "flags.read")
_SEARCH_HELP = """Search messages, newest first.

Searches every mailbox you have access to, or the one in --account.

QUERY: words, '"a phrase"', beg*, from:ada to:bob subject:plan after:2026-01-31 before:2026-03-01 is:unread is:read
is:starred has:attachment label:work. All terms must match.

Spam and trash are searched only if --folder names them."""


def _join_words(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> str | None:
    # An empty word is passed on, so that the API rejects it instead of listing everything.
    return " ".join(value) if value else None


LIST_ROWS = (
    Row(
        "list",
        Call("GET", "/accounts/{accountId}/messages"),
        "List messages, newest first.\n\nMessages in spam and trash are listed only if --folder names them. The order"
        " is when the mail server received them, not the date they bear.",
        (
            ACCOUNT,
            option("--query", "QUERY", "Search query, as in `emails search`.", name="q"),
            *FILTERS,
            *ALL_PAGES,
        ),
        columns=_LIST_COLUMNS,
    ),
    Row(
        "search",
        Call("GET", "/accounts/{accountId}/messages"),
        _SEARCH_HELP,
        (
            click.Argument(["q"], metavar="[QUERY]...", nargs=-1, callback=_join_words),
            option("--account", "ID|EMAIL", "Mailbox to search (default: all)."),
            *FILTERS,
            *ALL_PAGES,
        ),
        columns=_LIST_COLUMNS,
        everywhere=Call("GET", "/messages"),
    ),
)


# --- Conversations ---


def render_conversation(value: Any) -> str:
    """Return a thread as text for reading: its messages, oldest first, separated by a line."""
    messages = output.look_up(value, "messages.items") or []
    return ("-" * 60 + "\n").join(output.render_message(one) for one in messages)


THREAD_ROWS = (
    Row(
        "get",
        Call("GET", "/accounts/{accountId}/threads/{threadId}"),
        "Show a conversation, oldest message first.",
        (click.Argument(["thread_id"]), ACCOUNT, *PAGES),
        view=render_conversation,
    ),
)
threads = group("threads", "Manage conversations: get.", [row.command() for row in THREAD_ROWS])


# --- Attachments ---


DOWNLOAD = Call("GET", "/accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}")
SAVE_OPTIONS: tuple[click.Parameter, ...] = (
    option(
        "--output",
        "FILE|DIR|-",
        "File to save to, or a folder in which it gets its own name; - for stdout (default: current folder).",
    ),
    flag("--force", "Overwrite an existing file."),
)
_DOWNLOAD_HELP = """Save an attachment.

`emails get` shows the IDs. An existing file is not overwritten without --force.
"""


def save_from_call(
    invocation: Invocation, call: Call, account: str | None, ids: dict[str, str], output: str | None, force: bool
) -> int:
    """Make a call and save its response as a file; return the exit code.

    `ids`: values for the path of the call; the last one is the file name if the server gives none. `output`: the target
    file or folder. `force`: replace an existing file.
    """
    from mailbox_appliance.cli import files

    client = invocation.client()
    path = fill_path(call.path, {"accountId": resolve_account(client, account), **ids})
    return files.save_download(invocation, client, path, output, force=force, otherwise=[*ids.values()][-1])


def _download(invocation: Invocation, account: str | None, output: str | None, force: bool, **ids: str) -> int:
    values = {"messageId": ids["message_id"], "attachmentId": ids["attachment_id"]}
    return save_from_call(invocation, DOWNLOAD, account, values, output, force)


_ATTACHMENT_ARGUMENTS = (click.Argument(["message_id"]), click.Argument(["attachment_id"]))
LINK = Row(
    "link",
    Call("POST", "/accounts/{accountId}/messages/{messageId}/attachments/{attachmentId}/download-link"),
    "Create a download link for an attachment.\n\nAnyone with the link can download the file without signing in, for 5"
    " minutes. Use it for a program that should not have your credentials. The link stops working earlier if the"
    " session or API key that created it ends.",
    (*_ATTACHMENT_ARGUMENTS, ACCOUNT),
    remark=lambda answer: (
        f"Anyone with this link can download the file until {answer['data']['expiresAt']}, without signing in.\n"
    ),
)
attachments = group(
    "attachments",
    "Manage attachments: download, link.",
    [command("download", _download, _DOWNLOAD_HELP, (*_ATTACHMENT_ARGUMENTS, ACCOUNT, *SAVE_OPTIONS)), LINK.command()],
)


# --- `uploads`: files that messages of other programs attach by their ID ---


_LARGEST_UPLOAD = 25 * MIB
_UPLOAD_HELP = """Upload a file, for a message that names its uploadId.

It is kept for one hour, and can be attached once, with `--input` or by another program. `emails send --attach` needs no
upload.
"""


def _upload(invocation: Invocation, file: str, filename: str | None, mime_type: str | None) -> int:
    from pathlib import Path

    from mailbox_appliance.client.http import ApiRequest

    if file == "-" and filename is None:
        raise wrong_usage("Standard input has no name: add --filename NAME.", "option:--filename")
    content = read_input(invocation.terminal, file, _LARGEST_UPLOAD)
    query = [("filename", filename or Path(file).name), *([] if mime_type is None else [("mimeType", mime_type)])]
    headers = {"Content-Type": "application/octet-stream"}
    with invocation.terminal.waiting("Uploading…") as tell:
        request = ApiRequest("POST", "/uploads", tuple(query), content, headers, telling=tell)
        answer = invocation.client().call(request)
    output.show_answer(invocation, answer)
    return 0


_UPLOAD_PARAMETERS: tuple[click.Parameter, ...] = (
    click.Argument(["file"], metavar="FILE|-"),
    option("--filename", "NAME", "File name for recipients (default: that of FILE)."),
    option("--mime-type", "TYPE", "Media type (default: derived from the file name)."),
)
uploads = group("uploads", "Manage uploads: create.", [command("create", _upload, _UPLOAD_HELP, _UPLOAD_PARAMETERS)])


# --- `emails get`: a message, its body in pages, or the raw message ---


GET_MESSAGE = Row(
    "get", Call("GET", "/accounts/{accountId}/messages/{messageId}"), "Show a message.", view=output.render_message
)
GET_BODY = Row(
    "get", Call("GET", "/accounts/{accountId}/messages/{messageId}/body"), "Show a body.", view=output.render_body_page
)
GET_SOURCE = Call("GET", "/accounts/{accountId}/messages/{messageId}/raw")

_GET_PARAMETERS: tuple[click.Parameter, ...] = (
    click.Argument(["message_id"]),
    ACCOUNT,
    click.Option(
        ["--body-format", "format_"],
        type=click.Choice(("text", "html", "markdown")),
        help="Format of the body; shows only the body, page by page.",
    ),
    click.Option(["--offset"], type=click.IntRange(0), help="First character of the body page (with --body-format)."),
    click.Option(["--limit"], type=click.IntRange(1, 1_000_000), help="Characters per body page (with --body-format)."),
    flag("--raw", "Save the raw, unmodified message (with --output and --force)."),
    *SAVE_OPTIONS,
)


def _get_message(invocation: Invocation, **given: Any) -> int:
    output, force, is_raw = given.pop("output"), given.pop("force"), given.pop("raw")
    is_body = given["format_"] is not None
    if is_raw and is_body:
        raise wrong_usage("--raw and --body-format cannot be combined.", "option:--raw")
    for name in ("offset", "limit"):
        if given[name] is not None and not is_body:
            raise wrong_usage(f"--{name} requires --body-format.", f"option:--{name}")
    if (output is not None or force) and not is_raw:
        raise wrong_usage("--output and --force require --raw.", "option:--output" if output else "option:--force")
    if is_raw:
        return save_from_call(
            invocation, GET_SOURCE, given["account"], {"messageId": given["message_id"]}, output, force
        )
    return execute(GET_BODY if is_body else GET_MESSAGE, invocation, given)


GET_COMMAND = command("get", _get_message, "Show a message, its body in pages, or the raw message.", _GET_PARAMETERS)


_LISTS = (row.command() for row in LIST_ROWS)
emails = group(
    "emails",
    "Manage messages: list, search, get, send, organize, delete.",
    [*_LISTS, GET_COMMAND, *sending.SENDING_COMMANDS, *ACTION_COMMANDS],
)
