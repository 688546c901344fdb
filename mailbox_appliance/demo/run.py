"""`mailbox-appliance demo`: mail servers, an appliance and a mailbox in a scratch folder, until Ctrl-C."""

import importlib.util
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from mailbox_appliance.demo import sample
from mailbox_appliance.demo.children import Child, Failed, Stopped
from mailbox_appliance.demo.client import Client, Login
from mailbox_appliance.demo.handshake import Ready, Will
from mailbox_appliance.system import processes

_PREFIX = "MAILBOX_APPLIANCE_"
_START_WITHIN = 30.0
#: The folders that a list of messages leaves out unless they are named.
_NOT_LISTED = ("Trash", "Junk")
_WORDS = """
mailbox-appliance is running, with a mail server and a mailbox of its own on this computer.

  Console   {url}
  Login     {email}
  Password  {password}

Three commands to try in another terminal: look into the inbox, send a message, read back what was sent.

  {command} emails list --folder inbox --max-results 8 --format table
  {command} emails send --idempotency-key hello-1 --to {colleague} --cc {email} --subject 'Hello from the demo' --text 'It works.'
  {command} emails list --folder sent --max-results 1

The same key never sends twice: repeat the second command. Mail to lost@demo.test shows an uncertain delivery; with
--cc {email} it turns up in the inbox and is found there after some seconds (emails delivery-status).
Ctrl-C stops everything and leaves nothing behind.
"""  # noqa: E501 - a command is one line


def main(port: int = 0) -> int:
    """Run the demo on a free port, or the one that is given, until it is told to stop. Returns the exit code."""
    if obstacle := _obstacle():
        _complain(obstacle)
        return 2
    stopping = _stop_on_signals()
    try:
        with _scratch() as folder, ExitStack() as stack:
            Demo(folder, stopping, stack).run(port)
    except Stopped:
        _say("\nEverything is stopped, and nothing is left behind.")
    except Failed as failure:
        _complain(f"{failure} Everything is stopped, and nothing is left behind.")
        return 1
    return 0


def _obstacle() -> str | None:
    """Why there can be no demo here, and what to do."""
    if sys.platform == "win32":  # Maildir's file names hold a colon, and the demo's command is a shell script
        return (
            "The demo needs Linux or macOS. On Windows start `mailbox-appliance serve` and connect a mailbox of yours."
        )
    else:
        missing = [name for name in ("aiosmtpd", "pymap") if importlib.util.find_spec(name) is None]
        hint = "Install with: pip install 'mailbox-appliance[demo]'"
        return f"The demo needs {' and '.join(missing)}. {hint}" if missing else None


class Demo:
    """One demo in its scratch folder. What it starts is put on the stack, which ends it in reverse order."""

    def __init__(self, folder: Path, stopping: threading.Event, stack: ExitStack) -> None:
        self._folder, self._stopping, self._stack = folder, stopping, stack

    def run(self, port: int) -> None:
        """Start everything, say how to use it, and wait; raises Stopped when asked to stop, Failed when it cannot."""
        _say("Starting the mail servers...")
        servers, mail = self._start_servers()
        _say("Starting the appliance...")
        appliance, url = self._start_appliance(port, servers)
        login = Login(sample.OWNER_EMAIL, secrets.token_urlsafe(12))
        self._set_up_mailbox(Client(url), login, mail)
        command = self._make_command(login)
        _say(
            _WORDS.format(
                url=url, email=login.email, password=login.password, colleague=sample.COLLEAGUE_EMAIL, command=command
            )
        )
        while not self._stopping.wait(0.25):
            servers.require_running()
            appliance.require_running()
        raise Stopped

    def _start_servers(self) -> tuple[Child, Ready]:
        (self._folder / "mail").mkdir()
        command = processes.own_command("demo-servers", str(self._folder / "mail"))
        child = Child("mail servers", command, processes.child_environment(os.environ), self._folder)
        self._stack.callback(child.end, by_signal=False)
        child.write_line(Will(0, str(self._folder)).to_line())
        # When the demo ends in order it cleans up itself.
        self._stack.callback(child.write_line, Will().to_line())
        return child, Ready(**json.loads(child.first_line(self._stopping, _START_WITHIN)))

    def _start_appliance(self, port: int, servers: Child) -> tuple[Child, str]:
        # A table, because complaints are then plain text.
        options = ("--data-dir", str(self._folder / "data"), "--format", "table")
        arguments = (*options, "serve", "--port", str(port), "--ready-json")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
        child = Child(
            "appliance", processes.own_command(*arguments), processes.child_environment(environment), self._folder
        )
        self._stack.callback(child.end, by_signal=True)
        servers.write_line(Will(child.pid, str(self._folder)).to_line())
        return child, str(json.loads(child.first_line(self._stopping, _START_WITHIN))["http"])

    def _set_up_mailbox(self, client: Client, login: Login, mail: Ready) -> None:
        """Set the appliance up, connect the mailbox, and wait for its mail."""
        client.set_up((self._folder / "data" / "setup-code").read_text("utf-8").strip(), login)
        _say("Connecting the mailbox...")
        account = client.connect(sample.OWNER_EMAIL, "Robin Vale", mail)
        expected = sum(path not in _NOT_LISTED for path, _ in sample.LETTERS)
        client.wait_for_mail(account, expected, lambda shown: self._show_progress(shown, expected))

    def _show_progress(self, shown: int, expected: int) -> None:
        if sys.stdout.isatty():
            _say(f"\r  {shown} of {expected} messages", end="\n" if shown >= expected else "")
        if self._stopping.wait(0.1):
            raise Stopped

    def _make_command(self, login: Login) -> str:
        """Make a `mailbox-appliance` that speaks to this demo and touches no keychain, and log it in."""
        file = self._folder / "mailbox-appliance"
        settings = {"DATA_DIR": self._folder / "data", "CONFIG_DIR": self._folder / "login", "KEYCHAIN": "off"}
        lines = [
            "#!/bin/sh",
            f"unset {_PREFIX}INSTANCE",
            # A session is likely to be of another appliance; who gives a key means it, and what it may do.
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
            raise Failed(f"The command line could not log in: {done.stderr.strip()}")
        # A temporary folder may lie where nothing can be run.
        return shlex.quote(str(file)) if os.access(file, os.X_OK) else f"sh {shlex.quote(str(file))}"


@contextmanager
def _scratch() -> Iterator[Path]:
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
    # nohup asks that a terminal may close.
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, stop)
    return stopping


def _say(text: str, end: str = "\n") -> None:
    try:
        sys.stdout.write(text + end)
        sys.stdout.flush()
    except OSError:
        pass  # The terminal is gone; what has to be done is done all the same.


def _complain(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass  # As above.
