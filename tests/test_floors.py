"""The floors hold: imports go down, neighbours do not know each other, every library stays in its room."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import mailbox_appliance

PACKAGE = "mailbox_appliance"
ROOT = Path(mailbox_appliance.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.py"))

#: From the ground up. Who stands in one line does not know the others in it, but for the COMMON ground.
COMMON = (
    "model",
    "errors",
    "events",
    "clock",
    "settings",
    "logs",
    "log_events",
    "concurrency",
    "system",
    "security",
)
FLOORS: tuple[tuple[str, ...], ...] = (
    ("version",),
    COMMON,
    ("mail",),
    ("store", "remote"),
    ("permissions", "policies", "oauth", "tls"),
    ("sync", "sending", "mailbox", "jobs", "feed"),
    ("appliance",),
    ("operations",),
    ("client",),
    ("web", "mcp_server", "cli", "tray", "demo", "offline"),
    ("service",),
    ("__main__",),
)
#: Programs of a user, which reach an appliance by its API alone.
CLIENTS = ("client", "cli", "tray", "demo")
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

#: Where a library may be imported.
LIBRARY_ROOMS: dict[str, tuple[str, ...]] = {
    "apsw": ("store",),
    "peewee": ("store",),
    "playhouse": ("store",),
    "imapclient": ("remote",),
    "imaplib": ("remote",),
    "smtplib": ("remote",),
    "bottle": ("web",),
    "waitress": ("web",),
    "click": ("cli",),
    "keyring": ("system.keyring",),
    "prometheus_client": ("web",),
    "mcp": ("mcp_server",),
    "mcp_types": ("mcp_server",),
    "anyio": ("mcp_server",),
    "starlette": ("mcp_server",),
    "pystray": ("tray",),
    "PIL": ("tray",),
    "jeepney": ("tray",),
    "oauthlib": ("remote",),
    "dns": ("remote",),
    "standardwebhooks": ("feed",),
    "turbohtml": ("mail.html",),
    "certifi": ("system.ca_certificates",),
    "truststore": ("system.ca_certificates",),
    "fcntl": ("system.files",),
    "msvcrt": ("system.files",),
    "pymap": ("demo",),
    "pysasl": ("demo",),
    "aiosmtpd": ("demo",),
}


@dataclass(frozen=True)
class Import:
    """A module that a line imports; `typing`: only for the type checker."""

    line: int
    name: str
    typing: bool


def imports_of(module: str, source: str, is_package: bool = False) -> Iterator[Import]:
    """Every import in a source, also those inside functions, with relative ones resolved."""
    tree = ast.parse(source)
    for_types = {id(inner) for node in ast.walk(tree) if _is_type_checking(node) for inner in _body(node)}
    for node in ast.walk(tree):
        typing = id(node) in for_types
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, is_package, node)
            # `from mailbox_appliance import errors` names a room; deeper down the module alone decides.
            whole = base == PACKAGE
            names = [f"{base}.{alias.name}" for alias in node.names] if whole else [base]
            yield from (Import(node.lineno, name, typing) for name in names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _body(node: ast.AST) -> Iterator[ast.AST]:
    assert isinstance(node, ast.If)
    for statement in node.body:
        yield from ast.walk(statement)


def _absolute(module: str, is_package: bool, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".")
    base = parents[: len(parents) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def breaches(module: str, source: str, is_package: bool = False) -> list[str]:
    """What is wrong with the imports of a module, each with its line."""
    found = []
    for each in imports_of(module, source, is_package):
        complaint = _inside(module, each) if each.name.split(".")[0] == PACKAGE else _library(module, each)
        if complaint:
            found.append(f"{each.line}: {complaint}")
    return found


def _inside(module: str, imported: Import) -> str | None:
    here, there = _room(module), _room(imported.name)
    if there not in FLOOR:
        return f"{imported.name} has no floor; give it one in tests/test_floors.py"
    if here in CLIENTS and there not in (*COMMON, *CLIENTS, "version"):
        return f"{here} is a client and knows {there}"
    if "store.formats." in module and imported.name.endswith(".tables"):
        return "a format does not know today's tables"
    if there == "client" and here not in CLIENTS:
        return f"{here} is no client and knows client"
    if imported.typing or here == there or FLOOR[there] < FLOOR[here]:
        return None
    if FLOOR[there] > FLOOR[here]:
        return f"{here} looks up to {there}"
    return None if here in COMMON else f"{here} knows its neighbour {there}"


def _library(module: str, imported: Import) -> str | None:
    rooms = LIBRARY_ROOMS.get(imported.name.split(".")[0])
    place = module.removeprefix(f"{PACKAGE}.") + "."
    if imported.typing or rooms is None or any(place.startswith(f"{room}.") for room in rooms):
        return None
    return f"{imported.name} belongs to {' and '.join(rooms)}"


def _room(module: str) -> str:
    return [*module.split("."), ""][1]


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


#: What analyzes HTML, and the modules that may import it.
ANALYSIS = {
    "mail.html.text": ("mail.html.analysis",),
    "mail.html.hidden_text": ("mail.html.analysis", "mail.html.text"),
    "mail.html.reader": ("mail.html.hidden_text", "mail.html.text"),
    "mail.html.css_cascade": ("mail.html.reader",),
    "mail.html.css_sheets": ("mail.html.css_cascade",),
    "mail.html.analysis.extract_visible": ("sync.parse_child",),
    "mail.html.analysis.extract_preview": ("sync.parse_child",),
    "sync.parse_child.BoundedReader": (),
}


def analyses(module: str, source: str) -> list[str]:
    """What a module imports of the analysis of HTML, and may not."""
    here = module.removeprefix(f"{PACKAGE}.")
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    names = {name.removeprefix(f"{PACKAGE}.") for name in found}
    return [f"imports {name}" for name, allowed in ANALYSIS.items() if name in names and here not in allowed]


# --- the rules hold ---


def test_imports_go_down() -> None:
    found = [
        f"{file.relative_to(ROOT.parent)}:{breach}"
        for file in FILES
        for breach in breaches(_module(file), file.read_text("utf-8"), file.name == "__init__.py")
    ]
    assert not found, "\n" + "\n".join(found)


def test_every_room_has_a_floor() -> None:
    rooms = {_room(_module(file)) for file in FILES} - {""}
    assert rooms <= set(FLOOR), f"give these a floor: {rooms - set(FLOOR)}"


def test_only_the_child_analyzes_html() -> None:
    """It takes seconds where a sender means ill, and would hold up every request of the service."""
    found = [
        f"{_module(file)}: {complaint}"
        for file in FILES
        for complaint in analyses(_module(file), file.read_text("utf-8"))
    ]
    assert not found


def test_a_package_file_is_a_paragraph() -> None:
    trees = {file: ast.parse(file.read_text("utf-8")) for file in FILES if file.name == "__init__.py"}
    silent = [str(file) for file, tree in trees.items() if not ast.get_docstring(tree)]
    with_code = [f"{file}:{tree.body[1].lineno}" for file, tree in trees.items() if len(tree.body) > 1]
    assert (silent, with_code) == ([], [])


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("cli.main", "peewee apsw imapclient bottle waitress mcp pystray pymap aiosmtpd dns turbohtml"),
        ("__main__", "click peewee apsw imapclient bottle waitress mcp pystray pymap aiosmtpd turbohtml"),
        ("service.main", "mcp pystray pymap aiosmtpd prometheus_client dns oauthlib turbohtml cryptography"),
        ("mcp_server.tools", "pystray pymap aiosmtpd turbohtml"),
    ],
)
def test_a_door_does_not_load_what_it_does_not_need(module: str, not_loaded: str) -> None:
    code = f"import sys, {PACKAGE}.{module}; print(*sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    assert not set(not_loaded.split()) & set(loaded.stdout.split())


# --- the rules can be broken ---


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("web.app", "from mailbox_appliance.operations import sending", None),
        ("mail.parse", "from mailbox_appliance.model.messages import Message", None),
        ("logs", "from mailbox_appliance.clock import Clock", None),
        ("store.folders", "from mailbox_appliance.store.tables import FOLDERS", None),
        ("store.database", "import apsw", None),
        ("system.keyring", "import keyring", None),
        ("cli.commands.emails", "import click", None),
        ("store.folders", "if TYPE_CHECKING:\n    from mailbox_appliance.appliance import Appliance", None),
        ("store.folders", "from .tables import FOLDERS", None),
        ("store.folders", "from mailbox_appliance.sync import plan", "1: store looks up to sync"),
        ("store.folders", "from ..remote import imap", "1: store knows its neighbour remote"),
        ("store.folders", "\nfrom mailbox_appliance import remote", "2: store knows its neighbour remote"),
        ("store.folders", "def f():\n    import mailbox_appliance.web.app", "2: store looks up to web"),
        ("model.messages", "from mailbox_appliance.mail import address", "1: model looks up to mail"),
        ("cli.main", "from mailbox_appliance.web.app import app", "1: cli is a client and knows web"),
        ("cli.main", "from mailbox_appliance.store.store import Store", "1: cli is a client and knows store"),
        ("client.http", "from mailbox_appliance.mail import address", "1: client is a client and knows mail"),
        ("web.app", "from mailbox_appliance.client.http import ApiClient", "1: web is no client and knows client"),
        ("version", "from mailbox_appliance.errors import Problem", "1: version looks up to errors"),
        ("web.app", "from mailbox_appliance.helpers import x", "1: mailbox_appliance.helpers has no floor"),
        ("store.formats.format_5", "from mailbox_appliance.store.tables import X", "1: a format does not know"),
        ("sync.mailbox", "import imapclient.exceptions", "1: imapclient.exceptions belongs to remote"),
        ("store.folders", "from keyring import get_password", "1: keyring belongs to system.keyring"),
        ("sending.worker", "import smtplib", "1: smtplib belongs to remote"),
        ("operations.sending", "from bottle import request", "1: bottle belongs to web"),
    ],
)
def test_a_breach_is_named(module: str, source: str, complaint: str | None) -> None:
    found = breaches(f"{PACKAGE}.{module}", source)
    assert len(found) == (complaint is not None)
    assert complaint is None or found[0].startswith(complaint)


@pytest.mark.parametrize(
    ("module", "source", "is_fine"),
    [
        ("mail.html.analysis", "def f():\n    from mailbox_appliance.mail.html.text import to_text", True),
        ("sync.parse_child", "from mailbox_appliance.mail.html.analysis import extract_visible", True),
        ("operations.contents", "from mailbox_appliance.mail.html.analysis import HiddenText", True),
        ("operations.contents", "from mailbox_appliance.mail.html.analysis import HiddenText, extract_visible", False),
        ("store.mailbox_writer", "def f():\n    from mailbox_appliance.mail.html.text import to_text", False),
        ("store.mailbox_writer", "from mailbox_appliance.mail.html import hidden_text", False),
        ("sync.parsers", "from mailbox_appliance.sync.parse_child import BoundedReader", False),
    ],
)
def test_an_analysis_in_the_service_is_named(module: str, source: str, is_fine: bool) -> None:
    assert (analyses(f"{PACKAGE}.{module}", source) == []) is is_fine
