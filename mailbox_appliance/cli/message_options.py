"""Request bodies for messages, made from command-line options: for send, preview, forward and drafts."""

import re
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import inputs
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.inputs import (
    LARGEST_ATTACHMENTS,
    given_options,
    read_file,
    read_text,
    too_large_failure,
)
from mailbox_appliance.client.errors import wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.cli.terminal import Terminal

Given = dict[str, Any]

#: `Name <a@b>` or `<a@b>` (RFC 5322 3.4); the server checks the address itself.
_NAMED = re.compile(r"\s*(?P<name>.*?)\s*<(?P<email>[^<>]*)>\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
#: Signs of a second address outside quotation marks: in a name, and in an address without a name.
_MORE_NAMED, _MORE_PLAIN = re.compile(r"[<>@]"), re.compile(r"@.*[,;\s<>].*@", re.DOTALL)
_BESIDE_THE_BODY = ("account", "idempotency_key")

#: The options of a message, for sending and for drafts.
MESSAGE_OPTIONS: tuple[click.Parameter, ...] = (
    click.Option(["--to"], multiple=True, metavar="ADDRESS", help="Recipient, a@b or 'Name <a@b>' (repeatable)."),
    click.Option(["--cc"], multiple=True, metavar="ADDRESS", help="Cc recipient (repeatable)."),
    click.Option(["--bcc"], multiple=True, metavar="ADDRESS", help="Bcc recipient (repeatable)."),
    click.Option(["--from", "from_"], metavar="ADDRESS", help="Sender (default: the mailbox's own address)."),
    click.Option(["--subject"], metavar="TEXT", help="Subject."),
    click.Option(["--text"], metavar="TEXT", help="Plain text of the message."),
    click.Option(["--text-file"], metavar="FILE|-", help="Plain text from a file or stdin."),
    click.Option(["--html-file"], metavar="FILE|-", help="HTML version from a file or stdin."),
    click.Option(["--attach"], multiple=True, metavar="FILE", help="File to attach (repeatable)."),
    click.Option(["--reply-to"], metavar="MESSAGE-ID", help="Message to reply to."),
    click.Option(["--reply-all"], is_flag=True, help="Reply to everyone who received that message."),
)
SEND_AT = click.Option(
    ["--send-at"], metavar="TIME", help=f"Time to send, at most 366 days ahead: {inputs.MOMENT_FORMS}."
)
#: Recipients, the text above a forward, and attachments.
FORWARD_OPTIONS: tuple[click.Parameter, ...] = (
    *MESSAGE_OPTIONS[:2],
    click.Option(["--from", "from_"], metavar="ADDRESS", help="Sender (default: the mailbox's own address)."),
    click.Option(["--comment"], metavar="TEXT", help="Text above the forwarded message."),
    click.Option(["--comment-file"], metavar="FILE|-", help="Text above it, from a file or stdin."),
    click.Option(["--no-attachments"], is_flag=True, help="Omit its attachments, except images in the text."),
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
