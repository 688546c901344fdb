"""The tables of the pages about performance, made from the history of the figures and from what grows with a store."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from benchmarks import growth, history, plot
from benchmarks.figures import number, table
from benchmarks.history import Record, current
from benchmarks.measurements import MEASUREMENTS

PAGES = (history.FILE.with_suffix(".md"), history.FILE.with_name("performance-figures.md"))
PLOT = history.ROOT / "docs" / "images" / "growth.svg"
_EARLIER = 3
_BLOCK = re.compile(r"(<!-- bench: (?!end)([\w-]+) -->\n).*?(<!-- bench: end -->)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """A row of a table for readers: its text, and patterns of the names of its figures, with a slash between them."""

    text: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Short:
    """A row for users: its text, and the name of its figure. `is_value`: the value, and not what it was made of."""

    text: str
    pattern: str
    is_value: bool = False


IN_SHORT = (
    Short("List 50 of 1,000,000 messages", "list 50, 1,000,000: p95*"),
    Short("Search a common word among 1,000,000 messages", "search: common word, 1,000,000: p95*"),
    Short("Send a message, until the reply is recorded (p95)", "p95 of a send over smtplib's"),
    Short("Send one message after the other", "sends over smtplib, 1 at once"),
    Short("New mail, from the server's notice to the API", "p95 of 100 deliveries*"),
    Short("First sync of 20,000 messages", "first sync of 20,000 over mbsync"),
    Short("Watch 300 mailboxes, part of a core", "300 watched mailboxes: idle CPU", is_value=True),
    Short("Start, until the first answer", "first 200, existing*"),
    Short("Idle memory", "idle memory (RSS)*", is_value=True),
)
#: Beside a peer or a floor that is measured in the same run.
GOALS = (
    Row(
        "Sends a second over smtplib (a new connection each), 1 at once / 8 at once / 20 mailboxes over one",
        ("sends over smtplib, 1 at once", "sends over smtplib, 8 at once", "20 mailboxes over one*"),
    ),
    Row(
        "First sync of 20,000 over mbsync / over mbsync and `notmuch new`",
        ("first sync of 20,000 over mbsync", "first sync of 20,000 over mbsync + notmuch new"),
    ),
    Row(
        "1,000,000 messages, p95 over GET `/me`: list / get / thread",
        ("list*, 1,000,000*over*/me*", "get, 1,000,000*over*/me*", "thread, 1,000,000*over*/me*"),
    ),
    Row("The same: each search over its bare SQL on one warm connection", ("search*1,000,000*over*SQL*",)),
    Row("The same searches over notmuch", ("search*1,000,000*over*notmuch*",)),
    Row(
        "Common word with a short prefix / in a tiny folder, over a common word",
        ("*short prefix*over a common word*", "*tiny folder*over a common word*"),
    ),
    Row("All of these at 5,000,000 messages in 300 mailboxes over 1,000,000", ("*5,000,000*over*1,000,000*",)),
    Row("Idle memory with a mailbox / with HTTPS and 100 mailboxes", ("idle memory (RSS)", "idle memory*100*")),
    Row(
        "First 200 on an existing directory / `emails list` / `--help`, over an empty Python",
        ("first 200, existing*over*", "emails list*over*", "--help over python*"),
    ),
    Row("GET `/me` over bare WSGI, 8 connections", ("GET /me over bare WSGI",)),
    Row("300 watched mailboxes, processor", ("300 watched mailboxes: idle CPU",)),
    Row("MCP: first call / memory once an agent came", ("first POST /mcp", "memory once somebody came")),
)


def write(records: Sequence[Record], grown: Sequence[growth.Point]) -> None:
    """Write the tables and the plot where they are to be read."""
    tables = blocks(records, grown)
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8"), tables), "utf-8")
    PLOT.write_text(plot.drawn(growth.curves(grown)), "utf-8")


def places(page: str) -> list[str]:
    """The names of the places for tables that a page has."""
    return [found[2] for found in _BLOCK.finditer(page)]


def filled(page: str, tables: Mapping[str, str]) -> str:
    """A page with its tables in the place of those that it had. Raises KeyError for a place that has no table."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", page)


def blocks(records: Sequence[Record], grown: Sequence[growth.Point]) -> dict[str, str]:
    """Each table by the name of its place on the page."""
    newest = current(records)
    return {
        "short": _markdown(("what", "measured"), _in_short(newest)),
        "goals": _markdown(("figure", "measured", "target"), _goals(newest)),
        "missed": _missed(newest),
        "growth": _markdown(("processor time or memory of", *growth.heading(grown), "exponent"), growth.rows(grown)),
        "targets": _markdown(("name", "figure", "baseline or peer", "targets"), _targets(newest)),
        "figures": f"```text\n{all_figures(newest, records)}\n```",
    }


def all_figures(shown: Iterable[Record], records: Sequence[Record]) -> str:
    """One table: figure, value, target, how it was measured, beside what, the earlier values, and who else was busy."""
    rows = [("figure", "value", "target", "", "others", "measured", "beside", "earlier")]
    order = list(MEASUREMENTS)
    for each in sorted(shown, key=lambda one: order.index(one.measurement)):
        figure = each.figure
        verdict = "holds" if figure.holds else "MISSED"
        others = "" if each.busy is None else f"{each.busy.others:.0%}"
        words = (figure.measured, figure.beside, _earlier(each, records))
        rows.append((figure.name, each.result.text, figure.wanted, verdict, others, *words))
    return table(rows)


def _earlier(record: Record, records: Iterable[Record]) -> str:
    """The values before this one, with the date and the target of each, the newest first."""
    before = [each for each in records if each.figure.name == record.figure.name and each.date < record.date]
    return "; ".join(
        f"{number(each.figure.value)} ({each.figure.wanted}, {each.date[:10]})" for each in before[: -_EARLIER - 1 : -1]
    )


def _matching(records: Iterable[Record], pattern: str) -> list[Record]:
    return [each for each in records if fnmatchcase(each.figure.name, pattern)]


def _in_short(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for row in IN_SHORT:
        for found in _matching(records, row.pattern)[:1]:
            yield row.text, found.result.text if row.is_value else found.figure.measured


def _goals(records: Sequence[Record]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for row in GOALS:
        each = [_matching(records, pattern) for pattern in row.patterns]
        rows.append((row.text, " / ".join(map(_values, each)), " / ".join(map(_wanted, each))))
    return rows


def _values(records: Sequence[Record]) -> str:
    """One value, or from the smallest to the largest of several figures that belong together."""
    if not records:
        return "not measured"
    values = sorted(each.figure.value for each in records)
    if len(records) == 1:
        return records[0].result.text
    return f"{number(values[0])} to {number(values[-1])}{records[0].figure.unit}"


def _wanted(records: Sequence[Record]) -> str:
    return ", ".join(dict.fromkeys(each.figure.wanted for each in records)) or "-"


def _missed(records: Sequence[Record]) -> str:
    rows = [
        (each.figure.name, each.result.text, each.figure.wanted, each.date[:10])
        for each in records
        if not each.figure.holds
    ]
    return _markdown(("figure", "measured", "target", "date"), rows) if rows else "All figures meet their targets."


def _targets(records: Sequence[Record]) -> list[tuple[str, ...]]:
    return [
        (f"`{name}`", one.about, one.beside, _wanted([each for each in records if each.measurement == name]))
        for name, one in MEASUREMENTS.items()
    ]


def _markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heading, *rows)]
    return "\n".join([lines[0], "|---" * len(heading) + "|", *lines[1:]])
