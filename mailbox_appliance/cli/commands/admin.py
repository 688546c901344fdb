"""Commands for administrators: `audit`, `license`, `oauth-apps` and `settings`. Also `logs`, which reads log files."""

import itertools
import json
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from mailbox_appliance.cli import context, output
from mailbox_appliance.cli.command_table import ALL_PAGES, Call, Given, Row, execute, resolve_member
from mailbox_appliance.cli.context import Invocation, names_other_appliance
from mailbox_appliance.cli.groups import command, flag, group, option
from mailbox_appliance.cli.inputs import INPUT_OPTION, require_options
from mailbox_appliance.client import local
from mailbox_appliance.client.errors import INPUT, INTERNAL, Failure, wrong_usage

_AUDIT_COLUMNS = (
    "at",
    "actor.kind",
    "actor.memberId",
    "action",
    "target.kind",
    "target.id",
    "outcome",
    "clientAddress",
)


def _audit_verdict(answer: Any) -> str:
    broken = answer["data"]["firstBroken"]
    if broken is None:
        return f"The audit log is intact: {answer['data']['count']:,} rows.\n"
    row = f"Row {broken['number']}" + (f" ({broken['id']})" if broken["id"] else "")
    return f"The audit log is not intact. {row} differs from what was written: {broken['reason']}.\n"


def _audit_exit_code(answer: Any) -> int:
    return 0 if answer["data"]["ok"] else INTERNAL


LIST_EVENTS = Row(
    "list",
    Call("GET", "/admin/audit-events"),
    "List audit events, newest first.\n\nAdministrators only, except with --mine.",
    (
        flag("--mine", "Events that concern you; every member can list these."),
        option("--member", "ID|EMAIL", "Events by or about this member.", name="member_id"),
        option("--action", "NAME", "Action or kind of action, such as session.create or session."),
        click.Option(["--outcome"], type=click.Choice(("success", "failure", "denied")), help="Outcome of the events."),
        *ALL_PAGES,
    ),
    _AUDIT_COLUMNS,
)
LIST_OWN_EVENTS = Row("list", Call("GET", "/me/audit-events"), "", columns=_AUDIT_COLUMNS)
VERIFY_AUDIT = Row(
    "verify",
    Call("GET", "/admin/audit-events/verify"),
    "Verify that no audit row was changed, removed, added or moved.\n\nOtherwise the command names the first such row"
    " and exits with 1. If no appliance is running, it reads the files in the data directory.",
    remark=_audit_verdict,
    exit_code=_audit_exit_code,
    timeout=600.0,
    waiting_for="Checking every row…",
)


def _list_events(invocation: Invocation, mine: bool, **given: Any) -> int:
    filters = [name for name in ("member_id", "action", "outcome") if given[name] is not None]
    if mine and filters:
        option = f"--{filters[0].removesuffix('_id')}"
        raise wrong_usage(f"--mine cannot be combined with {option}.", f"option:{option}")
    if given["member_id"] is not None:
        given["member_id"] = resolve_member(invocation.client(), given["member_id"])
    return execute(LIST_OWN_EVENTS if mine else LIST_EVENTS, invocation, given)


def _verify_audit(invocation: Invocation) -> int:
    if names_other_appliance(invocation) or local.find_running(invocation.data_directory()) is not None:
        return execute(VERIFY_AUDIT, invocation, {})
    folder, call = invocation.data_directory(), invocation.service("call_on_files")
    answer = context.call_with_passphrase(
        invocation, lambda passphrase, _: call(folder, "verify_audit", None, passphrase)
    )
    output.show_answer(invocation, answer, remark=_audit_verdict)
    return _audit_exit_code(answer)


audit = group(
    "audit",
    "Manage the audit log: list, verify.",
    [
        command("list", _list_events, LIST_EVENTS.help, LIST_EVENTS.parameters),
        command("verify", _verify_audit, VERIFY_AUDIT.help),
    ],
)


# --- The license. Only needed if someone else sells or hosts the appliance ---


TOKEN_VARIABLE = "MAILBOX_APPLIANCE_LICENSE_TOKEN"  # noqa: S105 - a name
TOKEN_STDIN = flag("--token-stdin", "Read the license token from the first line of stdin.")


def license_body(invocation: Invocation, given: Given) -> Any:
    """Return the request body that installs a license (PUT /admin/license)."""
    read = invocation.terminal.secret("License token", TOKEN_VARIABLE, from_stdin=given["token_stdin"], what="token")
    return {"token": read}


LICENSE_ROWS = (
    Row("show", Call("GET", "/admin/license"), "Show the license and its limits."),
    Row(
        "set",
        Call("PUT", "/admin/license"),
        f"Install a license.\n\nThe token comes from a prompt, stdin or {TOKEN_VARIABLE}.",
        (TOKEN_STDIN,),
        body=license_body,
        timeout=180.0,
        waiting_for="Contacting the issuer…",
    ),
    Row("remove", Call("DELETE", "/admin/license"), "Remove the license and its limits."),
)
license = group(  # noqa: A001 - the command's name
    "license", "Manage the license: show, set, remove.", [row.command() for row in LICENSE_ROWS]
)


# --- OAuth applications, by which members connect Google and Outlook mailboxes ---


SECRET_VARIABLE = "MAILBOX_APPLIANCE_CLIENT_SECRET"  # noqa: S105 - a name
_PROVIDERS = ("google", "outlook")
_METAVAR = "|".join(_PROVIDERS)
PROVIDER = click.Argument(["provider"], metavar=_METAVAR)
OAUTH_APP_OPTIONS: tuple[click.Parameter, ...] = (
    PROVIDER,
    option("--client-id", "ID", "Client ID that the provider assigned to the app."),
    flag("--client-secret-stdin", "Read the client secret from the first line of stdin."),
    flag("--keep-client-secret", "Keep the saved client secret; the client ID must stay."),
    flag("--public-client", "Register a public client without a secret; Google keeps a saved one."),
    option("--tenant-id", "ID", "Tenant that members belong to (outlook only)."),
    INPUT_OPTION,
)


def oauth_app_body(invocation: Invocation, given: Given) -> Any:
    """Return the request body that sets a provider's OAuth application (PUT /admin/oauth-apps/{provider})."""
    require_options(given, "client_id")
    chosen = [name for name in ("client_secret_stdin", "keep_client_secret", "public_client") if given[name]]
    if len(chosen) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise wrong_usage(f"{options} cannot be combined.", f"option:--{chosen[0].replace('_', '-')}")
    body: dict[str, Any] = {"clientId": given["client_id"]}
    if given["tenant_id"] is not None:
        body["tenantId"] = given["tenant_id"]
    if given["public_client"]:
        return {**body, "publicClient": True}
    if given["keep_client_secret"]:
        return body
    if given["provider"] not in _PROVIDERS:  # checked before the user types a secret in vain
        raise wrong_usage(f"The provider must be google or outlook (got {given['provider']}).", f"argument:{_METAVAR}")
    secret = invocation.terminal.secret(
        "Client secret", SECRET_VARIABLE, from_stdin=given["client_secret_stdin"], what="client secret"
    )
    return {**body, "clientSecret": secret}


OAUTH_APP_ROWS = (
    Row("show", Call("GET", "/admin/oauth-apps"), "Show the OAuth apps in use, without their secrets."),
    Row(
        "set",
        Call("PUT", "/admin/oauth-apps/{provider}"),
        "Save the OAuth app of a provider, replacing the previous one.\n\n"
        f"The client secret comes from a prompt, stdin or {SECRET_VARIABLE}.",
        OAUTH_APP_OPTIONS,
        body=oauth_app_body,
    ),
    Row("remove", Call("DELETE", "/admin/oauth-apps/{provider}"), "Remove the OAuth app of a provider.", (PROVIDER,)),
)
oauth_apps = group(
    "oauth-apps", "Manage OAuth apps for Google and Microsoft mailboxes.", [row.command() for row in OAUTH_APP_ROWS]
)


# --- Settings that can change while the appliance runs ---


_PATCH_SETTINGS = Call("PATCH", "/admin/settings")


def _settings_body(_invocation: Invocation, given: Given) -> Any:
    if given["name"] is None or given["value"] is None:
        raise wrong_usage("Missing setting or value. `settings show` lists the settings.", "argument:NAME VALUE")
    return {given["name"]: parse_setting(given["name"], given["value"])}


def parse_setting(name: str, text: str) -> bool | int | str | list[str]:
    """Convert a text to the type of its setting. A setting that this release does not know stays text.

    The appliance validates the value. Raises Failure if the text does not fit the type.
    """
    from mailbox_appliance.settings import BY_NAME, parse_flag

    default = BY_NAME[name].default if name in BY_NAME else ""
    if isinstance(default, bool):
        if (found := parse_flag(text)) is None:
            raise _invalid_value(name, "true or false", text)
        return found
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError as error:
            raise _invalid_value(name, "a whole number", text) from error
    return [part.strip() for part in text.split(",") if part.strip()] if isinstance(default, tuple) else text


def _invalid_value(name: str, kind: str, text: str) -> Failure:
    return wrong_usage(f"{name} must be {kind} (got {text!r}).", "argument:VALUE")


_SETTINGS_HELP = (
    "The output shows all settings with their new values. Settings that come from the environment or the command line"
    " cannot be changed (409)."
)
SETTINGS_ROWS = (
    Row(
        "show",
        Call("GET", "/admin/settings"),
        "Show the settings that can change while the appliance runs.\n\nAll other settings are in config.toml.",
    ),
    Row(
        "set",
        _PATCH_SETTINGS,
        f"Change a setting, now and for later starts.\n\nSeparate the items of a list with commas. {_SETTINGS_HELP}",
        (
            click.Argument(["name"], required=False),
            click.Argument(["value"], required=False),
            INPUT_OPTION,
        ),
        body=_settings_body,
    ),
    Row(
        "reset",
        _PATCH_SETTINGS,
        f"Reset settings to their values in config.toml.\n\n{_SETTINGS_HELP}",
        (click.Argument(["names"], metavar="NAME...", nargs=-1, required=True),),
        body=lambda _, given: dict.fromkeys(given["names"]),
    ),
)
settings = group(
    "settings", "Manage settings of the running appliance: show, set, reset.", [row.command() for row in SETTINGS_ROWS]
)


# --- The log of the appliance on this computer, read from its file, so that it works without a running appliance ---


_POLL_SECONDS = 0.3


def last_lines(stream: BinaryIO, count: int) -> list[bytes]:
    """Return at most the last `count` complete lines of a file, without an unfinished line at its end.

    Afterwards the file position is behind the last complete line.
    """
    lines = deque(stream, count + 1)
    if lines and not lines[-1].endswith(b"\n"):
        stream.seek(stream.tell() - len(lines.pop()))
    return [line.rstrip(b"\n") for line in lines][-count:]


def new_lines(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines as a program adds them to the log file, endlessly; after a rotation, also those of the new file.

    Closes the stream when the caller stops.
    """
    try:
        while True:
            where = stream.tell()
            line = stream.readline()
            if line.endswith(b"\n"):
                yield line.rstrip(b"\n")
                continue
            stream.seek(where)
            if not _is_other(file, stream):
                time.sleep(_POLL_SECONDS)
                continue
            stream.close()
            stream = file.open("rb")
    finally:
        stream.close()


def _is_other(file: Path, stream: BinaryIO) -> bool:
    try:
        return not os.path.samestat(file.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False  # The file is missing between the two steps of a rotation.


def readable_line(line: bytes) -> str:
    """Format a log line for people: time, level, event, then the other fields.

    A line that is not JSON stays unchanged.
    """
    text = line.decode("utf-8", "replace")
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return output.one_line(text)
    at, level, event = (output.one_line(str(values.pop(name, ""))) for name in ("at", "level", "event"))
    sentence = output.one_line(str(values.pop("message", "")))
    rest = " ".join(f"{output.one_line(name)}={output.cell_text(value)}" for name, value in values.items())
    return " ".join(filter(None, (f"{at} {level:<7} {event}", sentence, rest)))


def _logs(invocation: Invocation, lines: int, follow: bool) -> int:
    file = invocation.data_directory() / "logs" / "appliance.log"
    try:
        stream = file.open("rb")
    except FileNotFoundError as error:
        raise Failure("not_found", f"No log exists yet: {file}.", INPUT) from error
    with stream:
        newest = last_lines(stream, lines)
        for line in [*_rotated_lines(file, lines - len(newest)), *newest]:
            _write_line(invocation, line)
        if follow:
            for line in new_lines(file, stream):
                _write_line(invocation, line)
    return 0


def _rotated_lines(file: Path, count: int) -> list[bytes]:
    """Return the last `count` lines of the rotated log files (`appliance.log.1`, `.2`, ...), oldest line first."""
    found: list[bytes] = []
    for number in itertools.count(1):
        if len(found) >= count:
            break
        try:
            stream = file.with_name(f"{file.name}.{number}").open("rb")
        except FileNotFoundError:
            break
        with stream:
            found = last_lines(stream, count - len(found)) + found
    return found


def _write_line(invocation: Invocation, line: bytes) -> None:
    text = readable_line(line) if invocation.format == "table" else line.decode("utf-8", "replace")
    invocation.terminal.write(text + "\n")


logs = command(
    "logs",
    _logs,
    "Print the log of the appliance on this computer.\n\nPrints the newest lines as JSON, or as text with"
    " --format table.",
    [
        click.Option(["--lines"], type=click.IntRange(1, 10_000), default=100, help="Number of lines (default 100)."),
        flag("--follow", "Print new lines as they are added, until interrupted."),
    ],
)
