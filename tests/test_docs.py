"""What there is, is documented: every setting, command and route; and documents name files and commands that exist."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

from mailbox_appliance.cli.groups import Root
from mailbox_appliance.cli.main import ENTRIES
from mailbox_appliance.mail import search
from mailbox_appliance.model.accounts import AccountStatus
from mailbox_appliance.model.deliveries import DeliveryStatus, DeliveryStepName
from mailbox_appliance.model.messages import SearchMatch, SearchNoMatch, SearchScanLimit, SearchUnavailable
from mailbox_appliance.settings import OPTIONS, Option
from mailbox_appliance.version import __version__
from mailbox_appliance.web.openapi import describe
from mailbox_appliance.web.routes import ROUTES

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text("utf-8")
ALL_TEXT = "\n".join(file.read_text("utf-8") for file in DOCUMENTS)
#: A command line in a text, as in `mailbox-appliance https enable --port 443`, with or without the program's name.
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
#: What names the user of the service, who is called as the program is.
_BEFORE_USERS = {"-u", "-o", "--owner", "--group", "chown"}
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def document_id(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_setting_is_documented(option: Option) -> None:
    row = next((line for line in SETTINGS.splitlines() if line.startswith(f"| `{option.name}` |")), "")
    assert option.help.replace("|", "/") in row


def test_every_command_is_documented() -> None:
    names = [name for name, (_, help_text) in ENTRIES.items() if help_text]
    assert [name for name in names if not re.search(rf"`(mailbox-appliance )?{name}\b", ALL_TEXT)] == []


def test_every_status_is_documented() -> None:
    page = (ROOT / "docs/reference/statuses.md").read_text("utf-8")
    excerpts = (SearchMatch, SearchNoMatch, SearchScanLimit, SearchUnavailable)
    names = {*get_args(DeliveryStatus), *get_args(AccountStatus), *get_args(DeliveryStepName)}
    names |= {str(one.__struct_config__.tag) for one in excerpts}
    assert [name for name in names if f"`{name}`" not in page] == []
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) <= names


def test_every_search_operator_is_documented() -> None:
    page = (ROOT / "docs/reference/search.md").read_text("utf-8")
    operators = {f"{key}:" for key in (*search._FIELDS, "after", "before", "label")}
    operators |= {f"{key}:{value}" for key, values in search._MARKS.items() for value in values}
    assert [one for one in operators if f"`{one}" not in page] == []


def test_every_route_is_described() -> None:
    description = describe().decode()
    assert [route.path for route in ROUTES if route.path != "/" and f'"/api/v1{route.path}"' not in description] == []


def test_the_changelog_has_this_release() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_links_lead_somewhere() -> None:
    links = [(file, link) for file in DOCUMENTS for link in re.findall(r"\]\(([^):]+)\)", file.read_text())]
    assert {file.name for file, _ in links} >= {"README.md", "SECURITY.md", "threat-model.md"}
    assert [(file.name, link) for file, link in links if not leads_somewhere(file, link)] == []


def leads_somewhere(file: Path, link: str) -> bool:
    """Whether there is such a file, and such a heading in it."""
    path, _, place = link.partition("#")
    target = file.parent / path if path else file
    return target.exists() and (not place or place in anchors(target.read_text()))


def anchors(text: str) -> set[str]:
    """What the headings of a document are called in links."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_lines(text: str) -> Iterator[list[str]]:
    """The command lines of ours in a document, without the program's name."""
    for block in _BLOCK.findall(text):
        for words in statements(block):
            named = [place for place, word in enumerate(words) if word.rpartition("/bin/")[2] == "mailbox-appliance"]
            programs = [place for place in named if place == 0 or words[place - 1] not in _BEFORE_USERS]
            yield from (words[place + 1 :] for place in programs[:1])
    for span in _SPAN.findall(_BLOCK.sub("", text)):
        words = span.split()
        if words[0] == "mailbox-appliance" or (words[0] in ENTRIES and len(words) > 1):
            yield words[words[0] == "mailbox-appliance" :]


def statements(block: str) -> Iterator[list[str]]:
    """The words of each line of a shell block, up to a pipe; quoted text may span lines."""
    begun = ""
    for line in block.replace("\\\n", " ").splitlines():
        begun += line
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:  # a quotation that the next line closes
            begun += "\n"
            continue
        begun = ""
        yield words[: words.index("|")] if "|" in words else words


def wrong_in(words: list[str]) -> str | None:
    """What is no command or option of ours in a command line; `|` lists several commands."""
    root = Root(ENTRIES)
    context = click.Context(root)
    known: click.Command = root
    options = {"--help", "--version"} | {name for parameter in root.params for name in parameter.opts}
    for word in words:
        if word.startswith("--"):
            if word.partition("=")[0] not in options.union(*((*one.opts, *one.secondary_opts) for one in known.params)):
                return word
        elif isinstance(known, click.Group) and re.fullmatch(r"[a-z|-]+", word):
            found = [known.get_command(context, name) for name in word.split("|")]
            if None in found:
                return word
            known = found[0] or known
    return None


def test_command_lines_are_found() -> None:
    assert sum(1 for file in DOCUMENTS for _ in command_lines(file.read_text())) > 100
    assert wrong_in(["emails", "list|lost"]) == "list|lost"
    assert wrong_in(["https", "enable", "--prot", "443"]) == "--prot"


@pytest.mark.parametrize("file", DOCUMENTS, ids=document_id)
def test_examples_can_be_read(file: Path) -> None:
    text = file.read_text()
    for script in _BLOCK.findall(text):
        subprocess.run(("sh", "-n"), input=script.encode(), check=True, capture_output=True)
    for example in re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        tomllib.loads(example)


@pytest.mark.parametrize("file", DOCUMENTS, ids=document_id)
def test_commands_that_are_named_exist(file: Path) -> None:
    lines = command_lines(file.read_text())
    assert [(" ".join(words), wrong) for words in lines if (wrong := wrong_in(words)) is not None] == []


def test_the_readme_opens_with_two_commands() -> None:
    first, second = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    assert (first.strip(), second.strip()) == ("scripts/demo", "scripts/test")
    assert all((ROOT / name).stat().st_mode & 0o111 for name in ("scripts/demo", "scripts/test", ".ci/run"))
