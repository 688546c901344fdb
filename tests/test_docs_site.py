"""The reference pages that are generated say what the code says, and the documentation can be built as a site."""

import html
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
    pages = {page.stem: page.read_text("utf-8") for page in (tmp_path / "site" / "docs").rglob("*.html")}
    assert "quick-start.html" in (tmp_path / "site" / "docs" / "index.html").read_text("utf-8")
    # tests are not part of the site, and nothing in the documentation is somebody's address
    assert "secrets at rest <code>tests/store/test_secrets_at_rest.py</code>" in pages["threat-model-people"]
    assert [name for name, page in pages.items() if "mailto:" in html.unescape(page)] == []


def test_a_link_to_a_missing_file_fails(tmp_path: Path) -> None:
    """Also one to a folder without an index, and one whose characters are escaped; other sites are not asked."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "index.html").write_text('<a href="../page.html#x">x</a><a href=../tests/test_it.py>x</a>')
    links = ("there/", "there/#x", "#x", "", "https://example.org/no", "mailto:a@b", "/page.html?q=1", "&#109;issing/")
    (tmp_path / "page.html").write_text("".join(f'<a class="x" href="{link}">x</a>' for link in links))
    assert site.find_dead_links(tmp_path) == [
        "page.html: no file for the link missing/",
        "there/index.html: no file for the link ../tests/test_it.py",
    ]


def test_the_list_of_decisions_is_complete() -> None:
    folder = reference.ROOT / "docs" / "decisions"
    listed = (folder / "index.md").read_text("utf-8").partition("\n- ")[2].splitlines()
    files = sorted(folder.glob("0*.md"))
    titles = [file.read_text("utf-8").splitlines()[0].removeprefix("# ") for file in files]
    wanted = [f"[{title}]({file.name})" for title, file in zip(titles, files, strict=True)]
    assert [line.removeprefix("- ") for line in listed] == wanted


def test_the_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site.build(tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    loaded = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=.?https?:|<link\b(?![^>]*canonical)[^>]*\bhref=.?https?:")
    assert [str(page) for page in pages if loaded.search(page.read_text("utf-8"))] == []
