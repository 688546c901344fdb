"""An answer's data as text for a model: what is ours on lines of ours, what a sender wrote in a fence, item by item."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mailbox_appliance.mcp_server import fence
from mailbox_appliance.mcp_server.bounds import as_json, size
from mailbox_appliance.mcp_server.untrusted import RECORD_OF_BODY, Place, within

#: As in a mail. What is not named here comes after these; bodies are last.
_ORDER = {name: number for number, name in enumerate(("from", "to", "cc", "bcc", "replyTo", "subject"))}
_BARE = re.compile(r"[A-Za-z0-9_.:+@/-]+")
_BARE_EMAIL = re.compile(r"""[^\s<>"'(),;]+""")
_NOT_ASCII = re.compile("[^ -~]")
_FLATTENED = "flags"  # its fields say enough by themselves


@dataclass
class Block:
    """One item (a message, an account): our words, a sender's one-line values, and bodies."""

    own_lines: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def untrusted_lines(self) -> list[str]:
        """All that a sender wrote, in the order in which it is shown."""
        return self.lines + self.texts


def rendered(
    first: str, notes: Sequence[str], data: Any, place: Place, last: Sequence[str], quoted: Sequence[str] = ()
) -> str:
    """The whole text: a first line, notes (warnings; `quoted` may hold a sender's words), the items, how to go on."""
    told = (
        [Block(own_lines=["Note, with addresses that others may have chosen:"], lines=list(quoted))] if quoted else []
    )
    found = [*told, *blocks(data, place)]
    number = fence.nonce("\n".join((first, *notes, *last, *(line for block in found for line in _all_lines(block)))))
    lines = [first, *(f"Note: {note}" for note in notes)]
    if any(block.untrusted_lines for block in found):
        lines.append(fence.legend(number))
    lines = _ours(lines)
    for block in found:
        lines += block_lines(block, number)
    return "\n".join(lines + _ours(last))


def block_lines(block: Block, number: str) -> list[str]:
    """An item: its facts on one line, what else is ours, and its fence."""
    lines = [" ".join(block.facts)] if block.facts else []
    lines = _ours(lines + block.own_lines)
    return lines + fence.fenced(block.untrusted_lines, number) if block.untrusted_lines else lines


def blocks(data: Any, place: Place) -> list[Block]:
    """The items of the data: what stands around a list first, then each entry of the list."""
    if isinstance(data, list):
        return _entries(data, place)
    if not isinstance(data, dict):
        return [_alone(data, place)]
    name = list_of(data)
    if name is None:
        return [_block(data, place)]
    around = {key: value for key, value in data.items() if key not in (name, "nextCursor")}
    listed = data[name]
    within_it = within(place, name)
    items = listed if isinstance(listed, list) else listed["items"]
    entries = _entries(items, within_it if isinstance(listed, list) else within(within_it, "items"))
    return [_block(around, place), *entries] if around else entries


def sizes(items: Sequence[Any], place: Place) -> list[int]:
    """Characters that each entry of a list takes as JSON, in the structure and in the text, without its pointers."""
    found = _entries(items, place)[-len(items) :] if items else []
    texts = ("\n".join(block_lines(block, "0" * fence.DIGITS)) for block in found)
    return [size(item) + size(text) + 2 for item, text in zip(items, texts, strict=True)]


def list_of(data: Mapping[str, Any]) -> str | None:
    """The field with the list that the data is about: `items`, or one that is itself `{items, nextCursor}`."""
    if isinstance(data.get("items"), list | tuple):
        return "items"
    return next((key for key, value in data.items() if isinstance(value, dict) and _is_page(value)), None)


def quoted(value: str) -> str:
    """A text in JSON quotes, with an escape for each character that is not seen or breaks a line."""
    return _json(value)


def _is_page(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("items"), list | tuple) and value.keys() <= {"items", "nextCursor"}


def _all_lines(block: Block) -> list[str]:
    return block.own_lines + block.facts + block.untrusted_lines


def _ours(lines: Sequence[str]) -> list[str]:
    return [fence.defused(fence.on_one_line(line)) for line in lines]


def _entries(items: Sequence[Any], place: Place | None) -> list[Block]:
    """A block for each entry; before them one with what is the same in all of them, which is said once."""
    inner = within(place, 0)
    found = [_block(item, inner) if isinstance(item, dict) else _alone(item, inner) for item in items]
    same = set[str].intersection(*(set(block.facts) for block in found)) if len(found) > 1 else set[str]()
    common = [fact for fact in found[0].facts if fact in same] if found else []
    for block in found:
        block.facts = ["-", *(fact for fact in block.facts if fact not in same)]
    first = [Block(own_lines=[f"In all of them: {' '.join(common)}"])] if common else []
    return first + found or [Block(own_lines=["(none)"])]


def _alone(value: Any, place: Place | None) -> Block:
    block = Block()
    if place == "text" and isinstance(value, str):
        block.texts.append(value)
    elif place is not None:
        block.lines.append(_json(value))
    else:
        block.facts.append(_token(value))
    return block


def _block(item: Mapping[str, Any], place: Place | None) -> Block:
    block = Block()
    for name in sorted(item, key=lambda key: _ORDER.get(key, len(_ORDER))):
        inner = place.get(name) if isinstance(place, dict) else place
        if inner is None:
            _put_ours(block, name, item[name])
        elif item[name] not in (None, [], {}):
            _put_sent(block, name, item[name], inner)
    return block


def _put_ours(block: Block, name: str, value: Any) -> None:
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        block.own_lines.append(f"{_name(name)}:")
        block.own_lines += [f"  - {' '.join(_facts('', entry))}" for entry in value]
    else:
        block.facts += _facts(_name(name), value)


def _facts(name: str, value: Any) -> Iterator[str]:
    """`name=value` for each value in it; nothing where there is no value."""
    if value is None:
        return
    if isinstance(value, dict):
        start = f"{name}." if name and name != _FLATTENED else ""
        for key, inner in value.items():
            yield from _facts(start + _name(key), inner)
    else:
        yield f"{name}={_token(value)}" if name else _token(value)


def _put_sent(block: Block, name: str, value: Any, place: Place) -> None:
    label = _name(name)
    if place == "text" and isinstance(value, str):
        block.texts += [f"{label}:", value]
    elif isinstance(value, dict) and place == RECORD_OF_BODY:
        block.facts += _facts(label, {key: inner for key, inner in value.items() if key != "content"})
        block.texts += [f"{label}:", str(value.get("content", ""))]
    elif isinstance(value, str):
        block.lines.append(f"{label}: {fence.on_one_line(value)}")
    elif isinstance(value, list) and all(map(_is_address, value)):
        block.lines.append(f"{label}: {', '.join(map(_address, value))}")
    elif isinstance(value, list):
        block.lines += [f"{label}: {_sent_entry(entry)}" for entry in value]
    else:
        block.lines.append(f"{label}: {_sent_entry(value)}")


def _sent_entry(value: Any) -> str:
    if _is_address(value):
        return _address(value)
    if isinstance(value, dict) and value and not any(isinstance(inner, dict | list) for inner in value.values()):
        return " ".join(_facts("", value)) or "{}"
    return _json(value)


def _is_address(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "email" in value
        and value.keys() <= {"email", "name"}
        and all(isinstance(inner, str) for inner in value.values())
    )


def _address(value: Mapping[str, str]) -> str:
    """`"Name" <email>`; an address with characters in it that could be taken for something else stands in quotes."""
    email = value["email"] if _BARE_EMAIL.fullmatch(value["email"]) else quoted(value["email"])
    return f"{quoted(value['name'])} <{email}>" if value.get("name") else email


@lru_cache(512)
def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def _token(value: Any) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else quoted(value)
    if isinstance(value, list) and not any(isinstance(entry, dict | list) for entry in value):
        return f"[{', '.join(map(_token, value))}]"
    return _json(value)


def _json(value: Any) -> str:
    """A value of any shape on one line."""
    text = as_json(value)
    return text if text.isprintable() else _NOT_ASCII.sub(_seen, text)


def _seen(character: re.Match[str]) -> str:
    return character[0] if character[0].isprintable() else json.dumps(character[0])[1:-1]
