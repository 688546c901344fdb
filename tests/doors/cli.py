"""The interface of commands: each runs in this process, with a credential in its environment, at a real listener."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.cli.groups import Root
from mailbox_appliance.cli.main import ENTRIES, run
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer
from tests.cli.test_commands import calls
from tests.doors.commands import ASK_NOBODY, LINES, Line
from tests.doors.people import HERE, Aim, Credential, Origin
from tests.doors.verdicts import NONSENSE, Verdict

Told = tuple[int, str | None, str | None]

#: Asked with the code of the data directory, not with a credential; see `test_set_up.py`.
SET_UP = "POST /setup"
#: What `status` does besides on a terminal; see tests/system/test_crashes.py.
DISMISS = "POST /admin/crashes/{trace}/dismiss"
_OF_STATUS = {200: 0, 400: 2, 401: 4, 403: 4, 404: 2}


class Harmless:
    """The appliance behind a listener. Every request gets a parameter that nothing knows, but for what is looked up.

    So no command changes anything. `origin` is where requests seem to come from.
    """

    def __init__(self, appliance: Appliance) -> None:
        self._app = App(appliance)
        self.origin, self.call = HERE, ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        method, _, path = self.call.partition(" ")
        own = re.sub(r"{\w+}", "[^/]+", f"/api/v1{path}")
        is_own = environ["REQUEST_METHOD"] == method and re.fullmatch(own, environ["PATH_INFO"])
        if is_own or environ["REQUEST_METHOD"] != "GET":
            environ["QUERY_STRING"] = "&".join(filter(None, (environ["QUERY_STRING"], f"{NONSENSE}=1")))
        environ["REMOTE_ADDR"] = self.origin.peer
        environ["wsgi.url_scheme"] = "https" if self.origin.is_secure else "http"
        for name, value in self.origin.headers.items():
            environ["HTTP_" + name.upper().replace("-", "_")] = value
        return self._app(environ, start_response)


class Cli:
    """Runs command lines against an appliance."""

    def __init__(self, appliance: Appliance, folder: Path) -> None:
        self._harmless = Harmless(appliance)
        self._listeners = HttpServer(self._harmless, [("127.0.0.1", 0)], workers=1)
        self._listeners.start()
        folder.mkdir()
        self._environment = {
            "MAILBOX_APPLIANCE_CONFIG_DIR": str(folder / "config"),
            "MAILBOX_APPLIANCE_DATA_DIR": str(folder),
            "MAILBOX_APPLIANCE_KEYCHAIN": "off",
            "MAILBOX_APPLIANCE_INSTANCE": f"http://127.0.0.1:{self._listeners.addresses[0][1]}",
        }

    def close(self) -> None:
        """Stop listening."""
        self._listeners.stop(5)

    def ask(self, line: Line, who: Credential, origin: Origin, aim: Aim) -> Told:
        """The exit code of a command, and the code and the first path of its error."""
        self._harmless.origin, self._harmless.call = origin, line.call
        values = {**dict.fromkeys(re.findall(r"{(\w+)}", " ".join(line.words)), "unknown"), **aim.values}
        out, err = io.StringIO(), io.StringIO()
        environment = self._environment | ({"MAILBOX_APPLIANCE_TOKEN": who.token} if who.token else {})
        terminal = Terminal(io.BytesIO(b"a password of somebody's\n" * 2), out, err, environment)
        code = run([word.format(**values) for word in line.words], {}, terminal)
        if not err.getvalue():
            return code, None, None
        error = json.loads(err.getvalue())["error"]
        return code, error["code"], next((one["path"] for one in error.get("details", ())), None)

    def told(self, verdict: Verdict) -> Told:
        """A verdict of the API, as a command says it (contract, section 4)."""
        return _OF_STATUS[verdict.status], verdict.code, verdict.path

    @staticmethod
    def ways() -> Sequence[Line]:
        """The command lines."""
        return LINES

    @staticmethod
    def without_row() -> set[str]:
        """Commands and calls of commands without a line, and lines without a command."""
        called = {f"{call.method} {call.path}" for call in calls()} - {line.call for line in LINES} - {SET_UP, DISMISS}
        return called | (set(_commands()) ^ ({line.command for line in LINES} | ASK_NOBODY.keys()))


def _commands() -> Iterator[str]:
    """Every command there is, with the names of its groups."""
    root = Root(ENTRIES, name="mailbox-appliance")
    for name in ENTRIES:
        found = root.get_command(click.Context(root), name)
        if isinstance(found, click.Group):
            yield from (f"{name} {inner}" for inner in found.commands)
        else:
            yield name
