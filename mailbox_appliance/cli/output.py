"""Formats the output of commands: JSON, JSON lines, and tables and texts for people.

Mail is untrusted: characters that control a terminal or change the text direction are never printed unchanged.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.client.errors import NETWORK, UNCERTAIN

#: C1 controls, DEL, direction marks and overrides (Unicode TR 9), line separators, halves of surrogate pairs.
_RISKY = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
_GAP = 2
#: Smallest widths of a column: as long as there is space, and at the least.
_COMFORTABLE, _NARROWEST = 12, 8
#: A time in the API's format, and its length in full and cut for narrow tables: to the minute, then the day.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_WHOLE_TIME, _TO_THE_MINUTE, _THE_DAY = 24, 16, 10
#: The widest column of a table if the output is not a terminal.
_WIDEST = 60
#: Average characters per column. Combining accents take no column, so without a limit one letter could carry hundreds.
_MOST_MARKS = 8


def json_text(value: Any, *, unicode: bool = True, indent: int | None = None) -> str:
    """Return a value as JSON. Characters that could control a terminal are escaped, which JSON parsers undo.

    `unicode`: keep other characters outside ASCII.
    """
    import json

    text = json.dumps(value, ensure_ascii=not unicode, indent=indent)
    return _RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_text(text: str) -> str:
    """Return text for a terminal, keeping its line breaks. Characters that could control the terminal become U+FFFD."""
    return _RISKY.sub("\ufffd", _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """Return text for a terminal as one line, without characters that could control the terminal."""
    return plain_text(" ".join(text.split()))


def error_text(error: dict[str, Any], form: str) -> str:
    """Return an error object as sentences if `form` is `table`, else as one line of JSON."""
    if form != "table":
        return json_text({"error": error}, unicode=False)
    message = one_line(error["message"])
    lines = [f"Error: {message} ({one_line(error['code'])})"]
    # A single detail usually repeats the message.
    details = [one for one in error.get("details") or () if one_line(one["message"]).rstrip(".") not in message]
    lines += [f"  {one_line(detail['path'])}: {one_line(detail['message'])}" for detail in details]
    return "\n".join(lines)


#: Fields whose empty values have a meaning: the texts for null and for the empty list.
_NOTHING = {"accountIds": ("all", "none")}


def field_text(name: str, value: Any) -> str:
    """Return the value of a named field as one line for people.

    In some fields null means everything and an empty list means nothing; such a value becomes a word.
    """
    if name in _NOTHING and not value:
        everything, none = _NOTHING[name]
        return everything if value is None else none
    return cell_text(value)


def cell_text(value: Any) -> str:
    """Return a JSON value as one line for people: an address as `Name <a@b>`, a list with commas, a boolean as yes or
    no.
    """
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell_text(item) for item in value)
    if isinstance(value, dict):
        return _object_text(value)
    return one_line(str(value))


def _object_text(value: dict[str, Any]) -> str:
    if "email" in value and set(value) <= {"email", "name"}:
        name, email = value.get("name"), one_line(str(value["email"]))
        return f"{one_line(str(name))} <{email}>" if name else email
    return ", ".join(f"{one_line(name)}: {field_text(name, item)}" for name, item in value.items())


def look_up(item: Any, path: str) -> Any:
    """Return the value at a dotted path such as `folder.name`; None if a part of the path is missing."""
    for name in path.split("."):
        item = item.get(name) if isinstance(item, dict) else None
    return item


def render_table(items: Sequence[Any], columns: Sequence[str], width: int | None) -> str:
    """Return items as a table with headings. `columns`: a dotted path for each. `width`: of the terminal, None without
    one.

    In a narrow terminal, times are cut to the minute, then the widest columns shrink, then times are cut to the day.
    IDs and fingerprints are never cut. Without a terminal, no column is wider than 60 characters, so that one long
    value does not pad all rows.
    """
    if not items:
        return "No results.\n"
    head = [_heading(column) for column in columns]
    rows = [head, *([field_text(column, look_up(item, column)) for column in columns] for item in items)]
    may_shrink = [not column.lower().endswith(("id", "fingerprint")) for column in columns]
    if width is None:
        return _align_rows(rows, _widths(rows, may_shrink, _WIDEST))
    times = {
        place
        for place, column in enumerate(columns)
        if column.endswith("At") or column.rpartition(".")[2] in ("date", "at")
    }
    for length, narrowest in ((_WHOLE_TIME, width), (_TO_THE_MINUTE, _COMFORTABLE), (_THE_DAY, _NARROWEST)):
        shown = [
            [_cut_time(cell, length) if place in times else cell for place, cell in enumerate(row)] for row in rows
        ]
        widths = _widths(shown, may_shrink, width)
        for place in times:  # the heading shrinks with the values
            widths[place] = min(length, widths[place])
        shrinking = [place for place, may in enumerate(may_shrink) if may and place not in times]
        while (too_wide := sum(widths) + _GAP * (len(widths) - 1) > width) and any(
            widths[place] > narrowest for place in shrinking
        ):
            widths[max(shrinking, key=lambda place: widths[place])] -= 1
        if not too_wide:
            break
    return _align_rows(shown, widths)


def _widths(rows: Sequence[Sequence[str]], may_shrink: Sequence[bool], widest: int) -> list[int]:
    needed = [max(display_width(row[place]) for row in rows) for place in range(len(may_shrink))]
    return [min(widest, one) if may else one for one, may in zip(needed, may_shrink, strict=True)]


def _align_rows(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    lines = []
    for row in rows:
        cells = [cut_to_width(text, width) for text, width in zip(row, widths, strict=True)]
        padded = [text + " " * (width - display_width(text)) for text, width in zip(cells, widths, strict=True)]
        lines.append((" " * _GAP).join(padded).rstrip() + "\n")
    return "".join(lines)


def _cut_time(text: str, length: int) -> str:
    return text if length == _WHOLE_TIME or not _TIME.fullmatch(text) else text[:length].replace("T", " ")


def _heading(column: str) -> str:
    """Return a short column heading: `folder.name` -> FOLDER, `flags.read` -> READ, `lastSyncAt` -> LAST SYNC AT."""
    whole, _, part = column.rpartition(".")
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part)
    about = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", whole)
    if whole and part == "name":
        return whole.upper()
    return spaced.upper() if whole in ("", "flags") else f"{about} {spaced}".upper()


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text takes (Unicode TR 11)."""
    if text.isascii():
        return len(text)
    width = 0
    for one in text:
        if not unicodedata.combining(one) and unicodedata.category(one) != "Cf":
            width += 2 if unicodedata.east_asian_width(one) in "WF" else 1
    return width


def cut_to_width(text: str, width: int) -> str:
    """Return a text cut to `width` terminal columns, ending with an ellipsis if something was cut."""
    fitting, used = 0, 0
    for place, character in enumerate(text, 1):
        used += display_width(character)
        if used > width or place > _MOST_MARKS * width:
            return text[:fitting] + "…"
        if used < width:
            fitting = place
    return text


def render_record(value: Any, prefix: str = "") -> str:
    """Return an object as text, one line per field. A nested object is indented below its name."""
    if not isinstance(value, dict):
        return f"{prefix}{cell_text(value)}\n"
    lines = []
    for name, item in value.items():
        nested = isinstance(item, dict) and not (set(item) <= {"email", "name"})
        if nested and item:
            lines.append(f"{prefix}{one_line(name)}:\n{render_record(item, prefix + '  ')}")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines.append(f"{prefix}{one_line(name)}:\n" + "".join(f"{prefix}  {cell_text(one)}\n" for one in item))
        else:
            lines.append(f"{prefix}{one_line(name)}: {field_text(name, item)}".rstrip() + "\n")
    return "".join(lines)


def render_body_page(value: Any) -> str:
    """Return the text to print for one page of a long message body. If there is more, a last line names the option for
    the next page.

    `value`: the response of the API with the page.
    """
    content, more = plain_text(value["content"]), value.get("nextOffset")
    end = "" if content.endswith("\n") else "\n"
    go_on = "" if more is None else f"[{more} of {value['totalChars']} characters; continue with --offset {more}]\n"
    return f"{content}{end}{go_on}"


def render_message(value: Any) -> str:
    """Return a message as text for reading: sender, recipients, date, body and attachments.

    Messages in lists have only the beginning of their body.
    """
    names = ("id", "from", "to", "cc", "bcc", "replyTo", "date", "subject", "labels")
    lines = [f"{name[0].upper()}{name[1:]}: {cell_text(value[name])}\n" for name in names if value.get(name)]
    body = value.get("body") or {}
    text = body.get("text")
    if text is None:
        text = "(HTML only: use --body-format markdown)" if body.get("html") else value.get("snippet") or ""
    files = [
        f"Attachment: {cell_text(one['filename'])} "
        f"({cell_text(one['mimeType'])}, {one['sizeBytes']} bytes, {cell_text(one['id'])})\n"
        for one in value.get("attachments") or ()
    ]
    return "".join([*lines, "\n", plain_text(text).rstrip("\n"), "\n", *(["\n"] if files else []), *files])


# --- Printing a response in the requested format ---


View = Callable[[Any], str]
#: Returns a text for people, shown below a response and made from all of it. Scripts get the response alone.
Remark = Callable[[Any], str]


def empty_remark(_answer: Any) -> str:
    """Return an empty text: no remark is printed below the response."""
    return ""


def items_of(answer: Any) -> list[Any] | None:
    """Return the items of a response that is a list or a page; None for a single object."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(data, list):
        return data
    items = data.get("items") if isinstance(data, dict) else None
    return items if isinstance(items, list) else None


def page_of(answer: Any) -> Any:
    """Return the page of items in a response: its `data`, or `data.messages` for a thread. None if neither is a
    page.
    """
    places = ("data", "data.messages")
    pages = (look_up(answer, place) for place in places)
    return next((page for page in pages if isinstance(page, dict) and isinstance(page.get("items"), list)), None)


def report_beside_items(invocation: Invocation, answer: Any) -> None:
    """Print the warnings, the undo token, and the next cursor or position of a response on stderr, one JSON line each.

    Used with --format ndjson, where stdout has only items.
    """
    page, told = page_of(answer), []
    if warnings := answer.get("warnings"):
        told.append({"warnings": warnings})
    if "undo" in answer:
        told.append({"undo": answer["undo"]})
    if page and page.get("nextCursor"):
        told.append({"nextCursor": page["nextCursor"]})
    if page and "nextPosition" in page:
        told.append({"nextPosition": page["nextPosition"], "reset": page["reset"]})
    for one in told:
        invocation.terminal.write_error(json_text(one, unicode=False))


def show_answer(
    invocation: Invocation,
    answer: Any,
    columns: Sequence[str] = (),
    view: View = render_record,
    remark: Remark = empty_remark,
) -> int:
    """Print an API response in the format that the command line requests; return exit code 0.

    For tables: `columns` are the paths shown of each item in a list, `view` formats a single object, and `remark` makes
    the text below.
    """
    answer = _to_json_types(answer)
    if invocation.format == "table":
        _show_table(invocation, answer, columns, view, remark)
    elif invocation.format == "ndjson":
        _show_lines(invocation, answer)
    else:
        text = json_text(answer, unicode=invocation.terminal.writes_unicode, indent=2)
        invocation.terminal.write(text + "\n")
    return 0


def _to_json_types(value: Any) -> Any:
    """Return the value with all tuples replaced by lists, so that results made from files look like API responses."""
    if isinstance(value, dict):
        return {name: _to_json_types(one) for name, one in value.items()}
    return [_to_json_types(one) for one in value] if isinstance(value, list | tuple) else value


def show_items(invocation: Invocation, items: Sequence[Any]) -> None:
    """Print each item as a line of JSON."""
    unicode = invocation.terminal.writes_unicode
    invocation.terminal.write("".join(json_text(item, unicode=unicode) + "\n" for item in items))


def _show_lines(invocation: Invocation, answer: Any) -> None:
    page, items = page_of(answer), items_of(answer)
    if page is not None:
        items = page["items"]
    elif items is None:
        items = [answer["data"] if isinstance(answer, dict) and "data" in answer else answer]
    show_items(invocation, items)
    report_beside_items(invocation, answer)


def _show_table(invocation: Invocation, answer: Any, columns: Sequence[str], view: View, remark: Remark) -> None:
    terminal, items = invocation.terminal, items_of(answer)
    if items is not None:
        names = columns or tuple(items[0] if items and isinstance(items[0], dict) else ())
        text = render_table(items, names, terminal.width())
    else:
        data = answer.get("data", answer)
        text = "Done.\n" if data is None else view(data)
    text += remark(answer)
    encoding = getattr(terminal.stdout, "encoding", None) or "utf-8"
    terminal.write(text.encode(encoding, "replace").decode(encoding))
    for warning in answer.get("warnings", ()):
        terminal.write_error(f"Warning: {one_line(str(warning))}")
    if cursor := (page_of(answer) or {}).get("nextCursor"):
        terminal.write_error(f"More results: --cursor {one_line(str(cursor))}")


# --- The status of deliveries: an exit code for scripts, and plain sentences for people ---


#: Columns of a list of deliveries; a single delivery is shown in full.
DELIVERY_COLUMNS = ("operationId", "kind", "status", "createdAt", "recipients", "subject", "error.code")
_PROGRAM = "mailbox-appliance"
#: Commands that show an operation and that resolve it.
_VERBS = ("delivery-status", "resolve")
#: The most operations that are named one by one.
_MAX_NAMED = 10


def delivery_exit_code(answer: Any) -> int:
    """Return the exit code for a delivery: 3 if uncertain, 5 if failed, 0 if it succeeded or is in progress."""
    return {"uncertain": UNCERTAIN, "failed": NETWORK}.get(look_up(answer, "data.status"), 0)


def delivery_remark(answer: Any) -> str:
    """Return the text below a delivery or a list of deliveries, mainly the next steps for uncertain ones.

    It is empty if there is nothing to add.
    """
    items = items_of(answer)
    if items is None:
        operation = look_up(answer, "data")
        return _remark_on_one(operation) if isinstance(operation, dict) and "operationId" in operation else ""
    return _remark_on_list([one for one in items if look_up(one, "status") == "uncertain"])


def _remark_on_one(operation: dict[str, Any]) -> str:
    name = f"{cell_text(operation['operationId'])}{_account_option(operation)}"
    look, decide = (f"{_PROGRAM} emails {verb} {name}" for verb in _VERBS)
    said = {
        "queued": (
            f"The message waits for its time, its next attempt or an approval. To check it:\n  {look}"
            f"{_cancel_hint(operation)}"
        ),
        "sending": f"Sending is in progress. Check again, or repeat the command with the same key:\n  {look}",
        "failed": "The message was not delivered. To send it after all, use another idempotency key.",
        "uncertain": _uncertain_text("This message", look, decide),
    }.get(str(operation.get("status")))
    return f"\n{said}\n" if said else ""


def _cancel_hint(operation: dict[str, Any]) -> str:
    if not operation.get("scheduleId"):
        return ""
    cancel = f"{_PROGRAM} scheduled cancel {cell_text(operation['scheduleId'])}{_account_option(operation)}"
    return f"\nTo cancel it before then:\n  {cancel}"


def _remark_on_list(operations: list[Any]) -> str:
    if not operations:
        return ""
    names = [cell_text(look_up(one, "operationId")) for one in operations]
    beyond = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    what = "The message" if len(names) == 1 else "The messages"
    who = f"{what} of {', '.join(names[:_MAX_NAMED])}{beyond}"
    look, decide = (f"{_PROGRAM} emails {verb} OPERATION-ID{_account_option(operations[0])}" for verb in _VERBS)
    return f"\n{_uncertain_text(who, look, decide)}\n"


def _account_option(operation: Any) -> str:
    account = look_up(operation, "accountId")
    return f" --account {cell_text(account)}" if account else ""


def _uncertain_text(what: str, look: str, decide: str) -> str:
    return (
        f"UNCERTAIN: {what} may have been delivered. Its last byte was sent, but the mail server's reply\n"
        "is missing or unclear.\n"
        "Do not send it again with another key: recipients could get it twice.\n"
        f"The appliance checks Sent and the inbox for 24 hours. To see the result:\n  {look}\n"
        "If it stays uncertain, ask the recipients, then record the outcome:\n"
        f"  {decide} --outcome succeeded|failed"
    )
