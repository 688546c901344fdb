"""Pages of the documentation as lists of blocks, and the comparison of what a page shows with what was printed.

`docs/writing-docs.md` describes the markers and the comparison.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Why a block may stay without a run.
REASONS = frozenset(
    (
        *("root", "docker", "download", "provider", "windows", "macos", "desktop", "other-machine", "later"),
        *("fragment", "own-test"),
    )
)
_RUN, _OUTPUT = ("sh", "python"), ("json", "text")
_FENCE = re.compile(r"^( *)(```+)(\w*)[^`]*$")
_MARKER = re.compile(r"^ *<!-- run: *(.*?) *-->$", re.DOTALL)
#: What differs from run to run -> the kind of it. IDs end in a ULID, tokens in 40 characters or more; both may be cut.
_VARYING = (
    (
        re.compile(
            r"\b(acc|mem|msg|thr|fld|att|drf|dlv|key|ses|req|bak|evt|inv|lnk|bkp|aud|mbx[ks]|wrn)_(\w{8,}|\.\.\.)"
        ),
        r"\1_*",
    ),
    (re.compile(r"\b[0-9a-f]{6}(-[0-9a-f]{6}){3}\b"), "<code>"),
    (re.compile(r"\bsha256:(?:[0-9a-fA-F:]{64,}|\.\.\.)"), "sha256:*"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d? \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"/media\b"), "/home/ada"),
)


@dataclass
class Block:
    """A block of a page. `kind` is its language, or `setup` for commands in a marker."""

    kind: str
    text: str
    line: int
    skip: str = ""
    file: str = ""
    fails: int | None = None
    answers: list[str] = field(default_factory=list)
    #: What it is to print: `json` or `text`, and the text of the block that shows it.
    expected: tuple[str, str] | None = None

    @property
    def runs(self) -> bool:
        return (self.kind in _RUN or self.kind == "setup") and not self.skip and not self.file


@dataclass
class Page:
    """A page: its blocks in order, and whether it starts without an appliance."""

    blocks: list[Block]
    fresh: bool = False


def read_page(text: str) -> Page:
    """Read the blocks and markers of a page. Raises ValueError for a marker that is not known."""
    page = Page([])
    skip_all = ""
    before: Block | None = None
    pending: dict[str, Any] = {}
    for kind, content, line in _parts(text):
        if kind == "heading" or (kind, content) == ("marker", "example"):
            before = None
        elif (kind, content) == ("marker", "fresh"):
            page.fresh = True
        elif kind == "marker" and content.startswith("skip-page "):
            skip_all = _reason(content.partition(" ")[2], line)
        elif kind == "marker" and content.startswith("setup"):
            page.blocks.append(Block("setup", content.removeprefix("setup").strip(), line))
        elif kind == "marker":
            pending |= _read_marker(content, line)
        elif before is not None and kind in _OUTPUT and "file" not in pending:
            before.expected = (kind, content)
            before = None
        else:
            block = Block(kind, content, line, **{"skip": skip_all, **pending})
            page.blocks.append(block)
            pending = {}
            before = block if block.runs else None
    return page


def _read_marker(content: str, line: int) -> dict[str, Any]:
    """What a marker says of the next block."""
    word, _, rest = content.partition(" ")
    if word == "skip":
        return {"skip": _reason(rest, line)}
    if word == "input":
        return {"answers": [answer.strip() for answer in rest.split("|")]}
    if word == "fails":
        return {"fails": int(rest)}
    if word == "file":
        return {"file": rest}
    raise ValueError(f"line {line}: no such marker: {content}")


def _reason(word: str, line: int) -> str:
    if word not in REASONS:
        raise ValueError(f"line {line}: no such reason: {word}")
    return word


def _parts(text: str) -> Iterator[tuple[str, str, int]]:
    """The headings, markers and blocks of a page, with their lines."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            margin, end, kind = len(fence[1]), fence[2], fence[3]
            block = []
            for _, inner in lines:
                if inner.strip() == end:
                    break
                block.append(inner[margin:] if inner[:margin].isspace() else inner)
            yield kind or "text-free", "\n".join(block) + "\n", number
        elif line.lstrip().startswith("<!-- run:"):
            comment = line
            while "-->" not in comment:
                comment += "\n" + next(lines)[1]
            marker = _MARKER.match(comment)
            if marker is None:
                raise ValueError(f"line {number}: a marker stands on lines of its own")
            yield "marker", marker[1], number
        elif line.startswith("#"):
            yield "heading", line, number


# --- Comparing ---


def difference(kind: str, expected: str, stdout: str, stderr: str = "") -> str | None:
    """Describe how what was printed differs from what the page shows; None if it does not."""
    if kind == "json":
        try:
            actual = json.loads(stdout)
        except ValueError:
            return f"not JSON: {stdout}{stderr}"
        wanted = json.loads(_with_ellipses(expected))
        return None if _fits(wanted, actual) else f"printed:\n{json.dumps(actual, indent=2, ensure_ascii=False)}"
    printed = stdout if stdout.strip() else stderr
    return None if _lines_fit(_lines(expected), _lines(printed)) else f"printed:\n{printed}"


def parses_as_json(text: str) -> bool:
    """Whether a JSON block can be read, with lines of `...` for what is left out."""
    try:
        json.loads(_with_ellipses(text))
    except ValueError:
        return False
    return True


def _with_ellipses(text: str) -> str:
    """Turn each line `...` into a member or an item, so that the rest can be read as JSON."""
    made: list[str] = []
    open_brackets = previous = ""
    for line in text.splitlines():
        if line.strip().rstrip(",") == "...":
            if previous and previous[-1] not in "{[,":
                made[-1] += ","
            made.append('"...": "..."' if open_brackets[-1:] == "{" else '"..."')
            if line.strip().endswith(","):
                made[-1] += ","
        else:
            made.append(line)
        for bracket in re.sub(r'"(?:[^"\\]|\\.)*"', "", line):
            if bracket in "{[":
                open_brackets += bracket
            elif bracket in "}]":
                open_brackets = open_brackets[:-1]
        previous = made[-1].rstrip() or previous
    return "\n".join(made)


def _fits(wanted: Any, actual: Any) -> bool:
    if wanted == "...":
        return True
    if isinstance(wanted, dict) and isinstance(actual, dict):
        rest = wanted.keys() - {"..."}
        return (rest == actual.keys() or ("..." in wanted and rest <= actual.keys())) and all(
            _fits(wanted[name], actual[name]) for name in rest
        )
    if isinstance(wanted, list) and isinstance(actual, list):
        if wanted[-1:] == ["..."]:
            wanted, actual = wanted[:-1], actual[: len(wanted) - 1]
        return len(wanted) == len(actual) and all(map(_fits, wanted, actual))
    if isinstance(wanted, str) and isinstance(actual, str):
        return _line_fits(_same(wanted), _same(actual))
    return bool(wanted == actual and type(wanted) is type(actual))


def _lines(text: str) -> list[str]:
    """The lines, with what varies and the width of columns made equal."""
    return [" ".join(_same(line).split()) for line in text.splitlines() if line.strip()]


def _same(text: str) -> str:
    for pattern, kind in _VARYING:
        text = pattern.sub(kind, text)
    return text


def _lines_fit(wanted: list[str], actual: list[str]) -> bool:
    if not wanted:
        return not actual
    if wanted[0] == "...":
        return any(_lines_fit(wanted[1:], actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and _line_fits(wanted[0], actual[0]) and _lines_fit(wanted[1:], actual[1:])


def _line_fits(wanted: str, actual: str) -> bool:
    return (
        wanted == actual or re.fullmatch(".*".join(map(re.escape, wanted.split("..."))), actual, re.DOTALL) is not None
    )
