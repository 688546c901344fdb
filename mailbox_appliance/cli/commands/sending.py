"""The commands that send messages: `emails send`, `preview`, `forward` and deliveries; `drafts`; `scheduled`."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import inputs, output
from mailbox_appliance.cli.command_table import ACCOUNT, ALL_PAGES, Call, Given, Row, execute
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import (
    INPUT_OPTION,
    LARGEST_ATTACHMENTS,
    given_options,
    read_file,
    read_text,
    too_large_failure,
)
from mailbox_appliance.client.errors import wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.cli.terminal import Terminal

# --- A message from options: for send, preview, forward and drafts ---


#: `Name <a@b>` or `<a@b>` (RFC 5322 3.4); the server checks the address itself.
_NAMED = re.compile(r"\s*(?P<name>.*?)\s*<(?P<email>[^<>]*)>\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
#: Signs of a second address outside quotation marks: in a name, and in an address without a name.
_MORE_NAMED, _MORE_PLAIN = re.compile(r"[<>@]"), re.compile(r"@.*[,;\s<>].*@", re.DOTALL)
_BESIDE_THE_BODY = ("account", "idempotency_key", "if_match")

#: The options of a message, for sending and for drafts.
MESSAGE_OPTIONS: tuple[click.Parameter, ...] = (
    option("--to", "ADDRESS", "Recipient, a@b or 'Name <a@b>' (repeatable).", multiple=True),
    option("--cc", "ADDRESS", "Cc recipient (repeatable).", multiple=True),
    option("--bcc", "ADDRESS", "Bcc recipient (repeatable).", multiple=True),
    option("--from", "ADDRESS", "Sender (default: the mailbox's own address).", name="from_"),
    option("--subject", "TEXT", "Subject."),
    option("--text", "TEXT", "Plain text of the message."),
    option("--text-file", "FILE|-", "Plain text from a file or stdin."),
    option("--html-file", "FILE|-", "HTML version from a file or stdin."),
    option("--attach", "FILE", "File to attach (repeatable).", multiple=True),
    option("--reply-to", "MESSAGE-ID", "Message to reply to."),
    flag("--reply-all", "Reply to everyone who received that message."),
)
SEND_AT = option("--send-at", "TIME", f"Time to send, at most 366 days ahead: {inputs.MOMENT_FORMS}.")
#: Recipients, the text above a forward, and attachments.
FORWARD_OPTIONS: tuple[click.Parameter, ...] = (
    *MESSAGE_OPTIONS[:2],
    option("--from", "ADDRESS", "Sender (default: the mailbox's own address).", name="from_"),
    option("--comment", "TEXT", "Text above the forwarded message."),
    option("--comment-file", "FILE|-", "Text above it, from a file or stdin."),
    flag("--no-attachments", "Omit its attachments, except images in the text."),
)


def parse_address(text: str, option: str = "--to") -> dict[str, str]:
    """Parse one address, `a@b` or `Name <a@b>`, into an address for the API. The name may be in quotation marks.

    `option`: the option that error messages name. Raises Failure if the text has several addresses: the first ones
    would be read as a name, and their owners would get no message.
    """
    named = _NAMED.fullmatch(text)
    name, email = (named["name"], named["email"].strip()) if named else ("", text.strip())
    if _MORE_NAMED.search(_QUOTED.sub("", name)) or _MORE_PLAIN.search(_QUOTED.sub("", email)):
        raise wrong_usage(
            f"{option} takes one address, a@b or 'Name <a@b>'. Repeat the option for more. Put a name with @, < or >"
            " in quotation marks: '\"Name @ work\" <a@b>'.",
            f"option:{option}",
        )
    if quoted := _QUOTED.fullmatch(name):
        name = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
    return {"email": email, **({"name": name} if name else {})}


def _parse_recipients(given: Given, *names: str) -> dict[str, Any]:
    return {name: [parse_address(text, f"--{name}") for text in given[name]] or None for name in names}


def _parse_sender(given: Given) -> str | None:
    if given["from_"] is not None:
        parse_address(given["from_"], "--from")
    written: str | None = given["from_"]
    return written


def message_body(invocation: Invocation, given: Given) -> dict[str, Any]:
    """Return the request body to send: a saved draft, or a message from the options."""
    if given.get("draft") is not None:
        if others := given_options(given, "draft", "send_at", *_BESIDE_THE_BODY):
            message = f"--draft is the whole message and cannot be combined with {', '.join(others)}."
            raise wrong_usage(message, "option:--draft")
        return draft_body(invocation, {**given, "draft_id": given["draft"]})
    if given["reply_all"] and given["reply_to"] is None:
        raise wrong_usage("--reply-all requires --reply-to MESSAGE-ID.", "option:--reply-all")
    return _without_none(
        {
            "from": _parse_sender(given),
            **_parse_recipients(given, "to", "cc", "bcc"),
            "subject": given["subject"],
            "body": _content(invocation.terminal, given),
            "replyToMessageId": given["reply_to"],
            "replyAll": given["reply_all"] or None,
            "attachments": read_attachments(given["attach"]) or None,
            "sendAt": _send_at(given),
        }
    )


def draft_body(_invocation: Invocation, given: Given) -> dict[str, Any]:
    """Return the request body that sends a saved draft."""
    return _without_none({"draftId": given["draft_id"], "sendAt": _send_at(given)})


def forward_body(invocation: Invocation, given: Given) -> dict[str, Any]:
    """Return the request body that forwards a message."""
    if not given["to"]:
        raise wrong_usage("Missing recipient: add --to ADDRESS.", "option:--to")
    return _without_none(
        {
            **_parse_recipients(given, "to", "cc"),
            "from": _parse_sender(given),
            "comment": _text_or_file(invocation.terminal, given, "comment"),
            "includeAttachments": False if given["no_attachments"] else None,
        }
    )


def _send_at(given: Given) -> str | None:
    text = given.get("send_at")
    return None if text is None else inputs.parse_moment(text, "--send-at")


def _content(terminal: "Terminal", given: Given) -> dict[str, str]:
    if given["text_file"] == "-" == given["html_file"]:
        raise wrong_usage("Only one of --text-file and --html-file can read the standard input.", "option:--html-file")
    text = _text_or_file(terminal, given, "text")
    html = read_text(terminal, given["html_file"]) if given["html_file"] is not None else None
    return _without_none({"text": text, "html": html})


def _text_or_file(terminal: "Terminal", given: Given, name: str) -> str | None:
    text: str | None = given[name]
    file = given[f"{name}_file"]
    if file is None:
        return text
    if text is not None:
        raise wrong_usage(f"--{name} and --{name}-file cannot be combined.", f"option:--{name}-file")
    return read_text(terminal, file)


def read_attachments(names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the named files as attachments for the API.

    Raises Failure if together they exceed the size limit of a message.
    """
    import mimetypes
    from base64 import b64encode
    from pathlib import Path

    left, found = LARGEST_ATTACHMENTS, []
    for name in names:
        if name == "-":
            told = "--attach takes files. Only --text-file, --html-file and --input can read the standard input."
            raise wrong_usage(told, "option:--attach")
        content = read_file(Path(name), left)
        left -= len(content)
        if left < 0:
            raise too_large_failure("The size of all attachments", LARGEST_ATTACHMENTS)
        kind, encoding = mimetypes.guess_type(name)
        found.append(
            {
                "filename": Path(name).name,
                # A compressed file is sent with the type of the archive, not of its contents.
                "mimeType": kind if kind and not encoding else "application/octet-stream",
                "content": b64encode(content).decode("ascii"),
            }
        )
    return found


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# --- `emails send`, `preview`, `forward` and deliveries ---


#: The API accepts 1 to 255 printable ASCII characters without spaces; RFC 9110 5.5 would allow more.
_KEY = re.compile(r"[!-~]{1,255}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SEND = Call("POST", "/accounts/{accountId}/send")
_OPERATIONS_PATH = "/accounts/{accountId}/delivery-operations"
#: A response waits at most 25 s for the outcome; a draft, or a message to forward, may have to be fetched first.
_SENDING_SECONDS = 180.0
_EXIT_CODES_HELP = (
    "\n\nThe output is a delivery operation. Exit codes: 0 succeeded or in progress, 5 failed, 3 uncertain (it may have"
    " been delivered). Repeating the command with the same key is safe."
)


def idempotency_header(given: Given) -> dict[str, str]:
    """Return the header `Idempotency-Key`, with which a repeated command does not send twice.

    Raises Failure if the option is missing or invalid.
    """
    key = given["idempotency_key"]
    if key is None:
        message = "Missing option '--idempotency-key'. Only --dry-run works without one."
        raise wrong_usage(message, "option:--idempotency-key")
    if not _KEY.fullmatch(key):
        raise wrong_usage(
            "The idempotency key must be 1 to 255 printable ASCII characters without spaces.", "header:Idempotency-Key"
        )
    return {"Idempotency-Key": key}


def _sending_headers(given: Given) -> dict[str, str]:
    """Return the headers of a command that sends: the idempotency key, and the preview that the message must match."""
    headers = idempotency_header(given)
    if given["if_match"] is None:
        return headers
    digest = given["if_match"].strip().strip('"')
    if not _DIGEST.fullmatch(digest):
        message = "--if-match must be the previewDigest of a preview: 64 hexadecimal digits."
        raise wrong_usage(message, "option:--if-match")
    return headers | {"If-Match": f'"{digest}"'}


def _sending_row(name: str, call: Call, text: str, body: Any, *parameters: click.Parameter) -> Row:
    return Row(
        name,
        call,
        text + _EXIT_CODES_HELP,
        parameters,
        body=body,
        headers=_sending_headers,
        exit_code=output.delivery_exit_code,
        remark=output.delivery_remark,
        timeout=_SENDING_SECONDS,
        waiting_for="Sending…",
    )


_KEY_HELP = "Name of your choice for this send; the same key never sends twice."
IDEMPOTENCY_KEY = option("--idempotency-key", "KEY", f"{_KEY_HELP} Required to send.")
DRY_RUN = flag("--dry-run", "Show what would be sent, without sending.")
IF_MATCH = option("--if-match", "DIGEST", "Send only what a preview with this previewDigest showed.")
OPERATION = click.Argument(["operation_id"])
DRAFT = click.Argument(["draft_id"])
SEND_OPTIONS: tuple[click.Parameter, ...] = (
    *MESSAGE_OPTIONS,
    option("--draft", "ID", "Saved draft to send; only --send-at can be added."),
    SEND_AT,
    INPUT_OPTION,
)
SEND = _sending_row(
    "send",
    _SEND,
    "Send a message, now or later.",
    message_body,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    DRY_RUN,
    *SEND_OPTIONS,
)
PREVIEW = Row(
    "preview",
    Call("POST", "/accounts/{accountId}/send/preview"),
    "Show the message and recipients that a send would use.\n\nNothing is sent. An invalid message fails as it would in"
    " a send; other obstacles appear as warnings. To send exactly what is shown, pass `previewDigest` to `emails send`"
    " with --if-match.",
    (ACCOUNT, *SEND_OPTIONS),
    body=message_body,
    timeout=_SENDING_SECONDS,
    waiting_for="Preparing…",
)
_FORWARD_PATH = "/accounts/{accountId}/messages/{messageId}/forward"
FORWARD = _sending_row(
    "forward",
    Call("POST", _FORWARD_PATH),
    "Forward a message with its attachments.",
    forward_body,
    click.Argument(["message_id"]),
    ACCOUNT,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    DRY_RUN,
    *FORWARD_OPTIONS,
    INPUT_OPTION,
)
DELIVERY_ROWS = (
    Row(
        "delivery-status",
        Call("GET", f"{_OPERATIONS_PATH}/{{operationId}}"),
        "Show the status of a delivery.\n\nExit codes: 0 succeeded or in progress, 5 failed, 3 uncertain (it may have"
        " been delivered).",
        (OPERATION, ACCOUNT),
        exit_code=output.delivery_exit_code,
        remark=output.delivery_remark,
    ),
    Row(
        "timeline",
        Call("GET", f"{_OPERATIONS_PATH}/{{operationId}}/timeline"),
        "Show each step of a delivery and its time.",
        (OPERATION, ACCOUNT),
        remark=output.delivery_remark,
    ),
    Row(
        "deliveries",
        Call("GET", _OPERATIONS_PATH),
        "List deliveries and their status, newest first.",
        (
            option("--account", "ID|EMAIL", "Mailbox (default: all you have access to)."),
            *ALL_PAGES,
        ),
        columns=output.DELIVERY_COLUMNS,
        remark=output.delivery_remark,
        everywhere=Call("GET", "/delivery-operations"),
    ),
    Row(
        "resolve",
        Call("POST", f"{_OPERATIONS_PATH}/{{operationId}}/resolve"),
        "Resolve an uncertain delivery.\n\nOnly its sender or the owner of the mailbox can do this, signed in. Ask the"
        " recipients first: the outcome is final.",
        (
            OPERATION,
            click.Option(
                ["--outcome"],
                type=click.Choice(("succeeded", "failed")),
                required=True,
                help="Outcome: succeeded if they received it, failed if nobody did.",
            ),
            ACCOUNT,
        ),
        body=lambda _, given: {"outcome": given["outcome"]},
    ),
)
_NOT_SENT = "\nNothing was sent. Run the command without --dry-run to send it.\n"
SEND_DRAFT = _sending_row(
    "send",
    _SEND,
    "Send a draft, now or later.\n\nOnce it was sent, it is removed from the drafts.",
    draft_body,
    DRAFT,
    ACCOUNT,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    DRY_RUN,
    SEND_AT,
)


def _with_dry_run(row: Row, call: Call = PREVIEW.call) -> click.Command:
    """Return the command of a row that sends. With --dry-run the command previews the same request body instead, by
    `call`.
    """
    preview = replace(PREVIEW, call=call, body=row.body, remark=lambda _: _NOT_SENT)

    def act(invocation: Invocation, dry_run: bool, **given: Any) -> int:
        if not dry_run:
            idempotency_header(given)  # before anything is read
        return execute(preview if dry_run else row, invocation, given)

    return command(row.name, act, row.help, row.parameters)


SENDING_COMMANDS: tuple[click.Command, ...] = (
    _with_dry_run(SEND),
    PREVIEW.command(),
    _with_dry_run(FORWARD, Call("POST", f"{_FORWARD_PATH}/preview")),
    *(row.command() for row in DELIVERY_ROWS),
)
#: The command `drafts send`.
DRAFT_COMMAND = _with_dry_run(SEND_DRAFT)


# --- Drafts ---


_DRAFTS_PATH, _DRAFT_PATH = "/accounts/{accountId}/drafts", "/accounts/{accountId}/drafts/{draftId}"
DRAFT_OPTIONS: tuple[click.Parameter, ...] = (ACCOUNT, *MESSAGE_OPTIONS, INPUT_OPTION)


DRAFT_ROWS = (
    Row(
        "list",
        Call("GET", _DRAFTS_PATH),
        "List drafts, newest first.",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "date", "to", "subject"),
    ),
    Row("get", Call("GET", _DRAFT_PATH), "Show a draft.", (DRAFT, ACCOUNT), view=output.render_message),
    Row(
        "create",
        Call("POST", _DRAFTS_PATH),
        "Save a message as a draft.",
        DRAFT_OPTIONS,
        body=message_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row(
        "update",
        Call("PUT", _DRAFT_PATH),
        "Replace a draft.\n\nIts ID stays. Options that are not given again are removed, including attachments.",
        (DRAFT, *DRAFT_OPTIONS),
        body=message_body,
        view=output.render_message,
        timeout=180.0,
        waiting_for="Saving…",
    ),
    Row("delete", Call("DELETE", _DRAFT_PATH), "Delete a draft permanently.", (DRAFT, ACCOUNT), timeout=180.0),
)
drafts = group(
    "drafts",
    "Manage drafts: list, get, create, update, delete, send.",
    [*(row.command() for row in DRAFT_ROWS), DRAFT_COMMAND],
)


# --- Scheduled messages: listed, canceled, released ---


_SCHEDULED_PATH = "/accounts/{accountId}/scheduled"
SCHEDULED_ROWS = (
    Row(
        "list",
        Call("GET", _SCHEDULED_PATH),
        "List scheduled messages, soonest first.\n\nThe list includes messages that are being sent now and uncertain"
        " ones, which may have been delivered.",
        (ACCOUNT, *ALL_PAGES),
        columns=("id", "sendAt", "status", "to", "subject"),
        remark=output.delivery_remark,
    ),
    Row(
        "cancel",
        Call("DELETE", f"{_SCHEDULED_PATH}/{{scheduleId}}"),
        "Cancel a scheduled message.\n\nThe message is kept as a draft.",
        (click.Argument(["schedule_id"]), ACCOUNT),
        # If the mail server is reachable, the message is saved as a draft before the response.
        timeout=180.0,
        waiting_for="Contacting the mail server…",
    ),
)
RELEASE_SCHEDULED = Row(
    "release",
    Call("PATCH", "/admin/settings"),
    "Release scheduled messages that were held after a restore.\n\nA restore holds them if it cannot know what was sent"
    " since the backup. Check `scheduled list` first, and cancel messages that were sent. Administrators only.",
    body=lambda _invocation, _given: {"sending.hold_scheduled": False},
    remark=lambda _answer: "Scheduled messages are sent at their time again.\n",
)
scheduled = group(
    "scheduled",
    "Manage scheduled messages: list, cancel, release.",
    [row.command() for row in (*SCHEDULED_ROWS, RELEASE_SCHEDULED)],
)
