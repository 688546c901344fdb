"""Puts an answer on the terminal in the format that was asked for."""

from collections.abc import Callable, Sequence
from typing import Any

from mailbox_appliance.cli import render
from mailbox_appliance.cli.invocation import Invocation

View = Callable[[Any], str]
#: What a person is told below an answer, made of the whole of it; scripts read the answer.
Remark = Callable[[Any], str]


def no_remark(_answer: Any) -> str:
    """Where an answer speaks for itself."""
    return ""


def items_of(answer: Any) -> list[Any] | None:
    """The items of an answer that is a list or a page of one; None for a single thing."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(data, list):
        return data
    items = data.get("items") if isinstance(data, dict) else None
    return items if isinstance(items, list) else None


def page_of(answer: Any) -> Any:
    """The page that an answer is, or that is part of it: the messages of a thread. None where there is none."""
    places = ("data", "data.messages")
    pages = (render.look_up(answer, place) for place in places)
    return next((page for page in pages if isinstance(page, dict) and isinstance(page.get("items"), list)), None)


def tell_beside(invocation: Invocation, answer: Any) -> None:
    """Tell on the error output, line by line, what is none of the items: warnings, and where the list goes on."""
    page, told = page_of(answer), []
    if warnings := answer.get("warnings"):
        told.append({"warnings": warnings})
    if page and page.get("nextCursor"):
        told.append({"nextCursor": page["nextCursor"]})
    for one in told:
        invocation.terminal.write_error(render.json_text(one, unicode=False))


def show(
    invocation: Invocation,
    answer: Any,
    columns: Sequence[str] = (),
    view: View = render.record,
    remark: Remark = no_remark,
) -> None:
    """Write one answer of the API. `columns` are for a list of things, `view` is for a single one."""
    answer = _as_json(answer)
    if invocation.format == "table":
        _as_table(invocation, answer, columns, view, remark)
    elif invocation.format == "ndjson":
        _line_by_line(invocation, answer)
    else:
        text = render.json_text(answer, unicode=invocation.terminal.writes_unicode, indent=2)
        invocation.terminal.write(text + "\n")


def _as_json(value: Any) -> Any:
    """The same as JSON has it: what was made on the files has tuples where an answer of the API has lists."""
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, list | tuple) else value


def show_items(invocation: Invocation, items: Sequence[Any]) -> None:
    """Write items as lines of JSON."""
    unicode = invocation.terminal.writes_unicode
    invocation.terminal.write("".join(render.json_text(item, unicode=unicode) + "\n" for item in items))


def _line_by_line(invocation: Invocation, answer: Any) -> None:
    page, items = page_of(answer), items_of(answer)
    if page is not None:
        items = page["items"]
    elif items is None:
        items = [answer["data"] if isinstance(answer, dict) and "data" in answer else answer]
    show_items(invocation, items)
    tell_beside(invocation, answer)


def _as_table(invocation: Invocation, answer: Any, columns: Sequence[str], view: View, remark: Remark) -> None:
    terminal, items = invocation.terminal, items_of(answer)
    if items is not None:
        names = columns or tuple(items[0] if items and isinstance(items[0], dict) else ())
        text = render.table(items, names, terminal.width())
    else:
        data = answer.get("data", answer)
        text = "Done.\n" if data is None else view(data)
    text += remark(answer)
    encoding = getattr(terminal.stdout, "encoding", None) or "utf-8"
    terminal.write(text.encode(encoding, "replace").decode(encoding))
    for warning in answer.get("warnings", ()):
        terminal.write_error(f"Warning: {render.one_line(str(warning))}")
    if cursor := (page_of(answer) or {}).get("nextCursor"):
        terminal.write_error(f"There is more: --cursor {render.one_line(str(cursor))}")
