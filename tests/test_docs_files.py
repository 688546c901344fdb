"""Documents for developers name files that exist, and the map of the code has every folder."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mailbox_appliance"
DOCS = ROOT / "docs"
MAP = DOCS / "architecture.md"
DECISIONS = sorted((DOCS / "decisions").glob("0*.md"))
DOCUMENTS = [MAP, *(DOCS / f"{name}.md" for name in ("contributing", "testing", "glossary")), *DECISIONS]
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
#: What reads as the name of a file or folder of the project. Paths of the API begin with a slash.
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|md|js|html|css))|(?:scripts|tests|docs|packaging)/[\w./*-]+")
#: A line of the tree in the map: the indentation, a folder, and what is said of it.
_FOLDER = re.compile(r"^( *)([\w]+)/ +(.+)$", re.MULTILINE)
_MODULE = re.compile(r"\b\w+\.(?:py|js)\b")


def named_paths(text: str) -> Iterator[str]:
    """The files and folders that a text names in code spans; of a command line its first word."""
    for span in _SPAN.findall(_BLOCK.sub("", text)):
        word = span.split(" ")[0] if span.startswith("scripts/") else span
        if _PATH.fullmatch(word):
            yield word


def is_there(path: str) -> bool:
    """Whether there is such a file, seen from the package, the project or the documents."""
    return any(any(folder.glob(path.rstrip("/"))) for folder in (PACKAGE, ROOT, DOCS))


def tree(text: str) -> dict[str, list[str]]:
    """The tree in the map: folder, seen from the package ("" for itself) -> names of modules that its line has."""
    block = next(block for block in _BLOCK.findall(text) if block.startswith("```\nmailbox_appliance/"))
    folders: dict[str, list[str]] = {}
    above: list[str] = []
    for indentation, name, said in _FOLDER.findall(block):
        depth = len(indentation) // 2
        above = [*above[:depth], name]
        folders["/".join(above[1:])] = _MODULE.findall(said)
    return folders


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_files_that_are_named_exist(file: Path) -> None:
    assert [path for path in named_paths(file.read_text("utf-8")) if not is_there(path)] == []


def test_the_map_has_every_folder() -> None:
    folders = {str(file.parent.relative_to(PACKAGE)) for file in PACKAGE.rglob("__init__.py")} - {"."}
    # These two hold no Python.
    assert tree(MAP.read_text("utf-8")).keys() - {"", "web/console", "web/docs"} == folders


def test_modules_in_the_map_exist() -> None:
    places = [(folder, name) for folder, names in tree(MAP.read_text("utf-8")).items() for name in names]
    assert len(places) > 100
    assert [f"{folder}/{name}" for folder, name in places if not (PACKAGE / folder / name).is_file()] == []


def test_the_map_has_two_pages() -> None:
    lines = MAP.read_text("utf-8").splitlines()
    assert len(lines) <= 130
    assert [line for line in lines if len(line) > 120] == []


def test_decisions_are_numbered() -> None:
    assert [file.name[:4] for file in DECISIONS] == [f"{number:03}-" for number in range(1, len(DECISIONS) + 1)]
    titles = [(file.name, file.read_text("utf-8").partition("\n")[0]) for file in DECISIONS]
    assert [name for name, title in titles if not title.startswith(f"# {name[:3]}: ")] == []


def test_paths_are_found() -> None:
    text = "`sync/plan.py` `store/` `scripts/bench --list` `GET /me` `/accounts/` `run.json`\n```\n`a.py`\n```\n"
    assert list(named_paths(text)) == ["sync/plan.py", "store/", "scripts/bench"]
    assert is_there("web/routes.py")
    assert is_there("tests/test_docs*.py")
    assert not is_there("web/rooms.py")
    assert not is_there("web/rooms-*.py")
    example = "```\nmailbox_appliance/  x\n  mail/  a.py (a word), b.py\n    html/  c.py\n  web/  d.js\n```\n"
    assert tree(example) == {"": [], "mail": ["a.py", "b.py"], "mail/html": ["c.py"], "web": ["d.js"]}
