"""An answer's data as it is shown to an assistant: readable text with fences, structure with pointers, both bounded.

    cutting (a bounded, cleaned copy) -> rendering (its text) -> bounds (does it fit?) -> else the next tighter limits

`shown` fits whatever it is given. There are nicer ways where one can ask again: `page` for lists that go on, `whole`
for those that are given at once. Bodies are cut to what fits, wherever they stand. Data is plain: what JSON has.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from mailbox_appliance.errors import Invalid, Problem
from mailbox_appliance.mail.html.analysis import visible_line
from mailbox_appliance.mcp_server import failures, notes, rendering
from mailbox_appliance.mcp_server.bounds import (
    LARGEST,
    TIGHTER,
    Limits,
    items_limit,
    shortened,
    size,
    size_of,
    texts_limit,
    with_texts,
)
from mailbox_appliance.mcp_server.cutting import Prepared, as_unicode, prepared
from mailbox_appliance.mcp_server.tool import Link, Shown
from mailbox_appliance.mcp_server.untrusted import NOBODY, Senders, places, within

#: The first line of the text, in our words; or what makes it of the data as it is shown in the end. Never a sender's.
About = str | Callable[[Any], str]
#: Gives at most so many entries of a list: data and warnings.
Ask = Callable[[int], tuple[Any, Sequence[str]]]

_LONGEST_NOTE, _LOOKED_AT = 500, 2_000
#: A body that is cut shorter than this is worth less than what else could be cut.
_SHORT_BODY = 1_000
#: How often a list is asked for before one entry is settled for; it may change meanwhile.
_MOST_ASKED = 4
#: Room for a note that is added once a list turns out to be too long.
_NOTE_ROOM = 400
#: More entries of a list than ever fit.
_MOST_ITEMS = 28
#: Room for the digits of the offset at which a body goes on, wherever it is told.
_OFFSETS_ROOM = 50
_CURSOR = re.compile(r"from-(\d{1,9})-([0-9a-f]{8})")
_MORE = " There are more."


@dataclass(frozen=True)
class _Answer:
    """What is to be shown, before it is cut."""

    data: Any
    tool: str
    about: About
    senders: Senders = NOBODY
    warnings: Sequence[str] = ()
    next_cursor: str | None = None
    links: Sequence[Link] = ()
    content: str | None = None
    list_offset: int | None = None
    quoting: Sequence[str] = ()


def shown(
    data: Any,
    *,
    tool: str,
    about: About,
    senders: Senders = NOBODY,
    warnings: Sequence[str] = (),
    links: Sequence[Link] = (),
    content: str | None = None,
    list_offset: int | None = None,
    quoting: Sequence[str] = (),
) -> Shown:
    """Data within the bound, whatever it is: recipients and attachments from `list_offset` on, long strings cut.

    `tool` is named where it is told how to go on. `content`: a small file as base64, which is added to the data (an
    object) as `content`. `list_offset` is None where the tool has no such argument. `quoting`: warnings that may quote
    a sender, such as a refused address.
    """
    answer = _Answer(
        data,
        tool,
        about,
        senders,
        warnings,
        links=links,
        content=content,
        list_offset=list_offset,
        quoting=quoting,
    )
    return _fitted(_with_room_for_file(answer))


def page(ask: Ask, limit: int, *, tool: str, about: About, senders: Senders) -> Shown:
    """A list that goes on: `ask(limit)` gives data and warnings, and is asked again for fewer until they fit.

    The data is `{items, nextCursor}`, or an object with one field (a thread's messages) that is that. The cursor so
    goes on behind the last item that is shown. One item at least is shown; one that is too large is cut.
    """
    asked_for, limit = limit, min(limit, _MOST_ITEMS)
    for _ in range(_MOST_ASKED):
        answer = _asked(ask, limit, asked_for, _Answer(None, tool, about, senders))
        made = _made(answer, TIGHTER[0])
        result = _shown(answer, made, TIGHTER[0])
        count = len(_items(answer.data))
        if size_of(result) <= LARGEST:
            return result
        if count <= 1:
            return _fitted(answer)
        limit = max(1, min(_how_many_fit(result, made, answer), count - 1))
    return _fitted(_asked(ask, 1, asked_for, _Answer(None, tool, about, senders)))


def whole(
    items: Sequence[Any],
    *,
    tool: str,
    about: About,
    of: str = "",
    cursor: str | None = None,
    limit: int | None = None,
    warnings: Sequence[str] = (),
) -> Shown:
    """A list that is given at once (accounts, folders, labels): as many from `cursor` on as fit, at most `limit`.

    Raises Invalid for a cursor that is none of this list: of this tool, and of the mailbox `of`.
    """
    seal = sha256(f"{tool} {of}".encode()).hexdigest()[:8]
    first = _first(cursor, seal)
    most = min(len(items) - first, TIGHTER[0].entries if limit is None else limit)
    number = max(most, 0)
    while True:
        cursor = f"from-{first + number}-{seal}" if first + number < len(items) else None
        told = [*warnings, notes.of_fewer(number, most)] if number < most else warnings
        answer = _Answer(list(items[first : first + number]), tool, about, warnings=told, next_cursor=cursor)
        made = _made(answer, TIGHTER[0])
        result = _shown(answer, made, TIGHTER[0])
        if size_of(result) <= LARGEST:
            return result
        if number <= 1:
            return _fitted(answer)
        number = max(1, min(_how_many_fit(result, made, answer), number - 1))


def failure(problem: Problem, request_id: str, *, told: str = failures.OURS) -> Shown:
    """The API's error object as text, at most 4,000 characters; for a fault of ours, `Problem()` and what to say."""
    return Shown(failures.text_of(problem, request_id, told), is_error=True)


def _asked(ask: Ask, limit: int, asked_for: int, answer: _Answer) -> _Answer:
    data, told = ask(limit)
    is_cut = limit < asked_for and _goes_on(data)
    fewer = [notes.of_fewer(len(_items(data)), asked_for)] if is_cut else []
    return replace(answer, data=data, warnings=[*told, *fewer])


def _first(cursor: str | None, seal: str) -> int:
    if cursor is None:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[2] != seal:
        raise Invalid.at("/cursor", "This is no cursor of this list. Leave it out to begin anew.")
    return int(found[1])


def _fitted(answer: _Answer) -> Shown:
    """The first form that fits, from the fullest on."""
    for limits in TIGHTER:
        made = _made(answer, limits)
        if not made.texts and size(made.data) > LARGEST:
            continue
        result = _shown(answer, made, limits)
        if size_of(result) <= LARGEST:
            return result
        if made.texts and (found := _with_shorter_texts(answer, limits, made.texts)) is not None:
            return found
    return _nothing(answer)


def _with_shorter_texts(answer: _Answer, limits: Limits, texts: Sequence[str]) -> Shown | None:
    """With bodies of the greatest length at which it fits, where that is worth it."""
    smallest = _once(answer, with_texts(limits, 1))
    number = texts_limit(texts, LARGEST - size_of(smallest) - len(texts) * _OFFSETS_ROOM)
    if number < min(_SHORT_BODY, limits.text, max(map(len, texts))) // len(texts):
        return None
    result = _once(answer, with_texts(limits, number))
    return result if size_of(result) <= LARGEST else None


def _once(answer: _Answer, limits: Limits) -> Shown:
    return _shown(answer, _made(answer, limits), limits)


def _made(answer: _Answer, limits: Limits) -> Prepared:
    return prepared(answer.data, answer.senders, limits, answer.list_offset or 0)


def _shown(answer: _Answer, made: Prepared, limits: Limits) -> Shown:
    """A prepared copy with its text and all that is said about it, whether that fits or not."""
    going_on = notes.of_bodies(made)
    cuts = notes.of_cuts(made, answer.tool, answer.list_offset)
    warnings = [*answer.warnings[: limits.warnings], *cuts, *going_on]
    warnings = [shortened(as_unicode(note), _LONGEST_NOTE) for note in warnings]
    first = answer.about if isinstance(answer.about, str) else answer.about(made.data)
    more = notes.of_cursor(made, answer.tool, answer.next_cursor)
    last = [*more, *going_on]
    first = shortened(as_unicode(first), _LONGEST_NOTE) + (_MORE if more else "")
    quoted = [
        shortened(visible_line(as_unicode(one[:_LOOKED_AT]))[0], _LONGEST_NOTE)
        for one in answer.quoting[: limits.warnings]
    ]
    text = rendering.rendered(first, warnings, made.data, places(answer.senders), last, quoted)
    return Shown(text, _structured(made, warnings, quoted, answer), tuple(answer.links), answer.content)


def _structured(made: Prepared, warnings: list[str], quoted: list[str], answer: _Answer) -> dict[str, Any]:
    pointers = [*made.pointers, *(f"/warnings/{len(warnings) + number}" for number in range(len(quoted)))]
    structured: dict[str, Any] = {"data": made.data, "untrusted": pointers}
    if answer.content is not None and isinstance(made.data, dict):
        structured["data"] = made.data | {"content": answer.content}
        structured["untrusted"] = [*pointers, "/data/content"]
    if warnings or quoted:
        structured["warnings"] = [*warnings, *quoted]
    if answer.next_cursor is not None:
        structured["nextCursor"] = answer.next_cursor
    return structured


def _with_room_for_file(answer: _Answer) -> _Answer:
    """Without the file where it does not fit beside what is said about it."""
    if answer.content is None or size_of(_once(answer, TIGHTER[0])) <= LARGEST:
        return answer
    told = "The file is too large to be given inline; the link gives it."
    return replace(answer, content=None, warnings=[*answer.warnings, told])


def _items(data: Any) -> Sequence[Any]:
    if not isinstance(data, dict):
        return data if isinstance(data, list | tuple) else ()
    name = rendering.list_of(data)
    if name is None:
        return ()
    items: Sequence[Any] = data[name] if isinstance(data[name], list | tuple) else data[name]["items"]
    return items


def _goes_on(data: Any) -> bool:
    """Whether more is behind the last entry of a page."""
    name = rendering.list_of(data) if isinstance(data, dict) else None
    holder = data if name is None or name == "items" else data[name]
    return isinstance(holder, dict) and holder.get("nextCursor") is not None


def _how_many_fit(result: Shown, made: Prepared, answer: _Answer) -> int:
    """How many of the first entries of a list that does not fit would."""
    place = places(answer.senders)
    at, found = "/data/", _items(made.data)
    if isinstance(made.data, dict):
        for step in _steps(made.data):
            at, place = f"{at}{step}/", within(place, step) or {}
    sizes = rendering.sizes(found, place)
    for pointer in made.pointers:
        number = pointer.removeprefix(at).partition("/")[0]
        if pointer.startswith(at) and number.isdigit():
            sizes[int(number)] += size(pointer) + 2
    return items_limit(sizes, LARGEST - _NOTE_ROOM - (size_of(result) - sum(sizes)))


def _steps(data: dict[str, Any]) -> list[str]:
    name = rendering.list_of(data) or ""
    return [name] if isinstance(data[name], list | tuple) else [name, "items"]


def _nothing(answer: _Answer) -> Shown:
    """That there is an answer, where not even a little of it fits."""
    told = "This answer is too large to be shown in any form. Ask for fewer, or for one at a time."
    empty: Any = [] if isinstance(answer.data, list | tuple) else {} if isinstance(answer.data, dict) else None
    return Shown(f"{answer.tool}: {told}", {"data": empty, "untrusted": [], "warnings": [told]})
