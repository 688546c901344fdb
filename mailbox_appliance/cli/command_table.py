"""Commands that are one REST call each. A `Row` describes one: its name, call, options, and output format.

An option's name decides where its value goes: `message_id` fills `{messageId}` in the path, and `--account` fills
`{accountId}`. A member or mailbox may be named by email address. On a GET, every other option is a query parameter of
the same name in camel case. A request body is the one given with --input, or a function of the row makes it from the
options.
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
from mailbox_appliance.cli.groups import command, flag, option
from mailbox_appliance.cli.inputs import read_object, read_whole_body
from mailbox_appliance.cli.output import look_up, one_line
from mailbox_appliance.client.errors import ACCESS, INPUT, Failure, wrong_usage

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient, TellProgress

Given = dict[str, Any]

#: The most items that `--all` fetches, and the most that `--max-results` can ask for.
DEFAULT_ALL, MAX_RESULTS = 1_000, 10_000
LARGEST_PAGE = 100

ACCOUNT = option("--account", "ID|EMAIL", "Mailbox; required if you have access to more than one.")
#: The mailbox as an argument, for commands that are about the mailbox itself.
MAILBOX = click.Argument(["mailbox"], metavar="[ID|EMAIL]", required=False)
PAGES = (
    click.Option(
        ["--limit"], type=click.IntRange(1, LARGEST_PAGE), help=f"Items per page, up to {LARGEST_PAGE} (default 50)."
    ),
    option("--cursor", "CURSOR", "Continue from this nextCursor of an earlier page."),
)
ALL_PAGES = (
    *PAGES,
    flag("--all", f"Fetch all pages, up to {DEFAULT_ALL:,} items.", name="all_pages"),
    option(
        "--max-results",
        "N",
        f"Fetch all pages, up to N items (at most {MAX_RESULTS:,}).",
        type=click.IntRange(1, MAX_RESULTS),
    ),
)
_NOT_IN_QUERY = frozenset({"account", "mailbox", "all_pages", "max_results"})
#: Options that may be given beside the whole body in --input.
_BESIDE_BODY = ("account", "mailbox", "owner", "member", "idempotency_key", "if_match")
_PATH_NAME = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Call:
    """The HTTP method and path of a REST call. The path is below `/api/v1` and has parameters such as `{accountId}`."""

    method: str
    path: str

    def ask(
        self,
        client: "ApiClient",
        body: Any = None,
        *,
        query: tuple[tuple[str, str], ...] = (),
        timeout: float = 60.0,
        **values: Any,
    ) -> Any:
        """Make the call and return the response. `values`: for the parameters of the path. Raises Failure."""
        from mailbox_appliance.client.http import ApiRequest

        return client.call(ApiRequest(self.method, fill_path(self.path, values), query, body, timeout=timeout))


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
    #: Fields that the body has in any case, also one given with --input.
    more_body: Callable[[Invocation, Given], dict[str, Any]] | None = None
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
    body = _request_body(row, invocation, given)
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


def either(own: Row, others: Row, *options: str) -> click.Command:
    """Return a command that makes one of two calls: `others` if one of the named options is given, else `own`."""

    def act(invocation: Invocation, **given: Any) -> int:
        row = others if any(given.get(name) for name in options) else own
        flags = {name for name in options if isinstance(given.get(name), bool)}
        return execute(row, invocation, {name: value for name, value in given.items() if name not in flags})

    return command(own.name, act, own.help, own.parameters)


def _request_body(row: Row, invocation: Invocation, given: Given) -> Any:
    if row.body is None:
        return None
    if given.get("input_") is None:
        body = row.body(invocation, given)
    else:
        body = read_whole_body(invocation.terminal, given, *_BESIDE_BODY, *_path_names(row))
    if row.more_body is None:
        return body
    content = read_object(body, given["input_"]) if isinstance(body, bytes) else body
    return {**content, **row.more_body(invocation, given)}


def _path_names(row: Row) -> list[str]:
    return [_snake(name) for name in _PATH_NAME.findall(row.call.path)]


def _path_values(template: str, client: "ApiClient", given: Given) -> dict[str, str]:
    values: dict[str, Any] = {name: given.get(_snake(name)) for name in _PATH_NAME.findall(template)}
    if "accountId" in values:
        values["accountId"] = resolve_account(client, wanted_mailbox(given))
    if "memberId" in values:
        values["memberId"] = resolve_member(client, values["memberId"])
    return values


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
    elsewhere = _NOT_IN_QUERY.union(_path_names(row))
    return tuple(
        (_camel(name), str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in given.items()
        if name not in elsewhere and value is not None
    )


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


# --- Pages ---


def _follow_pages(row: Row, invocation: Invocation, client: "ApiClient", path: str, given: Given) -> int:
    """Fetch and print all pages: JSON lines as they arrive, other formats as if all items were one page."""
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


# --- Mailboxes and members, named by ID or email address ---


LIST_ACCOUNTS, LIST_MEMBERS = Call("GET", "/accounts"), Call("GET", "/admin/members")


def resolve_member(client: "ApiClient", wanted: str) -> str:
    """Return the ID of a member. `wanted`: an ID or an email address. Only administrators can use an address."""
    if "@" not in wanted:
        return wanted
    try:
        members = output.items_of(LIST_MEMBERS.ask(client)) or []
    except Failure as failure:
        if failure.code != "permission_denied":
            raise
        hint = f"Only administrators can look up members by email. Ask {wanted} for their ID (`whoami` shows it)."
        raise Failure(failure.code, hint, ACCESS, details=failure.details, request_id=failure.request_id) from failure
    for one in members:
        if str(one["email"]).casefold() == wanted.casefold():
            return str(one["id"])
    raise Failure("not_found", f"No member has the email {wanted}.", INPUT)


def resolve_account(client: "ApiClient", wanted: str | None) -> str:
    """Return the ID of a mailbox. `wanted`: an ID, an email address, or None for the only mailbox that the caller has.

    Raises Failure if no mailbox or more than one fits.
    """
    if wanted is not None and "@" not in wanted:
        return wanted
    accounts = output.items_of(LIST_ACCOUNTS.ask(client)) or []
    found = [one for one in accounts if wanted is None or str(one["email"]).casefold() == wanted.casefold()]
    if len(found) == 1:
        return str(found[0]["id"])
    names = ", ".join(f"{one['id']} ({one['email']})" for one in accounts)
    if not accounts:
        message = "You do not have access to a mailbox. Connect one with `mailbox-appliance accounts add`."
    elif not found:
        message = f"You do not have access to a mailbox {wanted}. Your mailboxes: {names}."
    else:
        message = f"More than one mailbox fits. Choose one with --account ID: {names}."
        raise wrong_usage(message, "option:--account")
    raise Failure("not_found", message, INPUT)


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
    while not is_over.wait(_EVERY):
        try:
            now = look_up(GET_STORE.ask(client, timeout=_WITHIN), "data.progress")
        except Failure:
            continue  # the response itself reports what is wrong
        if isinstance(now, dict) and not is_over.is_set():
            tell(one_line(str(now.get("step") or now.get("work"))), int(now.get("done", 0)), int(now.get("total", 0)))
