"""Which strings of an answer a sender of mail wrote: named by patterns, found as JSON pointers (RFC 6901)."""

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Literal

_ADDRESS = ("email", "name")

#: What the patterns say of a place: a sender's line, a sender's text, or what is said of the places within it.
Kind = Literal["line", "text"]
Place = Kind | dict[str, "Place"]


@dataclass(frozen=True)
class Senders:
    """Where a sender's words stand in the data of an answer: paths such as `items/*/subject`, `*` for every entry.

    What stands at `lines` is shown on one line, what stands at `texts` (a body) as it is. Where a path leads to an
    object or a list, every string in it counts. Paths that lead nowhere are passed over.
    """

    lines: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def with_prefix(self, path: str) -> "Senders":
        """The same further down: `MESSAGE.under("items/*")`."""
        return Senders(tuple(f"{path}/{line}" for line in self.lines), tuple(f"{path}/{text}" for text in self.texts))

    def __add__(self, other: "Senders") -> "Senders":
        return Senders(self.lines + other.lines, self.texts + other.texts)


@lru_cache(128)
def places(senders: Senders) -> Place:
    """The patterns as a tree. A shorter path that leads to an object covers the longer ones through it."""
    root: dict[str, Place] = {}
    for path in sorted(senders.texts, key=len, reverse=True):
        _plant(root, path.split("/"), "text")
    for path in sorted(senders.lines, key=len, reverse=True):
        _plant(root, path.split("/"), "line")
    return root


def _plant(tree: dict[str, Place], path: list[str], kind: Kind) -> None:
    for step in path[:-1]:
        further = tree.setdefault(step, {})
        if not isinstance(further, dict):
            return
        tree = further
    tree[path[-1]] = kind


def within(place: Place | None, step: str | int) -> Place | None:
    """What the patterns say of a field (a name) or an entry (a number) of a place."""
    if isinstance(place, dict):
        return place.get("*" if isinstance(step, int) else step)
    return place


def pointer(start: str, step: str | int) -> str:
    """One step further in a JSON pointer (RFC 6901 3)."""
    if isinstance(step, str) and ("~" in step or "/" in step):
        step = step.replace("~", "~0").replace("/", "~1")
    return f"{start}/{step}"


def _fields(path: str, *names: str) -> Senders:
    return Senders(tuple(f"{path}/{name}" for name in names))


NOBODY = Senders()
#: What the patterns say of the record of a body: that a sender wrote its content.
RECORD_OF_BODY: Place = {"content": "text"}
#: Content of a body, where a body's record is the data itself; `BODY.under("body")` within a message.
BODY = Senders(texts=("content",))
ATTACHMENTS = _fields("attachments/*", "filename", "mimeType", "contentId")
RECIPIENTS = reduce(add, (_fields(f"{field}/*", *_ADDRESS) for field in ("to", "cc", "bcc", "replyTo")))
#: A message as in a list, and as it is read (then with its body).
MESSAGE = (
    _fields("from", *_ADDRESS)
    + RECIPIENTS
    + Senders(("subject", "snippet"))
    + _fields("searchContext", "excerpt")
    + ATTACHMENTS
    + BODY.with_prefix("body")
)
MESSAGES = MESSAGE.with_prefix("items/*")
THREAD = Senders(("subject",)) + MESSAGES.with_prefix("messages")
SCHEDULED = _fields("to/*", *_ADDRESS) + Senders(("subject",))
PREVIEW = RECIPIENTS + Senders(("subject",)) + ATTACHMENTS
#: A link to an attachment.
LINK = Senders(("filename", "mimeType"))
