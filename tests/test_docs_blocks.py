"""The commands and programs in README, tutorials, how-to pages and the cookbook run, and print what the pages show."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.test_run import Demo
from tests.servers.docs_pages import Block, Page, difference, parses_as_json, read_page
from tests.servers.docs_world import DOMAIN, MAIL_PASSWORD, PASSWORD, World, copy_world

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(file for kind in ("tutorials", "how-to", "cookbook") for file in sorted((DOCS / kind).glob("*.md"))),
]
#: Of all blocks that could run, at most this share is skipped.
MOST_SKIPPED = 0.4
_SET_UP = f"""
mailbox-appliance serve 2>/dev/null &
until curl -fs -o /dev/null http://127.0.0.1:8025/api/v1; do sleep 0.05; done
echo '{PASSWORD}' | mailbox-appliance setup --name Ada --email ada@{DOMAIN} --password-stdin
echo '{MAIL_PASSWORD}' | mailbox-appliance accounts add --email ada@{DOMAIN} --display-name 'Ada Byron' \
    --imap-host imap.{DOMAIN} --smtp-host smtp.{DOMAIN} --password-stdin
until mailbox-appliance accounts list >~/.accounts; grep -q '"ready"' ~/.accounts; do sleep 0.1; done
mailbox-appliance api-keys create --name docs --profile full --supplemental admin.accounts \
    --supplemental admin.members --supplemental admin.api_keys --supplemental admin.license \
    --supplemental admin.audit >~/.key
kill $! && wait $! || true
"""
_CONTINUE = """
mailbox-appliance serve >/dev/null 2>&1 &
until curl -fs -o /dev/null http://127.0.0.1:8025/api/v1; do sleep 0.05; done
export TOKEN=$(grep -o 'mbxk_[A-Za-z0-9]*' ~/.key)
export ACCOUNT=$(grep -o -m1 'acc_[a-z0-9]*' ~/.accounts)
rm ~/.key ~/.accounts
"""
_WAIT = "for _ in $(seq 200); do curl -fs -o /dev/null http://127.0.0.1:8025/api/v1 && break; sleep 0.05; done"


def page_id(file: Path) -> str:
    return str(file.relative_to(DOCS) if file.is_relative_to(DOCS) else file.name).removesuffix(".md")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world that was set up, with a mailbox in it, and closed."""
    folder = tmp_path_factory.mktemp("docs")
    world = World(folder)
    try:
        outcome = world.run(_SET_UP)
    finally:
        world.close()
    assert outcome.code == 0, outcome
    return folder


@pytest.fixture
def world(page: Page, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    if not page.fresh:
        copy_world(request.getfixturevalue("template"), tmp_path / "world")
    else:
        (tmp_path / "world").mkdir()
    made = World(tmp_path / "world")
    try:
        if not page.fresh:
            outcome = made.run(_CONTINUE)
            assert outcome.code == 0, outcome
        yield made
    finally:
        made.close()


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    return read_page(request.param.read_text("utf-8"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(file, id=page_id(file))
        for file in PAGES
        if any(block.runs for block in read_page(file.read_text("utf-8")).blocks)
    ],
    indirect=True,
)
def test_a_page_runs(page: Page, request: pytest.FixtureRequest) -> None:
    world: World = request.getfixturevalue("world")
    for block in page.blocks:
        run(world, block)


def run(world: World, block: Block) -> None:
    """Run a block, or save it as a file, and compare what it prints."""
    if block.file:
        world.run(f"cat >{block.file} <<'END-OF-BLOCK'\n{block.text}END-OF-BLOCK\n")
    if not block.runs:
        return
    text = block.text
    if block.kind == "python":
        text = f"cat >.block.py <<'END-OF-BLOCK'\n{block.text}END-OF-BLOCK\npython3 .block.py\n"
    outcome = world.run(text, may_fail=block.fails is not None, answers=block.answers)
    assert outcome.code == (block.fails or 0), f"line {block.line}:\n{block.text}\n{outcome.stdout}\n{outcome.stderr}"
    if "mailbox-appliance serve" in block.text:
        world.run(_WAIT)
    if block.expected is not None:
        kind, expected = block.expected
        told = difference(kind, expected, outcome.stdout, outcome.stderr)
        assert told is None, f"line {block.line}:\n{block.text}\nexpected:\n{expected}\n{told}"


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    shown = next(block.text for block in read_page(PAGES[0].read_text("utf-8")).blocks if block.kind == "text")
    demo = Demo(tmp_path)
    try:
        printed = demo.read_until("\nCtrl-C ")
    finally:
        demo.process.terminate()
        demo.process.wait(60)
        assert demo.process.stdout
        demo.process.stdout.close()
    assert len(shown.splitlines()) == 8
    assert difference("text", f"...\n{shown}...\n", printed) is None


@pytest.mark.parametrize("file", PAGES, ids=page_id)
def test_json_can_be_read(file: Path) -> None:
    blocks = read_page(file.read_text("utf-8")).blocks
    assert [block.line for block in blocks if block.kind == "json" and not parses_as_json(block.text)] == []


def test_few_blocks_are_skipped() -> None:
    blocks = [block for file in PAGES for block in read_page(file.read_text("utf-8")).blocks]
    skipped = Counter(
        block.skip for block in blocks if block.kind in ("sh", "python") and block.skip not in ("", "own-test")
    )
    can_run = sum(block.kind in ("sh", "python") for block in blocks)
    assert skipped.total() <= MOST_SKIPPED * can_run, skipped


@pytest.mark.parametrize(
    ("kind", "expected", "printed", "fits"),
    [
        ("json", '{"id": "msg_...", "n": 1}', '{"id": "msg_01m83hvtkkyerkj16wkk85qmkc", "n": 1}', True),
        ("json", '{"id": "msg_..."}', '{"id": "acc_01m83hvtkkyerkj16wkk85qmkc"}', False),
        ("json", '{"n": 1}', '{"n": 2}', False),
        ("json", '{"n": 1}', '{"n": 1, "m": 2}', False),
        ("json", '{\n  "n": 1,\n  ...\n}', '{"n": 1, "m": 2}', True),
        ("json", '{\n  "n": 1\n  ...\n}', '{"n": 1, "m": 2}', True),
        ("json", '[\n  {"n": 1},\n  ...\n]', '[{"n": 1}, {"n": 2}]', True),
        ("json", '[{"n": 1}]', '[{"n": 1}, {"n": 2}]', False),
        ("json", '{"at": "2026-01-01T00:00:00Z"}', '{"at": "2027-11-23T06:35:29.633Z"}', True),
        ("json", '{"n": "..."}', '{"n": {"m": 3}}', True),
        ("text", "ID   NAME\n...", "ID  NAME\nacc_01m83hvtkk  Ada\n", True),
        ("text", "Sent to ... once.", "Sent to bob@example.org once.\n", True),
        ("text", "Sent.", "Sent.\nAgain.", False),
    ],
)
def test_comparing(kind: str, expected: str, printed: str, fits: bool) -> None:
    assert (difference(kind, expected, printed) is None) == fits


def test_markers_are_read() -> None:
    text = (
        "# A\n<!-- run: fresh -->\n<!-- run: setup\na\nb\n-->\n```sh\nx\n```\nIt prints:\n```json\n{}\n```\n"
        "<!-- run: skip root -->\n```sh\ny\n```\n## B\n```json\n{}\n```\n1. List:\n   ```sh\n   z\n   ```\n"
        "<!-- run: file a.toml -->\n```toml\nb = 1\n```\n<!-- run: input one | two -->\n```sh\nw\n```\n"
        "<!-- run: fails 4 -->\n```sh\nv\n```\n"
    )
    page = read_page(text)
    assert page.fresh
    assert [(block.kind, block.text, block.runs) for block in page.blocks] == [
        ("setup", "a\nb", True),
        *[("sh", "x\n", True), ("sh", "y\n", False), ("json", "{}\n", False), ("sh", "z\n", True)],
        *[("toml", "b = 1\n", False), ("sh", "w\n", True), ("sh", "v\n", True)],
    ]
    assert page.blocks[1].expected == ("json", "{}\n")
    assert (page.blocks[5].file, page.blocks[6].answers, page.blocks[7].fails) == ("a.toml", ["one", "two"], 4)
    with pytest.raises(ValueError, match="no such reason: tired"):
        read_page("<!-- run: skip tired -->\n")
