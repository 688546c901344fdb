"""Renders tool results for an AI agent: text, structured content, notes about what was cut, and errors.

    truncate (limits) -> render_text -> does it fit? -> otherwise the next tighter limits

In the text, strings that a sender of mail wrote are in a fence, between two marks. `present` cuts any data until it
fits. If the tool can be called again for the rest, use `present_page` for an operation that returns its list in pages,
and `present_list` for one that returns the whole list. Data is plain JSON values.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from hashlib import sha256
from itertools import accumulate
from typing import Any

from mailbox_appliance.errors import Detail, Invalid, PolicyDenied, Problem, StoreUnusable
from mailbox_appliance.mail.html.analysis import visible_line
from mailbox_appliance.mcp_server import limits
from mailbox_appliance.mcp_server.limits import (
    BODY_FIELD_TREE,
    LIMIT_STEPS,
    MAX_ERROR_SIZE,
    MAX_RESULT_SIZE,
    NO_UNTRUSTED,
    FieldTree,
    Limits,
    TruncatedData,
    TruncatedList,
    UntrustedFields,
    as_json,
    as_unicode,
    build_field_tree,
    extend_pointer,
    fit_texts,
    json_size,
    shorten,
    split_warnings,
    subtree,
    truncate,
    wire_size,
)
from mailbox_appliance.mcp_server.tool import FileLink, ToolResult

# --- Text for a model: values of the appliance on their own lines, untrusted content in a fence, item by item ---


#: The order of header fields in a mail. Other fields come after these; bodies are last.
_ORDER = {name: number for number, name in enumerate(("from", "to", "cc", "bcc", "replyTo", "subject"))}
_BARE = re.compile(r"[A-Za-z0-9_.:+@/-]+")
_BARE_EMAIL = re.compile(r"""[^\s<>"'(),;]+""")
_NOT_ASCII = re.compile("[^ -~]")
_FLATTENED = "flags"  # its fields say enough by themselves


@dataclass
class ItemBlock:
    """The text of one item, such as a message or a mailbox.

    - own_lines: Lines that the appliance wrote.
    - facts: Short facts that the appliance wrote, such as `unread=3`. They are shown together on one line.
    - lines: One-line values that a sender wrote.
    - texts: Message bodies.
    """

    own_lines: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def untrusted_lines(self) -> list[str]:
        """The lines that a sender wrote, in the order in which they are shown."""
        return self.lines + self.texts


def render_text(
    first: str, notes: Sequence[str], data: Any, place: FieldTree, last: Sequence[str], quoted: Sequence[str] = ()
) -> str:
    """Return the text of a result: the line `first`, notes, the items of the data, and the lines `last` on how to
    continue.

    `place`: the tree of the strings that a sender wrote. `quoted`: warnings that may quote strangers. Both are shown
    between marks of untrusted text.
    """
    told = [ItemBlock(own_lines=["Warnings that may quote other people:"], lines=list(quoted))] if quoted else []
    found = [*told, *to_blocks(data, place)]
    number = limits.new_nonce(
        "\n".join((first, *notes, *last, *(line for block in found for line in _render_all_lines(block))))
    )
    lines = [first, *(f"Note: {note}" for note in notes)]
    if any(block.untrusted_lines for block in found):
        lines.append(limits.fence_legend(number))
    lines = _defuse_lines(lines)
    for block in found:
        lines += render_block(block, number)
    return "\n".join(lines + _defuse_lines(last))


def render_block(block: ItemBlock, number: str) -> list[str]:
    """Return the lines of an item: its facts on one line, other lines of the appliance, and untrusted lines between
    marks.

    `number`: the random number in the marks.
    """
    lines = [" ".join(block.facts)] if block.facts else []
    lines = _defuse_lines(lines + block.own_lines)
    return lines + limits.fence_lines(block.untrusted_lines, number) if block.untrusted_lines else lines


def to_blocks(data: Any, place: FieldTree) -> list[ItemBlock]:
    """Return the text blocks of the data: one for the values beside its main list, then one for each entry of the list.

    `place`: the tree of the strings that a sender wrote.
    """
    if isinstance(data, list):
        return _item_blocks(data, place)
    if not isinstance(data, dict):
        return [_value_block(data, place)]
    if (found := _find_page(data)) is None:
        return [_item_block(data, place)]
    steps, page = found
    around = {key: value for key, value in data.items() if key not in (*(steps or ["items"]), "nextCursor")}
    entries = _item_blocks(page["items"], reduce(subtree, [*steps, "items"], place))
    return [_item_block(around, place), *entries] if around else entries


def item_sizes(items: Sequence[Any], place: FieldTree | None) -> list[int]:
    """Return, for each entry of a list, the number of characters that it takes in a result, in the structured content
    and in the text together.

    The JSON pointers to its untrusted strings are not counted.
    """
    found = _item_blocks(items, place)[-len(items) :] if items else []
    texts = ("\n".join(render_block(block, "0" * limits.NONCE_DIGITS)) for block in found)
    return [json_size(item) + json_size(text) + 2 for item, text in zip(items, texts, strict=True)]


def _find_page(data: Any) -> tuple[list[str], Mapping[str, Any]] | None:
    """Return the page in the data, `{items, nextCursor}`, and the steps to it; None if there is no list in the data.

    It is the data itself if that has `items`, or else the first field whose value is a page.
    """
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("items"), list | tuple):
        return [], data
    return next((([key], value) for key, value in data.items() if isinstance(value, dict) and _is_page(value)), None)


def _is_page(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("items"), list | tuple) and value.keys() <= {"items", "nextCursor"}


def _render_all_lines(block: ItemBlock) -> list[str]:
    return block.own_lines + block.facts + block.untrusted_lines


def _defuse_lines(lines: Sequence[str]) -> list[str]:
    return [limits.defuse_marks(limits.to_one_line(line)) for line in lines]


def _item_blocks(items: Sequence[Any], place: FieldTree | None) -> list[ItemBlock]:
    """Return a text block for each entry of a list, behind one for the facts that all entries share."""
    inner = subtree(place, 0)
    found = [_item_block(item, inner) if isinstance(item, dict) else _value_block(item, inner) for item in items]
    same = set[str].intersection(*(set(block.facts) for block in found)) if len(found) > 1 else set[str]()
    common = [fact for fact in found[0].facts if fact in same] if found else []
    for block in found:
        block.facts = ["-", *(fact for fact in block.facts if fact not in same)]
    first = [ItemBlock(own_lines=[f"All items: {' '.join(common)}"])] if common else []
    return first + found or [ItemBlock(own_lines=["(none)"])]


def _value_block(value: Any, place: FieldTree | None) -> ItemBlock:
    block = ItemBlock()
    if place == "text" and isinstance(value, str):
        block.texts.append(value)
    elif place is not None:
        block.lines.append(_quote(value))
    else:
        block.facts.append(_render_token(value))
    return block


def _item_block(item: Mapping[str, Any], place: FieldTree | None) -> ItemBlock:
    block = ItemBlock()
    for name in sorted(item, key=lambda key: _ORDER.get(key, len(_ORDER))):
        inner = place.get(name) if isinstance(place, dict) else place
        if inner is None:
            _add_own_value(block, name, item[name])
        elif isinstance(inner, dict) and isinstance(item[name], dict) and "id" in item[name]:
            _add_record(block, name, _item_block(item[name], inner))
        elif item[name] not in (None, [], {}):
            _add_sent_value(block, name, item[name], inner)
    return block


def _add_record(block: ItemBlock, name: str, record: ItemBlock) -> None:
    """Add an object with an ID of its own, such as the message of an event."""
    block.facts += [f"{_render_name(name)}.{fact}" for fact in record.facts]
    block.own_lines += record.own_lines
    block.lines += record.lines
    block.texts += record.texts


def _add_own_value(block: ItemBlock, name: str, value: Any) -> None:
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        block.own_lines.append(f"{_render_name(name)}:")
        block.own_lines += [f"  - {' '.join(_facts('', entry))}" for entry in value]
    else:
        block.facts += _facts(_render_name(name), value)


def _facts(name: str, value: Any) -> Iterator[str]:
    """Yield `name=value` for a value, or for each value inside an object; nothing for None."""
    if value is None:
        return
    if isinstance(value, dict):
        start = f"{name}." if name and name != _FLATTENED else ""
        for key, inner in value.items():
            yield from _facts(start + _render_name(key), inner)
    else:
        yield f"{name}={_render_token(value)}" if name else _render_token(value)


def _add_sent_value(block: ItemBlock, name: str, value: Any, place: FieldTree) -> None:
    label = _render_name(name)
    if place == "text" and isinstance(value, str):
        block.texts += [f"{label}:", value]
    elif isinstance(value, dict) and place == BODY_FIELD_TREE:
        block.facts += _facts(label, {key: inner for key, inner in value.items() if key != "content"})
        block.texts += [f"{label}:", str(value.get("content", ""))]
    elif isinstance(value, str):
        block.lines.append(f"{label}: {limits.to_one_line(value)}")
    elif isinstance(value, list) and all(map(_is_address, value)):
        block.lines.append(f"{label}: {', '.join(map(_render_address, value))}")
    elif isinstance(value, list):
        block.lines += [f"{label}: {_render_sent_entry(entry)}" for entry in value]
    else:
        block.lines.append(f"{label}: {_render_sent_entry(value)}")


def _render_sent_entry(value: Any) -> str:
    if _is_address(value):
        return _render_address(value)
    if isinstance(value, dict) and value and not any(isinstance(inner, dict | list) for inner in value.values()):
        return " ".join(_facts("", value)) or "{}"
    return _quote(value)


def _is_address(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "email" in value
        and value.keys() <= {"email", "name"}
        and all(isinstance(inner, str) for inner in value.values())
    )


def _render_address(value: Mapping[str, str]) -> str:
    """Return an address as `"Name" <email>`, with quotes around an email that could mislead a reader."""
    email = value["email"] if _BARE_EMAIL.fullmatch(value["email"]) else _quote(value["email"])
    return f"{_quote(value['name'])} <{email}>" if value.get("name") else email


@lru_cache(512)
def _render_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quote(name)


def _render_token(value: Any) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else _quote(value)
    if isinstance(value, list) and not any(isinstance(entry, dict | list) for entry in value):
        return f"[{', '.join(map(_render_token, value))}]"
    return _quote(value)


def _quote(value: Any) -> str:
    """Return any value as JSON on one line, with an escape for each character that is invisible or breaks a line."""
    text = as_json(value)
    return text if text.isprintable() else _NOT_ASCII.sub(_escape_invisible, text)


def _escape_invisible(character: re.Match[str]) -> str:
    return character[0] if character[0].isprintable() else json.dumps(character[0])[1:-1]


# --- Notes: what was cut or left out, and how to continue ---


_MAX_NAMED = 3
_MAX_LISTS = 10
#: Tools that show recipients of something that is not a message yet.
_TOOLS_WITHOUT_MESSAGES = frozenset({"list_scheduled_emails", "cancel_scheduled_email"})
#: Tools that act, so that another call acts again, and tools without an argument to request less.
_TOOLS_CALLED_ONCE = frozenset(
    {"modify_emails", "send_email", "forward_email", "create_draft", "update_draft", "delete_draft"}
    | {"cancel_scheduled_email", "get_status"}
)


def cut_notes(made: TruncatedData, tool: str, list_offset: int | None) -> list[str]:
    """Return notes about hidden text and about what was cut.

    `made`: the truncated data. `list_offset`: the number of recipients and attachments that were skipped; None if the
    tool has no such argument.
    """
    notes = [*made.hidden.warnings()]
    notes += _list_notes(made.lists, tool, list_offset)
    if made.shortened:
        notes.append(f"Long texts were cut and end with `…`: {_name_some(made.shortened)}.")
    if made.left_out:
        less = "" if tool in _TOOLS_CALLED_ONCE else " Request fewer at once."
        notes.append(f"{made.left_out} values were left out to keep this result short.{less}")
    return notes


def body_notes(made: TruncatedData) -> list[str]:
    """Return notes on how to get the rest of the bodies that were cut."""
    found = [
        (whose, body) for whose, body in _find_bodies(made, made.data, "") if isinstance(body.get("nextOffset"), int)
    ]
    if len(found) > _MAX_NAMED:
        each = "each `messageId` and the `nextOffset` of its body as `offset`"
        return [f"{len(found)} bodies continue: call get_email_body with {each}."]
    return [_body_note(whose, body) for whose, body in found]


def cursor_note(made: TruncatedData, tool: str, next_cursor: str | None) -> list[str]:
    """Return a note on how to get the next page of a list; nothing if there is none.

    `next_cursor`: the cursor, if the tool itself divides the list into pages. None: use the cursor in the data, from
    the operation.
    """
    cursor = next_cursor
    if cursor is None and (found := _find_page(made.data)) is not None:
        steps, page = found
        cursor = _own_text(made, page, reduce(extend_pointer, steps, ""), "nextCursor")
    if cursor is None:
        return []
    return [f"There are more: call {tool} again with `cursor` {_quote(cursor)} and the other arguments unchanged."]


def fewer_note(shown: int, limit: int) -> str:
    """Return a note that fewer entries are shown than were requested."""
    return f"{shown} of the {limit} requested are shown, to keep this result short. `nextCursor` continues after them."


def _list_notes(lists: list[TruncatedList], tool: str, list_offset: int | None) -> Iterator[str]:
    if list_offset is None and lists:
        names = ", ".join(dict.fromkeys(cut.name for cut in lists))
        most = max(cut.total for cut in lists)
        more = "" if tool in _TOOLS_WITHOUT_MESSAGES else ": get_email returns them with `listOffset`"
        yield f"Not all entries of {names} are shown (there are up to {most}){more}."
        return
    for cut in lists[:_MAX_LISTS]:
        behind = cut.first + cut.shown
        told = f"{cut.shown} of {cut.total} entries of {cut.name} are shown, starting at {cut.first} (0 is the first)"
        more = f": call {tool} again with `listOffset` {behind} for more" if behind < cut.total else ""
        yield f"{told}{more}."


def _name_some(pointers: list[str]) -> str:
    named = ", ".join(f"/data{at}" for at in pointers[:_MAX_NAMED])
    more = len(pointers) - _MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _find_bodies(made: TruncatedData, data: Any, at: str) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield each body in the data at the pointer `at`, with the ID of its message; None if it is the data itself."""
    if isinstance(data, list | tuple):
        for number, entry in enumerate(data):
            yield from _find_bodies(made, entry, extend_pointer(at, number))
    elif isinstance(data, dict):
        if "nextOffset" in data and "content" in data:
            yield None, data
        elif isinstance(data.get("body"), dict):
            yield _own_text(made, data, at, "id"), data["body"]
        elif (found := _find_page(data)) is not None:
            steps, page = found
            yield from _find_bodies(made, page["items"], reduce(extend_pointer, [*steps, "items"], at))


def _own_text(made: TruncatedData, holder: Mapping[str, Any], at: str, name: str) -> str | None:
    """Return the text in one field of the object at the pointer `at`, for a note; None if a sender wrote it."""
    value = holder.get(name)
    return value if isinstance(value, str) and f"/data{extend_pointer(at, name)}" not in made.pointers else None


def _body_note(whose: str | None, body: dict[str, Any]) -> str:
    message = "the same `messageId`" if whose is None else f"`messageId` {_quote(whose)}"
    total = body.get("totalChars")
    total = f" ({total} characters in total)" if isinstance(total, int) else ""
    return (
        f"The body continues{total}: call get_email_body with {message}, "
        f"`offset` {body['nextOffset']} and the same `bodyFormat`."
    )


# --- Errors: the API's error object as text ---


INTERNAL_ERROR_TEXT = "Internal error. The log of the appliance has the details under this request ID."
_POLICY_ADVICE = "Tell the user. Do not try other recipients, mailboxes or several messages instead."
_MAX_MESSAGE, _MAX_DETAIL, _MAX_DETAILS, _MAX_REQUEST_ID = 1_000, 300, 50, 100


def is_internal_error(problem: Problem) -> bool:
    """Whether the problem is an internal error, not one that the caller caused."""
    return problem.code == Problem.code or isinstance(problem, StoreUnusable)


def present_error(problem: Problem, request_id: str, *, told: str = INTERNAL_ERROR_TEXT) -> ToolResult:
    """Return an error as a tool result: JSON text in the form of the API's error object, at most 4,000 characters.

    `told`: the message in place of that of an internal error. The message of any other problem includes the seconds to
    wait before a retry, if they are known.
    """
    is_fault = is_internal_error(problem)
    code, message = (Problem.code, told) if is_fault else (problem.code, problem.message)
    if isinstance(problem, PolicyDenied):
        message = f"{shorten(message, _MAX_MESSAGE - len(_POLICY_ADVICE))} {_POLICY_ADVICE}"
    if problem.retry_after is not None and not is_fault:
        message = f"{shorten(message, _MAX_MESSAGE)} Wait {problem.retry_after} seconds."
    details = [] if is_fault else [_detail_json(one) for one in problem.details[:_MAX_DETAILS]]
    error: dict[str, Any] = {
        "code": code,
        "message": _shorten_line(message, _MAX_MESSAGE + 50),
        "requestId": request_id[:_MAX_REQUEST_ID],
    }
    while True:
        text = as_json({"error": error | ({"details": details} if details else {})})
        if not details or len(text) <= MAX_ERROR_SIZE:
            return ToolResult(text, is_error=True)
        details.pop()


def _detail_json(detail: Detail) -> dict[str, str]:
    return {"path": _shorten_line(detail.path, _MAX_DETAIL), "message": _shorten_line(detail.message, _MAX_DETAIL)}


def _shorten_line(text: str, most: int) -> str:
    """Return a text, which may repeat the caller's input, on one line and without invisible characters."""
    return shorten("".join(c if c.isprintable() else " " for c in as_unicode(text[: 2 * most])), most)


# --- Presenting: text and structure, cut until they fit ---


#: The first line of the text, in the appliance's words, or a function that makes it from the data shown.
FirstLine = str | Callable[[Any], str]
#: Returns at most so many entries of a list: data and warnings.
PageReader = Callable[[int], tuple[Any, Sequence[str]]]

_MAX_NOTE_LENGTH, _MAX_QUOTE_READ = 500, 2_000
#: A body cut shorter than this is worth less than other values that could be cut.
_SHORT_BODY = 1_000
#: Number of times a list is read before one entry is accepted; the list may change between reads.
_MAX_PAGE_READS = 4
#: Characters reserved for a note that is added once a list turns out to be too long.
_NOTE_ROOM = 400
#: More entries of a list than ever fit.
_MAX_ITEMS = 28
#: Characters reserved for the offset at which a body continues, wherever it is mentioned.
_OFFSETS_ROOM = 50
_CURSOR = re.compile(r"from-(\d{1,9})-([0-9a-f]{8})")
_MORE_NOTE = " There are more."


@dataclass(frozen=True)
class Presentation:
    """Data to show as a tool result, before it is cut to size.

    - tool: The name of the tool, for notes on how to continue.
    - about: The first line of the text.
    - senders: Paths of the strings that a sender of mail wrote.
    - warnings: Warnings of the operation. One that is not marked as `OwnText` is shown as untrusted text.
    - notes: Sentences of the tool itself.
    - next_cursor: The cursor of the next page, if the tool itself divides a list into pages.
    - undo: The token that undoes an action, beside the data, with its expiry.
    - content: A small file as base64, added to the data as the field `content`.
    - list_offset: Number of recipients and attachments to skip; None if the tool has no such argument.
    """

    data: Any
    tool: str
    about: FirstLine
    senders: UntrustedFields = NO_UNTRUSTED
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    next_cursor: str | None = None
    undo: Any = None
    links: Sequence[FileLink] = ()
    content: str | None = None
    list_offset: int | None = None


def present(answer: Presentation) -> ToolResult:
    """Return data as a tool result that fits the size limit: long strings and lists are cut."""
    return _present_fitting(_drop_large_file(answer))


def present_page(ask: PageReader, limit: int, *, tool: str, about: FirstLine, senders: UntrustedFields) -> ToolResult:
    """Return one page of a list as a tool result, for an operation that returns pages.

    `ask(limit)` reads a page and returns its data and warnings. If the result is too large, it is called again with a
    lower limit, so that the cursor continues after the last item shown. At least one item is shown; if it is too large
    alone, its texts are cut. The data is `{items, nextCursor}`, or an object with one such field (the messages of a
    thread).
    """
    answer = Presentation(None, tool, about, senders)
    return _present_counted(lambda count: _read_page(ask, count, limit, answer), min(limit, _MAX_ITEMS))


def present_list(
    items: Sequence[Any],
    *,
    tool: str,
    about: FirstLine,
    of: str = "",
    cursor: str | None = None,
    limit: int | None = None,
    warnings: Sequence[str] = (),
) -> ToolResult:
    """Return a page of a list whose operation returns all entries (mailboxes, folders, labels).

    The page starts at `cursor` and has at most `limit` entries, fewer if they do not fit. `of`: the mailbox that the
    list belongs to. Raises Invalid for a cursor from another tool or mailbox.
    """
    seal = sha256(f"{tool} {of}".encode()).hexdigest()[:8]
    first = _read_cursor(cursor, seal)
    most = min(len(items) - first, LIMIT_STEPS[0].entries if limit is None else limit)

    def read(number: int) -> Presentation:
        shown = items[first : first + number]
        cursor = f"from-{first + number}-{seal}" if first + number < len(items) else None
        notes = [fewer_note(number, most)] if number < most else ()
        return Presentation(list(shown), tool, about, warnings=warnings, notes=notes, next_cursor=cursor)

    return _present_counted(read, max(most, 0))


def _present_counted(read: Callable[[int], Presentation], limit: int) -> ToolResult:
    """Return entries of a list as a tool result: those that `read(limit)` returns, and fewer until they fit."""
    for _ in range(_MAX_PAGE_READS):
        answer = read(limit)
        made = _truncate_answer(answer, LIMIT_STEPS[0])
        result = _render_answer(answer, made, LIMIT_STEPS[0])
        count = len(_list_items(answer.data))
        if wire_size(result) <= MAX_RESULT_SIZE:
            return result
        if count <= 1:
            return _present_fitting(answer)
        limit = max(1, min(_count_fitting(result, made, answer), count - 1))
    return _present_fitting(read(1))


def _read_page(ask: PageReader, limit: int, asked_for: int, answer: Presentation) -> Presentation:
    data, told = ask(limit)
    is_cut = limit < asked_for and _has_next_page(data)
    fewer = [fewer_note(len(_list_items(data)), asked_for)] if is_cut else []
    return replace(answer, data=data, warnings=told, notes=fewer)


def _read_cursor(cursor: str | None, seal: str) -> int:
    if cursor is None:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[2] != seal:
        raise Invalid.at(
            "/cursor",
            "Invalid cursor. Pass `nextCursor` from the previous page of this list unchanged, or omit it.",
        )
    return int(found[1])


def _present_fitting(answer: Presentation) -> ToolResult:
    """Return the result with the most generous limits that fit the maximum size."""
    for step in LIMIT_STEPS:
        made = _truncate_answer(answer, step)
        if not made.texts and json_size(made.data) > MAX_RESULT_SIZE:
            continue
        result = _render_answer(answer, made, step)
        if wire_size(result) <= MAX_RESULT_SIZE:
            return result
        if made.texts and (found := _present_shorter_texts(answer, step, made.texts)) is not None:
            return found
    return _present_nothing(answer)


def _present_shorter_texts(answer: Presentation, limits: Limits, texts: Sequence[str]) -> ToolResult | None:
    """Return the result with its bodies cut so that it fits; None if they would be too short to be useful."""
    smallest = _present_once(answer, replace(limits, text=1))
    number = fit_texts(texts, MAX_RESULT_SIZE - wire_size(smallest) - len(texts) * _OFFSETS_ROOM)
    if number < min(_SHORT_BODY, limits.text, max(map(len, texts))) // len(texts):
        return None
    result = _present_once(answer, replace(limits, text=min(limits.text, max(number, 1))))
    return result if wire_size(result) <= MAX_RESULT_SIZE else None


def _present_once(answer: Presentation, limits: Limits) -> ToolResult:
    return _render_answer(answer, _truncate_answer(answer, limits), limits)


def _truncate_answer(answer: Presentation, limits: Limits) -> TruncatedData:
    return truncate(answer.data, answer.senders, limits, answer.list_offset or 0)


def _render_answer(answer: Presentation, made: TruncatedData, limits: Limits) -> ToolResult:
    """Return the result for truncated data, with text and notes. Its size is not checked."""
    going_on = body_notes(made)
    cuts = cut_notes(made, answer.tool, answer.list_offset)
    own, quoting = split_warnings(answer.warnings)
    warnings = [*[*own, *answer.notes][: limits.warnings], *cuts, *going_on]
    warnings = [shorten(as_unicode(note), _MAX_NOTE_LENGTH) for note in warnings]
    first = answer.about if isinstance(answer.about, str) else answer.about(made.data)
    more = cursor_note(made, answer.tool, answer.next_cursor)
    last = [*more, *going_on]
    first = shorten(as_unicode(first), _MAX_NOTE_LENGTH) + (_MORE_NOTE if more else "")
    quoted = [
        shorten(visible_line(as_unicode(one[:_MAX_QUOTE_READ]))[0], _MAX_NOTE_LENGTH)
        for one in quoting[: limits.warnings]
    ]
    text = render_text(first, warnings, made.data, build_field_tree(answer.senders), last, quoted)
    return ToolResult(text, _structured_content(made, warnings, quoted, answer), tuple(answer.links), answer.content)


def _structured_content(
    made: TruncatedData, warnings: list[str], quoted: list[str], answer: Presentation
) -> dict[str, Any]:
    pointers = [*made.pointers, *(f"/warnings/{len(warnings) + number}" for number in range(len(quoted)))]
    structured: dict[str, Any] = {"data": made.data, "untrusted": pointers}
    if answer.content is not None and isinstance(made.data, dict):
        structured["data"] = made.data | {"content": answer.content}
        structured["untrusted"] = [*pointers, "/data/content"]
    if warnings or quoted:
        structured["warnings"] = [*warnings, *quoted]
    if answer.next_cursor is not None:
        structured["nextCursor"] = answer.next_cursor
    if answer.undo is not None:
        structured["undo"] = answer.undo
    return structured


def _drop_large_file(answer: Presentation) -> Presentation:
    """Return the answer without its inline file, and with a note, if the file does not fit into the result."""
    if answer.content is None or wire_size(_present_once(answer, LIMIT_STEPS[0])) <= MAX_RESULT_SIZE:
        return answer
    told = "The file is too large to include inline. Download it from the link."
    return replace(answer, content=None, notes=[*answer.notes, told])


def _list_items(data: Any) -> Sequence[Any]:
    if isinstance(data, list | tuple):
        return data
    found = _find_page(data)
    return () if found is None else found[1]["items"]


def _has_next_page(data: Any) -> bool:
    found = _find_page(data)
    return found is not None and found[1].get("nextCursor") is not None


def _count_fitting(result: ToolResult, made: TruncatedData, answer: Presentation) -> int:
    """Return how many entries of a list fit into a result that is too large, from its truncated data."""
    found = _find_page(made.data)
    steps = [] if found is None else [*found[0], "items"]
    at = f"{reduce(extend_pointer, steps, '/data')}/"
    sizes = item_sizes(_list_items(made.data), reduce(subtree, steps, build_field_tree(answer.senders)))
    for pointer in made.pointers:
        number = pointer.removeprefix(at).partition("/")[0]
        if pointer.startswith(at) and number.isdigit():
            sizes[int(number)] += json_size(pointer) + 2
    room = MAX_RESULT_SIZE - _NOTE_ROOM - (wire_size(result) - sum(sizes))
    return bisect_right(list(accumulate(sizes)), room)


def _present_nothing(answer: Presentation) -> ToolResult:
    """Return a result without data. Its text explains that the data is too large to show."""
    told = "This result is too large to show in any form. Request fewer, or one at a time."
    empty: Any = [] if isinstance(answer.data, list | tuple) else {} if isinstance(answer.data, dict) else None
    return ToolResult(f"{answer.tool}: {told}", {"data": empty, "untrusted": [], "warnings": [told]})
