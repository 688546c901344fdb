"""The reference pages that are generated say what the code says, and the documentation can be built as a site."""

import re
from pathlib import Path

from tests.house import reference, site


def test_generated_pages_are_up_to_date() -> None:
    assert reference.find_stale() == [], "run scripts/docs --update"


def test_every_operation_has_examples() -> None:
    pages = {name: text for name, text in reference.make_pages().items() if name.startswith("http-api/")}
    sections = [part for text in pages.values() for part in text.split("\n## ")[1:] if "· operation `" in part]
    assert len(sections) > 90
    assert [part for part in sections if "```sh\ncurl" not in part or "```python\ncall(" not in part] == []


def test_every_object_has_one_place() -> None:
    text = "\n".join(text for name, text in reference.make_pages().items() if "-objects" in name)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) > 100
    assert len(headings) == len(set(headings))


def test_the_index_lists_every_page() -> None:
    """Pages of a numbered series, and those below an index of their own, are found from there."""
    docs = reference.ROOT / "docs"
    index = (docs / "index.md").read_text("utf-8")
    pages = [str(file.relative_to(docs)) for file in [*docs.glob("*.md"), *docs.glob("*/*.md")]]
    inner = re.compile(r"index\.md|decisions/.*|reference/log-events-\d\.md")
    assert [page for page in sorted(pages) if not inner.fullmatch(page) and f"]({page})" not in index] == []


def test_the_site_builds(tmp_path: Path) -> None:
    """With Zensical's strict checks: a page or an anchor that is not there raises BuildFailed with its place."""
    assert site.build(tmp_path / "site") > 150
    page = (tmp_path / "site" / "docs" / "index.html").read_text("utf-8")
    assert "quick-start.html" in page


def test_the_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site.build(tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    loaded = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=.?https?:|<link\b(?![^>]*canonical)[^>]*\bhref=.?https?:")
    assert [str(page) for page in pages if loaded.search(page.read_text("utf-8"))] == []
