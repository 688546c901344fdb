"""The manual page describes every command, and programs that render it print no warnings."""

import subprocess
import sys

import click
import pytest

from mailbox_appliance.cli.groups import walk
from mailbox_appliance.cli.main import EXIT_CODES, VARIABLES, root
from tests.packaging.unit_files import ROOT

PROGRAM = ROOT / "packaging" / "linux" / "man_page.py"
RENDERERS = {
    "groff": ("groff", "-man", "-Tutf8", "-ww"),
    "mandoc": ("mandoc", "-Tlint", "-Wwarning"),
}
#: A generated page has no date of its own.
NO_DATE = "missing date"


@pytest.fixture(scope="module")
def page() -> bytes:
    """The manual page as the packages get it."""
    return subprocess.run((sys.executable, str(PROGRAM)), check=True, capture_output=True, timeout=60).stdout


@pytest.mark.parametrize("renderer", RENDERERS)
def test_it_renders_without_warnings(renderer: str, page: bytes) -> None:
    done = subprocess.run(RENDERERS[renderer], input=page, capture_output=True, timeout=30)
    said = (done.stderr + (done.stdout if renderer == "mandoc" else b"")).decode()
    assert [line for line in said.splitlines() if NO_DATE not in line] == []


def test_every_command_option_and_variable_is_in_it(page: bytes) -> None:
    shown = subprocess.run(("groff", "-man", "-Tascii", "-P-cbou"), input=page, capture_output=True, timeout=30)
    text = " ".join(shown.stdout.decode().split())
    for words, command in walk(root()):
        assert isinstance(command, click.Group) or " ".join(words) in text
        options = [
            name for one in command.params if isinstance(one, click.Option) and not one.hidden for name in one.opts
        ]
        assert [name for name in options if name not in text] == []
    told = [meaning for _, meaning in (*VARIABLES, *EXIT_CODES)]
    assert [meaning for meaning in told if meaning not in text] == []


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
def test_text_is_never_a_command_of_roff(plain: str, roff: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    import man_page  # type: ignore[import-not-found]

    assert man_page.to_roff(plain) == roff
