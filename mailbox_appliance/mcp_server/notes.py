"""What is said about an answer: what was cut and left out, and how to go on."""

from collections.abc import Iterator
from typing import Any

from mailbox_appliance.mcp_server.cutting import CutList, Prepared
from mailbox_appliance.mcp_server.rendering import list_of, quoted
from mailbox_appliance.mcp_server.untrusted import pointer

_MOST_NAMED = 3
_MOST_LISTS = 10
#: Tools that show recipients of what is no message yet.
_OF_NO_MESSAGES = frozenset({"list_scheduled_emails", "cancel_scheduled_email"})
#: Tools that act, so that asking again acts again, and those that take nothing to ask for less with.
_ASKED_ONCE = frozenset(
    {"modify_emails", "send_email", "forward_email", "create_draft", "update_draft", "delete_draft"}
    | {"cancel_scheduled_email", "get_status"}
)


def of_cuts(made: Prepared, tool: str, list_offset: int | None) -> list[str]:
    """Sentences about what a copy lacks. `list_offset`: where its lists begin, None where the tool has no such say."""
    notes = [*made.hidden.warnings()]
    notes += _of_lists(made.lists, tool, list_offset)
    if made.shortened:
        notes.append(f"Long texts were cut and end with `…`: {_some(made.shortened)}.")
    if made.left_out:
        less = "" if tool in _ASKED_ONCE else " Ask for fewer at once."
        notes.append(f"{made.left_out} values were left out to keep this answer short.{less}")
    return notes


def of_bodies(made: Prepared) -> list[str]:
    """How to read on where a body was cut."""
    found = [(whose, body) for whose, body in _bodies(made, made.data, "") if isinstance(body.get("nextOffset"), int)]
    if len(found) > _MOST_NAMED:
        each = "each `messageId`, and as `offset` the `nextOffset` of its body"
        return [f"{len(found)} bodies go on: call get_email_body with {each}."]
    return [_of_body(whose, body) for whose, body in found]


def of_cursor(made: Prepared, tool: str, next_cursor: str | None) -> list[str]:
    """How to go on with a list."""
    cursor, data = next_cursor, made.data
    if cursor is None and isinstance(data, dict):
        name = list_of(data)
        within = name if name is not None and isinstance(data[name], dict) else None
        holder, at = (data, "") if within is None else (data[within], pointer("", within))
        cursor = _ours(made, holder, at, "nextCursor")
    if cursor is None:
        return []
    return [f"There is more: call {tool} again with `cursor` {quoted(cursor)} and else the same arguments."]


def of_fewer(shown: int, limit: int) -> str:
    """That fewer entries are shown than were asked for."""
    return f"{shown} of the {limit} asked for are shown, to keep this answer short; `nextCursor` goes on behind them."


def _of_lists(lists: list[CutList], tool: str, list_offset: int | None) -> Iterator[str]:
    if list_offset is None and lists:
        names = ", ".join(dict.fromkeys(cut.name for cut in lists))
        most = max(cut.total for cut in lists)
        more = "" if tool in _OF_NO_MESSAGES else ": get_email shows them, with `listOffset`"
        yield f"Not all entries of {names} are shown (there are up to {most}){more}."
        return
    for cut in lists[:_MOST_LISTS]:
        behind = cut.first + cut.shown
        told = (
            f"{cut.shown} of {cut.total} entries of {cut.name} are shown, from number {cut.first} on (0 is the first)"
        )
        more = f": call {tool} again with `listOffset` {behind} for more" if behind < cut.total else ""
        yield f"{told}{more}."


def _some(pointers: list[str]) -> str:
    named = ", ".join(f"/data{at}" for at in pointers[:_MOST_NAMED])
    more = len(pointers) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _bodies(made: Prepared, data: Any, at: str) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Records of bodies, each with the message it belongs to, where that stands beside it."""
    if isinstance(data, list):
        for number, entry in enumerate(data):
            yield from _bodies(made, entry, pointer(at, number))
    elif isinstance(data, dict):
        if "nextOffset" in data and "content" in data:
            yield None, data
        elif isinstance(data.get("body"), dict):
            yield _ours(made, data, at, "id"), data["body"]
        elif (name := list_of(data)) is not None:
            yield from _bodies(made, data[name], pointer(at, name))


def _ours(made: Prepared, holder: dict[str, Any], at: str, name: str) -> str | None:
    """A text that is to be said outside a fence; None where there is none, or a sender wrote it."""
    value = holder.get(name)
    return value if isinstance(value, str) and f"/data{pointer(at, name)}" not in made.pointers else None


def _of_body(whose: str | None, body: dict[str, Any]) -> str:
    message = "the same `messageId`" if whose is None else f"`messageId` {quoted(whose)}"
    total = body.get("totalChars")
    total = f" ({total} characters in all)" if isinstance(total, int) else ""
    return (
        f"The body goes on{total}: call get_email_body with {message}, "
        f"`offset` {body['nextOffset']} and the same `bodyFormat`."
    )
