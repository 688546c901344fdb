"""Commands that are one REST call each. A `Row` describes one: its name, call, options, and output format.

An option's name decides where its value goes: `message_id` fills `{messageId}` in the path, and `--account` fills
`{accountId}`. On a GET, every other option is a query parameter of the same name in camel case. If the call has a
request body, a function of the row makes it from the options.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mailbox_appliance.cli import output
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.cli.groups import command
from mailbox_appliance.cli.output import look_up, one_line
from mailbox_appliance.client.errors import INPUT, Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient, TellProgress

Given = dict[str, Any]

#: The most items that `--all` fetches, and the most that `--max-results` can ask for.
DEFAULT_ALL, MAX_RESULTS = 1_000, 10_000
LARGEST_PAGE = 100

ACCOUNT = click.Option(["--account"], metavar="ID|EMAIL", help="Mailbox; required if you have access to more than one.")
#: The mailbox as an argument, for commands that are about the mailbox itself.
MAILBOX = click.Argument(["mailbox"], metavar="[ID|EMAIL]", required=False)
PAGES = (
    click.Option(
        ["--limit"], type=click.IntRange(1, LARGEST_PAGE), help=f"Items per page, up to {LARGEST_PAGE} (default 50)."
    ),
    click.Option(["--cursor"], metavar="CURSOR", help="Continue from this nextCursor of an earlier page."),
)
ALL_PAGES = (
    *PAGES,
    click.Option(["--all", "all_pages"], is_flag=True, help=f"Fetch all pages, up to {DEFAULT_ALL:,} items."),
    click.Option(
        ["--max-results"],
        type=click.IntRange(1, MAX_RESULTS),
        metavar="N",
        help=f"Fetch all pages, up to N items (at most {MAX_RESULTS:,}).",
    ),
)
_NOT_IN_QUERY = frozenset({"account", "mailbox", "all_pages", "max_results"})


@dataclass(frozen=True)
class Call:
    """The HTTP method and path of a REST call. The path is below `/api/v1` and has parameters such as `{accountId}`."""

    method: str
    path: str


def exit_success(_answer: Any) -> int:
    """Return exit code 0, for commands that succeed with every response."""
    return 0


@dataclass(frozen=True)
class Row:
    """One command and its REST call: a row of the command table."""

    name: str
    call: Call
    help: str
    parameters: tuple[click.Parameter, ...] = ()
    columns: tuple[str, ...] = ()
    view: output.View = output.render_record
    #: Shown below the response in a table.
    remark: output.Remark = output.empty_remark
    body: Callable[[Invocation, Given], Any] | None = None
    headers: Callable[[Given], dict[str, str]] | None = None
    exit_code: Callable[[Any], int] = exit_success
    #: The call without a mailbox, for operations on all mailboxes.
    everywhere: Call | None = None
    #: Whether the mailbox must be named even if there is only one.
    names_mailbox: bool = False
    #: Seconds that the server may be silent.
    timeout: float = 60.0
    #: Shown on a terminal while the command waits, if it may take long.
    waiting_for: str = ""

    def command(self) -> click.Command:
        """Return the click command that makes the call of this row."""

        def act(invocation: Invocation, **given: Any) -> int:
            return execute(self, invocation, given)

        return command(self.name, act, self.help, self.parameters)


def execute(row: Row, invocation: Invocation, given: Given, client: "ApiClient | None" = None) -> int:
    """Make the call of a row, print its response, and return the exit code.

    `given`: the values of the command's options and arguments. `client`: the client to use, by default that of the
    user's session.
    """
    # The command line is checked before any request.
    body = row.body(invocation, given) if row.body else None
    headers = row.headers(given) if row.headers else {}
    if row.names_mailbox and wanted_mailbox(given) is None:
        raise wrong_usage("Missing mailbox. Name it as an argument or with --account.", "option:--account")
    client = client or invocation.client()
    template = row.everywhere.path if row.everywhere and wanted_mailbox(given) is None else row.call.path
    path = fill_path(template, _path_values(template, client, given))
    pause = invocation.terminal.waiting(row.waiting_for) if row.waiting_for else nullcontext(None)
    from mailbox_appliance.client.http import ApiRequest

    if given.get("all_pages") or given.get("max_results"):
        return _follow_pages(row, invocation, client, path, given)
    with pause as tell:
        answer = client.call(ApiRequest(row.call.method, path, _query(row, given), body, headers, row.timeout, tell))
    output.show_answer(invocation, answer, row.columns, row.view, row.remark)
    return row.exit_code(answer)


def _path_values(template: str, client: "ApiClient", given: Given) -> dict[str, str]:
    return {
        name: resolve_account(client, wanted_mailbox(given)) if name == "accountId" else given[_snake(name)]
        for name in re.findall(r"{(\w+)}", template)
    }


def wanted_mailbox(given: Given) -> str | None:
    """Return the mailbox named on the command line, by `--account` or an argument; None if there is neither.

    Raises Failure if they name different mailboxes.
    """
    wanted = {name for name in (given.get("account"), given.get("mailbox")) if name is not None}
    if len(wanted) > 1:
        raise wrong_usage("Two mailboxes are named. Name one, as an argument or with --account.", "option:--account")
    return wanted.pop() if wanted else None


def fill_path(path: str, values: Mapping[str, str]) -> str:
    """Return the path with a value for each `{parameter}`, URL-quoted so that it is one path segment."""
    from urllib.parse import quote

    for name, value in values.items():
        if value in ("", ".", ".."):
            raise wrong_usage(f"{value!r} is not a valid ID.", f"path:{name}")
        try:
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        except UnicodeEncodeError as error:
            raise wrong_usage("An ID is not valid UTF-8.", f"path:{name}") from error
    return path


def _query(row: Row, given: Given) -> tuple[tuple[str, str], ...]:
    if row.call.method != "GET":
        return ()
    elsewhere = {_snake(name) for name in re.findall(r"{(\w+)}", row.call.path)} | _NOT_IN_QUERY
    return tuple(
        (_camel(name), _query_text(value))
        for name, value in given.items()
        if name not in elsewhere and value is not None
    )


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


# --- Pages ---


def _follow_pages(row: Row, invocation: Invocation, client: "ApiClient", path: str, given: Given) -> int:
    """Fetch and print all pages of a list; return the exit code.

    JSON lines are printed as they arrive. Other formats print all items together, as if they were one page.
    """
    everything: list[Any] = []
    cursor, warnings = None, []
    for answer in _fetch_pages(row, client, path, given):
        items = output.items_of(answer) or []
        warnings += [one for one in answer.get("warnings", ()) if one not in warnings]
        cursor = output.look_up(answer, "data.nextCursor")
        everything += items
        if invocation.format == "ndjson":
            output.show_items(invocation, items)
        invocation.terminal.progress(f"{len(everything)} so far")
    invocation.terminal.progress("")
    gathered: dict[str, Any] = {"data": {"items": everything, "nextCursor": cursor}}
    if warnings:
        gathered["warnings"] = warnings
    if invocation.format != "ndjson":
        output.show_answer(invocation, gathered, row.columns, row.view, row.remark)
    else:
        output.report_beside_items(invocation, gathered)
    return row.exit_code(gathered)


def _fetch_pages(row: Row, client: "ApiClient", path: str, given: Given) -> Iterator[Any]:
    from mailbox_appliance.client.http import ApiRequest

    left = given.get("max_results") or DEFAULT_ALL
    asked = {**given, "limit": given.get("limit") or LARGEST_PAGE}
    while True:
        asked["limit"] = min(asked["limit"], left)
        answer = client.call(ApiRequest("GET", path, _query(row, asked), timeout=row.timeout))
        yield answer
        left -= len(output.items_of(answer) or ())
        cursor = output.look_up(answer, "data.nextCursor")
        # Following the same cursor again would never end.
        if not cursor or left <= 0 or cursor == asked.get("cursor"):
            return
        asked["cursor"] = cursor


# --- The mailbox ---


def resolve_account(client: "ApiClient", wanted: str | None) -> str:
    """Return the ID of a mailbox. `wanted`: an ID, an email address, or None for the only mailbox that the caller has.

    Raises Failure if no mailbox or more than one fits.
    """
    if wanted is not None and "@" not in wanted:
        return wanted
    from mailbox_appliance.client.http import ApiRequest

    accounts = output.items_of(client.call(ApiRequest("GET", "/accounts"))) or []
    if wanted is not None:
        found = [one for one in accounts if str(one["email"]).casefold() == wanted.casefold()]
    else:
        found = accounts
    if len(found) == 1:
        return str(found[0]["id"])
    raise _ambiguous_account(accounts, wanted, len(found))


def _ambiguous_account(accounts: list[Any], wanted: str | None, found: int) -> Failure:
    names = ", ".join(f"{one['id']} ({one['email']})" for one in accounts)
    if not accounts:
        message = "You do not have access to a mailbox. Connect one with `mailbox-appliance accounts add`."
        return Failure("not_found", message, INPUT)
    if wanted is not None and found == 0:
        message = f"You do not have access to a mailbox {wanted}. Your mailboxes: {names}."
        return Failure("not_found", message, INPUT)
    return wrong_usage(f"More than one mailbox fits. Choose one with --account ID: {names}.", "option:--account")


# --- Progress of long work on the store of a running appliance, shown on a terminal ---


GET_STORE = Call("GET", "/admin/store")
#: Seconds between two polls, and the timeout of one.
_EVERY, _WITHIN = 0.5, 5.0


@contextmanager
def show_store_progress(invocation: Invocation, client: "ApiClient", text: str) -> Iterator[None]:
    """Context manager: show `text` on a terminal until the block ends. Once the appliance reports the progress of a job
    on the store, such as a backup, show that instead.
    """
    with invocation.terminal.waiting(text) as tell:
        if not invocation.terminal.stderr.isatty():
            yield
            return
        is_over = threading.Event()
        watcher = threading.Thread(
            target=_poll_store_progress, args=(client, tell, is_over), name="watching", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join(_WITHIN)


def _poll_store_progress(client: "ApiClient", tell: "TellProgress", is_over: threading.Event) -> None:
    from mailbox_appliance.client.http import ApiRequest

    while not is_over.wait(_EVERY):
        try:
            now = look_up(client.call(ApiRequest(GET_STORE.method, GET_STORE.path, timeout=_WITHIN)), "data.progress")
        except Failure:
            continue  # the response itself reports what is wrong
        if isinstance(now, dict) and not is_over.is_set():
            tell(one_line(str(now.get("step") or now.get("work"))), int(now.get("done", 0)), int(now.get("total", 0)))
