"""The language of help, errors, pages, docstrings and comments: terms, lengths, and the form of summaries."""

from pathlib import Path

import pytest

from tests.house import prose
from tests.house.prose import Prose


def rules_broken_by(text: str, surface: str = "docs") -> list[str]:
    """What is said of a text, without the text itself."""
    found = prose.find(Prose(Path("page.md"), 1, surface, text))
    return [one.rule.partition(": ")[2].partition(":")[0] for one in found]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Sign in before you send a message.", []),
        ("Log in before you send.", ["'Log in' -> sign in, session"]),
        ("You hand over a message.", ["'hand over' -> submit; accepted by the mail server"]),
        ("`log-in` and [doubt](doubt.md) stay: `licence`.", ["'doubt' -> uncertain, unknown"]),
        ("There is no store here. The store is no longer open.", []),
        ("This file is no store.", ["'is no store' -> is not a ..."]),
        ("The licence has expired.", ["'licence' -> US spelling"]),
        (" ".join(["word"] * 41) + ".", ["a sentence of 41 words"]),
        (" ".join(["word"] * 40) + ". " + " ".join(["Word"] * 40) + ".", []),
        ("Word one. " * 41, ["a paragraph of 82 words"]),
    ],
)  # fmt: skip
def test_what_breaks_a_rule(text: str, rules: list[str]) -> None:
    assert rules_broken_by(text) == rules


def test_an_opener_counts_in_docstrings_alone() -> None:
    assert rules_broken_by("What a message holds.", "docstring") == ["opens with 'What'"]
    assert rules_broken_by("Whether a message has a body.", "docstring") == []
    assert rules_broken_by("What a message holds.", "comment") == []


def test_rows_of_a_table_are_no_sentence() -> None:
    rows = "\n".join(f"    part_{number}     holds the things of part {number}" for number in range(12))
    assert rules_broken_by(f"The parts.\n\n{rows}", "docstring") == []


@pytest.fixture(scope="module")
def everything() -> list[Prose]:
    return list(prose.read_all(prose.default_paths()))


def test_all_prose_keeps_the_rules(everything: list[Prose]) -> None:
    assert {one.surface for one in everything} == {"docs", "docstring", "comment", "text", "console"}
    assert [str(finding) for piece in everything for finding in prose.find(piece)] == []
    assert prose.long_pages(everything) == {}


def test_nine_of_ten_sentences_are_short(everything: list[Prose]) -> None:
    lengths = prose.nine_of_ten(everything)
    assert {surface: words for surface, words in lengths.items() if words > prose.NINE_OF_TEN} == {}
