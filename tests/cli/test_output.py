"""Text for terminals: allowed characters and width."""

import pytest

from mailbox_appliance.cli import output

# fmt: off
WIDTHS: list[tuple[str, int]] = [("abc", 3), ("日本", 4), ("e\u0301", 1), ("ä", 1), ("", 0)]
CUTS: list[tuple[str, int, str]] = [
    ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abc", 1, "…"), ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ("日本語", 5, "日本…"), ("日本語", 4, "日…"), ("", 0, ""),
]
CELLS: list[tuple[object, str]] = [
    (None, "-"), ([], "-"), (True, "yes"), (False, "no"), (3, "3"), ("a\nb", "a b"),
    ("a\x00\x85\x7f", "a\ufffd \ufffd"),
    ({"email": "a@b"}, "a@b"), ({"email": "a@b", "name": "A"}, "A <a@b>"), (["a", "b"], "a, b"), ({"n": 1}, "n: 1"),
    ({"name": "\u2066x"}, "name: \ufffdx"),
]
# fmt: on


@pytest.mark.parametrize(("text", "width"), WIDTHS)
def test_width(text: str, width: int) -> None:
    assert output.display_width(text) == width


@pytest.mark.parametrize(("text", "width", "shown"), CUTS)
def test_cut(text: str, width: int, shown: str) -> None:
    assert output.cut_to_width(text, width) == shown


@pytest.mark.parametrize(("value", "shown"), CELLS)
def test_cell(value: object, shown: str) -> None:
    assert output.cell_text(value) == shown


def test_a_narrow_terminal_cuts_the_widest_columns_but_no_id() -> None:
    items = [{"id": "msg_" + "0" * 26, "subject": "x" * 100, "from": "y" * 50}]
    lines = output.render_table(items, ("id", "subject", "from"), 60).splitlines()
    assert max(output.display_width(line) for line in lines) == 60
    assert items[0]["id"] in lines[1]
    assert output.render_table(items, ("id", "subject", "from"), None).splitlines()[1].endswith("y" * 50)


def test_what_a_stranger_writes_does_not_widen_a_table() -> None:
    items = [
        {"id": "msg_1", "subject": "x" * 100_000, "from": "y" * 50_000},
        {"id": "msg_2", "subject": "e" + "\u0301" * 100_000, "from": "-rf"},
    ]
    lines = output.render_table(items, ("id", "subject", "from"), None).splitlines()
    assert [output.display_width(line) for line in lines] == [
        5 + 2 + 60 + 2 + 4,
        5 + 2 + 60 + 2 + 60,
        5 + 2 + 60 + 2 + 3,
    ]
    assert lines[1].count("…") == 2
    assert len(lines[2]) < 1000
    lines = output.render_table(items, ("id", "subject", "from"), 80).splitlines()
    assert max(output.display_width(line) for line in lines) == 80


def test_an_empty_table_says_so() -> None:
    assert output.render_table([], ("id",), 80) == "No results.\n"


def test_json_for_an_output_without_unicode() -> None:
    assert output.json_text({"a": "ä😀"}, unicode=False) == '{"a": "\\u00e4\\ud83d\\ude00"}'


def test_what_stands_above_a_column() -> None:
    columns = ("name", "memberId", "folder.name", "flags.read", "actor.kind", "invitation.expiresAt", "isOAuth")
    item = {"name": "n", "actor": {"kind": "a"}, "target": {"kind": "t"}}
    first, _ = output.render_table([item], columns, None).splitlines()
    headings = ["NAME", "MEMBER ID", "FOLDER", "READ", "ACTOR KIND", "INVITATION EXPIRES AT", "IS OAUTH"]
    assert first.split("  ") == headings


#: columns of the terminal -> what is left of a time, and of a subject of 30 letters
TIMES = [
    (86, "2026-01-31T09:08:07.123Z", 30),
    (85, "2026-01-31 09:08", 30),
    (60, "2026-01-31 09:08", 12),
    (59, "2026-01-31", 17),
    (50, "2026-01-31", 8),
    (40, "2026-01-31", 8),
]


@pytest.mark.parametrize(("width", "time", "left"), TIMES)
def test_a_time_is_shortened_before_what_says_more(width: int, time: str, left: int) -> None:
    item = {"id": "msg_" + "0" * 24, "date": "2026-01-31T09:08:07.123Z", "subject": "x" * 30}
    head, line = output.render_table([item], ("id", "date", "subject"), width).splitlines()
    assert line.split("  ") == [item["id"], time, "x" * 30 if left == 30 else "x" * (left - 1) + "…"]
    assert head.split() == ["ID", "DATE", "SUBJECT"]
