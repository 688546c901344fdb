"""How answers are written: JSON as the API gives it, items line by line, or tables for people.

Mail is written by strangers: characters that steer a terminal or turn the reading direction never reach it as they are.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

#: C1 controls, DEL, direction marks and overrides (Unicode TR 9), line separators, halves of surrogate pairs.
_RISKY = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
_GAP = 2
_NARROWEST = 8
#: Columns that a column of a table takes at most, where the output is no terminal.
_WIDEST = 60
#: Characters for each column, on average: accents take none, and nobody needs hundreds of them on a letter.
_MOST_MARKS = 8


def json_text(value: Any, *, unicode: bool = True, indent: int | None = None) -> str:
    """JSON of a value. Risky characters are escaped, which changes nothing for a reader of JSON."""
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
    lines = [f"Error: {one_line(error['message'])} ({one_line(error['code'])})"]
    # A single detail mostly says what the message says already.
    details = error.get("details") or ()
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

    The widest columns give way when the terminal is narrow; ids and fingerprints never do.
    Without a terminal no column is wider than 60: what a stranger writes into one row does not pad all the others.
    """
    if not items:
        return "Nothing.\n"
    head = [_heading(column) for column in columns]
    rows = [head, *([field(column, look_up(item, column)) for column in columns] for item in items)]
    widest = _WIDEST if width is None else width
    may_shrink = [not column.lower().endswith(("id", "fingerprint")) for column in columns]
    widths = [max(display_width(row[place]) for row in rows) for place in range(len(columns))]
    widths = [min(widest, needed) if may else needed for needed, may in zip(widths, may_shrink, strict=True)]
    if width is not None:
        _narrow(widths, may_shrink, width)
    return "".join(_line(row, widths) for row in rows)


def _heading(column: str) -> str:
    """`folder.name` -> FOLDER, `flags.read` -> READ, `actor.kind` -> ACTOR KIND: as short as it is still plain."""
    whole, _, part = column.rpartition(".")
    if whole and part == "name":
        return whole.upper()
    return part.upper() if whole in ("", "flags") else f"{whole} {part}".upper()


def _narrow(widths: list[int], may_shrink: list[bool], width: int) -> None:
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        candidates = [place for place, may in enumerate(may_shrink) if may and widths[place] > _NARROWEST]
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
            lines.append(f"{prefix}{one_line(name)}: {field(name, item)}\n")
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
