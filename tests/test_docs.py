"""What there is, is documented: every setting, command and route; and documents name files that exist."""

import re
from pathlib import Path

import pytest

from mailbox_appliance.cli.main import ENTRIES
from mailbox_appliance.options import OPTIONS, Option
from mailbox_appliance.version import __version__
from mailbox_appliance.web.openapi import describe
from mailbox_appliance.web.routes import ROUTES

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text()


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_setting_is_in_the_guide(option: Option) -> None:
    row = next((line for line in GUIDE.splitlines() if line.startswith(f"| `{option.name}` |")), "")
    assert option.help.replace("|", "/") in row


def test_every_command_is_in_the_guide() -> None:
    assert [name for name, (_, help_text) in ENTRIES.items() if help_text and f"`{name}`" not in GUIDE] == []


def test_every_route_is_described() -> None:
    description = describe().decode()
    assert [route.path for route in ROUTES if route.path != "/" and f'"/api/v1{route.path}"' not in description] == []


def test_the_changelog_has_this_release() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_links_lead_somewhere() -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    links = [(file, link) for file in documents for link in re.findall(r"\]\(([^)#:]+)\)", file.read_text())]
    assert links
    assert [(file.name, link) for file, link in links if not (file.parent / link).exists()] == []


def test_the_readme_opens_with_two_commands() -> None:
    first, second = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    assert (first.strip(), second.strip()) == ("scripts/demo", "scripts/test")
    assert all((ROOT / name).stat().st_mode & 0o111 for name in ("scripts/demo", "scripts/test", ".ci/run"))
