"""Stores secrets in the keychain of the operating system, which may be missing, locked, or waiting for its user.

The keychain is used only in a child process with a deadline: it may claim to be usable and still block forever on a
prompt, and a server should not load its libraries (D-Bus). The child is this program with a hidden command. Question
and answer, including secrets, are one line of JSON each on its standard input and output.

    {"act": "find" | "put" | "remove", "name": "...", "secret": "...", "seconds": N}
        ->  {"found": "..." | null} | {"failed": "..."}
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mailbox_appliance.system import processes

SERVICE = "mailbox-appliance"
#: The hidden command of the child process; a bundle has no `python -c`.
COMMAND = "ask-keychain"
#: Seconds to wait for the keychain by default: the user may have to type a password.
_DEADLINE, DEADLINE_VARIABLE = 30.0, "MAILBOX_APPLIANCE_KEYCHAIN_SECONDS"
_LONGEST_WAIT = 3600.0
#: Seconds between checks of the child whether its parent still waits.
_LOOKS_EVERY = 0.25
_LONGEST = 256 * 1024


class KeyringUnavailable(Exception):
    """The keychain is missing, locked or does not respond. The text is the reason, as the end of a sentence."""


def find(name: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> str | None:
    """Return the secret of this name; None if there is none. On a desktop, the user may be prompted to unlock the
    keychain.

    `deadline`: seconds to wait, unless the environment sets fewer. Raises KeyringUnavailable.
    """
    found = _ask_child({"act": "find", "name": name}, environment, deadline)
    return found if isinstance(found, str) else None


def put(name: str, secret: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> None:
    """Store a secret under a name, replacing an earlier one, and check that the keychain returns it.

    `deadline`: seconds to wait, unless the environment sets fewer. Raises KeyringUnavailable.
    """
    _ask_child({"act": "put", "name": name, "secret": secret}, environment, deadline)


def remove(name: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> None:
    """Delete the secret of this name, if it exists. `deadline`: seconds to wait, unless the environment sets fewer.

    Raises KeyringUnavailable.
    """
    _ask_child({"act": "remove", "name": name}, environment, deadline)


def answer_question(question: bytes) -> bytes:
    """In the child process, carry out the request in a line of JSON with the keychain; return the line with the
    answer.
    """
    try:
        asked = json.loads(question)
        # Output of the keychain library must not mix with the answer.
        with contextlib.redirect_stdout(sys.stderr), _end_after(asked.pop("seconds", _DEADLINE)):
            outcome = {"found": _call_keyring(**asked)}
    except Exception as error:  # noqa: BLE001 - told to whoever asks, by its kind only
        outcome = {"failed": _REASONS.get(type(error).__name__, f"it failed ({type(error).__name__})")}
    return json.dumps(outcome).encode() + b"\n"


@contextlib.contextmanager
def _end_after(seconds: float) -> Iterator[None]:
    """Context manager: end this child process if the block takes longer than `seconds` and one more, or if the parent
    process ends, since then nobody needs the answer.
    """
    # One second more, so that the parent reports the timeout.
    last, asker, is_over = time.monotonic() + seconds + 1, os.getppid(), threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOKS_EVERY):
            if time.monotonic() > last or os.getppid() != asker:  # on Windows the parent ID does not change
                os._exit(1)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


_REASONS = {
    "KeyringLocked": "it is locked",
    "NoKeyringError": "there is none",
    "InitError": "it cannot be reached",
    "_DiscardingKeyring": "it does not return what was stored",
}


class _DiscardingKeyring(Exception):
    pass


class NoKeyringError(Exception):
    """The configured keychain is one that does not store anything securely, so it is not used.

    The name is that of the library's own error for this case.
    """


def _call_keyring(act: str, name: str, secret: str = "") -> str | None:
    import keyring
    from keyring.errors import PasswordDeleteError

    # Priority 0 is the backend that always fails; those below 1 are plain files, which we write more safely ourselves.
    if keyring.get_keyring().priority < 1:
        raise NoKeyringError
    if act == "remove":
        with contextlib.suppress(PasswordDeleteError):
            keyring.delete_password(SERVICE, name)
        return None
    if act == "put":
        keyring.set_password(SERVICE, name, secret)
    found = keyring.get_password(SERVICE, name)
    if act == "put" and found != secret:
        raise _DiscardingKeyring
    return found if act == "find" else None


def _ask_child(question: dict[str, str], environment: Mapping[str, str] | None, deadline: float | None) -> object:
    environment = os.environ if environment is None else environment
    seconds = min(_deadline_seconds(environment), _LONGEST_WAIT if deadline is None else deadline)
    try:
        child = subprocess.run(
            processes.own_command(COMMAND),
            env=processes.child_environment(environment),
            input=json.dumps({**question, "seconds": seconds}).encode() + b"\n",
            capture_output=True,
            timeout=seconds,
            creationflags=processes.NO_WINDOW,
        )
        outcome: dict[str, Any] = json.loads(child.stdout[:_LONGEST])
    except subprocess.TimeoutExpired as error:
        raise KeyringUnavailable(f"it did not respond within {seconds:g} seconds") from error
    except (OSError, ValueError) as error:
        raise KeyringUnavailable("the process that accesses it failed") from error
    if "failed" in outcome:
        raise KeyringUnavailable(str(outcome["failed"]))
    return outcome.get("found")


def _deadline_seconds(environment: Mapping[str, str]) -> float:
    try:
        return min(_LONGEST_WAIT, max(0.1, float(environment.get(DEADLINE_VARIABLE) or _DEADLINE)))
    except ValueError:
        return _DEADLINE
