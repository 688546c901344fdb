"""The command `demo`: runs mail servers and an appliance in a temporary folder, until Ctrl-C."""

import importlib.util
import json
import os
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from mailbox_appliance.demo import mail as demo_mail
from mailbox_appliance.demo.handshake import CleanupOrder, ServersReady
from mailbox_appliance.system import processes

# --- The processes of the demo: each in its own session, read with a deadline, and always ended ---


class DemoStopped(Exception):
    """Raised when the user stops the demo."""


class DemoFailed(Exception):
    """Raised if the demo cannot continue. The text is the reason."""


class DemoProcess:
    """A child process of the demo. Its first line of output means that it is ready; its stderr goes to a log file."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._name, self._log = name, folder / f"{name.replace(' ', '-')}.log"
        self._ready = False
        with self._log.open("wb") as log:
            # In its own session: Ctrl-C in the terminal reaches only the demo, which ends the others in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The ID of the process."""
        return self._process.pid

    def require_running(self) -> None:
        """Raise DemoFailed if the process has ended."""
        code = self._process.poll()
        if code is not None:
            # Once it was ready, its last output no longer explains the end.
            words = [] if self._ready else self._log.read_text("utf-8", "replace").strip().splitlines()
            reason = f": {words[-1].rstrip('.')}." if words else "."
            raise DemoFailed(f"The {self._name} ended unexpectedly (exit code {code}){reason}")

    def first_line(self, stopping: threading.Event, seconds: float) -> bytes:
        """Wait for the line that the process prints when it is ready; return it. `stopping`: set when the user stops
        the demo.

        Raises DemoFailed if the process ends first or needs more than `seconds`, and DemoStopped if the demo is
        stopped.
        """
        output, line = self._process.stdout, b""
        assert output is not None  # noqa: S101 - it is a pipe
        end = time.monotonic() + seconds
        while not line.endswith(b"\n"):
            if stopping.is_set():
                raise DemoStopped
            if time.monotonic() > end:
                raise DemoFailed(f"The {self._name} did not start within {seconds:.0f} seconds.")
            if select.select([output], [], [], 0.1)[0]:
                part = os.read(output.fileno(), 4096)
                line += part
                if not part:
                    self._process.wait()
                    self.require_running()
        self._ready = True
        return line

    def write_line(self, line: str) -> None:
        """Write a line to the standard input of the process."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended; require_running() reports that.

    def end(self, *, by_signal: bool, seconds: float = 15.0) -> None:
        """End the process: close its input and, if `by_signal`, send SIGTERM.

        Kill it if it still runs after `seconds`.
        """
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # It has ended already.
        if by_signal:
            process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# --- The demo as a client of the appliance's API: setup, connecting the mailbox, waiting for its mail ---


@dataclass(frozen=True)
class DemoLogin:
    """Email address and password of a member of the demo's appliance."""

    email: str
    password: str


class DemoClient:
    """A client of the demo's appliance. Its methods raise DemoFailed for an error response."""

    def __init__(self, url: str) -> None:
        self._client = ApiClient(url)
        self._url = url

    def set_up(self, code: str, login: DemoLogin) -> None:
        """Create the first administrator with the setup code. Later calls use the session of that member."""
        body = {"setupCode": code, "name": "Robin Vale", "email": login.email, "password": login.password}
        token = self._ask("POST", "/setup", {**body, "deviceName": "demo"})["token"]
        self._client = ApiClient(self._url, token)

    def connect(self, email: str, name: str, servers: ServersReady) -> str:
        """Connect the sample mailbox at the demo's servers and return its ID. `name`: the name shown for it."""
        login = {"host": "127.0.0.1", "security": "none", "username": email, "password": servers.password}
        imap, smtp = {**login, "port": servers.imap_port}, {**login, "port": servers.smtp_port}
        account = self._ask("POST", "/accounts", {"email": email, "displayName": name, "imap": imap, "smtp": smtp})
        return str(account["id"])

    def wait_for_mail(self, account: str, expected: int, tick: Callable[[int], None], seconds: float = 60.0) -> None:
        """Wait until the mailbox is ready and has `expected` messages. `tick` is called with the number so far.

        `account`: the ID of the mailbox. Raises DemoFailed after `seconds`.
        """
        end = time.monotonic() + seconds
        while True:
            state = self._ask("GET", f"/accounts/{account}")
            shown = len(self._ask("GET", f"/accounts/{account}/messages?limit=100")["items"])
            tick(shown)
            if state["status"] == "ready" and shown >= expected:
                return
            if state["status"] in ("error", "reauth_required") or time.monotonic() > end:
                raise DemoFailed(
                    f"The mailbox was not synced: its status is {state['status']} with {shown} of {expected} messages."
                )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._client.call(ApiRequest(method, path, body=body))["data"]
        except Failure as failure:
            raise DemoFailed(f"{method} {path.partition('?')[0]} failed: {failure.message}") from failure


# --- The command ---


_PREFIX = "MAILBOX_APPLIANCE_"
_START_WITHIN = 30.0
#: The folders that a list of messages leaves out by default.
_NOT_LISTED = ("Trash", "Junk")
_WORDS = """
mailbox-appliance is running with its own mail server and sample mailbox.

  Console   {url}
  Email     {email}
  Password  {password}

Try these commands in another terminal. They list the inbox, send a message and list the sent mail.

  {command} emails list --folder inbox --max-results 8 --format table
  {command} emails send --idempotency-key hello-1 --to {colleague} --cc {email} --subject 'Hello from the demo' --text 'It works.'
  {command} emails list --folder sent --max-results 1

The same key never sends twice: repeat the second command to see it. Mail to lost@demo.test becomes uncertain. With
--cc {email} a copy reaches the inbox, and the appliance finds it after a few seconds (emails delivery-status).
Ctrl-C stops the demo and deletes its data.
"""  # noqa: E501 - a command is one line


def main(port: int = 0) -> int:
    """Run the demo until it is stopped; return the exit code. `port`: that of the appliance, 0 for any free one."""
    if obstacle := _why_impossible():
        _print_error(obstacle)
        return 2
    stopping = _stop_on_signals()
    try:
        with _scratch_folder() as folder, ExitStack() as stack:
            Demo(folder, stopping, stack).run(port)
    except DemoStopped:
        _print("\nThe demo is stopped and its data is deleted.")
    except DemoFailed as failure:
        _print_error(f"{failure} The demo is stopped and its data is deleted.")
        return 1
    return 0


def _why_impossible() -> str | None:
    if sys.platform == "win32":  # Maildir file names contain a colon, and the demo's command is a shell script.
        return "The demo needs Linux or macOS. On Windows run `mailbox-appliance serve` and connect your own mailbox."
    else:
        missing = [name for name in ("aiosmtpd", "pymap") if importlib.util.find_spec(name) is None]
        hint = "Install with: pip install 'mailbox-appliance[demo]'"
        return f"The demo needs {' and '.join(missing)}. {hint}" if missing else None


class Demo:
    """One run of the demo in its temporary folder.

    `stack` gets an entry for each process, which ends it; the last process started ends first. `stopping`: set when the
    user stops the demo.
    """

    def __init__(self, folder: Path, stopping: threading.Event, stack: ExitStack) -> None:
        self._folder, self._stopping, self._stack = folder, stopping, stack

    def run(self, port: int) -> None:
        """Start the mail servers and the appliance, print how to use them, and wait.

        `port`: that of the appliance, 0 for any free one. Raises DemoStopped or DemoFailed.
        """
        _print("Starting the mail servers...")
        servers, mail = self._start_servers()
        _print("Starting the appliance...")
        appliance, url = self._start_appliance(port, servers)
        login = DemoLogin(demo_mail.OWNER_EMAIL, secrets.token_urlsafe(12))
        self._set_up_mailbox(DemoClient(url), login, mail)
        command = self._make_command(login)
        _print(
            _WORDS.format(
                url=url,
                email=login.email,
                password=login.password,
                colleague=demo_mail.COLLEAGUE_EMAIL,
                command=command,
            )
        )
        while not self._stopping.wait(0.25):
            servers.require_running()
            appliance.require_running()
        raise DemoStopped

    def _start_servers(self) -> tuple[DemoProcess, ServersReady]:
        (self._folder / "mail").mkdir()
        command = processes.own_command("demo-servers", str(self._folder / "mail"))
        child = DemoProcess("mail servers", command, processes.child_environment(os.environ), self._folder)
        self._stack.callback(child.end, by_signal=False)
        child.write_line(CleanupOrder(0, str(self._folder)).to_line())
        # A demo that ends in order cleans up itself.
        self._stack.callback(child.write_line, CleanupOrder().to_line())
        return child, ServersReady(**json.loads(child.first_line(self._stopping, _START_WITHIN)))

    def _start_appliance(self, port: int, servers: DemoProcess) -> tuple[DemoProcess, str]:
        # With the table format, errors are plain text.
        options = ("--data-dir", str(self._folder / "data"), "--format", "table")
        arguments = (*options, "serve", "--port", str(port), "--ready-json")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
        child = DemoProcess(
            "appliance", processes.own_command(*arguments), processes.child_environment(environment), self._folder
        )
        self._stack.callback(child.end, by_signal=True)
        servers.write_line(CleanupOrder(child.pid, str(self._folder)).to_line())
        return child, str(json.loads(child.first_line(self._stopping, _START_WITHIN))["http"])

    def _set_up_mailbox(self, client: DemoClient, login: DemoLogin, mail: ServersReady) -> None:
        client.set_up((self._folder / "data" / "setup-code").read_text("utf-8").strip(), login)
        _print("Connecting the mailbox...")
        account = client.connect(demo_mail.OWNER_EMAIL, "Robin Vale", mail)
        expected = sum(letter.folder not in _NOT_LISTED for letter in demo_mail.list_letters())
        client.wait_for_mail(account, expected, lambda shown: self._show_progress(shown, expected))

    def _show_progress(self, shown: int, expected: int) -> None:
        if sys.stdout.isatty():
            _print(f"\r  {shown} of {expected} messages", end="\n" if shown >= expected else "")
        if self._stopping.wait(0.1):
            raise DemoStopped

    def _make_command(self, login: DemoLogin) -> str:
        """Write and sign in a script that runs `mailbox-appliance` for this demo; return its path, quoted."""
        file = self._folder / "mailbox-appliance"
        settings = {"DATA_DIR": self._folder / "data", "CONFIG_DIR": self._folder / "login", "KEYCHAIN": "off"}
        lines = [
            "#!/bin/sh",
            f"unset {_PREFIX}INSTANCE",
            # A session token is probably another appliance's; an API key is set on purpose, for its permissions.
            f'case "${{{_PREFIX}TOKEN-}}" in mbxk_*) ;; *) unset {_PREFIX}TOKEN ;; esac',
            *(f"export {_PREFIX}{name}={shlex.quote(str(value))}" for name, value in settings.items()),
            f'exec {shlex.join(processes.own_command())} "$@"',
        ]
        file.write_text("\n".join(lines) + "\n", "utf-8")
        file.chmod(0o700)
        arguments = ("login", "--email", login.email, "--password-stdin", "--device-name", "demo")
        done = subprocess.run(
            ("/bin/sh", str(file), *arguments), input=login.password, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DemoFailed(f"The command line could not sign in: {done.stderr.strip()}")
        # The temporary folder may be mounted with noexec.
        return shlex.quote(str(file)) if os.access(file, os.X_OK) else f"sh {shlex.quote(str(file))}"


@contextmanager
def _scratch_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mailbox-demo-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _stop_on_signals() -> threading.Event:
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    # Under nohup the terminal may close.
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, stop)
    return stopping


def _print(text: str, end: str = "\n") -> None:
    try:
        sys.stdout.write(text + end)
        sys.stdout.flush()
    except OSError:
        pass  # The terminal is gone; the cleanup still happens.


def _print_error(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass  # The terminal is gone.
