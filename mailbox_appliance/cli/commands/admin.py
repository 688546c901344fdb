"""Commands for administrators: `audit`, `license`, `oauth-apps`, `settings`; and `logs`."""

import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from mailbox_appliance.cli import context, output
from mailbox_appliance.cli.command_table import ALL_PAGES, Call, Given, Row, execute
from mailbox_appliance.cli.context import Invocation, names_other_appliance
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.cli.inputs import INPUT_OPTION, read_whole_body, require_options, resolve_member
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
        return f"All {answer['data']['count']:,} rows are as they were written.\n"
    row = f"Row {broken['number']}" + (f" ({broken['id']})" if broken["id"] else "")
    return f"{row} of the audit log is not as it was written: {broken['reason']}.\n"


def _audit_exit_code(answer: Any) -> int:
    return 0 if answer["data"]["ok"] else INTERNAL


LIST_EVENTS = Row(
    "list",
    Call("GET", "/admin/audit-events"),
    "List what was done, the newest first.",
    (
        click.Option(["--mine"], is_flag=True, help="What concerns you; everybody may ask for that."),
        click.Option(["--member", "member_id"], metavar="ID|EMAIL", help="What this member did, or was done to them."),
        click.Option(["--action"], metavar="NAME", help="An action, or all of its kind: session, session.create."),
        click.Option(["--outcome"], type=click.Choice(("success", "failure", "denied")), help="Only what ended so."),
        *ALL_PAGES,
    ),
    _AUDIT_COLUMNS,
)
LIST_OWN_EVENTS = Row("list", Call("GET", "/me/audit-events"), "", columns=_AUDIT_COLUMNS)
VERIFY_AUDIT = Row(
    "verify",
    Call("GET", "/admin/audit-events/verify"),
    "Look whether any row was changed, dropped, added or moved.\n\nThe first such row is named, and the exit code is 1."
    " Where no appliance runs, the files of the data directory are looked at.",
    remark=_audit_verdict,
    exit_code=_audit_exit_code,
    timeout=600.0,
    waiting_for="Looking at every row…",
)


def _list_events(invocation: Invocation, mine: bool, **given: Any) -> int:
    filters = [name for name in ("member_id", "action", "outcome") if given[name] is not None]
    if mine and filters:
        raise wrong_usage("--mine goes with no filter.", f"option:--{filters[0].removesuffix('_id')}")
    if given["member_id"] is not None:
        given["member_id"] = resolve_member(invocation.client(), given["member_id"])
    return execute(LIST_OWN_EVENTS if mine else LIST_EVENTS, invocation, given)


def _verify_audit(invocation: Invocation) -> int:
    if _is_running(invocation):
        return execute(VERIFY_AUDIT, invocation, {})
    folder, verify = invocation.data_directory(), invocation.service("verify_audit_on_files")
    answer = context.call_with_passphrase(invocation, lambda passphrase: verify(folder, passphrase), from_stdin=False)
    output.show_answer(invocation, answer, (), output.render_record, _audit_verdict)
    return _audit_exit_code(answer)


def _is_running(invocation: Invocation) -> bool:
    """Whether there is an appliance to ask: another one than that of the data directory, or that one while it runs."""
    return names_other_appliance(invocation) or local.find_running(invocation.data_directory()) is not None


audit = group(
    "audit",
    "The audit log.",
    [
        command("list", _list_events, LIST_EVENTS.help, LIST_EVENTS.parameters),
        command("verify", _verify_audit, VERIFY_AUDIT.help),
    ],
)


# --- The license. None is needed, unless somebody else hosts or sold the appliance ---


TOKEN_VARIABLE = "MAILBOX_APPLIANCE_LICENSE_TOKEN"  # noqa: S105 - a name
TOKEN_STDIN = click.Option(["--token-stdin"], is_flag=True, help="Read the token from the first line of stdin.")


def license_body(invocation: Invocation, given: Given) -> Any:
    """The body of PUT /admin/license."""
    read = invocation.terminal.secret("Licence token", TOKEN_VARIABLE, from_stdin=given["token_stdin"], what="token")
    return {"token": read}


LICENSE_ROWS = (
    Row("show", Call("GET", "/admin/license"), "Show how the appliance is licensed."),
    Row(
        "set",
        Call("PUT", "/admin/license"),
        f"Install a licence.\n\nIts token is asked for, or read from stdin or {TOKEN_VARIABLE}.",
        (TOKEN_STDIN,),
        body=license_body,
        timeout=180.0,
        waiting_for="Asking the issuer…",
    ),
    Row("remove", Call("DELETE", "/admin/license"), "Remove the licence; there are no limits then."),
)
license = group("license", "The licence.", [row.command() for row in LICENSE_ROWS])  # noqa: A001 - the command's name


# --- OAuth applications, by which members connect Google and Outlook mailboxes ---


SECRET_VARIABLE = "MAILBOX_APPLIANCE_CLIENT_SECRET"  # noqa: S105 - a name
_PROVIDERS = ("google", "outlook")
_METAVAR = "|".join(_PROVIDERS)
PROVIDER = click.Argument(["provider"], metavar=_METAVAR)
OAUTH_APP_OPTIONS: tuple[click.Parameter, ...] = (
    PROVIDER,
    click.Option(["--client-id"], metavar="ID", help="The id that the provider gave the application."),
    click.Option(["--client-secret-stdin"], is_flag=True, help="Read the client secret from the first line of stdin."),
    click.Option(["--keep-client-secret"], is_flag=True, help="Keep the saved one, where the id stays the same."),
    click.Option(["--public-client"], is_flag=True, help="It keeps no secret; a saved one of Google stays."),
    click.Option(["--tenant-id"], metavar="ID", help="Outlook only: the tenant that members belong to."),
    INPUT_OPTION,
)


def oauth_app_body(invocation: Invocation, given: Given) -> Any:
    """The body of PUT /admin/oauth-apps/{provider}."""
    if (whole := read_whole_body(invocation.terminal, given, "provider")) is not None:
        return whole
    require_options(given, "client_id")
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


OAUTH_APP_ROWS = (
    Row("show", Call("GET", "/admin/oauth-apps"), "Show the applications in force, without their secrets."),
    Row(
        "set",
        Call("PUT", "/admin/oauth-apps/{provider}"),
        "Save the application of a provider in place of the one before.\n\n"
        f"Its secret is asked for, or read from stdin or {SECRET_VARIABLE}.",
        OAUTH_APP_OPTIONS,
        body=oauth_app_body,
    ),
    Row("remove", Call("DELETE", "/admin/oauth-apps/{provider}"), "Forget the application of a provider.", (PROVIDER,)),
)
oauth_apps = group(
    "oauth-apps", "OAuth applications for Google and Outlook.", [row.command() for row in OAUTH_APP_ROWS]
)


# --- Settings that can change while the appliance runs ---


_PATCH_SETTINGS = Call("PATCH", "/admin/settings")


def _settings_body(invocation: Invocation, given: Given) -> Any:
    """The body of PATCH /admin/settings: one setting, or as it was given."""
    if (whole := read_whole_body(invocation.terminal, given)) is not None:
        return whole
    if given["name"] is None or given["value"] is None:
        raise wrong_usage("Name a setting and its value; `settings show` lists them.", "argument:NAME VALUE")
    return {given["name"]: parse_setting(given["name"], given["value"])}


def parse_setting(name: str, text: str) -> bool | int | str | list[str]:
    """A text as the type of its setting; a text, if this release does not know the setting.

    The appliance checks the value. Raises Failure for a text of the wrong type.
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
    return wrong_usage(f"{name} is {kind}, not {text!r}.", "argument:VALUE")


def _reset_body(_invocation: Invocation, given: Given) -> Any:
    return dict.fromkeys(given["names"])


_SETTINGS_HELP = (
    "The answer is all of them, as they are now. What the environment or the command line sets stays (409)."
)
SETTINGS_ROWS = (
    Row(
        "show",
        Call("GET", "/admin/settings"),
        "Show the settings that may change while it runs.\n\nThe others are in config.toml.",
    ),
    Row(
        "set",
        _PATCH_SETTINGS,
        f"Change a setting; it counts at once, and after a start.\n\nLists have commas. {_SETTINGS_HELP}",
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
        f"Take changes back: what config.toml has counts again.\n\n{_SETTINGS_HELP}",
        (click.Argument(["names"], metavar="NAME...", nargs=-1, required=True),),
        body=_reset_body,
    ),
)
settings = group("settings", "Settings that may change while it runs.", [row.command() for row in SETTINGS_ROWS])


# --- The log of the appliance on this computer, read from its file: it helps also if the appliance does not run ---


#: The most that is read of the end of the file, in bytes.
LARGEST_TAIL = 8 * 1024 * 1024
_POLL_SECONDS = 0.3


def last_lines(stream: BinaryIO, count: int) -> list[bytes]:
    """The last complete lines of a file; the position is left behind them. A line that is being written is left out."""
    end = stream.seek(0, os.SEEK_END)
    start = stream.seek(max(0, end - LARGEST_TAIL))
    content = stream.read(end - start)
    complete = content[: content.rfind(b"\n") + 1]
    stream.seek(start + len(complete))
    lines = complete.splitlines()
    # Cut in the middle of a line: that one is not whole.
    return (lines if start == 0 else lines[1:])[-count:]


def new_lines(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they are added, for ever; after a rotation those of the new file. The stream is closed at the end."""
    try:
        while True:
            where = stream.tell()
            line = stream.readline(LARGEST_TAIL)
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
        return False  # Between the two steps of a rotation.


def readable_line(line: bytes) -> str:
    """A log line for people: time, level, event, then the rest by name. What is not JSON is shown unchanged."""
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
        raise Failure("not_found", f"There is no log yet: {file}.", INPUT) from error
    with stream:
        newest = last_lines(stream, lines)
        older = [] if _is_cut(stream) else _rotated_lines(file, lines - len(newest))
        for line in [*older, *newest]:
            _write_line(invocation, line)
        if follow:
            for line in new_lines(file, stream):
                _write_line(invocation, line)
    return 0


def _rotated_lines(file: Path, count: int) -> list[bytes]:
    """The last lines of `appliance.log.1` and, if they do not suffice, of older files, in their order."""
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
            if _is_cut(stream):
                break
    return found


def _is_cut(stream: BinaryIO) -> bool:
    """Whether only the end of a file was read, so that between it and the older files there is a gap."""
    return os.fstat(stream.fileno()).st_size > LARGEST_TAIL


def _write_line(invocation: Invocation, line: bytes) -> None:
    text = readable_line(line) if invocation.format == "table" else line.decode("utf-8", "replace")
    invocation.terminal.write(text + "\n")


logs = command(
    "logs",
    _logs,
    "Print the end of the log of the appliance on this computer: lines of JSON, or readable with --format table.",
    [
        click.Option(["--lines"], type=click.IntRange(1, 10_000), default=100, help="How many lines (default 100)."),
        click.Option(["--follow"], is_flag=True, help="Go on with what is added, until interrupted."),
    ],
)
