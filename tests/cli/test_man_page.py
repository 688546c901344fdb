"""The manual page describes every command, and programs that render it print no warnings."""

import re
import subprocess

import click
import pytest

from mailbox_appliance.cli import man_page
from mailbox_appliance.cli.groups import walk
from mailbox_appliance.cli.main import root
from tests.cli.conftest import CommandLine

RENDERERS = {
    "groff": ("groff", "-man", "-Tutf8", "-ww"),
    "mandoc": ("mandoc", "-Tlint", "-Wwarning"),
}
#: A generated page has no date of its own.
NO_DATE = "missing date"


@pytest.mark.parametrize("renderer", RENDERERS)
def test_it_renders_without_warnings(renderer: str, cli: CommandLine) -> None:
    done = subprocess.run(RENDERERS[renderer], input=cli("man").out.encode(), capture_output=True, timeout=30)
    said = (done.stderr + (done.stdout if renderer == "mandoc" else b"")).decode()
    assert [line for line in said.splitlines() if NO_DATE not in line] == []


def test_every_command_and_option_is_in_it() -> None:
    shown = subprocess.run(
        ("groff", "-man", "-Tascii", "-P-cbou"),
        input=man_page.render_man_page(root()).encode(),
        capture_output=True,
        timeout=30,
    )
    page = " ".join(shown.stdout.decode().split())
    for words, command in walk(root()):
        assert isinstance(command, click.Group) or " ".join(words) in page
        options = [
            name for one in command.params if isinstance(one, click.Option) and not one.hidden for name in one.opts
        ]
        assert [name for name in options if name not in page] == []


def test_every_variable_is_told() -> None:
    """The variables in the code are those in the help and on the page."""
    told = {name.partition("=")[0] for names, _ in man_page.VARIABLES for name in names.split(", ")}
    folder = man_page.__file__.rpartition("/")[0]
    found = subprocess.run(
        ("grep", "-rhoE", r'variable\("[A-Z_]+"\)|"MAILBOX_APPLIANCE_[A-Z_]+"', folder, "--include=*.py"),
        capture_output=True,
        text=True,
        check=True,
    )
    named = {re.sub(r'^.*?"(MAILBOX_APPLIANCE_)?', "", line).rstrip('")') for line in found.stdout.splitlines()}
    assert named - told == set()


# fmt: off
ESCAPED = [
    (".hidden",         r"\&.hidden"),
    ("'quoted'",        r"\(aqquoted\(aq"),
    (r"a\nb-c",         r"a\enb\-c"),
    ("see `logs` ~",    r"see \fBlogs\fR \(ti"),
    ("„ja“…",           r"\[u201E]ja\[u201C]\[u2026]"),
]
# fmt: on


@pytest.mark.parametrize(("plain", "roff"), ESCAPED)
def test_text_is_never_a_command_of_roff(plain: str, roff: str) -> None:
    assert man_page.to_roff(plain) == roff
