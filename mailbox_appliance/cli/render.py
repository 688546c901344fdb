"""How answers are written: JSON as the API gives it, items line by line, or tables for people.

Mail is written by strangers: characters that steer a terminal or turn the reading direction never reach it as they are.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

#: C1 controls, DEL, direction marks and overrides (Unicode TR 9), line separators, halves of surrogate pairs.
_RISKY = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
_GAP = 2
#: What a column keeps: as long as that does, and at the least.
_COMFORTABLE, _NARROWEST = 12, 8
#: A time as the API writes it, and how much of it is shown where room is short: to the minute, then the day.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_WHOLE_TIME, _TO_THE_MINUTE, _THE_DAY = 24, 16, 10
#: Columns that a column of a table takes at most, where the output is no terminal.
_WIDEST = 60
#: Characters for each column, on average: accents take none, and nobody needs hundreds of them on a letter.
_MOST_MARKS = 8


def json_text(value: Any, *, unicode: bool = True, indent: int | None = None) -> str:
    """JSON of a value. Risky characters are escaped, which changes nothing for a reader of JSON."""
    import json

    text = json.dumps(value, ensure_ascii=not unicode, indent=indent)
    return _RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(text: str) -> str:
    """Text for a terminal, lines kept: what could steer it becomes U+FFFD."""
    return _RISKY.sub("\ufffd", _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """Text for one line of a terminal."""
    return plain(" ".join(text.split()))


def error_text(error: dict[str, Any], form: str) -> str:
    """An error object as one line of JSON, or as sentences for a person."""
    if form != "table":
        return json_text({"error": error}, unicode=False)
    message = one_line(error["message"])
    lines = [f"Error: {message} ({one_line(error['code'])})"]
    # A single detail mostly says what the message says already.
    details = [one for one in error.get("details") or () if one_line(one["message"]).rstrip(".") not in message]
    lines += [f"  {one_line(detail['path'])}: {one_line(detail['message'])}" for detail in details]
    return "\n".join(lines)


#: Fields where nothing means something: what null and the empty list say.
_NOTHING = {"accountIds": ("all", "none")}


def field(name: str, value: Any) -> str:
    """The value of a field in one line: as `cell`, but for fields where null is everything."""
    if name in _NOTHING and not value:
        everything, none = _NOTHING[name]
        return everything if value is None else none
    return cell(value)


def cell(value: Any) -> str:
    """A value in one line: an address, a list, yes or no."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    if isinstance(value, dict):
        return _of_object(value)
    return one_line(str(value))


def _of_object(value: dict[str, Any]) -> str:
    if "email" in value and set(value) <= {"email", "name"}:
        name, email = value.get("name"), one_line(str(value["email"]))
        return f"{one_line(str(name))} <{email}>" if name else email
    return ", ".join(f"{one_line(name)}: {field(name, item)}" for name, item in value.items())


def look_up(item: Any, path: str) -> Any:
    """The value under a dotted path; None where a part of the path is missing."""
    for name in path.split("."):
        item = item.get(name) if isinstance(item, dict) else None
    return item


def table(items: Sequence[Any], columns: Sequence[str], width: int | None) -> str:
    """Aligned columns with their names above.

    Where the terminal is narrow, times are told to the minute, the widest columns give way, and times to the day; ids
    and fingerprints never do.
    Without a terminal no column is wider than 60: what a stranger writes into one row does not pad all the others.
    """
    if not items:
        return "Nothing.\n"
    head = [_heading(column) for column in columns]
    rows = [head, *([field(column, look_up(item, column)) for column in columns] for item in items)]
    may_shrink = [not column.lower().endswith(("id", "fingerprint")) for column in columns]
    if width is None:
        return _written(rows, _widths(rows, may_shrink, _WIDEST))
    for length, narrowest in ((_WHOLE_TIME, width), (_TO_THE_MINUTE, _COMFORTABLE), (_THE_DAY, _NARROWEST)):
        shown, widths = _fitted(rows, columns, may_shrink, width, length, narrowest)
        if _whole(widths) <= width:
            break
    return _written(shown, widths)


def _fitted(
    rows: Sequence[Sequence[str]],
    columns: Sequence[str],
    may_shrink: Sequence[bool],
    width: int,
    length: int,
    least: int,
) -> tuple[Sequence[Sequence[str]], list[int]]:
    """The rows with their times in so many characters, and widths of columns of which none gives up its least."""
    times = {place for place, column in enumerate(columns) if _is_time(column)}
    shown = [[_until(cell, length) if place in times else cell for place, cell in enumerate(row)] for row in rows]
    # What stands above a time gives way as the time does.
    widths = [
        min(length, one) if place in times else one for place, one in enumerate(_widths(shown, may_shrink, width))
    ]
    _narrow(widths, [one and place not in times for place, one in enumerate(may_shrink)], width, least)
    return shown, widths


def _is_time(column: str) -> bool:
    return column.endswith("At") or column.rpartition(".")[2] in ("date", "at")


def _widths(rows: Sequence[Sequence[str]], may_shrink: Sequence[bool], widest: int) -> list[int]:
    needed = [max(display_width(row[place]) for row in rows) for place in range(len(may_shrink))]
    return [min(widest, one) if may else one for one, may in zip(needed, may_shrink, strict=True)]


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _written(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    return "".join(_line(row, widths) for row in rows)


def _until(text: str, length: int) -> str:
    """A time in so many characters; any other text as it is."""
    if length == _WHOLE_TIME or not _TIME.fullmatch(text):
        return text
    return text[:length].replace("T", " ")


def _heading(column: str) -> str:
    """`folder.name` -> FOLDER, `flags.read` -> READ, `lastSyncAt` -> LAST SYNC AT: as short as it is still plain."""
    whole, _, part = column.rpartition(".")
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part)
    if whole and part == "name":
        return whole.upper()
    return spaced.upper() if whole in ("", "flags") else f"{whole} {spaced}".upper()


def _narrow(widths: list[int], may_shrink: Sequence[bool], width: int, narrowest: int) -> None:
    while _whole(widths) > width:
        candidates = [place for place, may in enumerate(may_shrink) if may and widths[place] > narrowest]
        if not candidates:
            return
        widths[max(candidates, key=lambda place: widths[place])] -= 1


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cut(text, width) for text, width in zip(row, widths, strict=True)]
    padded = [text + " " * (width - display_width(text)) for text, width in zip(cells, widths, strict=True)]
    return (" " * _GAP).join(padded).rstrip() + "\n"


def display_width(text: str) -> int:
    """Columns that text takes on a terminal (Unicode TR 11)."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) or unicodedata.category(one) == "Cf" else 2 if _is_wide(one) else 1
        for one in text
    )


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def cut(text: str, width: int) -> str:
    """The beginning of the text that fits, with an ellipsis where something is missing."""
    fitting, used = 0, 0
    for place, character in enumerate(text, 1):
        used += display_width(character)
        if used > width or place > _MOST_MARKS * width:
            return text[:fitting] + "…"
        if used < width:
            fitting = place
    return text


def record(value: Any, prefix: str = "") -> str:
    """One object as a line for each value; what is inside another object is indented below its name."""
    if not isinstance(value, dict):
        return f"{prefix}{cell(value)}\n"
    lines = []
    for name, item in value.items():
        nested = isinstance(item, dict) and not (set(item) <= {"email", "name"})
        if nested and item:
            lines.append(f"{prefix}{one_line(name)}:\n{record(item, prefix + '  ')}")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines.append(f"{prefix}{one_line(name)}:\n" + "".join(f"{prefix}  {cell(one)}\n" for one in item))
        else:
            lines.append(f"{prefix}{one_line(name)}: {field(name, item)}".rstrip() + "\n")
    return "".join(lines)


def body_page(value: Any) -> str:
    """A page of a body as it stands, and how to go on."""
    content, more = plain(value["content"]), value.get("nextOffset")
    end = "" if content.endswith("\n") else "\n"
    go_on = "" if more is None else f"[{more} of {value['totalChars']} characters; go on with --offset {more}]\n"
    return f"{content}{end}{go_on}"


def message(value: Any) -> str:
    """A message as one reads it: who, what, when, the text (of one in a list: its beginning), the attachments."""
    names = ("id", "from", "to", "cc", "bcc", "replyTo", "date", "subject", "labels")
    lines = [f"{name[0].upper()}{name[1:]}: {cell(value[name])}\n" for name in names if value.get(name)]
    body = value.get("body") or {}
    text = body.get("text")
    if text is None:
        text = "(only HTML: see --body-format markdown)" if body.get("html") else value.get("snippet") or ""
    files = [
        f"Attachment: {cell(one['filename'])} ({cell(one['mimeType'])}, {one['sizeBytes']} bytes, {cell(one['id'])})\n"
        for one in value.get("attachments") or ()
    ]
    return "".join([*lines, "\n", plain(text).rstrip("\n"), "\n", *(["\n"] if files else []), *files])
