"""The reference pages that are generated say what the code says, and the documentation can be built as a site."""

from tests.house import reference


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
